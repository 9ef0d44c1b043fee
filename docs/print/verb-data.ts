/**
 * What the pages of verbs say besides the schema and the table of states: which refusals a mutation can give, and when.
 * Every mutation of the schema has an entry here; the printer says which one lacks it. Words that need more room stand
 * in docs/templates, one file a mutation.
 */
import type { ErrorCode } from "../../src/errors.ts";
import type { OperationKind } from "../../src/lifecycle/verbs.ts";

/** A code, and the situation that gives it. */
export type Refusals = readonly (readonly [ErrorCode, string])[];

export interface VerbEntry {
  readonly mutation: string;
  /** Whose way in the table of verbs it takes. */
  readonly kind?: OperationKind;
  /** Refuse the request as a whole: in `errors`, and nothing is written. */
  readonly whole: Refusals;
  /** Are given node by node: in `results[].error`. */
  readonly single?: Refusals;
  /** How the two go together, where it is not as with the verbs. */
  readonly singleMeans?: string;
  /** Further pages, from docs/. */
  readonly see?: readonly string[];
}

export interface VerbGroup {
  readonly title: string;
  readonly entries: readonly VerbEntry[];
}

// ---- refusals that many share

const NO_NODES: Refusals = [
  ["INVALID_INPUT", "an empty list of names or IDs, or a cluster without nodes"],
  [
    "NOT_FOUND",
    "a name, an ID or the cluster does not exist, or no node matches the filter; everything that is missing is listed in `missing`",
  ],
];

const TERMS: Refusals = [
  [
    "INVALID_INPUT",
    "`maxParallel`, `waves`, `variables`, `onFailure`, `idempotencyKey` or `reason` is not what it may be; each flaw with its `path`",
  ],
  ["IDEMPOTENCY_MISMATCH", "the `idempotencyKey` was used with another input"],
  ["STALE_REVISION", "what would be done is not what `planHash` stands for"],
];

const VERB: Refusals = [...NO_NODES, ...TERMS];

const ANY_NODE: Refusals = [
  ["BUSY", "the node has an unfinished run; the operation in the way is named"],
  ["IN_MAINTENANCE", "the node is in maintenance"],
];

const NODE: Refusals = [
  ...ANY_NODE,
  [
    "INVALID_STATE",
    "the verb is not for the state that the node is in; the states that it is for are in `allowedStates`",
  ],
];

const PROTECTED: Refusals = [["PROTECTED", "the node is protected"]];
const PROTECTED_OR_RETIRED: Refusals = [["PROTECTED", "the node is protected, or retired"]];
const NOT_LOADED: Refusals = [["UNSUPPORTED_BY_DRIVER", "a driver of the node is not loaded"]];
const UNABLE = (what: string): Refusals => [
  ["UNSUPPORTED_BY_DRIVER", `a driver of the node is not loaded, or none of them can ${what}`],
];
const STEPS: Refusals = [
  [
    "INVALID_INPUT",
    "a step of the list is not offered by the node's drivers, is forbidden by the site, or has arguments that do not fit; all flaws of all nodes are in `results { errors }`",
  ],
];
const LIST_OF_STEPS: Refusals = [["INVALID_INPUT", "the list of steps is empty or has more than 100"]];

const WORK: Refusals = [
  ["INVALID_INPUT", "an empty list of names or IDs, or a cluster without nodes"],
  ["NOT_FOUND", "the operation, a node or the cluster does not exist, or no node matches the filter"],
];

const REASON: Refusals = [["INVALID_INPUT", "the reason has more than 1000 characters"]];

const EACH_FOR_ITSELF =
  "Each node is answered for itself: those that are refused keep no other from it. Where all are refused, their refusals are in `errors` as well.";

const WAVES: Refusals = [
  ["NOT_FOUND", "there is no such operation"],
  ["INVALID_STATE", "the operation has no waves, has ended, or is being stopped or aborted"],
  ...REASON,
];

const SETTINGS: Refusals = [
  [
    "INVALID_INPUT",
    "a name, label, host group, driver, interface or setting is not what it may be, or the name is taken; every flaw of every node has its `path`",
  ],
];
const STALE: Refusals = [["STALE_REVISION", "`ifRevision` is not the revision any more"]];
const NODES_ONLY: Refusals = [...NO_NODES];
const RUNBOOK: Refusals = [
  [
    "INVALID_INPUT",
    "the name is taken or not a name, the description is too long, the list is empty or has more than 100 steps, a step has no name of a step, or a reserved step has arguments that do not fit",
  ],
];

// ---- the mutations

