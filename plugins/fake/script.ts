/** Plays the scripts of a node's settings: delays, waits, failures, silence, and steps that ignore their signal. */
import type { Call, StepCall, StepResult } from "../../src/drivers/driver.ts";
import { passGate, pause, untilOrAborted } from "./gates.ts";
import type { FakeMemory } from "./memory.ts";
import type { FakeSettings, Script } from "./settings.ts";

/** Delay before a step with `stuck` is entered again. */
const STUCK_SECONDS = 0.5;
/** Limit of a wait for a callback if the script sets none. */
const CALLBACK_WAIT_SECONDS = 1800;

/** Calls of power functions cannot report progress. */
type ScriptedCall = Call<FakeSettings> & Partial<Pick<StepCall<FakeSettings>, "progress">>;

export class ScriptPlayer {
  readonly #memory: FakeMemory;

  constructor(memory: FakeMemory) {
    this.#memory = memory;
  }

  /** Waits as the script asks, then plays it. Null if the step is to do its normal work. */
  async enter(label: string, call: StepCall<FakeSettings>): Promise<StepResult | null> {
    const script = call.settings.steps[label] ?? {};
    if (script.stuck) return { kind: "wait", seconds: STUCK_SECONDS, memo: "stuck" };
    const waitSeconds = script.waitSeconds ?? (label === "deploy.boot_system" ? call.settings.waitSeconds : 0);
    if (script.callback && call.memo !== "called") {
      if (call.callback === null) {
        call.log(`waits for a callback at ${call.callbackPath}`);
        const seconds = waitSeconds > 0 ? waitSeconds : CALLBACK_WAIT_SECONDS;
        return { kind: "wait", callback: true, seconds, memo: "waiting" };
      }
    } else if (waitSeconds > 0 && call.memo !== "waited") {
      return { kind: "wait", seconds: waitSeconds, memo: "waited" };
    }
    if (script.junk) return { kind: "perhaps" } as unknown as StepResult;
    return this.play(label, script, call);
  }

  /** Plays a script without its waits. Null if the normal work follows. */
  play(label: string, script: Script, call: ScriptedCall): Promise<StepResult | null> {
    return call.timed(`fake ${label}`, () => this.#play(label, script, call));
  }

  async #play(label: string, script: Script, call: ScriptedCall): Promise<StepResult | null> {
    const signal = script.ignoreSignal ? null : call.signal;
    for (const line of script.says ?? []) call.log(line);
    if (script.gate !== undefined) await passGate(script.gate, call.node.name, signal);
    if (script.silent) await untilOrAborted(new Promise<void>(() => {}), signal);
    const milliseconds = script.delayMs ?? call.settings.delayMs;
    const parts = script.progress && call.progress ? 10 : 1;
    for (let part = 1; part <= parts && milliseconds > 0; part += 1) {
      await pause(milliseconds / parts, signal);
      if (parts > 1) call.progress?.((part / parts) * 100, `${part} of ${parts}`);
    }
    if (script.throws !== undefined) throw new Error(script.throws);
    if (script.fail !== undefined)
      return {
        kind: "failed",
        reason: script.fail,
        retryable: script.retryable ?? false,
        ...(script.atRest && { atRest: true }),
      };
    if (script.failures === undefined) return null;
    const failures = { times: script.failures, retryable: script.retryable ?? true };
    return this.#memory.nextFailure(label, call, failures);
  }
}
