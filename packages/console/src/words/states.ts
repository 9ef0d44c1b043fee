/** How states look: a family has a color and a shape, so that no meaning depends on color alone. */

export const FAMILIES = ["failed", "working", "waiting", "active", "rest", "aside"] as const;
export type Family = (typeof FAMILIES)[number];

export const FAMILY_NAMES: Readonly<Record<Family, string>> = {
  failed: "Failed",
  working: "Working",
  waiting: "Waiting or on hold",
  active: "Active",
  rest: "At rest",
  aside: "Stopped or decommissioned",
};

/** The family of a node by the name of its state alone, so that a state of a newer service has one too. */
export function familyOf(state: string): Family {
  if (state.endsWith("_FAILED")) return "failed";
  if (state.endsWith("_WAIT") || state.endsWith("_HOLD")) return "waiting";
  if (state.endsWith("ING")) return "working";
  if (state === "ACTIVE") return "active";
  if (state === "STOPPED" || state === "DECOMMISSIONED") return "aside";
  return "rest";
}

interface Node {
  readonly state: string;
  readonly lastError: object | null;
  readonly maintenance: object | null;
}

/** On the map: a node that was cleaned up after a failure has failed until other work follows. */
export function nodeFamilyOf({ state, lastError, maintenance }: Node): Family {
  const family = familyOf(state);
  return lastError && !maintenance && (family === "rest" || family === "active") ? "failed" : family;
}

const RUN_FAMILIES: Readonly<Record<string, Family>> = {
  FAILED: "failed",
  ABORTED: "failed",
  RUNNING: "working",
  ABORTING: "working",
  STOPPING: "working",
  WAITING: "waiting",
  HOLDING: "waiting",
  SUCCEEDED: "active",
  PARTIALLY_SUCCEEDED: "failed",
  SUCCEEDED_WITH_ERRORS: "aside",
  STOPPED: "aside",
  UNDONE: "aside",
  KEPT: "active",
  SKIPPED: "rest",
};

/** Of a state of a run, a step or an operation. */
export function workFamilyOf(state: string): Family {
  return RUN_FAMILIES[state] ?? "rest";
}

/** States of runs as a bar shows them: what ended well first, what has not begun last. */
export const RUN_ORDER = [
  "SUCCEEDED",
  "FAILED",
  "ABORTED",
  "UNDONE",
  "STOPPED",
  "RUNNING",
  "WAITING",
  "HOLDING",
  "QUEUED",
];
/** The same, those that need a person first; a state of a newer service comes before all. */
const URGENCY = ["FAILED", "ABORTED", "HOLDING", "WAITING", "RUNNING", "QUEUED", "STOPPED", "UNDONE", "SUCCEEDED"];
export const urgencyOf = (state: string) => URGENCY.indexOf(state);

/** `DEPLOY_FAILED` → `Deploy failed`. */
export function sentenceCase(value: string): string {
  const words = value.toLowerCase().replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}
