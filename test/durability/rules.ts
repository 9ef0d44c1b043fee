/**
 * The rules of stops and aborts (semantics, sections 6 and 7) and of the log, written a second time: nothing here uses
 * the service, or the code it is made of, what is right. Accounts of what happened go in (witness.ts), sentences about
 * what was wrong come out.
 */
import type { Sql } from "postgres";
import lifecycle from "./lifecycle.json" with { type: "json" };
import type { OperationAccount, RunAccount, Seen } from "./witness.ts";

// ---- the lifecycle, as it was designed

/** Where the table of the product differs from the design on purpose, and the decision that says why. */
const DIFFERENCES: readonly {
  readonly decision: string;
  readonly event: string;
  readonly edges: readonly (readonly [from: string, to: string])[];
}[] = [
  { decision: "0001: a node retires unverified", event: "retire", edges: [["ENROLLED", "DECOMMISSIONED"]] },
  // No process holds what waits or is on hold, so nothing is recovered there.
  {
    decision: "0001: a recovered run says so",
    event: "recover",
    edges: statesOf("stable", "failed", "running").map((state) => [state, state] as const),
  },
  {
    decision: "0004: a pending abort is in the log",
    event: "abort_pending",
    edges: statesOf("stable", "failed", "running", "wait", "hold").map((state) => [state, state] as const),
  },
  {
    decision: "0004: a pending abort can be taken back",
    event: "abort_withdrawn",
    edges: statesOf("stable", "failed", "running", "wait", "hold").map((state) => [state, state] as const),
  },
  {
    decision: "0067: the power can be changed while a step waits",
    event: "power_forced",
    edges: statesOf("stable", "failed", "running", "wait", "hold").map((state) => [state, state] as const),
  },
];

function statesOf(...kinds: readonly string[]): string[] {
  return lifecycle.states
    .filter(({ scope, kind }) => scope === "core" && kinds.includes(kind))
    .map(({ state }) => state);
}

/** `FROM event TO` of every edge that may be taken. */
export const EDGES: ReadonlySet<string> = new Set([
  ...lifecycle.transitions
    .filter(({ scope }) => scope === "core")
    .map(({ from, event, to }) => `${from} ${event} ${to}`),
  ...DIFFERENCES.flatMap(({ event, edges }) => edges.map(([from, to]) => `${from} ${event} ${to}`)),
]);

/** Nothing is going on in these. */
export const AT_REST: ReadonlySet<string> = new Set(statesOf("stable", "failed"));

/** Events that say something of a run and move nothing. */
const ASIDES: ReadonlySet<string> = new Set(["recover", "abort_pending", "abort_withdrawn", "power_forced"]);

// ---- the steps of the fake driver, as its documentation has them

export type Cut = "ALWAYS" | "AT_BOUNDARY" | "NEVER";

export const CUT: Readonly<Record<string, Cut>> = {
  "clean.erase_metadata": "AT_BOUNDARY",
  "clean.update_firmware": "NEVER",
  "deploy.configure": "AT_BOUNDARY",
};

/** Whether a step, as in `deploy.configure`, may be cut. */
export function cutOf(step: string): Cut {
  return CUT[step] ?? "ALWAYS";
}

export function labelOf(run: RunAccount, step: number): string {
  const found = run.plan.steps[step];
  return found ? `${found.interface}.${found.name}` : `step ${step}`;
}

// ---- what was asked for

/** An abort, the withdrawal of one, or a stop, and what was answered. */
export interface Ask {
  readonly verb: "ABORT" | "WITHDRAW" | "STOP";
  /** Its own name, so that its traces can be distinguished from those of others. */
  readonly actor: string;
  readonly by: "operation" | "nodes" | "cluster";
  /** The operation that was named; null if it was asked by nodes or cluster. */
  readonly operationId: string | null;
  readonly mode: "NOW" | "CUT" | "AFTER_STEP";
  readonly askedAt: number;
  readonly answeredAt: number;
  /** Code of the refusal of the whole; null: there was none. */
  readonly refused: string | null;
  readonly answers: readonly Answer[];
}

export interface Answer {
  readonly nodeId: string;
  readonly runId: string | null;
  readonly accepted: boolean;
  readonly code: string | null;
  readonly effect: string | null;
  readonly afterStep: string | null;
}

/** The disturbances that a program caused, whose consequences are expected. */
export interface Circumstances {
  /** Steps that go on after their signal for longer than is waited for them. */
  readonly isDeaf: (run: RunAccount) => boolean;
  /** Difference of the clocks, and of their roundings, in ms. */
  readonly toleranceMs: number;
}

const FINAL = new Set(["SUCCEEDED", "FAILED", "ABORTED", "STOPPED"]);

// ---- one run

/** The flaws of a run that has ended. */
export function flawsOfRun(
  run: RunAccount,
  operation: OperationAccount,
  asks: readonly Ask[],
  world: Circumstances,
): string[] {
  return [
    ...outcomeFlaws(run),
    ...logFlaws(run),
    ...attemptFlaws(run),
    ...interruptFlaws(run, operation, world),
    ...leftFlaws(run),
    ...visitFlaws(run, asks, world),
    ...asks.flatMap((ask) => answerFlaws(run, ask, { ...world, operation })),
  ].map((flaw) => `${run.purpose === "WORK" ? "run" : "clean-up"} on ${run.nodeName} (${run.state}): ${flaw}`);
}

