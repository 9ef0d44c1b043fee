/** The engine's face: every change goes through it. A function behind it takes the context and the caller first. */
import type { Registry } from "../drivers/registry.ts";
import type { Refusal, Refused } from "../errors.ts";
import type { Log } from "../log.ts";
import { noopObserver } from "../observer.ts";
import type { Observer } from "../observer.ts";
import type { Database, Reader, Tx } from "../store/postgres/database.ts";
import type { NodeFilter } from "../store/nodes/node-filter.ts";
import type { Notifier } from "../store/postgres/notifier.ts";
import type { StoredJson } from "../store/records.ts";
import type { Keyring } from "../store/secrets/keyring.ts";
import { insertAuditRows } from "../store/log/audit.ts";
import { isWorkUnattended, reclaimWork } from "../store/runs/run-claims.ts";
import { submitVerb } from "./admission/admit.ts";
import { applyCluster } from "./admission/apply-cluster.ts";
import { GroupAdmission } from "./admission/group-admission.ts";
import { KnownPlans } from "./plans/known-plans.ts";
import type { VerbRequest } from "./admission/request-terms.ts";
import { pendingChanges } from "./admission/pending-changes.ts";
import { restartWork } from "./admission/restart.ts";
import { createAgents } from "./agents/create-agents.ts";
import type { EngineContext, EngineParts, Principals } from "./context.ts";
import { discoverNodes } from "./discovery/discover.ts";
import { interruptDiscovery, selectedDiscovery, stopDiscoveryTimeout } from "./discovery/interrupt-discovery.ts";
import { NodeProbes } from "./discovery/node-probes.ts";
import type { ProbeRequest } from "./discovery/node-probes.ts";
import { Prober } from "./discovery/prober.ts";
import { receiveCallback } from "./execution/boundary/callback.ts";
import { Runner } from "./execution/runner.ts";
import type { Provisioning } from "./input/agent-media.ts";
import { answerEdit, repeatIfTaken } from "./input/edits.ts";
import type { AbortRequest, StopRequest } from "./input/interrupt-request.ts";
import type { NodeSelector } from "./input/node-selector.ts";
import { abortWork } from "./interruption/abort.ts";
import { disappearedTimeout } from "./interruption/disappeared.ts";
import { stopTimeout, stopWork } from "./interruption/stop.ts";
import { unhold } from "./interruption/unhold.ts";
import { withdrawAbort } from "./interruption/withdraw-abort.ts";
import { createCluster, deleteCluster, updateCluster } from "./inventory/clusters.ts";
import { deleteNodes } from "./inventory/delete-nodes.ts";
import { clearMaintenance, clearRetired, setMaintenance, setRetired } from "./inventory/node-flags.ts";
import { reportPresence } from "./inventory/presence.ts";
import { registerNodes } from "./inventory/register-nodes.ts";
import { startRetention } from "./inventory/retention.ts";
import { createAccount, updateAccount } from "./access/accounts.ts";
import { registerDocuments } from "./access/documents.ts";
import { deleteRole, putRole, setRoles } from "./access/roles.ts";
import { createToken, revokeTokens } from "./access/tokens.ts";
import { createRunbook, deleteRunbook, updateRunbook } from "./inventory/runbooks.ts";
import { deleteImages } from "./images/delete-images.ts";
import { storedImage } from "./images/image-files.ts";
import { registerImages, updateImage } from "./images/images.ts";
import { updateSite } from "./inventory/site.ts";
import { updateNodes } from "./inventory/update-nodes.ts";
import { endStaleSessions } from "./agents/stale-sessions.ts";
import { auditRow } from "./audit/audit-row.ts";
import type { AuditedEnd, AuditedRequest } from "./audit/audit-row.ts";
import { DeniedRows } from "./audit/denied-rows.ts";
import { NotedRows } from "./audit/noted-rows.ts";
import { ClaimLoop } from "./claims/claim-loop.ts";
import { ClockWatch } from "./claims/clock-watch.ts";
import { DueOperations } from "./claims/due-operations.ts";
import type { DueEnd } from "./claims/due-operations.ts";
import { Leases } from "./claims/leases.ts";
import type { ReadRequest } from "./power/machine-reader.ts";
import { PowerReader } from "./power/power-reader.ts";
import { watchReplicaPresence } from "./scheduling/replica-presence.ts";
import { createSlotScheduler } from "./scheduling/slot-scheduler.ts";
import { pauseIsOver, steerWaves } from "./scheduling/waves.ts";
import type { Caller } from "./transaction.ts";
import { createTransact } from "./transaction.ts";

