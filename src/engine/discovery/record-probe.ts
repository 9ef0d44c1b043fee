/** Records the results of a probe: registers each machine as a node, or finds the node that it is. */
import { addDiscovery, endDiscovery, lockQueuedDiscovery } from "../../store/operations/discoveries.ts";
import type { DiscoveryRow } from "../../store/operations/discoveries.ts";
import { lockValues } from "../../store/nodes/node-identities.ts";
import { nodesByNames } from "../../store/nodes/nodes.ts";
import { lockOperation, operationsByIds } from "../../store/operations/operations.ts";
import type { Reader } from "../../store/postgres/database.ts";
import type { VariablesParts } from "../../store/secrets/secrets.ts";
import { nameKey } from "../../store/names.ts";
import type { EngineParts } from "../context.ts";
import { repeatIfTaken } from "../input/edits.ts";
import { newFailure } from "../input/failures.ts";
import { clusterLockRefusals } from "../inventory/cluster-lock.ts";
import { enrollNodes } from "../inventory/register-nodes.ts";
import type { Transaction } from "../transaction.ts";
import { knownNode } from "./known-node.ts";
import { NAME_LENGTH_MAX } from "./probe-address.ts";
import type { OpenDiscovery, Probed } from "./probe-address.ts";

export type RecordParts = Pick<EngineParts, "transact" | "keyring" | "registry">;

/** Does nothing if the address is no longer queued: then another replica recorded a result, or the discovery ended. */
export async function recordProbe(
  { transact, keyring, registry }: RecordParts,
  discovery: OpenDiscovery,
  { ordinal, address }: Pick<DiscoveryRow, "ordinal" | "address">,
  probed: readonly Probed[],
): Promise<void> {
  const recordAll = async (transaction: Transaction) => {
    const { tx } = transaction;
    const { id } = discovery.operation;
    // In the order of an abort.
    if (probed.length > 1) await lockOperation(tx, id);
    await lockValues(
      tx,
      probed.flatMap((one) => ("failure" in one ? [] : one.identities)),
    );
    if (!(await lockQueuedDiscovery(tx, id, ordinal))) return;
    for (const [index, one] of probed.entries()) {
      const at = index === 0 ? ordinal : await addDiscovery(tx, id, address);
      await record(transaction, { discovery, keyring, registry }, at, one);
    }
  };
  // The cluster may have been deleted meanwhile too.
  return repeatIfTaken(["nodes_name", "nodes_cluster"], () => transact(recordAll));
}

async function record(
  transaction: Transaction,
  { discovery, ...parts }: { readonly discovery: OpenDiscovery } & VariablesParts,
  ordinal: number,
  probed: Probed,
): Promise<void> {
  const { tx } = transaction;
  const { driverName } = discovery;
  const { id } = discovery.operation;
  if ("failure" in probed) return endDiscovery(tx, id, ordinal, { state: "FAILED", failure: probed.failure });
  const { name, ...found } = probed;
  const known = await knownNode(tx, driverName, found);
  if (known !== null) return endDiscovery(tx, id, ordinal, { state: "KNOWN", nodeId: known });
  const [operation] = await operationsByIds(tx, [id]);
  if (!operation) throw new Error(`Discovery ${id} no longer exists.`);
  const { project, clusterId, actor, reason, options } = operation;
  const [locked] = clusterId === null ? [] : await clusterLockRefusals(tx, [clusterId], () => []);
  if (locked) {
    const { code, message } = locked;
    return endDiscovery(tx, id, ordinal, { state: "FAILED", failure: newFailure({ code, message }) });
  }
  const node = {
    name: await freeName(tx, name),
    project,
    driver: driverName,
    ...found,
    labels: options.discovery?.labels ?? {},
    clusterId,
  };
  const [nodeId = ""] = await enrollNodes(transaction, parts, [node], { actor, reason, operationId: id });
  await endDiscovery(tx, id, ordinal, { state: "REGISTERED", nodeId });
}

/** The first of name, name-2, name-3 … that no node has. */
async function freeName(reader: Reader, name: string): Promise<string> {
  const numbered = (number: number) => (number === 1 ? name : `${name.slice(0, NAME_LENGTH_MAX - 10)}-${number}`);
  for (let from = 1, size = 20; ; from += size, size *= 2) {
    const names = Array.from({ length: size }, (_, index) => numbered(from + index));
    const taken = new Set((await nodesByNames(reader, names)).map((node) => nameKey(node.name)));
    const free = names.find((one) => !taken.has(nameKey(one)));
    if (free !== undefined) return free;
  }
}
