/** Fields that every answer to a mutation has. */
import type { Refusal } from "../../errors.ts";
import { QueryRef } from "./builder.ts";
import type { OutputFields } from "./builder.ts";
import { UserErrorRef } from "./errors.ts";

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
