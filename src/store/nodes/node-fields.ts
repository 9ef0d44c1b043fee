/**
 * The fields of a node in the API: the SQL of the JSON text of each, and beside it the value in a row, if that is not
 * the column itself. Lists that the database writes as JSON (node-json.ts) take the SQL, resolvers take the value or
 * the column, so both must say the same. The test `test/graphql/lists.test.ts` compares them over all fields. Fields
 * that need more than the node's row, its cluster and its unfinished run are missing here: those in composed-fields.ts
 * follow from a few facts, and a list that selects another one is resolved.
 */
import { sql } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import type { PgColumn } from "drizzle-orm/pg-core";
import type { IdentityConflict } from "../../lifecycle/identity.ts";
import { NODE_STATES, NODE_STATE_NAMES } from "../../lifecycle/node-states.ts";
import { globalId, globalIdSql } from "../global-id.ts";
import type { IdType } from "../global-id.ts";
import { NULL_TEXT, dateText, plainStringText, scalarText, stringText } from "../json-text.ts";
import type { JsonFields } from "../json-text.ts";
import type { Failure } from "../records.ts";
import { clusters, nodes, runs } from "../tables.ts";

/** Columns of the unfinished run. Resolvers of a run have the same values. */
const RUN_FIELDS = {
  id: { text: sql`'"' || ${globalIdSql("Run", runs.id)} || '"'` },
  nodeName: { text: stringText(runs.nodeName) },
  purpose: { text: plainStringText(runs.purpose) },
  state: { text: plainStringText(runs.state) },
  target: { text: plainStringText(runs.target) },
  attempt: { text: scalarText(runs.attempt) },
  wakeAt: { text: dateText(runs.wakeAt) },
  createdAt: { text: dateText(runs.createdAt) },
  startedAt: { text: dateText(runs.startedAt) },
  finishedAt: { text: dateText(runs.finishedAt) },
} satisfies JsonFields;

/** JSON text of the node's unfinished run; null if there is none. One index look-up per node. */
function ofUnfinishedRun(text: SQL): SQL {
  return sql`coalesce((select ${text} from ${runs} where ${runs.nodeId} = ${nodes.id} and ${runs.finishedAt} is null), ${NULL_TEXT})`;
}

export type NodeRow = typeof nodes.$inferSelect;
export type ClusterRow = typeof clusters.$inferSelect;

/** A field that is one column as it stands, and what is made of it. */
interface DeclaredField {
  readonly type: "String" | "Boolean" | "Int";
  readonly description: string;
  /** In place of null in the API. */
  readonly otherwise?: string | boolean | number;
  /** Its name in `changed`; several fields can share one. */
  readonly change: string;
  /** Description of the count of nodes by it. */
  readonly count?: string;
  /** Description of the condition in filters: nodes with the value. */
  readonly filter?: string;
  /** Description of the input, if operators set the field: at registration and with updateNodes. */
  readonly operator?: string;
  /** The smallest and the largest value that operators may set, of an Int. */
  readonly range?: readonly [number, number];
}

/**
 * The fields of a node that are one column. Of this table are made: the field of the API with its SQL in lists, the
 * inputs of registerNodes and updateNodes with their storing, the condition of filters with its facts, the value of
 * `NodeCountField`, and the value of `NodeChangeField` with the triggers that record it.
 */
