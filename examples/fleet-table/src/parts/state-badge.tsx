import type { NodeState } from "../api/generated/graphql.ts";
import { familyOf, sentenceCase } from "../fleet/states.ts";

export function StateBadge({ state }: { readonly state: NodeState }) {
  return (
    <span className="state" data-family={familyOf(state)}>
      {sentenceCase(state)}
    </span>
  );
}
