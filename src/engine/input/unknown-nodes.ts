/** The refusal of nodes that do not exist. */
import type { Refusal } from "../../errors.ts";
import { countedRefs } from "./answers.ts";
import { listed } from "./name-rules.ts";

/** `refs`: names or ids as the request has them. `path`: where they are in the request. */
export function unknownNodes(refs: readonly string[], path?: readonly string[]): Refusal {
  const [subject, verb] = refs.length === 1 ? ["Node", "does"] : ["Nodes", "do"];
  const message = `${subject} ${listed(refs)} ${verb} not exist.`;
  return {
    code: "NOT_FOUND",
    message,
    missing: refs,
    ...(path && { path }),
    ...(refs.length > 1 && { nodes: countedRefs(refs) }),
  };
}
