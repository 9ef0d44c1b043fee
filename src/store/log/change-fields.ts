/**
 * Recorded changes: the fields by which the API names changes, each with the columns behind it. The triggers are SQL
 * with the same lists: those of nodes are made of them (drizzle/node-changes.ts), the others are written by hand. The
 * test `test/store/changes.test.ts` changes every column and compares. It has a list of the columns whose change is not
 * recorded, and fails for a column that is in no list.
 */
import { DECLARED_NAMES, FILTERED_COLUMNS, declared } from "../nodes/node-fields.ts";
import type { DeclaredChange } from "../nodes/node-fields.ts";
import type { nodes, clusters, operations, runs } from "../tables.ts";

type ColumnsOf<Table extends { readonly $inferSelect: object }> = readonly (keyof Table["$inferSelect"])[];

/**
 * Fields of nodes that are more than a declared field, by their columns. INVENTORY and CURRENT_RUN are rows of other
 * tables, and so are secret settings.
 */
const COMPOSED_CHANGES = {
  NAME: ["name"],
  PROJECT: ["project"],
  STATE: ["state", "transitionCount"],
  STAGE: ["stage"],
  POWER: ["powerState", "powerReadAt", "wantedPower", "powerProblem", "powerProblemKind"],
  PRESENCE: ["presence"],
  MAINTENANCE: ["maintenanceReason", "maintenanceSince", "maintenanceBy"],
  FAULT: ["faultKind", "faultSince", "faultMessage"],
  PROTECTED: ["isProtected"],
  RETIRED: ["retiredReason"],
  LABELS: ["labels"],
  VARIABLES: ["variables"],
  CLUSTER: ["clusterId"],
  SETTINGS: ["driver", "borrowed", "fallbacks", "settings"],
  MACS: ["macs"],
  CONTROLLER: ["controller"],
  IDENTITY_CONFLICT: ["identityConflict"],
  LAST_ERROR: ["lastError"],
  IMAGE: ["imageId"],
  INVENTORY: [],
  CURRENT_RUN: [],
} as const satisfies Readonly<Record<string, ColumnsOf<typeof nodes>>>;

export type NodeChangeField = keyof typeof COMPOSED_CHANGES | DeclaredChange;

/** Every field of `changed`, with the columns behind it. */
export const NODE_CHANGE_COLUMNS: Readonly<Record<NodeChangeField, ColumnsOf<typeof nodes>>> = withDeclared();

function withDeclared() {
  const all: Record<string, ColumnsOf<typeof nodes>> = { ...COMPOSED_CHANGES };
  for (const name of DECLARED_NAMES) all[declared(name).change] = [...(all[declared(name).change] ?? []), name];
  return all as Record<NodeChangeField, ColumnsOf<typeof nodes>>;
}

/** A change of the revision alone is recorded without a field: an edit that left everything as it was. */
export const NODE_COLUMNS_WITHOUT_FIELD = ["revision"] as const satisfies ColumnsOf<typeof nodes>;

/** Columns of nodes that filters look at, as they are stored. */
export const NODE_FACT_COLUMNS = [
  "name",
  "state",
  "powerState",
  "wantedPower",
  "presence",
  "maintenanceSince",
  "retiredReason",
  "faultKind",
  "isProtected",
  "clusterId",
  "driver",
  "macs",
  "labels",
  ...FILTERED_COLUMNS,
] as const satisfies ColumnsOf<typeof nodes>;

/** A change of one of these is recorded with the values before. Of the error, filters look at the code alone. */
export const NODE_FILTER_COLUMNS = [...NODE_FACT_COLUMNS, "lastError"] as const satisfies ColumnsOf<typeof nodes>;

/**
 * STATE of a cluster follows from its nodes. PENDING_CHANGES follow from them and its settings too, and from images,
 * runbooks and the site, whose edits record them (`recordPendingChanges`).
 */
export const CLUSTER_CHANGE_COLUMNS = {
  NAME: ["name"],
  SETTINGS: ["variables", "hostGroups", "imageId"],
  MEMBERS: ["revision"],
  STATE: [],
  PENDING_CHANGES: [],
} as const satisfies Readonly<Record<string, ColumnsOf<typeof clusters>>>;

/** PROGRESS of an operation follows from its runs, or from the addresses of a discovery. */
export const OPERATION_CHANGE_COLUMNS = {
  STATE: ["state", "startedAt", "finishedAt"],
  PROGRESS: ["totalCount"],
  WAVES: ["waves", "wave", "waveState", "waveReason", "waveBy", "waveUntil"],
  INTERRUPT: ["interrupt", "interruptBy", "interruptReason", "interruptAt"],
  FAILURE: ["firstFailure"],
  OPTIONS: ["clusterId", "onFailure", "maxParallel", "options", "variables"],
} as const satisfies Readonly<Record<string, ColumnsOf<typeof operations>>>;

/** PROGRESS of a run is in `attempts`. */
export const RUN_CHANGE_COLUMNS = {
  STATE: ["state", "startedAt", "finishedAt"],
  STEP: ["leg", "position", "generation"],
  WAIT: ["wakeAt", "waitReason", "waitingSince", "waitFor"],
  INTERRUPT: ["interrupt", "interruptBy", "interruptReason", "interruptAt", "interruptMode", "powerOff"],
  FAILURE: ["failure", "errors", "interruptFailure", "leftAs"],
  PROGRESS: [],
} as const satisfies Readonly<Record<string, ColumnsOf<typeof runs>>>;

export type ClusterChangeField = keyof typeof CLUSTER_CHANGE_COLUMNS;
export type OperationChangeField = keyof typeof OPERATION_CHANGE_COLUMNS;
export type RunChangeField = keyof typeof RUN_CHANGE_COLUMNS;