export const DECLARED_FIELDS = {
  hostGroup: {
    type: "String",
    description: "Role of the node in its cluster; null if none is set.",
    change: "HOST_GROUP",
    count: "`hostGroup`; null if there is none.",
    filter: "With this role in their cluster.",
    operator: "Role in the cluster: at most 63 letters, digits, dots, dashes, slashes or underscores. Null removes it.",
  },
  automaticCleaning: {
    type: "Boolean",
    description: "Whether automatic clean steps run on the node; null to follow the site's policy.",
    change: "AUTOMATIC_CLEANING",
    operator: "Whether automatic clean steps run; null to follow the site's policy.",
  },
  diskless: {
    type: "Boolean",
    description:
      "Whether the machine has no disk of its own, according to operators: an erasure that finds none then succeeds.",
    otherwise: false,
    change: "DISKLESS",
    filter: "True: without disks of their own. False: the others.",
    operator: "Whether the machine has no disk of its own, so that an erasure may find none; null for false.",
  },
  description: {
    type: "String",
    description: "Note of operators about the machine, such as its place or a known defect; empty if none is set.",
    otherwise: "",
    change: "DESCRIPTION",
    operator:
      "Note about the machine: at most 1000 characters on one line, without control characters. Null removes it.",
  },
  sharedController: {
    type: "Boolean",
    description: "Whether other nodes may have the same management controller, because several machines are behind it.",
    otherwise: false,
    change: "CONTROLLER",
    operator:
      "Whether other nodes may have the same management controller, because several machines are behind it; null for false. Without it such a node is refused with IDENTITY_CONFLICT.",
  },
  model: {
    type: "String",
    description:
      "Model of the machine according to inspection; null if unknown. Estimates use the history of the model.",
    change: "MODEL",
    count: "`model`; null if it is not known.",
    filter: "With this `model`.",
  },
} as const satisfies { readonly [Column in keyof NodeRow]?: DeclaredField };

export type DeclaredName = keyof typeof DECLARED_FIELDS;
type Declared = typeof DECLARED_FIELDS;
/** The names of the fields whose declaration has a member. */
type With<Member extends keyof DeclaredField> = {
  [Name in DeclaredName]: Declared[Name] extends { readonly [Key in Member]: unknown } ? Name : never;
}[DeclaredName];

function declaredWith<Member extends keyof DeclaredField>(member: Member): readonly With<Member>[] {
  return (Object.keys(DECLARED_FIELDS) as DeclaredName[]).filter(
    (name): name is With<Member> => member in DECLARED_FIELDS[name],
  );
}

export function declared(name: DeclaredName): DeclaredField {
  return DECLARED_FIELDS[name];
}

export const DECLARED_NAMES = Object.keys(DECLARED_FIELDS) as readonly DeclaredName[];
export type DeclaredChange = Declared[DeclaredName]["change"];
export type DeclaredCount = Declared[With<"count">]["change"];

/** Conditions of filters on declared fields. */
export const FILTERED_COLUMNS = declaredWith("filter");
export type FilteredColumn = With<"filter">;

/** Fields by which nodes are counted, and their column. Their values are texts or numbers, or null. */
export const COUNTED_COLUMNS = {
  STATE: nodes.state,
  CLUSTER: nodes.clusterId,
  POWER: nodes.powerState,
  PRESENCE: nodes.presence,
  DRIVER: nodes.driver,
  STAGE: nodes.stage,
  ...(Object.fromEntries(declaredWith("count").map((name) => [DECLARED_FIELDS[name].change, nodes[name]])) as Readonly<
    Record<Declared[With<"count">]["change"], PgColumn>
  >),
} as const satisfies Readonly<Record<string, PgColumn>>;

export type CountedField = keyof typeof COUNTED_COLUMNS;

/** Columns that operators set as they are given: at registration and with updateNodes. Null if none is set. */
export const OPERATOR_COLUMNS = declaredWith("operator");

export type OperatorColumn = With<"operator">;
/** In a request, where an absent one stays, and null removes it. */
export type OperatorFields = { readonly [Column in OperatorColumn]?: NodeRow[Column] | undefined };

/** The states in which work has failed, as a list in SQL. */
export const FAILED_STATES = sql.raw(
  `(${NODE_STATE_NAMES.filter((state) => NODE_STATES[state].kind === "failed")
    .map((state) => `'${state}'`)
    .join(", ")})`,
);

/** True if the power is known and differs from what the last change through Ostler left. */
export const HAS_POWER_DRIFT = sql`(${nodes.wantedPower} is not null and ${nodes.powerState} <> 'UNKNOWN' and ${nodes.powerState} <> ${nodes.wantedPower})`;

