/** How states look: a family has a color and a shape, so that no meaning depends on color alone. */
import type { NodeState } from "../api/generated/graphql.ts";

export type Family = "rest" | "working" | "waiting" | "active" | "failed" | "aside";

/** By the name alone, so that a state of a newer service has a family too. */
export function familyOf(state: NodeState): Family {
  if (state.endsWith("_FAILED")) return "failed";
  if (state.endsWith("_WAIT") || state.endsWith("_HOLD")) return "waiting";
  if (state.endsWith("ING")) return "working";
  if (state === "ACTIVE") return "active";
  if (state === "STOPPED" || state === "DECOMMISSIONED") return "aside";
  return "rest";
}

/** `DEPLOY_FAILED` → `Deploy failed`. */
export function sentenceCase(value: string): string {
  const words = value.toLowerCase().replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}
