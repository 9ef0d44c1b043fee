/**
 * Waves of an operation: each opens when the nodes of the one before have ended, all are halted when too many nodes
 * have failed, and users advance, halt and resume them. Everything happens under the operation's lock.
 * lifecycle/waves.ts decides.
 */
import { invalidInput, notFound } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import { countOf, isShare, judgeWaves, waveSizes } from "../../lifecycle/waves.ts";
import type { WaveOptions, WaveState, WaveVerdict } from "../../lifecycle/waves.ts";
import {
  lockOperation,
  isPauseOver,
  operationsByIds,
  pauseWaves,
  updateOperation,
} from "../../store/operations/operations.ts";
import type { OperationRow } from "../../store/operations/operations.ts";
import type { Reader } from "../../store/postgres/database.ts";
import { keepReadOnly } from "../../store/postgres/transactions.ts";
import type { Waves } from "../../store/records.ts";
import {
  countFailed,
  hasQueued,
  hasUnfinishedInWaves,
  nextQueuedWave,
  steeredRuns,
  withdrawStarts,
} from "../../store/operations/operation-runs.ts";
import type { SteeredRuns } from "../../store/operations/operation-runs.ts";
import { ENGINE, startQueued } from "./start-runs.ts";
import type { StartParts } from "./start-runs.ts";
import { isUuid } from "../../runtime/uuid.ts";
import { reasonFlaws } from "../input/size-limits.ts";
import type { EngineContext } from "../context.ts";
import type { Caller, Transaction } from "../transaction.ts";

const WAVES_MAX = 1_000;
const PAUSE_SECONDS_MAX = 30 * 86_400;

/** The flaws of requested waves. */
export function waveFlaws(options: WaveOptions): readonly Refusal[] {
  const flaws: Refusal[] = [];
  const invalid = (message: string, ...at: string[]) => flaws.push(invalidInput(message, ["input", "waves", ...at]));
  const { sizes, pauseSeconds = 0, maxFailures } = options;
  if (sizes.length === 0 || sizes.length > WAVES_MAX)
    invalid(`Invalid sizes: use 1–${WAVES_MAX} sizes; the last one is repeated.`, "sizes");
  for (const [index, size] of sizes.entries()) if (!isShare(size, 1)) invalid(INVALID_SIZE, "sizes", String(index));
  if (!(pauseSeconds >= 0 && pauseSeconds <= PAUSE_SECONDS_MAX))
    invalid(`Invalid pauseSeconds: use 0–${PAUSE_SECONDS_MAX} seconds.`, "pauseSeconds");
  if (maxFailures !== undefined && !isShare(maxFailures, 0))
    invalid("Invalid maxFailures: use a count of 0 or more, or a percentage from 0 to 100.", "maxFailures");
  return flaws;
}

const INVALID_SIZE = "Invalid size of a wave: use a count of 1 or more, or a percentage above 0 and up to 100.";

export function resolveWaves(options: WaveOptions, total: number): Waves {
  return {
    sizes: waveSizes(options.sizes, total),
    pauseSeconds: options.pauseSeconds ?? 0,
    manual: options.manual ?? false,
    maxFailures: options.maxFailures === undefined ? null : countOf(options.maxFailures, total, "DOWN"),
    forgiven: 0,
  };
}

/** Applies the end of a run to the waves of its operation. */
export async function settleWaves(transaction: Transaction, parts: StartParts, operation: OperationRow): Promise<void> {
  const { waves, waveState, wave } = operation;
  if (!waves || !waveState || operation.interrupt !== null) return;
  switch (await waveVerdict(transaction.tx, operation)) {
    case "NOTHING":
      return;
    case "HALT": {
      const failures = await countUnforgiven(transaction.tx, operation);
      const waveReason = `${failures} ${failures === 1 ? "node" : "nodes"} failed and at most ${waves.maxFailures} may, so no further node starts. Resume the waves, or stop the operation.`;
      return halt(transaction, operation, { waveReason, waveBy: ENGINE });
    }
    case "AWAIT":
      return updateOperation(transaction.tx, operation.id, {
        waveState: "AWAITING",
        waveReason: `Wave ${wave + 1} of ${waves.sizes.length} has ended. The next one waits until the waves are advanced.`,
        waveBy: ENGINE,
      });
    case "PAUSE":
      return pauseWaves(transaction.tx, operation.id, waves.pauseSeconds, {
        waveReason: `Wave ${wave + 1} of ${waves.sizes.length} has ended. The next one starts after a pause of ${waves.pauseSeconds} s.`,
        waveBy: ENGINE,
      });
    case "OPEN":
      return openNext(transaction, parts, operation, ENGINE);
  }
}

