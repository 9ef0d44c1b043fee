/**
 * Transitions between the states of a cluster, derived like the states themselves: simulates every operation on every
 * cluster of one or two nodes at rest, from each reachable state and stage and with each possible end on each node, and
 * records the cluster's state before, during and after.
 */
import { CLUSTER_STATES, clusterState } from "../../src/lifecycle/cluster-state.ts";
import type { ClusterState, Stage } from "../../src/lifecycle/cluster-state.ts";
import { edge, follow, isAtRest } from "../../src/lifecycle/machine.ts";
import type { NodeState } from "../../src/lifecycle/node-states.ts";
import { NODE_VERBS, route } from "../../src/lifecycle/verbs.ts";
import type { OperationKind, Route } from "../../src/lifecycle/verbs.ts";

/** Cause of a transition; the worst result on one of the nodes names the end of an operation. */
type Cause = "work begins" | "stop or abort" | "done" | "failed" | "stopped";

export interface ClusterMove {
  readonly from: ClusterState;
  readonly event: Cause;
  readonly to: ClusterState;
}

interface Resting {
  readonly state: NodeState;
  readonly stage: Stage;
}

interface Ending extends Resting {
  readonly cause: "done" | "failed" | "stopped";
}

const BY_SEVERITY = ["done", "stopped", "failed"] as const;

export function clusterMoves(): readonly ClusterMove[] {
  const resting = restingNodes();
  const clusters = resting.flatMap((one) => [[one], ...resting.map((other) => [one, other])]);
  const moves = new Map<string, ClusterMove>();
  const note = (from: ClusterState, event: Cause, to: ClusterState) => {
    if (from !== to) moves.set(`${from} ${event} ${to}`, { from, event, to });
  };
  for (const kind of NODE_VERBS) {
    for (const nodes of clusters) {
      const ends = nodes.map((node) => endings(kind, node));
      if (ends.every((some) => some.length === 0)) continue;
      const before = clusterState({ nodes, work: [] });
      const during = clusterState({ nodes, work: [{ kind, stopping: false }] });
      const stopping = clusterState({ nodes, work: [{ kind, stopping: true }] });
      note(before, "work begins", during);
      note(during, "stop or abort", stopping);
      // A node in a state that does not allow the verb is not part of the operation and does not change.
      for (const ended of combinations(
        nodes.map((node, index) => (ends[index]?.length ? ends[index] : [{ ...node, cause: "done" }])),
      )) {
        const cause = BY_SEVERITY.findLast((one) => ended.some((node) => node.cause === one)) ?? "done";
        const after = clusterState({ nodes: ended, work: [] });
        if (cause !== "stopped") note(during, cause, after);
        note(stopping, cause, after);
      }
    }
  }
  const order = Object.keys(CLUSTER_STATES);
  return [...moves.values()].toSorted(
    (a, b) => order.indexOf(a.from) - order.indexOf(b.from) || order.indexOf(a.to) - order.indexOf(b.to),
  );
}

/** All combinations with one item of each list. */
function combinations(lists: readonly (readonly Ending[])[]): readonly (readonly Ending[])[] {
  return lists.reduce<readonly (readonly Ending[])[]>(
    (all, list) => all.flatMap((chosen) => list.map((one) => [...chosen, one])),
    [[]],
  );
}

/** Reachable states and stages in which a registered node can be at rest. */
function restingNodes(): readonly Resting[] {
  const found = new Map<string, Resting>([["ENROLLED NONE", { state: "ENROLLED", stage: "NONE" }]]);
  for (const node of found.values()) {
    for (const kind of NODE_VERBS) {
      for (const { state, stage } of endings(kind, node))
        if (isAtRest(state)) found.set(`${state} ${stage}`, { state, stage });
    }
  }
  return [...found.values()];
}

/** Possible ends of an operation on a node; empty if it may not begin or does not change the node's state. */
function endings(kind: OperationKind, node: Resting): readonly Ending[] {
  const ways = [
    route(kind, node.state),
    ...(kind === "COMMISSION" ? [route(kind, node.state, { until: "AVAILABLE" })] : []),
  ];
  return ways.flatMap((way) =>
    way && (way.finish.length > 0 || way.legs.some(({ enter }) => enter.length > 0)) ? endingsOf(way, node) : [],
  );
}

function endingsOf({ legs, finish, bestEffort }: Route, node: Resting): readonly Ending[] {
  let { state, stage } = node;
  const ends: Ending[] = [];
  for (const { phase, enter } of legs) {
    state = follow(state, enter);
    if (phase !== "verify" && phase !== "inspect" && phase !== "power") stage = "NONE";
    for (const reached of phase === "deploy" ? (["NONE", "PROVISIONED"] as const) : [stage]) {
      const failed = edge(state, "fail")?.to;
      const stopped = edge(state, "stop")?.to;
      if (failed && !bestEffort) ends.push({ state: failed, stage: reached, cause: "failed" });
      if (stopped) ends.push({ state: stopped, stage: reached, cause: "stopped" });
    }
  }
  const end = follow(state, finish);
  return [...ends, { state: end, stage: end === "ACTIVE" ? "DEPLOYED" : stage, cause: "done" }];
}
