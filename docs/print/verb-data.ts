/**
 * Input of the verb pages that neither the schema nor the table of states has: the refusals of each mutation and their
 * conditions. Every mutation of the schema needs an entry here; the generator reports a missing one. Longer text is in
 * docs/templates, one file per mutation.
 */
import type { ErrorCode } from "../../src/errors.ts";
import type { OperationKind } from "../../src/lifecycle/verbs.ts";

/** A code and its condition. */
export type Refusals = readonly (readonly [ErrorCode, string])[];

export interface VerbEntry {
  readonly mutation: string;
  /** The verb whose routes the page shows; absent if the mutation has none. */
  readonly kind?: OperationKind;
  /** Refusals of the whole request, in `errors`; nothing is written. */
  readonly whole: Refusals;
  /** Refusals per node, in `results[].error`. */
  readonly single?: Refusals;
  /** How refusals per node affect the request; absent for the rule of verbs (all or nothing, or best effort). */
  readonly singleMeans?: string;
  /** Related pages, as paths from docs/. */
  readonly see?: readonly string[];
}

export interface VerbGroup {
  readonly title: string;
  readonly entries: readonly VerbEntry[];
}

// ---- shared refusals

const NO_NODES: Refusals = [
  [
    "INVALID_INPUT",
    "an empty list of names or IDs, a cluster without nodes, `all: false`, or a filter without a condition or with a member that is null or empty; the message says how many nodes the filter would select",
  ],
  [
    "NOT_FOUND",
    "a name, an ID or the cluster does not exist, or no node matches the filter; `missing` has the first 100 of them, `missingCount` their number",
  ],
];

const PICK: Refusals = [["CAPACITY", "fewer nodes are free than `pick` needs; `available` is their number"]];

const TERMS: Refusals = [
  [
    "INVALID_INPUT",
    "`maxParallel`, `waves`, `variables`, `onFailure`, `idempotencyKey` or `reason` is invalid; each flaw has its `path`",
  ],
  ["IDEMPOTENCY_MISMATCH", "the `idempotencyKey` was used with another input"],
  ["STALE_REVISION", "the plan differs from the one that `planHash` identifies"],
];

const VERB: Refusals = [...NO_NODES, ...PICK, ...TERMS];

const ANY_NODE: Refusals = [
  ["BUSY", "the node has an unfinished run; the refusal names its operation"],
  [
    "INVALID_STATE",
    "monitoring has reported the node as disappeared, or the node has a fault that is in the way, and `force` is not set",
  ],
];

/** Of the verbs that a node in maintenance accepts. */
const MAINTAINABLE: Refusals = [
  ...ANY_NODE,
  ["INVALID_STATE", "the node's state does not allow the verb; `allowedStates` lists the states that do"],
];
const NODE: Refusals = [["IN_MAINTENANCE", "the node is in maintenance"], ...MAINTAINABLE];

/** Of the rules of host groups. */
const GROUP_REQUIRED: Refusals = [
  ["GROUP_REQUIRED", "its host group comes after nodes that neither the cluster nor the request can make `ACTIVE`"],
];
const LAST_OF_GROUP: Refusals = [["LAST_OF_GROUP", "too few nodes of its host group would stay in service"]];

