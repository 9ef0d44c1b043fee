/** Global IDs: opaque to clients, and composed of type and key. */

import { isUuid } from "../../runtime/uuid.ts";
import type { IdType } from "../../store/global-id.ts";

export { globalId } from "../../store/global-id.ts";
export type { IdType };

/** The key in a global ID of that type. Any other text is returned as it is, and matches no object. */
export function keyOf(type: IdType, id: string): string {
  const read = readId(id);
  return read?.type === type ? read.key : id;
}

/** The text if it is a UUID, otherwise a UUID that matches no object. For filters by ID. */
export function uuidOrNone(text: string): string {
  return isUuid(text) ? text : "00000000-0000-0000-0000-000000000000";
}

export function readId(id: string): { readonly type: IdType; readonly key: string } | null {
  const match = /^(Node|Cluster|Operation|Run|Driver|Transition|Inventory|Runbook|Image):(.+)$/.exec(
    Buffer.from(id, "base64url").toString("utf8"),
  );
  return match ? { type: match[1] as IdType, key: match[2] ?? "" } : null;
}
