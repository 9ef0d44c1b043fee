/**
 * Size limits for data that callers store: JSON of variables, settings and arguments of steps, and reasons. Each is read
 * again with every node, run and answer that has it, so a large one costs many times. Data that was stored before there was
 * a limit stays, and may be changed as long as it does not grow.
 */
import type { Refusal } from "../../errors.ts";

/** Bytes of one value, as JSON in UTF-8: far more than the settings of a cluster need, and too few for a file. */
export const JSON_BYTES_MAX = 64 * 1024;

/** The flaw of a value that is too large. `what` begins the message ("The variables"); `before`: the value it replaces. */
export function sizeFlaws(what: string, value: unknown, path: readonly string[], before?: unknown): Refusal[] {
  const bytes = jsonBytes(value);
  if (bytes <= JSON_BYTES_MAX || bytes <= jsonBytes(before)) return [];
  const [given, max] = [bytes, JSON_BYTES_MAX].map((count) => count.toLocaleString("en"));
  return [
    {
      code: "INVALID_INPUT",
      message: `${what} would take ${given} bytes as JSON; at most ${max} are stored. Keep large data where the steps can fetch it, and store its address.`,
      path,
    },
  ];
}

/** Characters of a reason, which is stored with each run and each transition that it concerns. */
export const REASON_LENGTH_MAX = 1_000;

/** The flaw of a reason that is too long. */
export function reasonFlaws(reason: string | undefined): Refusal[] {
  if (reason === undefined || reason.length <= REASON_LENGTH_MAX) return [];
  return [
    {
      code: "INVALID_INPUT",
      message: `Invalid reason: use at most ${REASON_LENGTH_MAX} characters.`,
      path: ["input", "reason"],
    },
  ];
}

function jsonBytes(value: unknown): number {
  return value === undefined ? 0 : Buffer.byteLength(JSON.stringify(value));
}
