/**
 * Variables: JSON objects in layers, merged shallowly. A later layer wins; empty values override; `null` removes a key; an
 * absent layer and `{}` change nothing.
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

/** A merge that keeps `null`: the variables of a request as they are stored, to be merged with others later. */
export function overlayKeepingNulls(earlier: JsonObject, given: unknown): JsonObject {
  return { ...earlier, ...(isJsonObject(given) ? given : {}) };
}

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The flaws of the form or the size of variables. */
export function variablesFlaws(given: unknown, path: readonly string[]): Refusal[] {
  if (given === undefined || given === null) return [];
  if (isJsonObject(given)) return sizeFlaws("The variables", given, path);
  return [
    { code: "INVALID_INPUT", message: 'Invalid variables: use a JSON object, as in { "ntp": "10.0.0.1" }.', path },
  ];
}
