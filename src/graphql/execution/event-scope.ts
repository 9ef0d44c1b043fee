/** Which subscribers of an event can share one execution: the same document, operation, caller and variables. */
import { visit } from "graphql";
import type {
  ASTNode,
  FragmentDefinitionNode,
  OperationDefinitionNode,
  SelectionSetNode,
  ValidatedSubscriptionArgs,
} from "graphql";
import { accessKey } from "../../access/access.ts";
import type { Context } from "../base/context.ts";

/** Equal for two events of a field that look the same; null for an event of one subscriber only. */
export type EventKey<Event> = (event: Event) => string | null;

const documents = new WeakMap<
  OperationDefinitionNode,
  { readonly id: number; readonly variables: readonly string[] }
>();
let documentsSeen = 0;

/**
 * The key of a subscriber's group; null if there is none. An absent variable differs from null: it may have a default.
 */
export function scopeOf(args: ValidatedSubscriptionArgs, actor: Context["actor"]): string | null {
  const { coerced } = args.variableValues;
  let known = documents.get(args.operation);
  if (!known) {
    known = { id: (documentsSeen += 1), variables: variablesBelowRoot(args.operation, args.fragmentDefinitions) };
    documents.set(args.operation, known);
  }
  try {
    return JSON.stringify([
      known.id,
      accessKey(actor),
      known.variables.map((name) => (Object.hasOwn(coerced, name) ? [coerced[name]] : [])),
    ]);
  } catch {
    // JSON cannot represent a value.
    return null;
  }
}

/** Names of the variables that affect the content of events: all but those in arguments of the root field. */
export function variablesBelowRoot(
  operation: OperationDefinitionNode,
  fragments: Readonly<Record<string, FragmentDefinitionNode>>,
): readonly string[] {
  const names = new Set<string>();
  const seen = new Set<string>();
  const takeAll = (node: ASTNode): void => {
    visit(node, {
      Variable: ({ name }) => void names.add(name.value),
      FragmentSpread({ name }) {
        const fragment = fragments[name.value];
        if (fragment && !seen.has(name.value)) {
          seen.add(name.value);
          takeAll(fragment);
        }
      },
    });
  };
  const takeRoot = (set: SelectionSetNode): void => {
    for (const selection of set.selections) {
      selection.directives?.forEach(takeAll);
      if (selection.kind === "Field") {
        if (selection.selectionSet) takeAll(selection.selectionSet);
      } else {
        const inner =
          selection.kind === "InlineFragment" ? selection.selectionSet : fragments[selection.name.value]?.selectionSet;
        if (inner) takeRoot(inner);
      }
    }
  };
  takeRoot(operation.selectionSet);
  return [...names].toSorted();
}

/** The `eventKey` of the root field of a subscription; undefined if the field does not take part. */
export function eventKeyOf({
  schema,
  operation,
  fragmentDefinitions,
}: ValidatedSubscriptionArgs): EventKey<unknown> | undefined {
  const name = rootField(operation.selectionSet, fragmentDefinitions);
  return schema.getSubscriptionType()?.getFields()[name ?? ""]?.extensions["eventKey"] as EventKey<unknown> | undefined;
}

/** The name of the only root field of a subscription. */
function rootField(
  set: SelectionSetNode,
  fragments: Readonly<Record<string, FragmentDefinitionNode>>,
): string | undefined {
  for (const selection of set.selections) {
    if (selection.kind === "Field") return selection.name.value;
    const inner =
      selection.kind === "InlineFragment" ? selection.selectionSet : fragments[selection.name.value]?.selectionSet;
    const found = inner && rootField(inner, fragments);
    if (found !== undefined) return found;
  }
  return undefined;
}
