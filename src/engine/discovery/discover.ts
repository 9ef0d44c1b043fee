/**
 * Discovery: a request for addresses becomes an operation with one row an address, stored before it is answered, or is
 * refused with everything that is wrong. What it logs in with is kept apart and deleted with its end. The addresses are
 * probed by prober.ts; here a discovery begins, is aborted or stopped, and ends.
 */
import { randomUUID } from "node:crypto";
import type { Refusal } from "../../errors.ts";
import type { Registry } from "../../drivers/registry.ts";
import { outcome } from "../../lifecycle/operation-states.ts";
import type { Interrupt } from "../../lifecycle/operation-states.ts";
import { hashOf } from "../../runtime/canonical-json.ts";
import { violatedConstraint } from "../../store/postgres/connection-errors.ts";
import {
  deleteDiscoverySecrets,
  discoveryCounts,
  firstFailedDiscovery,
  insertDiscoveries,
  putDiscoverySecrets,
  skipQueuedDiscoveries,
} from "../../store/discoveries.ts";
import {
  finishOperation,
  insertOperation,
  lockOperation,
  noteFirstFailure,
  operationsByIds,
  interruptOperation,
} from "../../store/operations.ts";
import type { OperationRow } from "../../store/operations.ts";
import type { JsonObject } from "../../store/records.ts";
import { parseAddresses } from "./addresses.ts";
import { labelFlaws } from "../input/name-rules.ts";
import type { Queue } from "../jobs/queue.ts";
import { findCluster, isUuid, unknownCluster } from "../input/node-selector.ts";
import type { ClusterRef } from "../input/node-selector.ts";
import { isSealOf, seal } from "./secret-fingerprint.ts";
import { sizeFlaws } from "../input/size-limits.ts";
import { flawsOf, refusedWhole, replayOf } from "../admission/admit.ts";
import type { SubmitAnswer, RequestTerms } from "../admission/admit.ts";
import type { Caller, Transact, Transaction } from "../transaction.ts";
import type { WorkSelector } from "../input/work-selector.ts";

export interface DiscoverRequest extends Pick<RequestTerms, "idempotencyKey" | "reason" | "dryRun"> {
  /** Host names, IP addresses and CIDR ranges. */
  readonly addresses: readonly string[];
  readonly driver: string;
  readonly settings?: unknown;
  readonly cluster?: ClusterRef | undefined;
  readonly labels?: Readonly<Record<string, string>> | undefined;
  /** Comes before the address in the name of a machine that tells none. */
  readonly namePrefix?: string | undefined;
}

export interface DiscoverAnswer {
  /** Null when refused or only planned. */
  readonly operationId: string | null;
  /** What is, or would be, probed. */
  readonly addresses: readonly string[];
  readonly refusals: readonly Refusal[];
  readonly replayed: boolean;
}

export interface DiscoverParts {
  readonly transact: Transact;
  readonly registry: Registry;
  readonly queue: Queue;
}

const PREFIX = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/;

// ---- begin

export async function discoverNodes(
  parts: DiscoverParts,
  caller: Caller,
  request: DiscoverRequest,
): Promise<DiscoverAnswer> {
  const { addresses, refusals: addressFlaws } = parseAddresses(request.addresses, ["input", "addresses"]);
  const login = await checkLogin(parts.registry, request);
  const flaws = [
    ...flawsOf(request),
    ...addressFlaws,
    ...login.refusals,
    ...prefixFlaws(request.namePrefix),
    ...labelFlaws(request.labels, ["input"]),
  ];
  const input = await inputOf(request, login);
  const admit = () =>
    parts.transact(async (transaction): Promise<DiscoverAnswer> => {
      const replay = await replayOf(transaction.tx, caller, request, (kept) => isSameInput(input, login, kept ?? ""));
      if (replay) return { ...replay, addresses: replay.operationId === null ? [] : addresses };
      const clusterId = request.cluster ? await findCluster(transaction.tx, request.cluster) : null;
      const unknown =
        request.cluster && clusterId === null ? unknownCluster(request.cluster, ["input", "cluster"]).refusals : [];
      const refusals = [...flaws, ...unknown];
      if (refusals.length > 0) return { operationId: null, addresses: [], refusals, replayed: false };
      if (request.dryRun) return { operationId: null, addresses, refusals: [], replayed: false };
      const operationId = await storeDiscovery(transaction, parts.queue, caller, request, {
        addresses,
        clusterId,
        inputHash: input,
        ...login,
      });
      return { operationId, addresses, refusals: [], replayed: false };
    });
  try {
    return await admit();
  } catch (error) {
    // The same key at the same moment: the other one won, so this one is its repetition.
    if (violatedConstraint(error) === "operations_idempotency") return admit();
    throw error;
  }
}

