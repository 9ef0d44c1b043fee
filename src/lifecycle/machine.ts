/** Queries on the table of node-states.ts: edges, next states, and kinds of states. */
import { NODE_EDGES, NODE_STATES, NODE_STATE_NAMES } from "./node-states.ts";
import type { Edge, NodeEvent, NodeState, StateKind } from "./node-states.ts";

const EDGES_BY_STATE = new Map<NodeState, ReadonlyMap<NodeEvent, Edge>>(
  NODE_STATE_NAMES.map((state) => [
    state,
    new Map(NODE_EDGES.filter(({ from }) => from === state).map((row) => [row.event, row])),
  ]),
);

/** The edge of `event` from `state`; undefined if there is none, which makes the event illegal. */
export function edge(state: NodeState, event: NodeEvent): Edge | undefined {
  return EDGES_BY_STATE.get(state)?.get(event);
}

/** The state after `event`. Throws for an illegal edge; callers check with `edge` if that can happen. */
export function next(state: NodeState, event: NodeEvent): NodeState {
  const found = edge(state, event);
  if (!found) throw new Error(`Illegal transition: no edge "${event}" leads from ${state}.`);
  return found.to;
}

/** The state after a list of events. Throws if one of them is illegal. */
export function follow(state: NodeState, events: readonly NodeEvent[]): NodeState {
  return events.reduce(next, state);
}

export function kindOf(state: NodeState): StateKind {
  return NODE_STATES[state].kind;
}

/** Whether no work is going on: stable or failed. */
export function isAtRest(state: NodeState): boolean {
  const kind = kindOf(state);
  return kind === "stable" || kind === "failed";
}

export const STATES_AT_REST: readonly NodeState[] = NODE_STATE_NAMES.filter(isAtRest);
