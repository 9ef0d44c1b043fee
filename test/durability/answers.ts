/** The answer to an abort, a stop or a withdrawal, in the form that the rules check. */
import type { AbortResult } from "../../src/engine/input/interrupt-request.ts";
import type { SubmitAnswer } from "../../src/engine/input/answers.ts";
import type { Ask } from "./rules.ts";

/** The answer to each node, and the code of the refusal of the whole where there is none to any. */
export function answeredOf(answer: SubmitAnswer | AbortResult): Pick<Ask, "answers" | "refused"> {
  const answers = answer.results.map((one) => ({
    nodeId: one.nodeId ?? "",
    runId: one.runId,
    accepted: one.accepted,
    code: one.refusal?.code ?? null,
    effect: "effect" in one ? one.effect : null,
    afterStep: "afterStep" in one ? one.afterStep : null,
  }));
  return { answers, refused: answers.length === 0 ? (answer.refusals[0]?.code ?? "nothing") : null };
}
