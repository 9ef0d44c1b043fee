/**
 * Reads what machines report about themselves, on request: firmware, BIOS settings, boot device and serial console.
 * Nothing is stored. The machine of a busy node belongs to its run, and is not read. Nodes that share a controller are
 * read one after the other.
 */
import { Deadline, leftUntil } from "../../drivers/deadline.ts";
import type { BiosAttribute, BootOverride, FirmwareComponent } from "../../drivers/driver.ts";
import { HeartbeatLostError } from "../../drivers/isolation/protocol.ts";
import { biosOf, bootOverrideOf, consoleUrlOf, firmwareOf } from "../../drivers/machine-facts.ts";
import { invalidInput } from "../../errors.ts";
import type { ErrorCode, FailureKind, Refusal } from "../../errors.ts";
import { createSequences, mapConcurrently } from "../../runtime/concurrency.ts";
import { sentence } from "../../runtime/text.ts";
import type { DriverTry, StoredJson } from "../../store/records.ts";
import { CallTimeoutError, withDeadline } from "../execution/call/call-deadline.ts";
import type { CallBasis } from "../execution/call/driver-call.ts";
import { faultOf } from "../execution/call/driver-result.ts";
import { DriverChain } from "../execution/call/interface-call.ts";
import type { InterfaceCall } from "../execution/call/interface-call.ts";
import type { Machine } from "../execution/call/machine.ts";
import type { NodeSelector } from "../input/node-selector.ts";
import { READ_MS, nodesToRead } from "./power-calls.ts";
import type { Answers, PowerCalls, PowerReaderParts, RestingNode } from "./power-calls.ts";

/** Readable facts of a machine, with their meanings. */
export const MACHINE_FACTS = {
  FIRMWARE: "Components with their firmware versions.",
  BIOS: "BIOS settings.",
  BOOT_DEVICE: "Boot device that is set.",
  CONSOLE: "Address of the serial console.",
} as const;
export type MachineFact = keyof typeof MACHINE_FACTS;

export interface MachineFacts {
  readonly FIRMWARE: readonly FirmwareComponent[];
  readonly BIOS: readonly BiosAttribute[];
  readonly BOOT_DEVICE: BootOverride;
  readonly CONSOLE: string;
}

/** The result of one read. */
export interface MachineReading {
  readonly what: MachineFact;
  /** The driver that answered; null if none did. */
  readonly driver: string | null;
  readonly value: MachineFacts[MachineFact] | null;
  readonly refusal: Refusal | null;
  /** Cause of the failure as the driver classified it. */
  readonly kind: FailureKind | null;
  readonly driverCalls: readonly DriverTry[];
}

/** Readings of one node, in the order of the request, or the reason why nothing was. */
export interface MachineAnswer {
  readonly ref: string;
  readonly nodeId: string;
  readonly readings: readonly MachineReading[];
  readonly refusal: Refusal | null;
}

export type MachineAnswers = Answers<MachineAnswer>;

export interface ReadRequest {
  readonly nodes: NodeSelector;
  readonly what: readonly MachineFact[];
}

/** Limits of a request: nodes, nodes at the same time, and the time for all calls. */
const NODES_MAX = 100;
const NODES_AT_A_TIME = 16;
const REQUEST_MS = 30_000;

const CALLS: { readonly [Fact in MachineFact]: InterfaceCall<MachineFacts[Fact]> } = {
  FIRMWARE: {
    interface: "firmware",
    name: "firmware read",
    isRead: true,
    function: ({ firmware }) => firmware && (async (call) => firmwareOf(await firmware.read(call))),
  },
  BIOS: {
    interface: "bios",
    name: "bios read",
    isRead: true,
    function: ({ bios }) => bios && (async (call) => biosOf(await bios.read(call))),
  },
  BOOT_DEVICE: {
    interface: "power",
    name: "read the boot device",
    isRead: true,
    function: ({ power }) =>
      power.readBootDevice && (async (call) => bootOverrideOf(await power.readBootDevice?.(call))),
  },
  CONSOLE: {
    interface: "console",
    name: "console address",
    isRead: true,
    function: ({ console }) => console && (async (call) => consoleUrlOf(await console.serialUrl(call))),
  },
};

export class MachineReader {
  readonly #parts: Pick<PowerReaderParts, "database" | "log">;
  readonly #calls: PowerCalls;
  readonly #ofController = createSequences();

