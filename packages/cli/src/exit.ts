/** Exit codes, and the error that ends the command with one. Codes are stable: scripts depend on them. */

export const EXIT = {
  done: 0,
  /** The work failed in whole or in part, or the command met a fault. */
  failed: 1,
  /** The service refused; nothing has started. */
  refused: 2,
  /** The work was stopped or aborted. */
  ended: 3,
  /** The command is wrong, or needs `--yes`; nothing was changed. */
  usage: 64,
  /** The service cannot be reached, or is not Ostler. */
  unreachable: 69,
  /** `--timeout` has passed; the operation continues. */
  timeout: 75,
  forbidden: 77,
  interrupted: 130,
} as const;

export class CliError extends Error {
  override readonly name = "CliError";
  readonly exitCode: number;
  /** Whether the same request can succeed a moment later. */
  readonly isTransient: boolean;

  constructor(exitCode: number, message: string, { isTransient = false } = {}) {
    super(message);
    this.exitCode = exitCode;
    this.isTransient = isTransient;
  }
}

export function usageError(message: string): CliError {
  return new CliError(EXIT.usage, message);
}

export function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause instanceof Error ? error.cause : error;
  return cause.message || ("code" in cause ? String(cause.code) : cause.name);
}