export const VERB_GROUPS: readonly VerbGroup[] = [
  {
    title: "Work on nodes",
    entries: [
      { mutation: "manageNodes", kind: "MANAGE", whole: VERB, single: [...NODE, ...NOT_LOADED] },
      { mutation: "inspectNodes", kind: "INSPECT", whole: VERB, single: [...NODE, ...UNABLE("inspect")] },
      {
        mutation: "cleanNodes",
        kind: "CLEAN",
        whole: [
          ...VERB,
          ...LIST_OF_STEPS,
          ["INVALID_INPUT", "`steps` and `runbook` in one request"],
          ["NOT_FOUND", "there is no runbook of that name"],
        ],
        single: [...NODE, ...PROTECTED, ...UNABLE("clean"), ...STEPS],
        see: ["cleaning.md"],
      },
      {
        mutation: "commissionNodes",
        kind: "COMMISSION",
        whole: VERB,
        single: [...NODE, ...PROTECTED_OR_RETIRED, ...UNABLE("inspect, clean or deploy, as far as that is missing")],
      },
      {
        mutation: "deployNodes",
        kind: "DEPLOY",
        whole: [...VERB, ...LIST_OF_STEPS],
        single: [...NODE, ...PROTECTED_OR_RETIRED, ...UNABLE("deploy"), ...STEPS],
        see: ["cleaning.md"],
      },
      {
        mutation: "undeployNodes",
        kind: "UNDEPLOY",
        whole: VERB,
        single: [...NODE, ...PROTECTED, ...UNABLE("deploy and clean")],
      },
      {
        mutation: "updateNodes",
        kind: "UPDATE",
        whole: VERB,
        single: [...NODE, ...PROTECTED_OR_RETIRED, ...UNABLE("deploy and clean")],
      },
      {
        mutation: "decommissionNodes",
        kind: "DECOMMISSION",
        whole: VERB,
        single: [
          ...NODE,
          ["INVALID_STATE", "monitoring says that the node has disappeared, and `force` is not set"],
          ...PROTECTED,
          ...NOT_LOADED,
        ],
        see: ["maintenance.md"],
      },
      {
        mutation: "setPower",
        kind: "POWER",
        whole: [
          ...VERB,
          ["INVALID_INPUT", "`timeoutSeconds` is given with another action than `SOFT_OFF`, or is not 1 to 86400"],
        ],
        single: [...NODE, ["PROTECTED", "the node is protected, unless the action is `ON`"], ...NOT_LOADED],
        see: ["power.md"],
      },
      {
        mutation: "discoverNodes",
        whole: [
          [
            "INVALID_INPUT",
            "an address, the driver, a setting, a label or the prefix is not what it may be; everything that is wrong is named",
          ],
          ["NOT_FOUND", "there is no such cluster"],
          ["UNSUPPORTED_BY_DRIVER", "the driver cannot discover nodes"],
          ["IDEMPOTENCY_MISMATCH", "the `idempotencyKey` was used with another input"],
        ],
        see: ["discovery.md"],
      },
    ],
  },
  {
    title: "Work under way",
    entries: [
      {
        mutation: "abort",
        whole: [...WORK, ...REASON, ["NOTHING_RUNNING", "the operation that was named has ended"]],
        single: [
          ["NOTHING_RUNNING", "the node has no unfinished run"],
          [
            "NOT_INTERRUPTIBLE",
            "the running step must not be interrupted, and `mode` is `NOW`; do not repeat the request",
          ],
          ["UNSUPPORTED_BY_DRIVER", "the driver cannot abort the phase that the node is in"],
        ],
        singleMeans: EACH_FOR_ITSELF,
      },
      {
        mutation: "withdrawAbort",
        whole: [...WORK, ...REASON, ["NOTHING_RUNNING", "the operation that was named has ended"]],
        single: [
          ["NOTHING_RUNNING", "no abort is pending on the node"],
          ["INVALID_STATE", "the abort is being carried out already"],
        ],
        singleMeans: EACH_FOR_ITSELF,
      },
      {
        mutation: "stop",
        whole: [...WORK, ...REASON, ["INVALID_INPUT", "`timeoutSeconds` is not 1 to 86400"]],
        single: [
          [
            "NOTHING_RUNNING",
            "the node has no unfinished run and its last one was not stopped, or it is only being cleaned up after a failure",
          ],
        ],
        singleMeans: EACH_FOR_ITSELF,
      },
      {
        mutation: "restart",
        whole: [
          ...WORK,
          ...TERMS,
          ["BUSY", "the operation that was named has not ended"],
          ["NOTHING_TO_RESTART", "nothing there is stopped, failed or aborted, or it was a discovery"],
          [
            "INVALID_INPUT",
            "the nodes were left by different requests: not of one kind, or with other options, variables or another failure policy; restart them by operation",
          ],
        ],
        single: [
          [
            "NOTHING_TO_RESTART",
            "the node's work is done, it was deleted, another operation has worked on it since, or nothing of it can be taken up from the state that it is in",
          ],
          ["BUSY", "the node is at work"],
          ["IN_MAINTENANCE", "the node is in maintenance"],
          ...PROTECTED_OR_RETIRED,
          ["UNSUPPORTED_BY_DRIVER", "the driver cannot do any more what is left to do"],
          [
            "INVALID_INPUT",
            "a step of the list that the operation was asked with is not offered any more, or is forbidden by now",
          ],
        ],
        singleMeans:
          "Nodes whose work is done are passed over, each with its refusal, and hinder nothing. Any other refusal refuses the whole request, unless `acceptance: BEST_EFFORT`.",
      },
      {
        mutation: "unhold",
        whole: [...WORK, ...REASON, ["NOTHING_RUNNING", "the operation that was named has ended"]],
        single: [
          ["NOTHING_RUNNING", "the node has no unfinished run"],
          ["INVALID_STATE", "its run does not hold, or is being stopped or aborted"],
        ],
        singleMeans: EACH_FOR_ITSELF,
        see: ["cleaning.md"],
      },
      { mutation: "advanceWaves", whole: [...WAVES, ["INVALID_STATE", "it is at its last wave already"]] },
      { mutation: "haltWaves", whole: WAVES },
      { mutation: "resumeWaves", whole: [...WAVES, ["INVALID_STATE", "it is not halted"]] },
    ],
  },
  {
    title: "Nodes",
    entries: [
      {
        mutation: "registerNodes",
        whole: [
          ...SETTINGS,
          ["NOT_FOUND", "there is no such cluster"],
          ["UNSUPPORTED_BY_DRIVER", "the driver cannot tell the management controller from the settings"],
        ],
      },
      {
        mutation: "updateNode",
        whole: [
          ...SETTINGS,
          ["NOT_FOUND", "there is no such node"],
          ...STALE,
          ["UNSUPPORTED_BY_DRIVER", "the driver cannot tell the management controller from the settings"],
        ],
      },
      {
        mutation: "deleteNodes",
        whole: [
          ...NODES_ONLY,
          ["BUSY", "a node has an unfinished run"],
          ["PROTECTED", "a node is protected"],
          ["INVALID_STATE", "a node is `ACTIVE`"],
        ],
      },
      {
        mutation: "setMaintenance",
        whole: [...NODES_ONLY, ["INVALID_INPUT", "the reason is blank or has more than 1000 characters"]],
        see: ["maintenance.md"],
      },
      {
        mutation: "setRetired",
        whole: [...NODES_ONLY, ["INVALID_INPUT", "the reason is blank or has more than 1000 characters"]],
        see: ["maintenance.md"],
      },
      {
        mutation: "reportPresence",
        whole: [["INVALID_INPUT", "an empty list"]],
        single: [
          ["NOT_FOUND", "a node that is not registered cannot have disappeared"],
          [
            "INVALID_INPUT",
            "a node that is not registered has no driver in the report, or cannot be registered as it is reported",
          ],
        ],
        singleMeans: "Each node is answered for itself; `errors` stays empty.",
        see: ["discovery.md"],
      },
      {
        mutation: "readPower",
        whole: [...NODES_ONLY, ["INVALID_INPUT", "more than 1000 nodes"]],
        single: [
          ["BUSY", "work on the node sees to its power itself"],
          ["TIMEOUT", "the BMC did not answer in time"],
          ["BACKEND_FAILED", "the BMC answered with an error"],
          ["UNSUPPORTED_BY_DRIVER", "a driver of the node is not loaded"],
          ["NOT_FOUND", "the node was deleted meanwhile"],
        ],
        singleMeans: "Each node is answered for itself; `errors` stays empty.",
        see: ["power.md"],
      },
    ],
  },
  {
    title: "Clusters",
    entries: [
      {
        mutation: "createCluster",
        whole: [
          ["INVALID_INPUT", "the name is taken or not a name, or the variables are no JSON object"],
          ["NOT_FOUND", "a node does not exist"],
          ["INVALID_STATE", "a node is in another cluster"],
        ],
      },
      {
        mutation: "updateCluster",
        whole: [
          ["INVALID_INPUT", "the name is taken or not a name, or the variables are no JSON object"],
          ["NOT_FOUND", "the cluster or a node does not exist, or a node that is to be taken out is not in it"],
          ["INVALID_STATE", "a node is in another cluster"],
          ["CLUSTER_LOCKED", "an operation on the cluster is deploying or stopping"],
          ...STALE,
        ],
      },
      {
        mutation: "deleteCluster",
        whole: [
          ["NOT_FOUND", "there is no such cluster"],
          ["CLUSTER_LOCKED", "an operation on the cluster is deploying or stopping"],
          ...STALE,
        ],
      },
    ],
  },
  {
    title: "The site",
    entries: [
      {
        mutation: "updateSite",
        whole: [
          [
            "INVALID_INPUT",
            "a limit, a phase, a step, a driver or a priority is not what it may be; every flaw has its `path`",
          ],
          ...STALE,
        ],
        see: ["cleaning.md"],
      },
      { mutation: "createRunbook", whole: RUNBOOK, see: ["cleaning.md"] },
      {
        mutation: "updateRunbook",
        whole: [...RUNBOOK, ["NOT_FOUND", "there is no such runbook"], ...STALE],
        see: ["cleaning.md"],
      },
      { mutation: "deleteRunbook", whole: [["NOT_FOUND", "there is no such runbook"], ...STALE], see: ["cleaning.md"] },
    ],
  },
];

export const VERB_ENTRIES: readonly VerbEntry[] = VERB_GROUPS.flatMap(({ entries }) => entries);
