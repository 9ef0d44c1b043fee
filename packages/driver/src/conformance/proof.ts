/** Assertions of the conformance suite, about conditions, errors and time. */
import { withTimeout } from "../../../../src/runtime/timeout.ts";

/** Limit for a call to end after its signal has fired. */
export const PROMPT_SECONDS = 5;
const ERROR_KINDS: readonly unknown[] = ["AUTHENTICATION", "UNREACHABLE", "TIMEOUT", "REFUSED", "UNSUPPORTED", "OTHER"];

export function ensure(condition: boolean, sentence: string): asserts condition {
  if (!condition) throw new Error(sentence);
}

export function isDriverError(error: unknown): error is Error & { kind: string; retryable: boolean } {
  if (!(error instanceof Error) || error.name !== "DriverError") return false;
  const { kind, retryable } = error as { kind?: unknown; retryable?: unknown };
  return ERROR_KINDS.includes(kind) && typeof retryable === "boolean";
}

/** Notes what a machine does not support; throws for every other failure. `also`: a further kind that says so. */
export function noteUnsupported(
  { unsupported }: { readonly unsupported: string[] },
  error: unknown,
  { what, also }: { readonly what: string; readonly also?: "REFUSED" },
): void {
  const kinds = ["UNSUPPORTED", ...(also ? [also] : [])];
  ensure(
    isDriverError(error) && kinds.includes(error.kind),
    `${what} fails, but not with a DriverError of kind ${kinds.join(" or ")}: ${describe(error)}`,
  );
  unsupported.push(`${what}: ${error.message}`);
}

/** An error with its causes, as a log would hold it. */
export function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const more = error.cause === undefined ? "" : `\ncaused by ${describe(error.cause)}`;
  return `${error.stack ?? `${error.name}: ${error.message}`}\n${JSON.stringify(error)}${more}`;
}

export function within<T>(work: Promise<T>, seconds: number, what: string): Promise<T> {
  const lateError = () => new Error(`\`${what}\` does not end within ${seconds} s after its signal fired.`);
  return withTimeout(seconds * 1000, work, lateError);
}

/** Requires an AUTHENTICATION error, and no secret in it or in the log. */
export function ensureRefusedLogin(
  failure: unknown,
  {
    logged,
    secrets,
    option,
  }: {
    readonly logged: readonly string[];
    readonly secrets: readonly { readonly name: string; readonly value: string }[];
    readonly option: string;
  },
): void {
  ensure(isDriverError(failure), `A refused login does not fail with a DriverError: ${describe(failure)}`);
  ensure(
    failure.kind === "AUTHENTICATION",
    `A refused login fails with ${failure.kind} instead of AUTHENTICATION: ${failure.message}`,
  );
  ensure(failure.message.trim() !== "", "The error for a refused login has no message.");
  const reported = [describe(failure), ...logged].join("\n");
  for (const { name, value } of secrets) {
    ensure(
      value.length >= 8,
      `The secret "${name}" of the option \`${option}\` is so short that a log can contain it by chance; use 8 characters or more.`,
    );
    ensure(!reported.includes(value), `The error or the log of a refused login contains the secret "${name}".`);
  }
}
