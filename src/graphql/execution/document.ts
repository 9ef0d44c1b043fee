/**
 * Bounds on a document that follow from its text alone: they are checked once, and kept with the document in the cache.
 * Each is linear in the text: what a fragment holds is counted once, however often it is spread.
 */
import { GraphQLError, Kind, Lexer, Source, TokenKind, parse } from "graphql";
import type { ASTVisitor, DocumentNode, FragmentDefinitionNode, SelectionSetNode, ValidationContext } from "graphql";
import { LIMITS, beyond } from "../base/request-limits.ts";

/** Documents kept, in characters of their texts: a parsed one takes up to 250 bytes for each. */
const CACHE_CHARACTERS_MAX = 256 * 1024;
const CACHED_CHARACTERS_MAX = 32 * 1024;

/** Parses a document whose tokens and brackets are within their limits. The parser calls itself for each bracket, so they are counted first. */
export function parseBounded(given: string | Source): DocumentNode {
  const source = typeof given === "string" ? new Source(given) : given;
  const lexer = new Lexer(source);
  let nesting = 0;
  for (let tokens = 0; lexer.advance().kind !== TokenKind.EOF;) {
    tokens += 1;
    if (tokens > LIMITS.tokens) throw beyond("tokens");
    switch (lexer.token.kind) {
      case TokenKind.BRACE_L:
      case TokenKind.BRACKET_L:
      case TokenKind.PAREN_L:
        nesting += 1;
        if (nesting > LIMITS.nesting) throw beyond("nesting");
        break;
      case TokenKind.BRACE_R:
      case TokenKind.BRACKET_R:
      case TokenKind.PAREN_R:
        nesting -= 1;
        break;
      default:
    }
  }
  return parse(source);
}

/** Fields below each other, those of the root, and those of one name. */
export function shapeRule(context: ValidationContext): ASTVisitor {
  const depths = new Map<FragmentDefinitionNode, number>();
  const rootCounts = new Map<FragmentDefinitionNode, number>();
  const depthOf = (set: SelectionSetNode | undefined): number =>
    (set?.selections ?? []).reduce((deepest, selection) => {
      switch (selection.kind) {
        case Kind.FIELD:
          return selection.name.value.startsWith("__")
            ? deepest
            : Math.max(deepest, 1 + depthOf(selection.selectionSet));
        case Kind.INLINE_FRAGMENT:
          return Math.max(deepest, depthOf(selection.selectionSet));
        case Kind.FRAGMENT_SPREAD:
          return Math.max(deepest, ofFragment(context, selection.name.value, depths, depthOf));
      }
    }, 0);
  const rootFieldsOf = (set: SelectionSetNode): number =>
    set.selections.reduce((sum, selection) => {
      switch (selection.kind) {
        case Kind.FIELD:
          return sum + 1;
        case Kind.INLINE_FRAGMENT:
          return sum + rootFieldsOf(selection.selectionSet);
        case Kind.FRAGMENT_SPREAD:
          return sum + ofFragment(context, selection.name.value, rootCounts, rootFieldsOf);
      }
    }, 0);
  return {
    OperationDefinition(operation) {
      const depth = depthOf(operation.selectionSet);
      if (depth > LIMITS.depth) context.reportError(beyond("depth", { requested: depth, nodes: [operation] }));
      const rootFields = rootFieldsOf(operation.selectionSet);
      if (rootFields > LIMITS.rootFields)
        context.reportError(beyond("rootFields", { requested: finite(rootFields), nodes: [operation] }));
    },
  };
}

/** What is counted of a fragment, counted once. One that spreads itself counts nothing within itself: another rule refuses it. */
function ofFragment(
  context: ValidationContext,
  name: string,
  known: Map<FragmentDefinitionNode, number>,
  count: (set: SelectionSetNode) => number,
): number {
  const fragment = context.getFragment(name);
  if (!fragment) return 0;
  const before = known.get(fragment);
  if (before !== undefined) return before;
  known.set(fragment, 0);
  const counted = count(fragment.selectionSet);
  known.set(fragment, counted);
  return counted;
}

/**
 * Refuses other names for what is asked of the schema. No tool needs them, and under a hundred names one field of the
 * introspection would be answered a hundred times, megabytes for a few bytes.
 */
export function introspectionAliasRule(context: ValidationContext): ASTVisitor {
  return {
    Field(field) {
      const isOfSchema =
        context.getParentType()?.name.startsWith("__") === true ||
        field.name.value === "__schema" ||
        field.name.value === "__type";
      if (!isOfSchema || field.alias === undefined || field.alias.value === field.name.value) return;
      context.reportError(
        new GraphQLError(
          `What is asked of the schema cannot be given other names, as "${field.alias.value}". Ask for the field as it is.`,
          { nodes: field },
        ),
      );
    },
  };
}

/** Refuses to tell what the schema is. */
export function noIntrospectionRule(context: ValidationContext): ASTVisitor {
  return {
    Field(field) {
      if (field.name.value !== "__schema" && field.name.value !== "__type") return;
      context.reportError(
        new GraphQLError("Introspection is disabled. Operators can print the schema with `ostler schema`.", {
          nodes: field,
          extensions: { code: "FORBIDDEN" },
        }),
      );
    },
  };
}

/** A number that JSON can tell. */
export function finite(number: number): number {
  return Math.min(number, Number.MAX_SAFE_INTEGER);
}

/** Parsed documents by their text, the least lately used thrown out first. Long ones are not kept: nobody sends them often. */
export function createDocumentCache(): {
  get(text: string): DocumentNode | undefined;
  set(text: string, document: DocumentNode): void;
} {
  const kept = new Map<string, DocumentNode>();
  let characters = 0;
  return {
    get(text) {
      const document = kept.get(text);
      if (document) {
        kept.delete(text);
        kept.set(text, document);
      }
      return document;
    },
    set(text, document) {
      if (text.length > CACHED_CHARACTERS_MAX || kept.has(text)) return;
      kept.set(text, document);
      characters += text.length;
      for (const oldest of kept.keys()) {
        if (characters <= CACHE_CHARACTERS_MAX) return;
        kept.delete(oldest);
        characters -= oldest.length;
      }
    },
  };
}
