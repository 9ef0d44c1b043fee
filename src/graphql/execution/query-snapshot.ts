/**
 * A Yoga plugin: all reads of a query see one moment of the database, so that a node and its run, or a list and its
 * count, fit together. So do the reads of a mutation's payload, after the work of its root field; the payload of each
 * root field has its own moment.
 *
 * A root field with the extension `waits` waits for other parts of the service. A request that selects one reads
 * without a snapshot, which would hold a connection meanwhile. The cursor of its lists (`asOf`) is read before
 * everything else: a cursor that is older than a list repeats changes, and one that is newer would skip some.
 */
import { Kind, OperationTypeNode, getOperationAST, visit } from "graphql";
import type { DocumentNode, ExecutionArgs, GraphQLObjectType } from "graphql";
import type { Plugin } from "graphql-yoga";
import DataLoader from "dataloader";
import { lazily } from "../base/batching.ts";
import type { Context } from "../base/context.ts";
import { createLoaders } from "../base/loaders.ts";
import { listPlan } from "./json-list-rewrite.ts";
import { createMoment } from "./moment.ts";
import type { Moment } from "./moment.ts";

/**
 * Comes before `jsonLists`, whose document it executes, and before the time limit, whose signal closes the snapshot.
 */
export function snapshotQueries(): Plugin<Context> {
  return {
    onExecute({ args, executeFn, setExecuteFn }) {
      const operation = getOperationAST(args.document, args.operationName);
      const root = args.schema.getQueryType();
      if (!operation || !root || operation.operation === OperationTypeNode.SUBSCRIPTION) return;
      if (!waits(root, args.document)) {
        const executeBound = operation.operation === OperationTypeNode.MUTATION ? executeMutation : executeQuery;
        setExecuteFn((given: ExecutionArgs) => executeBound(executeFn, given));
      } else if (selects(args.document, (name) => name === "asOf"))
        setExecuteFn((given: ExecutionArgs) => executeAfterCursor(executeFn, given));
    },
  };
}

/** Whether all that the operation reads is one list that the database writes as JSON text. */
function isOneStatement({ document, operationName }: ExecutionArgs): boolean {
  const [field, ...others] = getOperationAST(document, operationName)?.selectionSet.selections ?? [];
  const plan = field?.kind === Kind.FIELD && others.length === 0 ? listPlan({ fieldNodes: [field] }) : undefined;
  return plan !== undefined && [plan.page, plan.totalCount, plan.asOf].filter(Boolean).length <= 1;
}

function executeQuery(executeFn: (given: ExecutionArgs) => unknown, given: ExecutionArgs): unknown {
  if (isOneStatement(given)) return executeFn(given);
  const context = given.contextValue as Context;
  const { bound, close } = createMoment(context.services);
  // After the time limit the execution may never end, as it waits for its running statements.
  given.abortSignal?.addEventListener("abort", close, { once: true });
  const answer = executeFn({ ...given, contextValue: { ...context, ...bound } });
  if (answer instanceof Promise) return answer.finally(close);
  close();
  return answer;
}

async function executeAfterCursor(
  executeFn: (given: ExecutionArgs) => unknown,
  given: ExecutionArgs,
): Promise<unknown> {
  const context = given.contextValue as Context;
  const cursor = await context.load.asOf.load("now");
  const asOf = new DataLoader<"now", string>(async (asked) => asked.map(() => cursor), { cache: false });
  const load = lazily(() => ({ ...createLoaders(context.services.database), asOf }));
  return executeFn({ ...given, contextValue: { ...context, load } });
}

function executeMutation(executeFn: (given: ExecutionArgs) => unknown, given: ExecutionArgs): unknown {
  const unbound = given.contextValue as Context;
  let moment: Moment | null = null;
  const beginWork = () => {
    moment?.close();
    moment = null;
    const { services, load } = unbound;
    Object.assign(contextValue, { services, load });
  };
  const endWork = () => {
    moment = createMoment(unbound.services);
    Object.assign(contextValue, moment.bound);
  };
  const contextValue: Context = { ...unbound, payloads: { beginWork, endWork } };
  const answer = executeFn({ ...given, contextValue });
  if (answer instanceof Promise) return answer.finally(beginWork);
  beginWork();
  return answer;
}

/** Separates the work of each root field of a mutation from the reads of its payload. */
export function separatePayloads(mutation: GraphQLObjectType): void {
  for (const field of Object.values(mutation.getFields())) {
    const { resolve } = field;
    if (!resolve) continue;
    field.resolve = async (source, args, context: Context, info) => {
      context.payloads?.beginWork();
      const payload: unknown = await resolve(source, args, context, info);
      context.payloads?.endWork();
      return payload;
    };
  }
}

/**
 * Whether a field of the document has the name of a root field that waits, whatever its directives say: a payload may
 * select the root query.
 */
function waits(root: GraphQLObjectType, document: DocumentNode): boolean {
  const fields = root.getFields();
  return selects(document, (name) => fields[name]?.extensions["waits"] === true);
}

function selects(document: DocumentNode, isOne: (name: string) => boolean): boolean {
  let isFound = false;
  visit(document, {
    Field({ name }) {
      if (isOne(name.value)) isFound = true;
    },
  });
  return isFound;
}
