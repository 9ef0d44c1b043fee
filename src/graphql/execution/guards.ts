/**
 * Checks of a request as Yoga plugins, so that they apply to HTTP, server-sent events and WebSocket alike. They run in
 * the order of their cost: tokens and brackets before parsing, nesting and introspection during validation, variables
 * and cost before execution, time during it.
 */
import { GraphQLError, Kind, getOperationAST, isInputObjectType, validate } from "graphql";
import type {
  DocumentNode,
  ExecutionArgs,
  FragmentDefinitionNode,
  GraphQLSchema,
  OperationDefinitionNode,
  ValidationRule,
} from "graphql";
import type { Plugin } from "graphql-yoga";
import type { RequestErrorCode } from "../../errors.ts";
import { costOf } from "./cost.ts";
import { exactNumbersRule, noIntrospectionRule, parseBounded, shapeRule } from "./document.ts";
import { LIMITS, beyond } from "../base/request-limits.ts";
import type { Context } from "../base/context.ts";
import { databaseUnavailable, shown, withStatus } from "../base/error-masking.ts";

interface GuardOptions {
  /** Whether introspection is allowed. If not, errors do not suggest names either. */
  readonly introspection: boolean;
}

/** Error of graphql-js if too many fields with the same response name have to be compared. */
const TOO_MANY_COMPARISONS = "Validation aborted.";
const DISABLED = "Introspection is disabled. Operators can print the schema with `ostler schema`.";
const REQUEST_FLAW = { spec: true, status: 400 };
const GATEWAY_TIMEOUT = 504;

/** All checks except time. Comes first, so that no other plugin sees a refused request. */
export function guards({ introspection }: GuardOptions): Plugin {
  const rules = [shapeRule, exactNumbersRule, ...(introspection ? [] : [noIntrospectionRule(DISABLED)])];
  return {
    onParse({ setParseFn }) {
      setParseFn((source: Parameters<typeof parseBounded>[0]) => {
        try {
          return parseBounded(source);
        } catch (error) {
          throw error instanceof GraphQLError && error.extensions["code"] === undefined
            ? flawed(error, "GRAPHQL_PARSE_FAILED")
            : error;
        }
      });
    },
    onValidate({ params, addValidationRule, setValidationFn }) {
      for (const rule of rules) addValidationRule(rule);
      setValidationFn(
        (
          schema: Parameters<typeof validate>[0],
          document: DocumentNode,
          given: readonly ValidationRule[] | undefined,
        ) => validate(schema, document, given, { hideSuggestions: !introspection }),
      );
      const named = namingFields(params.schema, introspection);
      return ({ valid, result, setResult }) => {
        // Validation errors bypass error masking, so their values are removed here.
        if (!valid)
          setResult(
            (result as readonly GraphQLError[]).map((error) =>
              error.message === TOO_MANY_COMPARISONS
                ? beyond("comparisons")
                : withStatus(shown(named(error)), REQUEST_FLAW),
            ),
          );
      };
    },
    onExecute({ args, setResultAndStopExecution }) {
      Object.assign(args, { hideSuggestions: !introspection });
      const { refusal, cost } = check(args);
      if (refusal) {
        setResultAndStopExecution({ errors: [refusal] });
        return undefined;
      }
      const named = namingFields(args.schema, introspection);
      return {
        onExecuteDone({ result, setResult }) {
          if (Symbol.asyncIterator in result) return;
          const { data, errors, extensions } = result;
          // Invalid variables: the whole request is refused, and nothing was executed.
          const unfit =
            data === undefined && errors
              ? {
                  errors: errors.map((error) =>
                    error.extensions["code"] === undefined ? flawed(named(error), "BAD_USER_INPUT") : error,
                  ),
                }
              : {};
          const counted = (args.contextValue as Partial<Context>).showsCost && {
            cost: { requested: cost, max: LIMITS.cost },
          };
          setResult({ ...result, ...unfit, ...(counted && { extensions: { ...extensions, ...counted } }) });
        },
      };
    },
    onSubscribe({ args, setResultAndStopExecution }) {
      Object.assign(args, { hideSuggestions: !introspection });
      const { refusal, cost } = check(args);
      Object.assign(args, { eventCost: cost });
      if (refusal) setResultAndStopExecution({ errors: [refusal] });
    },
  };
}

/** Part of the time of a query after which the database is asked whether it answers. */
const LAST_PART = 0.1;

/**
 * The time limit of a query. Comes last, so that it limits everything that executes. After the limit the error is
 * returned and no further resolver starts; running statements end by their own timeout. A mutation is never canceled:
 * it may have taken effect.
 */
