/** Drivers made in a test, for what the scripts of `fake` cannot say: short timeouts, odd results, no abort. */
import * as z from "zod";
import type {
  Driver,
  InspectInterface,
  MediaInterface,
  PowerInterface,
  PowerState,
  Step,
  StepCall,
  StepInterface,
} from "../../src/drivers/driver.ts";

export type AnySettings = Record<string, unknown>;
export type AnyCall = StepCall<AnySettings>;

interface Parts {
  readonly inspect?: InspectInterface<AnySettings>;
  readonly clean?: StepInterface<AnySettings>;
  readonly deploy?: StepInterface<AnySettings>;
  readonly secret?: true;
  readonly media?: MediaInterface<AnySettings>;
  readonly usesAgent?: true;
  /** Default: it reads all variables. */
  readonly variables?: Driver<AnySettings>["variables"];
}

/** A driver with working power and the interfaces given. */
export function aDriver(name: string, parts: Parts = {}): Driver<never> {
  const { secret, ...interfaces } = parts;
  const states = new Map<string, PowerState>();
  const power: PowerInterface<AnySettings> = {
    read: async ({ node }) => states.get(node.id) ?? "OFF",
    async set({ node }, action) {
      states.set(node.id, action === "ON" || action === "REBOOT" ? "ON" : "OFF");
    },
  };
  const settings = secret
    ? z.looseObject({ password: z.string().optional().meta({ writeOnly: true }) })
    : z.looseObject({});
  return {
    contract: 2,
    name,
    version: "0.0.1",
    description: "Made for a test.",
    settings,
    variables: z.looseObject({}),
    power,
    ...interfaces,
  } as unknown as Driver<never>;
}

/**
 * A step of a driver made in a test: interruptible, idempotent, with a timeout of a minute by default. A deploy step
 * installs the system by default.
 */
export function aStep(
  name: string,
  phase: Step<AnySettings>["phase"],
  run: Step<AnySettings>["run"],
  more: Partial<Step<AnySettings>> = {},
): Step<AnySettings> {
  return {
    name,
    title: name,
    phase,
    priority: 10,
    interruptible: "ALWAYS",
    timeoutSeconds: 60,
    idempotent: true,
    ...(phase === "deploy" && { reaches: "PROVISIONED" }),
    run,
    ...more,
  };
}

/** An interface with these steps that can be aborted. */
export const stepsOf = (...list: Step<AnySettings>[]): StepInterface<AnySettings> => ({
  supportsAbort: true,
  steps: list,
});