/** Exactly one outcome. */
function outcomeFlaws(run: RunAccount): string[] {
  const ends = run.seen.filter(({ what, becomes }) => what === "STATE" && FINAL.has(becomes ?? ""));
  const [end] = ends;
  if (!end || !run.isFinished) return ["it has not ended"];
  const after = run.seen.filter(({ seq, what }) => seq > end.seq && what !== "INTERRUPT");
  return [
    ...(ends.length > 1 ? [`it ended ${ends.length} times: ${ends.map(({ becomes }) => becomes).join(", ")}`] : []),
    ...(end.becomes === run.state ? [] : [`it ended as ${end.becomes}, and says ${run.state}`]),
    ...(run.isOwned ? ["it has ended and is owned"] : []),
    ...after.map(({ what, was, becomes }) => `after its end ${what} went from ${was} to ${becomes}`),
  ];
}

/** The node's transitions of this run join, end at rest, and end as the run says. */
function logFlaws(run: RunAccount): string[] {
  const moves = run.transitions.filter(({ event }) => !ASIDES.has(event));
  const last = moves.at(-1);
  if (!last) return [];
  const endings = moves.filter(({ event }) => event === "abort" || event === "fail" || event === "stop");
  const flaws = moves
    .slice(1)
    .flatMap((move, index) =>
      moves[index]?.to === move.from ? [] : [`its transitions do not join: ${moves[index]?.to}, then ${move.from}`],
    );
  if (!AT_REST.has(last.to ?? "")) flaws.push(`it ended and left the node ${last.to}`);
  if (endings.length > 1)
    flaws.push(`it has ${endings.length} ends in the log: ${endings.map(({ event }) => event).join(", ")}`);
  if (endings.length === 1 && endings[0] !== last)
    flaws.push(`after "${endings[0]?.event}" it went on with "${last.event}"`);
  const [ending] = endings;
  // Between two phases the node is at rest and stays there.
  const between = last.to === run.target ? [] : [undefined];
  const fitting: Readonly<Record<string, readonly (string | undefined)[]>> = {
    SUCCEEDED: [undefined],
    ABORTED: ["abort", ...between],
    STOPPED: ["stop", ...between],
    // A step that did not heed its signal makes a failure of an abort.
    FAILED: ["fail", "abort", ...between],
  };
  if (!fitting[run.state]?.includes(ending?.event)) flaws.push(`its end in the log is "${ending?.event}"`);
  if (run.state === "SUCCEEDED" && last.to !== run.target)
    flaws.push(`it left the node ${last.to}, its target was ${run.target}`);
  return flaws;
}

function attemptFlaws(run: RunAccount): string[] {
  const { steps, bestEffort } = run.plan;
  const byStep = Map.groupBy(run.attempts, ({ step }) => step);
  const flaws = run.attempts.flatMap(({ step, number, state, isFinished }) =>
    isFinished && state !== "RUNNING" && state !== "WAITING"
      ? []
      : [`attempt ${number} at ${labelOf(run, step)} was left ${state}`],
  );
  let open: string | null = null;
  for (const [index, { kept }] of steps.entries()) {
    const attempts = byStep.get(index) ?? [];
    const label = labelOf(run, index);
    if (attempts.length === 0) {
      if (!kept) open ??= label;
      continue;
    }
    if (kept) flaws.push(`${label} was kept and run all the same`);
    if (open !== null) flaws.push(`${label} was begun before ${open} had ended well`);
    if (attempts.some(({ number }, place) => number !== place + 1))
      flaws.push(`attempts at ${label} are numbered ${attempts.map(({ number }) => number).join(", ")}`);
    if (attempts.slice(0, -1).some(({ state }) => state !== "FAILED"))
      flaws.push(`${label} was tried again after ${attempts.map(({ state }) => state).join(", ")}`);
    const end = attempts.at(-1)?.state;
    if (end !== "SUCCEEDED" && !(bestEffort && end === "FAILED")) open ??= label;
  }
  if (run.state === "SUCCEEDED" && open !== null) flaws.push(`${open} has not succeeded`);
  const newest = run.attempts.at(-1)?.state;
  // Of the reserved steps that only wait there is nothing to let end.
  const cut = run.attempts.filter(({ step, state }) => state === "ABORTED" && steps[step]?.interface !== "engine");
  if (run.state === "STOPPED") {
    // A run that never began is STOPPED with nothing run, also where an earlier run had left nothing to do.
    const hasBegun = run.seen.some(({ what, becomes }) => what === "STATE" && becomes === "RUNNING");
    if (open === null && hasBegun) flaws.push("all its work was done");
    if (cut.length > 0) flaws.push("a stop cancelled a step");
    if (!bestEffort && newest === "FAILED") flaws.push("its step failed, so it has failed");
  }
  if (run.state === "FAILED" && !run.failure) flaws.push("it does not say why");
  if (run.state === "SUCCEEDED" && run.attempts.some(({ state }) => state === "ABORTED"))
    flaws.push("an attempt was aborted");
  return flaws;
}

