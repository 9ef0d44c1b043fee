/** Typed documents: subscriptions of streams, and fragments of nodes. */
import { print } from "graphql";
import type { DocumentNode } from "graphql";
import type { NodeFilter } from "./node-filter.ts";

/** A document with the types of its result and variables, as generators make it: a `TypedDocumentNode`, or its text. */
export interface TypedDocument<Result, Variables> {
  readonly __apiType?: (variables: Variables) => Result;
}

/** The item of a subscription, which has one field. */
export type ItemOf<Result> = Result[Exclude<keyof Result, "__typename">];
/** The object that items of a stream have. */
export type RowOf<Item> = Item extends { readonly node: infer Row }
  ? Row
  : Item extends { readonly operation: infer Row }
    ? Row
    : Item extends { readonly run: infer Row }
      ? Row
      : Item extends { readonly cluster: infer Row }
        ? Row
        : never;

const OBJECTS = /\b(?:node|operation|run|cluster)Changes\b/;
const ANSWERS = /\b(?:nodeCount|attention)Changes\b/;
/** Without these, a stream of objects cannot be kept or resumed. */
const NEEDED = ["$after", "$snapshot", "id", "cursor", "snapshotComplete", "caughtUp", "code"];

function textOf(document: TypedDocument<unknown, never>): string {
  return "kind" in document
    ? print(document as unknown as DocumentNode)
    : (document as object as { toString(): string }).toString();
}

/** The text of a subscription, and whether its items are objects or whole answers. */
export function readSubscription(document: TypedDocument<unknown, never>): {
  readonly query: string;
  readonly follows: "OBJECTS" | "ANSWERS";
} {
  const query = textOf(document);
  if (ANSWERS.test(query)) return { query, follows: "ANSWERS" };
  if (!OBJECTS.test(query))
    throw new Error(
      "The document follows none of nodeChanges, operationChanges, runChanges, clusterChanges, nodeCountChanges and attentionChanges.",
    );
  const words = new Set(query.match(/\$?\w+/g));
  const missing = NEEDED.filter((word) => !words.has(word));
  if (missing.length > 0)
    throw new Error(
      `The document lacks ${missing.join(", ")}. Declare the variables $after and $snapshot and pass them to the field; select \`cursor\` of every item, the \`id\` of objects, \`snapshotComplete caughtUp\` of StreamBookmark, and \`code\` of StreamReset.`,
    );
  return { query, follows: "OBJECTS" };
}

/** Fields of a node that are always selected. */
export interface OwnFields {
  readonly id: string;
  /** Increases with every change of the node. */
  readonly revision: number;
}

export interface NodesVariables {
  /** Absent: all nodes. */
  readonly filter?: NodeFilter | null | undefined;
}

interface Marked<Name> {
  readonly __typename: Name;
  readonly cursor: string;
}

/** An item of the subscription that `nodesDocument` makes. */
export type NodesItem<Row> =
  | (Marked<"NodeUpserted"> & { readonly changed: readonly string[] | null; readonly node: Row & OwnFields })
  | (Marked<"NodeLeft"> & { readonly id: string; readonly name: string; readonly deleted: boolean })
  | (Marked<"StreamBookmark"> & { readonly snapshotComplete: boolean; readonly caughtUp: boolean })
  | (Marked<"StreamReset"> & { readonly code: string });

/** The subscription for nodes with the fields of a fragment. */
export function nodesDocument<Row>(
  fragment: TypedDocument<Row, never>,
): TypedDocument<{ readonly nodeChanges: NodesItem<Row> }, NodesVariables> {
  const text = textOf(fragment);
  const name = /^\s*fragment\s+(\w+)\s+on\s+Node\b/m.exec(text)?.[1];
  if (name === undefined)
    throw new Error(
      "The document is not a fragment on Node. useNodes and watchNodes take `fragment Row on Node { … }`; useChanges takes subscriptions.",
    );
  const query = `subscription Nodes($filter: NodeFilter, $after: String, $snapshot: Boolean!) {
  nodeChanges(filter: $filter, after: $after, snapshot: $snapshot) {
    __typename
    ... on NodeUpserted { cursor changed node { id revision ...${name} } }
    ... on NodeLeft { cursor id name deleted }
    ... on StreamBookmark { cursor snapshotComplete caughtUp }
    ... on StreamReset { cursor code }
  }
}
${text}`;
  const document: ReturnType<typeof nodesDocument<Row>> & { toString(): string } = { toString: () => query };
  return document;
}