/** The same of a row. */
export function hasPowerDrift({ powerState, wantedPower }: Pick<NodeRow, "powerState" | "wantedPower">): boolean {
  return wantedPower !== null && powerState !== "UNKNOWN" && powerState !== wantedPower;
}

function idField(type: IdType, id: PgColumn) {
  return {
    text: sql`'"' || ${globalIdSql(type, id)} || '"'`,
    value: (row: { readonly id: string }) => globalId(type, row.id),
  };
}

export const CLUSTER_FIELDS = {
  id: idField("Cluster", clusters.id),
  name: { text: stringText(clusters.name) },
  project: { text: stringText(clusters.project) },
  revision: { text: scalarText(clusters.revision) },
  createdAt: { text: dateText(clusters.createdAt) },
  updatedAt: { text: dateText(clusters.updatedAt) },
} satisfies JsonFields;

/** A member of the object in a column, as a text. */
function membersOf<Stored>(column: PgColumn): (name: Extract<keyof Stored, string>) => SQL {
  return (name) => sql`${column} ->> ${sql.raw(`'${name}'`)}`;
}

const failureText = membersOf<Failure>(nodes.lastError);
const conflictText = membersOf<IdentityConflict>(nodes.identityConflict);

export const FAILURE_FIELDS = {
  code: { text: stringText(failureText("code")) },
  message: { text: stringText(failureText("message")) },
  cause: {
    text: stringText(sql`coalesce(${failureText("cause")}, ${failureText("message")})`),
    value: ({ cause, message }: Failure) => cause ?? message,
  },
  step: { text: stringText(failureText("step")) },
  nodeName: { text: stringText(failureText("nodeName")) },
  at: { text: dateText(sql`(${failureText("at")})::timestamptz`), value: ({ at }: Failure) => new Date(at) },
  retryable: { text: scalarText(failureText("retryable")) },
  kind: { text: stringText(failureText("kind")) },
} satisfies JsonFields;

const MAINTENANCE_FIELDS = {
  reason: { text: stringText(sql`coalesce(${nodes.maintenanceReason}, '')`) },
  since: { text: dateText(nodes.maintenanceSince) },
  startedBy: { text: stringText(sql`coalesce(${nodes.maintenanceBy}, '')`) },
} satisfies JsonFields;

function maintenanceOf({ maintenanceReason, maintenanceSince, maintenanceBy }: NodeRow) {
  return (
    maintenanceSince && { reason: maintenanceReason ?? "", since: maintenanceSince, startedBy: maintenanceBy ?? "" }
  );
}

const FAULT_FIELDS = {
  kind: { text: plainStringText(nodes.faultKind) },
  since: { text: dateText(nodes.faultSince) },
  message: { text: stringText(sql`coalesce(${nodes.faultMessage}, '')`) },
} satisfies JsonFields;

function faultOf({ faultKind, faultSince, faultMessage }: NodeRow) {
  return faultKind && faultSince && { kind: faultKind, since: faultSince, message: faultMessage ?? "" };
}

const CONFLICT_FIELDS = {
  kind: { text: stringText(conflictText("kind")) },
  value: { text: stringText(conflictText("value")) },
  nodeName: { text: stringText(conflictText("nodeName")) },
  since: { text: dateText(sql`(${conflictText("since")})::timestamptz`) },
} satisfies JsonFields;

/** An object of these fields if the column is set, else null. */
function objectIf<Fields extends JsonFields>(column: PgColumn, fields: Fields) {
  const wrap = (object: SQL) => sql`case when ${column} is null then ${NULL_TEXT} else ${object} end`;
  return { fields, wrap };
}

/** By key, in the order of code points. */
function labelsOf({ labels }: NodeRow): { readonly key: string; readonly value: string }[] {
  return Object.entries(labels)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, value]) => ({ key, value }));
}

