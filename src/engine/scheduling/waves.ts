/**
 * Waves of an operation: opened one after the other as the nodes of the one before have ended, held when too many have
 * failed, and moved on, halted and resumed by request. Everything happens under the operation's lock. The verdicts are
 * those of lifecycle/waves.ts.
 */
import type { Refusal } from "../../errors.ts";
import { judgeWaves, waveSizes, countOf } from "../../lifecycle/waves.ts";
import type { Share, WaveOptions } from "../../lifecycle/waves.ts";
import { lockOperation, pauseLeft, pauseWaves, updateOperation } from "../../store/operations.ts";
import type { OperationRow } from "../../store/operations.ts";
import type { Waves } from "../../store/records.ts";
import { countFailed, hasQueued, hasUnfinishedInWaves, nextQueuedWave } from "../../store/runs.ts";
import { ENGINE, startQueued } from "./start-runs.ts";
import type { StartParts } from "./start-runs.ts";
import { isUuid } from "../input/node-selector.ts";
import { reasonFlaws } from "../input/size-limits.ts";
import type { Caller, Transact, Transaction } from "../transaction.ts";

const WAVES_MAX = 1_000;
const PAUSE_SECONDS_MAX = 30 * 86_400;

/** What is wrong with waves as they are asked for. */
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
      ? [flaw("sizes", `Waves have 1 to ${WAVES_MAX} sizes; the last one is repeated.`)]
      : []),
    ...sizes.flatMap((size, index) =>
      isShare(size, 1)
        ? []
        : [
            {
              ...flaw("sizes", "The size of a wave is a count of 1 or more, or a percent above 0 and up to 100."),
              path: [...path, "sizes", String(index)],
            },
          ],
    ),
    ...(pauseSeconds >= 0 && pauseSeconds <= PAUSE_SECONDS_MAX
      ? []
      : [flaw("pauseSeconds", `A pause is 0 to ${PAUSE_SECONDS_MAX} seconds.`)]),
    ...(maxFailures === undefined || isShare(maxFailures, 0)
      ? []
      : [flaw("maxFailures", "maxFailures is a count of 0 or more, or a percent from 0 to 100.")]),
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

/** Draws the consequences of a run's end for the waves of its operation. */
export async function settleWaves(transaction: Transaction, parts: StartParts, operation: OperationRow): Promise<void> {
  const { waves, waveState, wave } = operation;
  if (!waves || !waveState || operation.interrupt !== null) return;
  // Every run's end comes by here, so failures are counted only where they count.
  const failures = waves.maxFailures === null ? 0 : (await countFailed(transaction.tx, operation.id)) - waves.forgiven;
  const unfinished = await hasUnfinishedInWaves(transaction.tx, operation.id, wave);
  const queued = await hasQueued(transaction.tx, operation.id);
  switch (judgeWaves({ ...waves, state: waveState, wave, waves: waves.sizes.length, failures, unfinished, queued })) {
    case "NOTHING":
      return;
    case "HALT": {
      const waveReason = `${failures} ${failures === 1 ? "node" : "nodes"} failed, and ${waves.maxFailures} may; the rest is held. Go on with resumeWaves, or stop the operation.`;
      return updateOperation(transaction.tx, operation.id, {
        waveState: "HALTED",
        waveReason,
        waveBy: ENGINE,
        waveUntil: null,
      });
    }
    case "AWAIT":
      return updateOperation(transaction.tx, operation.id, {
        waveState: "AWAITING",
        waveReason: `Wave ${wave + 1} of ${waves.sizes.length} has ended; advanceWaves begins the next one.`,
        waveBy: ENGINE,
      });
    case "PAUSE":
      await pauseWaves(transaction.tx, operation.id, waves.pauseSeconds, {
        waveReason: `Wave ${wave + 1} of ${waves.sizes.length} has ended; a pause of ${waves.pauseSeconds} s.`,
        waveBy: ENGINE,
      });
      return parts.queue.timer(transaction, { operationId: operation.id, what: "WAVE" }, waves.pauseSeconds);
    case "OPEN":
      return openNext(transaction, parts, operation, ENGINE);
  }
}

/** Opens the next wave that has a node left to begin; one whose nodes have all been aborted would never end. */
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

