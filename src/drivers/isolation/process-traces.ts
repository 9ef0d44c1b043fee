/**
 * Effects of a call on its process that a later call would meet: changed globals, open file descriptors, memory.
 * Timers, sockets and programs are not counted here: the worker waits for those (`isQuiet` in worker.ts).
 *
 * The check runs after every call, so it has to be cheap: about 50 µs of CPU. It finds mistakes of drivers and their
 * packages, and does not stop malice. It does not see variables of modules, accessors, and properties that
 * `defineProperty` adds to a prototype. Of the globals in `LATE` it sees changes once they are in use.
 */
import { closeSync, openSync } from "node:fs";
// Replaces `process.chdir` when it is loaded, which Node's HTTP client does, so it is loaded before the state is noted.
import "node:worker_threads";

/** Descriptors that a driver may keep: a few for lazily opened resources of Node and its libraries. */
const DESCRIPTORS_MAX = 16;
/** Levels of causes of an error that are looked at. */
const CAUSES_MAX = 5;
/** Growth of the process, buffers included. */
const MEMORY_MAX = 192 * 1024 * 1024;

/** Objects whose data properties drivers and libraries share. */
const INTRINSICS = [
  "Object",
  "Function",
  "Array",
  "String",
  "Number",
  "Boolean",
  "Symbol",
  "BigInt",
  "Error",
  "RangeError",
  "SyntaxError",
  "TypeError",
  "Promise",
  "Map",
  "Set",
  "WeakMap",
  "Date",
  "RegExp",
  "ArrayBuffer",
  "Uint8Array",
  "Buffer",
  "URL",
  "AbortController",
  "AbortSignal",
  "EventTarget",
  "JSON",
  "Math",
  "Reflect",
  "process",
  "console",
] as const;

/**
 * Globals of Node's HTTP client, which Node loads when one of them is read. That takes 17 ms of CPU and 4 MB, so they
 * are noted after the first call that has loaded them.
 */
const LATE: ReadonlySet<PropertyKey> = new Set([
  "CloseEvent",
  "EventSource",
  "FormData",
  "Headers",
  "MessageEvent",
  "Request",
  "Response",
  "WebSocket",
]);
const LATE_MODULE = "NativeModule internal/deps/undici/undici";

// A driver may replace these.
const { is } = Object;
const { stringify } = JSON;
const { rss } = process.memoryUsage;
const { cwd, env } = process;

/** Notes the state of this process. The returned function names the first change since then; null if there is none. */
export function noteProcess(): () => string | null {
  const saved = [globalThis, ...INTRINSICS.flatMap(withPrototype)].map((holder) =>
    noted(
      holder,
      Reflect.ownKeys(holder).filter((key) => holder !== globalThis || !LATE.has(key)),
    ),
  );
  let lacksLate = true;
  const names = Object.keys(globalThis).length;
  const environment = stringify(env);
  const folder = cwd();
  const descriptor = lowestDescriptor() ?? 0;
  const memory = rss();
  const changedGlobal = (): string | null => {
    for (const { holder, properties } of saved)
      for (const [key, value] of properties) if (!is(holder[key], value)) return String(key);
    if (lacksLate && isLateLoaded()) {
      lacksLate = false;
      saved.push(noted(globalThis, [...LATE]));
    }
    for (const sample of [{}, [], "", () => {}]) for (const key in sample) return key;
    return Object.keys(globalThis).length === names ? null : "globalThis";
  };
  return () => {
    const opened = lowestDescriptor();
    if (opened === null) return "left no file descriptor free";
    if (opened - descriptor > DESCRIPTORS_MAX) return `left ${opened - descriptor} file descriptors open`;
    if (rss() - memory > MEMORY_MAX) return "left much memory in use";
    const changed = changedGlobal();
    if (changed !== null) return `changed the global object ${changed}`;
    if (stringify(env) !== environment) return "changed the environment variables";
    return cwd() === folder ? null : "changed the working directory";
  };
}

/** Whether an error with its causes, or a result, says that the process or the system lacks descriptors or memory. */
export function isExhaustion(thrownOrReturned: unknown): boolean {
  let at = thrownOrReturned;
  try {
    for (let depth = 0; depth < CAUSES_MAX && typeof at === "object" && at !== null; depth += 1) {
      const { code, message, reason, cause } = at as Readonly<Record<string, unknown>>;
      if (/\b(EMFILE|ENFILE|ENOMEM)\b/.test(`${String(code)} ${String(message)} ${String(reason)}`)) return true;
      at = cause;
    }
  } catch {
    // A member throws when it is read.
  }
  return false;
}

function withPrototype(name: (typeof INTRINSICS)[number]): readonly object[] {
  const value: object = globalThis[name];
  const prototype: unknown = "prototype" in value ? value.prototype : null;
  return typeof prototype === "object" && prototype !== null ? [value, prototype] : [value];
}

/** The values of an object's data properties. */
function noted(holder: object, keys: readonly PropertyKey[]): Noted {
  const properties = keys.flatMap((key) => {
    const property = Object.getOwnPropertyDescriptor(holder, key);
    return property && "value" in property ? [[key, property.value as unknown] as const] : [];
  });
  return { holder: holder as Noted["holder"], properties };
}

interface Noted {
  readonly holder: Readonly<Record<PropertyKey, unknown>>;
  readonly properties: readonly (readonly [PropertyKey, unknown])[];
}

/** Reads no global, which would load it. `moduleLoadList` is not documented; without it nothing is late. */
function isLateLoaded(): boolean {
  const loaded: unknown = Reflect.get(process, "moduleLoadList");
  return !Array.isArray(loaded) || loaded.includes(LATE_MODULE);
}

/**
 * The kernel returns the lowest free number, so descriptors that are opened and never closed raise it. Null if none is
 * free.
 */
function lowestDescriptor(): number | null {
  try {
    const descriptor = openSync("/dev/null", "r");
    closeSync(descriptor);
    return descriptor;
  } catch {
    return null;
  }
}
