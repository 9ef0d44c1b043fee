/** The id of a GraphQL document, which follows from its text: "Persisted Documents" of GraphQL over HTTP. */
import { createHash } from "node:crypto";

export function documentIdOf(text: string): string {
  return `sha256:${createHash("sha256").update(text).digest("hex")}`;
}