export type Engine = Awaited<ReturnType<typeof createEngine>>;

interface EngineOptions {
  readonly database: Database;
  readonly registry: Registry;
  readonly keyring: Keyring;
  readonly notifier: Notifier;
  readonly log: Log;
  /** Receives the events of the work. Default: no observer. */
  readonly observer?: Observer;
  /** false: requests are admitted, and other replicas do the work. */
  readonly works?: boolean;
  /**
   * true: no other process can use the database, so what is being worked on at the start belongs to a process that has
   * ended, and is continued at once.
   */
  readonly isAlone?: boolean;
  readonly principals?: Principals;
  /** Maximum of runs at the same time. */
  readonly concurrency: number;
  /** How long a step may take to end after its abort signal. */
  readonly abortGraceMs?: number;
  /** How long each part of an abort clean-up may take. */
  readonly abortCleanUpMs?: number;
  /** How long a probe of a discovery may take. */
  readonly probeMs?: number;
  /** How long a machine may take for a reading of its power, in ms, before it counts as one that gives no answer. */
  readonly patienceMs?: number | undefined;
  /**
   * Ends all running calls of drivers. With it, steps that do not end in time when the engine is disposed of are handed
   * back at once; without it, their leases have to expire.
   */
  readonly endCalls?: () => Promise<void>;
  /** How machines reach the service. Absent or null: requests that need the agent are refused. */
  readonly provisioning?: Provisioning | null;
  /** How long running steps may take to end when the engine is disposed of. */
  readonly drainMs?: number;
  /** Period, in seconds, in which the power of each node at rest is read; absent or 0: never. */
  readonly powerSeconds?: number;
  /** Folder with the files of stored images; absent: this service stores none. */
  readonly imageFolder?: string;
  /** Days after which transitions are deleted; absent or 0: never. */
  readonly retentionDays?: number;
  /** The same of rows of the audit. */
  readonly auditDays?: number;
}

const ABORT_GRACE_MS = 10_000;
const ABORT_CLEAN_UP_MS = 60_000;
const PROBE_MS = 30_000;
const DRAIN_MS = 5_000;

export async function createEngine(options: EngineOptions) {
  const parts = await createParts(options);
  const { claims, dueOperations, runner, prober, nodeProbes, powerReader, slots, agents, context, notedRows } = parts;
  const deniedRows = new DeniedRows((request, end) => notedRows.add(auditRow(request, end)));
  const { database, log, endCalls, drainMs = DRAIN_MS } = options;
  const closers: { close(): void | Promise<void> }[] = [];
  let restedAt = Number.POSITIVE_INFINITY;
  const rest = () => {
    if (restedAt < Number.POSITIVE_INFINITY) return;
    restedAt = performance.now();
    runner.drain();
    prober.drain();
    claims.rest();
    dueOperations.rest();
  };
  const releaseRuns = async () => {
    runner.release();
    await endCalls?.();
  };
  return {
    ...requestsOf(context, database),
    /** The agents of machines, for the provisioning listener. */
    agents,
    /** The nodes of clusters on which `applyCluster` would work, by cluster. */
    pendingChanges: (reader: Reader, clusterIds: readonly string[]) => pendingChanges(reader, context, { clusterIds }),
    /** The same of all clusters: matching nodes that need no person for another reason. */
    pendingOfFleet: (reader: Reader, filter: NodeFilter | undefined) => pendingChanges(reader, context, { filter }),
    /** Writes the row of a request that none of its transactions wrote. Denials have a limit. */
    async writeAudit(request: AuditedRequest, end: AuditedEnd) {
      if (deniedRows.admits(request, end))
        await context.transact(({ tx }) => insertAuditRows(tx, [auditRow(request, end)]));
    },
    /** Writes the row of what a transaction outside of the engine does. */
    auditIn: (tx: Tx, request: AuditedRequest, end: AuditedEnd) => insertAuditRows(tx, [auditRow(request, end)]),
    /** Notes a row of the audit that no answer waits for. Denials and failed logins have a limit. */
    noteAudit(request: AuditedRequest, end: AuditedEnd) {
      if (deniedRows.admits(request, end)) notedRows.add(auditRow(request, end));
    },
    /** Reads the power of up to 1,000 nodes now, within half a minute. Busy nodes are refused. */
    readPower: (selector: NodeSelector) => powerReader.read(selector),
    /** Reads what up to 100 machines report about themselves, within half a minute. Busy nodes are refused. */
    readNodes: (request: ReadRequest) => powerReader.machines.read(request),
    /** Tries drivers at addresses. Registers nothing. */
    probeNodes: (request: ProbeRequest) => nodeProbes.probe(request),
    /** Takes no more work; running steps end. Requests are still admitted, and wait for another replica. */
    rest,
    /** Starts to take work, unless `works` is false. Until then requests are admitted and wait. */
    async start() {
      if (options.works === false) {
        closers.push(
          watchReplicaPresence({ isUnattended: (seconds) => isWorkUnattended(database.claims, seconds), log }),
        );
        return;
      }
      // Instead of waiting until their leases expire.
      if (options.isAlone) await reclaimWork(database.claims);
      claims.start((claim) => runner.run(claim));
      dueOperations.start();
      slots.start();
      closers.push(endStaleSessions(database, log));
      closers.push(
        startRetention({ database, log, days: options.retentionDays ?? 0, auditDays: options.auditDays ?? 0 }),
      );
      if (options.powerSeconds) powerReader.start(options.powerSeconds);
    },
    async [Symbol.asyncDispose]() {
      for (const one of closers) await one.close();
      nodeProbes.close();
      await powerReader.close();
      await slots.close();
      rest();
      const graceMs = Math.max(0, restedAt + drainMs - performance.now());
      const ended = await Promise.all([claims.stop(graceMs, endCalls && releaseRuns), dueOperations.stop(graceMs)]);
      if (ended.includes(false))
        log.warn("steps were still running; another replica, or the next start, continues them");
      runner.close();
      deniedRows[Symbol.dispose]();
      await notedRows.close();
    },
  };
}