/** The value of a declared field in the API. */
export function declaredValue(name: DeclaredName, row: NodeRow): string | boolean | number | null {
  return row[name] ?? declared(name).otherwise ?? null;
}

function declaredField(name: DeclaredName): { readonly text: SQL } {
  const { type, otherwise } = declared(name);
  const column =
    otherwise === undefined ? sql`${nodes[name]}` : sql`coalesce(${nodes[name]}, ${sql.raw(`'${otherwise}'`)})`;
  return { text: (type === "String" ? stringText : scalarText)(column) };
}

export const NODE_FIELDS = {
  ...(Object.fromEntries(DECLARED_NAMES.map((name) => [name, declaredField(name)])) as {
    readonly [Name in DeclaredName]: { readonly text: SQL };
  }),
  id: idField("Node", nodes.id),
  uuid: { text: plainStringText(nodes.id) },
  name: { text: stringText(nodes.name) },
  project: { text: stringText(nodes.project) },
  state: { text: plainStringText(nodes.state) },
  stage: { text: plainStringText(nodes.stage) },
  powerState: { text: plainStringText(nodes.powerState) },
  powerReadAt: { text: dateText(nodes.powerReadAt) },
  powerCheckedAt: { text: dateText(nodes.powerCheckedAt) },
  powerProblem: { text: stringText(nodes.powerProblem) },
  powerProblemKind: {
    text: stringText(sql`case when ${nodes.powerProblem} is not null then ${nodes.powerProblemKind} end`),
    value: ({ powerProblem, powerProblemKind }: NodeRow) => (powerProblem === null ? null : powerProblemKind),
  },
  wantedPower: { text: plainStringText(nodes.wantedPower) },
  powerDrift: { text: scalarText(HAS_POWER_DRIFT), value: hasPowerDrift },
  presence: { text: plainStringText(nodes.presence) },
  maintenance: { ...objectIf(nodes.maintenanceSince, MAINTENANCE_FIELDS), value: maintenanceOf },
  fault: { ...objectIf(nodes.faultKind, FAULT_FIELDS), value: faultOf },
  protected: { text: scalarText(nodes.isProtected) },
  retired: {
    text: scalarText(sql`${nodes.retiredReason} is not null`),
    value: ({ retiredReason }: NodeRow) => retiredReason !== null,
  },
  retiredReason: { text: stringText(nodes.retiredReason) },
  macs: {
    // Without the blanks that PostgreSQL puts between the members of a list.
    text: sql`replace(${nodes.macs}::text, ', ', ',')`,
  },
  controller: { text: stringText(nodes.controller) },
  identityConflict: objectIf(nodes.identityConflict, CONFLICT_FIELDS),
  lastError: objectIf(nodes.lastError, FAILURE_FIELDS),
  revision: { text: scalarText(nodes.revision) },
  transitionCount: { text: scalarText(nodes.transitionCount) },
  createdAt: { text: dateText(nodes.createdAt) },
  updatedAt: { text: dateText(nodes.updatedAt) },
  labels: {
    fields: {
      key: { text: stringText(sql.raw("label.key")) },
      value: { text: stringText(sql.raw("label.value")) },
    },
    wrap: (object: SQL) =>
      sql`'[' || coalesce((select string_agg(${object}, ',' order by label.key collate "C") from jsonb_each_text(${nodes.labels}) label), '') || ']'`,
    value: labelsOf,
  },
  // One index look-up per node. A join would not keep the page in its order.
  cluster: {
    fields: CLUSTER_FIELDS,
    wrap: (object: SQL) =>
      sql`coalesce((select ${object} from ${clusters} where ${clusters.id} = ${nodes.clusterId}), ${NULL_TEXT})`,
  },
  targetState: { text: ofUnfinishedRun(plainStringText(runs.target)) },
  currentRun: { fields: RUN_FIELDS, wrap: ofUnfinishedRun },
} satisfies JsonFields;
