/** The root fields that a request executes. */
import { GraphQLIncludeDirective, GraphQLSkipDirective, getDirectiveValues } from "graphql";
import type { GraphQLResolveInfo, SelectionNode, SelectionSetNode } from "graphql";

type Executed = Pick<GraphQLResolveInfo, "operation" | "fragments" | "variableValues">;

/** Their names, in their order; those of aliases too. */
export function rootFieldsOf({ operation, fragments, variableValues }: Executed): string[] {
  const isExecuted = (node: SelectionNode) =>
    getDirectiveValues(GraphQLSkipDirective, node, variableValues)?.["if"] !== true &&
    getDirectiveValues(GraphQLIncludeDirective, node, variableValues)?.["if"] !== false;
  const namesOf = (set: SelectionSetNode | undefined): string[] =>
    (set?.selections ?? []).filter(isExecuted).flatMap((node) => {
      if (node.kind === "Field") return [node.name.value];
      return namesOf(node.kind === "InlineFragment" ? node.selectionSet : fragments[node.name.value]?.selectionSet);
    });
  return namesOf(operation.selectionSet);
}
