/** How the conformance suite says that something does not hold, and looks at errors and at time. */
import { withTimeout } from "../../runtime/timeout.ts";

/** How soon a call ends whose signal has fired. */
export const PROMPT_SECONDS = 5;
const ERROR_KINDS: readonly unknown[] = ["AUTHENTICATION", "UNREACHABLE", "TIMEOUT", "REFUSED", "OTHER"];

export function hold(truth: boolean, sentence: string): asserts truth {
  if (!truth) throw new Error(sentence);
}

export function isDriverError(error: unknown): error is Error & { kind: string; retryable: boolean } {
  if (!(error instanceof Error) || error.name !== "DriverError") return false;
  const { kind, retryable } = error as { kind?: unknown; retryable?: unknown };
  return ERROR_KINDS.includes(kind) && typeof retryable === "boolean";
}

/** An error with its causes, as a log would hold it. */
export function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const more = error.cause === undefined ? "" : `\ncaused by ${describe(error.cause)}`;
  return `${error.stack ?? `${error.name}: ${error.message}`}\n${JSON.stringify(error)}${more}`;
}

export function within<T>(work: Promise<T>, seconds: number, what: string): Promise<T> {
  const lateError = () => new Error(`\`${what}\` goes on for more than ${seconds} s after its signal fired.`);
  return withTimeout(seconds * 1000, work, lateError);
}

/** What a failure with settings that a machine refuses must be: told apart, and without their secrets in it or in the log. */
export function holdRefusedLogin(
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
  hold(isDriverError(failure), `A refused login is no DriverError: ${describe(failure)}`);
  hold(
    failure.kind === "AUTHENTICATION",
    `A refused login counts as ${failure.kind}, not AUTHENTICATION: ${failure.message}`,
  );
  hold(failure.message.trim() !== "", "The error of a refused login has no message.");
  const said = [describe(failure), ...logged].join("\n");
  for (const { name, value } of secrets) {
    hold(
      value.length >= 8,
      `The secret "${name}" of the option \`${option}\` is so short that a log may hold it by chance; take 8 characters or more.`,
    );
    hold(!said.includes(value), `The error or the log of a refused login holds the secret "${name}".`);
  }
}
