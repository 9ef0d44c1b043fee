/**
 * Works on discoveries: a claim is for the rest of one discovery. Its addresses are probed concurrently, each
 * within a time limit. Each result is stored at once in a transaction of its own, so that a replica that takes the
 * discovery over probes only the remaining addresses.
 *
 * Two replicas may probe the same address, if the first was taken for dead: a probe changes nothing, and only the
 * result that finds its row still queued counts. The work ends early by an abort, which has ended the operation
 * already; by a stop, after which running probes end; and by the shutdown of the replica, which cancels them and hands
 * the discovery on.
 */
import { validate } from "../../drivers/issues.ts";
import type { AnyDriver } from "../../drivers/interfaces.ts";
import {
  addDiscovery,
  endDiscovery,
  lockQueuedDiscovery,
  queuedDiscoveries,
} from "../../store/operations/discoveries.ts";
import type { DiscoveryRow } from "../../store/operations/discoveries.ts";
import { lockOperation, operationsBegin, operationsByIds, updateOperation } from "../../store/operations/operations.ts";
import type { Database, Reader } from "../../store/postgres/database.ts";
import { SecretError } from "../../store/secrets/keyring.ts";
import { SECRETS, secretsOf } from "../../store/secrets/secrets.ts";
import type { VariablesParts } from "../../store/secrets/secrets.ts";
import { createRedactor } from "../input/secret-redactor.ts";
import { startPeriodic } from "../../runtime/periodic.ts";
import type { Transaction } from "../transaction.ts";
import { finishDiscovery } from "./interrupt-discovery.ts";
import { NAME_LENGTH_MAX, probeAddress } from "./probe-address.ts";
import type { DiscoveryDriver, OpenDiscovery, ProbeParts, Probed } from "./probe-address.ts";
import { lockValues } from "../../store/nodes/node-identities.ts";
import { nodesByNames } from "../../store/nodes/nodes.ts";
import { nameKey } from "../../store/names.ts";
import type { EngineParts } from "../context.ts";
import { repeatIfTaken } from "../input/edits.ts";
import { newFailure } from "../input/failures.ts";
import { clusterLockRefusals } from "../inventory/cluster-lock.ts";
import { enrollNodes } from "../inventory/register-nodes.ts";
import { knownNode } from "./known-node.ts";

interface ProberParts extends ProbeParts, RecordParts {
  readonly database: Database;
}

const PROBES_MAX = 16;
const LOOK_EVERY_MS = 1_000;

export class Prober {
  readonly #parts: ProberParts;
  readonly #running = new Set<AbortController>();
  #isDraining = false;

  constructor(parts: ProberParts) {
    this.#parts = parts;
  }

