/**
 * A Yoga plugin: all reads of a query see one moment of the database, so that a node and its run, or a list and its
 * count, fit together.
 *
 * A root field with the extension `waits` waits for other parts of the service. A query that selects one reads without
 * a snapshot, which would hold a connection meanwhile.
 */
import { Kind, getOperationAST } from "graphql";
import type {
  DocumentNode,
  ExecutionArgs,
  GraphQLObjectType,
  OperationDefinitionNode,
  SelectionSetNode,
} from "graphql";
import type { Plugin } from "graphql-yoga";
import { ofSnapshot } from "../base/context.ts";
import type { Context } from "../base/context.ts";
import { listPlan } from "./json-list-rewrite.ts";

/**
 * Comes before `jsonLists`, whose document it executes, and before the time limit, whose signal closes the snapshot.
 */
export function snapshotQueries(): Plugin<Context> {
  return {
    onExecute({ args, executeFn, setExecuteFn }) {
      const operation = getOperationAST(args.document, args.operationName);
      const root = args.schema.getQueryType();
      if (operation?.operation !== "query" || !root || waits(root, operation, args.document)) return;
      setExecuteFn((given: ExecutionArgs) => (isOneStatement(given) ? executeFn(given) : execute(executeFn, given)));
    },
  };
}

/** Whether all that the operation reads is one list that the database writes as JSON text. */
function isOneStatement({ document, operationName }: ExecutionArgs): boolean {
  const [field, ...others] = getOperationAST(document, operationName)?.selectionSet.selections ?? [];
  const plan = field?.kind === Kind.FIELD && others.length === 0 ? listPlan({ fieldNodes: [field] }) : undefined;
  return plan !== undefined && !(plan.page && plan.totalCount);
}

function execute(executeFn: (given: ExecutionArgs) => unknown, given: ExecutionArgs): unknown {
  const context = given.contextValue as Context;
  const { reader, close } = context.services.database.lazySnapshot();
  // After the time limit the execution may never end, as it waits for its running statements.
  given.abortSignal?.addEventListener("abort", close, { once: true });
  const answer = executeFn({ ...given, contextValue: ofSnapshot(context, reader) });
  if (answer instanceof Promise) return answer.finally(close);
  close();
  return answer;
}

/** Whether the operation selects a root field that waits, whatever its directives say; unused fragments count. */
function waits(root: GraphQLObjectType, operation: OperationDefinitionNode, { definitions }: DocumentNode): boolean {
  const fields = root.getFields();
  const waitsIn = ({ selections }: SelectionSetNode): boolean =>
    selections.some((selection) => {
      if (selection.kind === Kind.FIELD) return fields[selection.name.value]?.extensions["waits"] === true;
      return selection.kind === Kind.INLINE_FRAGMENT && waitsIn(selection.selectionSet);
    });
  return definitions.some(
    (one) =>
      (one === operation || (one.kind === Kind.FRAGMENT_DEFINITION && one.typeCondition.name.value === root.name)) &&
      waitsIn(one.selectionSet),
  );
}