/** Interrupts in force when the run ended, and since when. Withdrawn ones do not count. */
function standing(run: RunAccount): { readonly abort: Seen | undefined; readonly stop: Seen | undefined } {
  const all = run.seen.filter(({ what }) => what === "INTERRUPT");
  const interrupts = all.slice(all.findLastIndex(({ becomes }) => becomes === null) + 1);
  return {
    abort: interrupts.find(({ becomes }) => becomes === "ABORT"),
    stop: interrupts.find(({ becomes }) => becomes === "STOP"),
  };
}

/** After an interrupt is recorded no step begins, and the run ends as the interrupt asks. */
function interruptFlaws(run: RunAccount, operation: OperationAccount, world: Circumstances): string[] {
  const { abort, stop } = standing(run);
  const flaws: string[] = [];
  for (const interrupt of [abort, stop]) {
    if (!interrupt) continue;
    for (const { seq, what, was, more } of run.seen) {
      if (seq > interrupt.seq && what === "ATTEMPT" && was === null)
        flaws.push(`${labelOf(run, more.step ?? -1)} was begun after the interrupt ${interrupt.becomes} was recorded`);
    }
  }
  for (const { seq, what, more } of abort ? run.seen : []) {
    const label = labelOf(run, more.step ?? -1);
    if (abort && seq > abort.seq && what === "ENTRY" && cutOf(label) === "ALWAYS")
      flaws.push(`${label} was entered again after the abort was recorded`);
  }
  const stopTimedOut = abort?.more.by === "engine";
  if (abort && !(run.state === "ABORTED" || (run.state === "FAILED" && (stopTimedOut || world.isDeaf(run)))))
    flaws.push("an abort was recorded, and it ended otherwise");
  if (run.state === "ABORTED" && !abort)
    flaws.push(wasWithdrawn(run) ? "its abort was taken back" : "no abort was requested");
  if (run.state === "STOPPED" && !stop && !operation.seen.some(({ becomes }) => becomes === "STOP"))
    flaws.push("no stop was requested");
  if (run.state === "FAILED" && stop && !abort && !run.attempts.some(({ state }) => state === "FAILED"))
    flaws.push("it was stopped and no step of it failed");
  return flaws;
}

/** A run that was aborted or has failed says how it left the machine; after cleaning and deploying that is off. */
function leftFlaws(run: RunAccount): string[] {
  const isOver = run.state === "ABORTED" || run.state === "FAILED";
  if (!isOver || run.attempts.length === 0) return [];
  const from = run.transitions.find(({ event }) => event === "abort" || event === "fail")?.from ?? "";
  const last = run.attempts.at(-1);
  // A machine that may still be at a step that must not be cut is left alone.
  const isLeftAlone = last !== undefined && cutOf(labelOf(run, last.step)) === "NEVER" && last.state !== "SUCCEEDED";
  const off = !isLeftAlone && (run.powerOff ?? (from.startsWith("CLEAN") || from.startsWith("DEPLOY")));
  if (run.leftAs === null) return ["it does not say how the node was left"];
  return [
    ...(off && run.leftAs.power === "ON" ? [`it ended ${run.state} in ${from} and left the node switched on`] : []),
    ...((run.leftAs.mayBeWorking ?? false) === isLeftAlone ? [] : ["it is wrong about whether the machine may work"]),
  ];
}

/**
 * No worker enters a step of a run while another is inside one, nor a parked one before its time; what must not be cut
 * was not, and what must not be run twice was not.
 */
function visitFlaws(run: RunAccount, asks: readonly Ask[], world: Circumstances): string[] {
  const visits = run.visits.toSorted((a, b) => a.at - b.at);
  const isCut = asks.some(({ verb, mode }) => verb === "ABORT" && mode === "CUT");
  const flaws = visits.flatMap(({ step, cut }) =>
    cut && cutOf(step) !== "ALWAYS" && !(isCut && cutOf(step) === "AT_BOUNDARY")
      ? [`${step} must not be cut, and its signal fired`]
      : [],
  );
  const recoveries = run.transitions.filter(({ event }) => event === "recover").length;
  const takenUp = visits.filter(
    (visit, index) =>
      visits.slice(0, index).some(({ attempt, killed }) => killed && attempt === visit.attempt) &&
      visits[index - 1]?.killed,
  );
  if (recoveries < takenUp.length)
    flaws.push(`it was taken up ${takenUp.length} times after its process was killed, and says so ${recoveries} times`);
  for (const [index, visit] of visits.entries()) {
    const parked = visits[index - 1];
    if (
      parked?.attempt === visit.attempt &&
      parked.waits !== null &&
      parked.left !== null &&
      wasParked(run, parked.left, visit.at, world) &&
      !visit.calledBack &&
      visit.at < parked.left + parked.waits - world.toleranceMs
    ) {
      flaws.push(`${visit.step} asked for ${parked.waits} ms, and was entered again after ${visit.at - parked.left}`);
    }
    const again = visits.slice(0, index).findLast(({ attempt }) => attempt === visit.attempt);
    if (again && visit.fresh && visit.step === "clean.update_firmware")
      flaws.push(`${visit.step} must not be run twice, and was`);
    const before = visits.slice(0, index).find(({ left }) => left === null || left > visit.at);
    if (before) flaws.push(`${visit.owner} entered ${visit.step} while ${before.owner} was inside ${before.step}`);
  }
  return flaws;
}

