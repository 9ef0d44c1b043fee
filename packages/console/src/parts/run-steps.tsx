/** The steps of a run with their attempts, and what it left of the machine. */
import type { Answers } from "../../requests.ts";
import { useRequest } from "../data/queries.ts";
import type { RunRow } from "../data/streams.ts";
import { useThrottled } from "../data/use-throttled.ts";
import { durationText, plural } from "../words/numbers.ts";
import { sentenceCase } from "../words/states.ts";
import { Problem } from "./notices.tsx";
import { WorkState } from "./state-badge.tsx";
import { Text } from "./text.tsx";

type Detail = NonNullable<Answers["runDetail"]["run"]>;
type Step = Detail["steps"][number];

const PAUSE_MS = 1_000;

export function RunSteps({ run }: { readonly run: RunRow }) {
  const { id, state, attempt, currentStep } = run;
  const version = useThrottled(`${state} ${attempt} ${currentStep?.index} ${currentStep?.state}`, PAUSE_MS);
  const { data, error } = useRequest("runDetail", { id }, version);
  if (error) return <Problem error={error} />;
  const detail = data?.run;
  if (!detail) return null;
  return (
    <>
      <ol className="steps">
        {detail.steps.map((step) => (
          <li key={step.index} data-state={step.state}>
            <StepLine step={step} percent={step.index === currentStep?.index ? currentStep.progressPercent : null} />
          </li>
        ))}
      </ol>
      {detail.machineCondition && <Condition condition={detail.machineCondition} />}
    </>
  );
}

function StepLine({ step, percent }: { readonly step: Step; readonly percent: number | null }) {
  const { title, name, interface: kind, state, attempts, failure, estimate } = step;
  const took = durationOf(step);
  return (
    <>
      <span className="step-title">
        <Text>{title}</Text>{" "}
        <small className="quiet">
          {kind.toLowerCase()}.{name}
        </small>
      </span>{" "}
      <WorkState state={state} /> {percent !== null && `${percent} %`}{" "}
      <small className="quiet">
        {took !== null && durationText(took)}
        {estimate &&
          !["SUCCEEDED", "SKIPPED", "KEPT"].includes(state) &&
          ` of about ${durationText(estimate.medianSeconds)}`}
        {attempts.length > 1 && `, ${plural(attempts.length, "attempt")}`}
      </small>
      {failure && (
        <p className="failure">
          <Text>{failure.message}</Text>
        </p>
      )}
      {attempts.length > 1 && (
        <details>
          <summary>Attempts</summary>
          <ol>
            {attempts.map(({ number, part, state: of, failure: why }) => (
              <li key={`${number} ${part}`}>
                {sentenceCase(part)}, <WorkState state={of} /> {why && <Text>{why.message}</Text>}
              </li>
            ))}
          </ol>
        </details>
      )}
    </>
  );
}

/** Seconds; null if the step has not begun. */
function durationOf({ startedAt, finishedAt }: Step): number | null {
  if (startedAt === null) return null;
  return (new Date(finishedAt ?? Date.now()).getTime() - new Date(startedAt).getTime()) / 1_000;
}

function Condition({ condition }: { readonly condition: NonNullable<Detail["machineCondition"]> }) {
  const { power, disksChanged, firmwareChanged, networkAttached, mayBeWorking, cleanUpError } = condition;
  const sentences = [
    `Power ${power.toLowerCase()}`,
    disksChanged ? "disks changed" : "disks unchanged",
    firmwareChanged && "firmware changed",
    networkAttached && "networks attached",
    mayBeWorking && "the machine may still be working",
    cleanUpError !== null && `the clean-up failed: ${cleanUpError}`,
  ].filter((one) => typeof one === "string");
  return (
    <p>
      Left as: <Text>{sentences.join(", ")}</Text>.
    </p>
  );
}
