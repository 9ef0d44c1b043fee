/** Aborting, stopping and ending a discovery. */
import type { Interrupt } from "../../lifecycle/operation-states.ts";
import { outcome } from "../../lifecycle/operation-states.ts";
import {
  deleteDiscoverySecrets,
  discoveryCounts,
  firstFailedDiscovery,
  skipQueuedDiscoveries,
} from "../../store/operations/discoveries.ts";
import { takeStopsOver } from "../../store/operations/due-operations.ts";
import {
  finishOperations,
  interruptOperation,
  lockOperation,
  noteFirstFailure,
  operationsByIds,
} from "../../store/operations/operations.ts";
import type { OperationRow } from "../../store/operations/operations.ts";
import type { Reader, Tx } from "../../store/postgres/database.ts";
import { keepReadOnly } from "../../store/postgres/transactions.ts";
import type { EngineContext } from "../context.ts";
import { refuseRequest } from "../input/answers.ts";
import type { SubmitAnswer } from "../input/answers.ts";
import { addressesEntry } from "../input/forecast-entries.ts";
import { abortFlaws, stopFlaws, timeoutOf } from "../input/interrupt-request.ts";
import type { AbortRequest, AbortResult, StopRequest } from "../input/interrupt-request.ts";
import { isUuid } from "../../runtime/uuid.ts";
import { operationEnded, unknownOperation } from "../input/work-selector.ts";
import type { WorkSelector } from "../input/work-selector.ts";
import type { Caller, Transaction } from "../transaction.ts";

/** The discovery that a request selects; null if it selects other work, or none. */
export async function selectedDiscovery(reader: Reader, selector: WorkSelector): Promise<string | null> {
  if (!("operationId" in selector) || !isUuid(selector.operationId)) return null;
  const [operation] = await operationsByIds(reader, [selector.operationId]);
  return operation?.kind === "DISCOVER" ? operation.id : null;
}

/** Ends a discovery at once. The results of probes that are still running are dropped. */
export async function abortDiscovery(
  context: EngineContext,
  caller: Caller,
  { operationId, request }: { readonly operationId: string; readonly request: AbortRequest },
): Promise<AbortResult> {
  const flaws = abortFlaws(request);
  if (flaws.length > 0) return refuseRequest(flaws);
  if (request.dryRun)
    return context.transact(({ tx }) =>
      forecastDiscovery(tx, operationId, { interrupt: "ABORT", timeoutSeconds: null }),
    );
  return context.transact(async (transaction): Promise<AbortResult> => {
    const operation = await lockOperation(transaction.tx, operationId);
    if (!operation) return refuseRequest(unknownOperation(operationId));
    if (operation.finishedAt) return refuseRequest(operationEnded(operationId, operation.state));
    if (operation.interrupt !== "ABORT")
      await interruptOperation(transaction.tx, operationId, {
        interrupt: "ABORT",
        interruptBy: caller.actor,
        interruptReason: request.reason ?? null,
      });
    await finishDiscovery(transaction, { id: operationId, interrupt: "ABORT" });
    return { operationId, results: [], refusals: [], replayed: false };
  });
}

/** Starts no further probe, and ends the discovery when the running ones have ended or the time of the stop is over. */
export async function stopDiscovery(
  context: EngineContext,
  caller: Caller,
  { operationId, request }: { readonly operationId: string; readonly request: StopRequest },
): Promise<SubmitAnswer> {
  const flaws = stopFlaws(request);
  if (flaws.length > 0) return refuseRequest(flaws);
  if (request.dryRun)
    return context.transact(({ tx }) =>
      forecastDiscovery(tx, operationId, { interrupt: "STOP", timeoutSeconds: timeoutOf(request) }),
    );
  return context.transact(async (transaction): Promise<SubmitAnswer> => {
    const operation = await lockOperation(transaction.tx, operationId);
    if (!operation) return refuseRequest(unknownOperation(operationId));
    const answer = { operationId, results: [], refusals: [], replayed: false };
    if (operation.finishedAt) return answer;
    const stop = { interrupt: "STOP", interruptBy: caller.actor, interruptReason: request.reason ?? null } as const;
    if (operation.interrupt !== "STOP") await interruptOperation(transaction.tx, operationId, stop, timeoutOf(request));
    if (operation.startedAt === null) await finishDiscovery(transaction, { id: operationId, interrupt: "STOP" });
    return answer;
  });
}

/**
 * The effect that an interrupt would have on the addresses without a result. Probes are not recorded before they have
 * one.
 */
async function forecastDiscovery(
  tx: Tx,
  operationId: string,
  { interrupt, timeoutSeconds }: { readonly interrupt: Interrupt; readonly timeoutSeconds: number | null },
): Promise<SubmitAnswer & { readonly results: readonly never[] }> {
  await keepReadOnly(tx);
  const [operation] = await operationsByIds(tx, [operationId]);
  if (!operation) return refuseRequest(unknownOperation(operationId));
  if (operation.finishedAt && interrupt === "ABORT") return refuseRequest(operationEnded(operationId, operation.state));
  const { QUEUED = 0 } = (await discoveryCounts(tx, [operationId])).get(operationId) ?? {};
  const isNew = operation.finishedAt === null && operation.interrupt !== interrupt;
  const ends = interrupt === "ABORT" || operation.startedAt === null ? "NOW" : "PENDING";
  const entries = addressesEntry(QUEUED, isNew ? ends : "NONE");
  return { ...refuseRequest([]), forecast: { entries, timeoutSeconds } };
}

/** The time of a stop is over: addresses whose probes are still running are skipped. */
export async function stopDiscoveryTimeout(context: EngineContext, operationId: string): Promise<void> {
  await context.transact(async (transaction) => {
    const operation = await lockOperation(transaction.tx, operationId);
    const { isWhole } = await takeStopsOver(transaction.tx, operationId);
    if (isWhole && operation && !operation.finishedAt) await finishDiscovery(transaction, operation);
  });
}

/** Ends a discovery, whose operation is locked. Addresses that are still queued are skipped. */
export async function finishDiscovery(
  { tx }: Transaction,
  { id, interrupt }: Pick<OperationRow, "id" | "interrupt">,
): Promise<void> {
  await skipQueuedDiscoveries(tx, id);
  await deleteDiscoverySecrets(tx, id);
  const failure = await firstFailedDiscovery(tx, id);
  if (failure) await noteFirstFailure(tx, id, failure);
  const { REGISTERED = 0, KNOWN = 0, FAILED = 0, SKIPPED = 0 } = (await discoveryCounts(tx, [id])).get(id) ?? {};
  const skipped = interrupt === "ABORT" ? { aborted: SKIPPED, stopped: 0 } : { aborted: 0, stopped: SKIPPED };
  await finishOperations(
    tx,
    [id],
    outcome(
      { succeeded: REGISTERED + KNOWN, succeededWithErrors: 0, failed: FAILED, ...skipped },
      { interrupt, cleanedUpAll: false },
    ),
  );
}
