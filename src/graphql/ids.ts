/** Global IDs: opaque to clients, type and UUID to us. */

export type IdType = "Node" | "Cluster" | "Operation" | "Run" | "Driver" | "Transition";

export function globalId(type: IdType, key: string): string {
  return Buffer.from(`${type}:${key}`, "utf8").toString("base64url");
}

/** The key in a global ID of that type; what is no such ID is handed on as it came, and will not be found. */
export function keyOf(type: IdType, id: string): string {
  const read = readId(id);
  return read?.type === type ? read.key : id;
}

export function readId(id: string): { readonly type: IdType; readonly key: string } | null {
  const match = /^(Node|Cluster|Operation|Run|Driver|Transition):(.+)$/.exec(Buffer.from(id, "base64url").toString("utf8"));
  return match ? { type: match[1] as IdType, key: match[2] ?? "" } : null;
}
