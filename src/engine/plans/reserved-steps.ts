/**
 * Reserved steps: the service's own steps, available with every driver and in every list of steps. One table states
 * their names and arguments; the check of arguments and the JSON Schema for clients are made from it.
 *
 * `power.*` changes the node's power, or its boot device, through the driver that provides it. `engine.wait` and
 * `engine.hold` call no driver.
 */
import type { BootDevice } from "../../drivers/driver.ts";
import { BOOT_DEVICES, BOOT_MODES, POWER_CHANGES } from "../../lifecycle/verbs.ts";
import type { BootDeviceName, PowerChange } from "../../lifecycle/verbs.ts";
import type { JsonObject, PlannedStep, StepChoice } from "../../store/records.ts";

/** Interface of the reserved steps that call no driver. */
export const ENGINE_INTERFACE = "engine";
export const WAIT_STEP = "wait";
export const HOLD_STEP = "hold";
export const HOLD_TITLE = "Hold until an operator lifts it";

/** Name of the reserved step for each power action. */
export const POWER_STEPS: Readonly<Record<PowerChange, string>> = {
  ON: "power_on",
  OFF: "power_off",
  SOFT_OFF: "soft_power_off",
  REBOOT: "reboot",
  SOFT_REBOOT: "soft_reboot",
};

/** Reads the power, which proves that the BMC answers and accepts the login. No list of steps may name it. */
export const VERIFY_STEP = "verify";

export function isVerification(step: Pick<PlannedStep, "interface" | "name">): boolean {
  return step.interface === "power" && step.name === VERIFY_STEP;
}

export const BOOT_STEP = "boot_device";
export const BOOT_TITLE = "Set the boot device";

/** The devices by the names of the driver contract. */
export const DRIVER_BOOT_DEVICE: Readonly<Record<BootDeviceName, BootDevice>> = {
  DISK: "DISK",
  NETWORK: "PXE",
  CDROM: "CDROM",
  BIOS: "BIOS",
  HTTP: "HTTP",
};

export const POWER_TITLES: Readonly<Record<PowerChange, string>> = {
  ON: "Power on",
  OFF: "Power off",
  SOFT_OFF: "Shut the system down, then power off",
  REBOOT: "Power off, then on",
  SOFT_REBOOT: "Shut the system down, then power on",
};

/** Seconds that a soft power off waits for the system (docs/rules/timeouts.md). */
export const SOFT_OFF_TIMEOUT = 600;

/** The rule for one argument, which is also its JSON Schema. */
type ArgumentRule =
  | {
      readonly type: "number";
      readonly minimum: number;
      readonly maximum: number;
      readonly default?: number;
      readonly description: string;
    }
  | { readonly type: "string"; readonly maxLength: number; readonly description: string }
  | { readonly type: "string"; readonly enum: readonly string[]; readonly description: string }
  | { readonly type: "boolean"; readonly default: boolean; readonly description: string };

export interface ReservedStep {
  readonly interface: "power" | typeof ENGINE_INTERFACE;
  readonly name: string;
  /** For users. */
  readonly title: string;
  readonly args: Readonly<Record<string, ArgumentRule>>;
  /** Arguments that must be given. */
  readonly required: readonly string[];
}

const SOFT_OFF_ARGS: ReservedStep["args"] = {
  timeoutSeconds: {
    type: "number",
    minimum: 1,
    maximum: 86_400,
    default: SOFT_OFF_TIMEOUT,
    description: "How long the system may take to shut down before the power is cut.",
  },
};

export const RESERVED_STEPS: readonly ReservedStep[] = [
  ...(Object.keys(POWER_CHANGES) as PowerChange[]).map((change): ReservedStep => ({
    interface: "power",
    name: POWER_STEPS[change],
    title: POWER_TITLES[change],
    args: shutsDown(change) ? SOFT_OFF_ARGS : {},
    required: [],
  })),
  {
    interface: "power",
    name: BOOT_STEP,
    title: BOOT_TITLE,
    args: {
      device: { type: "string", enum: Object.keys(BOOT_DEVICES), description: "The device to start from." },
      persistent: { type: "boolean", default: false, description: "Use it for all later starts, not only the next." },
      mode: {
        type: "string",
        enum: Object.keys(BOOT_MODES),
        description: "How the firmware starts it. Absent: as the settings of the node or the machine decide.",
      },
    },
    required: ["device"],
  },
  {
    interface: ENGINE_INTERFACE,
    name: WAIT_STEP,
    title: "Wait for a time",
    args: { seconds: { type: "number", minimum: 0, maximum: 30 * 86_400, description: "How long to wait." } },
    required: ["seconds"],
  },
  {
    interface: ENGINE_INTERFACE,
    name: HOLD_STEP,
    title: HOLD_TITLE,
    args: {
      reason: { type: "string", maxLength: 1_000, description: "The reason, for the operator who lifts the hold." },
    },
    required: [],
  },
];

