/** Numbers of nodes by state, in one line. */
import { numberText } from "../words/numbers.ts";
import { familyOf, sentenceCase } from "../words/states.ts";

export function NodeCounts({
  counts,
}: {
  readonly counts: readonly { readonly state: string; readonly count: number }[];
}) {
  if (counts.length === 0) return <span className="quiet">no nodes</span>;
  return (
    <span className="counts">
      {counts.map(({ state, count }) => (
        <span key={state} className="state" data-family={familyOf(state)}>
          {sentenceCase(state)} <b>{numberText(count)}</b>
        </span>
      ))}
    </span>
  );
}
