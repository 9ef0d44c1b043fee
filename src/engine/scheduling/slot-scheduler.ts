/**
 * Turns below the limits of the service: so many runs at work in a phase, so many on one management controller. A run
 * that exceeds a limit waits without a job (QUEUED where its node is untouched yet, else WAITING between two steps) and is
 * given its turn here, those first that have waited longest. It keeps its phase's place until it leaves the phase, and
 * its controller's until it ends, parked or not; a hold and a maintenance give both back.
 *
 * One transaction at a time, over all processes, gives turns: it holds the site's row, so its counts are true. It waits
 * for no other lock: a run or a node that somebody holds just now is passed over and looked at again.
 *
 * Looked at after commits that freed or wanted a place, whenever limits change, and every two seconds for what another
 * process left undone. Then operations are looked at too: whoever begins or ends queued runs passes over those that are
 * held just then, and what was passed over is begun or ended here.
 */
import type { LegPhase } from "../../lifecycle/verbs.ts";
import type { Log } from "../../log.ts";
import type { Observer } from "../../observer.ts";
import type { Database } from "../../store/postgres/database.ts";
import { lockFreeNodes } from "../../store/nodes.ts";
import type { Registry } from "../../drivers/registry.ts";
import { keepFreeOperations, lockOperation, operationsOverlooked } from "../../store/operations.ts";
import type { LimitedPhase, SitePolicy } from "../../store/records.ts";
import { isAnyWaiting, lockWaiting, takenPlaces, waitingRuns } from "../../store/slots.ts";
import { plansByHashes } from "../../store/plans.ts";
import { finishRuns, lockQueuedRuns, updateRun } from "../../store/runs.ts";
import { lockSite } from "../../store/site.ts";
import { startRuns } from "./start-runs.ts";
import { controllerLimit, phaseLimit, slotsOf } from "./capacity-limits.ts";
import type { Queue } from "../jobs/queue.ts";
import { settleMany } from "./finish-run.ts";
import type { FinishParts } from "./finish-run.ts";
import type { Transact, Transaction } from "../transaction.ts";

export interface SlotScheduler {
  /** Looks, soon, whether runs that wait can have their turn. */
  nudge(): void;
  start(): void;
  close(): Promise<void>;
}

const LOOK_EVERY_MS = 2_000;
/** Nudges come with every end of a run: those of a moment are answered together. */
const GATHER_MS = 50;
const OVERLOOKED_AT_ONCE = 100;

export function createSlotScheduler(parts: {
  readonly database: Database;
  readonly transact: Transact;
  readonly registry: Registry;
  readonly queue: Queue;
  readonly observer: Observer;
  readonly log: Log;
}): SlotScheduler {
  const { database, transact, registry, queue, observer, log } = parts;
  let soon: NodeJS.Timeout | undefined;
  let looking: Promise<void> = Promise.resolve();
  let poll: NodeJS.Timeout | undefined;
  let closed = false;

  async function look(): Promise<void> {
    if (!(await isAnyWaiting(database.reader))) return;
    const lookAgain = await transact((transaction) => giveTurns(transaction, queue));
    if (lookAgain) nudge();
  }

  async function lookForOverlooked(): Promise<void> {
    for (const id of await operationsOverlooked(database.reader, OVERLOOKED_AT_ONCE))
      await transact((transaction) => takeUpOverlooked(transaction, { registry, queue, nudge, observer }, id));
  }

  function afterwards(what: () => Promise<void>): void {
    looking = looking
      .then(() => (closed ? undefined : what()))
      .catch((error: unknown) => log.warn({ err: error }, "turns could not be given; it is tried again"));
  }

  function nudge(): void {
    if (closed) return;
    soon ??= setTimeout(() => {
      soon = undefined;
      afterwards(look);
    }, GATHER_MS);
  }

  return {
    nudge,
    start() {
      poll = setInterval(() => {
        afterwards(lookForOverlooked);
        nudge();
      }, LOOK_EVERY_MS);
      nudge();
    },
    async close() {
      closed = true;
      clearInterval(poll);
      clearTimeout(soon);
      await looking;
    },
  };
}

/** Begins or ends queued runs of an operation that whoever was to do so has passed over. */
async function takeUpOverlooked(transaction: Transaction, parts: FinishParts, operationId: string): Promise<void> {
  const operation = await lockOperation(transaction.tx, operationId);
  if (!operation || operation.finishedAt) return;
  if (operation.interrupt !== null) {
    const queued = (await lockQueuedRuns(transaction.tx, operationId)).filter(({ purpose }) => purpose === "WORK");
    await finishRuns(
      transaction.tx,
      queued.map(({ id }) => id),
      operation.interrupt === "ABORT" ? "ABORTED" : "STOPPED",
    );
  }
  await settleMany(transaction, parts, operationId);
}

/** Runs that are looked at together. */
const PAGE = 500;

