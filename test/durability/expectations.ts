/**
 * The model: which nodes may be admitted from which state, which steps run in which order, and in which state they end.
 * Written from the rules (docs/rules) and the lifecycle as data, independently of the code under test.
 */
import lifecycle from "./lifecycle.json" with { type: "json" };
import { AT_REST } from "./rules.ts";

/** The rules of each verb apart from its phases and its end. */
const VERBS = {
  MANAGE: { mutation: "manageNodes", inMaintenance: true },
  INSPECT: { mutation: "inspectNodes", inMaintenance: true },
  CLEAN: { mutation: "cleanNodes", endsWhatRuns: true },
  PROVIDE: { mutation: "provideNodes", endsWhatRuns: true, putsInService: true },
  COMMISSION: { mutation: "commissionNodes", endsWhatRuns: true, putsInService: true },
  DEPLOY: { mutation: "deployNodes", endsWhatRuns: true, putsInService: true },
  UNDEPLOY: { mutation: "undeployNodes", endsWhatRuns: true, inMaintenance: true },
  REDEPLOY: { mutation: "redeployNodes", endsWhatRuns: true, putsInService: true },
  DECOMMISSION: { mutation: "decommissionNodes", endsWhatRuns: true, inMaintenance: true },
  POWER: { mutation: "setPower", inMaintenance: true },
  BOOT_DEVICE: { mutation: "setBootDevice", inMaintenance: true },
} as const;
export type Kind = keyof typeof VERBS;
export const KINDS = Object.keys(VERBS) as readonly Kind[];

interface Rules {
  readonly mutation: string;
  readonly inMaintenance?: true;
  readonly endsWhatRuns?: true;
  readonly putsInService?: true;
}

export function rulesOf(kind: Kind): Rules {
  return VERBS[kind];
}

/** Kind of operation that each mutation starts. A restart starts one of the kind that it continues. */
export const KIND_OF: Readonly<Record<string, Kind>> = Object.fromEntries(
  KINDS.map((kind) => [VERBS[kind].mutation, kind]),
);

export interface Options {
  readonly until?: "AVAILABLE" | "ACTIVE";
  /** The facts contain no stage, so every commission of the model keeps nothing. */
  readonly from?: "BEGINNING";
  readonly reinstall?: boolean;
  readonly force?: boolean;
  readonly powerAction?: "ON" | "OFF" | "REBOOT";
  readonly bootDevice?: { readonly device: "DISK"; readonly persistent: boolean };
  readonly steps?: readonly {
    readonly interface: "clean" | "power" | "engine";
    readonly name: string;
    readonly args: Record<string, string | number>;
  }[];
}

/** The facts about a node at the time of a request. */
export interface Facts {
  readonly state: string;
  readonly busy: boolean;
  readonly maintenance: boolean;
  readonly isProtected: boolean;
  readonly isRetired: boolean;
  readonly disappeared: boolean;
  /** Target of the newest work that moves the state; null: there was none. */
  readonly lastTarget?: string | null;
  readonly fault: "BMC_UNREACHABLE" | "CLEAN_UP_FAILED" | "MACHINE_BUSY" | null;
}

/** States from which the table lets a user's verb take an event. */
function statesWith(event: string): readonly string[] {
  return lifecycle.transitions
    .filter((row) => row.event === event && row.by === "verb" && row.scope === "core" && AT_REST.has(row.from))
    .map(({ from }) => from);
}

/** The missing phases, by state of the node. */
const MISSING: Readonly<Record<string, readonly string[]>> = {
  ENROLLED: ["verify", "inspect", "clean", "deploy"],
  DECOMMISSIONED: ["verify", "inspect", "clean", "deploy"],
  // The progress is unknown.
  STOPPED: ["verify", "inspect", "clean", "deploy"],
  MANAGEABLE: ["inspect", "clean", "deploy"],
  INSPECT_FAILED: ["inspect", "clean", "deploy"],
  CLEAN_FAILED: ["clean", "deploy"],
  AVAILABLE: ["deploy"],
  DEPLOY_FAILED: ["deploy"],
  UNDEPLOY_FAILED: ["undeploy", "clean", "deploy"],
};

/** The phases that undo a deployment before a node may leave service. */
const TO_UNDO: Readonly<Record<string, readonly string[]>> = {
  ENROLLED: [],
  DECOMMISSIONED: [],
  AVAILABLE: [],
  MANAGEABLE: ["clean"],
  INSPECT_FAILED: ["clean"],
  CLEAN_FAILED: ["clean"],
  ACTIVE: ["undeploy", "clean"],
  STOPPED: ["undeploy", "clean"],
  DEPLOY_FAILED: ["undeploy", "clean"],
  UNDEPLOY_FAILED: ["undeploy", "clean"],
};

