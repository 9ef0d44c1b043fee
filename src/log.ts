/**
 * The service's log: one JSON line an event on standard error, through pino. Secrets are masked before they get here. A line
 * that is written on behalf of a request has the request's id, whoever writes it.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { pino } from "pino";
import type { DestinationStream, Logger } from "pino";

export type Log = Logger;

export const LOG_LEVELS = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** `to`: where the lines go. */
export function createLog(level: LogLevel, to: DestinationStream = pino.destination({ dest: 2, sync: true })): Log {
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      serializers: { err: errorToLog },
      mixin: loggedHere,
    },
    to,
  );
}

/** What lines have in common that are written on behalf of one request. */
export interface Logged {
  readonly requestId?: string;
}

const logged = new AsyncLocalStorage<Logged>();

/** Does work whose lines, whoever writes them, have these fields. */
export function withLogged<T>(fields: Logged, work: () => T): T {
  return logged.run(fields, work);
}

/** The fields that lines have here. */
export function loggedHere(): Logged {
  return { ...logged.getStore() };
}

/** An error as it is logged: without the values of a statement that failed, which may be secret, and as long as a request. */
export function errorToLog(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const values: string[] = [];
  const visited = new Set<unknown>();
  const visit = (at: unknown) => {
    if (!(at instanceof Error) || visited.has(at)) return;
    visited.add(at);
    const { params, cause, originalError } = at as { params?: unknown; cause?: unknown; originalError?: unknown };
    // Drizzle ends its message with them.
    if (Array.isArray(params)) values.push(`\nparams: ${String(params)}`);
    visit(cause);
    visit(originalError);
  };
  visit(error);
  return withoutValues(pino.stdSerializers.err(error), values);
}

/** Values of a statement; what is in a row that breaks a rule of its table (`detail`); and the whole state of a connection that was lost (`client`). */
const LEFT_OUT = new Set(["params", "parameters", "args", "detail", "client"]);

/** Of an error as pino tells it, and of errors in it. */
function withoutValues(told: unknown, values: readonly string[]): unknown {
  if (typeof told === "string") return values.reduce((text, value) => text.replaceAll(value, ""), told);
  if (told === null || typeof told !== "object" || !("stack" in told)) return told;
  return Object.fromEntries(
    Object.entries(told)
      .filter(([key]) => !LEFT_OUT.has(key))
      .map(([key, member]) => [key, withoutValues(member, values)]),
  );
}
