/** Typed documents for tests of the client, as a generator makes them. */
import { parse } from "graphql";
import type { TypedDocument } from "../../packages/client/src/index.ts";

export function typed<Result, Variables>(text: string): TypedDocument<Result, Variables> {
  return parse(text) as object;
}

export interface Row {
  readonly name: string;
  readonly state: string;
  readonly powerState: string;
  readonly maintenance: { readonly reason: string } | null;
  readonly labels: readonly { readonly key: string; readonly value: string }[];
}

export const ROW = typed<Row, never>(
  "fragment Row on Node { name state powerState ...Marks } fragment Marks on Node { maintenance { reason } labels { key value } }",
);
