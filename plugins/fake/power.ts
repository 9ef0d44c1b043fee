/** Power of fake machines. */
import type { Call, MachineCall, PowerAction, PowerInterface } from "../../src/drivers/driver.ts";
import { FakeError } from "./error.ts";
import type { Journal } from "./journal.ts";
import type { FakeMemory } from "./memory.ts";
import type { ScriptPlayer } from "./script.ts";
import type { FakeSettings } from "./settings.ts";

export interface PowerParts {
  readonly memory: FakeMemory;
  readonly player: ScriptPlayer;
  readonly journal: Journal;
}

export function fakePower({ memory, player, journal }: PowerParts): PowerInterface<FakeSettings> {
  return {
    async read(call) {
      requireAnswer(call, call.node.name);
      const result = await player.play("power.read", call.settings.steps["power.read"] ?? { delayMs: 0 }, call);
      if (result?.kind === "failed") throw new FakeError(result.reason, "OTHER", result.retryable);
      return memory.power(call);
    },
    async set(call: Call<FakeSettings>, action: PowerAction) {
      requireAnswer(call, call.node.name);
      journal({ node: call.node.name, power: action });
      const script = call.settings.steps["power.set"] ?? { delayMs: call.settings.powerDelayMs };
      const result = await player.play("power.set", script, call);
      if (result?.kind === "failed") throw new FakeError(result.reason, "REFUSED", result.retryable);
      await memory.setPower(call, action === "ON" || action === "REBOOT" ? "ON" : "OFF");
    },
    async setBootDevice(call, device, { persistent, mode }) {
      requireAnswer(call, call.node.name);
      journal({ node: call.node.name, boot: device, persistent, ...(mode && { mode }) });
    },
    async readActivity(call) {
      requireAnswer(call, call.node.name);
      const { activity } = call.settings;
      if (activity === undefined)
        throw new FakeError(`The BMC of ${call.node.name} reports no activity.`, "UNSUPPORTED", false);
      return activity;
    },
  };
}

/** Throws unless the BMC answers. `machine`: for the message. */
export function requireAnswer({ settings, signal }: MachineCall<FakeSettings>, machine: string): void {
  signal.throwIfAborted();
  if (settings.dead)
    throw new FakeError(`The BMC of ${machine} does not answer; check its power and its cable.`, "UNREACHABLE", true);
  if (settings.refusesLogin)
    throw new FakeError(
      `The BMC of ${machine} refuses the login; set its credentials with updateNodes.`,
      "AUTHENTICATION",
      false,
    );
}
