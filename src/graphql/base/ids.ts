/** Global IDs: opaque to clients, type and UUID to us. */

import type { IdType } from "../../store/global-id.ts";

export { globalId } from "../../store/global-id.ts";
export type { IdType };

/** The key in a global ID of that type; what is no such ID is handed on as it came, and will not be found. */
export function keyOf(type: IdType, id: string): string {
  const read = readId(id);
  return read?.type === type ? read.key : id;
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Whether a text can be looked up as a UUID at all: the database fails on anything else. */
export function isUuid(text: string): boolean {
  return UUID.test(text);
}

/** A UUID, or one that matches nothing: in a filter an ID that is none of ours. */
export function uuidOrNone(text: string): string {
  return isUuid(text) ? text : "00000000-0000-0000-0000-000000000000";
}

export function readId(id: string): { readonly type: IdType; readonly key: string } | null {
  const match = /^(Node|Cluster|Operation|Run|Driver|Transition|Inventory):(.+)$/.exec(
    Buffer.from(id, "base64url").toString("utf8"),
  );
  return match ? { type: match[1] as IdType, key: match[2] ?? "" } : null;
}
