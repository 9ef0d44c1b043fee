/**
 * Waves of an operation: each opens when the nodes of the one before have ended, all are halted when too many nodes
 * have failed, and users advance, halt and resume them. Everything happens under the operation's lock.
 * lifecycle/waves.ts decides.
 */
import type { Refusal } from "../../errors.ts";
import { judgeWaves, waveSizes, countOf } from "../../lifecycle/waves.ts";
import type { Share, WaveOptions } from "../../lifecycle/waves.ts";
import { lockOperation, pauseLeft, pauseWaves, updateOperation } from "../../store/operations.ts";
import type { OperationRow } from "../../store/operations.ts";
import type { Waves } from "../../store/records.ts";
import {
  countFailed,
  hasQueued,
  hasUnfinishedInWaves,
  nextQueuedWave,
  withdrawStarts,
} from "../../store/operation-runs.ts";
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
  const path = ["input", "waves"];
  const flaw = (field: string, message: string): Refusal => ({
    code: "INVALID_INPUT",
    message,
    path: [...path, field],
  });
  const { sizes, pauseSeconds = 0, maxFailures } = options;
  return [
    ...(sizes.length === 0 || sizes.length > WAVES_MAX
      ? [flaw("sizes", `Invalid sizes: use 1–${WAVES_MAX} sizes; the last one is repeated.`)]
      : []),
    ...sizes.flatMap((size, index) =>
      isShare(size, 1)
        ? []
        : [
            {
              ...flaw(
                "sizes",
                "Invalid size of a wave: use a count of 1 or more, or a percentage above 0 and up to 100.",
              ),
              path: [...path, "sizes", String(index)],
            },
          ],
    ),
    ...(pauseSeconds >= 0 && pauseSeconds <= PAUSE_SECONDS_MAX
      ? []
      : [flaw("pauseSeconds", `Invalid pauseSeconds: use 0–${PAUSE_SECONDS_MAX} seconds.`)]),
    ...(maxFailures === undefined || isShare(maxFailures, 0)
      ? []
      : [flaw("maxFailures", "Invalid maxFailures: use a count of 0 or more, or a percentage from 0 to 100.")]),
  ];
}

function isShare(share: Share, least: 0 | 1): boolean {
  if ("count" in share) return Number.isInteger(share.count) && share.count >= least;
  return share.percent >= 0 && share.percent <= 100 && (least === 0 || share.percent > 0);
}

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
  // This runs at the end of every run, so failures are counted only if there is a limit.
  const failures = waves.maxFailures === null ? 0 : (await countFailed(transaction.tx, operation.id)) - waves.forgiven;
  const unfinished = await hasUnfinishedInWaves(transaction.tx, operation.id, wave);
  const queued = await hasQueued(transaction.tx, operation.id);
  switch (judgeWaves({ ...waves, state: waveState, wave, waves: waves.sizes.length, failures, unfinished, queued })) {
    case "NOTHING":
      return;
    case "HALT": {
      const waveReason = `${failures} ${failures === 1 ? "node" : "nodes"} failed and maxFailures is ${waves.maxFailures}, so no further node starts. Continue with resumeWaves, or stop the operation.`;
      return halt(transaction, operation, { waveReason, waveBy: ENGINE });
    }
    case "AWAIT":
      return updateOperation(transaction.tx, operation.id, {
        waveState: "AWAITING",
        waveReason: `Wave ${wave + 1} of ${waves.sizes.length} has ended. Start the next one with advanceWaves.`,
        waveBy: ENGINE,
      });
    case "PAUSE":
      await pauseWaves(transaction.tx, operation.id, waves.pauseSeconds, {
        waveReason: `Wave ${wave + 1} of ${waves.sizes.length} has ended. The next one starts after a pause of ${waves.pauseSeconds} s.`,
        waveBy: ENGINE,
      });
      return parts.queue.timer(transaction, { operationId: operation.id, what: "WAVE" }, waves.pauseSeconds);
    case "OPEN":
      return openNext(transaction, parts, operation, ENGINE);
  }
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

/** The pause between two waves of an operation is over. */
export async function pauseIsOver(context: EngineContext, operationId: string): Promise<void> {
  await context.transact(async (transaction) => {
    const operation = await lockOperation(transaction.tx, operationId);
    if (operation?.waveState !== "PAUSED" || operation.interrupt !== null) return;
    const left = await pauseLeft(transaction.tx, operationId);
    // Too early: the clock was set back, or this is the timer of an earlier pause. No other timer may exist for the
    // rest.
    if (left > CLOCK_TOLERANCE_SECONDS) return context.queue.timer(transaction, { operationId, what: "WAVE" }, left);
    await openNext(transaction, context, operation, ENGINE);
  });
}

