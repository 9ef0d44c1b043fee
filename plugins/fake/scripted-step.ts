/** Makes a step of the contract from a step of the list: it plays its script, then does its work. */
import type { Step } from "../../src/drivers/driver.ts";
import type { Journal } from "./journal.ts";
import type { ScriptPlayer } from "./script.ts";
import type { FakeSettings } from "./settings.ts";
import type { FakeStep } from "./step-list.ts";

export interface StepParts {
  readonly player: ScriptPlayer;
  readonly journal: Journal;
}

export function scriptedStep(
  interfaceName: "inspect" | "clean" | "deploy",
  { work, verified, ...declaration }: FakeStep,
  { player, journal }: StepParts,
): Step<FakeSettings> {
  const label = `${interfaceName}.${declaration.name}`;
  const step: Step<FakeSettings> = {
    ...declaration,
    async run(call) {
      journal({ node: call.node.name, step: label, attempt: call.attemptKey, memo: call.memo });
      const result = await player.enter(label, call);
      if (result) return result;
      const output = await work?.(call);
      journal({ node: call.node.name, step: label, attempt: call.attemptKey, done: true });
      return output === undefined ? { kind: "done" } : { kind: "done", output };
    },
    async abort(call) {
      journal({ node: call.node.name, step: label, attempt: call.attemptKey, abort: true });
      const script = call.settings.steps["driver.abort"];
      const result = script && (await player.play("driver.abort", script, call));
      if (result?.kind === "failed") throw new Error(result.reason);
    },
  };
  if (!verified) return step;
  const verifyLabel = `${label}.verify`;
  return {
    ...step,
    async verify(call) {
      journal({ node: call.node.name, verify: verifyLabel, attempt: call.attemptKey, memo: call.memo });
      return (await player.enter(verifyLabel, call)) ?? { kind: "done" };
    },
  };
}