/** Creates everything that lives as long as the engine. */
async function createParts(options: EngineOptions) {
  const { database, registry, keyring, notifier, log, concurrency, observer = noopObserver } = options;
  const transact = createTransact(database, notifier, observer);
  const shared: EngineParts = { database, transact, registry, keyring, notifier, observer, log };
  const clock = new ClockWatch(shared);
  const claiming = { reader: database.claims, log, observer, checkClock: () => clock.check() };
  const leases = new Leases(database.claims);
  const claims = new ClaimLoop({ ...claiming, leases, notifier, concurrency });
  const { agents, bindAgent } = createAgents({
    ...shared,
    reader: database.reader,
    provisioning: options.provisioning ?? null,
  });
  const slots = createSlotScheduler(shared);
  const runner = new Runner({
    ...shared,
    leases,
    dueIn: (seconds) => claims.pokeIn(seconds),
    concurrency,
    patienceMs: options.patienceMs,
    nudge: slots.nudge,
    bindAgent,
    abortGraceMs: options.abortGraceMs ?? ABORT_GRACE_MS,
    abortCleanUpMs: options.abortCleanUpMs ?? ABORT_CLEAN_UP_MS,
  });
  const prober = new Prober({ ...shared, probeMs: options.probeMs ?? PROBE_MS });
  const nodeProbes = new NodeProbes({ ...shared, probeMs: options.probeMs });
  const powerReader = new PowerReader({ ...shared, patienceMs: options.patienceMs });
  const context: EngineContext = {
    transact,
    registry,
    keyring,
    observer,
    log,
    provisioning: options.provisioning ?? null,
    imageFolder: options.imageFolder ?? null,
    principals: options.principals ?? { admins: [], issuers: [] },
    knownPlans: new KnownPlans(),
    nudge: slots.nudge,
    checkInterrupts: () => runner.checkInterrupts(),
  };
  const dueOperations = new DueOperations({
    ...claiming,
    end: (operationId, what) => endDue(context, database, operationId, what),
    discover: (operationId) => prober.run(operationId),
  });
  const notedRows = new NotedRows((rows) => transact(({ tx }) => insertAuditRows(tx, rows)), log);
  return { claims, dueOperations, slots, runner, prober, nodeProbes, powerReader, agents, context, notedRows };
}

