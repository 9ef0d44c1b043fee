/** Changes of nodes at once, each in its own way: one statement for their rows, and one for their secrets. */
import { bulkUpdate } from "../postgres/bulk.ts";
import type { Tx } from "../postgres/database.ts";
import type { Keyring } from "../secrets/keyring.ts";
import { putSecrets, SECRETS } from "../secrets/secrets.ts";
import { OPERATOR_COLUMNS } from "./node-fields.ts";
import type { NodeRow } from "./node-fields.ts";
import { replaceMacs } from "./node-macs.ts";
import type { Secrets } from "./nodes.ts";
import { nodes } from "../tables.ts";

const EDITABLE_FIELDS = [
  ...OPERATOR_COLUMNS,
  "name",
  "driver",
  "borrowed",
  "fallbacks",
  "settings",
  "controller",
  "macs",
  "labels",
  "variables",
  "isProtected",
] as const;

/** The change of one node. An absent field stays, null clears. */
export interface NodeEdit {
  readonly nodeId: string;
  readonly change: { readonly [Field in (typeof EDITABLE_FIELDS)[number]]?: NodeRow[Field] };
  /** All secrets of the node from now on; null: they stay. */
  readonly secrets: Secrets | null;
}

const changeNodes = bulkUpdate(nodes, {
  key: ["id"],
  fields: EDITABLE_FIELDS,
  also: ["revision = nodes.revision + 1", "updated_at = now()"],
  isForMany: true,
});

/**
 * Changes nodes that the transaction has locked, and raises their revisions. Violates `nodes_name` or `node_macs_pkey`
 * if another request took a name or a MAC meanwhile.
 */
export async function storeNodeEdits(tx: Tx, keyring: Keyring, edits: readonly NodeEdit[]): Promise<void> {
  if (edits.length === 0) return;
  await changeNodes(
    tx,
    edits.map(({ nodeId, change }) => ({ id: nodeId, change })),
  );
  for (const { nodeId, change } of edits) if (change.macs) await replaceMacs(tx, nodeId, change.macs);
  const secrets = edits.flatMap((edit) => (edit.secrets ? [[edit.nodeId, edit.secrets] as const] : []));
  await putSecrets(tx, keyring, SECRETS.ofNodes, secrets);
}
