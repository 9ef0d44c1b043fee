/**
 * The protocol between the service and a worker (a process that runs the functions of one driver): one line of JSON per
 * message, and the serialization of values that JSON cannot represent, such as errors.
 */
import type { Socket } from "node:net";
import type {
  DriverError,
  DriverErrorKind,
  ImageView,
  Json,
  NodeAgent,
  NodeMedia,
  NodePower,
  NodeView,
} from "../driver.ts";
import type { FunctionName } from "../driver-functions.ts";

/** The serializable arguments of a function. */
export interface Given {
  readonly settings: unknown;
  readonly node?: NodeView;
  /** Of the dispatch. */
  readonly imageServers?: readonly string[];
  /** For a probe. */
  readonly address?: string;
  /** For a step: the serializable members of `StepCall`. */
  readonly step?: StepData;
  /** The arguments after the call. */
  readonly args: readonly unknown[];
}

export interface StepData {
  readonly args: unknown;
  readonly memo: Json;
  readonly callback: Json;
  readonly callbackPath: string;
  readonly attemptKey: string;
  readonly fence: number;
  readonly variables: unknown;
  /** Whether the node has a media interface. */
  readonly mediaOffered: boolean;
  readonly image: ImageView | null;
  readonly userData: string | null;
}

/** The functions of its node that a step can call. */
export const NODE_FUNCTIONS = {
  power: ["read", "set", "setBootDevice"],
  media: ["insert", "eject"],
  agent: ["status", "open", "assign", "close", "homeUrl"],
} as const satisfies {
  readonly power: readonly (keyof NodePower)[];
  readonly media: readonly (keyof NodeMedia)[];
  readonly agent: readonly (keyof NodeAgent)[];
};

/** A step's call of its node's power, media or agent. */
export interface NodeQuestion {
  readonly on: keyof typeof NODE_FUNCTIONS;
  readonly function: string;
  readonly args: readonly unknown[];
}

/** Whether the service answers by a call of a driver. */
export function isNesting({ on }: NodeQuestion): boolean {
  return on !== "agent";
}

/** An answer to a question: a value or an error. */
export type Reply = { readonly value?: Json } | { readonly error: SerializedError };

export type ToWorker =
  | {
      readonly kind: "call";
      readonly id: number;
      readonly target: FunctionName;
      readonly given: Given;
      /** Time until the deadline. */
      readonly leftMs: number;
    }
  /** Cancels the call: its signal fires. */
  | { readonly kind: "end"; readonly id: number; readonly reason: SerializedError }
  | { readonly kind: "reply"; readonly question: number; readonly reply: Reply }
  /** Heartbeat of the service. */
  | { readonly kind: "alive" }
  | { readonly kind: "close" };

export type FromWorker = OfCall | OfDriver;

/** Messages about a call. */
export type OfCall =
  /** The function is about to be entered. */
  | { readonly kind: "begun"; readonly id: number }
  | { readonly kind: "log"; readonly id: number; readonly text: string }
  | { readonly kind: "progress"; readonly id: number; readonly percent: number; readonly message: string | null }
  /** A timed request to the machine began; it ended. */
  | { readonly kind: "timing"; readonly id: number; readonly timing: number; readonly name: string }
  | { readonly kind: "timed"; readonly id: number; readonly timing: number; readonly error?: SerializedError }
  | { readonly kind: "question"; readonly id: number; readonly question: number; readonly ask: NodeQuestion }
  /** The call has ended. */
  | ({
      readonly kind: "ended";
      readonly id: number;
      readonly left: Leftovers;
      /** Duration, without the time for which the call waited for the driver's memory. */
      readonly ms: number;
      /** A lasting effect of the call on its process, which is then SPENT. */
      readonly trace?: string;
    } & ({ readonly value: Packed } | { readonly error: SerializedError }))
  /** The call caused an unhandled error; the process ends. */
  | { readonly kind: "fault"; readonly id: number; readonly error: SerializedError };

/** Messages about the driver, independent of the current call. */
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
  /** Activity that an earlier call left behind has failed. */
  | { readonly kind: "late"; readonly text: string }
  /** Activity that the last call left behind has ended. */
  | { readonly kind: "clean" };

