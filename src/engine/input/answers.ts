/** Answers to requests for work, and about work, on nodes. */
import type { Forecast } from "../../lifecycle/forecast.ts";
import type { Unmet } from "../../lifecycle/host-groups.ts";
import type { PowerOnFailure } from "../../lifecycle/interrupts.ts";
import type { NodeState } from "../../lifecycle/node-states.ts";
import type { RootDisk } from "../../lifecycle/root-disk.ts";
import type { FailurePolicy } from "../../lifecycle/operation-states.ts";
import type { OperationKind } from "../../lifecycle/verbs.ts";
import type { WaveOptions } from "../../lifecycle/waves.ts";
import type { Refusal } from "../../errors.ts";
import { groupsOf } from "../../runtime/groups.ts";
import type { NodeRow } from "../../store/nodes/nodes.ts";
import type { Plan } from "../../store/records.ts";
import type { VariableWarning } from "./unknown-variables.ts";
import { listed } from "./name-rules.ts";
import type { EffectiveVariable } from "./variables.ts";

/** The effect of a refused node on the request as a whole, before any work starts. */
export const ACCEPTANCES = {
  ALL_OR_NOTHING: "Refuse the whole request if one node is refused.",
  BEST_EFFORT: "Start on the nodes that are accepted.",
} as const;
export type Acceptance = keyof typeof ACCEPTANCES;

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
  /** Whether the plan changes the disks of a node that may hold data; null without a plan. */
  readonly erasesData?: boolean | null;
  /** Power of the node after a failure; null without a plan, and if a failure never changes it. */
  readonly powerOnFailure?: PowerOnFailure | null;
  /** Variables that the drivers get, by name; absent without a plan. */
  readonly variables?: readonly EffectiveVariable[];
  /** Variables that no driver of the node reads; absent without a plan. */
  readonly warnings?: readonly VariableWarning[];
  /** The image that the plan installs; null if it installs none. */
  readonly imageId?: string | null;
  /** The disk on which the plan installs it; null if it is not known, and absent without a plan. */
  readonly rootDisk?: RootDisk | null;
  /** Why a cluster wants work on the node, as in `new`; null or absent if it wants none. */
  readonly reason?: string | null;
  /** State of the node after the plan. */
  readonly target?: NodeState | null;
  /** The node as admission read it; absent if it does not exist, and without a plan of its own. */
  readonly node?: Pick<NodeRow, "state" | "model" | "controller">;
  /** The operation that the node belongs to, or would belong to; absent as above. */
  readonly part?: PlannedPart;
  /** The host group in which the node is deployed; absent if its cluster has no rules for it. */
  readonly hostGroup?: PlannedHostGroup;
}

/** A host group of a request, shared by its nodes. */
export interface PlannedHostGroup {
  readonly clusterId: string;
  readonly group: string;
  /** Its place in the order of the cluster. */
  readonly stage: number;
  /** The requirements that its nodes wait for before they begin. */
  readonly unmet: readonly Unmet[];
  /** Failures after which one more stops the rest; infinite without a rule. */
  readonly tolerated: number;
}

/** One operation of a request, for the summary of its plan. */
export interface PlannedPart {
  readonly kind: OperationKind;
  readonly onFailure: FailurePolicy;
  readonly waves: WaveOptions | undefined;
  readonly maxParallel: number | undefined;
}

/** The step of a run that has begun and not ended, for an estimate of its end. */
export interface StepUnderWay {
  /** `interface.name`. */
  readonly label: string;
  readonly driver: string;
  readonly model: string | null;
  readonly elapsedSeconds: number;
  /** Until its timeout. */
  readonly leftSeconds: number;
}

/** The effect of a request on the run of one node, or on several addresses of a discovery. */
export interface ForecastEntry extends Forecast {
  readonly answer: NodeAnswer | null;
  readonly count: number;
  readonly step: StepUnderWay | null;
}