/** Whether a wait was stored between two visits. A worker may die after it has left a step, and before that. */
function wasParked({ seen }: RunAccount, from: number, to: number, { toleranceMs }: Circumstances): boolean {
  return seen.some(
    ({ what, becomes, at }) =>
      what === "ATTEMPT" && becomes === "WAITING" && at >= from - toleranceMs && at <= to + toleranceMs,
  );
}

// ---- answers

interface RunCircumstances extends Circumstances {
  readonly operation: OperationAccount;
}

function answerFlaws(run: RunAccount, ask: Ask, world: RunCircumstances): string[] {
  // A refusal names no run: it was about the one that there was at that time.
  const answer = ask.answers.find(
    ({ nodeId, runId, code }) =>
      nodeId === run.nodeId &&
      (runId === run.id || (runId === null && (code === "NOTHING_RUNNING" || wasThere(run, ask, world)))),
  );
  const prefix = answer
    ? `${ask.actor} (${ask.verb} ${ask.mode} by ${ask.by}) was answered ${answer.accepted ? (answer.effect ?? "yes") : answer.code}`
    : "";
  const flaws = answer === undefined ? [] : JUDGES[ask.verb](run, ask, answer, world);
  return [...flaws.map((flaw) => `${prefix}, and ${flaw}`), ...traceFlaws(run, ask, answer)];
}

const JUDGES = { ABORT: abortAnswerFlaws, WITHDRAW: withdrawalAnswerFlaws, STOP: stopAnswerFlaws } as const;

function endOf(run: RunAccount): Seen | undefined {
  return run.seen.find(({ what, becomes }) => what === "STATE" && FINAL.has(becomes ?? ""));
}

function interruptSeen(run: RunAccount, kind: string): Seen | undefined {
  return run.seen.find(({ what, becomes }) => what === "INTERRUPT" && becomes === kind);
}

function wasWithdrawn(run: RunAccount): boolean {
  return run.seen.some(({ what, was }) => what === "INTERRUPT" && was === "ABORT");
}

function abortAnswerFlaws(run: RunAccount, ask: Ask, answer: Answer, world: Circumstances): string[] {
  const interrupt = interruptSeen(run, "ABORT");
  const flaws: string[] = [];
  if (!answer.accepted) {
    if (answer.code === "NOTHING_RUNNING") return endedBefore(run, ask, world);
    if (answer.code !== "NOT_INTERRUPTIBLE") return [`no rule gives that answer`];
    if (ask.mode === "AFTER_STEP") flaws.push("an abort after the step is never refused");
    const inside = run.visits.some(
      ({ step, at, left }) =>
        cutOf(step) === "NEVER" &&
        at <= ask.answeredAt + world.toleranceMs &&
        (left ?? Infinity) >= ask.askedAt - world.toleranceMs,
    );
    const parked = run.attempts.some(({ step }) => cutOf(labelOf(run, step)) === "NEVER");
    if (!inside && !parked) flaws.push("it never was in a step that must not be interrupted");
    return flaws;
  }
  if (answer.runId !== run.id) flaws.push("the answer names no run");
  if (!interrupt) return [...flaws, "the interrupt was not recorded"];
  switch (answer.effect) {
    case "BEFORE_START":
      if (run.attempts.length > 0 || run.visits.length > 0) flaws.push("steps of it were begun");
      if (run.transitions.length > 0) flaws.push("its node was moved");
      break;
    case "NOW":
      for (const { step, at, left } of run.visits) {
        const whole = at < ask.askedAt - world.toleranceMs && (left ?? Infinity) > ask.answeredAt + world.toleranceMs;
        const cuts = cutOf(step) === "ALWAYS" || (ask.mode === "CUT" && cutOf(step) === "AT_BOUNDARY");
        if (whole && !cuts && interrupt.more.by === ask.actor)
          flaws.push(`it was inside ${step}, which cannot be cut, all the while`);
      }
      break;
    case "PENDING":
      if (answer.afterStep === null || cutOf(answer.afterStep) === "ALWAYS")
        flaws.push(`what it waits for is ${answer.afterStep}`);
      else if (!run.attempts.some(({ step }) => labelOf(run, step) === answer.afterStep))
        flaws.push(`${answer.afterStep} was never begun`);
      else if (!wasWithdrawn(run) && labelOf(run, run.attempts.at(-1)?.step ?? -1) !== answer.afterStep)
        flaws.push(`after ${answer.afterStep} it went on`);
      break;
    default:
      flaws.push("no rule gives that answer");
  }
  return flaws;
}

/** Taken back is taken back; and that can only be what waits for the end of a step. */
function withdrawalAnswerFlaws(run: RunAccount, _ask: Ask, answer: Answer): string[] {
  if (answer.accepted) return wasWithdrawn(run) ? [] : ["the interrupt was not taken back"];
  return answer.code === "NOTHING_RUNNING" || answer.code === "INVALID_STATE" ? [] : ["no rule gives that answer"];
}

