/** Answers to requests for work, and about work, on nodes. */
import type { NodeState } from "../../lifecycle/node-states.ts";
import type { Refusal } from "../../errors.ts";
import type { Plan } from "../../store/records.ts";

/** The answer for one node of a request, in the order of the request. */
export interface NodeAnswer {
  readonly ref: string;
  readonly nodeId: string | null;
  readonly runId: string | null;
  readonly accepted: boolean;
  readonly refusal: Refusal | null;
  /** Further reasons why the node is refused. */
  readonly further?: readonly Refusal[];
  /** The steps that are, or in a dry run would be, performed; null for a refused node and for a replayed request. */
  readonly plan: Plan | null;
  /** State of the node after the plan. */
  readonly target?: NodeState | null;
}

export interface SubmitAnswer {
  /** Null if the request was refused, or was a dry run. */
  readonly operationId: string | null;
  readonly results: readonly NodeAnswer[];
  readonly refusals: readonly Refusal[];
  readonly replayed: boolean;
  /** Hash of the plans of all nodes: the same as long as nothing has changed that affects them. */
  readonly planHash?: string | null;
}

/** The request is refused as a whole; no node has an answer of its own. */
export function refuseRequest(refusals: readonly Refusal[]): SubmitAnswer & { readonly results: readonly never[] } {
  return { operationId: null, results: [], refusals, replayed: false };
}

export function acceptedNode(ref: string, nodeId: string, runId: string | null): NodeAnswer {
  return { ref, nodeId, runId, accepted: true, refusal: null, plan: null };
}

export function refusedNode(ref: string, nodeId: string, runId: string | null, refusal: Refusal): NodeAnswer {
  return { ref, nodeId, runId, accepted: false, refusal, plan: null };
}

/** The operation of a list of runs if all of them belong to the same one. */
export function commonOperation(runs: readonly { readonly operationId: string }[]): string | null {
  const [first, ...others] = new Set(runs.map(({ operationId }) => operationId));
  return others.length === 0 ? (first ?? null) : null;
}