/** The action that the present state of an operation's runs calls for. */
async function waveVerdict(reader: Reader, operation: OperationRow): Promise<WaveVerdict> {
  const { waves, waveState, wave } = operation;
  if (!waves || !waveState || operation.interrupt !== null) return "NOTHING";
  // This runs at the end of every run, so failures are counted only if there is a limit.
  const failures = waves.maxFailures === null ? 0 : await countUnforgiven(reader, operation);
  const unfinished = await hasUnfinishedInWaves(reader, operation.id, wave);
  const queued = await hasQueued(reader, operation.id);
  return judgeWaves({ ...waves, state: waveState, wave, waves: waves.sizes.length, failures, unfinished, queued });
}

async function countUnforgiven(reader: Reader, { id, waves }: OperationRow): Promise<number> {
  return (await countFailed(reader, id)) - (waves?.forgiven ?? 0);
}

/** Halts the waves. Runs that wait for a worker do not start either. */
async function halt(
  transaction: Transaction,
  { id }: OperationRow,
  why: Pick<OperationRow, "waveReason" | "waveBy">,
): Promise<void> {
  await updateOperation(transaction.tx, id, { ...why, waveState: "HALTED", waveUntil: null });
  await withdrawStarts(transaction.tx, id);
}

/** Opens the next wave with a queued run. A wave whose runs were all aborted is skipped, because it would never end. */
async function openNext(
  transaction: Transaction,
  parts: StartParts,
  operation: OperationRow,
  by: string,
): Promise<void> {
  const wave = await nextQueuedWave(transaction.tx, operation.id, operation.wave);
  if (wave === null) return;
  const change = { wave, waveState: "RUNNING", waveReason: null, waveBy: by, waveUntil: null } as const;
  await updateOperation(transaction.tx, operation.id, change);
  await startQueued(transaction, parts, { ...operation, ...change });
}

/** Opens the next wave if the pause between two waves of an operation is over. */
export async function pauseIsOver(context: EngineContext, operationId: string): Promise<void> {
  await context.transact(async (transaction) => {
    const operation = await lockOperation(transaction.tx, operationId);
    if (operation?.waveState !== "PAUSED" || operation.interrupt !== null) return;
    if (await isPauseOver(transaction.tx, operationId)) await openNext(transaction, context, operation, ENGINE);
  });
}

export const WAVE_ACTIONS = {
  ADVANCE: "Start the next wave now.",
  HALT: "Start no further node.",
  RESUME: "Continue after a halt; failures so far no longer count.",
} as const;
export type WaveAction = keyof typeof WAVE_ACTIONS;

interface WavesRequest {
  readonly operationId: string;
  readonly action: WaveAction;
  readonly reason?: string | undefined;
  /** Nothing is written or locked, and the answer has a forecast. */
  readonly dryRun?: boolean | undefined;
}

export interface WavesAnswer {
  readonly operationId: string | null;
  readonly refusals: readonly Refusal[];
  /** Of an accepted dry run. */
  readonly forecast?: WavesForecast;
}

/** Advances, halts or resumes the waves of an operation. */
export async function steerWaves(context: EngineContext, caller: Caller, request: WavesRequest): Promise<WavesAnswer> {
  const { operationId: id } = request;
  const flaws = reasonFlaws(request.reason);
  if (flaws.length > 0) return { operationId: null, refusals: flaws };
  return context.transact(async (transaction): Promise<WavesAnswer> => {
    if (request.dryRun) await keepReadOnly(transaction.tx);
    const read = request.dryRun ? operationById : lockOperation;
    const operation = isUuid(id) ? await read(transaction.tx, id) : undefined;
    const path = ["input", "operationId"];
    if (!operation) return refused(notFound(`There is no operation ${id}.`, [id], path));
    const flaw = await steerFlaw(transaction.tx, operation, request.action);
    if (flaw !== null)
      return refused({ code: "INVALID_STATE", message: `Operation ${id} ${flaw}`, operationId: id, path });
    if (request.dryRun)
      return {
        operationId: id,
        refusals: [],
        forecast: await forecastWaves(transaction.tx, operation, request.action),
      };
    await steer(transaction, context, { caller, request, operation });
    transaction.audit(caller, { operationId: id });
    return { operationId: id, refusals: [] };
  });
}