function stopAnswerFlaws(run: RunAccount, ask: Ask, answer: Answer, world: RunCircumstances): string[] {
  if (!answer.accepted) {
    if (answer.code !== "NOTHING_RUNNING") return ["no rule gives that answer"];
    return run.purpose === "CLEAN_UP" ? [] : endedBefore(run, ask, world);
  }
  // By operation the runs that had ended are part of the answer, and a repeated stop of a STOPPED operation has the
  // same answer.
  const recorded = interruptSeen(run, "STOP") ?? interruptSeen(run, "ABORT");
  const over =
    run.purpose === "CLEAN_UP" ||
    ask.by !== "nodes" ||
    (run.state === "STOPPED" && endedBefore(run, ask, world).length === 0);
  return [
    ...(answer.runId !== run.id || recorded || over ? [] : ["the interrupt was not recorded"]),
    ...(run.purpose === "WORK" ? begunAfter(run, ask, world) : []),
  ];
}

/** When the run's last stop was withdrawn with the abort that had replaced it, in the order of `seq`; else never. */
function stopWithdrawnAt({ seen }: RunAccount): number {
  const interrupts = seen.filter(({ what }) => what === "INTERRUPT");
  const stoppedAt = interrupts.findLastIndex(({ becomes }) => becomes === "STOP");
  const [replaced, withdrawn] = interrupts.slice(stoppedAt + 1);
  const isWithdrawn = replaced?.was === "STOP" && replaced.becomes === "ABORT" && withdrawn?.was === "ABORT";
  return stoppedAt >= 0 && isWithdrawn ? withdrawn.seq : Infinity;
}

/**
 * When an abort was withdrawn that was pending at some moment of the question, in the order of `seq`; else never. A
 * stop changes nothing then, because the abort is to end the work, and is withdrawn with it.
 */
function pendingAbortWithdrawnAt(seen: readonly Seen[], ask: Ask, { toleranceMs }: Circumstances): number {
  const interrupts = seen.filter(
    ({ what, was, becomes }) => (what === "INTERRUPT" || what === "OPERATION_INTERRUPT") && was !== becomes,
  );
  const withdrawal = interrupts.findLast(
    ({ was, becomes, at }, index) =>
      was === "ABORT" &&
      becomes === null &&
      at >= ask.askedAt - toleranceMs &&
      (interrupts[index - 1]?.begunAt ?? Infinity) <= ask.answeredAt + toleranceMs,
  );
  return withdrawal?.seq ?? Infinity;
}

/** As above; a stop of the whole operation is recorded if the abort does not concern the whole operation. */
function absorbedStopWithdrawnAt({ seen }: RunAccount, ask: Ask, world: RunCircumstances): number {
  const isWhole = pendingAbortWithdrawnAt(world.operation.seen, ask, world) < Infinity;
  return ask.by === "operation" && !isWhole ? Infinity : pendingAbortWithdrawnAt(seen, ask, world);
}

/**
 * Every transaction that begins after a stop was answered knows of it, whether the run or only its operation has the
 * stop: it begins no step, and repeats none that failed, unless the stop was withdrawn with an abort
 * (docs/verbs/withdrawAbort.md).
 */
function begunAfter(run: RunAccount, ask: Ask, world: RunCircumstances): string[] {
  const withdrawnAt = Math.min(stopWithdrawnAt(run), absorbedStopWithdrawnAt(run, ask, world));
  return run.seen
    .filter(
      ({ what, was, begunAt }) => what === "ATTEMPT" && was === null && begunAt > ask.answeredAt + world.toleranceMs,
    )
    .filter(({ seq }) => seq < withdrawnAt)
    .map(({ more }) => `attempt ${more.number} at ${labelOf(run, more.step ?? -1)} was begun afterwards`);
}

/** Whether the run had come, and had not ended, at some moment of the question. */
function wasThere(run: RunAccount, ask: Ask, world: Circumstances): boolean {
  const came = run.seen.find(({ what }) => what === "CREATED")?.at ?? 0;
  return came <= ask.answeredAt + world.toleranceMs && (endOf(run)?.at ?? Infinity) >= ask.askedAt - world.toleranceMs;
}

function endedBefore(run: RunAccount, ask: Ask, world: Circumstances): string[] {
  const end = endOf(run);
  const created = run.seen.find(({ what }) => what === "CREATED");
  const came = created !== undefined && created.at > ask.askedAt - world.toleranceMs;
  return came || (end !== undefined && end.at <= ask.answeredAt + world.toleranceMs) ? [] : ["it ran"];
}

/** A refusal leaves nothing behind, and an answer of yes leaves no more than what it says. */
function traceFlaws(run: RunAccount, ask: Ask, answer: Answer | undefined): string[] {
  if (answer?.accepted) return [];
  const marks = [
    ...run.seen.filter(({ more }) => more.by === ask.actor).map(({ what, becomes }) => `${what} ${becomes}`),
    ...run.transitions.filter(({ actor }) => actor === ask.actor).map(({ event }) => `"${event}"`),
  ];
  if (answer === undefined && ask.refused === null) return [];
  return marks.map((mark) => `${ask.actor} was refused (${answer?.code ?? ask.refused}), and left ${mark}`);
}

// ---- one operation

/** States in the order in which an operation passes them. */
const ORDER = ["QUEUED", "RUNNING", "STOPPING", "ABORTING"];

