/** Refusals of nodes that were not found. */
import type { Refusal } from "../../errors.ts";
import { countedRefs } from "./answers.ts";
import { listed } from "./name-rules.ts";

/** Nodes that do not exist. `refs`: names or ids as the request has them. `path`: where they are in the request. */
export function unknownNodes(refs: readonly string[], path?: readonly string[]): Refusal {
  const [subject, verb] = refs.length === 1 ? ["Node", "does"] : ["Nodes", "do"];
  return missingNodes(refs, `${subject} ${listed(refs)} ${verb} not exist.`, path);
}

/** Nodes that do not exist where the request looks for them. */
export function missingNodes(refs: readonly string[], message: string, path?: readonly string[]): Refusal {
  return {
    code: "NOT_FOUND",
    message,
    missing: refs,
    ...(path && { path }),
    ...(refs.length > 1 && { nodes: countedRefs(refs) }),
  };
}
