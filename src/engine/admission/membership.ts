/** The host groups of the nodes of a request, and what its work means for them. Pure. */
import { stagesOf } from "../../lifecycle/host-groups.ts";
import type { NodeState } from "../../lifecycle/node-states.ts";
import type { ClusterRow } from "../../store/nodes/clusters.ts";
import { groupKey } from "../../store/nodes/host-groups.ts";
import type { NodeRow } from "../../store/nodes/nodes.ts";
import type { Plan, TakesOut } from "../../store/records.ts";
import type { Submission } from "./submission.ts";

/** The host groups of an admitted node, and what its work means for them. */
export interface Membership {
  /** As in `runs`. */
  readonly groupKey: string | null;
  readonly budgetKey: string | null;
  readonly takesOut: TakesOut | null;
  /** The place of the group in the order of its cluster's. */
  readonly stage: number;
}

/** The memberships of nodes of these clusters. */
export function createMemberships(
  clusters: readonly ClusterRow[],
  { kind, options }: Submission,
): (node: NodeRow, plan: Plan, target: NodeState) => Membership {
  const byId = new Map(
    clusters.map(({ id, hostGroups }) => [id, { hostGroups, stages: stagesOf(hostGroups) }] as const),
  );
  return (node, plan, target) => {
    const deploys = movesState(plan) && target === "ACTIVE";
    const joins = options.hostGroup ?? node.hostGroup;
    const cluster = byId.get(node.clusterId ?? "");
    const isKnown = joins !== null && cluster !== undefined && Object.hasOwn(cluster.hostGroups, joins);
    const takesOut = node.state === "ACTIVE" ? takesOutOf(kind, options, plan, deploys) : null;
    return {
      groupKey: deploys && isKnown && node.clusterId !== null ? groupKey(node.clusterId, joins) : null,
      budgetKey:
        takesOut !== null && node.clusterId !== null && node.hostGroup !== null
          ? groupKey(node.clusterId, node.hostGroup)
          : null,
      takesOut,
      stage: (isKnown && cluster.stages.get(joins)) || 0,
    };
  };
}

/** Whether the plan changes the state of its node. */
export function movesState({ finish, legs }: Plan): boolean {
  return finish.length > 0 || legs.some(({ enter }) => enter.length > 0);
}

function takesOutOf(
  kind: Submission["kind"],
  { powerAction = "OFF" }: Submission["options"],
  plan: Plan,
  deploys: boolean,
): TakesOut | null {
  if (kind === "POWER") return powerAction === "ON" ? null : powerAction.endsWith("REBOOT") ? "RETURNS" : "STAYS";
  if (!movesState(plan)) return null;
  return deploys ? "RETURNS" : "STAYS";
}