/** Answers whether there may be somebody more who can have a turn. */
async function giveTurns(transaction: Transaction, queue: Queue): Promise<boolean> {
  const { policy } = await lockSite(transaction.tx);
  const places = freePlaces(policy, await takenPlaces(transaction.tx));
  const waiting = await waitingRuns(transaction.tx, {
    except: places.exhausted,
    most: mostPlaces(policy),
    limit: PAGE,
  });
  if (waiting.length === 0) return false;
  const runs = await lockWaiting(transaction.tx, waiting);
  const nodes = new Map(
    (
      await lockFreeNodes(
        transaction.tx,
        runs.map(({ nodeId }) => nodeId),
      )
    ).map((node) => [node.id, node]),
  );
  const plans = await plansByHashes(transaction.tx, [...new Set(runs.map(({ planHash }) => planHash))]);
  // Kept until the commit: of an operation that was halted or stopped nothing begins after the answer.
  const beginning = runs.flatMap(({ state, operationId }) => (state === "QUEUED" ? [operationId] : []));
  const operations = new Map(
    (await keepFreeOperations(transaction.tx, [...new Set(beginning)])).map((one) => [one.id, one]),
  );
  let lookAgain = runs.length < waiting.length || waiting.length === PAGE;
  const woken: string[] = [];
  for (const run of runs) {
    const plan = plans.get(run.planHash);
    const operation = operations.get(run.operationId);
    if (!plan) throw new Error(`Waiting run ${run.id} has lost its plan.`);
    if (run.state === "QUEUED" && !operation) {
      lookAgain = true;
      continue;
    }
    if (
      run.state === "QUEUED" &&
      run.purpose === "WORK" &&
      operation &&
      (operation.interrupt !== null || operation.waveState === "HALTED")
    )
      continue;
    const phase = plan.legs[run.state === "QUEUED" ? 0 : (plan.steps[run.position]?.leg ?? run.leg)]?.phase;
    const controller = run.slotController === null ? run.controller : null;
    const full = places.full(phase, controller);
    if (full !== null) {
      if (full !== run.waitFor) {
        await updateRun(transaction.tx, run.id, { waitFor: full });
        // It has left the line that it stood in, so the next one there may be let in.
        lookAgain = true;
      }
      continue;
    }
    const node = nodes.get(run.nodeId);
    if (!node) {
      lookAgain = true;
      continue;
    }
    places.take(phase, controller);
    const change = { waitFor: null, waitingSince: null, waitReason: null, ...slotsOf(phase, run.controller) };
    if (run.state === "QUEUED" && operation) {
      await updateRun(transaction.tx, run.id, { ...change, state: "RUNNING" });
      await startRuns(transaction, queue, operation, operation.actor, [
        { runId: run.id, node, plan, target: run.target },
      ]);
    } else {
      await updateRun(transaction.tx, run.id, change);
      woken.push(run.id);
    }
  }
  await queue.wakeMany(transaction, woken, "woken");
  return lookAgain;
}

/** No limit has more places than this; where none is left, everybody who waits for it goes. */
function mostPlaces({ phaseLimits = {}, controllerLimit: perController }: SitePolicy): number {
  const limits = [...Object.values(phaseLimits), ...(perController === undefined ? [] : [perController])];
  return limits.length === 0 ? Number.MAX_SAFE_INTEGER : Math.max(...limits);
}

function freePlaces(policy: SitePolicy, taken: Awaited<ReturnType<typeof takenPlaces>>) {
  const phases = new Map(taken.phases);
  const controllers = new Map(taken.controllers);
  const limitOf = (phase: string | undefined) =>
    policy.phaseLimits?.[phase as LimitedPhase] ?? Number.POSITIVE_INFINITY;
  const perController = policy.controllerLimit ?? Number.POSITIVE_INFINITY;
  return {
    /** Limits that leave no place. */
    exhausted: [
      ...[...phases].flatMap(([phase, count]) => (count >= limitOf(phase) ? [phaseLimit(phase)] : [])),
      ...[...controllers].flatMap(([controller, count]) =>
        count >= perController ? [controllerLimit(controller)] : [],
      ),
    ] as readonly string[],
    /** The limit that leaves no place, the phase's first; null: none does. */
    full(phase: LegPhase | undefined, controller: string | null): string | null {
      if (phase !== undefined && (phases.get(phase) ?? 0) >= limitOf(phase)) return phaseLimit(phase);
      if (controller !== null && (controllers.get(controller) ?? 0) >= perController)
        return controllerLimit(controller);
      return null;
    },
    take(phase: LegPhase | undefined, controller: string | null): void {
      if (phase !== undefined) phases.set(phase, (phases.get(phase) ?? 0) + 1);
      if (controller !== null) controllers.set(controller, (controllers.get(controller) ?? 0) + 1);
    },
  };
}
