/** Routes of verbs through the states of a node, from lifecycle/verbs.ts, as tables and diagrams. */
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

/** Each verb with the options that change its route; an empty label marks the default. */
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
      { label: "of a node at stage PROVISIONED", options: { keepsSystem: true } },
    ],
    DEPLOY: [
      { label: "", options: {} },
      { label: "with `reinstall: true`", options: { reinstall: true } },
    ],
  };
  return NODE_VERBS.flatMap((kind) => (special[kind] ?? [{ label: "", options: {} }]).map((one) => ({ kind, ...one })));
}

/** Rows of from, phases, end. States with the same route share a row. */
export function routeRows(routeOf: (state: NodeState) => Route | null): readonly (readonly string[])[] {
  const routes = NODE_STATE_NAMES.flatMap((state) => {
    const found = routeOf(state);
    if (!found) return [];
    const phases =
      found.legs.map(({ phase, enter }) => (enter.length === 0 ? `(${phase})` : phase)).join(" → ") || "none";
    return [
      {
        state,
        phases,
        end: found.target === state && found.finish.length === 0 ? "in its previous state" : code(found.target),
      },
    ];
  });
  return grouped(routes, ({ phases, end }) => `${phases} ${end}`).map((group) => [
    codes(group.map(({ state }) => state)),
    group[0].phases,
    group[0].end,
  ]);
}

/** The routes of one verb, without the column for its name. */
export function routesOf(kind: OperationKind): string {
  const cases = verbCases().filter((one) => one.kind === kind);
  const rows = cases.flatMap(({ label, options }) =>
    routeRows((state) => route(kind, state, options)).map((cells) => (cases.length > 1 ? [label, ...cells] : cells)),
  );
  return table([...(cases.length > 1 ? ["request"] : []), "from", "phases", "ends"], rows);
}

/** The routes of one verb, with failures, aborts and stops; empty if the verb changes no state. */
export function diagramOf(kind: OperationKind): readonly string[] {
  const routes = verbCases()
    .filter((one) => one.kind === kind)
    .flatMap(({ options }) => NODE_STATE_NAMES.flatMap((state) => arrowsOfRoute(state, route(kind, state, options))));
  return routes.some(({ from, to }) => from !== to) ? [stateDiagram(arrows(routes))] : [];
}

interface Arrow {
  readonly from: NodeState;
  readonly event: string;
  readonly to: NodeState;
}

function arrowsOfRoute(start: NodeState, taken: Route | null): readonly Arrow[] {
  if (!taken) return [];
  let at = start;
  const drawn: Arrow[] = [];
  const go = (event: Parameters<typeof edge>[1]) => {
    const to = follow(at, [event]);
    drawn.push({ from: at, event, to });
    at = to;
  };
  for (const { phase, enter } of taken.legs) {
    enter.forEach(go);
    if (enter.length === 0) drawn.push({ from: at, event: `${phase}, in place`, to: at });
    for (const event of taken.bestEffort ? (["abort", "stop"] as const) : (["fail", "abort", "stop"] as const)) {
      const setback = edge(at, event);
      if (setback) drawn.push({ from: at, event, to: setback.to });
    }
  }
  taken.finish.forEach(go);
  if (taken.legs.length === 0 && taken.finish.length === 0)
    drawn.push({ from: start, event: "nothing to do", to: start });
  return drawn;
}
