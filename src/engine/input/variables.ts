/**
 * Variables: JSON objects overlaid one over the other. A shallow merge: later wins, empty values override, `null` removes the
 * key, absent and `{}` change nothing.
 */
import type { Refusal } from "../../errors.ts";
import type { JsonObject, StoredJson } from "../../store/records.ts";
import { sizeFlaws } from "./size-limits.ts";

export function overlay(...layers: readonly (JsonObject | null | undefined)[]): JsonObject {
  const merged = new Map<string, StoredJson>();
  for (const layer of layers) {
    for (const [key, value] of Object.entries(layer ?? {})) {
      if (value === null) merged.delete(key);
      else merged.set(key, value);
    }
  }
  return Object.fromEntries(merged);
}

/** An overlay that keeps its `null`s: what is stored of a request, to be laid over other settings later. */
export function overlayKeepingNulls(earlier: JsonObject, given: unknown): JsonObject {
  return { ...earlier, ...(isJsonObject(given) ? given : {}) };
}

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** What is wrong with variables that a request gives: their form, or their size. */
export function variablesFlaws(given: unknown, path: readonly string[]): Refusal[] {
  if (given === undefined || given === null) return [];
  if (isJsonObject(given)) return sizeFlaws("The variables", given, path);
  return [{ code: "INVALID_INPUT", message: 'Variables are a JSON object, as in { "ntp": "10.0.0.1" }.', path }];
}
