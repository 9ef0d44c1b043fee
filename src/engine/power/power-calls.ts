/**
 * Calls that read or set the power of a node at rest. A call ends when work on its node begins, and nothing of it is
 * written then: the reading may be older than the result of the run.
 */
import type { PowerState } from "../../drivers/driver.ts";
import { Deadline } from "../../drivers/deadline.ts";
import { invalidInput } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import { createBatchLoader } from "../../runtime/batch-loader.ts";
import { FAILED_READINGS_MAX } from "../../lifecycle/faults.ts";
import { cutTo, sentence } from "../../runtime/text.ts";
import { faultChange, faultEnd, reached } from "../../store/nodes/node-faults.ts";
import { lockNodes, nodesByIds, changeNodeRows } from "../../store/nodes/nodes.ts";
import type { NodeRow, Secrets } from "../../store/nodes/nodes.ts";
import type { Reader } from "../../store/postgres/database.ts";
import type { SecretError } from "../../store/secrets/keyring.ts";
import { SECRETS, secretsOf } from "../../store/secrets/secrets.ts";
import { workSoFar } from "../../store/nodes/power.ts";
import type { WorkSoFar } from "../../store/nodes/power.ts";
import type { EngineParts } from "../context.ts";
import { openMachine } from "../execution/call/machine.ts";
import type { Machine, Unusable } from "../execution/call/machine.ts";
import { readPower, setPower } from "../execution/call/power-call.ts";
import type { PowerReading, ReadingTime } from "../execution/call/power-call.ts";
import { selectNodes } from "../input/node-selector.ts";
import type { NodeSelector } from "../input/node-selector.ts";
import { unknownNodes } from "../input/unknown-nodes.ts";

export interface PowerReaderParts extends EngineParts {
  /** How long a machine may take for a reading, in ms, before others precede it. */
  readonly patienceMs?: number | undefined;
}

/** Time limits of a call to a BMC and of a change of power, in ms (docs/rules/timeouts.md). */
export const READ_MS = 30_000;
const CORRECT_MS = 60_000;
const PROBLEM_LENGTH_MAX = 500;
const DEBOUNCE_MS = 100;

/** The answers of a request that reads each of its nodes. */
export interface Answers<Answer> {
  readonly answers: readonly Answer[];
  /** Reasons why nothing was read. */
  readonly refusals: readonly Refusal[];
}

/** The selected nodes, if they are not too many. `remedy`: what to do if they are. */
export async function nodesToRead(
  reader: Reader,
  selector: NodeSelector,
  { max, remedy }: { readonly max: number; readonly remedy: string },
): ReturnType<typeof selectNodes> {
  const found = await selectNodes(reader, selector);
  if ("refusals" in found || found.nodes.length <= max) return found;
  const message = `The request selects ${found.nodes.length} nodes, and at most ${max} can be read at once. ${remedy}`;
  return { refusals: [invalidInput(message, ["input", "nodes"])] };
}

/** A node at rest, as it was before a call. */
export interface RestingNode {
  readonly node: NodeRow;
  readonly machine: Machine | Unusable;
  /** Number of its runs, all ended. */
  readonly runs: number;
}

/** A call to a BMC that has not ended. */
interface OpenCall {
  readonly before: RestingNode;
  readonly cancel: AbortController;
}

export class PowerCalls {
  readonly #parts: PowerReaderParts;
  /** Aborted when the engine closes. */
  readonly #closing: AbortSignal;
  readonly #open = new Set<OpenCall>();
  readonly #unsubscribe: () => void;
  // Many nodes are read at the same time, so lookups are batched.
  readonly #workOf: (id: string) => Promise<WorkSoFar | undefined>;
  readonly #rowOf: (id: string) => Promise<NodeRow | undefined>;
  // In an object, because a loader rejects with an error that it is given as a value.
  readonly #secretsOf: (id: string) => Promise<{ readonly found: Secrets | SecretError } | undefined>;

