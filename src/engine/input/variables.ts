/**
 * Variables: JSON objects of several levels, merged shallowly. A later level wins; empty values override; `null`
 * removes a key; an absent level and `{}` change nothing.
 */
import { flawIf, invalidInput } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import { keyIdOf } from "../../store/secrets/cipher.ts";
import { MASK } from "../../store/secrets/secrets.ts";
import type { OpenVariables } from "../../store/secrets/secrets.ts";
import type { JsonObject, StoredJson } from "../../store/records.ts";
import { sizeFlaws } from "./size-limits.ts";

/** Where the value of a variable comes from, lowest precedence first. */
export const VARIABLE_SOURCES = {
  SITE: "Variables of the site.",
  CLUSTER: "Variables of the node's cluster.",
  HOST_GROUP:
    "Variables of the node's host group in its cluster, or of the one that the request sets; also the name of the group, as `host_group`.",
  NODE: "Variables of the node.",
  EARLIER_REQUEST: "Request that the restart continues.",
  REQUEST: "Variables of this request.",
} as const;
export type VariableSource = keyof typeof VARIABLE_SOURCES;

export interface EffectiveVariable {
  readonly name: string;
  readonly value: StoredJson;
  readonly source: VariableSource;
}

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

/** A request without its secret variables, and these. */
export function withoutSecrets<Request extends { readonly variables?: unknown }>(
  request: Request,
  secretNames: ReadonlySet<string>,
): { readonly open: Request; readonly secrets: JsonObject } {
  const { variables } = request;
  if (!isJsonObject(variables)) return { open: request, secrets: {} };
  const [secrets = [], open = []] = [true, false].map((isSecret) =>
    Object.entries(variables).filter(([name]) => secretNames.has(name) === isSecret),
  );
  return { open: { ...request, variables: Object.fromEntries(open) }, secrets: Object.fromEntries(secrets) };
}

/** The texts of secret variables, to be masked. */
export function secretTexts({ values, secretNames }: OpenVariables): readonly string[] {
  return [...secretNames].flatMap((name) => (typeof values[name] === "string" ? [values[name]] : []));
}

/** Name of the variable that holds the node's host group. The service sets it; no level may. */
export const HOST_GROUP = "host_group";

/** The flaws of the form or the size of variables. */
export function variablesFlaws(given: unknown, path: readonly string[]): Refusal[] {
  if (given === undefined || given === null) return [];
  if (!isJsonObject(given))
    return [invalidInput('Invalid variables: use a JSON object, as in { "ntp": "10.0.0.1" }.', path)];
  return [...reservedFlaws(given, path), ...placeholderFlaws(given, path), ...sizeFlaws("The variables", given, path)];
}

/** The placeholder of a secret, in an answer or in the database, is not taken for its value. */
function placeholderFlaws(given: JsonObject, path: readonly string[]): Refusal[] {
  return Object.entries(given).flatMap(([name, value]) => {
    const message = `The variable ${name} has the placeholder of a secret. Leave it out to keep the secret, or send the secret itself.`;
    return flawIf(value === MASK || keyIdOf(value) !== null, message, [...path, name]);
  });
}

/** A null is allowed, so that a cluster can drop a variable of that name from before it was reserved. */
function reservedFlaws(given: JsonObject, path: readonly string[]): Refusal[] {
  const message = `The variable ${HOST_GROUP} is reserved for the host group of the node. Remove it; set the group with updateNodes or redeployNodes.`;
  return flawIf((given[HOST_GROUP] ?? null) !== null, message, [...path, HOST_GROUP]);
}
