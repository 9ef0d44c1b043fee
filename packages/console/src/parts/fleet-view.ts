/** The fleet as the screens show it: its nodes in their places, and their number in each family and state. */
import { useDeferredValue, useMemo, useRef } from "react";
import { fleet, useStore } from "../data/streams.ts";
import type { NodeRow } from "../data/streams.ts";
import { FAMILIES, familyOf, nodeFamilyOf } from "../words/states.ts";
import type { Family } from "../words/states.ts";
import { isSameOrder, sectionsOf } from "./heat-map-layout.ts";
import type { MapSection } from "./heat-map-layout.ts";

export interface FleetView {
  readonly nodes: ReadonlyMap<string, NodeRow>;
  /** All nodes have been read. */
  readonly isWhole: boolean;
  readonly sections: readonly MapSection[];
  /** By state, those of a family together, the most frequent first. */
  readonly states: readonly (readonly [string, number])[];
  /** By cluster; its name is null for the nodes of none. */
  readonly families: ReadonlyMap<string | null, Readonly<Record<Family, number>>>;
}

export function useFleetView(): FleetView {
  // Under load React finishes what a person does before it renders changes.
  const { items: nodes, isWhole } = useDeferredValue(useStore(fleet));
  const placed = useRef<{ readonly nodes: ReadonlyMap<string, NodeRow>; readonly sections: readonly MapSection[] }>(
    null,
  );
  return useMemo(() => {
    const before = placed.current;
    const sections =
      before && isSameOrder(before.sections, before.nodes, nodes) ? before.sections : sectionsOf(nodes.values());
    placed.current = { nodes, sections };
    return { nodes, isWhole, sections, ...countsOf(nodes) };
  }, [nodes, isWhole]);
}

function countsOf(nodes: ReadonlyMap<string, NodeRow>): Pick<FleetView, "states" | "families"> {
  const states = new Map<string, number>();
  const families = new Map<string | null, Record<Family, number>>();
  for (const node of nodes.values()) {
    const { state, cluster } = node;
    states.set(state, (states.get(state) ?? 0) + 1);
    const name = cluster?.name ?? null;
    let counts = families.get(name);
    if (!counts) families.set(name, (counts = { failed: 0, working: 0, waiting: 0, active: 0, rest: 0, aside: 0 }));
    counts[nodeFamilyOf(node)] += 1;
  }
  const rank = (state: string) => FAMILIES.indexOf(familyOf(state));
  return { states: [...states].toSorted(([a, m], [b, n]) => rank(a) - rank(b) || n - m), families };
}
