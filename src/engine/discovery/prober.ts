/**
 * Works on discoveries: one job of the queue is the rest of one discovery. Its addresses are probed side by side, so many
 * at a time and each bounded in time; what came of one is stored at once, in a transaction of its own, so that another
 * process that takes the job over probes only what is left.
 *
 * Two processes may probe the same address (the first was taken for dead): a probe changes nothing, and of two results
 * the one that finds its row still QUEUED counts. What ends the work early: an abort, which has ended the operation by
 * then; a stop, which lets begun probes end; the end of the process, which cuts them and hands the job back.
 */
import type { ErrorCode } from "../../errors.ts";
import { Deadline } from "../../drivers/deadline.ts";
import { validate } from "../../drivers/issues.ts";
import { dispatched } from "../../drivers/isolation/dispatch.ts";
import { HeartbeatLostError } from "../../drivers/isolation/protocol.ts";
import type { AnyDriver, Registry } from "../../drivers/registry.ts";
import type { DiscoverCall, DiscoverInterface } from "../../drivers/driver.ts";
import type { Log } from "../../log.ts";
import type { Observer } from "../../observer.ts";
import { violatedConstraint } from "../../store/postgres/connection-errors.ts";
import type { Database, Reader } from "../../store/postgres/database.ts";
import {
  discoverySecretsOf,
  endDiscovery,
  lockController,
  lockQueuedDiscovery,
  nodeWithController,
  nodeWithSettings,
  queuedDiscoveries,
} from "../../store/discoveries.ts";
import type { DiscoveryRow } from "../../store/discoveries.ts";
import { nodesByNames } from "../../store/nodes.ts";
import { lockOperation, operationsBegin, operationsByIds, updateOperation } from "../../store/operations.ts";
import type { OperationRow } from "../../store/operations.ts";
import type { Failure } from "../../store/records.ts";
import { finishDiscovery } from "./interrupt-discovery.ts";
import { prepareSettings } from "../inventory/node-settings.ts";
import { enrollNodes } from "../inventory/register-nodes.ts";
import type { EnrolledNode } from "../inventory/register-nodes.ts";
import { createRedactor } from "../input/secret-redactor.ts";
import { isStorable } from "../../runtime/json-values.ts";
import { sentence } from "../../runtime/text.ts";
import type { Redactor } from "../input/secret-redactor.ts";
import { CallTimeoutError, withDeadline } from "../execution/call-deadline.ts";
import { callName } from "../execution/driver-call.ts";
import { faultOf } from "../execution/driver-result.ts";
import type { Transact, Transaction } from "../transaction.ts";

export interface ProberParts {
  readonly database: Database;
  readonly transact: Transact;
  readonly registry: Registry;
  readonly log: Log;
  readonly observer: Observer;
  /** How long one probe may take, in ms, without the time that it waits for a place. */
  readonly probeMs: number;
}

export interface Prober {
  /** Works on a discovery; false when it is handed back unfinished. */
  run(operationId: string): Promise<boolean>;
  /** From now on discoveries are handed back, with what is under way. */
  drain(): void;
}

type Address = Pick<DiscoveryRow, "ordinal" | "address">;

/** A discovery in the hands of this process. */
interface Held {
  readonly operation: OperationRow;
  readonly driverName: string;
  /** Or, in a sentence, why it cannot be driven any more. */
  readonly driver: (AnyDriver & { readonly discover: DiscoverInterface<unknown> }) | string;
  /** Secrets included. */
  readonly settings: Readonly<Record<string, never>>;
  readonly redactor: Redactor;
}

/** What a probe has seen: a machine as a node of it would be, or why there is none. */
type Seen = Pick<EnrolledNode, "name" | "settings" | "secrets" | "controller"> | { readonly failure: Failure };

const PROBES_AT_ONCE = 16;
const LOOK_EVERY_MS = 1_000;
const NAME_LENGTH_MAX = 253;

