/** A change of one node by `updateNodes`, as most tests need it. */
import type { Engine } from "../../src/engine/engine.ts";
import type { NodePatch } from "../../src/engine/inventory/node-patch.ts";
import type { UpdatedNodes } from "../../src/engine/inventory/update-nodes.ts";
import type { Caller } from "../../src/engine/transaction.ts";

type NodeChange = Omit<NodePatch, "labels"> & {
  readonly labels?: Readonly<Record<string, string>> | undefined;
  readonly ifRevision?: number | undefined;
};

/** `ifRevision`: the revision that the node must have. */
export function changeNode(
  engine: Engine,
  caller: Caller,
  nodeId: string,
  { ifRevision, labels, ...fields }: NodeChange,
): Promise<UpdatedNodes> {
  return engine.updateNodes(caller, {
    ...(ifRevision === undefined ? { nodes: { ids: [nodeId] } } : { revisions: [{ nodeId, revision: ifRevision }] }),
    acceptance: "ALL_OR_NOTHING",
    dryRun: false,
    patch: { ...fields, labels: labels && Object.entries(labels).map(([key, value]) => ({ key, value })) },
  });
}
