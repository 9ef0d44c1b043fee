/**
 * The identities of nodes that an older release has stored: they are recorded once, at the first start, from the
 * settings and the newest inventories. Conflicts among them are marked, and refuse nothing that runs.
 */
import type { Registry } from "../../drivers/registry.ts";
import { insertIdentities, lockAllIdentities } from "../../store/nodes/node-identities.ts";
import type { Identity } from "../../store/nodes/node-identities.ts";
import { newestInventories, nodeVersionsAfterName, nodesByIds, secretsOfNodes } from "../../store/nodes/nodes.ts";
import type { NodeRow, Secrets } from "../../store/nodes/nodes.ts";
import type { Tx } from "../../store/postgres/database.ts";
import type { JsonObject } from "../../store/records.ts";
import { lockSite, noteIdentitiesRecorded, readSite } from "../../store/site.ts";
import type { EngineContext } from "../context.ts";
import { controllersOf, inventoryMacIdentities, reportedIdentities } from "../input/machine-identities.ts";
import { findConflicts } from "./controller-conflicts.ts";

/** Nodes that are read together, with their inventories. */
const PAGE = 200;

export async function recordKnownIdentities({ transact, registry }: EngineContext): Promise<void> {
  await transact(async ({ tx }) => {
    if ((await readSite(tx)).identitiesAt !== null) return;
    await lockAllIdentities(tx);
    // Another replica may have recorded them meanwhile.
    if ((await lockSite(tx)).identitiesAt !== null) return;
    for (let last: string | null = null; ;) {
      const ids = (await nodeVersionsAfterName(tx, undefined, last, PAGE)).map(({ id }) => id);
      if (ids.length === 0) break;
      const page = await nodesByIds(tx, ids);
      await recordPage(tx, registry, page);
      last = page.reduce((greatest, { name }) => (name > greatest ? name : greatest), "");
    }
    await noteIdentitiesRecorded(tx);
  });
}

async function recordPage(tx: Tx, registry: Registry, nodes: readonly NodeRow[]): Promise<void> {
  const ids = nodes.map(({ id }) => id);
  const [secrets, inventories] = [await secretsOfNodes(tx, ids), await newestInventories(tx, ids)];
  const rows = nodes.flatMap((node) => {
    const identities = [
      ...controllersIn(registry, node, secrets.get(node.id) ?? {}),
      ...identitiesIn(inventories.get(node.id)?.data ?? {}, node.macs),
    ];
    return identities.map((identity) => ({ ...identity, nodeId: node.id }));
  });
  await insertIdentities(tx, rows);
  await findConflicts(tx, ids);
}

/** A driver that is not loaded, or fails, reports no controller. */
function controllersIn(registry: Registry, node: NodeRow, secrets: Secrets): Identity[] {
  const drivers = Object.keys(node.settings).flatMap((name) => registry.get(name) ?? []);
  return drivers.flatMap((driver) => {
    try {
      const isShared = node.sharedController === true;
      return controllersOf([driver], node.settings, secrets).map((one) => ({ ...one, isShared }));
    } catch {
      return [];
    }
  });
}

function identitiesIn(inventory: JsonObject, macs: readonly string[]): Identity[] {
  return [
    ...reportedIdentities(inventory),
    ...inventoryMacIdentities(inventory).filter(({ value }) => !macs.includes(value)),
  ];
}
