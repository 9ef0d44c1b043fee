/** The engine's face: everything that changes anything goes through here. */
import type { Registry } from "../drivers/registry.ts";
import type { Log } from "../log.ts";
import { noopObserver } from "../observer.ts";
import type { Observer } from "../observer.ts";
import type { Notifier } from "../store/postgres/notifier.ts";
import type { Database } from "../store/postgres/database.ts";
import { watchReplicaPresence } from "./scheduling/replica-presence.ts";
import { callBack } from "./execution/callback.ts";
import type { CallBackAnswer } from "./execution/callback.ts";
import { createCluster, deleteCluster, updateCluster } from "./inventory/clusters.ts";
import type { ClusterChange, ClusterEdited, NewCluster } from "./inventory/clusters.ts";
import { discoverNodes } from "./discovery/discover.ts";
import type { DiscoverAnswer, DiscoverRequest } from "./discovery/discover.ts";
import { unhold } from "./interruption/unhold.ts";
import type { UnholdRequest } from "./interruption/unhold.ts";
import { abortWork, stopTimeout, stopWork } from "./interruption/abort.ts";
import type { AbortRequest, AbortResult, StopRequest } from "./interruption/abort.ts";
import { deleteNodes, registerNodes, setMaintenance, setRetired, updateNode } from "./inventory/register-nodes.ts";
import type { Edited, NewNode, NodeChange } from "./inventory/register-nodes.ts";
import { createPowerReader } from "./power/power-reader.ts";
import type { PowerAnswers } from "./power/power-reader.ts";
import { reportPresence } from "./inventory/presence.ts";
import type { PresenceEvent, PresenceReported, ReportedNode } from "./inventory/presence.ts";
import { createProber } from "./discovery/prober.ts";
import { createQueue } from "./jobs/queue.ts";
import { startRecovery } from "./execution/recover.ts";
import { restartWork } from "./admission/restart.ts";
import type { RestartRequest } from "./admission/restart.ts";
import { startRetention } from "./inventory/retention.ts";
import { createRunbook, deleteRunbook, updateRunbook } from "./inventory/runbooks.ts";
import type { NewRunbook, RunbookChange, RunbookEdited } from "./inventory/runbooks.ts";
import { Runner } from "./execution/runner.ts";
import type { ClusterRef, NodeSelector } from "./input/node-selector.ts";
import { updateSite } from "./inventory/site.ts";
import type { SiteChange, SiteEdited } from "./inventory/site.ts";
import { submitVerb } from "./admission/admit.ts";
import type { SubmitAnswer, VerbRequest } from "./admission/admit.ts";
import type { Caller } from "./transaction.ts";
import { createTransact } from "./transaction.ts";
import { createSlotScheduler } from "./scheduling/slot-scheduler.ts";
import { pauseIsOver, steerWaves } from "./scheduling/waves.ts";
import type { WavesAnswer, WavesRequest } from "./scheduling/waves.ts";
import { withdrawAbort } from "./interruption/withdraw-abort.ts";
import type { WithdrawRequest } from "./interruption/withdraw-abort.ts";
import type { StoredJson } from "../store/records.ts";

// What the API shows of how the engine decides.
export { limitsOf } from "./scheduling/capacity-limits.ts";
export { stepUnderWay } from "./interruption/abort.ts";
export { OFF_REASONS, catalogueOf } from "./plans/plan.ts";
export { RESERVED_STEPS, isHold, isReservedWait, reservedArgsSchema } from "./plans/reserved-steps.ts";
export { PRESENCE_CHANGES, PRESENCE_EVENTS } from "./inventory/presence.ts";
export { RESTART_FROM } from "./admission/restart.ts";
export { findCluster } from "./input/node-selector.ts";
export { ACCEPTANCES, factsOf } from "./admission/admit.ts";