/** The pause of an operation is over. */
export async function pauseIsOver(transact: Transact, parts: StartParts, operationId: string): Promise<void> {
  await transact(async (transaction) => {
    const operation = await lockOperation(transaction.tx, operationId);
    if (operation?.waveState !== "PAUSED" || operation.interrupt !== null) return;
    const left = await pauseLeft(transaction.tx, operationId);
    // Too early: the clock was set back, or this was the timer of an earlier pause. Nothing else may come for the rest.
    if (left > CLOCK_TOLERANCE_SECONDS) return parts.queue.timer(transaction, { operationId, what: "WAVE" }, left);
    await openNext(transaction, parts, operation, ENGINE);
  });
}

/** Between the beginning of the transaction that set the end of the pause and the moment its timer was stored for. */
const CLOCK_TOLERANCE_SECONDS = 0.1;

export const WAVE_ACTIONS = {
  ADVANCE: "Begin the next wave now.",
  HALT: "Let no further node begin.",
  RESUME: "Go on after a halt; failures so far are forgiven.",
} as const;
export type WaveAction = keyof typeof WAVE_ACTIONS;

export interface WavesRequest {
  readonly operationId: string;
  readonly action: WaveAction;
  readonly reason?: string | undefined;
}

export type WavesAnswer = { readonly operationId: string | null; readonly refusals: readonly Refusal[] };

/** Moves the waves of an operation on, halts or resumes them. */
export async function steerWaves(
  transact: Transact,
  parts: StartParts,
  caller: Caller,
  { operationId: id, action, reason }: WavesRequest,
): Promise<WavesAnswer> {
  const flaws = reasonFlaws(reason);
  if (flaws.length > 0) return { operationId: null, refusals: flaws };
  return transact(async (transaction): Promise<WavesAnswer> => {
    const operation = isUuid(id) ? await lockOperation(transaction.tx, id) : undefined;
    if (!operation)
      return refused({
        code: "NOT_FOUND",
        message: `There is no operation ${id}.`,
        missing: [id],
        path: ["input", "operationId"],
      });
    const { waves, waveState } = operation;
    const wrong = (message: string) =>
      refused({
        code: "INVALID_STATE",
        message: `Operation ${id} ${message}`,
        operationId: id,
        path: ["input", "operationId"],
      });
    if (!waves || !waveState) return wrong("has no waves; its nodes were taken on all at once.");
    if (operation.finishedAt) return wrong(`has ended (${operation.state}).`);
    if (operation.interrupt !== null)
      return wrong(`is being ${operation.interrupt === "STOP" ? "stopped" : "aborted"}.`);
    switch (action) {
      case "HALT":
        await updateOperation(transaction.tx, id, {
          waveState: "HALTED",
          waveReason: reason ?? (waveState === "HALTED" ? operation.waveReason : "halted by request"),
          waveBy: caller.actor,
          waveUntil: null,
        });
        break;
      case "ADVANCE":
        if ((await nextQueuedWave(transaction.tx, id, operation.wave)) === null)
          return wrong(
            `is at its last wave already${waveState === "HALTED" ? "; resumeWaves lets the rest of it begin" : ""}.`,
          );
        await openNext(transaction, parts, await forgive(transaction, operation), caller.actor);
        break;
      case "RESUME": {
        if (waveState !== "HALTED") return wrong(`is not halted (${waveState}).`);
        const resumed = { ...(await forgive(transaction, operation)), waveState: "RUNNING" } as const;
        await updateOperation(transaction.tx, id, { waveState: "RUNNING", waveReason: null, waveBy: caller.actor });
        await startQueued(transaction, parts, resumed);
        await settleWaves(transaction, parts, resumed);
        transaction.afterCommit(parts.nudge);
      }
    }
    return { operationId: id, refusals: [] };
  });
}

/** Failures that somebody has seen and gone on after do not count again. */
async function forgive(transaction: Transaction, operation: OperationRow): Promise<OperationRow> {
  if (!operation.waves) return operation;
  const waves = { ...operation.waves, forgiven: await countFailed(transaction.tx, operation.id) };
  await updateOperation(transaction.tx, operation.id, { waves });
  return { ...operation, waves };
}

function refused(refusal: Refusal): WavesAnswer {
  return { operationId: null, refusals: [refusal] };
}
