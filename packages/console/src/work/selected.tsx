/** The number of selected nodes above a list, and the verbs on them. */
import { useMemo } from "react";
import type { ReactNode } from "react";
import { fleet, useStore } from "../data/streams.ts";
import { numberText, plural } from "../words/numbers.ts";
import { clearSelection } from "./selection.ts";
import { VerbBar } from "./verb-bar.tsx";

interface SelectedProps {
  readonly selected: ReadonlySet<string>;
  /** Of the list. */
  readonly items: ReadonlyMap<string, { readonly name: string }>;
  /** As in `2 not in this filter`. */
  readonly where: string;
  readonly children?: ReactNode;
}

export function Selected({ selected, items, where, children }: SelectedProps) {
  const { items: nodes, isWhole } = useStore(fleet);
  const ids = useMemo(() => [...selected].filter((id) => !isWhole || nodes.has(id)), [selected, nodes, isWhole]);
  if (selected.size === 0) return null;
  const deleted = selected.size - ids.length;
  const outside = ids.filter((id) => !items.has(id)).length;
  const [first] = ids;
  const only = ids.length === 1 && first !== undefined ? items.get(first)?.name : undefined;
  return (
    <div className="selected">
      <p role="status">
        <b>{numberText(ids.length)} selected</b>
        {outside > 0 && ` (${numberText(outside)} not in this ${where})`}
        {deleted > 0 && `, ${numberText(deleted)} deleted meanwhile`}{" "}
        <button type="button" onClick={clearSelection}>
          Clear the selection
        </button>{" "}
        {children}
      </p>
      <VerbBar target={{ ids, object: only ?? plural(ids.length, "node") }} verdicts={null} />
    </div>
  );
}
