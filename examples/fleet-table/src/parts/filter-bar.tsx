/** The filters, with live counts: each menu counts what it would show, with the other filters applied. */
import { useChanges } from "ostler-client/react";
import { useCallback, useEffect, useState } from "react";
import { connection } from "../api/connection.ts";
import { LiveCountsDocument } from "../api/generated/graphql.ts";
import type { NodeCountField, NodeFilter, NodeState, PowerState } from "../api/generated/graphql.ts";
import { MARKS, NO_FILTERS, nodeFilterOf } from "../fleet/filters.ts";
import type { Filters, Mark } from "../fleet/filters.ts";
import { familyOf, sentenceCase } from "../fleet/states.ts";

interface FilterProps {
  readonly filters: Filters;
  readonly onChange: (filters: Filters) => void;
}

interface Count {
  readonly value: string | null;
  readonly nodes: number;
}

const TYPING_PAUSE_MS = 200;

export function FilterBar({ filters, onChange }: FilterProps) {
  const clusters = useCounts("CLUSTER", nodeFilterOf({ ...filters, cluster: "" }));
  const powers = useCounts("POWER", nodeFilterOf({ ...filters, power: "" }));
  const changeText = useCallback((text: string) => onChange({ ...filters, text }), [filters, onChange]);
  return (
    <form className="filters" role="search" onSubmit={(event) => event.preventDefault()}>
      <NameField value={filters.text} onChange={changeText} />
      <Menu
        label="Cluster"
        value={filters.cluster}
        options={clusters.counts}
        onChange={(cluster) => onChange({ ...filters, cluster })}
      />
      <Menu
        label="Power"
        value={filters.power}
        options={powers.counts}
        onChange={(power) => onChange({ ...filters, power: power as PowerState | "" })}
      />
      <Menu
        label="Mark"
        value={filters.mark}
        options={MARKS.map((value) => ({ value, nodes: null }))}
        onChange={(mark) => onChange({ ...filters, mark: mark as Mark | "" })}
      />
      {nodeFilterOf(filters) !== null && (
        <button type="button" onClick={() => onChange(NO_FILTERS)}>
          Clear
        </button>
      )}
    </form>
  );
}

/** One button for each state that occurs, with the number of its nodes. */
export function StateCounts({ filters, onChange }: FilterProps) {
  const { counts, total } = useCounts("STATE", nodeFilterOf({ ...filters, states: [] }));
  const toggle = (state: NodeState) =>
    onChange({
      ...filters,
      states: filters.states.includes(state)
        ? filters.states.filter((one) => one !== state)
        : [...filters.states, state],
    });
  const missing = filters.states.filter((state) => counts.every(({ value }) => value !== state));
  return (
    <div className="counts" role="group" aria-label="States">
      <span className="total">{total === null ? "…" : `${total.toLocaleString("en")} nodes`}</span>
      {[...counts, ...missing.map((value) => ({ value, nodes: 0 }))].map(({ value, nodes }) => {
        const state = value as NodeState;
        return (
          <button
            key={state}
            type="button"
            className="state"
            data-family={familyOf(state)}
            aria-pressed={filters.states.includes(state)}
            onClick={() => toggle(state)}
          >
            {sentenceCase(state)} <b>{nodes.toLocaleString("en")}</b>
          </button>
        );
      })}
    </div>
  );
}

/** Numbers of nodes by a field, as the service sends them: at most once a second, and only when they differ. */
function useCounts(field: NodeCountField, filter: NodeFilter | null) {
  const { value } = useChanges(connection, LiveCountsDocument, { filter, by: [{ field }] });
  const counts: Count[] = (value?.groups ?? []).map(({ values, nodeCount }) => ({
    value: values[0]?.value ?? null,
    nodes: nodeCount,
  }));
  return {
    counts: counts.toSorted((a, b) => ((a.value ?? "") < (b.value ?? "") ? -1 : 1)),
    total: value?.totalCount ?? null,
  };
}

interface MenuProps {
  readonly label: string;
  readonly value: string;
  readonly options: readonly { readonly value: string | null; readonly nodes: number | null }[];
  readonly onChange: (value: string) => void;
}

function Menu({ label, value, options, onChange }: MenuProps) {
  const named = options.flatMap((option) => (option.value === null ? [] : [{ ...option, value: option.value }]));
  return (
    <label>
      {label}
      <select value={value} onChange={(event) => onChange(event.target.value)}>
        <option value="">All</option>
        {named.map((option) => (
          <option key={option.value} value={option.value}>
            {option.value === option.value.toUpperCase() || option.nodes === null
              ? sentenceCase(option.value)
              : option.value}
            {option.nodes !== null && ` (${option.nodes.toLocaleString("en")})`}
          </option>
        ))}
        {value !== "" && named.every((option) => option.value !== value) && <option value={value}>{value}</option>}
      </select>
    </label>
  );
}

interface NameFieldProps {
  readonly value: string;
  /** The same function in every render: with another one the pause begins again, and rows can change all the time. */
  readonly onChange: (value: string) => void;
}

/** The service is asked when the typing pauses, not at each letter. */
function NameField({ value, onChange }: NameFieldProps) {
  const [typed, setTyped] = useState(value);
  useEffect(() => setTyped(value), [value]);
  useEffect(() => {
    if (typed === value) return;
    const timer = setTimeout(() => onChange(typed), TYPING_PAUSE_MS);
    return () => clearTimeout(timer);
  }, [typed, value, onChange]);
  return (
    <label>
      Name
      <input type="search" value={typed} placeholder="contains…" onChange={(event) => setTyped(event.target.value)} />
    </label>
  );
}
