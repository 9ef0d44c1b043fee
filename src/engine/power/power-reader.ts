/**
 * Reads the power of nodes at rest: in the background, and at once on request. A change is recorded: a state, or the
 * problem that kept the BMC from answering. The power of a busy node belongs to its run, and is not read.
 */
import { Deadline, leftUntil } from "../../drivers/deadline.ts";
import type { PowerState } from "../../drivers/driver.ts";
import type { Refusal } from "../../errors.ts";
import { mapConcurrently } from "../../runtime/concurrency.ts";
import { sentence } from "../../runtime/text.ts";
import { notePowerReads } from "../../store/nodes/power.ts";
import type { DriverTry } from "../../store/records.ts";
import { nodeIdsOf } from "../input/ids.ts";
import type { NodeSelector } from "../input/node-selector.ts";
import { readInBackground } from "./background-power-reader.ts";
import { MachineReader } from "./machine-reader.ts";
import { PowerCalls, nodesToRead } from "./power-calls.ts";
import type { Answers, PowerReaderParts } from "./power-calls.ts";

/** The power of one node, in the order of the request, or the reason why it is unknown. */
export interface PowerAnswer {
  readonly ref: string;
  readonly nodeId: string;
  readonly state: PowerState | null;
  /** The driver that answered; null if none did. */
  readonly driver: string | null;
  readonly refusal: Refusal | null;
  /** The calls, if the node names several drivers. */
  readonly driverCalls: readonly DriverTry[];
}

export type PowerAnswers = Answers<PowerAnswer>;

/** Limits of a request: nodes, calls at the same time, and the time for all calls. */
const NODES_MAX = 1_000;
const CALLS_MAX = 32;
const REQUEST_MS = 30_000;

export class PowerReader {
  readonly #parts: PowerReaderParts;
  readonly #closing = new AbortController();
  readonly #calls: PowerCalls;
  /** Reads what machines report about themselves. */
  readonly machines: MachineReader;
  #background: Promise<void> = Promise.resolve();

  constructor(parts: PowerReaderParts) {
    this.#parts = parts;
    this.#calls = new PowerCalls(parts, this.#closing.signal);
    this.machines = new MachineReader(parts, this.#calls);
  }

  /** Starts to read in the background, each node once per period. */
  start(seconds: number): void {
    const parts = { ...this.#parts, calls: this.#calls, closing: this.#closing.signal };
    this.#background = readInBackground(parts, seconds);
  }

  /** Reads now. */
  async read(selector: NodeSelector): Promise<PowerAnswers> {
    const { database } = this.#parts;
    const remedy = "Select fewer, or read `Node.powerState`, which is updated regularly.";
    const found = await nodesToRead(database.reader, selector, { max: NODES_MAX, remedy });
    if ("refusals" in found) return { answers: [], refusals: found.refusals };
    const nodeIds = nodeIdsOf(found.nodes);
    await database.transaction((tx) => notePowerReads(tx, nodeIds));
    const all = new Deadline(REQUEST_MS);
    const answers = await mapConcurrently(CALLS_MAX, found.nodes, ({ ref, nodeId }) => this.#readNow(ref, nodeId, all));
    return { answers, refusals: [] };
  }

  async close(): Promise<void> {
    this.#closing.abort(new Error("The replica is shutting down."));
    this.#calls.close();
    await this.#background;
  }

  async #readNow(ref: string, nodeId: string, all: Date): Promise<PowerAnswer> {
    const driverCalls: DriverTry[] = [];
    const answer = { ref, nodeId, driverCalls };
    const refused = (refusal: Refusal): PowerAnswer => ({ ...answer, state: null, driver: null, refusal });
    const late = (message: string) => refused({ code: "TIMEOUT", message, nodeId });
    if (leftUntil(all) <= 0)
      return late(`The time was over before the power of node ${ref} was read. Select fewer nodes.`);
    const before = await this.#calls.look(nodeId, ref);
    if ("refusal" in before) return refused(before.refusal);
    const { name } = before.node;
    const reading = await this.#calls.read(before, all, { tries: driverCalls });
    if (this.#closing.signal.aborted)
      return late(`The service shut down while it read the power of node ${name}. Try again.`);
    if (reading === "NO_SLOT") {
      const message = `The power of node ${name} was not read, because all calls to drivers were taken. Try again, or select fewer nodes.`;
      return refused({ code: "CAPACITY", message, nodeId });
    }
    if (reading === null || !(await this.#calls.record(before, reading)))
      return refused(await this.#calls.refusalOfVoid(before, ref, "its power"));
    if ("state" in reading) return { ...answer, state: reading.state, driver: reading.driver ?? null, refusal: null };
    const message = `The power of node ${name} could not be read: ${sentence(reading.reason)}`;
    return refused({ code: reading.code, message, nodeId });
  }
}