  constructor(parts: PowerReaderParts, closing: AbortSignal) {
    const { keyring, database } = parts;
    const { reader } = database;
    this.#parts = parts;
    this.#closing = closing;
    this.#workOf = createBatchLoader((ids) => workSoFar(reader, ids));
    this.#rowOf = createBatchLoader(
      async (ids) => new Map((await nodesByIds(reader, ids)).map((node) => [node.id, node])),
    );
    this.#secretsOf = createBatchLoader(
      async (ids) =>
        new Map([...(await secretsOf(reader, keyring, SECRETS.ofNodes, ids))].map(([id, found]) => [id, { found }])),
    );
    this.#unsubscribe = parts.notifier.subscribe(() => this.#onNotified(), DEBOUNCE_MS);
  }

  /** The node if it is at rest; otherwise the reason why its power may not be read. */
  async look(nodeId: string, ref: string): Promise<RestingNode | { readonly refusal: Refusal }> {
    // In this order: work that begins between the two reads makes the count rise above the one that is kept here.
    const work = await this.#workOf(nodeId);
    const node = await this.#rowOf(nodeId);
    if (!node) return { refusal: unknownNodes([ref]) };
    if (work?.busyWith) return { refusal: busyRefusal(node, work.busyWith) };
    const { registry, observer } = this.#parts;
    const machine = await openMachine(registry, node, (await this.#secretsOf(nodeId))?.found ?? {}, observer);
    return { node, machine, runs: work?.runs ?? 0 };
  }

  /** Why a node is busy whose reading was void; `what`: what was read. */
  async refusalOfVoid({ node }: RestingNode, ref: string, what: string): Promise<Refusal> {
    const now = await this.look(node.id, ref);
    const message = `Work on node ${node.name} began and ended while ${what} was read. Try again.`;
    return "refusal" in now ? now.refusal : { code: "BUSY", message, nodeId: node.id };
  }

  /** `all`: when the time for all calls of a request is over. Null: work has begun on the node. */
  async read(
    before: RestingNode,
    all: Date,
    how: Pick<ReadingTime, "tries" | "isBackground"> = {},
  ): Promise<PowerReading | "NO_SLOT" | null> {
    const { machine } = before;
    if ("problem" in machine) return { code: machine.code ?? "UNSUPPORTED_BY_DRIVER", reason: machine.problem };
    const { log, patienceMs } = this.#parts;
    const time = { deadline: new Deadline(READ_MS), all, ...how, ...(patienceMs !== undefined && { patienceMs }) };
    return this.undisturbed(before, (end) => readPower(machine, time, end, log));
  }

  /** Null: work has begun on the node. */
  async set(before: RestingNode, machine: Machine, power: "ON" | "OFF"): Promise<PowerState | null> {
    const { log } = this.#parts;
    return this.undisturbed(before, (end) =>
      setPower(machine, power, { deadline: new Deadline(CORRECT_MS), lane: "READING", log, end }),
    );
  }

  /**
   * Writes the changes that a reading brings. Only failed readings in the background count for a fault. False: work has
   * begun on the node meanwhile, so the reading is void.
   */
  async record({ node, runs }: RestingNode, reading: PowerReading, isBackground = false): Promise<boolean> {
    if (isEmpty(changesBy(node, reading, isBackground))) return true;
    return this.#parts.transact(async ({ tx }) => {
      const [now] = await lockNodes(tx, [node.id]);
      if (!now || hasBegun((await workSoFar(tx, [node.id])).get(node.id), runs)) return false;
      const changes = changesBy(now, reading, isBackground);
      if (!isEmpty(changes)) await changeNodeRows(tx, [node.id], changes);
      return true;
    });
  }

  close(): void {
    for (const { cancel } of this.#open) cancel.abort(this.#closing.reason);
    this.#unsubscribe();
  }

  /** Makes a call that is canceled when work on the node begins, or the engine closes. Null: work has begun already. */
  async undisturbed<T>(before: RestingNode, call: (end: AbortSignal) => Promise<T>): Promise<T | null> {
    const made = { before, cancel: new AbortController() };
    this.#open.add(made);
    if (this.#closing.aborted) made.cancel.abort(this.#closing.reason);
    try {
      // Work that started between the first look and this call was announced before the call was listed; check for it
      // once. Later work cancels the call.
      if (hasBegun(await this.#workOf(before.node.id), before.runs)) return null;
      return await call(made.cancel.signal);
    } finally {
      this.#open.delete(made);
    }
  }

  #onNotified(): void {
    if (this.#open.size === 0) return;
    this.#cancelBusy().catch((error: unknown) =>
      this.#parts.log.debug({ err: error }, "busy nodes could not be determined"),
    );
  }

  async #cancelBusy(): Promise<void> {
    const asked = [...this.#open];
    const work = await workSoFar(
      this.#parts.database.reader,
      asked.map(({ before }) => before.node.id),
    );
    for (const { before, cancel } of asked)
      if (hasBegun(work.get(before.node.id), before.runs)) cancel.abort(new Error("work on the node has begun"));
  }
}

function busyRefusal(node: NodeRow, { kind, operationId }: NonNullable<WorkSoFar["busyWith"]>): Refusal {
  return {
    code: "BUSY",
    message: `Node ${node.name} is busy with ${kind} operation ${operationId}, which controls its power. Wait for its end.`,
    nodeId: node.id,
    operationId,
  };
}

type PowerChanges = Parameters<typeof changeNodeRows>[2];

/** The fields of a node that a reading changes. */
function changesBy(node: NodeRow, reading: PowerReading, isBackground: boolean): PowerChanges {
  const state = "state" in reading ? reading.state : "UNKNOWN";
  const problem = "state" in reading ? null : cutTo(reading.reason, PROBLEM_LENGTH_MAX);
  const kind = "state" in reading ? null : (reading.failureKind ?? null);
  const isFirst = "state" in reading && node.powerReadAt === null;
  return {
    ...(state !== node.powerState && { powerState: state }),
    ...("state" in reading && (state !== node.powerState || isFirst) && { powerReadAt: new Date() }),
    ...((problem !== node.powerProblem || (problem !== null && kind !== node.powerProblemKind)) && {
      powerProblem: problem,
      powerProblemKind: kind,
    }),
    ...("isIdle" in reading && faultEnd(node, "MACHINE_BUSY")),
    ...("state" in reading ? reached(node) : isBackground ? unreached(node, reading) : {}),
  };
}

function unreached(node: NodeRow, { code, reason }: Extract<PowerReading, { reason: string }>): PowerChanges {
  // A driver that is not loaded, or has no login, says nothing about the BMC.
  if (code === "UNSUPPORTED_BY_DRIVER" || code === "SECRET_UNREADABLE" || node.failedReadings >= FAILED_READINGS_MAX)
    return {};
  const failedReadings = node.failedReadings + 1;
  if (failedReadings < FAILED_READINGS_MAX) return { failedReadings };
  const message = `The power could not be read ${FAILED_READINGS_MAX} times in a row: ${sentence(cutTo(reason, PROBLEM_LENGTH_MAX))}`;
  return { failedReadings, ...faultChange(node, "BMC_UNREACHABLE", message) };
}

function isEmpty(changes: PowerChanges): boolean {
  return Object.keys(changes).length === 0;
}

/** Whether work on a node has begun since it had this number of runs. */
function hasBegun(now: WorkSoFar | undefined, runs: number): boolean {
  return (now?.runs ?? 0) !== runs;
}
