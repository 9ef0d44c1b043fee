/**
 * How large that may be what callers store: the JSON of variables, settings and arguments of steps, and reasons. Each is read
 * again with every node, run and answer that has it, so a large one is paid for many times over. What was stored before there
 * was a bound stays, and JSON may be changed as long as it does not grow.
 */
import type { Refusal } from "../../errors.ts";

/** Bytes of one value, as JSON in UTF-8: many times what settings of a cluster take, and too few for a file. */
export const JSON_BYTES_MAX = 64 * 1024;

/**
 * What is wrong with the size of what is about to be stored, if anything. `what` begins the message ("The variables");
 * `before` is what it takes the place of.
 */
export function sizeFlaws(what: string, value: unknown, path: readonly string[], before?: unknown): Refusal[] {
  const bytes = jsonBytes(value);
  if (bytes <= JSON_BYTES_MAX || bytes <= jsonBytes(before)) return [];
  const [given, max] = [bytes, JSON_BYTES_MAX].map((count) => count.toLocaleString("en"));
  return [
    {
      code: "INVALID_INPUT",
      message: `${what} would take ${given} bytes as JSON, and at most ${max} are stored; keep what is so large where the steps can fetch it, and store its address.`,
      path,
    },
  ];
}

/** Characters of a reason: it is stored with each run and each transition that it is given for. */
export const REASON_LENGTH_MAX = 1_000;

/** What is wrong with the reason of a request, if it has one. */
export function reasonFlaws(reason: string | undefined): Refusal[] {
  if (reason === undefined || reason.length <= REASON_LENGTH_MAX) return [];
  return [
    {
      code: "INVALID_INPUT",
      message: `A reason has at most ${REASON_LENGTH_MAX} characters.`,
      path: ["input", "reason"],
    },
  ];
}

function jsonBytes(value: unknown): number {
  return value === undefined ? 0 : Buffer.byteLength(JSON.stringify(value));
}