export interface Engine extends AsyncDisposable {
  /** Begins to take work, where it works at all. Until then requests are admitted and wait. */
  start(): Promise<void>;
  /** Takes no more work; what is running comes to the end of its step. Requests are admitted still, and wait for another process. */
  rest(): void;
  submit(caller: Caller, request: VerbRequest): Promise<SubmitAnswer>;
  abort(caller: Caller, request: AbortRequest): Promise<AbortResult>;
  stop(caller: Caller, request: StopRequest): Promise<SubmitAnswer>;
  restart(caller: Caller, request: RestartRequest): Promise<SubmitAnswer>;
  /** Takes pending aborts back. */
  withdrawAbort(caller: Caller, request: WithdrawRequest): Promise<SubmitAnswer>;
  /** Lifts holds. */
  unhold(caller: Caller, request: UnholdRequest): Promise<SubmitAnswer>;
  /** Moves the waves of an operation on, halts or resumes them. */
  steerWaves(caller: Caller, request: WavesRequest): Promise<WavesAnswer>;
  registerNodes(caller: Caller, nodes: readonly NewNode[]): Promise<Edited>;
  /** Probes addresses and registers what answers. */
  discoverNodes(caller: Caller, request: DiscoverRequest): Promise<DiscoverAnswer>;
  /** What monitoring has seen, or sees no more. */
  reportPresence(caller: Caller, event: PresenceEvent, nodes: readonly ReportedNode[]): Promise<PresenceReported>;
  updateNode(caller: Caller, nodeId: string, change: NodeChange): Promise<Edited>;
  deleteNodes(caller: Caller, selector: NodeSelector): Promise<Edited>;
  setMaintenance(caller: Caller, selector: NodeSelector, reason: string | null): Promise<Edited>;
  setRetired(caller: Caller, selector: NodeSelector, reason: string | null): Promise<Edited>;
  /** Reads the power of nodes now, up to 1,000 of them, within half a minute. Those that are at work are refused. */
  readPower(selector: NodeSelector): Promise<PowerAnswers>;
  createCluster(caller: Caller, cluster: NewCluster): Promise<ClusterEdited>;
  updateCluster(caller: Caller, ref: ClusterRef, change: ClusterChange): Promise<ClusterEdited>;
  deleteCluster(caller: Caller, ref: ClusterRef, ifRevision: number | undefined): Promise<ClusterEdited>;
  createRunbook(caller: Caller, runbook: NewRunbook): Promise<RunbookEdited>;
  updateRunbook(caller: Caller, name: string, change: RunbookChange): Promise<RunbookEdited>;
  deleteRunbook(caller: Caller, name: string, ifRevision: number | undefined): Promise<RunbookEdited>;
  updateSite(caller: Caller, change: SiteChange): Promise<SiteEdited>;
  /** A machine calls back; `token` is the last part of the path it was given. */
  callBack(token: string, body: StoredJson): Promise<CallBackAnswer>;
}

export interface EngineOptions {
  readonly database: Database;
  readonly registry: Registry;
  readonly bell: Notifier;
  readonly log: Log;
  /** Whom the work is told. Absent: nobody. */
  readonly observer?: Observer;
  /** false: requests are admitted, and others do the work. */
  readonly works?: boolean;
  /** Runs worked on at the same time. */
  readonly concurrency: number;
  /** How long a step may take to end after its signal fired. */
  readonly abortGraceMs?: number;
  /** How long each part of a tear-down may take. */
  readonly tearDownMs?: number;
  /** How long a probe of a discovery may take. */
  readonly probeMs?: number;
  /**
   * Ends calls of drivers that are under way, whatever they are doing. Where there is such a thing, steps that do not end in
   * time when the engine is disposed of are handed back at once; otherwise their leases have to run out.
   */
  readonly endCalls?: () => Promise<void>;
  /** How long running steps may take to end when the engine is disposed of. */
  readonly drainMs?: number;
  /** How often the power of each node at rest is read, in seconds; absent or 0: never. */
  readonly powerSeconds?: number;
  /** How long transitions are kept, in days; absent or 0: for ever. */
  readonly retentionDays?: number;
}

const ABORT_GRACE_MS = 10_000;
const TEAR_DOWN_MS = 60_000;
const PROBE_MS = 30_000;
const DRAIN_MS = 5_000;

