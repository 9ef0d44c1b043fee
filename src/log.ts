/**
 * The service's log, through pino, on standard error: one JSON line per event for programs, or short lines for people.
 * Callers mask secrets. Every line written while a request is handled carries the request's id; that correlation is the
 * only use of `AsyncLocalStorage` here.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { isatty } from "node:tty";
import { pino } from "pino";
import pretty from "pino-pretty";
import type { DestinationStream, Logger } from "pino";

export type Log = Logger;

export const LOG_LEVELS = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** auto: `text` on a terminal, else `json`. */
export const LOG_FORMATS = ["auto", "json", "text"] as const;
export type LogFormat = (typeof LOG_FORMATS)[number];

const STANDARD_ERROR = 2;

/** Where the service logs to: standard error, in a format for programs or for people. */
export function logDestination(format: LogFormat): DestinationStream {
  const asText = format === "text" || (format === "auto" && isatty(STANDARD_ERROR));
  return asText ? textDestination(STANDARD_ERROR) : pino.destination({ dest: STANDARD_ERROR, sync: true });
}

/** Short lines with the local time and the level as a word. Settings that the start logs for programs are left out. */
export function textDestination(to: number | NodeJS.WritableStream): DestinationStream {
  return pretty({
    destination: to,
    sync: true,
    colorize: typeof to === "number" && isatty(to) && !process.env["NO_COLOR"],
    translateTime: "SYS:HH:MM:ss",
    singleLine: true,
    ignore: "config",
  });
}

/** `to`: destination, standard error as JSON by default. */
export function createLog(level: LogLevel, to: DestinationStream = logDestination("json")): Log {
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: errorToLog },
      mixin: loggedHere,
    },
    to,
  );
}

/** Fields that all lines of one request share. */
export interface Logged {
  readonly requestId?: string;
}

const logged = new AsyncLocalStorage<Logged>();

/** Runs `work`; every line logged by it has these fields. */
export function withLogged<T>(fields: Logged, work: () => T): T {
  return logged.run(fields, work);
}

/** The fields of the current async context. */
export function loggedHere(): Logged {
  return { ...logged.getStore() };
}

/** An error for the log, without the parameters of a failed statement: they may be secret, and as long as a request. */
export function errorToLog(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const values: string[] = [];
  const visited = new Set<unknown>();
  const visit = (at: unknown) => {
    if (!(at instanceof Error) || visited.has(at)) return;
    visited.add(at);
    const { params, cause, originalError } = at as { params?: unknown; cause?: unknown; originalError?: unknown };
    // Drizzle appends the parameters to its message.
    if (Array.isArray(params)) values.push(`\nparams: ${String(params)}`);
    visit(cause);
    visit(originalError);
  };
  visit(error);
  return withoutValues(pino.stdSerializers.err(error), values);
}

/**
 * Statement parameters, the row that violates a constraint (`detail`), and the state of a lost connection (`client`).
 */
const OMITTED = new Set(["params", "parameters", "args", "detail", "client"]);

/** Removes `values` and the excluded members from a serialized error and its causes. */
function withoutValues(serialized: unknown, values: readonly string[]): unknown {
  if (typeof serialized === "string") return values.reduce((text, value) => text.replaceAll(value, ""), serialized);
  if (serialized === null || typeof serialized !== "object" || !("stack" in serialized)) return serialized;
  return Object.fromEntries(
    Object.entries(serialized)
      .filter(([key]) => !OMITTED.has(key))
      .map(([key, member]) => [key, withoutValues(member, values)]),
  );
}
