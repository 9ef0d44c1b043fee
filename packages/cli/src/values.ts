/** Values of flags: numbers, shares, durations, labels and variables. A flaw is an error with exit code 64. */
import { durationSeconds, nearest } from "../../client/src/filter-language.ts";
import { CliError, EXIT, usageError } from "./exit.ts";
import type { InputField } from "./requests.ts";
import { readText } from "./selection.ts";
import { safe } from "./text.ts";

const VARIABLES_BYTES_MAX = 64 * 1024;

/** The values, or one error with the flaws of all of them. */
export function allOf(reads: readonly (() => unknown)[]): unknown[] {
  const flaws: string[] = [];
  const values = reads.map((read) => {
    try {
      return read();
    } catch (error) {
      if (!(error instanceof CliError) || error.exitCode !== EXIT.usage) throw error;
      flaws.push(error.message);
      return undefined;
    }
  });
  if (flaws.length > 0) throw usageError(flaws.join("\n"));
  return values;
}

export function duration(flag: string, text: string): number {
  const seconds = durationSeconds(text);
  if (seconds === null) throw usageError(`${flag} cannot be ${safe(text)}. Use a duration such as 90s, 30m or 1h30m.`);
  return seconds;
}

/** A number of nodes, or a share such as `5%`, as `ShareInput`. */
export function share(flag: string, text: string): { readonly count: number } | { readonly percent: number } {
  const [, number, percent] = /^(\d{1,7}(?:\.\d{1,3})?)(%?)$/.exec(text) ?? [];
  const isWhole = number !== undefined && !number.includes(".");
  if (number === undefined || (percent === "" && !isWhole) || (percent === "%" && Number(number) > 100))
    throw usageError(`${flag} cannot be ${safe(text)}. Use a number of nodes, such as 5, or a share, such as 5%.`);
  return percent === "%" ? { percent: Number(number) } : { count: Number(number) };
}

/** The value of a member of an input, by its type. Words of choices have any case, and dashes. */
export function inputValue(flag: string, field: InputField, given: string | boolean): unknown {
  if (typeof given === "boolean") return given;
  if (field.values) {
    const name = given.toUpperCase().replaceAll("-", "_");
    if (field.values.includes(name)) return name;
    const meant = nearest(name, field.values);
    const words = field.values.map(choiceWord).join(", ");
    throw usageError(
      `${flag} cannot be ${safe(given)}. Use ${words}.${meant === null ? "" : ` Did you mean ${choiceWord(meant)}?`}`,
    );
  }
  if (field.type === "Boolean") {
    if (/^(true|false)$/.test(given)) return given === "true";
    throw usageError(`${flag} cannot be ${safe(given)}. Use true or false.`);
  }
  if (field.type === "Int") {
    if (/^\d{1,9}$/.test(given)) return Number(given);
    throw usageError(`${flag} cannot be ${safe(given)}. Use a whole number.`);
  }
  return given;
}

export function choiceWord(name: string): string {
  return name.toLowerCase().replaceAll("_", "-");
}

/** `k=v`: the value is JSON where it is valid JSON, else a text. */
export function assignment(text: string, { isText = false } = {}): readonly [string, unknown] {
  const at = text.indexOf("=");
  if (at <= 0) throw usageError(`${safe(text)} is not of the form NAME=VALUE.`);
  const value = text.slice(at + 1);
  return [text.slice(0, at), isText ? value : jsonOr(value)];
}

function jsonOr(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** `--extra-vars`, merged in order: later ones replace earlier ones. */
export function extraVariables(given: readonly string[]): object {
  const merged: Record<string, unknown> = {};
  for (const one of given) {
    const text = one.startsWith("@") ? readText(one) : one;
    if (Buffer.byteLength(text) > VARIABLES_BYTES_MAX) throw usageError("--extra-vars is larger than 64 KiB.");
    Object.assign(merged, jsonObject(one.startsWith("@") ? one : "--extra-vars", text));
  }
  return merged;
}

export function jsonObject(source: string, text: string): Readonly<Record<string, unknown>> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw usageError(`${source} is not JSON: ${safe(String(error instanceof Error ? error.message : error))}.`);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw usageError(`${source} is not a JSON object. Example: {"image": "debian-13"}`);
  return value as Readonly<Record<string, unknown>>;
}