const SAME_MACHINE: Refusals = [
  ["IDENTITY_CONFLICT", "another node seems to be the same machine; `force` does not change that"],
];
const PROTECTED: Refusals = [["PROTECTED", "the node is protected"], ...SAME_MACHINE];
const PROTECTED_OR_RETIRED: Refusals = [["PROTECTED", "the node is protected or retired"], ...SAME_MACHINE];
const NOT_LOADED: Refusals = [["UNSUPPORTED_BY_DRIVER", "a driver of the node is not loaded"]];
const AGENTLESS: Refusals = [
  [
    "AGENT_UNAVAILABLE",
    "a step needs the agent, and the service has no provisioning listener or no agent for the node's architecture",
  ],
];
const UNREADABLE = (what: string): Refusals => [["SECRET_UNREADABLE", `${what} cannot be decrypted`]];
const UNABLE = (what: string): Refusals => [
  ["UNSUPPORTED_BY_DRIVER", `a driver of the node is not loaded, or none of them can ${what}`],
  ...AGENTLESS,
];
const INSTALLS_NOTHING: Refusals = [
  [
    "UNSUPPORTED_BY_DRIVER",
    "no automatic deploy step reaches `PROVISIONED`: the driver has none, or its priority is 0, or the site forbids it",
  ],
];
const STEPS: Refusals = [
  [
    "INVALID_INPUT",
    "a step of the list is not offered by the node's drivers, is forbidden by the site, or has invalid arguments; `results { errors }` has all flaws of all nodes",
  ],
];
const IMAGE_CHOICE: Refusals = [
  ["NOT_FOUND", "the image does not exist; the message lists the first registered ones"],
  ["INVALID_INPUT", "the user data is empty or has more than 64 KiB"],
];
const IMAGE_NODE: Refusals = [
  ["INVALID_INPUT", "the driver that deploys the node writes images, and the request names none"],
  [
    "IMAGE_UNFIT",
    "the architecture, the boot mode or the size of the image contradicts the inventory or the settings of the node; `mismatch` says which",
  ],
  ["DISK_NOT_FOUND", "no disk that the agent has found is the [root disk](images.md#the-root-disk)"],
  ["DISK_AMBIGUOUS", "several disks that the agent has found may be the root disk"],
  ["IMAGE_TOO_LARGE", "the root disk is smaller than the image"],
];
const LIST_OF_STEPS: Refusals = [
  ["INVALID_INPUT", "the list of steps is empty or has more than 100"],
  ["INVALID_INPUT", "the request has both `steps` and `runbook`, or the runbook is for another phase"],
  ["NOT_FOUND", "the runbook does not exist"],
];

const WORK: Refusals = [...NO_NODES, ["NOT_FOUND", "the operation does not exist"]];

const REASON: Refusals = [["INVALID_INPUT", "the reason has more than 1000 characters"]];

const EACH_FOR_ITSELF =
  "Each node has its own result; a refused or unknown node does not affect the others, unless `acceptance` is ALL_OR_NOTHING. `errors` names the unknown nodes and, if nothing is accepted, has one error for each code.";

const WAVES: Refusals = [
  ["NOT_FOUND", "the operation does not exist"],
  ["INVALID_STATE", "the operation has no waves, has ended, or is being stopped or aborted"],
  ...REASON,
];

const SAME_CONTROLLER: Refusals = [
  [
    "IDENTITY_CONFLICT",
    "another node has the same system of the same management controller, and `sharedController` is not set; `node` is that node",
  ],
];
const SETTINGS: Refusals = [
  [
    "INVALID_INPUT",
    "a name, label, host group, description, MAC address, driver, interface or setting is invalid, or the name is taken; every flaw of every node has its `path`",
  ],
  ["MAC_TAKEN", "another node has one of the MAC addresses; `node` is that node"],
  ...SAME_CONTROLLER,
];
const LAST_ADMINISTRATOR: Refusals[number] = ["PROTECTED", "no lasting grant of ADMIN would be left"];
const STALE: Refusals = [["STALE_REVISION", "`ifRevision` is not the current revision"]];
const RUNBOOK: Refusals = [
  [
    "INVALID_INPUT",
    "the name is taken or invalid, the description is too long, the list is empty or has more than 100 steps, the name of a step is invalid, or a reserved step has invalid arguments",
  ],
];

const IMAGES: Refusals = [
  [
    "INVALID_INPUT",
    "a name, description, address, size, checksum, label or user data is invalid, or the name is taken; every flaw of every image has its `path`",
  ],
  ["INVALID_INPUT", "no address is given, and the file is not in the image folder of the service"],
];

