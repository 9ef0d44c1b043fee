/**
 * Forecasts: what an interrupt would make of each run, in a dry run. The facts are read without a lock; the decisions
 * are those of the interrupt itself and of the workers that carry it out (lifecycle/forecast.ts).
 */
import type { Forecast, ForecastFacts } from "../../lifecycle/forecast.ts";
import { abortForecast, stopForecast, unchanged } from "../../lifecycle/forecast.ts";
import { judgeAbort } from "../../lifecycle/interrupts.ts";
import type { RunFacts } from "../../lifecycle/interrupts.ts";
import { attemptsUnderWay } from "../../store/runs/attempts.ts";
import { begunSteps } from "../../store/runs/begun-steps.ts";
import type { BegunSteps } from "../../store/runs/begun-steps.ts";
import { nodeStatesByIds } from "../../store/nodes/nodes.ts";
import type { Reader } from "../../store/postgres/database.ts";
import { plansByHashes } from "../../store/runs/plans.ts";
import type { RunRow } from "../../store/runs/runs.ts";
import { idsOf, nodeIdsOf } from "../input/ids.ts";
import type { ForecastEntry, NodeAnswer, StepUnderWay } from "../input/answers.ts";
import { NOTHING } from "../input/forecast-entries.ts";
import { nextPosition } from "../plans/plan.ts";
import { isAbortedByCaller } from "../scheduling/abort-outcome.ts";
import { endedByStop } from "../scheduling/waiting-runs.ts";
import { stepUnderWay } from "./step-under-way.ts";

/** A run with the facts that its forecast follows from. */
export interface ForecastRun {
  readonly run: RunRow;
  readonly node: NonNullable<NodeAnswer["node"]>;
  readonly facts: ForecastFacts;
  /** The step that has begun and not ended. */
  readonly step: RunFacts["step"];
  readonly underWay: StepUnderWay | null;
}

/** The facts about unfinished runs, by run. Runs of deleted nodes are left out. */
export async function readForecastRuns(reader: Reader, runs: readonly RunRow[]): Promise<Map<string, ForecastRun>> {
  const runIds = idsOf(runs);
  const plans = await plansByHashes(reader, [...new Set(runs.map(({ planHash }) => planHash))]);
  const attempts = await attemptsUnderWay(reader, runIds);
  const begun = await begunSteps(reader, runIds);
  const ended = new Set(idsOf(await endedByStop(reader, runs)));
  const rows = await nodeStatesByIds(reader, nodeIdsOf(runs));
  const nodes = new Map(rows.map((node) => [node.id, node]));
  return new Map(
    runs.flatMap((run): [string, ForecastRun][] => {
      const plan = plans.get(run.planHash);
      const node = nodes.get(run.nodeId);
      if (!plan || !node) return [];
      const attempt = attempts.get(run.id);
      const progress = begun.get(run.id) ?? NOT_BEGUN;
      const step = stepUnderWay(plan.steps[run.position], attempt);
      const position = attempt?.state === "SUCCEEDED" ? run.position + 1 : run.position;
      const facts: ForecastFacts = {
        state: run.state,
        hasFailed: run.interruptFailure !== null,
        nodeState: node.state,
        target: run.target,
        phase: plan.legs[run.leg]?.phase,
        bestEffort: plan.bestEffort,
        ...(plan.inService && { inService: true }),
        ...(plan.keepsPower && { keepsPower: true }),
        steps: plan.steps,
        begun: progress.begun,
        step,
        workLeft: {
          now: nextPosition(plan, position) < plan.steps.length,
          afterStep: nextPosition(plan, run.position + 1) < plan.steps.length,
        },
        endsByStop: ended.has(run.id),
        retries: run.waitReason === "RETRY",
      };
      const { elapsedSeconds, leftSeconds } = progress;
      const driver = plan.steps[run.position]?.driver ?? "";
      const underWay = step && { label: step.name, driver, model: node.model, elapsedSeconds, leftSeconds };
      return [[run.id, { run, node, facts, step, underWay }]];
    }),
  );
}

const NOT_BEGUN: BegunSteps = { begun: new Set(), elapsedSeconds: 0, leftSeconds: 0 };

/** The effect of a request on a run that an earlier interrupt ends already: none, but the run ends by that one. */
export function endingAlready({ run, facts, step }: ForecastRun): Forecast {
  if (!isAbortedByCaller(run)) return { ...stopForecast(facts), effect: "NONE" };
  const { nodeName: name, nodeId: id, interruptMode, powerOff } = run;
  const mode = interruptMode ?? "NOW";
  const verdict = judgeAbort({ id, name }, { ...run, step }, mode);
  if (!verdict.accepted) return unchanged(facts);
  return { ...abortForecast(facts, verdict, { mode, powerOff }), effect: "NONE" };
}

/** The effect of a request on the run of a node. */
export function entryOf(answer: NodeAnswer, { node, underWay }: ForecastRun, forecast: Forecast): ForecastEntry {
  return { ...forecast, answer: { ...answer, node }, count: 1, step: underWay };
}

/** Of a run that has ended, or whose node was deleted. */
export function endedEntry(answer: NodeAnswer, { state }: Pick<RunRow, "state">): ForecastEntry {
  const isUnfinished = state === "QUEUED" || state === "RUNNING" || state === "WAITING" || state === "HOLDING";
  return { ...NOTHING, endsAs: isUnfinished ? null : state, answer };
}