export function createProber(parts: ProberParts): Prober {
  const { database, transact, registry, log, observer } = parts;
  const underWay = new Set<AbortController>();
  let draining = false;

  // ---- one discovery

  async function open(operationId: string): Promise<Held | null> {
    await transact(({ tx }) => operationsBegin(tx, [operationId]));
    const [operation] = await operationsByIds(database.reader, [operationId]);
    const chosen = operation?.options.discovery;
    if (!operation || !chosen || operation.finishedAt) return null;
    const secrets = await discoverySecretsOf(database.reader, operationId);
    const base = {
      operation,
      driverName: chosen.driver,
      redactor: createRedactor(Object.values(secrets).filter((value) => typeof value === "string")),
    };
    const driver = registry.get(chosen.driver);
    const unfit = (why: string): Held => ({ ...base, driver: `driver "${chosen.driver}" ${why}`, settings: {} });
    if (!driver) return unfit("is not loaded any more");
    if (!canDiscover(driver)) return unfit("cannot discover nodes any more");
    const result = await validate(driver.discover.settings, { ...chosen.settings, ...secrets });
    return result.issues
      ? unfit(
          base.redactor.text(
            `does not take these settings any more: ${result.issues.map(({ message }) => message).join("; ")}`,
          ),
        )
      : { ...base, driver, settings: result.value as Readonly<Record<string, never>> };
  }

  async function probeAll(held: Held, cut: AbortController): Promise<void> {
    const { id } = held.operation;
    const rows = await queuedDiscoveries(database.reader, id);
    let over = false;
    let untold = false;
    const look = async () => {
      const [operation] = await operationsByIds(database.reader, [id]);
      if (!operation || operation.finishedAt) cut.abort(new Error("The discovery has ended."));
      over ||= cut.signal.aborted || operation?.interrupt !== null;
    };
    const lane = async () => {
      try {
        for (let row = rows.shift(); row; row = rows.shift()) {
          await look();
          if (over) return;
          const seen = await probe(held, row, cut.signal);
          if (cut.signal.aborted) return;
          await settle(held, row, seen);
          untold = true;
        }
      } catch (error) {
        cut.abort(error);
        throw error;
      }
    };
    let telling = Promise.resolve();
    const tick = async () => {
      await look();
      if (!untold) return;
      untold = false;
      await transact(({ tx }) => tellProgress(tx, id));
    };
    const timer = setInterval(() => {
      telling = telling
        .then(tick)
        .catch((error: unknown) =>
          log.warn({ err: error, operationId: id }, "the progress of a discovery could not be told"),
        );
    }, LOOK_EVERY_MS);
    const lanes = await Promise.allSettled(Array.from({ length: Math.min(PROBES_AT_ONCE, rows.length) }, lane));
    clearInterval(timer);
    await telling;
    for (const ended of lanes) if (ended.status === "rejected") throw ended.reason;
  }

  /** Raises the operation's revision, by which its stream tells that there is something new. */
  async function tellProgress(tx: Transaction["tx"], id: string): Promise<void> {
    const operation = await lockOperation(tx, id);
    if (operation && !operation.finishedAt) await updateOperation(tx, id, {});
  }

  async function end(transaction: Transaction, id: string): Promise<void> {
    const operation = await lockOperation(transaction.tx, id);
    if (!operation || operation.finishedAt) return;
    if (operation.interrupt === null && (await queuedDiscoveries(transaction.tx, id)).length > 0)
      throw new Error(`Discovery ${id} has addresses left.`);
    await finishDiscovery(transaction, operation);
  }

  // ---- one address

  /** Probes an address. Whatever the driver does, this ends within the time for it, and at once when it is cut. */
  async function probe(held: Held, { address }: Address, cut: AbortSignal): Promise<Seen> {
    const { driver, driverName, settings, redactor } = held;
    const failed = (code: ErrorCode, reason: string, retryable: boolean): Seen => ({
      failure: failureAt(address, { code, reason, retryable }),
    });
    if (typeof driver === "string") return failed("UNSUPPORTED_BY_DRIVER", driver, false);
    const deadline = new Deadline(parts.probeMs);
    try {
      const found: unknown = await withDeadline(deadline, cut, async (signal) =>
        driver.discover.probe(
          dispatched<DiscoverCall>(
            {
              address,
              settings,
              signal,
              deadline,
              log: (message) =>
                log.debug({ operationId: held.operation.id, address, driver: driverName }, redactor.text(message)),
              timed: async (name: unknown, work) =>
                observer.call({ driver: driverName, name: callName(name, redactor), node: address }, work),
            },
            { lane: "PROBE" },
          ),
        ),
      );
      return await seenIn(held, driver, address, found);
    } catch (error) {
      if (error instanceof HeartbeatLostError) throw error;
      if (error instanceof CallTimeoutError)
        return failed(
          "TIMEOUT",
          `nothing came of the probe within ${parts.probeMs / 1000} s; look at the machine, and try again`,
          true,
        );
      return { failure: failureAt(address, faultOf(error, redactor)) };
    }
  }

  /** Checks what a driver has found: it is not ours, so it is not trusted. */
  async function seenIn(
    { operation, redactor }: Held,
    driver: AnyDriver,
    address: string,
    found: unknown,
  ): Promise<Seen> {
    const junk = (what: string): Seen => ({
      failure: failureAt(address, faultOf(new Error(`driver "${driver.name}" answers ${what}`), redactor)),
    });
    if (
      typeof found !== "object" ||
      found === null ||
      !("settings" in found) ||
      typeof found.settings !== "object" ||
      found.settings === null
    )
      return junk("a probe without settings");
    const told = "name" in found && typeof found.name === "string" ? nameFrom(redactor.text(found.name)) : "";
    const name = told === "" ? nameFrom(`${operation.options.discovery?.namePrefix ?? ""}${address}`) : told;
    const { settings, secrets, controller, refusals } = await prepareSettings(
      registry,
      { name, driver: driver.name, settings: found.settings },
      [],
    );
    if (refusals.length > 0)
      return junk(`settings that it does not take itself: ${refusals.map(({ message }) => message).join(" ")}`);
    if (!isStorable([settings, secrets, controller])) return junk("settings with characters that cannot be stored");
    return { name, settings, secrets, controller };
  }

  async function settle(held: Held, row: Address, seen: Seen): Promise<void> {
    for (;;) {
      try {
        return await transact((transaction) => record(transaction, held, row, seen));
      } catch (error) {
        // Somebody took the name, or deleted the cluster, between our look and our insert.
        const constraint = violatedConstraint(error) ?? "";
        if (!constraint.startsWith("nodes_name") && !constraint.startsWith("nodes_cluster")) throw error;
      }
    }
  }

  async function record(
    transaction: Transaction,
    { operation: { id }, driverName }: Held,
    { ordinal }: Address,
    seen: Seen,
  ): Promise<void> {
    const { tx } = transaction;
    if (!("failure" in seen) && seen.controller !== null) await lockController(tx, driverName, seen.controller);
    if (!(await lockQueuedDiscovery(tx, id, ordinal))) return;
    if ("failure" in seen) return endDiscovery(tx, id, ordinal, { state: "FAILED", failure: seen.failure });
    const { name, settings, secrets, controller } = seen;
    const known =
      controller === null
        ? await nodeWithSettings(tx, driverName, settings[driverName] ?? {})
        : await nodeWithController(tx, driverName, controller);
    if (known !== null) return endDiscovery(tx, id, ordinal, { state: "KNOWN", nodeId: known });
    const [operation] = await operationsByIds(tx, [id]);
    if (!operation) throw new Error(`Discovery ${id} is gone.`);
    const { project, clusterId, actor, reason, options } = operation;
    const node = {
      name: await freeName(tx, name),
      project,
      driver: driverName,
      settings,
      secrets,
      labels: options.discovery?.labels ?? {},
      clusterId,
      controller,
    };
    const [nodeId = ""] = await enrollNodes(transaction, [node], { actor, reason, operationId: id });
    await endDiscovery(tx, id, ordinal, { state: "REGISTERED", nodeId });
  }

  return {
    async run(operationId) {
      if (draining) return false;
      const cut = new AbortController();
      underWay.add(cut);
      try {
        const held = await open(operationId);
        if (!held) return true;
        await probeAll(held, cut);
        if (draining) return false;
        await transact((transaction) => end(transaction, operationId));
        return true;
      } catch (error) {
        if (!draining) throw error;
        return false;
      } finally {
        underWay.delete(cut);
      }
    },
    drain() {
      draining = true;
      for (const cut of underWay) cut.abort(new Error("The service is ending."));
    },
  };
}

