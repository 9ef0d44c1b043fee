/**
 * What one request may ask at most, and how more is refused: with the limit's name, what was asked and what is allowed,
 * so that a program can act on it, and with advice for people. docs/limits.md tells how to live with each.
 */
import { GraphQLError } from "graphql";
import type { ASTNode } from "graphql";
import { withStatus } from "./error-masking.ts";

export const LIMITS = {
  /** Lexical tokens of a document. */
  tokens: 2_000,
  /** Brackets within each other: of a document, and of the values of variables. */
  nesting: 32,
  /** Fields below each other. Introspection is not counted: its own rule bounds it. */
  depth: 10,
  /** Fields of the operation itself, under whatever names. */
  rootFields: 20,
  /** Comparisons of fields that answer under one name: validation holds each against each. */
  comparisons: 500_000,
  /** Objects that the answer may hold; cost.ts says how they are counted. */
  cost: 5_000,
  /** Filters in a filter's `or`, those within them included. Lists of ids and names are not bounded. */
  alternatives: 100,
  /** Characters of the filter of a stream, as JSON: it is held, several times over, for as long as the stream lasts. */
  streamFilter: 65_536,
  /** Characters of the answer to a query, about. */
  answer: 16 * 1024 * 1024,
  /** How long a query may take, in seconds. Mutations take their time, and streams last. */
  seconds: 10,
} as const;

export type Limit = keyof typeof LIMITS;

const UNITS: Readonly<Record<Limit, { readonly what: string; readonly advice: string }>> = {
  tokens: { what: "tokens in the document", advice: "Give values as variables, or ask in several requests." },
  nesting: { what: "brackets within each other", advice: "Make the value flatter." },
  depth: { what: "fields below each other", advice: "Ask for the inner objects in a request of their own." },
  rootFields: { what: "fields at the root of an operation", advice: "Ask in several requests, or for a list." },
  comparisons: { what: "comparisons of fields that answer under one name", advice: "Ask for each field once." },
  cost: {
    what: "objects that the answer may hold (`extensions.cost`)",
    advice: "Ask for smaller pages (`first`), or for inner lists in a request of their own.",
  },
  alternatives: {
    what: "alternatives in a filter",
    advice: "Name the nodes by `ids` or `name: { in: … }`, of which there may be any number.",
  },
  streamFilter: {
    what: "characters in the JSON of a stream's filter",
    advice: "Choose by `cluster` or `labels`, or take the stream unfiltered and choose on the client.",
  },
  answer: {
    what: "characters in the answer to a query",
    advice:
      "Ask for smaller pages (`first`), or for large values, as outputs and variables, of fewer objects at a time.",
  },
  seconds: { what: "seconds for a query", advice: "Ask for smaller pages, or for less of each item." },
};

export interface Excess {
  /** What was asked for, where it is known. */
  readonly requested?: number;
  /** HTTP status for clients that accept `application/graphql-response+json`; the others are answered with 200. */
  readonly status?: number;
  readonly nodes?: readonly ASTNode[];
  readonly more?: Readonly<Record<string, unknown>>;
}

/** The error of a request that goes beyond a limit. */
export function beyond(limit: Limit, { requested, status = 400, nodes, more }: Excess = {}): GraphQLError {
  const { what, advice } = UNITS[limit];
  const max = LIMITS[limit];
  const asked = requested === undefined ? "" : ` This request has ${requested.toLocaleString("en")}.`;
  const error = new GraphQLError(`At most ${max.toLocaleString("en")} ${what} are allowed.${asked} ${advice}`, {
    nodes: nodes ?? null,
    extensions: { code: "LIMIT_EXCEEDED", limit, max, ...(requested !== undefined && { requested }), ...more },
  });
  return withStatus(error, { spec: true, status });
}
