/**
 * What the service and a worker (a process that runs the functions of one driver) say to each other: one line of JSON a
 * message. Here too is what becomes of things that JSON does not hold: errors, and whatever else a driver returns.
 */
import type { Socket } from "node:net";
import type { BootDevice, DriverError, DriverErrorKind, DriverPhase, Json, NodeView, PowerAction } from "../driver.ts";

/** Which function of a driver is called. */
export type Target =
  | { readonly on: "power"; readonly function: "read" | "set" | "setBootDevice" }
  | {
      readonly on: "step";
      readonly phase: DriverPhase;
      readonly name: string;
      readonly function: "run" | "verify" | "abort";
    }
  | { readonly on: "discover" };

/** What the function is given, as far as it is data. */
export interface Given {
  readonly settings: unknown;
  readonly node?: NodeView;
  /** Of a probe. */
  readonly address?: string;
  /** Of a step: the members of `StepCall` that are data. */
  readonly step?: StepData;
  /** Of power. */
  readonly action?: PowerAction;
  readonly device?: BootDevice;
  readonly persistent?: boolean;
}

export interface StepData {
  readonly args: unknown;
  readonly memo: Json;
  readonly callback: Json;
  readonly callbackPath: string;
  readonly attemptKey: string;
  readonly variables: unknown;
}

/** What a step may ask of the power of its node. */
export type PowerQuestion =
  | { readonly function: "read" }
  | { readonly function: "set"; readonly action: PowerAction }
  | { readonly function: "setBootDevice"; readonly device: BootDevice; readonly persistent: boolean };

/** An answer to a question: a value or an error. */
export type Reply = { readonly value?: Json } | { readonly error: SerializedError };

export type ToWorker =
  | {
      readonly kind: "call";
      readonly id: number;
      readonly target: Target;
      readonly given: Given;
      /** How much time the call has. */ readonly leftMs: number;
    }
  /** The call's signal fires. */
  | { readonly kind: "end"; readonly id: number; readonly reason: SerializedError }
  | { readonly kind: "reply"; readonly question: number; readonly reply: Reply }
  /** The service is there still. */
  | { readonly kind: "alive" }
  | { readonly kind: "close" };

export type FromWorker = OfCall | OfDriver;

/** What is said of a call. */
export type OfCall =
  /** The function is about to be entered. */
  | { readonly kind: "begun"; readonly id: number }
  | { readonly kind: "log"; readonly id: number; readonly text: string }
  | { readonly kind: "progress"; readonly id: number; readonly percent: number; readonly message: string | null }
  /** A call to the machine has begun, and has ended. */
  | { readonly kind: "timing"; readonly id: number; readonly timing: number; readonly name: string }
  | { readonly kind: "timed"; readonly id: number; readonly timing: number; readonly error?: SerializedError }
  | { readonly kind: "power"; readonly id: number; readonly question: number; readonly ask: PowerQuestion }
  /** The call has ended. */
  | ({ readonly kind: "ended"; readonly id: number; readonly left: Leftovers } & (
      | { readonly value: Packed }
      | { readonly error: SerializedError }
    ))
  /** The call threw where nobody could catch it; the process ends. */
  | { readonly kind: "fault"; readonly id: number; readonly error: SerializedError };

/** What is said of the driver, whatever call is under way. */
export type OfDriver =
  | { readonly kind: "ready"; readonly name: string; readonly version: string }
  | { readonly kind: "unfit"; readonly message: string }
  | { readonly kind: "line"; readonly text: string }
  | {
      readonly kind: "memory";
      readonly question: number;
      readonly key: string;
      readonly put?: { readonly value?: Json };
    }
  /** Something that an earlier call has left behind went wrong. */
  | { readonly kind: "late"; readonly text: string }
  /** What the last call has left behind is gone. */
  | { readonly kind: "clean" };

/** How a process stands after a call: fit for the next one, still at something, or to be replaced. */
export type Leftovers = "NONE" | "BUSY" | "SPENT";

// ---- lines

/** Longer lines are nobody's: a step's own data has half a megabyte at most. */
export const LINE_LENGTH_MAX = 16 * 1024 * 1024;

export interface Wire<Out> {
  send(message: Out): void;
  /** Sends a message that has been made into JSON already. */
  sendLine(line: string): void;
  /** Writes what was sent in this turn of the event loop, of which there will be no end. */
  flush(): void;
}

