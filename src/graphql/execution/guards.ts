/**
 * The guards of a request, as plugins: whoever parses, validates and executes through Yoga's `getEnveloped` is guarded,
 * over HTTP, server-sent events and WebSocket alike. They stand in the order of what they cost: tokens and brackets before
 * parsing, shape and introspection with validation, values and cost before execution, time during it.
 */
import { GraphQLError, Kind, getOperationAST, validate } from "graphql";
import type {
  DocumentNode,
  ExecutionArgs,
  FragmentDefinitionNode,
  OperationDefinitionNode,
  ValidationRule,
} from "graphql";
import type { Plugin } from "graphql-yoga";
import type { RequestErrorCode } from "../../errors.ts";
import { costOf } from "./cost.ts";
import { introspectionAliasRule, noIntrospectionRule, parseBounded, shapeRule } from "./document.ts";
import { LIMITS, beyond } from "../base/request-limits.ts";
import { shown, withStatus } from "../base/error-masking.ts";

export interface GuardOptions {
  /** Whether callers may ask what the schema is. Otherwise errors suggest no names either. */
  readonly introspection: boolean;
}

/** What graphql-js says when fields that answer under one name are too many to compare. */
const TOO_MANY_COMPARISONS = "Validation aborted.";
const REQUEST_FLAW = { spec: true, status: 400 };
const GATEWAY_TIMEOUT = 504;

/** Everything but time. Comes first: what it refuses no other plugin need look at. */
export function guards({ introspection }: GuardOptions): Plugin {
  const rules = introspection ? [shapeRule, introspectionAliasRule] : [shapeRule, noIntrospectionRule];
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
    onValidate({ addValidationRule, setValidationFn }) {
      for (const rule of rules) addValidationRule(rule);
      setValidationFn(
        (
          schema: Parameters<typeof validate>[0],
          document: DocumentNode,
          given: readonly ValidationRule[] | undefined,
        ) => validate(schema, document, given, { hideSuggestions: !introspection }),
      );
      return ({ valid, result, setResult }) => {
        // What validation refuses goes round the masking of errors, so values are taken out here.
        if (!valid)
          setResult(
            (result as readonly GraphQLError[]).map((error) =>
              error.message === TOO_MANY_COMPARISONS ? beyond("comparisons") : withStatus(shown(error), REQUEST_FLAW),
            ),
          );
      };
    },
    onExecute({ args, setResultAndStopExecution }) {
      Object.assign(args, { hideSuggestions: !introspection });
      const { refusal, cost } = judge(args);
      if (refusal) {
        setResultAndStopExecution({ errors: [refusal] });
        return undefined;
      }
      return {
        onExecuteDone({ result, setResult }) {
          if (Symbol.asyncIterator in result) return;
          const { data, errors, extensions } = result;
          // Variables that do not fit their types: the request is at fault as a whole, and nothing was executed.
          const unfit =
            data === undefined && errors
              ? {
                  errors: errors.map((error) =>
                    error.extensions["code"] === undefined ? flawed(error, "BAD_USER_INPUT") : error,
                  ),
                }
              : {};
          setResult({
            ...result,
            ...unfit,
            extensions: { ...extensions, cost: { requested: cost, max: LIMITS.cost } },
          });
        },
      };
    },
    onSubscribe({ args, setResultAndStopExecution }) {
      Object.assign(args, { hideSuggestions: !introspection });
      const { refusal } = judge(args);
      if (refusal) setResultAndStopExecution({ errors: [refusal] });
    },
  };
}

/**
 * The time that a query may take. Comes last, so that it bounds whatever executes. Past it the answer is given and no
 * resolver begins any more; what the database is at then ends by the time-out of its own statements. A mutation is never
 * cut: it may have been done.
 */
export function timeLimit(ms = LIMITS.seconds * 1_000): Plugin {
  return {
    onExecute({ args, executeFn, setExecuteFn }) {
      if (getOperationAST(args.document, args.operationName)?.operation !== "query") return;
      setExecuteFn((given: ExecutionArgs) => {
        const cut = new AbortController();
        // A word of Yoga's executor, which graphql-js does not have.
        const answer: unknown = executeFn(Object.assign({ signal: cut.signal }, given));
        if (!(answer instanceof Promise)) return answer;
        const { promise: late, resolve } = Promise.withResolvers<{ readonly errors: readonly GraphQLError[] }>();
        const timer = setTimeout(() => {
          const error = beyond("seconds", { status: GATEWAY_TIMEOUT });
          resolve({ errors: [error] });
          cut.abort(error);
        }, ms);
        // Whoever loses the race may still fail.
        answer.catch(() => {});
        return Promise.race([answer, late]).finally(() => clearTimeout(timer));
      });
    },
  };
}

/** What is refused of a request that is about to be executed, and what it costs. */
function judge({ document, operationName, variableValues, schema }: ExecutionArgs): {
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

/** Why it cannot be said which operation of a document is meant; null where it can. */
export function unnamedOperation(
  document: DocumentNode,
  operationName: string | null | undefined,
): GraphQLError | null {
  if (getOperationAST(document, operationName)) return null;
  const message =
    operationName == null
      ? "The document has several operations; say which with `operationName`."
      : `The document has no operation ${JSON.stringify(operationName)}.`;
  return withStatus(new GraphQLError(message, { extensions: { code: "BAD_REQUEST" } }), REQUEST_FLAW);
}

const fixedCosts = new WeakMap<OperationDefinitionNode, number>();
const fragmentsKnown = new WeakMap<DocumentNode, Readonly<Record<string, FragmentDefinitionNode>>>();

/** The cost, counted once for an operation that has no variables. */
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

/** Whether a value has more objects and lists within each other than are allowed. Looks no deeper than that. */
function isDeeper(value: unknown, allowed: number): boolean {
  if (value === null || typeof value !== "object") return false;
  return allowed === 0 || Object.values(value).some((member) => isDeeper(member, allowed - 1));
}

/** An error of graphql-js with a code of ours, that the request as a whole is refused with. */
function flawed(error: GraphQLError, code: RequestErrorCode): GraphQLError {
  const { nodes = null, source = null, positions = null, path = null, originalError = null } = error;
  return withStatus(
    new GraphQLError(error.message, {
      nodes,
      source,
      positions,
      path,
      originalError,
      extensions: { ...error.extensions, code },
    }),
    REQUEST_FLAW,
  );
}
