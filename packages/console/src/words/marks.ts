/** A mark or a deletion, as a sentence before it: the rule with a number, because these mutations have no plan. */
import { plural } from "./numbers.ts";
import type { MarkMutation } from "./verbs.ts";

export function markSentence(
  mutation: MarkMutation,
  input: Readonly<Record<string, unknown>>,
  nodeCount: number,
): string {
  const nodes = plural(nodeCount, "node");
  const of = nodeCount === 1 ? "it" : "them";
  switch (mutation) {
    case "setMaintenance":
      return `${nodes} refuse${nodeCount === 1 ? "s" : ""} further work until the maintenance ends, but for power, inspection and leaving service. Work that runs pauses after its step.`;
    case "clearMaintenance":
      return `${nodes} accept${nodeCount === 1 ? "s" : ""} work again.`;
    case "setRetired":
      return `${nodes} can no longer be put into service. What runs on ${of} continues.`;
    case "clearRetired":
      return `${nodes} can be put into service again.`;
    case "updateNodes":
      return input["protected"] === false
        ? `Verbs that end what runs on ${nodes} are accepted again.`
        : `Verbs that end what runs on ${nodes} are refused until the protection ends.`;
    case "addMembers":
      return `${nodes} become${nodeCount === 1 ? "s a member" : " members"} of the cluster. Nothing is deployed yet.`;
    case "removeMembers":
      return `${nodes} leave${nodeCount === 1 ? "s" : ""} the cluster. What runs on ${of} continues.`;
    case "deleteNodes":
      return `The service forgets ${nodes}. The history stays, and the ${nodeCount === 1 ? "machine is" : "machines are"} not touched.`;
  }
}