/** State of a process after a call: idle, still busy with leftovers of the call, or to be replaced. */
export type Leftovers = "NONE" | "BUSY" | "SPENT";

// ---- lines

/** Longer lines are invalid: the data of a step has at most half a megabyte. */
export const LINE_LENGTH_MAX = 16 * 1024 * 1024;

export interface Wire<Out> {
  send(message: Out): void;
  /** Sends a serialized message. */
  sendLine(line: string): void;
  /** Writes buffered messages immediately, for a process that is about to exit. */
  flush(): void;
}

/** Reads messages from a socket, in order. `onFlaw`: the input is invalid, and reading stops. */
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
    // Messages of one tick become one write.
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

/** An error reduced to the members that the engine uses. */
export interface SerializedError {
  readonly name: string;
  readonly message: string;
  readonly kind?: DriverErrorKind;
  readonly retryable?: boolean;
  readonly withoutEffect?: boolean;
  readonly away?: boolean;
  /** The thrown value is not an Error. */
  readonly bare?: true;
}

const MESSAGE_LENGTH_MAX = 16_000;

/** Serializes any thrown value, also one whose members throw. */
export function serializeError(thrown: unknown): SerializedError {
  try {
    if (!(thrown instanceof Error)) return { name: "Error", message: shorten(String(thrown)), bare: true };
    const { name, message, kind, retryable, withoutEffect, away } = thrown as unknown as Readonly<
      Record<"name" | "message" | "kind" | "retryable" | "withoutEffect" | "away", unknown>
    >;
    return {
      name: shorten(String(name)),
      message: shorten(String(message)),
      ...(typeof kind === "string" && { kind: kind as DriverErrorKind }),
      ...(typeof retryable === "boolean" && { retryable }),
      ...(typeof withoutEffect === "boolean" && { withoutEffect }),
      ...(away === true && { away }),
    };
  } catch {
    return { name: "Error", message: "it threw a value that cannot be serialized" };
  }
}

/** Restores a serialized error. */
export function errorOf({ name, message, kind, retryable, withoutEffect, away, bare }: SerializedError): unknown {
  if (bare) return message;
  const error = new Error(message);
  error.name = name;
  return Object.assign(
    error,
    kind !== undefined && { kind },
    retryable !== undefined && { retryable },
    withoutEffect !== undefined && { withoutEffect },
    away && { away },
  );
}

/** An error of the isolation layer, in the shape of a driver's error. */
export class IsolationError extends Error implements DriverError {
  override readonly name = "DriverError";
  readonly kind: DriverErrorKind;
  readonly retryable: boolean;
  readonly withoutEffect: boolean;
  /** `withoutEffect`: the driver was not called. */
  constructor(
    message: string,
    {
      kind = "OTHER",
      retryable,
      withoutEffect = false,
    }: { readonly kind?: DriverErrorKind; readonly retryable: boolean; readonly withoutEffect?: boolean },
  ) {
    super(message);
    this.kind = kind;
    this.retryable = retryable;
    this.withoutEffect = withoutEffect;
  }
}

/**
 * Duration of a run's lease. A worker without a heartbeat for this long during a call ends itself: another replica may
 * own the run.
 */
export const SILENCE_SECONDS = 10;

/**
 * A worker has ended itself during a call because the service, which was paused, sent no heartbeat for the duration of
 * a lease. Not a failure of the driver; the run may have another owner.
 */
export class HeartbeatLostError extends Error {
  override readonly name = "HeartbeatLostError";
}

export function shorten(text: string, length = MESSAGE_LENGTH_MAX): string {
  return text.length > length ? `${text.slice(0, length - 1).toWellFormed()}…` : text;
}

// ---- results

/**
 * A value as JSON; or, if JSON cannot represent it, enough of its shape for the engine to reject it with the right
 * reason.
 */
export type Packed =
  | { readonly json: Json }
  | { readonly type: string }
  | { readonly members: Readonly<Record<string, Packed>> };

/** Four times the engine's limit for a part of a result, and so above its limit for a whole result. */
const RESULT_LENGTH_MAX = 1024 * 1024;

/** `depth`: levels of members that are packed one by one if JSON cannot represent the whole object. */
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

/** Restores a packed value. A value that JSON cannot represent becomes another such value of the same type. */
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
      return Symbol("driver value");
    default:
      return 0n;
  }
}
