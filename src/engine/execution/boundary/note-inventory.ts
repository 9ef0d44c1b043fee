/** Stores the results of an inspection: the inventory, and the identities of the machine. */
import { randomUUID } from "node:crypto";
import { isSameJson } from "../../../runtime/canonical-json.ts";
import { cutTo } from "../../../runtime/text.ts";
import { latestOutputs } from "../../../store/runs/attempts.ts";
import {
  identitiesOf,
  insertIdentities,
  isHeldElsewhere,
  lockValues,
  refreshConflicts,
  replaceIdentities,
  tryLockValues,
} from "../../../store/nodes/node-identities.ts";
import type { Identity } from "../../../store/nodes/node-identities.ts";
import { takeInspectedMacs } from "../../../store/nodes/node-macs.ts";
import { nodesByIds } from "../../../store/nodes/nodes.ts";
import type { JsonObject, PlannedStep, StoredJson } from "../../../store/records.ts";
import { readSite } from "../../../store/site.ts";
import {
  INSPECTED_KINDS,
  inventoryMacIdentities,
  inventoryMacs,
  reportedIdentities,
  sharedValues,
} from "../../input/machine-identities.ts";
import { isJsonObject } from "../../input/variables.ts";
import { nextPosition, stepLabel } from "../../plans/plan.ts";
import { changeNode } from "../claim/claimed-run.ts";
import type { RunContext } from "../claim/claimed-run.ts";
import { NeedsOwnTransactionError } from "../commit/ledger.ts";

const MODEL_LENGTH_MAX = 255;

/**
 * After the last inspect step of a driver, merges the outputs of its steps, and of those of the drivers before it, into
 * the inventory. Outputs of steps that an earlier run completed count too. A text `model` in the result becomes the
 * node's model. Returns the inventory; null if the driver has more steps.
 */
export async function noteInventory(
  context: RunContext,
  position: number,
  output: StoredJson,
): Promise<JsonObject | null> {
  const { ledger, claimed } = context;
  const { plan, run, node } = claimed;
  const { leg, driver } = plan.steps[position] ?? {};
  const next = plan.steps[nextPosition(plan, position + 1)];
  if (next?.leg === leg && next?.driver === driver) return null;
  const counts = (step: PlannedStep, index: number) =>
    step.leg === leg && (index < position || (index > position && step.driver === driver));
  const labels = plan.steps.filter(counts).map((step) => stepLabel(step) ?? "");
  const others = labels.length === 0 ? [] : await latestOutputs(ledger.transaction.tx, run.id, labels);
  const outputs = plan.steps.map((step, index) => {
    if (index === position) return output;
    const isOf = (one: { readonly label: string; readonly driver: string }) =>
      one.label === stepLabel(step) && one.driver === step.driver;
    return counts(step, index) ? others.find(isOf)?.output : null;
  });
  const data = merged(outputs.filter(isJsonObject));
  ledger.addInventory({ id: randomUUID(), nodeId: node.id, runId: run.id, driver: driver ?? null, data });
  const model = typeof data["model"] === "string" ? cutTo(data["model"].trim(), MODEL_LENGTH_MAX) : "";
  if (model !== "" && model !== node.model) changeNode(context, { model });
  const found = inventoryMacs(data);
  // An inventory without network interfaces says nothing about MACs.
  const macs = found.length > 0 ? await takeInspectedMacs(ledger.transaction.tx, node.id, found) : node.macs;
  if (!isSameJson(macs, node.macs)) changeNode(context, { macs });
  await noteIdentities(context, data, macs);
  return data;
}

/** Later outputs replace what earlier ones have; a list that one of them could not complete is then complete. */
function merged(outputs: readonly JsonObject[]): JsonObject {
  // `Object.assign` would lose a key `__proto__`.
  const data: JsonObject = Object.fromEntries(outputs.flatMap((output) => Object.entries(output)));
  const incomplete = outputs.flatMap((output, index) => {
    const names = output["incomplete"];
    const isLater = (name: string) => outputs.slice(index + 1).some((later) => Object.hasOwn(later, name));
    return Array.isArray(names) ? names.filter((name) => typeof name === "string" && !isLater(name)) : [];
  });
  const { incomplete: _own, ...rest } = data;
  return incomplete.length === 0 ? rest : { ...rest, incomplete };
}

/**
 * Stores what identifies the machine, and finds the nodes that seem to be the same one. `macs`: those that the node
 * has. Other nodes are locked only in a transaction of its own.
 */
async function noteIdentities({ ledger, claimed }: RunContext, data: JsonObject, macs: readonly string[]) {
  const { tx } = ledger.transaction;
  const { node } = claimed;
  const kinds = inventoryMacs(data).length > 0 ? INSPECTED_KINDS : (["UUID", "SERIAL_NUMBER"] as const);
  const meaningful = [...reportedIdentities(data), ...inventoryMacIdentities(data)];
  const identities = meaningful.filter(({ kind, value }) => kind !== "MAC" || !macs.includes(value));
  const stored = (await identitiesOf(tx, [node.id], kinds)).get(node.id) ?? [];
  const keysOf = (all: readonly Identity[]) => all.map(({ kind, value }) => `${kind} ${value}`).toSorted();
  if (node.identityConflict === null && isSameJson(keysOf(stored), keysOf(identities))) return;
  if (ledger.hasOwnTransaction) await lockValues(tx, meaningful);
  else if (!(await tryLockValues(tx, meaningful))) throw new NeedsOwnTransactionError();
  const concernsOthers = node.identityConflict !== null || (await isHeldElsewhere(tx, node.id, meaningful));
  if (concernsOthers && !ledger.hasOwnTransaction) throw new NeedsOwnTransactionError();
  if (stored.length > 0) await replaceIdentities(tx, node.id, kinds, identities);
  else
    await insertIdentities(
      tx,
      identities.map((identity) => ({ ...identity, nodeId: node.id })),
    );
  if (!concernsOthers) return;
  await refreshConflicts(tx, [node.id], sharedValues((await readSite(tx)).policy));
  const [current] = await nodesByIds(tx, [node.id]);
  claimed.node = { ...claimed.node, identityConflict: current?.identityConflict ?? null };
}
