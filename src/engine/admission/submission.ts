/** A submission: a verb on nodes, or the work that a restart continues. */
import type { Refused } from "../../errors.ts";
import type { OperationKind } from "../../lifecycle/verbs.ts";
import type { ImageRef } from "../../store/images.ts";
import type { NodeRow } from "../../store/nodes/nodes.ts";
import type { OpenVariables } from "../../store/secrets/secrets.ts";
import type { Plan, VerbOptions } from "../../store/records.ts";
import type { RunRow } from "../../store/runs/runs.ts";
import type { Selection } from "../input/node-selector.ts";
import type { Transaction } from "../transaction.ts";
import type { Rollout } from "./request-terms.ts";

export interface Submission {
  readonly kind: OperationKind;
  readonly options: VerbOptions;
  /** The operations that a restart continues, newest first; null for a verb. */
  readonly restarts: readonly string[] | null;
  readonly rollout: Rollout;
  /** Those of the operations that a restart continues. */
  readonly earlier: OpenVariables;
  readonly image: ImageRef | null;
  /** Null: none. Undefined: that of the image. A secret. */
  readonly userData: string | null | undefined;
  readonly select: (transaction: Transaction) => Promise<Selection | Refused>;
  /** For APPLY: the cluster. Absent in a restart. */
  readonly applied?: AppliedCluster;
  /** The earlier work of a node that a restart, or a cluster, continues; null for a verb. */
  readonly earlierOf: ((node: NodeRow) => EarlierWork | null) | null;
}

/** A cluster, as a request brings its nodes to what it wants. */
interface AppliedCluster {
  readonly clusterId: string;
  readonly clusterName: string;
  /** Whether the cluster or the request names the image. If not, one is installed where that is needed. */
  readonly namesImage: boolean;
}

/** The run of a node that a restart continues, with its plan and what the restart keeps of it. */
export interface EarlierWork {
  readonly run: RunRow;
  readonly plan: Plan;
  /** The first leg that is performed again. */
  readonly firstLeg: number;
  /** Keys (`keysOf`) of the steps that are not performed again. */
  readonly done: ReadonlySet<string>;
}