/** The transaction that sets the end of a pause begins before its timer is stored; the two differ by less than this. */
const CLOCK_TOLERANCE_SECONDS = 0.1;

export const WAVE_ACTIONS = {
  ADVANCE: "Start the next wave now.",
  HALT: "Start no further node.",
  RESUME: "Continue after a halt; failures so far no longer count.",
} as const;
export type WaveAction = keyof typeof WAVE_ACTIONS;

export interface WavesRequest {
  readonly operationId: string;
  readonly action: WaveAction;
  readonly reason?: string | undefined;
}

export type WavesAnswer = { readonly operationId: string | null; readonly refusals: readonly Refusal[] };

/** Advances, halts or resumes the waves of an operation. */
export async function steerWaves(context: EngineContext, caller: Caller, request: WavesRequest): Promise<WavesAnswer> {
  const { operationId: id } = request;
  const flaws = reasonFlaws(request.reason);
  if (flaws.length > 0) return { operationId: null, refusals: flaws };
  return context.transact(async (transaction): Promise<WavesAnswer> => {
    const operation = isUuid(id) ? await lockOperation(transaction.tx, id) : undefined;
    if (!operation)
      return refused({
        code: "NOT_FOUND",
        message: `There is no operation ${id}.`,
        missing: [id],
        path: ["input", "operationId"],
      });
    const flaw =
      steerFlaw(operation) ?? (await STEER[request.action](transaction, context, { caller, request, operation }));
    if (flaw === null) return { operationId: id, refusals: [] };
    return refused({
      code: "INVALID_STATE",
      message: `Operation ${id} ${flaw}`,
      operationId: id,
      path: ["input", "operationId"],
    });
  });
}

/** Why the waves of an operation cannot be steered, as the end of a sentence; null if they can. */
function steerFlaw({ waves, waveState, finishedAt, state, interrupt }: OperationRow): string | null {
  if (!waves || !waveState) return "has no waves.";
  if (finishedAt) return `has ended (${state}).`;
  return interrupt === null ? null : `is being ${interrupt === "STOP" ? "stopped" : "aborted"}.`;
}

interface Steering {
  readonly caller: Caller;
  readonly request: WavesRequest;
  readonly operation: OperationRow;
}

/** Each carries out one action, or returns why it cannot, as the end of a sentence. */
const STEER: Readonly<
  Record<WaveAction, (transaction: Transaction, context: EngineContext, steering: Steering) => Promise<string | null>>
> = {
  async HALT(transaction, _context, { caller, request, operation }) {
    const wasHalted = operation.waveState === "HALTED";
    await halt(transaction, operation, {
      waveReason: request.reason ?? (wasHalted ? operation.waveReason : "Halted by request."),
      waveBy: caller.actor,
    });
    return null;
  },
  async ADVANCE(transaction, context, { caller, operation }) {
    if ((await nextQueuedWave(transaction.tx, operation.id, operation.wave)) === null)
      return `is at its last wave already.${operation.waveState === "HALTED" ? " Start the rest of it with resumeWaves." : ""}`;
    await openNext(transaction, context, await forgive(transaction, operation), caller.actor);
    return null;
  },
  async RESUME(transaction, context, { caller, operation }) {
    if (operation.waveState !== "HALTED") return `is not halted (${operation.waveState}).`;
    const resumed = { ...(await forgive(transaction, operation)), waveState: "RUNNING" } as const;
    const change = { waveState: "RUNNING", waveReason: null, waveBy: caller.actor } as const;
    await updateOperation(transaction.tx, operation.id, change);
    await startQueued(transaction, context, resumed);
    await settleWaves(transaction, context, resumed);
    transaction.afterCommit(context.nudge);
    return null;
  },
};

/** Failures before a user continues the waves do not count again. */
async function forgive(transaction: Transaction, operation: OperationRow): Promise<OperationRow> {
  if (!operation.waves) return operation;
  const waves = { ...operation.waves, forgiven: await countFailed(transaction.tx, operation.id) };
  await updateOperation(transaction.tx, operation.id, { waves });
  return { ...operation, waves };
}

function refused(refusal: Refusal): WavesAnswer {
  return { operationId: null, refusals: [refusal] };
}