function canDiscover(driver: AnyDriver): driver is AnyDriver & { readonly discover: DiscoverInterface<unknown> } {
  return driver.discover !== undefined;
}

function failureAt(
  address: string,
  { code, reason, retryable }: { readonly code: ErrorCode; readonly reason: string; readonly retryable: boolean },
): Failure {
  const message = reason.includes(address) ? sentence(reason) : `${address}: ${sentence(reason)}`;
  return { code, message, step: null, nodeId: null, nodeName: null, at: new Date().toISOString(), retryable };
}

/** A text made a name of a node: what a name may not hold becomes a dash. Empty where nothing is left. */
function nameFrom(text: string): string {
  const cut = text.replaceAll(/[^A-Za-z0-9._-]+/g, "-").slice(0, NAME_LENGTH_MAX);
  return cut.replace(/^[^A-Za-z0-9]+/, "").replace(/[^A-Za-z0-9]+$/, "");
}

/** The first of a name, name-2, name-3 … that no node has. */
async function freeName(reader: Reader, name: string): Promise<string> {
  const numbered = (number: number) => (number === 1 ? name : `${name.slice(0, NAME_LENGTH_MAX - 10)}-${number}`);
  for (let from = 1, size = 20; ; from += size, size *= 2) {
    const names = Array.from({ length: size }, (_, index) => numbered(from + index));
    const taken = new Set((await nodesByNames(reader, names)).map((node) => node.name));
    const free = names.find((one) => !taken.has(one));
    if (free !== undefined) return free;
  }
}
