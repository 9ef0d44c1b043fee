/** Fields that answers to mutations share. */
import type { FieldMap } from "@pothos/core";
import type { Refusal } from "../../errors.ts";
import { QueryRef, builder } from "./builder.ts";
import type { OutputFields } from "./builder.ts";
import { UserErrorRef } from "./errors.ts";
import { nodeField } from "./shared-fields.ts";

/** A mutation has a payload of its own, as it has an input. */
export function payloadName(mutation: string): string {
  return `${capitalized(mutation)}Payload`;
}

export function inputName(mutation: string): string {
  return `${capitalized(mutation)}Input`;
}

function capitalized(name: string): string {
  return `${name.slice(0, 1).toUpperCase()}${name.slice(1)}`;
}

/** The payload of a mutation; `more`: further sentences of its description. */
export function payloadType<Answer>(mutation: string, fields: (t: OutputFields<Answer>) => FieldMap, more = "") {
  return builder
    .objectRef<Answer>(payloadName(mutation))
    .implement({ description: `Answer to ${mutation}.${more}`, fields });
}

/** Why the request was refused, in words of the mutation, and the root query. */
export function refusalFields<Answer extends { readonly refusals: readonly Refusal[] }>(
  t: OutputFields<Answer>,
  description: string,
) {
  return {
    errors: t.field({ type: [UserErrorRef], description, resolve: ({ refusals }) => [...refusals] }),
    query: t.field({
      type: QueryRef,
      description: "Root query, to read more in the same request.",
      resolve: () => ({}),
    }),
  };
}

/** The node of a result: as the request named it, and as it is. */
export function nodeFields<Result extends { readonly ref: string; readonly nodeId: string | null }>(
  t: OutputFields<Result>,
  description: string,
) {
  return {
    ref: t.string({
      description: "Name or UUID of the node as the request gave it.",
      resolve: ({ ref }) => ref,
    }),
    node: nodeField(t, description),
  };
}
