/**
 * Lists that the database writes as JSON text. A page of 1,000 nodes takes 2.5 ms this way in place of the 15.6 ms that
 * parsing the rows, resolving every field and writing the result again take. The response is the same to the letter,
 * which `test/graphql/lists.test.ts` compares for random documents.
 *
 * How it works:
 * 1. A list field declares with the extension `asText` which fields of its items the database can write.
 * 2. Before execution, each such list whose selection stays within these fields gets a plan (json-list-plan.ts), and
 *    its selection is replaced by one hidden field that no document can name (json-list-rewrite.ts). All other lists,
 *    and documents that are not understood here, are executed unchanged.
 * 3. The list's resolver finds its plan by `listPlan(info)`, reads the page as text and returns it with `listText`.
 *    Arguments, scopes and errors are the resolver's, as without a plan. Fields that the service composes are facts in
 *    that text; they are made once for nodes with equal facts (json-list-composed.ts).
 * 4. When the response is written, the text is put in the place of the list (json-list-text.ts).
 */
import { GraphQLBoolean, Kind, getOperationAST } from "graphql";
import type { DocumentNode, GraphQLSchema, OperationDefinitionNode } from "graphql";
import type { Plugin } from "graphql-yoga";
import { FIELD_CHARACTERS, PLAN_CHARACTERS_MAX } from "./json-list-plan.ts";
import { addHiddenFields, rewriteDocument } from "./json-list-rewrite.ts";
import { stringifyWithTexts } from "./json-list-text.ts";

/** Rewritten documents that are kept for one document, one for each combination of its Boolean variables. */
const VARIANTS_MAX = 32;
const VARIANT_LENGTH_MAX = 500;
/** Size of all rewritten documents at which they are dropped; those that recur are made again. */
const KEPT_CHARACTERS_MAX = 2_000_000;

/** The Yoga plugin. Only for transports that write a result with its `stringify`: HTTP and server-sent events. */
export function jsonLists(schema: GraphQLSchema): Plugin {
  addHiddenFields(schema);
  const rewritten = createRewriter(schema);
  return {
    onExecute({ args, executeFn, setExecuteFn }) {
      if (!("request" in (args.contextValue as object))) return undefined;
      const document = rewritten(args.document, args.operationName, args.variableValues ?? {});
      if (!document) return undefined;
      setExecuteFn((given) => executeFn({ ...given, document }));
      return {
        onExecuteDone({ result, setResult }) {
          if (typeof result !== "object" || result === null || Symbol.asyncIterator in result) return;
          setResult(Object.assign({ ...result }, { stringify: stringifyWithTexts }));
        },
      };
    },
  };
}

type Variables = Readonly<Record<string, unknown>>;

/** Rewrites documents and caches the results. The answer is null for a document without a list that can be text. */
function createRewriter(
  schema: GraphQLSchema,
): (document: DocumentNode, operationName: string | null | undefined, variables: Variables) => DocumentNode | null {
  let cache = new WeakMap<DocumentNode, Map<string, DocumentNode | null>>();
  let keptCharacters = 0;

  function keep(size: number): void {
    keptCharacters += size;
    if (keptCharacters <= KEPT_CHARACTERS_MAX) return;
    cache = new WeakMap();
    keptCharacters = 0;
  }

  return (document, operationName, variables) => {
    const operation = getOperationAST(document, operationName);
    if (!operation) return null;
    const variants = cache.get(document) ?? new Map<string, DocumentNode | null>();
    cache.set(document, variants);
    const variant = variantOf(operation, operationName, variables);
    const known = variants.get(variant);
    if (known !== undefined) return known;
    const budget = { characters: PLAN_CHARACTERS_MAX };
    const made = rewriteDocument({ schema, document, operation, variables, budget });
    if (variants.size < VARIANTS_MAX && variant.length <= VARIANT_LENGTH_MAX) {
      variants.set(variant, made);
      keep(FIELD_CHARACTERS + variant.length + (made ? PLAN_CHARACTERS_MAX - budget.characters : 0));
    }
    return made;
  };
}

/** The key of a rewritten document: the operation, and the Boolean variables that its directives may use. */
function variantOf(
  { variableDefinitions = [] }: OperationDefinitionNode,
  operationName: string | null | undefined,
  variables: Variables,
): string {
  const values = variableDefinitions
    .filter(({ type }) => namedType(type) === GraphQLBoolean.name)
    .map(({ variable }) => variables[variable.name.value]);
  // All values that are not Booleans share one variant; validation rejects them later.
  return [
    operationName ?? "",
    ...values.map((value) => (typeof value === "boolean" || value === undefined ? String(value) : "?")),
  ].join(" ");
}

function namedType(type: NonNullable<OperationDefinitionNode["variableDefinitions"]>[number]["type"]): string {
  return type.kind === Kind.NAMED_TYPE ? type.name.value : namedType(type.type);
}
