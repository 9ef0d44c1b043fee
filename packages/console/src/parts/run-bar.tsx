/** The runs of an operation by state. A stopped operation has ended, and has reached nothing: so not one number. */
import { numberText } from "../words/numbers.ts";
import { RUN_ORDER, sentenceCase, workFamilyOf } from "../words/states.ts";

interface RunBarProps {
  readonly counts: readonly { readonly state: string; readonly count: number }[];
}

export function RunBar({ counts }: RunBarProps) {
  const ordered = counts
    .filter(({ count }) => count > 0)
    .toSorted((a, b) => RUN_ORDER.indexOf(a.state) - RUN_ORDER.indexOf(b.state));
  const label = ordered
    .map(({ state, count }) => `${numberText(count)} ${sentenceCase(state).toLowerCase()}`)
    .join(", ");
  return (
    <span className="bar" role="img" aria-label={label === "" ? "no runs" : label}>
      {ordered.map(({ state, count }) => (
        <span key={state} data-family={workFamilyOf(state)} data-state={state} style={{ flexGrow: count }} />
      ))}
    </span>
  );
}