/** Refusals that many mutations have, by name: docs/verbs.md explains them once, the page of a mutation names them. */
export const SHARED_REFUSALS: Readonly<Record<string, Refusals>> = {
  selection: NO_NODES,
  pick: PICK,
  terms: TERMS,
  reason: REASON,
  waves: WAVES.slice(0, 2),
  revision: STALE,
  node: MAINTAINABLE,
  maintenance: NODE.slice(0, 1),
  "same machine": SAME_MACHINE,
  "same controller": SAME_CONTROLLER,
  agent: AGENTLESS,
  installation: INSTALLS_NOTHING,
  steps: STEPS,
  "list of steps": LIST_OF_STEPS,
  image: IMAGE_CHOICE,
  "image of a node": IMAGE_NODE,
  "settings of an image": IMAGES,
  runbook: RUNBOOK,
};

// ---- the mutations

export const VERB_GROUPS: readonly VerbGroup[] = [
  {
    title: "Work on nodes",
    entries: [
      { mutation: "manageNodes", kind: "MANAGE", whole: VERB, single: [...MAINTAINABLE, ...NOT_LOADED] },
      { mutation: "inspectNodes", kind: "INSPECT", whole: VERB, single: [...MAINTAINABLE, ...UNABLE("inspect")] },
      {
        mutation: "cleanNodes",
        kind: "CLEAN",
        whole: [...VERB, ...LIST_OF_STEPS],
        single: [...NODE, ...PROTECTED, ...UNABLE("clean"), ...STEPS],
        see: ["cleaning.md"],
      },
      {
        mutation: "provideNodes",
        kind: "PROVIDE",
        whole: VERB,
        single: [...NODE, ...PROTECTED_OR_RETIRED, ...UNABLE("clean")],
        see: ["cleaning.md"],
      },
      {
        mutation: "commissionNodes",
        kind: "COMMISSION",
        whole: [
          ...VERB,
          ...IMAGE_CHOICE,
          ["INVALID_INPUT", "`image` or `userData` is given, and `until` is `AVAILABLE`"],
        ],
        single: [
          ...NODE,
          [
            "INVALID_STATE",
            "the node has an installed system (stage `PROVISIONED`) which this commission would erase, and `from` is not `BEGINNING`",
          ],
          ...PROTECTED_OR_RETIRED,
          ...UNABLE("inspect, clean or deploy (only what the node still needs)"),
          ...GROUP_REQUIRED,
          ...INSTALLS_NOTHING,
          ...IMAGE_NODE,
        ],
        see: ["images.md"],
      },
      {
        mutation: "deployNodes",
        kind: "DEPLOY",
        whole: [...VERB, ...LIST_OF_STEPS, ...IMAGE_CHOICE],
        single: [
          ...NODE,
          ["INVALID_STATE", "the node is `ACTIVE`, and `reinstall` is not set"],
          ...PROTECTED_OR_RETIRED,
          ...GROUP_REQUIRED,
          ...LAST_OF_GROUP,
          ...UNABLE("deploy"),
          ...STEPS,
          ["INVALID_INPUT", "no step of the list reaches `PROVISIONED`, and the node has no installed system"],
          ...INSTALLS_NOTHING,
          ...IMAGE_NODE,
        ],
        see: ["images.md", "cleaning.md"],
      },
      {
        mutation: "undeployNodes",
        kind: "UNDEPLOY",
        whole: VERB,
        single: [...NODE, ...PROTECTED, ...LAST_OF_GROUP, ...UNABLE("deploy and clean")],
      },
      {
        mutation: "redeployNodes",
        kind: "REDEPLOY",
        whole: [...VERB, ...IMAGE_CHOICE],
        single: [
          ...NODE,
          ...PROTECTED_OR_RETIRED,
          ...GROUP_REQUIRED,
          ...LAST_OF_GROUP,
          ...UNABLE("deploy and clean"),
          ...INSTALLS_NOTHING,
          ...IMAGE_NODE,
        ],
        see: ["images.md"],
      },
      {
        mutation: "decommissionNodes",
        kind: "DECOMMISSION",
        whole: VERB,
        single: [...NODE, ...PROTECTED, ...LAST_OF_GROUP, ...NOT_LOADED, ...AGENTLESS],
        see: ["maintenance.md"],
      },
      {
        mutation: "setPower",
        kind: "POWER",
        whole: [
          ...VERB,
          [
            "INVALID_INPUT",
            "`timeoutSeconds` is given with an action other than `SOFT_OFF` and `SOFT_REBOOT`, or is not between 1 and 86400",
          ],
        ],
        single: [
          ...MAINTAINABLE,
          ["PROTECTED", "the node is protected, unless the action is `ON`"],
          ...LAST_OF_GROUP,
          [
            "NOT_INTERRUPTIBLE",
            "with `force`: the step that waits writes firmware or erases disks, and the action is not `ON`",
          ],
          ...NOT_LOADED,
        ],
        see: ["power.md"],
      },
      {
        mutation: "setBootDevice",
        kind: "BOOT_DEVICE",
        whole: VERB,
        single: [
          ...MAINTAINABLE,
          ["UNSUPPORTED_BY_DRIVER", "a driver of the node is not loaded, or none of them can set the boot device"],
        ],
        see: ["power.md"],
      },
      {
        mutation: "discoverNodes",
        whole: [
          [
            "INVALID_INPUT",
            "an address, the driver, a setting, a label or the prefix is invalid; every flaw is listed",
          ],
          ["NOT_FOUND", "the cluster does not exist"],
          ["CLUSTER_LOCKED", "an operation on the cluster is deploying or stopping"],
          ["UNSUPPORTED_BY_DRIVER", "the driver cannot discover nodes"],
          ["IDEMPOTENCY_MISMATCH", "the `idempotencyKey` was used with another input"],
        ],
        see: ["discovery.md"],
      },
      {
        mutation: "probeNodes",
        whole: [
          [
            "INVALID_INPUT",
            "an address, a driver or a setting is invalid, or there are more than 16 addresses or 8 drivers; every flaw is listed",
          ],
          ["UNSUPPORTED_BY_DRIVER", "a driver cannot discover nodes"],
        ],
        single: [
          ["TIMEOUT", "no answer in time"],
          ["BACKEND_FAILED", "nothing answers, the login is refused, or what answers is not a machine of the driver"],
          ["INVALID_INPUT", "a driver that the request does not name needs settings"],
        ],
        singleMeans: "Each address and driver has its own result; `errors` stays empty.",
        see: ["discovery.md"],
      },
    ],
  },
  {
    title: "Work in progress",
    entries: [
      {
        mutation: "abort",
        whole: [...WORK, ...REASON, ["NOTHING_RUNNING", "the named operation has ended"]],
        single: [
          ["NOTHING_RUNNING", "the node has no unfinished run"],
          [
            "NOT_INTERRUPTIBLE",
            "the running step must not be interrupted, and `mode` is `NOW`; repeating the request does not help",
          ],
          ["UNSUPPORTED_BY_DRIVER", "the driver cannot abort the node's current phase"],
        ],
        singleMeans: EACH_FOR_ITSELF,
      },
      {
        mutation: "withdrawAbort",
        whole: [...WORK, ...REASON, ["NOTHING_RUNNING", "the named operation has ended"]],
        single: [
          ["NOTHING_RUNNING", "no abort is pending on the node"],
          ["INVALID_STATE", "the abort is already in progress"],
        ],
        singleMeans: EACH_FOR_ITSELF,
      },
      {
        mutation: "stop",
        whole: [
          ...WORK,
          ...REASON,
          ["INVALID_INPUT", "`timeoutSeconds` is not between 1 and 86400"],
          ["NOTHING_RUNNING", "the named operation has ended otherwise than by a stop"],
        ],
        single: [
          [
            "NOTHING_RUNNING",
            "the node has no unfinished run and its last run was not stopped, or its only work is a clean-up after a failure",
          ],
        ],
        singleMeans: EACH_FOR_ITSELF,
      },
      {
        mutation: "restart",
        whole: [
          ...WORK,
          ...TERMS,
          ["BUSY", "the named operation has not ended"],
          ["NOTHING_TO_RESTART", "nothing selected is stopped, failed or aborted, or the operation was a discovery"],
          ["NOT_FOUND", "the image of the operation was deleted"],
        ],
        single: [
          [
            "NOTHING_TO_RESTART",
            "the node's work is done, the node was deleted, another operation has worked on it since, or its state does not allow any of the remaining work",
          ],
          ["BUSY", "the node has an unfinished run"],
          ["IN_MAINTENANCE", "the node is in maintenance"],
          ...PROTECTED_OR_RETIRED,
          ...GROUP_REQUIRED,
          ["UNSUPPORTED_BY_DRIVER", "the driver no longer supports the remaining work"],
          ...UNREADABLE("user data or a variable of the operation"),
          ...AGENTLESS,
          ["INVALID_INPUT", "a step of the operation's list is no longer offered, or is now forbidden"],
          [
            "IMAGE_UNFIT",
            "the image of the operation contradicts the node's present inventory or settings; also the codes of the root disk",
          ],
        ],
        singleMeans:
          "Nodes whose work is done are skipped, each with its refusal, and do not affect the request. Any other refusal affects only its node, unless the request has `acceptance: ALL_OR_NOTHING`.",
      },
      {
        mutation: "releaseHolds",
        whole: [...WORK, ...REASON, ["NOTHING_RUNNING", "the named operation has ended"]],
        single: [
          ["NOTHING_RUNNING", "the node has no unfinished run"],
          ["INVALID_STATE", "its run is not on hold, or is being stopped or aborted"],
        ],
        singleMeans: EACH_FOR_ITSELF,
        see: ["cleaning.md"],
      },
      { mutation: "advanceWaves", whole: [...WAVES, ["INVALID_STATE", "the operation is already at its last wave"]] },
      { mutation: "haltWaves", whole: WAVES },
      { mutation: "resumeWaves", whole: [...WAVES, ["INVALID_STATE", "the operation is not halted"]] },
    ],
  },
  {
    title: "Nodes",
    entries: [
      {
        mutation: "registerNodes",
        whole: [
          ...SETTINGS,
          ["NOT_FOUND", "the cluster does not exist"],
          ["CLUSTER_LOCKED", "an operation on the cluster is deploying or stopping"],
          ["UNSUPPORTED_BY_DRIVER", "the driver cannot determine the management controller from the settings"],
        ],
      },
      {
        mutation: "updateNodes",
        whole: [
          [
            "INVALID_INPUT",
            "the change is empty, or a name, a label, the host group, a MAC or the description is invalid",
          ],
          ["INVALID_INPUT", "the request has both `nodes` and `revisions`, or neither"],
          [
            "INVALID_INPUT",
            "`name` or `macs` is given for more than one node, or `settings` beside `driver` or `interfaces`",
          ],
          ...NO_NODES,
          ["STALE_REVISION", "the request selects another number of nodes than `expectedCount`"],
        ],
        single: [
          ["STALE_REVISION", "the node is not at the revision in `revisions`"],
          ["NOT_FOUND", "a node of `revisions` does not exist"],
          ["UNSUPPORTED_BY_DRIVER", "the node uses none of the drivers in `settings`"],
          ...UNREADABLE("a stored secret of the node"),
          ["MAC_TAKEN", "another node has one of the MAC addresses; `node` is that node"],
          ...SAME_CONTROLLER,
          ["INVALID_INPUT", "a setting is invalid for the node, or it would have more than 64 labels"],
          [
            "INVALID_INPUT",
            "a setting that decides where a stored secret is sent changes, and the secret is not sent again",
          ],
          ["BUSY", "an unfinished operation deploys the node for another host group than the given one"],
        ],
        see: ["bulk-edits.md"],
      },
      {
        mutation: "deleteNodes",
        whole: [
          ...NO_NODES,
          ["BUSY", "a node has an unfinished run"],
          ["PROTECTED", "a node is protected"],
          ["INVALID_STATE", "a node is `ACTIVE`"],
          ["CLUSTER_LOCKED", "an operation on the cluster of a node is deploying or stopping"],
        ],
      },
      {
        mutation: "setMaintenance",
        whole: [...NO_NODES, ["INVALID_INPUT", "the reason is blank or has more than 1000 characters"]],
        see: ["maintenance.md"],
      },
      {
        mutation: "clearMaintenance",
        whole: NO_NODES,
        see: ["maintenance.md"],
      },
      {
        mutation: "setRetired",
        whole: [...NO_NODES, ["INVALID_INPUT", "the reason is blank or has more than 1000 characters"]],
        see: ["maintenance.md"],
      },
      {
        mutation: "clearRetired",
        whole: NO_NODES,
        see: ["maintenance.md"],
      },
      {
        mutation: "reportPresence",
        whole: [["INVALID_INPUT", "an empty list"]],
        single: [
          ["NOT_FOUND", "the node is not registered, so it cannot have disappeared"],
          ["INVALID_INPUT", "the node is not registered, and the report names no driver or cannot be registered"],
          ["IDENTITY_CONFLICT", "the node is not registered, and another one has its management controller"],
        ],
        singleMeans: "Each node has its own result; `errors` stays empty.",
        see: ["discovery.md"],
      },
      {
        mutation: "readPower",
        whole: [...NO_NODES, ["INVALID_INPUT", "more than 1000 nodes"]],
        single: [
          ["BUSY", "an unfinished run on the node controls its power"],
          ["TIMEOUT", "the BMC did not answer in time"],
          ["BACKEND_FAILED", "the BMC answered with an error"],
          ["UNSUPPORTED_BY_DRIVER", "a driver of the node is not loaded"],
          ...UNREADABLE("a stored secret of the node"),
          ["NOT_FOUND", "the node was deleted in the meantime"],
        ],
        singleMeans: "Each node has its own result; `errors` stays empty.",
        see: ["power.md"],
      },
      {
        mutation: "readNodes",
        whole: [...NO_NODES, ["INVALID_INPUT", "more than 100 nodes, or an empty `what`"]],
        single: [
          ["BUSY", "an unfinished run on the node controls its machine"],
          ["TIMEOUT", "the BMC did not answer in time"],
          ["BACKEND_FAILED", "the BMC answered with an error"],
          ["UNSUPPORTED_BY_DRIVER", "a driver of the node is not loaded, or no driver or not the machine can do it"],
          ...UNREADABLE("a stored secret of the node"),
          ["NOT_FOUND", "the node was deleted in the meantime"],
        ],
        singleMeans: "Each node has its own result; `errors` stays empty.",
        see: ["drivers.md"],
      },
    ],
  },
  {
    title: "Clusters",
    entries: [
      {
        mutation: "createCluster",
        whole: [
          ["INVALID_INPUT", "the name is taken or invalid, or the variables are not a JSON object"],
          ["NOT_FOUND", "a node or the image does not exist"],
          ["INVALID_STATE", "a node is in another cluster"],
        ],
      },
      {
        mutation: "updateCluster",
        whole: [
          [
            "INVALID_INPUT",
            "the name is taken or invalid, the variables are not a JSON object, or a node is added and removed",
          ],
          [
            "NOT_FOUND",
            "the cluster, the image or a node does not exist, or a node to be removed is not in the cluster",
          ],
          ["INVALID_STATE", "a node is in another cluster"],
          ["CLUSTER_LOCKED", "an operation on the cluster is deploying or stopping"],
          ...STALE,
        ],
      },
      {
        mutation: "applyCluster",
        whole: [
          ...NO_NODES,
          ...TERMS,
          ...IMAGE_CHOICE,
          ["NOT_FOUND", "a named node is not in the cluster"],
          ["INVALID_INPUT", "`nodes` is a pick, or no node of the cluster matches the filter"],
        ],
        single: [
          ...NODE,
          ...PROTECTED_OR_RETIRED,
          ["INVALID_STATE", "the node has to be installed again, and `reinstall` is not set"],
          ...UNABLE("deploy"),
          ...INSTALLS_NOTHING,
          ...IMAGE_NODE,
        ],
        singleMeans:
          "Each node, in `results { error }`; the other nodes start, unless `acceptance` is ALL_OR_NOTHING. `errors` is empty if one starts",
        see: ["planning.md", "images.md"],
      },
      {
        mutation: "deleteCluster",
        whole: [
          ["NOT_FOUND", "the cluster does not exist"],
          ["CLUSTER_LOCKED", "an operation on the cluster is deploying or stopping"],
          ...STALE,
        ],
      },
    ],
  },
  {
    title: "Images",
    entries: [
      { mutation: "registerImages", whole: IMAGES, see: ["images.md"] },
      {
        mutation: "updateImage",
        whole: [...IMAGES, ["NOT_FOUND", "the image does not exist"], ...STALE],
        see: ["images.md"],
      },
      {
        mutation: "deleteImages",
        whole: [
          ["INVALID_INPUT", "the list is empty"],
          ["NOT_FOUND", "an image does not exist"],
          ["IN_USE", "an unfinished operation installs an image; `operation` is the first one"],
          ["IN_USE", "an image is that of a cluster"],
          ["IN_USE", "a node is installed with an image, and `force` is not set; `node` is the first one"],
        ],
        see: ["images.md"],
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
            "a limit, a phase, a step, a driver, a priority or a shared value is invalid; every flaw has its `path`",
          ],
          [
            "INVALID_INPUT",
            "the policy would leave a driver without a step that installs a system; the message names the drivers",
          ],
          ...STALE,
        ],
        see: ["cleaning.md"],
      },
      { mutation: "createRunbook", whole: RUNBOOK, see: ["cleaning.md"] },
      {
        mutation: "updateRunbook",
        whole: [...RUNBOOK, ["NOT_FOUND", "the runbook does not exist"], ...STALE],
        see: ["cleaning.md"],
      },
      {
        mutation: "deleteRunbook",
        whole: [["NOT_FOUND", "the runbook does not exist"], ...STALE],
        see: ["cleaning.md"],
      },
    ],
  },
  {
    title: "Accounts, tokens and roles",
    entries: [
      {
        mutation: "createAccount",
        whole: [["INVALID_INPUT", "the name is invalid, or an account has it already"]],
        see: ["access.md"],
      },
      {
        mutation: "updateAccount",
        whole: [["NOT_FOUND", "the account does not exist"], LAST_ADMINISTRATOR],
        see: ["access.md"],
      },
      {
        mutation: "createToken",
        whole: [
          ["NOT_FOUND", "the account, the role or a document does not exist"],
          ["INVALID_INPUT", "`expiresInDays` is not between 1 and 366, or a fixed variable does not fit its document"],
          ["INVALID_STATE", "the account is disabled"],
        ],
        see: ["access.md", "trusted-documents.md"],
      },
      {
        mutation: "revokeTokens",
        whole: [
          ["NOT_FOUND", "a token, the account or the issuer does not exist; then none is revoked"],
          ["INVALID_INPUT", "no ids, or the subject is a group or malformed"],
        ],
        see: ["access.md"],
      },
      {
        mutation: "setRoles",
        whole: [
          ["NOT_FOUND", "a role, the account or the issuer does not exist"],
          ["INVALID_INPUT", "the principal has another form, a role is given twice, or a grant has expired already"],
          LAST_ADMINISTRATOR,
        ],
        see: ["access.md"],
      },
      {
        mutation: "putRole",
        whole: [["INVALID_INPUT", "the name is invalid, or that of a built-in role"], LAST_ADMINISTRATOR],
        see: ["access.md"],
      },
      {
        mutation: "deleteRole",
        whole: [
          ["NOT_FOUND", "the role does not exist"],
          ["IN_USE", "a principal or a token has it"],
          ["INVALID_INPUT", "it is a built-in role"],
        ],
        see: ["access.md"],
      },
      {
        mutation: "registerDocuments",
        whole: [
          ["INVALID_INPUT", "a document has not one operation, or does not fit the schema or a limit"],
          ["NOT_FOUND", "a document to remove does not exist"],
          ["IN_USE", "a token that can be used is bound to a document to remove"],
        ],
        see: ["trusted-documents.md"],
      },
    ],
  },
];

export const VERB_ENTRIES: readonly VerbEntry[] = VERB_GROUPS.flatMap(({ entries }) => entries);