export async function createEngine(options: EngineOptions): Promise<Engine> {
  const { database, registry, bell, log, concurrency, observer = noopObserver } = options;
  const transact = createTransact(database, bell, observer);
  // The queue makes its tables at the first start, and of two that do so at once one would fail.
  const queue = await database.withStartLock(() =>
    createQueue({
      connection: database.connection,
      bell,
      log,
      observer,
      concurrency,
      connectionsMax: database.pools.queue,
      supervises: options.works !== false,
    }),
  );
  const turns = createSlotScheduler({ database, transact, registry, queue, observer, log });
  const { nudge } = turns;
  const runner = new Runner({
    database,
    transact,
    registry,
    queue,
    nudge,
    bell,
    log,
    observer,
    abortGraceMs: options.abortGraceMs ?? ABORT_GRACE_MS,
    tearDownMs: options.tearDownMs ?? TEAR_DOWN_MS,
  });
  const parts = { transact, registry, queue, nudge, observer, checkInterrupts: () => runner.checkInterrupts() };
  const prober = createProber({ database, transact, registry, log, observer, probeMs: options.probeMs ?? PROBE_MS });
  const powerReader = createPowerReader({ database, transact, registry, bell, log, observer });
  let attendance: { close(): void } | undefined;
  let recovery: { close(): void } | undefined;
  let retention: { close(): Promise<void> } | undefined;
  let restedAt = Number.POSITIVE_INFINITY;
  const { endCalls } = options;
  const letGo = async () => {
    runner.release();
    await endCalls?.();
  };
  const rest = () => {
    if (restedAt < Number.POSITIVE_INFINITY) return;
    restedAt = performance.now();
    runner.drain();
    prober.drain();
    queue.rest();
  };
  return {
    rest,
    async start() {
      if (options.works === false) {
        attendance = watchReplicaPresence({ queue, log });
        return;
      }
      await queue.start({
        run: (runId, job) => runner.run(runId, job),
        discover: prober.run,
        timer: ({ operationId, what, setAt }) =>
          what === "STOP" ? stopTimeout(parts, operationId, setAt) : pauseIsOver(transact, parts, operationId),
      });
      turns.start();
      recovery = startRecovery({ database, queue, log });
      if (options.retentionDays) retention = startRetention({ database, log, days: options.retentionDays });
      if (options.powerSeconds) powerReader.start(options.powerSeconds);
    },
    submit: (caller, request) => submitVerb(parts, caller, request),
    abort: (caller, request) => abortWork(parts, caller, request),
    stop: (caller, request) => stopWork(parts, caller, request),
    restart: (caller, request) => restartWork(parts, caller, request),
    withdrawAbort: (caller, request) => withdrawAbort(parts, caller, request),
    unhold: (caller, request) => unhold(parts, caller, request),
    steerWaves: (caller, request) => steerWaves(transact, parts, caller, request),
    registerNodes: (caller, nodes) => registerNodes(parts, caller, nodes),
    discoverNodes: (caller, request) => discoverNodes(parts, caller, request),
    reportPresence: (caller, event, nodes) => reportPresence(parts, caller, event, nodes),
    updateNode: (_caller, nodeId, change) => updateNode(parts, nodeId, change),
    deleteNodes: (caller, selector) => deleteNodes(parts, caller, selector),
    setMaintenance: (caller, selector, reason) => setMaintenance(parts, caller, selector, reason),
    setRetired: (_caller, selector, reason) => setRetired(parts, selector, reason),
    readPower: (selector) => powerReader.read(selector),
    createCluster: (caller, cluster) => createCluster(transact, caller, cluster),
    updateCluster: (_caller, ref, change) => updateCluster(transact, ref, change),
    deleteCluster: (_caller, ref, ifRevision) => deleteCluster(transact, ref, ifRevision),
    createRunbook: (_caller, runbook) => createRunbook(transact, runbook),
    updateRunbook: (_caller, name, change) => updateRunbook(transact, name, change),
    deleteRunbook: (_caller, name, ifRevision) => deleteRunbook(transact, name, ifRevision),
    updateSite: (caller, change) => updateSite({ transact, registry, limitsChanged: nudge }, caller, change),
    callBack: (token, body) => callBack({ ...parts, log }, token, body),
    async [Symbol.asyncDispose]() {
      attendance?.close();
      recovery?.close();
      await retention?.close();
      await powerReader.close();
      await turns.close();
      rest();
      const ended = await queue.stop(
        Math.max(0, restedAt + (options.drainMs ?? DRAIN_MS) - performance.now()),
        endCalls && letGo,
      );
      if (!ended) log.warn("steps were still running; another process, or the next start, takes them up");
      runner.close();
    },
  };
}