/** The requests, each carried out by a function whose parameters are the context, the caller, and then its own. */
function requestsOf(context: EngineContext, { reader }: Database) {
  const handle =
    <Rest extends unknown[], Answer>(
      handler: (context: EngineContext, caller: Caller, ...rest: Rest) => Promise<Answer>,
    ) =>
    (caller: Caller, ...rest: Rest) =>
      handler(context, caller, ...rest);
  /** The same for a change that throws its refusals, which then stand in the answer `refused`. */
  const edit =
    <Rest extends unknown[], Answer extends Refused>(
      handler: (context: EngineContext, caller: Caller, ...rest: Rest) => Promise<Answer>,
      refused: NoInfer<Answer>,
    ) =>
    (caller: Caller, ...rest: Rest) =>
      answerEdit(() => repeatIfTaken(() => handler(context, caller, ...rest)), refused);
  const refusals: readonly Refusal[] = [];
  const noNodes = { nodeIds: [], refusals, results: [] };
  const noCluster = { clusterId: null, refusals };
  const noRunbook = { runbookId: null, refusals };
  const noImages = { imageIds: [], refusals };
  const noAccount = { accountId: null, refusals };
  const noRole = { role: null, refusals };
  const withGroups = { ...context, groupAdmission: new GroupAdmission(context) };
  return {
    submit: (caller: Caller, request: VerbRequest) => submitVerb(withGroups, caller, request),
    // A discovery is an operation like any other to the caller, but works on addresses instead of runs.
    async abort(caller: Caller, request: AbortRequest) {
      const operationId = await selectedDiscovery(reader, request.work);
      return operationId === null
        ? abortWork(context, caller, request)
        : interruptDiscovery(context, caller, operationId, { kind: "ABORT", request });
    },
    async stop(caller: Caller, request: StopRequest) {
      const operationId = await selectedDiscovery(reader, request.work);
      return operationId === null
        ? stopWork(context, caller, request)
        : interruptDiscovery(context, caller, operationId, { kind: "STOP", request });
    },
    restart: handle(restartWork),
    applyCluster: handle(applyCluster),
    withdrawAbort: handle(withdrawAbort),
    unhold: handle(unhold),
    steerWaves: handle(steerWaves),
    registerNodes: edit(registerNodes, noNodes),
    discoverNodes: edit(discoverNodes, { operationId: null, addresses: [], refusals, replayed: false }),
    reportPresence: edit(reportPresence, { results: [], refusals }),
    updateNodes: edit(updateNodes, { isStored: false, results: [], refusals }),
    deleteNodes: edit(deleteNodes, noNodes),
    setMaintenance: edit(setMaintenance, noNodes),
    clearMaintenance: edit(clearMaintenance, noNodes),
    setRetired: edit(setRetired, noNodes),
    clearRetired: edit(clearRetired, noNodes),
    createCluster: edit(createCluster, noCluster),
    updateCluster: edit(updateCluster, noCluster),
    deleteCluster: edit(deleteCluster, noCluster),
    createRunbook: edit(createRunbook, noRunbook),
    updateRunbook: edit(updateRunbook, noRunbook),
    deleteRunbook: edit(deleteRunbook, noRunbook),
    registerImages: edit(registerImages, noImages),
    updateImage: edit(updateImage, noImages),
    deleteImages: edit(deleteImages, noImages),
    updateSite: handle(updateSite),
    createAccount: edit(createAccount, noAccount),
    updateAccount: edit(updateAccount, noAccount),
    createToken: edit(createToken, { tokenId: null, secret: null, refusals }),
    revokeTokens: edit(revokeTokens, { tokenIds: [], sessionsEnded: 0, refusals }),
    setRoles: edit(setRoles, { principal: null, refusals }),
    putRole: edit(putRole, noRole),
    deleteRole: edit(deleteRole, noRole),
    registerDocuments: edit(registerDocuments, { ids: [], refusals }),
    /** The file of an image that the service stores; null for any other id. */
    storedImage: (id: string) => storedImage(reader, context.imageFolder, id),
    /** Receives a machine's callback; `token` is the last part of the path that the machine was given. */
    receiveCallback: (token: string, body: StoredJson) => receiveCallback({ ...context, reader }, token, body),
  };
}

/** The time of a stop, of a pause between two waves, or of waits for nodes that have disappeared is over. */
async function endDue(context: EngineContext, { reader }: Database, operationId: string, what: DueEnd): Promise<void> {
  if (what === "WAVE") return pauseIsOver(context, operationId);
  if (what === "DISAPPEARED") return disappearedTimeout(context, operationId);
  const isDiscovery = (await selectedDiscovery(reader, { operationId })) !== null;
  return isDiscovery ? stopDiscoveryTimeout(context, operationId) : stopTimeout(context, operationId);
}
