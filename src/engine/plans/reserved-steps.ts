/**
 * Reserved steps: the service's own steps, available with every driver and in every list of steps. One table states their
 * names and arguments; the check of arguments and the JSON Schema for clients are made from it.
 *
 * `power.*` changes the node's power through the driver that provides it. `engine.wait` and `engine.hold` call no driver.
 */
import type { PowerAction } from "../../drivers/driver.ts";
import type { JsonObject, PlannedStep, StepChoice } from "../../store/records.ts";

/** Interface of the reserved steps that call no driver. */
export const ENGINE_INTERFACE = "engine";
export const WAIT_STEP = "wait";
export const HOLD_STEP = "hold";
export const HOLD_TITLE = "Hold until an operator lifts it";

/** Name of the reserved step for each power action. */
export const POWER_STEPS: Readonly<Record<PowerAction, string>> = {
  ON: "power_on",
  OFF: "power_off",
  SOFT_OFF: "soft_power_off",
  REBOOT: "reboot",
};

export const POWER_TITLES: Readonly<Record<PowerAction, string>> = {
  ON: "Power on",
  OFF: "Power off",
  SOFT_OFF: "Shut the system down, then power off",
  REBOOT: "Power off, then on",
};

/** Seconds that a soft power off waits for the system (docs/rules.md, section Timeouts). */
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
  | { readonly type: "string"; readonly maxLength: number; readonly description: string };

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
  ...(Object.keys(POWER_STEPS) as PowerAction[]).map((action): ReservedStep => ({
    interface: "power",
    name: POWER_STEPS[action],
    title: POWER_TITLES[action],
    args: action === "SOFT_OFF" ? SOFT_OFF_ARGS : {},
    required: [],
  })),
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

export function isHold(step: Pick<PlannedStep, "interface" | "name">): boolean {
  return step.interface === ENGINE_INTERFACE && step.name === HOLD_STEP;
}

export function isReservedWait(step: Pick<PlannedStep, "interface" | "name">): boolean {
  return step.interface === ENGINE_INTERFACE && step.name === WAIT_STEP;
}

/** Whether a list of steps changes the power with this step, as opposed to the verb `setPower` or a verification. */
export function isReservedPower(step: Pick<PlannedStep, "interface" | "phase">): boolean {
  return step.interface === "power" && step.phase !== "power" && step.phase !== "verify";
}

/** Whether a step to change the power leaves the machine off. */
export function leavesOff({ name }: Pick<PlannedStep, "name">): boolean {
  return name === POWER_STEPS.OFF || name === POWER_STEPS.SOFT_OFF;
}

/** Whether a step belongs to an interface of the service, even if the interface has no step of that name. */
export function isReserved(step: { readonly interface: string }): boolean {
  return RESERVED_STEPS.some((one) => one.interface === step.interface);
}

export function reservedStep(choice: Pick<StepChoice, "interface" | "name">): ReservedStep | undefined {
  return RESERVED_STEPS.find((one) => one.interface === choice.interface && one.name === choice.name);
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
  const step = reservedStep(choice);
  if (!step) {
    const known = RESERVED_STEPS.filter((one) => one.interface === choice.interface).map(({ name }) => name);
    return [{ at: ["name"], what: `there is no such reserved step (there are ${known.join(", ")}).` }];
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
  if (rule.type === "string") return typeof value === "string" && value.length <= rule.maxLength;
  return typeof value === "number" && value >= rule.minimum && value <= rule.maximum;
}

function wording(rule: ArgumentRule): string {
  return rule.type === "string"
    ? `a text of at most ${rule.maxLength} characters`
    : `a number from ${rule.minimum} to ${rule.maximum}`;
}