export function flawsOfOperation(operation: OperationAccount): string[] {
  const work = operation.runs.filter(({ purpose }) => purpose === "WORK");
  const count = (state: string) => work.filter((run) => run.state === state).length;
  const flaws: string[] = [];
  if (!operation.isFinished) flaws.push("it has not ended");
  const states = operation.seen.filter(({ what }) => what === "OPERATION");
  const final = states.filter(({ becomes }) => !ORDER.includes(becomes ?? ""));
  if (final.length > 1) flaws.push(`it ended ${final.length} times: ${final.map(({ becomes }) => becomes).join(", ")}`);
  for (const { was, becomes } of states) {
    const [before, after] = [ORDER.indexOf(was ?? ""), ORDER.indexOf(becomes ?? "")];
    // An abort that was taken back leaves what there was before it.
    const freed =
      was === "ABORTING" &&
      operation.seen.some(
        (one) => one.what === "OPERATION_INTERRUPT" && one.was === "ABORT" && one.becomes !== "ABORT",
      );
    if (before < 0 || (after >= 0 && after < before && !freed)) flaws.push(`it went from ${was} to ${becomes}`);
  }
  const end = final[0];
  if (end)
    flaws.push(
      ...operation.seen
        .filter(({ seq, what }) => what === "OPERATION_INTERRUPT" && seq > end.seq)
        .map(({ becomes, more }) => `${more.by} recorded a ${becomes} after its end`),
    );
  const late = end && operation.runs.find((run) => (endOf(run)?.seq ?? Infinity) > end.seq);
  if (late) flaws.push(`it ended before its run on ${late.nodeName}`);
  for (const run of work) {
    const cleanUp = operation.runs.find(({ purpose, nodeId }) => purpose === "CLEAN_UP" && nodeId === run.nodeId);
    const stood = run.state === "SUCCEEDED" || run.state === "STOPPED";
    if (run.isUndone !== (stood && (cleanUp?.transitions.length ?? 0) > 0))
      flaws.push(`its run on ${run.nodeName} is ${run.isUndone ? "" : "not "}UNDONE`);
  }
  const fits: Readonly<Record<string, boolean>> = {
    SUCCEEDED: count("SUCCEEDED") === work.length,
    SUCCEEDED_WITH_ERRORS:
      count("SUCCEEDED") === work.length &&
      work.some(({ attempts }) => attempts.some(({ state }) => state === "FAILED")),
    PARTIALLY_SUCCEEDED: count("SUCCEEDED") > 0 && count("FAILED") + count("ABORTED") > 0 && count("STOPPED") === 0,
    FAILED: count("FAILED") > 0,
    ABORTED: count("ABORTED") > 0,
    STOPPED: count("STOPPED") > 0,
  };
  flaws.push(...turnFlaws(operation));
  const askedToStop = [operation, ...work].some(({ seen }) =>
    seen.some(({ becomes, more }) => becomes === "STOP" && more.by !== "engine"),
  );
  if (operation.state === "STOPPED" && !askedToStop) flaws.push("no stop was requested");
  if (operation.isFinished && !fits[operation.state])
    flaws.push(`its runs are ${work.map(({ state }) => state).join(", ")}`);
  return flaws.map((flaw) => `operation ${operation.kind} (${operation.state}): ${flaw}`);
}

/** Never more nodes have had their turn and not ended than `maxParallel` says. */
function turnFlaws({ maxParallel, runs }: OperationAccount): string[] {
  if (maxParallel === null) return [];
  const changes = runs
    .filter(({ purpose }) => purpose === "WORK")
    .flatMap((run) => {
      const begins = run.seen.find(
        ({ what, was, becomes }) =>
          (what === "CREATED" && becomes === "RUNNING") ||
          (what === "STATE" && was === "QUEUED" && becomes === "RUNNING"),
      );
      const ends = endOf(run);
      return [...(begins ? [{ seq: begins.seq, by: 1 }] : []), ...(begins && ends ? [{ seq: ends.seq, by: -1 }] : [])];
    });
  let at = 0;
  let most = 0;
  for (const { by } of changes.toSorted((a, b) => a.seq - b.seq)) most = Math.max(most, (at += by));
  return most > maxParallel ? [`${most} nodes were active at the same time, and ${maxParallel} may`] : [];
}

/**
 * A stop by name answers for every run of the operation, whatever has become of them: it is accepted for all, or there
 * was nothing to stop, because the operation had ended.
 */
export function flawsOfStop(operation: OperationAccount, ask: Ask, world: Circumstances): string[] {
  if (ask.by !== "operation" || ask.verb !== "STOP") return [];
  if (ask.refused !== null) return [`${ask.actor}: a stop of the operation was refused: ${ask.refused}`];
  const work = operation.runs.filter(({ purpose }) => purpose === "WORK");
  const accepted = ask.answers.filter((answer) => answer.accepted);
  const isRefused = accepted.length === 0;
  const missing = work.filter(
    ({ id, nodeId }) =>
      !ask.answers.some((answer) =>
        isRefused ? answer.nodeId === nodeId && answer.code === "NOTHING_RUNNING" : answer.runId === id,
      ),
  );
  const flaws = missing.map(({ nodeName }) => `the stop of the operation says nothing of ${nodeName}`);
  if (!isRefused && accepted.length < ask.answers.length) flaws.push("the stop of the operation was accepted in part");
  const end = operation.seen.find(({ what, becomes }) => what === "OPERATION" && !ORDER.includes(becomes ?? ""));
  if (isRefused && (end?.at ?? Infinity) > ask.answeredAt + world.toleranceMs)
    flaws.push("the stop of the operation found nothing running, before the operation had ended");
  return flaws.map((flaw) => `${ask.actor}: ${flaw}`);
}