/** Reads messages from a socket, in order. `onFlaw`: what came is no message; nothing more is read. */
export function openWire<Out>(socket: Socket, onMessage: (message: object) => void, onFlaw: () => void): Wire<Out> {
  let parts: string[] = [];
  let length = 0;
  let isOpen = true;
  const refuse = () => {
    isOpen = false;
    parts = [];
    onFlaw();
  };
  const take = (line: string) => {
    let message: unknown;
    try {
      message = JSON.parse(line);
    } catch {
      return refuse();
    }
    if (typeof message !== "object" || message === null || !("kind" in message)) return refuse();
    onMessage(message);
  };
  socket.setEncoding("utf8");
  socket.on("data", (chunk: string) => {
    let from = 0;
    for (let end = chunk.indexOf("\n"); isOpen && end >= 0; end = chunk.indexOf("\n", from)) {
      parts.push(chunk.slice(from, end));
      from = end + 1;
      const line = parts.length === 1 ? (parts[0] ?? "") : parts.join("");
      parts = [];
      length = 0;
      take(line);
    }
    if (!isOpen || from === chunk.length) return;
    parts.push(chunk.slice(from));
    length += chunk.length - from;
    if (length > LINE_LENGTH_MAX) refuse();
  });
  let corked = false;
  const flush = () => {
    corked = false;
    socket.uncork();
  };
  const sendLine = (line: string) => {
    if (socket.destroyed || !socket.writable) return;
    // What is said in one go is one write.
    if (!corked) {
      corked = true;
      socket.cork();
      process.nextTick(flush);
    }
    socket.write(`${line}\n`);
  };
  return { flush, sendLine, send: (message) => sendLine(JSON.stringify(message)) };
}

// ---- errors

/** An error as it is told: what the engine goes by, and no more. */
export interface SerializedError {
  readonly name: string;
  readonly message: string;
  readonly kind?: DriverErrorKind;
  readonly retryable?: boolean;
  /** What was thrown is no Error. */
  readonly bare?: true;
}

const MESSAGE_LENGTH_MAX = 16_000;

/** Whatever was thrown, however it behaves. */
export function serializeError(thrown: unknown): SerializedError {
  try {
    if (!(thrown instanceof Error)) return { name: "Error", message: shorten(String(thrown)), bare: true };
    const { name, message, kind, retryable } = thrown as unknown as Readonly<
      Record<"name" | "message" | "kind" | "retryable", unknown>
    >;
    return {
      name: shorten(String(name)),
      message: shorten(String(message)),
      ...(typeof kind === "string" && { kind: kind as DriverErrorKind }),
      ...(typeof retryable === "boolean" && { retryable }),
    };
  } catch {
    return { name: "Error", message: "it threw what cannot be told" };
  }
}

/** The error again: the same name, the same words. */
export function errorOf({ name, message, kind, retryable, bare }: SerializedError): unknown {
  if (bare) return message;
  const error = new Error(message);
  error.name = name;
  return Object.assign(error, kind !== undefined && { kind }, retryable !== undefined && { retryable });
}

/** An error of isolation itself, of the shape that drivers' own have. */
export class IsolationError extends Error implements DriverError {
  override readonly name = "DriverError";
  readonly kind: DriverErrorKind;
  readonly retryable: boolean;
  constructor(
    message: string,
    { kind = "OTHER", retryable }: { readonly kind?: DriverErrorKind; readonly retryable: boolean },
  ) {
    super(message);
    this.kind = kind;
    this.retryable = retryable;
  }
}

/** A run's lease: a worker that has heard nothing for so long, in the middle of a call, ends itself, as its call may be somebody else's by now. */
export const SILENCE_SECONDS = 10;

/**
 * A worker has ended itself, in the middle of a call, because it heard nothing of the service for as long as a lease lasts:
 * the service was paused. No failure of the driver, whose call is nobody's by now.
 */
export class WorkerUnresponsiveError extends Error {}

export function shorten(text: string, length = MESSAGE_LENGTH_MAX): string {
  return text.length > length ? `${text.slice(0, length - 1).toWellFormed()}…` : text;
}

// ---- results

/** A value as JSON holds it, or where it holds it not, as much of it as lets the engine refuse it for the right reason. */
export type Packed =
  | { readonly json: Json }
  | { readonly type: string }
  | { readonly members: Readonly<Record<string, Packed>> };

/** Four times what the engine takes of any part of a result, and so more than it takes of a whole one. */
const RESULT_LENGTH_MAX = 1024 * 1024;

/** `depth`: of an object that JSON does not hold as a whole, so many levels of members are packed one by one. */
export function pack(value: unknown, depth = 1): Packed {
  const json = jsonOf(value);
  if (json !== undefined) return { json };
  if (typeof value !== "object" || value === null || depth === 0) return { type: typeof value };
  try {
    return {
      members: Object.fromEntries(
        Object.entries(value)
          .slice(0, 20)
          .map(([key, member]) => [key, pack(member, depth - 1)]),
      ),
    };
  } catch {
    return { type: "object" };
  }
}

function jsonOf(value: unknown): Json | undefined {
  try {
    const text = JSON.stringify(value) as string | undefined;
    return text === undefined || text.length > RESULT_LENGTH_MAX ? undefined : (value as Json);
  } catch {
    return undefined;
  }
}

/** The value again. What JSON does not hold becomes another thing of its type that JSON does not hold. */
export function unpack(packed: Packed): unknown {
  if ("json" in packed) return packed.json;
  if ("members" in packed)
    return Object.fromEntries(Object.entries(packed.members).map(([key, member]) => [key, unpack(member)]));
  switch (packed.type) {
    case "undefined":
      return undefined;
    case "function":
      return () => {};
    case "symbol":
      return Symbol("of a driver");
    default:
      return 0n;
  }
}