/** The phases of a verb on a node at rest; null if it is not allowed. */
export function phasesOf(
  kind: Kind,
  state: string,
  { until = "ACTIVE", reinstall }: Options,
): readonly string[] | null {
  const from = (states: readonly string[], phases: readonly string[]) => (states.includes(state) ? phases : null);
  switch (kind) {
    case "MANAGE":
      return from(["ENROLLED", ...statesWith("manage")], ["verify"]);
    case "INSPECT":
      // The fake driver inspects without a reboot.
      return from(["MANAGEABLE", "INSPECT_FAILED", "AVAILABLE", "ACTIVE"], ["inspect"]);
    case "CLEAN":
      return from(["MANAGEABLE", "AVAILABLE", "CLEAN_FAILED", "DECOMMISSIONED"], ["clean"]);
    case "PROVIDE":
      return from(["MANAGEABLE", "CLEAN_FAILED"], ["clean"]);
    case "COMMISSION":
      if (until === "AVAILABLE" && state === "DEPLOY_FAILED") return ["undeploy", "clean"];
      return MISSING[state]?.filter((phase) => until === "ACTIVE" || phase !== "deploy") ?? null;
    case "DEPLOY":
      return from(["AVAILABLE", "DEPLOY_FAILED", ...(reinstall ? ["ACTIVE"] : [])], ["deploy"]);
    case "UNDEPLOY":
      return from(statesWith("undeploy"), ["undeploy", "clean"]);
    case "REDEPLOY":
      return from(reinstall ? ["ACTIVE"] : [], ["undeploy", "clean", "deploy"]);
    case "DECOMMISSION":
      return TO_UNDO[state] ?? null;
    case "POWER":
    case "BOOT_DEVICE":
      return AT_REST.has(state) ? ["power"] : null;
  }
}

/** Automatic steps of the driver fake by phase, as its documentation has them. */
export const STEPS: Readonly<Record<string, readonly string[]>> = {
  verify: ["power.verify"],
  inspect: ["inspect.collect_inventory"],
  clean: ["clean.erase_metadata", "clean.erase_disks"],
  deploy: ["deploy.prepare", "deploy.write_image", "deploy.boot_system", "deploy.configure"],
  undeploy: ["deploy.remove_system"],
};

/** The steps, in order; null if the verb is not allowed. A machine in maintenance is checked before it is cleaned. */
export function stepsOf(
  kind: Kind,
  { state, maintenance }: Pick<Facts, "state" | "maintenance">,
  options: Options,
): readonly string[] | null {
  const power = { ON: "power.power_on", OFF: "power.power_off", REBOOT: "power.reboot" }[options.powerAction ?? "OFF"];
  const list = (phase: string) =>
    phase === "power"
      ? [kind === "BOOT_DEVICE" ? "power.boot_device" : power]
      : kind === "CLEAN" && options.steps
        ? options.steps.map((step) => `${step.interface}.${step.name}`)
        : [...(maintenance && phase === "clean" ? ["power.verify"] : []), ...(STEPS[phase] ?? [])];
  return phasesOf(kind, state, options)?.flatMap(list) ?? null;
}

/** Final state of a node after success. A retired one does not become available. */
export function endOf(
  kind: Kind,
  { state, isRetired, lastTarget }: Pick<Facts, "state" | "isRetired" | "lastTarget">,
  { until = "ACTIVE", steps }: Options,
): string {
  const available = isRetired && state !== "AVAILABLE" ? "MANAGEABLE" : "AVAILABLE";
  switch (kind) {
    case "MANAGE":
      return "MANAGEABLE";
    case "INSPECT":
      return state === "INSPECT_FAILED" ? "MANAGEABLE" : state;
    case "CLEAN":
      return state === "CLEAN_FAILED" ? (steps || lastTarget === "MANAGEABLE" ? "MANAGEABLE" : available) : state;
    case "PROVIDE":
      return available;
    case "COMMISSION":
      return until === "ACTIVE" ? "ACTIVE" : available;
    case "DEPLOY":
    case "REDEPLOY":
      return "ACTIVE";
    case "UNDEPLOY":
      return available;
    case "DECOMMISSION":
      return "DECOMMISSIONED";
    case "POWER":
    case "BOOT_DEVICE":
      return state;
  }
}

/** Whether the request would deploy on a machine in the unknown condition that a failed clean-up leaves. */
export function deploysWithoutCleaning(kind: Kind, state: string, options: Options): boolean {
  const phases = phasesOf(kind, state, options) ?? [];
  return phases.includes("deploy") && !phases.includes("clean");
}

/** Whether the request would touch a machine that may be writing its firmware. */
export function touchesMachine(kind: Kind, state: string, options: Options): boolean {
  const phases = phasesOf(kind, state, options) ?? [];
  return (
    phases.some((phase) => phase === "clean" || phase === "deploy" || phase === "undeploy") ||
    (kind === "POWER" && options.powerAction !== "ON")
  );
}

/** The codes with which a node may be refused; empty: it must be admitted. */
export function reasonsAgainst(kind: Kind, facts: Facts, options: Options): readonly string[] {
  const { state, busy, maintenance, isProtected, isRetired, disappeared, fault } = facts;
  const { inMaintenance, endsWhatRuns, putsInService } = rulesOf(kind);
  return [
    ...(busy ? ["BUSY"] : []),
    ...(maintenance && !inMaintenance ? ["IN_MAINTENANCE"] : []),
    ...(isProtected && (endsWhatRuns || (kind === "POWER" && options.powerAction !== "ON")) ? ["PROTECTED"] : []),
    ...(isRetired && putsInService ? ["PROTECTED"] : []),
    ...(disappeared && !options.force ? ["INVALID_STATE"] : []),
    ...(fault === "BMC_UNREACHABLE" && kind !== "MANAGE" && !options.force ? ["INVALID_STATE"] : []),
    ...(fault === "CLEAN_UP_FAILED" && deploysWithoutCleaning(kind, state, options) && !options.force
      ? ["INVALID_STATE"]
      : []),
    ...(fault === "MACHINE_BUSY" && touchesMachine(kind, state, options) && !options.force ? ["INVALID_STATE"] : []),
    ...(!busy && phasesOf(kind, state, options) === null ? ["INVALID_STATE"] : []),
    // An update of firmware requires a version.
    ...(options.steps?.some(({ name, args }) => name === "update_firmware" && !("version" in args))
      ? ["INVALID_INPUT"]
      : []),
  ];
}
