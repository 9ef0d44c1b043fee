/** The ways of verbs through the states of a node, as tables and as diagrams: what lifecycle/verbs.ts answers, printed. */
import { edge, follow } from "../../src/lifecycle/machine.ts";
import { NODE_STATE_NAMES } from "../../src/lifecycle/node-states.ts";
import type { NodeState } from "../../src/lifecycle/node-states.ts";
import { NODE_VERBS, route } from "../../src/lifecycle/verbs.ts";
import type { OperationKind, Route, RouteOptions } from "../../src/lifecycle/verbs.ts";
import { arrows, code, codes, grouped, stateDiagram, table } from "./markdown.ts";

export interface VerbCase {
  readonly kind: OperationKind;
  readonly label: string;
  readonly options: RouteOptions;
}

/** Each verb as it may be asked; a case whose label is the kind alone is the ordinary one. */
export function verbCases(): readonly VerbCase[] {
  const special: Partial<Record<OperationKind, readonly Omit<VerbCase, "kind">[]>> = {
    INSPECT: [{ label: "", options: { inspectsWithoutReboot: true } }],
    CLEAN: [
      { label: "automatic steps", options: {} },
      { label: "steps by name", options: { manualCleaning: true } },
    ],
    COMMISSION: [
      { label: "until ACTIVE", options: { until: "ACTIVE" } },
      { label: "until AVAILABLE", options: { until: "AVAILABLE" } },
    ],
  };
  return NODE_VERBS.flatMap((kind) => (special[kind] ?? [{ label: "", options: {} }]).map((one) => ({ kind, ...one })));
}

export function verbTable(): string {
  const rows = verbCases().flatMap(({ kind, label, options }) =>
    routeRows((state) => route(kind, state, options)).map((cells) => [
      `${code(kind)}${label === "" ? "" : `, ${label}`}`,
      ...cells,
    ]),
  );
  return table(["verb", "from", "phases", "ends"], rows);
}

/** Rows of from, phases, end: states on the same way share one. */
export function routeRows(routeOf: (state: NodeState) => Route | null): readonly (readonly string[])[] {
  const ways = NODE_STATE_NAMES.flatMap((state) => {
    const found = routeOf(state);
    if (!found) return [];
    const phases =
      found.legs.map(({ phase, enter }) => (enter.length === 0 ? `(${phase})` : phase)).join(" → ") || "none";
    return [
      { state, phases, end: found.target === state && found.finish.length === 0 ? "where it was" : code(found.target) },
    ];
  });
  return grouped(ways, ({ phases, end }) => `${phases} ${end}`).map((group) => [
    codes(group.map(({ state }) => state)),
    group[0].phases,
    group[0].end,
  ]);
}

/** The table of one verb, without its name. */
export function waysOf(kind: OperationKind): string {
  const cases = verbCases().filter((one) => one.kind === kind);
  const rows = cases.flatMap(({ label, options }) =>
    routeRows((state) => route(kind, state, options)).map((cells) => (cases.length > 1 ? [label, ...cells] : cells)),
  );
  return table([...(cases.length > 1 ? ["asked"] : []), "from", "phases", "ends"], rows);
}

/** The way of one verb from every state that it may begin in, with what takes a node off it. */
export function diagramOf(kind: OperationKind): string {
  const ways = verbCases()
    .filter((one) => one.kind === kind)
    .flatMap(({ options }) => NODE_STATE_NAMES.flatMap((state) => arrowsOf(state, route(kind, state, options))));
  return stateDiagram(arrows(ways));
}

interface Arrow {
  readonly from: NodeState;
  readonly event: string;
  readonly to: NodeState;
}

function arrowsOf(start: NodeState, way: Route | null): readonly Arrow[] {
  if (!way) return [];
  let at = start;
  const drawn: Arrow[] = [];
  const go = (event: Parameters<typeof edge>[1]) => {
    const to = follow(at, [event]);
    drawn.push({ from: at, event, to });
    at = to;
  };
  for (const { phase, enter } of way.legs) {
    enter.forEach(go);
    if (enter.length === 0) drawn.push({ from: at, event: `${phase}, in place`, to: at });
    for (const event of way.bestEffort ? (["abort", "stop"] as const) : (["fail", "abort", "stop"] as const)) {
      const setback = edge(at, event);
      if (setback) drawn.push({ from: at, event, to: setback.to });
    }
  }
  way.finish.forEach(go);
  if (way.legs.length === 0 && way.finish.length === 0) drawn.push({ from: start, event: "nothing to do", to: start });
  return drawn;
}
