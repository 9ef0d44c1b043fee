/** Bounds on what one request may ask. For now its depth; cost and the rest belong to the same place. */
import { GraphQLError } from "graphql";
import type { ASTVisitor, FragmentDefinitionNode, SelectionSetNode, ValidationContext } from "graphql";

/** Fields below each other in one request. Introspection is not counted: it is bounded by the schema itself. */
export const DEPTH_MAX = 15;

/** A validation rule that refuses requests deeper than `DEPTH_MAX`. */
export function depthRule(context: ValidationContext): ASTVisitor {
  return {
    OperationDefinition(operation) {
      const depth = depthOf(operation.selectionSet, context, new Set());
      if (depth > DEPTH_MAX) {
        context.reportError(new GraphQLError(`The request is ${depth} fields deep; at most ${DEPTH_MAX} are allowed. Ask for the inner objects in a request of their own.`, { nodes: operation }));
      }
    },
  };
}

function depthOf(set: SelectionSetNode | undefined, context: ValidationContext, within: ReadonlySet<FragmentDefinitionNode>): number {
  let deepest = 0;
  for (const selection of set?.selections ?? []) {
    if (selection.kind === "Field") {
      if (!selection.name.value.startsWith("__")) deepest = Math.max(deepest, 1 + depthOf(selection.selectionSet, context, within));
    } else if (selection.kind === "InlineFragment") {
      deepest = Math.max(deepest, depthOf(selection.selectionSet, context, within));
    } else {
      const fragment = context.getFragment(selection.name.value);
      if (fragment && !within.has(fragment)) deepest = Math.max(deepest, depthOf(fragment.selectionSet, context, new Set([...within, fragment])));
    }
  }
  return deepest;
}