  /** Works on a discovery; false if it is handed on unfinished. */
  async run(operationId: string): Promise<boolean> {
    if (this.#isDraining) return false;
    const cancel = new AbortController();
    this.#running.add(cancel);
    try {
      const discovery = await this.#open(operationId);
      if (!discovery) return true;
      await this.#probeAll(discovery, cancel);
      if (this.#isDraining) return false;
      await this.#parts.transact((transaction) => finishProbed(transaction, operationId));
      return true;
    } catch (error) {
      if (!this.#isDraining) throw error;
      return false;
    } finally {
      this.#running.delete(cancel);
    }
  }

  /** From now on discoveries are handed on, with the running ones. */
  drain(): void {
    this.#isDraining = true;
    for (const cancel of this.#running) cancel.abort(new Error("The service is shutting down."));
  }

  /** Null if the discovery has ended. */
  async #open(operationId: string): Promise<OpenDiscovery | null> {
    const { database, transact, registry, keyring } = this.#parts;
    await transact(({ tx }) => operationsBegin(tx, [operationId]));
    const [operation] = await operationsByIds(database.reader, [operationId]);
    const chosen = operation?.options.discovery;
    if (!operation || !chosen || operation.finishedAt) return null;
    const found =
      (await secretsOf(database.reader, keyring, SECRETS.ofDiscoveries, [operationId])).get(operationId) ?? {};
    const secrets = found instanceof SecretError ? {} : found;
    const redactor = createRedactor(Object.values(secrets).filter((value) => typeof value === "string"));
    const { driver: driverName, namePrefix = "" } = chosen;
    const base = { operation, operationId, driverName, redactor, namePrefix };
    const unusable = (why: string) => ({ ...base, driver: `driver "${chosen.driver}" ${why}`, settings: {} });
    if (found instanceof SecretError) return unusable(`has no login: ${found.message}`);
    const driver = registry.get(chosen.driver);
    if (!driver) return unusable("is not loaded any more");
    if (!canDiscover(driver)) return unusable("cannot discover nodes any more");
    const result = await validate(driver.discover.settings, { ...chosen.settings, ...secrets });
    if (!result.issues) return { ...base, driver, settings: result.value as Readonly<Record<string, never>> };
    const issues = result.issues.map(({ message }) => message).join("; ");
    return unusable(redactor.text(`does not accept these settings any more: ${issues}`));
  }

  async #probeAll(discovery: OpenDiscovery, cancel: AbortController): Promise<void> {
    const { database, transact, log } = this.#parts;
    const { id } = discovery.operation;
    const rows = await queuedDiscoveries(database.reader, [id]);
    let isOver = false;
    let hasProgress = false;
    const look = async () => {
      const [operation] = await operationsByIds(database.reader, [id]);
      if (!operation || operation.finishedAt) cancel.abort(new Error("The discovery has ended."));
      isOver ||= cancel.signal.aborted || operation?.interrupt !== null;
    };
    const lane = async () => {
      try {
        for (let row = rows.shift(); row; row = rows.shift()) {
          await look();
          if (isOver) return;
          const probed = await probeAddress(this.#parts, discovery, row.address, cancel.signal);
          if (cancel.signal.aborted) return;
          await recordProbe(this.#parts, discovery, row, probed);
          hasProgress = true;
        }
      } catch (error) {
        cancel.abort(error);
        throw error;
      }
    };
    const tick = async () => {
      await look();
      if (!hasProgress) return;
      hasProgress = false;
      await transact((transaction) => publishProgress(transaction, id));
    };
    let ticked = Promise.resolve();
    const onFailure = (error: unknown) =>
      log.warn({ err: error, operationId: id }, "the progress of a discovery could not be published");
    const ticking = startPeriodic(LOOK_EVERY_MS, () => (ticked = tick()), onFailure);
    const lanes = await Promise.allSettled(Array.from({ length: Math.min(PROBES_MAX, rows.length) }, lane));
    ticking.stop();
    // The database is not closed under it.
    await Promise.allSettled([ticked]);
    for (const ended of lanes) if (ended.status === "rejected") throw ended.reason;
  }
}

/** Raises the operation's revision, which makes its stream emit. */
async function publishProgress({ tx }: Transaction, id: string): Promise<void> {
  const operation = await lockOperation(tx, id);
  if (operation && !operation.finishedAt) await updateOperation(tx, id, {});
}

async function finishProbed(transaction: Transaction, id: string): Promise<void> {
  const operation = await lockOperation(transaction.tx, id);
  if (!operation || operation.finishedAt) return;
  if (operation.interrupt === null && (await queuedDiscoveries(transaction.tx, [id])).length > 0)
    throw new Error(`Discovery ${id} has addresses left.`);
  await finishDiscovery(transaction, operation);
}

export function canDiscover(driver: AnyDriver): driver is DiscoveryDriver {
  return driver.discover !== undefined;
}

// ---- results of a probe: a machine is registered as a node, or is a node that is known

type RecordParts = Pick<EngineParts, "transact" | "keyring" | "registry">;

/** Does nothing if the address is no longer queued: then another replica recorded a result, or the discovery ended. */
async function recordProbe(
  { transact, keyring, registry }: RecordParts,
  discovery: OpenDiscovery,
  { ordinal, address }: Pick<DiscoveryRow, "ordinal" | "address">,
  probed: readonly Probed[],
): Promise<void> {
  const recordAll = async (transaction: Transaction) => {
    const { tx } = transaction;
    const { id } = discovery.operation;
    // In the order of an abort.
    if (probed.length > 1) await lockOperation(tx, id);
    await lockValues(
      tx,
      probed.flatMap((one) => ("failure" in one ? [] : one.identities)),
    );
    if (!(await lockQueuedDiscovery(tx, id, ordinal))) return;
    for (const [index, one] of probed.entries()) {
      const at = index === 0 ? ordinal : await addDiscovery(tx, id, address);
      await record(transaction, { discovery, keyring, registry }, at, one);
    }
  };
  return repeatIfTaken(() => transact(recordAll));
}

async function record(
  transaction: Transaction,
  { discovery, ...parts }: { readonly discovery: OpenDiscovery } & VariablesParts,
  ordinal: number,
  probed: Probed,
): Promise<void> {
  const { tx } = transaction;
  const { driverName } = discovery;
  const { id } = discovery.operation;
  if ("failure" in probed) return endDiscovery(tx, id, ordinal, { state: "FAILED", failure: probed.failure });
  const { name, ...found } = probed;
  const known = await knownNode(tx, driverName, found);
  if (known !== null) return endDiscovery(tx, id, ordinal, { state: "KNOWN", nodeId: known });
  const [operation] = await operationsByIds(tx, [id]);
  if (!operation) throw new Error(`Discovery ${id} no longer exists.`);
  const { project, clusterId, actor, reason, options } = operation;
  const [locked] = clusterId === null ? [] : await clusterLockRefusals(tx, [clusterId], () => []);
  if (locked) {
    const { code, message } = locked;
    return endDiscovery(tx, id, ordinal, { state: "FAILED", failure: newFailure({ code, message }) });
  }
  const node = {
    name: await freeName(tx, name),
    project,
    driver: driverName,
    ...found,
    labels: options.discovery?.labels ?? {},
    clusterId,
  };
  const [nodeId = ""] = await enrollNodes(transaction, parts, [node], { actor, reason, operationId: id });
  await endDiscovery(tx, id, ordinal, { state: "REGISTERED", nodeId });
}

/** The first of name, name-2, name-3 … that no node has. */
async function freeName(reader: Reader, name: string): Promise<string> {
  const numbered = (number: number) => (number === 1 ? name : `${name.slice(0, NAME_LENGTH_MAX - 10)}-${number}`);
  for (let from = 1, size = 20; ; from += size, size *= 2) {
    const names = Array.from({ length: size }, (_, index) => numbered(from + index));
    const taken = new Set((await nodesByNames(reader, names)).map((node) => nameKey(node.name)));
    const free = names.find((one) => !taken.has(nameKey(one)));
    if (free !== undefined) return free;
  }
}
