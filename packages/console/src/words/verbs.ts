/** The mutations that the dialog of work sends: their names, answers and terms. */

/** A term of a request; all requests that start work take the terms of STARTED too. */
export type Term =
  | "cluster"
  | "image"
  | "hostGroup"
  | "until"
  | "fromBeginning"
  | "reinstall"
  | "power"
  | "device"
  | "persistent"
  | "mode"
  | "powerOff"
  | "maxParallel"
  | "waves"
  | "haltAt"
  | "onFailure"
  | "variables"
  | "force";

const STARTED: readonly Term[] = ["maxParallel", "waves", "haltAt", "onFailure", "variables", "force"];
const INSTALL: readonly Term[] = ["image", "hostGroup"];

interface Work {
  readonly name: string;
  readonly answers: "START" | "INTERRUPT" | "WAVES" | "MARK";
  readonly terms?: readonly Term[];
  /** Without a reason it is refused. */
  readonly needsReason?: true;
  /** The service stores no reason with it. */
  readonly takesNoReason?: true;
}

export const WORK = {
  manageNodes: { name: "Manage", answers: "START", terms: STARTED },
  inspectNodes: { name: "Inspect", answers: "START", terms: STARTED },
  provideNodes: { name: "Provide", answers: "START", terms: STARTED },
  cleanNodes: { name: "Clean", answers: "START", terms: STARTED },
  commissionNodes: { name: "Commission", answers: "START", terms: ["until", ...INSTALL, ...STARTED, "fromBeginning"] },
  deployNodes: { name: "Deploy", answers: "START", terms: [...INSTALL, "reinstall", ...STARTED] },
  redeployNodes: { name: "Redeploy", answers: "START", terms: [...INSTALL, "reinstall", ...STARTED] },
  undeployNodes: { name: "Undeploy", answers: "START", terms: STARTED },
  decommissionNodes: { name: "Decommission", answers: "START", terms: STARTED },
  setPower: { name: "Change the power of", answers: "START", terms: ["power", ...STARTED] },
  setBootDevice: { name: "Set the boot device of", answers: "START", terms: ["device", "persistent", ...STARTED] },
  applyCluster: { name: "Deploy changes of", answers: "START", terms: ["reinstall", ...STARTED] },
  restart: { name: "Restart", answers: "START", terms: ["fromBeginning", ...STARTED] },
  stop: { name: "Stop", answers: "INTERRUPT" },
  abort: { name: "Abort", answers: "INTERRUPT", terms: ["mode", "powerOff"] },
  withdrawAbort: { name: "Withdraw the abort of", answers: "INTERRUPT" },
  releaseHolds: { name: "Release", answers: "INTERRUPT" },
  haltWaves: { name: "Halt the waves", answers: "WAVES" },
  resumeWaves: { name: "Resume the waves", answers: "WAVES" },
  advanceWaves: { name: "Start the next wave", answers: "WAVES" },
  setMaintenance: { name: "Begin the maintenance of", answers: "MARK", needsReason: true },
  clearMaintenance: { name: "End the maintenance of", answers: "MARK", takesNoReason: true },
  setRetired: { name: "Retire", answers: "MARK", needsReason: true },
  clearRetired: { name: "End the retirement of", answers: "MARK", takesNoReason: true },
  updateNodes: { name: "Protect", answers: "MARK", takesNoReason: true },
  addMembers: { name: "Add to a cluster:", answers: "MARK", terms: ["cluster"], takesNoReason: true },
  removeMembers: { name: "Remove from the cluster:", answers: "MARK", takesNoReason: true },
  deleteNodes: { name: "Delete", answers: "MARK", takesNoReason: true },
} as const satisfies Readonly<Record<string, Work>>;

export type WorkMutation = keyof typeof WORK;
type Answering<Kind> = {
  [Name in WorkMutation]: (typeof WORK)[Name]["answers"] extends Kind ? Name : never;
}[WorkMutation];
export type StartMutation = Answering<"START">;
export type InterruptMutation = Answering<"INTERRUPT">;
export type WavesMutation = Answering<"WAVES">;
export type MarkMutation = Answering<"MARK">;

/** With every property, those that a mutation has none of too. */
export const workOf = (mutation: WorkMutation): Work => WORK[mutation];

/** A service of another version may suggest others. */
export function isWork(mutation: string): mutation is WorkMutation {
  return Object.hasOwn(WORK, mutation);
}