/**
 * What an idempotency key is held to: a hash of what is asked, with the names of the secrets in it and a seal of their
 * values behind it, where they are to be known again.
 */
async function inputOf(request: DiscoverRequest, { settings, secrets }: Login): Promise<string> {
  const hash = hashOf({ ...request, kind: "DISCOVER", settings, secrets: Object.keys(secrets).toSorted() });
  return request.idempotencyKey === undefined || Object.keys(secrets).length === 0
    ? hash
    : `${hash} ${await seal(secrets)}`;
}

/** Of two seals none tells that they are of the same secrets, so these are tried against the one that was kept. */
async function isSameInput(input: string, { secrets }: Login, kept: string): Promise<boolean> {
  if (input === kept) return true;
  const [[hash], [keptHash, sealed]] = [input.split(" "), kept.split(" ")];
  return sealed !== undefined && hash === keptHash && (await isSealOf(secrets, sealed));
}

interface Login {
  readonly settings: JsonObject;
  readonly secrets: JsonObject;
  readonly refusals: readonly Refusal[];
}

async function storeDiscovery(
  transaction: Transaction,
  queue: Queue,
  caller: Caller,
  request: DiscoverRequest,
  {
    addresses,
    clusterId,
    inputHash,
    settings,
    secrets,
  }: Login & { readonly addresses: readonly string[]; readonly clusterId: string | null; readonly inputHash: string },
): Promise<string> {
  const id = randomUUID();
  const { driver, labels, namePrefix } = request;
  await insertOperation(transaction.tx, {
    id,
    kind: "DISCOVER",
    state: "QUEUED",
    project: caller.project,
    actor: caller.actor,
    reason: request.reason ?? null,
    clusterId,
    idempotencyKey: request.idempotencyKey ?? null,
    inputHash,
    options: {
      discovery: { driver, settings, ...(labels && { labels }), ...(namePrefix !== undefined && { namePrefix }) },
    },
    onFailure: "LEAVE",
    variables: {},
    totalCount: addresses.length,
  });
  await insertDiscoveries(transaction.tx, id, addresses);
  if (Object.keys(secrets).length > 0) await putDiscoverySecrets(transaction.tx, id, secrets);
  await queue.enqueueDiscovery(transaction, id);
  return id;
}

/** Checks the driver and what it is to log in with. */
async function checkLogin(registry: Registry, { driver: name, settings }: DiscoverRequest): Promise<Login> {
  const refused = (...refusals: Refusal[]): Login => ({ settings: {}, secrets: {}, refusals });
  const driver = registry.get(name);
  if (!driver) {
    const loaded = registry.drivers.map((one) => one.name).join(", ") || "none";
    return refused({
      code: "INVALID_INPUT",
      message: `Driver ${JSON.stringify(name)} is not loaded (loaded: ${loaded}); add its plugin to OSTLER_PLUGINS.`,
      path: ["input", "driver"],
    });
  }
  const verdict = await registry.checkDiscovery(driver, settings ?? {});
  if (!verdict) {
    const able =
      registry.drivers
        .filter(({ discover }) => discover)
        .map((one) => one.name)
        .join(", ") || "none";
    return refused({
      code: "UNSUPPORTED_BY_DRIVER",
      message: `Driver "${name}" cannot discover nodes (those that can: ${able}); register its nodes with registerNodes.`,
      path: ["input", "driver"],
    });
  }
  if (verdict.ok)
    return {
      settings: verdict.settings,
      secrets: verdict.secrets,
      refusals: sizeFlaws(`Settings for a discovery with driver ${name}`, { ...verdict.settings, ...verdict.secrets }, [
        "input",
        "driver",
        name,
      ]),
    };
  return refused(
    ...verdict.issues.map(({ path, message }): Refusal => ({
      code: "INVALID_INPUT",
      message: `Settings for a discovery with driver ${name}${path.length > 0 ? ` (${path.join(".")})` : ""}: ${message}.`,
      path: ["input", "driver", name, ...path],
    })),
  );
}