/** Whether a change of power first asks the system to shut down. */
export function shutsDown(change: PowerChange): boolean {
  return change === "SOFT_OFF" || change === "SOFT_REBOOT";
}

/** The change of power that a step performs; undefined for another step. */
export function powerChangeOf({ name }: Pick<PlannedStep, "name">): PowerChange | undefined {
  return (Object.keys(POWER_STEPS) as PowerChange[]).find((change) => POWER_STEPS[change] === name);
}

export function isHold(step: Pick<PlannedStep, "interface" | "name">): boolean {
  return step.interface === ENGINE_INTERFACE && step.name === HOLD_STEP;
}

export function isReservedWait(step: Pick<PlannedStep, "interface" | "name">): boolean {
  return step.interface === ENGINE_INTERFACE && step.name === WAIT_STEP;
}

/** Whether a list of steps changes the power with this step, as opposed to the verb `setPower` or a verification. */
export function isReservedPower(step: Pick<PlannedStep, "interface" | "name" | "phase">): boolean {
  return step.interface === "power" && powerChangeOf(step) !== undefined && step.phase !== "power";
}

/** Whether a step to change the power leaves the machine off. */
export function leavesOff({ name }: Pick<PlannedStep, "name">): boolean {
  return name === POWER_STEPS.OFF || name === POWER_STEPS.SOFT_OFF;
}

/** Whether a step belongs to an interface of the service, even if the interface has no step of that name. */
export function isReserved(step: { readonly interface: string }): boolean {
  return RESERVED_STEPS.some((one) => one.interface === step.interface);
}

/** JSON Schema of the arguments of a reserved step. */
export function reservedArgsSchema({ args, required }: ReservedStep): JsonObject {
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    type: "object",
    properties: args,
    required,
    additionalProperties: false,
  };
}

/** The flaws of a reserved step, each with its path in the choice. */
export function reservedFlaws(
  choice: StepChoice,
): readonly { readonly at: readonly string[]; readonly what: string }[] {
  const ofInterface = RESERVED_STEPS.filter((one) => one.interface === choice.interface);
  const step = ofInterface.find(({ name }) => name === choice.name);
  if (!step) {
    const known = ofInterface.map(({ name }) => name).join(", ");
    return [{ at: ["name"], what: `there is no such reserved step (there are ${known}).` }];
  }
  const taken = Object.keys(step.args);
  const surplus = Object.keys(choice.args).filter((key) => !taken.includes(key));
  return [
    ...surplus.map((key) => ({
      at: ["args", key],
      what: `it has no argument ${key} (arguments: ${taken.join(", ") || "none"}).`,
    })),
    ...Object.entries(step.args).flatMap(([key, rule]) =>
      fits(rule, choice.args[key], step.required.includes(key))
        ? []
        : [{ at: ["args", key], what: `${key} must be ${wording(rule)}.` }],
    ),
  ];
}

function fits(rule: ArgumentRule, value: unknown, isRequired: boolean): boolean {
  if (value === undefined || value === null) return !isRequired;
  if (rule.type === "boolean") return typeof value === "boolean";
  if (rule.type === "string")
    return typeof value === "string" && ("enum" in rule ? rule.enum.includes(value) : value.length <= rule.maxLength);
  return typeof value === "number" && value >= rule.minimum && value <= rule.maximum;
}

function wording(rule: ArgumentRule): string {
  if (rule.type === "boolean") return "true or false";
  if (rule.type === "number") return `a number from ${rule.minimum} to ${rule.maximum}`;
  return "enum" in rule ? `one of ${rule.enum.join(", ")}` : `a text of at most ${rule.maxLength} characters`;
}