/** Each includes those before it. */
const SCOPES = ["READ", "OPERATE", "MANAGE", "ADMIN"];
/** They change what is registered or set up; the others work with it. */
const MANAGING = ["updateNodes", "addMembers", "removeMembers", "deleteNodes", "updateCluster"];

/** Why a caller with this scope may not send a mutation; null if it may, and for a scope of a newer service. */
export function lackOf(mutation: string, scope: string | null): string | null {
  const needed = MANAGING.includes(mutation) ? "MANAGE" : "OPERATE";
  const rank = SCOPES.indexOf(scope ?? "");
  return rank < 0 || rank >= SCOPES.indexOf(needed) ? null : `It requires ${needed}; you have ${scope}.`;
}

/** In the order of how far they go. */
export const ABORT_MODES = {
  NOW: { name: "Now", meaning: "ends a step that may be cut, waits for one that ends at its boundary." },
  AFTER_STEP: { name: "After the step", meaning: "as Now, but waits for a step that must not be interrupted too." },
  CUT: { name: "Cut", meaning: "as Now, but ends a step at its boundary in the middle too." },
  FORCE: { name: "By force", meaning: "waits for nothing and undoes nothing; the machine may go on working." },
} as const;

/** A request of a person, for one node or many. */
export interface Verb {
  /** As in `Node.actions`. */
  readonly action: string;
  readonly mutation: WorkMutation;
  readonly name: string;
  /** Further input that the verb implies. */
  readonly input?: Readonly<Record<string, unknown>>;
}

/** In the order of their buttons and menus: the most frequent first, what ends work next, then marks. */
export const VERBS: readonly Verb[] = [
  { action: "COMMISSION", mutation: "commissionNodes", name: "Commission" },
  { action: "DEPLOY", mutation: "deployNodes", name: "Deploy" },
  { action: "POWER", mutation: "setPower", name: "Power" },
  { action: "STOP", mutation: "stop", name: "Stop" },
  { action: "ABORT", mutation: "abort", name: "Abort" },
  { action: "RESTART", mutation: "restart", name: "Restart" },
  { action: "REDEPLOY", mutation: "redeployNodes", name: "Redeploy" },
  { action: "UNDEPLOY", mutation: "undeployNodes", name: "Undeploy" },
  { action: "MANAGE", mutation: "manageNodes", name: "Manage" },
  { action: "INSPECT", mutation: "inspectNodes", name: "Inspect" },
  { action: "CLEAN", mutation: "cleanNodes", name: "Clean" },
  { action: "PROVIDE", mutation: "provideNodes", name: "Provide" },
  { action: "DECOMMISSION", mutation: "decommissionNodes", name: "Decommission" },
  { action: "BOOT_DEVICE", mutation: "setBootDevice", name: "Boot device" },
  { action: "RELEASE_HOLDS", mutation: "releaseHolds", name: "Release holds" },
  { action: "WITHDRAW_ABORT", mutation: "withdrawAbort", name: "Withdraw abort" },
  { action: "SET_MAINTENANCE", mutation: "setMaintenance", name: "Begin maintenance" },
  { action: "CLEAR_MAINTENANCE", mutation: "clearMaintenance", name: "End maintenance" },
  { action: "PROTECT", mutation: "updateNodes", name: "Protect", input: { protected: true } },
  { action: "UNPROTECT", mutation: "updateNodes", name: "End protection", input: { protected: false } },
  { action: "SET_RETIRED", mutation: "setRetired", name: "Retire" },
  { action: "CLEAR_RETIRED", mutation: "clearRetired", name: "End retirement" },
  { action: "ADD_TO_CLUSTER", mutation: "addMembers", name: "Add to a cluster" },
  { action: "DELETE", mutation: "deleteNodes", name: "Delete" },
];

/** `Deploy 300 nodes`, `Change the power of rack3-u12`. */
export function workName(mutation: WorkMutation, input: Readonly<Record<string, unknown>>): string {
  return mutation === "updateNodes" && input["protected"] === false ? "End the protection of" : WORK[mutation].name;
}

/** Members of the API in messages of the service, as this page names them. */
const WORDS: readonly (readonly [RegExp, string])[] = [
  [/ with (clearMaintenance|clearRetired|updateNodes)\b/g, ""],
  [/Send reinstall: true to do so\./g, "Choose “Install again where a system runs” to do so."],
];

export function inWordsOfPage(message: string): string {
  return WORDS.reduce((text, [word, other]) => text.replaceAll(word, other), message);
}