  constructor(parts: Pick<PowerReaderParts, "database" | "log">, calls: PowerCalls) {
    this.#parts = parts;
    this.#calls = calls;
  }

  async read({ nodes, what }: ReadRequest): Promise<MachineAnswers> {
    const facts = [...new Set(what)];
    if (facts.length === 0) {
      const message = "`what` is empty. Name at least one thing to read.";
      return { answers: [], refusals: [invalidInput(message, ["input", "what"])] };
    }
    const limit = { max: NODES_MAX, remedy: "Select fewer." };
    const found = await nodesToRead(this.#parts.database.reader, nodes, limit);
    if ("refusals" in found) return { answers: [], refusals: found.refusals };
    const all = new Deadline(REQUEST_MS);
    const answers = await mapConcurrently(NODES_AT_A_TIME, found.nodes, async ({ ref, nodeId }) => ({
      ref,
      nodeId,
      ...(await this.#readNode(ref, nodeId, { facts, all })),
    }));
    return { answers, refusals: [] };
  }

  async #readNode(
    ref: string,
    nodeId: string,
    { facts, all }: { readonly facts: readonly MachineFact[]; readonly all: Date },
  ): Promise<Pick<MachineAnswer, "readings" | "refusal">> {
    const before = await this.#calls.look(nodeId, ref);
    if ("refusal" in before) return { readings: [], refusal: before.refusal };
    const { machine, node } = before;
    if ("problem" in machine)
      return {
        readings: [],
        refusal: {
          code: machine.code ?? "UNSUPPORTED_BY_DRIVER",
          message: `Node ${node.name}: ${sentence(machine.problem)}`,
          nodeId,
        },
      };
    return this.#ofController(node.controller ?? node.id, async () => {
      const readings: MachineReading[] = [];
      for (const what of facts) {
        const reading = await this.#readFact(before, machine, { what, all });
        if (reading === null) return { readings, refusal: await this.#calls.refusalOfVoid(before, ref, "it") };
        readings.push(reading);
      }
      return { readings, refusal: null };
    });
  }

  /** Null: work has begun on the node. */
  async #readFact(
    before: RestingNode,
    machine: Machine,
    { what, all }: { readonly what: MachineFact; readonly all: Date },
  ): Promise<MachineReading | null> {
    const driverCalls: DriverTry[] = [];
    const { id: nodeId, name } = machine.node;
    const failed = (code: ErrorCode, reason: string, kind: FailureKind | null): MachineReading => ({
      what,
      driver: null,
      value: null,
      refusal: { code, message: `Node ${name}: ${sentence(reason)}`, nodeId },
      kind,
      driverCalls,
    });
    if (leftUntil(all) <= 0)
      return failed("TIMEOUT", "the time was over before it was read; select fewer nodes or facts", null);
    const deadline = new Deadline(READ_MS);
    const basis = { machine, deadline, lane: "READING" as const, log: this.#parts.log, tries: driverCalls };
    try {
      const read = await this.#calls.undisturbed(before, (end) => readWithin(basis, what, all, end));
      return read && { what, ...read, refusal: null, kind: null, driverCalls };
    } catch (error) {
      if (error instanceof CallTimeoutError || error instanceof HeartbeatLostError)
        return failed("TIMEOUT", "the BMC did not answer in time, or other calls to drivers were running", "TIMEOUT");
      const { code, reason, failureKind = null } = faultOf(error, machine.redactor);
      return failed(failureKind === "UNSUPPORTED" ? "UNSUPPORTED_BY_DRIVER" : code, reason, failureKind);
    }
  }
}

/** Reads one fact within the time for all calls, which includes the wait for a slot. */
async function readWithin(
  basis: CallBasis & { readonly deadline: Deadline },
  what: MachineFact,
  all: Date,
  end: AbortSignal,
): Promise<Pick<MachineReading, "driver" | "value">> {
  const call: InterfaceCall<MachineFacts[MachineFact]> = CALLS[what];
  return withDeadline(all, end, (until) =>
    withDeadline(basis.deadline, until, async (signal) => {
      const chain = new DriverChain(basis, signal);
      const value = await chain.call(call);
      const masked = basis.machine.redactor.json(value as StoredJson) as typeof value;
      return { driver: chain.answeredBy(call.interface), value: masked };
    }),
  );
}