async function operationById(reader: Reader, id: string): Promise<OperationRow | undefined> {
  return (await operationsByIds(reader, [id]))[0];
}

/** Why the waves of an operation cannot be steered, as the end of a sentence; null if they can. */
async function steerFlaw(reader: Reader, operation: OperationRow, action: WaveAction): Promise<string | null> {
  const { id, waves, waveState, finishedAt, state, interrupt, wave } = operation;
  if (!waves || !waveState) return "has no waves.";
  if (finishedAt) return `has ended (${state}).`;
  if (interrupt !== null) return `is being ${interrupt === "STOP" ? "stopped" : "aborted"}.`;
  if (action === "RESUME") return waveState === "HALTED" ? null : `is not halted (${waveState}).`;
  if (action === "HALT" || (await nextQueuedWave(reader, id, wave)) !== null) return null;
  return `is at its last wave already.${waveState === "HALTED" ? " Resume the waves to start the rest of it." : ""}`;
}

interface Steering {
  readonly caller: Caller;
  readonly request: WavesRequest;
  readonly operation: OperationRow;
}

/** Carries out an action. Failures before a user continues the waves do not count again. */
async function steer(
  transaction: Transaction,
  context: EngineContext,
  { caller, request: { action, reason }, operation }: Steering,
): Promise<void> {
  const { id, waveState, waveReason } = operation;
  if (action === "HALT") {
    const before = waveState === "HALTED" ? waveReason : "Halted by request.";
    return halt(transaction, operation, { waveReason: reason ?? before, waveBy: caller.actor });
  }
  const forgiven = await withForgiven(transaction.tx, operation);
  if (forgiven.waves) await updateOperation(transaction.tx, id, { waves: forgiven.waves });
  if (action === "ADVANCE") return openNext(transaction, context, forgiven, caller.actor);
  const resumed = { ...forgiven, waveState: "RUNNING" } as const;
  await updateOperation(transaction.tx, id, { waveState: "RUNNING", waveReason: null, waveBy: caller.actor });
  await startQueued(transaction, context, resumed);
  await settleWaves(transaction, context, resumed);
  transaction.afterCommit(context.nudge);
}

async function withForgiven(reader: Reader, operation: OperationRow): Promise<OperationRow> {
  if (!operation.waves) return operation;
  return { ...operation, waves: { ...operation.waves, forgiven: await countFailed(reader, operation.id) } };
}

/** The state of the waves after an action, and what becomes of the runs. */
export interface WavesForecast {
  readonly action: WaveAction;
  readonly waveState: WaveState;
  /** Number of the newest wave, from 0. */
  readonly wave: number;
  readonly counts: SteeredRuns;
  /** Failures that no longer count toward `maxFailures`. */
  readonly forgivenFailures: number;
}

/** The effect that an action on the waves of an operation would have. The order of the steps is that of `steer`. */
async function forecastWaves(reader: Reader, operation: OperationRow, action: WaveAction): Promise<WavesForecast> {
  const { id, wave, maxParallel } = operation;
  if (action === "HALT") {
    const counts = await steeredRuns(reader, id, { wave, maxParallel, action });
    return { action, waveState: "HALTED", wave, counts, forgivenFailures: 0 };
  }
  const forgiven = await withForgiven(reader, operation);
  const resumed = { ...forgiven, waveState: "RUNNING" as const };
  const verdict = action === "ADVANCE" ? "OPEN" : await waveVerdict(reader, resumed);
  const opened = verdict === "OPEN" ? ((await nextQueuedWave(reader, id, wave)) ?? wave) : wave;
  return {
    action,
    waveState: verdict === "AWAIT" ? "AWAITING" : verdict === "PAUSE" ? "PAUSED" : "RUNNING",
    wave: opened,
    counts: await steeredRuns(reader, id, { wave: opened, maxParallel, action }),
    forgivenFailures: await countUnforgiven(reader, operation),
  };
}

function refused(refusal: Refusal): WavesAnswer {
  return { operationId: null, refusals: [refusal] };
}
