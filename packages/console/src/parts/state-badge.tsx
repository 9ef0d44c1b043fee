/** A state as color, shape and name. */
import { clusterFamilyOf } from "../words/clusters.ts";
import { familyOf, sentenceCase, workFamilyOf } from "../words/states.ts";

/** Of a node. */
export function NodeState({ state }: { readonly state: string }) {
  return (
    <span className="state" data-family={familyOf(state)}>
      {sentenceCase(state)}
    </span>
  );
}

/** Of an operation, a run or a step. */
export function WorkState({ state }: { readonly state: string }) {
  return (
    <span className="state" data-family={workFamilyOf(state)}>
      {sentenceCase(state)}
    </span>
  );
}

export function ClusterState({ state }: { readonly state: string }) {
  return (
    <span className="state" data-family={clusterFamilyOf(state)}>
      {sentenceCase(state)}
    </span>
  );
}
