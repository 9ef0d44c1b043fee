/**
 * Slots below the capacity limits: a maximum of runs in a phase, and of runs on one management controller. A run that
 * finds its limit full is not due (QUEUED before its first step, else WAITING between two steps) and gets its
 * slot here; the longest waiting runs go first. It keeps its phase's slot until it leaves the phase, and its
 * controller's slot until it ends, parked or not. A hold and a maintenance release both.
 *
 * One transaction at a time, over all replicas, grants slots: it locks the site's row, so its counts are exact. It
 * waits for no other lock: a run or an operation that is locked is skipped and looked at again.
 *
 * The scheduler looks after commits that freed or need a slot, when limits change, and every two seconds for work that
 * another replica left. At the same interval it looks for overlooked operations: a transaction that starts, ends or
 * wakes runs skips locked ones, and the skipped runs are taken up here.
 */
import type { LegPhase } from "../../lifecycle/verbs.ts";
import { keepFreeOperations, lockOperation, operationsOverlooked } from "../../store/operations/operations.ts";
import type { OperationRow } from "../../store/operations/operations.ts";
import type { Plan, SitePolicy } from "../../store/records.ts";
import { isAnyWaiting, lockWaiting, takenSlots, waitingRuns } from "../../store/runs/slots.ts";
import { plansByHashes } from "../../store/runs/plans.ts";
import { lockQueuedRuns } from "../../store/operations/operation-runs.ts";
import { PRIORITY, wakeRuns } from "../../store/runs/run-claims.ts";
import { finishRuns, updateRuns } from "../../store/runs/runs.ts";
import type { RunRow } from "../../store/runs/runs.ts";
import { lockSite } from "../../store/site.ts";
import { idsOf } from "../input/ids.ts";
import type { EngineParts } from "../context.ts";
import { limitsFor, placesBelow, slotsOf, takenBelow } from "./capacity-limits.ts";
import type { TakenSlots } from "./capacity-limits.ts";
import { settleMany, wakeParked } from "./finish-run.ts";
import type { FinishParts } from "./finish-run.ts";
import type { Transaction } from "../transaction.ts";

const LOOK_EVERY_MS = 2_000;
/** Every end of a run causes a nudge; those within this time share one look. */
const DEBOUNCE_MS = 50;
const OVERLOOKED_MAX = 100;

export function createSlotScheduler(parts: EngineParts) {
  const { database, transact, log } = parts;
  let soon: NodeJS.Timeout | undefined;
  let looking: Promise<void> = Promise.resolve();
  let poll: NodeJS.Timeout | undefined;
  let closed = false;

  async function grant(): Promise<void> {
    if (!(await isAnyWaiting(database.reader))) return;
    const lookAgain = await transact(grantSlots);
    if (lookAgain) nudge();
  }

  async function takeUpOverlooked(): Promise<void> {
    for (const id of await operationsOverlooked(database.reader, OVERLOOKED_MAX))
      await transact((transaction) => continueOperation(transaction, { ...parts, nudge }, id));
  }

  /** Runs after the look that is running, if any. */
  function schedule(look: () => Promise<void>): void {
    looking = looking
      .then(() => (closed ? undefined : look()))
      .catch((error: unknown) => log.warn({ err: error }, "slots could not be granted; trying again"));
  }

  /** Looks soon for waiting runs that can get a slot. Calls that follow each other closely share one look. */
  function nudge(): void {
    if (closed) return;
    soon ??= setTimeout(() => {
      soon = undefined;
      schedule(grant);
    }, DEBOUNCE_MS);
  }

  return {
    nudge,
    start(): void {
      poll = setInterval(() => {
        schedule(takeUpOverlooked);
        nudge();
      }, LOOK_EVERY_MS);
      nudge();
    },
    async close(): Promise<void> {
      closed = true;
      clearInterval(poll);
      clearTimeout(soon);
      await looking;
    },
  };
}

/** Starts, ends or wakes the runs of an operation that an earlier transaction skipped. */
async function continueOperation(transaction: Transaction, parts: FinishParts, operationId: string): Promise<void> {
  const operation = await lockOperation(transaction.tx, operationId);
  if (!operation || operation.finishedAt) return;
  if (operation.interrupt !== null) {
    const queued = (await lockQueuedRuns(transaction.tx, operationId)).filter(({ purpose }) => purpose === "WORK");
    await finishRuns(transaction.tx, idsOf(queued), operation.interrupt === "ABORT" ? "ABORTED" : "STOPPED");
    if (operation.interrupt === "STOP") await wakeParked(transaction, operationId);
  }
  await settleMany(transaction, parts, operationId);
}

/** Waiting runs that are looked at together. */
const PAGE = 500;