/** The effect of an interrupt, a withdrawal or an unhold, in a dry run. */
export interface InterruptForecast {
  readonly entries: readonly ForecastEntry[];
  /** The time that a stop leaves to running steps; null for other requests. */
  readonly timeoutSeconds: number | null;
}

export interface SubmitAnswer {
  /** Null if the request was refused, was a dry run, or has several operations. */
  readonly operationId: string | null;
  /** All operations of the request; absent if there is at most one. */
  readonly operationIds?: readonly string[];
  readonly results: readonly NodeAnswer[];
  readonly refusals: readonly Refusal[];
  readonly replayed: boolean;
  /** Hash of the plans of all nodes: the same as long as nothing has changed that affects them. */
  readonly planHash?: string | null;
  /** Of the dry run of an abort, a stop, a withdrawal or an unhold. */
  readonly forecast?: InterruptForecast;
}

/** The request is refused as a whole; no node has an answer of its own. */
export function refuseRequest(refusals: readonly Refusal[]): SubmitAnswer & { readonly results: readonly never[] } {
  return { operationId: null, results: [], refusals, replayed: false };
}

/** A stored operation, and the run of each of its nodes by node id. */
export interface StoredOperation {
  readonly operationId: string;
  readonly runIds: ReadonlyMap<string, string>;
}

/** A stored request, with its operations. */
export function acceptedRequest(
  operations: readonly StoredOperation[],
  { planHash, answers }: { readonly planHash: string; readonly answers: readonly NodeAnswer[] },
): SubmitAnswer {
  const runIds = new Map(operations.flatMap((one) => [...one.runIds]));
  const results = answers.map((answer) => ({ ...answer, runId: runIds.get(answer.nodeId ?? "") ?? null }));
  const operationIds = operations.map(({ operationId }) => operationId);
  return { ...answeredOperations(operationIds), results, refusals: [], replayed: false, planHash };
}

/** Names in a summary. All refusals are in the results. */
const SUMMARY_REFS_MAX = 10;

/** The nodes that one refusal stands for. */
export function countedRefs(refs: readonly string[]): NonNullable<Refusal["nodes"]> {
  return { count: refs.length, refs: refs.slice(0, SUMMARY_REFS_MAX) };
}

/**
 * The refusals of nodes, for the request as a whole: several nodes with the same code share one, with the data of the
 * first.
 */
export function summaryOf(results: readonly NodeAnswer[]): Refusal[] {
  const refusals = results.flatMap(({ ref, refusal, further = [] }) =>
    refusal ? [refusal, ...further].map((one) => ({ ref, one })) : [],
  );
  return groupsOf(refusals, ({ one }) => one.code).flatMap(({ key: code, first, all }) => {
    const refs = [...new Set(all.map(({ ref }) => ref))];
    if (refs.length === 1) return all.map(({ one }) => one);
    const { message, ...data } = first.one;
    const missing = all.flatMap(({ one }) => one.missing ?? []);
    return {
      ...data,
      message: `${refs.length.toLocaleString("en")} nodes are refused with ${code}: ${listed(refs)}. The first reason: ${message}`,
      ...(missing.length > 0 && { missing }),
      nodes: countedRefs(refs),
    };
  });
}

export function acceptedNode(ref: string, nodeId: string, runId: string | null): NodeAnswer {
  return { ref, nodeId, runId, accepted: true, refusal: null, plan: null };
}

export function refusedNode(ref: string, nodeId: string | null, runId: string | null, refusal: Refusal): NodeAnswer {
  return { ref, nodeId, runId, accepted: false, refusal, plan: null };
}

/** The operations of a request, as its answer holds them. */
export function answeredOperations(ids: readonly string[]): Pick<SubmitAnswer, "operationId" | "operationIds"> {
  const [first = null, ...others] = ids;
  return others.length === 0 ? { operationId: first } : { operationId: null, operationIds: ids };
}

/** The operations of runs, as the answer to a request about them holds them. */
export function operationsOf(runs: readonly { readonly operationId: string }[]): ReturnType<typeof answeredOperations> {
  return answeredOperations([...new Set(runs.map(({ operationId }) => operationId))]);
}