function prefixFlaws(prefix: string | undefined): Refusal[] {
  if (prefix === undefined || PREFIX.test(prefix)) return [];
  return [
    {
      code: "INVALID_INPUT",
      message: `The prefix ${JSON.stringify(prefix)} does not do: letters, digits, dot, dash and underscore, 1 to 100 of them, with a letter or digit first.`,
      path: ["input", "namePrefix"],
    },
  ];
}

// ---- abort and stop

export interface Interruption {
  readonly interrupt: Interrupt;
  readonly reason?: string | undefined;
  /** Of a stop: how long probes that have begun may go on. */
  readonly seconds?: number | undefined;
}

/**
 * Aborts or stops a discovery; null where the work is none. An abort ends it here and now: what probes find that are
 * still under way is not taken any more. A stop lets those come to their end, and no new one begins.
 */
export async function interruptDiscovery(
  transaction: Transaction,
  queue: Queue,
  caller: Caller,
  selector: WorkSelector,
  { interrupt, reason, seconds }: Interruption,
): Promise<SubmitAnswer | null> {
  const id = "operationId" in selector ? selector.operationId : "";
  const operation = await lockDiscovery(transaction, id);
  if (!operation) return null;
  const answer: SubmitAnswer = { operationId: id, results: [], refusals: [], replayed: false };
  if (operation.finishedAt) {
    if (interrupt === "STOP") return answer;
    return refusedWhole([
      {
        code: "NOTHING_RUNNING",
        message: `Operation ${id} has ended (${operation.state}); nothing of it is running.`,
        path: ["input", "work", "operationId"],
        operationId: id,
      },
    ]);
  }
  if (operation.interrupt !== interrupt)
    await interruptOperation(transaction.tx, id, {
      interrupt,
      interruptBy: caller.actor,
      interruptReason: reason ?? null,
    });
  if (interrupt === "ABORT" || operation.startedAt === null) await finishDiscovery(transaction, { id, interrupt });
  else if (seconds !== undefined && operation.interrupt === null)
    await queue.timer(transaction, { operationId: id, what: "STOP" }, seconds);
  return answer;
}

/** The time for a stop is over: probes that are still under way count as not begun. False where the work is no discovery. */
export async function stopDiscoveryNow(transaction: Transaction, operationId: string): Promise<boolean> {
  const operation = await lockDiscovery(transaction, operationId);
  if (operation && !operation.finishedAt) await finishDiscovery(transaction, operation);
  return operation !== null;
}

async function lockDiscovery(transaction: Transaction, id: string): Promise<OperationRow | null> {
  const [found] = isUuid(id) ? await operationsByIds(transaction.tx, [id]) : [];
  return found?.kind === "DISCOVER" ? ((await lockOperation(transaction.tx, id)) ?? null) : null;
}

// ---- end

/** Ends a discovery, whose operation is locked. Addresses that had no turn are skipped. */
export async function finishDiscovery(
  transaction: Transaction,
  { id, interrupt }: Pick<OperationRow, "id" | "interrupt">,
): Promise<void> {
  await skipQueuedDiscoveries(transaction.tx, id);
  await deleteDiscoverySecrets(transaction.tx, id);
  const failure = await firstFailedDiscovery(transaction.tx, id);
  if (failure) await noteFirstFailure(transaction.tx, id, failure);
  const {
    REGISTERED = 0,
    KNOWN = 0,
    FAILED = 0,
    SKIPPED = 0,
  } = (await discoveryCounts(transaction.tx, [id])).get(id) ?? {};
  const left = interrupt === "ABORT" ? { aborted: SKIPPED, stopped: 0 } : { aborted: 0, stopped: SKIPPED };
  await finishOperation(
    transaction.tx,
    id,
    outcome(
      { succeeded: REGISTERED + KNOWN, succeededWithErrors: 0, failed: FAILED, ...left },
      { interrupt, cleanedUpAll: false },
    ),
  );
}