// ---- the fault of a node

/**
 * The fault that a failed clean-up leaves: an abort, a failure or a clean-up that fails begins it; a verification or a
 * cleaning that has succeeded, a clean-up that has succeeded and an abort that undid a step end it.
 */
export function flawsOfFault(
  operation: OperationAccount,
  node: { readonly id: string; readonly fault: string | null },
): string[] {
  const runs = operation.runs
    .filter(({ nodeId }) => nodeId === node.id)
    .toSorted((a, b) => (a.seen[0]?.seq ?? 0) - (b.seen[0]?.seq ?? 0));
  const last = runs.at(-1);
  let expected: boolean | null = node.fault === "CLEAN_UP_FAILED";
  let isBusy = node.fault === "MACHINE_BUSY";
  for (const run of runs) {
    // It hides a clean-up that fails. A phase that changes the machine, or a change of power that may cut it, ends it:
    // only work that a person has forced gets there.
    const cutsPower = run.attempts.some(({ step }) => CUTTING.has(labelOf(run, step)));
    if (cutsPower || run.transitions.some(({ event }) => CHANGING.has(event))) isBusy = false;
    if (hasRepaired(run)) expected = false;
    expected = faultAtEnd(run, expected);
    if (run.leftAs?.mayBeWorking) isBusy = true;
    if (isBusy) expected = false;
  }
  if (last && isBusy !== (last.nodeFault === "MACHINE_BUSY"))
    return [`node ${last.nodeName} has the fault ${last.nodeFault}, and its machine ${isBusy ? "may" : "cannot"} work`];
  if (!last || expected === null || expected === (last.nodeFault === "CLEAN_UP_FAILED")) return [];
  return [
    `node ${last.nodeName} has the fault ${last.nodeFault} after its runs ${runs.map(({ purpose, state }) => `${purpose} ${state}`).join(", ")}, and had ${node.fault} before`,
  ];
}

/** Events that lead a node into a phase that changes its machine. */
const CHANGING: ReadonlySet<string> = new Set(["clean", "deploy", "undeploy"]);
const CUTTING: ReadonlySet<string> = new Set([
  "power.power_off",
  "power.soft_power_off",
  "power.reboot",
  "power.soft_reboot",
]);

/** Whether a whole verification or cleaning has succeeded, of which this run did a part. */
function hasRepaired({ plan, attempts }: RunAccount): boolean {
  const has = (index: number) => attempts.findLast(({ step }) => step === index)?.state === "SUCCEEDED";
  const legs = Map.groupBy(
    plan.steps.map((step, index) => ({ ...step, isDone: step.kept || has(index) })),
    ({ leg }) => leg,
  );
  return (
    !plan.bestEffort &&
    legs
      .values()
      .some(
        (steps) =>
          steps.every(({ phase, isDone }) => isDone && (phase === "verify" || phase === "clean")) &&
          steps.some(({ kept }) => !kept),
      )
  );
}

/** Null: the account does not say. */
function faultAtEnd({ purpose, state, attempts, leftAs, failure }: RunAccount, before: boolean | null): boolean | null {
  const last = attempts.at(-1)?.state;
  const wasDeaf = failure?.message.includes("may still be running") ?? false;
  if (state === "SUCCEEDED") return purpose === "CLEAN_UP" ? false : before;
  if (state === "STOPPED") return before;
  if (leftAs?.tearDownError || wasDeaf) return true;
  if (state === "FAILED") return purpose === "CLEAN_UP" ? true : before;
  // A step that was aborted while it waited to be retried is undone too, but has failed.
  return last === "ABORTED" ? false : last === "FAILED" ? null : before;
}

// ---- the whole

/** The log has no hole, takes no illegal edge, joins node by node, and folds to the table of nodes. */
export async function flawsOfLog(sql: Sql): Promise<string[]> {
  const flaws: string[] = [];
  const at = new Map<string, { state: string | null; sequence: number }>();
  let expected = 1;
  for (;;) {
    const rows = await sql<
      {
        position: string;
        id: string;
        name: string;
        from: string | null;
        to: string | null;
        event: string;
        sequence: number;
      }[]
    >`
      select position, node_id as id, node_name as name, from_state as from, to_state as to, event, sequence from transitions where position >= ${expected} order by position limit 20000`;
    if (rows.length === 0) break;
    for (const { position, id, name, from, to, event, sequence } of rows) {
      if (Number(position) !== expected) flaws.push(`the log has a hole before ${position}`);
      expected = Number(position) + 1;
      const before = at.get(id) ?? { state: null, sequence: 0 };
      if (before.state !== from || before.sequence + 1 !== sequence)
        flaws.push(
          `transition ${position} of ${name} leaves ${from} as its ${sequence}., but the log had brought it to ${before.state} with ${before.sequence}`,
        );
      const isEdge =
        from === null || to === null
          ? event === (from === null ? "register" : "delete")
          : EDGES.has(`${from} ${event} ${to}`);
      if (!isEdge) flaws.push(`transition ${position} of ${name} takes no edge: ${from} ${event} ${to}`);
      at.set(id, { state: to, sequence });
    }
  }
  const nodes = await sql<
    { id: string; name: string; state: string; count: number }[]
  >`select id, name, state, transition_count as count from nodes`;
  for (const { id, name, state, count } of nodes) {
    const folded = at.get(id);
    if (folded?.state !== state || folded.sequence !== count)
      flaws.push(`the log brings ${name} to ${folded?.state} (${folded?.sequence}), and it is ${state} (${count})`);
    at.delete(id);
  }
  for (const [id, { state }] of at)
    if (state !== null) flaws.push(`the log brings node ${id} to ${state}, and there is no such node`);
  return flaws;
}

