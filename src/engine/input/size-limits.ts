/**
 * Size limits for data that callers store: JSON of variables, settings and arguments of steps, and reasons. Each is
 * read again with every node, run and answer that has it, so a large one costs many times. Data that was stored before
 * there was a limit stays, and may be changed as long as it does not grow.
 */
import { flawIf } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import { hasControls } from "../../runtime/text.ts";

/** Bytes of one value, as JSON in UTF-8: far more than the settings of a cluster need, and too few for a file. */
export const JSON_BYTES_MAX = 64 * 1024;

/**
 * The flaw of a value that is too large. `what` begins the message ("The variables"); `before`: the value it replaces.
 */
export function sizeFlaws(what: string, value: unknown, path: readonly string[], before?: unknown): Refusal[] {
  const bytes = jsonBytes(value);
  const [given, max] = [bytes, JSON_BYTES_MAX].map((count) => count.toLocaleString("en"));
  const message = `${what} would take ${given} bytes as JSON; at most ${max} are stored. Keep large data where the steps can fetch it, and store its address.`;
  return flawIf(bytes > JSON_BYTES_MAX && bytes > jsonBytes(before), message, path);
}

/** Characters of a reason, which is stored with each run and each transition that it concerns. */
export const REASON_LENGTH_MAX = 1_000;

/** The flaw of a reason that is too long or has control characters. */
export function reasonFlaws(reason: string | undefined): Refusal[] {
  return textFlaws("reason", reason, REASON_LENGTH_MAX);
}

/** Characters of the description of a node or a runbook. */
export const DESCRIPTION_LENGTH_MAX = 1_000;

/** The flaw of a text for people in the field `name` of the input at `path`. */
export function textFlaws(
  name: string,
  text: string | null | undefined,
  lengthMax: number,
  path: readonly string[] = ["input"],
): Refusal[] {
  const message = `Invalid ${name}: use at most ${lengthMax} characters on one line, without control or invisible characters.`;
  return flawIf(text != null && (text.length > lengthMax || hasControls(text)), message, [...path, name]);
}

function jsonBytes(value: unknown): number {
  return value === undefined ? 0 : Buffer.byteLength(JSON.stringify(value));
}