export function timeLimit(ms = LIMITS.seconds * 1_000): Plugin<Context> {
  return {
    onExecute({ args, executeFn, setExecuteFn }) {
      if (getOperationAST(args.document, args.operationName)?.operation !== "query") return;
      setExecuteFn((given: ExecutionArgs) => {
        const cut = new AbortController();
        const answer: unknown = executeFn(Object.assign({ abortSignal: cut.signal }, given));
        if (!(answer instanceof Promise)) return answer;
        const { promise: late, resolve } = Promise.withResolvers<{ readonly errors: readonly GraphQLError[] }>();
        const { database } = args.contextValue.services;
        const end = async (wasAnswering: Promise<boolean>) => {
          const error = (await Promise.all([wasAnswering, database.isAnswering()])).every(Boolean)
            ? beyond("seconds", { status: GATEWAY_TIMEOUT })
            : databaseUnavailable();
          resolve({ errors: [error] });
          cut.abort(error);
        };
        // A database that hung until a moment ago is asked in time.
        let timer = setTimeout(
          () => {
            timer = setTimeout((asked) => void end(asked), ms * LAST_PART, database.isAnswering());
          },
          ms * (1 - LAST_PART),
        );
        // The promise that loses the race may still reject.
        answer.catch(() => {});
        return Promise.race([answer, late]).finally(() => clearTimeout(timer));
      });
    },
  };
}

/** Why a request must not be executed, if so, and its cost. */
export function check({
  document,
  operationName,
  variableValues,
  schema,
}: Pick<ExecutionArgs, "document" | "operationName" | "variableValues" | "schema">): {
  readonly refusal?: GraphQLError | undefined;
  readonly cost: number;
} {
  const operation = getOperationAST(document, operationName);
  if (!operation) return { refusal: unnamedOperation(document, operationName) ?? undefined, cost: 0 };
  const variables: Readonly<Record<string, unknown>> = variableValues ?? {};
  if (isDeeper(variables, LIMITS.nesting)) return { refusal: beyond("nesting"), cost: 0 };
  const requested = costOfKnown(schema, document, operation, variables);
  if (requested <= LIMITS.cost) return { cost: requested };
  return { refusal: beyond("cost", { requested, more: { cost: { requested, max: LIMITS.cost } } }), cost: requested };
}

/** The error if a request does not identify one operation of its document; null otherwise. */
export function unnamedOperation(
  document: DocumentNode,
  operationName: string | null | undefined,
): GraphQLError | null {
  if (getOperationAST(document, operationName)) return null;
  const message =
    operationName == null
      ? "The document has several operations; select one with `operationName`."
      : `The document has no operation ${JSON.stringify(operationName)}. Check \`operationName\`.`;
  return withStatus(new GraphQLError(message, { extensions: { code: "BAD_REQUEST" } }), REQUEST_FLAW);
}

const fixedCosts = new WeakMap<OperationDefinitionNode, number>();
const fragmentsKnown = new WeakMap<DocumentNode, Readonly<Record<string, FragmentDefinitionNode>>>();

/** The cost of an operation, cached if it has no variables. */
function costOfKnown(
  schema: ExecutionArgs["schema"],
  document: DocumentNode,
  operation: OperationDefinitionNode,
  variables: Readonly<Record<string, unknown>>,
): number {
  const known = fixedCosts.get(operation);
  if (known !== undefined) return known;
  const fragments =
    fragmentsKnown.get(document) ??
    Object.fromEntries(
      document.definitions
        .filter((one) => one.kind === Kind.FRAGMENT_DEFINITION)
        .map((fragment) => [fragment.name.value, fragment]),
    );
  fragmentsKnown.set(document, fragments);
  const cost = costOf({ schema, operation, fragments, variables });
  if ((operation.variableDefinitions ?? []).length === 0) fixedCosts.set(operation, cost);
  return cost;
}

/** Whether the objects and lists of a value are nested deeper than allowed. */
function isDeeper(value: unknown, allowed: number): boolean {
  if (value === null || typeof value !== "object") return false;
  return allowed === 0 || Object.values(value).some((member) => isDeeper(member, allowed - 1));
}

/** Fields that an error lists if none is like the unknown one. */
const FIELDS_MAX = 12;

/** Adds the fields of an input type to an error about one that it does not have, as graphql-js adds similar ones. */
function namingFields(schema: GraphQLSchema, isShown: boolean): (error: GraphQLError) => GraphQLError {
  return (error) => {
    const [, type = ""] = /Expected value of type "(\w+).* unknown field "\w+", found: /.exec(error.message) ?? [];
    const input = schema.getType(type);
    const fields = isInputObjectType(input) ? Object.keys(input.getFields()) : [];
    if (!isShown || fields.length === 0 || fields.length > FIELDS_MAX) return error;
    const suggestion = `Did you mean one of ${fields.map((field) => `"${field}"`).join(", ")}?`;
    return changed(error, { message: error.message.replace(", found: ", `. ${suggestion} Found: `) });
  };
}

/** An error of graphql-js that refuses the whole request, with a documented code. */
function flawed(error: GraphQLError, code: RequestErrorCode): GraphQLError {
  return withStatus(changed(error, { extensions: { ...error.extensions, code } }), REQUEST_FLAW);
}

function changed(
  error: GraphQLError,
  { message = error.message, extensions = error.extensions }: Partial<Pick<GraphQLError, "message" | "extensions">>,
): GraphQLError {
  const { nodes = null, source = null, positions = null, path = null, originalError = null } = error;
  return new GraphQLError(message, { nodes, source, positions, path, originalError, extensions });
}