/** Grants free slots to waiting runs. Returns whether another look may grant more. */
async function grantSlots(transaction: Transaction): Promise<boolean> {
  const { policy } = await lockSite(transaction.tx);
  const slots = new FreeSlots(policy, await takenSlots(transaction.tx));
  const waiting = await waitingRuns(transaction.tx, {
    except: slots.exhausted(),
    most: largestLimit(policy),
    limit: PAGE,
  });
  if (waiting.length === 0) return false;
  const runs = await lockWaiting(transaction.tx, waiting);
  const reads = await readWaiting(transaction, runs);
  let lookAgain = runs.length < waiting.length || waiting.length === PAGE;
  const started: string[] = [];
  const woken: string[] = [];
  for (const run of runs) {
    const decision = decide(run, reads, slots);
    if (decision === "NOT_YET") continue;
    if (decision === "LOCKED") {
      lookAgain = true;
      continue;
    }
    if ("full" in decision) {
      if (decision.full !== run.waitFor) {
        await updateRuns(transaction.tx, run.id, { waitFor: decision.full });
        // The run has left its former line, so the next run in that line may get a slot.
        lookAgain = true;
      }
      continue;
    }
    slots.take(decision.limits);
    const isQueued = run.state === "QUEUED";
    const wait = isQueued ? ({ waitReason: "CONCURRENCY" } as const) : { waitReason: null, waitingSince: null };
    await updateRuns(transaction.tx, run.id, { waitFor: null, ...slotsOf(decision.phase, run.controller), ...wait });
    (isQueued ? started : woken).push(run.id);
  }
  await wakeRuns(transaction.tx, started, PRIORITY.new);
  await wakeRuns(transaction.tx, woken, PRIORITY.woken);
  return lookAgain;
}

/** The rows that decisions about waiting runs need. Operations that another transaction has locked are missing. */
interface WaitingReads {
  readonly plans: ReadonlyMap<string, Plan>;
  readonly operations: ReadonlyMap<string, OperationRow>;
}

async function readWaiting({ tx }: Transaction, runs: readonly RunRow[]): Promise<WaitingReads> {
  const plans = await plansByHashes(tx, [...new Set(runs.map(({ planHash }) => planHash))]);
  // Locked until the commit: no run of a halted or stopped operation starts after the answer to that request.
  const queued = runs.flatMap(({ state, operationId }) => (state === "QUEUED" ? [operationId] : []));
  const operations = await keepFreeOperations(tx, [...new Set(queued)]);
  return {
    plans,
    operations: new Map(operations.map((operation) => [operation.id, operation])),
  };
}

/**
 * LOCKED: another transaction has locked the operation. NOT_YET: the operation starts no runs now. `full`: the limit
 * that has no free slot. `limits`: those below which the run takes a slot for the phase that it enters.
 */
type Decision =
  | "LOCKED"
  | "NOT_YET"
  | { readonly full: string }
  | { readonly phase: LegPhase | undefined; readonly limits: readonly string[] };

function decide(run: RunRow, { plans, operations }: WaitingReads, slots: FreeSlots): Decision {
  const plan = plans.get(run.planHash);
  if (!plan) throw new Error(`Waiting run ${run.id} has no plan.`);
  const isQueued = run.state === "QUEUED";
  const operation = operations.get(run.operationId);
  if (isQueued && !operation) return "LOCKED";
  const startsNone = operation !== undefined && (operation.interrupt !== null || operation.waveState === "HALTED");
  if (isQueued && run.purpose === "WORK" && startsNone) return "NOT_YET";
  const phase = plan.legs[isQueued ? 0 : (plan.steps[run.position]?.leg ?? run.leg)]?.phase;
  const limits = limitsFor(phase, run.slotController === null ? run.controller : null);
  const full = limits.find((key) => slots.isFull(key));
  return full === undefined ? { phase, limits } : { full };
}

/** The largest limit, an upper bound on the runs that one look can admit. Unbounded if no limit is configured. */
function largestLimit({ phaseLimits = {}, controllerLimit: perController }: SitePolicy): number {
  const limits = [...Object.values(phaseLimits), ...(perController === undefined ? [] : [perController])];
  return limits.length === 0 ? Number.MAX_SAFE_INTEGER : Math.max(...limits);
}

class FreeSlots {
  readonly #policy: SitePolicy;
  readonly #taken: Map<string, number>;

  constructor(policy: SitePolicy, taken: TakenSlots) {
    this.#policy = policy;
    this.#taken = takenBelow(taken);
  }

  /** Keys of the limits without a free slot. */
  exhausted(): readonly string[] {
    return [...this.#taken.keys()].filter((key) => this.isFull(key));
  }

  take(keys: readonly string[]): void {
    for (const key of keys) this.#taken.set(key, (this.#taken.get(key) ?? 0) + 1);
  }

  isFull(key: string): boolean {
    return (this.#taken.get(key) ?? 0) >= (placesBelow(this.#policy, key) ?? Number.POSITIVE_INFINITY);
  }
}