/** When nothing runs: nothing is unfinished, and nothing waits for an event that cannot occur. */
export async function flawsAtRest(sql: Sql): Promise<string[]> {
  const found = await Promise.all([
    sql`select 'run on ' || node_name || ' is ' || state as flaw from runs where finished_at is null`,
    sql`select 'operation ' || id || ' is ' || state as flaw from operations where finished_at is null`,
    sql`select 'node ' || name || ' is ' || state || ' and nothing runs on it' as flaw from nodes where state not in ${sql([...AT_REST])}`,
    sql`select 'run on ' || node_name || ' has ended and holds on to something' as flaw from runs
        where finished_at is not null and (owner is not null or lease_until is not null or due_at is not null or wake_at is not null or open_generation is not null or slot_phase is not null or slot_controller is not null or wait_for is not null)`,
    sql`select 'an ended run on ' || r.node_name || ' has an attempt that is ' || a.state as flaw from attempts a join runs r on r.id = a.run_id where r.finished_at is not null and a.finished_at is null`,
  ]);
  return found.flat().map((row) => String(row["flaw"]));
}

/** At any moment: no node has two unfinished runs. */
export async function flawsAtAnyMoment(sql: Sql): Promise<string[]> {
  const rows =
    await sql`select 'node ' || node_name || ' has ' || count(*) || ' unfinished runs' as flaw from runs where finished_at is null group by node_id, node_name having count(*) > 1`;
  return rows.map((row) => String(row["flaw"]));
}

// ---- stories

const clock = (at: number, from: number) => `${(at - from).toFixed(0).padStart(7)} ms`;

/** The events of an operation, in order, for analysis. */
export function story(operation: OperationAccount, asks: readonly Ask[]): string[] {
  const lines: { at: number; line: string }[] = [];
  const say = (at: number, line: string) => lines.push({ at, line });
  for (const ask of asks) {
    say(ask.askedAt, `${ask.actor} asks to ${ask.verb} ${ask.mode} by ${ask.by}`);
    const effects = ask.answers.map(
      ({ nodeId, accepted, effect, afterStep, code }) =>
        `${operation.runs.find((run) => run.nodeId === nodeId)?.nodeName ?? nodeId}: ${accepted ? [effect ?? "yes", afterStep].filter(Boolean).join(" after ") : code}`,
    );
    say(ask.answeredAt, `${ask.actor} is answered ${ask.refused ?? effects.join("; ")}`);
  }
  const seen = (one: Seen, who: string, run?: RunAccount) => {
    const { what, was, becomes, more } = one;
    say(
      one.at,
      `${who} ${what.toLowerCase()} ${run && more.step !== undefined ? `${labelOf(run, more.step)}#${more.number} ` : ""}${was ?? ""} → ${becomes}${more.by ? ` by ${more.by}` : ""}${more.node ? ` ${JSON.stringify(more.node)}` : ""} [${one.seq}]`,
    );
  };
  for (const one of operation.seen) seen(one, "operation");
  for (const run of operation.runs) {
    for (const one of run.seen) seen(one, run.nodeName, run);
    for (const { at, event, from, to, actor, step } of run.transitions)
      say(at, `${run.nodeName} ${from} ${event} ${to} by ${actor}${step ? ` at ${step}` : ""} [in the log]`);
    for (const { at, left, step, owner } of run.visits) {
      say(at, `${run.nodeName} ${owner} enters ${step}`);
      if (left !== null) say(left, `${run.nodeName} ${owner} leaves ${step}`);
    }
  }
  const sorted = lines.toSorted((a, b) => a.at - b.at);
  const from = sorted[0]?.at ?? 0;
  return [
    `operation ${operation.kind} ${operation.id} ${operation.state}, onFailure ${operation.onFailure}`,
    ...operation.runs.map(
      ({ nodeName, purpose, state, interrupt, target, failure, plan, leftAs }) =>
        `  ${purpose} ${nodeName} ${state}, interrupt ${interrupt}, target ${target}, left ${JSON.stringify(leftAs)}, ${plan.steps.map((step) => `${step.interface}.${step.name}${step.kept ? " (kept)" : ""}`).join(", ")}${failure ? `, failed: ${failure.message}` : ""}`,
    ),
    ...sorted.map(({ at, line }) => `${clock(at, from)} ${line}`),
  ];
}
