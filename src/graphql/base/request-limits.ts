/**
 * Limits of one request, and the error for exceeding one: its name, the requested and the allowed value for programs,
 * and advice for people. docs/limits.md describes how to stay within each.
 */
import { GraphQLError } from "graphql";
import type { ASTNode } from "graphql";
import { withStatus } from "./error-masking.ts";

export const LIMITS = {
  /** Lexical tokens of a document. */
  tokens: 2_000,
  /** Nesting of brackets in a document, and of objects and lists in the values of variables. */
  nesting: 32,
  /** Nesting of fields. Introspection is not counted: another rule limits it. */
  depth: 14,
  /** Root fields of an operation, aliases included. */
  rootFields: 32,
  /** Comparisons of fields with the same response name: validation compares each with each. */
  comparisons: 500_000,
  /** Number of objects that the response may contain, as counted in cost.ts. */
  cost: 5_000,
  /** Filters in a filter's `or`, nested ones included. Lists of ids and names have no limit. */
  alternatives: 100,
  /** Characters of a stream's filter as JSON: memory holds it several times as long as the stream is open. */
  streamFilter: 65_536,
  /** Operations in a snapshot, which memory holds until it is sent: nothing else bounds their number. */
  snapshot: 50_000,
  /** Values in the results of verbs and plans: the number of nodes times the number of selected fields. */
  values: 500_000,
  /** Approximate number of characters of the response to a query or a mutation. */
  answer: 16 * 1024 * 1024,
  /** Maximum duration of a query in seconds. Mutations and streams have no such limit. */
  seconds: 10,
} as const;

export type Limit = keyof typeof LIMITS;

const UNITS: Readonly<Record<Limit, { readonly what: string; readonly advice: string }>> = {
  tokens: { what: "tokens in the document", advice: "Pass values as variables, or use several requests." },
  nesting: { what: "nested brackets", advice: "Make the document or the value flatter." },
  depth: { what: "nested fields", advice: "Select the inner objects in a separate request." },
  rootFields: { what: "root fields in an operation", advice: "Use several requests, or a list field." },
  comparisons: { what: "comparisons of fields with the same response name", advice: "Select each field once." },
  cost: {
    what: "objects in the response (`extensions.cost`)",
    advice: "Select smaller pages (`first`), or inner lists in a separate request.",
  },
  alternatives: {
    what: "alternatives in a filter",
    advice: "Use `ids` or `name: { in: … }`, which accept any number of nodes.",
  },
  streamFilter: {
    what: "characters in the JSON of a stream's filter",
    advice: "Filter by `cluster` or `labels`, or subscribe without a filter and filter on the client.",
  },
  snapshot: {
    what: "operations in a snapshot",
    advice:
      "Filter by `states` or `createdSince`, or read pages of `operations` and subscribe after `asOf` of the first one.",
  },
  values: {
    what: "values in the results of verbs and plans (nodes times fields)",
    advice: "Select fewer fields of `results` or `nodes`, or send the request for fewer nodes.",
  },
  answer: {
    what: "characters in the response",
    advice: "Select smaller pages (`first`), or large values such as outputs and variables of fewer objects at a time.",
  },
  seconds: { what: "seconds for a query", advice: "Select smaller pages, or fewer fields of each item." },
};

interface Excess {
  /** The requested value, if known. */
  readonly requested?: number;
  /** HTTP status for clients that accept `application/graphql-response+json`; others get 200. */
  readonly status?: number;
  readonly nodes?: readonly ASTNode[];
  readonly more?: Readonly<Record<string, unknown>>;
  /** A sentence to append to the message. */
  readonly note?: string;
}

/** The error of a request that exceeds a limit. */
export function beyond(limit: Limit, { requested, status = 400, nodes, more, note }: Excess = {}): GraphQLError {
  const { what, advice } = UNITS[limit];
  const max = LIMITS[limit];
  const asked = requested === undefined ? "" : ` This request has ${requested.toLocaleString("en")}.`;
  const text = `At most ${max.toLocaleString("en")} ${what} are allowed.${asked} ${advice}`;
  const error = new GraphQLError(note === undefined ? text : `${text} ${note}`, {
    nodes: nodes ?? null,
    extensions: { code: "LIMIT_EXCEEDED", limit, max, ...(requested !== undefined && { requested }), ...more },
  });
  return withStatus(error, { spec: true, status });
}
