/**
 * Limits on a document that depend on its text only. They are checked once per cached document. Each check is linear in
 * the text: a fragment is counted once, however often it is spread.
 */
import { LruMap } from "../../runtime/lru-map.ts";
import { GraphQLError, Kind, Lexer, Source, TokenKind, parse } from "graphql";
import type {
  ASTNode,
  ASTVisitFn,
  ASTVisitor,
  DocumentNode,
  FloatValueNode,
  FragmentDefinitionNode,
  IntValueNode,
  SelectionSetNode,
  ValidationContext,
  ValidationRule,
} from "graphql";
import { isExact } from "../../runtime/exact-json.ts";
import { inexactNumber } from "../base/storable.ts";
import { LIMITS, beyond } from "../base/request-limits.ts";

/** Size of the cache in characters of its documents: a parsed document takes up to 250 bytes per character. */
const CACHE_CHARACTERS_MAX = 256 * 1024;
const CACHED_CHARACTERS_MAX = 32 * 1024;

/**
 * Parses a document within the limits of tokens and brackets. They are counted first, because the parser is recursive.
 */
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

/** Validation rule for the nesting of fields and the number of root fields. */
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

/** The count of a fragment, computed once. A fragment that spreads itself counts 0 inside: another rule rejects it. */
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

/** Validation rule against numbers that would be stored as other ones. */
export function exactNumbersRule(context: ValidationContext): ASTVisitor {
  const check: ASTVisitFn<IntValueNode | FloatValueNode> = (node, ...[, parent, path, ancestors]) => {
    if (isExact(node.value)) return;
    const place = placeOf([...ancestors, ...(parent ? [parent] : [])], path) || "A default";
    context.reportError(
      new GraphQLError(inexactNumber(place), { nodes: node, extensions: { code: "BAD_USER_INPUT" } }),
    );
  };
  return { IntValue: check, FloatValue: check };
}

/** The path of a value in a document, as `input.nodes.0.labels`. `path` has the key of each ancestor's child. */
function placeOf(ancestors: readonly (ASTNode | readonly ASTNode[])[], path: readonly (string | number)[]): string {
  const parts = ancestors.map((one, at) => {
    if ("kind" in one) return one.kind === Kind.ARGUMENT || one.kind === Kind.OBJECT_FIELD ? one.name.value : undefined;
    return path[at - 1] === "values" ? path[at] : undefined;
  });
  return parts.filter((part) => part !== undefined).join(".");
}

/** Validation rule against introspection, with this error. */
export function noIntrospectionRule(message: string): ValidationRule {
  return (context) => ({
    Field(field) {
      if (field.name.value !== "__schema" && field.name.value !== "__type") return;
      context.reportError(new GraphQLError(message, { nodes: field, extensions: { code: "FORBIDDEN" } }));
    },
  });
}

/** A number that JSON can represent. */
export function finite(number: number): number {
  return Math.min(number, Number.MAX_SAFE_INTEGER);
}

/**
 * A cache of parsed documents that drops the least recently used. Long documents are not cached: they are rarely
 * repeated.
 */
export function createDocumentCache(): {
  get(text: string): DocumentNode | undefined;
  set(text: string, document: DocumentNode): void;
} {
  const documents = new LruMap<string, DocumentNode>(CACHE_CHARACTERS_MAX, (text) => text.length);
  return {
    get: (text) => documents.get(text),
    set(text, document) {
      if (text.length <= CACHED_CHARACTERS_MAX && !documents.has(text)) documents.set(text, document);
    },
  };
}
