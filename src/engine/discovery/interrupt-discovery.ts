/** Aborting, stopping and ending a discovery. */
import { outcome } from "../../lifecycle/operation-states.ts";
import { discoveryCounts, firstFailedDiscovery, skipQueuedDiscoveries } from "../../store/operations/discoveries.ts";
import { takeStopsOver } from "../../store/operations/due-operations.ts";
import {
  finishOperations,
  interruptOperation,
  lockOperation,
  noteFirstFailure,
  operationsByIds,
} from "../../store/operations/operations.ts";
import type { OperationRow } from "../../store/operations/operations.ts";
import type { Reader } from "../../store/postgres/database.ts";
import { keepReadOnly } from "../../store/postgres/transactions.ts";
import { deleteSecrets, SECRETS } from "../../store/secrets/secrets.ts";
import type { EngineContext } from "../context.ts";
import { refuseRequest } from "../input/answers.ts";
import type { SubmitAnswer } from "../input/answers.ts";
import { addressesEntry } from "../input/forecast-entries.ts";
import { abortFlaws, stopFlaws, timeoutOf } from "../input/interrupt-request.ts";
import type { AbortRequest, StopRequest } from "../input/interrupt-request.ts";
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

/** An abort ends a discovery at once, and the results of probes that are still running are dropped. */
type DiscoveryInterrupt =
  | { readonly kind: "ABORT"; readonly request: AbortRequest }
  /** No further probe starts, and the discovery ends when the running ones have, or the time of the stop is over. */
  | { readonly kind: "STOP"; readonly request: StopRequest };

/** Aborts or stops a discovery; in a dry run, says what becomes of the addresses that have no result yet. */
export async function interruptDiscovery(
  context: EngineContext,
  caller: Caller,
  id: string,
  { kind, request }: DiscoveryInterrupt,
): Promise<SubmitAnswer & { readonly results: readonly never[] }> {
  const flaws = kind === "ABORT" ? abortFlaws(request) : stopFlaws(request);
  if (flaws.length > 0) return refuseRequest(flaws);
  const seconds = kind === "ABORT" ? undefined : timeoutOf(request);
  return context.transact(async (transaction) => {
    const { tx } = transaction;
    if (request.dryRun) await keepReadOnly(tx);
    const operation = request.dryRun ? (await operationsByIds(tx, [id]))[0] : await lockOperation(tx, id);
    if (!operation) return refuseRequest(unknownOperation(id));
    const { finishedAt, startedAt, interrupt, state } = operation;
    if (finishedAt && kind === "ABORT") return refuseRequest(operationEnded(id, state));
    const isNew = !finishedAt && interrupt !== kind;
    const endsNow = kind === "ABORT" || startedAt === null;
    if (request.dryRun) {
      // Probes are not recorded before they have a result.
      const { QUEUED = 0 } = (await discoveryCounts(tx, [id])).get(id) ?? {};
      const entries = addressesEntry(QUEUED, !isNew ? "NONE" : endsNow ? "NOW" : "PENDING");
      return { ...refuseRequest([]), forecast: { entries, timeoutSeconds: seconds ?? null } };
    }
    const recorded = { interrupt: kind, interruptBy: caller.actor, interruptReason: request.reason ?? null };
    if (isNew) await interruptOperation(tx, id, recorded, seconds);
    if (!finishedAt && endsNow) await finishDiscovery(transaction, { id, interrupt: kind });
    transaction.audit(caller, { operationId: id });
    return { operationId: id, results: [], refusals: [], replayed: false };
  });
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
  await deleteSecrets(tx, SECRETS.ofDiscoveries, id);
  const failure = await firstFailedDiscovery(tx, id);
  if (failure) await noteFirstFailure(tx, id, failure);
  const { REGISTERED = 0, KNOWN = 0, FAILED = 0, SKIPPED = 0 } = (await discoveryCounts(tx, [id])).get(id) ?? {};
  const skipped = interrupt === "ABORT" ? { aborted: SKIPPED, stopped: 0 } : { aborted: 0, stopped: SKIPPED };
  await finishOperations(
    tx,
    [id],
    outcome(
      { succeeded: REGISTERED + KNOWN, succeededWithErrors: 0, failed: FAILED, ...skipped },
      { interrupt, hasFailed: false },
    ),
  );
}
