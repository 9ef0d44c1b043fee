/**
 * All tables, as the migrations in `drizzle/` create them. The migrations also contain what Drizzle cannot express:
 * - the legal edges (`lifecycle_edges`), and the trigger that rejects any other change of `nodes.state`;
 * - the one rows of `feed_position`, `change_position`, `audit_position` and `access_version`, and the four built-in
 *   roles;
 * - the triggers that record changes in `change_inbox`, and `number_changes`, which moves them to `changes` (decision
 *   0037);
 * - the triggers that keep rows of `audit` as they are, and the functions that number them and delete old ones;
 * - the collation of `nodes.name`, which is by bytes, so that one index serves the order of lists and prefixes of
 *   names;
 * - `label_pairs`, which makes labels a list that PostgreSQL keeps statistics of;
 * - `natural_key`, the key of the natural order of names.
 *
 * Some columns have older names than their properties (decision 0011 forbids renaming columns).
 */
import type { FailureKind } from "../errors.ts";
import { sql } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import type { PgColumn } from "drizzle-orm/pg-core";
import {
  bigint,
  boolean,
  check,
  foreignKey,
  index,
  integer,
  jsonb,
  pgTable,
  primaryKey,
  text,
  timestamp,
  unique,
  uniqueIndex,
  uuid,
} from "drizzle-orm/pg-core";
import type { NodeFault } from "../lifecycle/faults.ts";
import type { ChecksumAlgorithm, Architecture, ImageFormat } from "../lifecycle/images.ts";
import type { IdentityConflict, IdentityKind } from "../lifecycle/identity.ts";
import type { NodeEvent, NodeState } from "../lifecycle/node-states.ts";
import type { Stage } from "../lifecycle/cluster-state.ts";
import type { AuditChange, AuditOutcome, AuditTransport } from "./log/audit-records.ts";
import type { ChangeBefore, ChangeSubject } from "./log/change-records.ts";
import type { AbortMode } from "../lifecycle/interrupts.ts";
import type { FailurePolicy, OperationState, RunState, Interrupt } from "../lifecycle/operation-states.ts";
import type { Scope } from "../lifecycle/scopes.ts";
import type { BootModeName, LegPhase, OperationKind } from "../lifecycle/verbs.ts";
import type {
  AgentIdentity,
  AgentNetworkSettings,
  BoundDocument,
  Configuration,
  DocumentKind,
  DriverTry,
  Failure,
  ForcedPower,
  HostGroups,
  InstalledSystem,
  JsonObject,
  LeftAs,
  OperationGroups,
  Plan,
  SitePolicy,
  StepChoice,
  StoredJson,
  StoredTask,
  TakesOut,
  TaskIdentity,
  VerbOptions,
  WaitReason,
  Waves,
} from "./records.ts";

const at = (name: string) => timestamp(name, { withTimezone: true, precision: 3 });
const now = sql`now()`;

/** The key of a name, by which names are equal without regard to case: see names.ts. */
export const keyOfName = (name: PgColumn | SQL): SQL<string> => sql`lower(${name} collate "C")`;
const uniqueName = (table: string, name: PgColumn) => uniqueIndex(`${table}_name_nocase`).on(keyOfName(name));

/** An index of the rows with a condition. */
const partialIndex = (name: string, columns: Parameters<ReturnType<typeof index>["on"]>, condition: SQL) =>
  index(name)
    .on(...columns)
    .where(condition);
const isSet = (column: PgColumn) => sql`${column} is not null`;

/** Columns of what users change. */
const versioned = {
  revision: integer("revision").notNull().default(1),
  createdAt: at("created_at").notNull().default(now),
  updatedAt: at("updated_at").notNull().default(now),
};

/** A named set of nodes. Its state is derived from theirs. */
export const clusters = pgTable(
  "clusters",
  {
    id: uuid("id").primaryKey(),
    name: text("name").notNull().unique(),
    project: text("project").notNull(),
    variables: jsonb("variables").$type<JsonObject>().notNull(),
    hostGroups: jsonb("host_groups").$type<HostGroups>().notNull().default({}),
    /** The image that its nodes should have; null: none is wanted. It is not deleted meanwhile. */
    imageId: uuid("image_id"),
    ...versioned,
  },
  ({ name }) => [uniqueName("clusters", name)],
);

/** One bare-metal machine. `state` changes only together with a row of `transitions`. */
export const nodes = pgTable(
  "nodes",
  {
    id: uuid("id").primaryKey(),
    name: text("name").notNull().unique(),
    project: text("project").notNull(),
    state: text("state").$type<NodeState>().notNull(),
    stage: text("stage").$type<Stage>().notNull().default("NONE"),
    powerState: text("power_state").$type<"ON" | "OFF" | "UNKNOWN">().notNull().default("UNKNOWN"),
    powerReadAt: at("power_read_at"),
    presence: text("presence").$type<"DISCOVERED" | "DISAPPEARED" | "UNSEEN">().notNull().default("UNSEEN"),
    /** Since when it counts as disappeared: the report, moved by the time in maintenance. Null: it has not. */
    disappearedAt: at("disappeared_at"),
    maintenanceReason: text("maintenance_reason"),
    maintenanceSince: at("maintenance_since"),
    maintenanceBy: text("maintenance_by"),
    isProtected: boolean("is_protected").notNull().default(false),
    /** Why the node is retired; null if it is not. A retired node does not become available and is not deployed. */
    retiredReason: text("retired_reason"),
    /** Whether automatic cleaning runs; null: by the policy of the site. */
    automaticCleaning: boolean("automatic_cleaning"),
    /** Whether the machine has no disk of its own, so that an erasure may find none. Null: it has. */
    diskless: boolean("diskless"),
    /** Role in its cluster, free text. */
    hostGroup: text("host_group"),
    /** A note of operators. */
    description: text("description"),
    /** Model reported by inspection, used by estimates. */
    model: text("model"),
    /** Address of its management controller, from the driver. Nodes that share it share its capacity limit. */
    controller: text("controller"),
    /** Several machines are behind its management controller: other nodes may have the same one. */
    sharedController: boolean("shared_controller"),
    /** Another node seems to be the same machine. Follows from `node_identities` and `node_macs`. */
    identityConflict: jsonb("identity_conflict").$type<IdentityConflict>(),
    /** Power after the last change through Ostler; power drift is a difference from it. */
    wantedPower: text("wanted_power").$type<"ON" | "OFF">(),
    /** When the power reader last read the power, and why it failed. */
    powerCheckedAt: at("power_checked_at"),
    powerProblem: text("power_problem"),
    /** Cause of `powerProblem`; without meaning if that is null. Null: it is not a driver's. */
    powerProblemKind: text("power_problem_kind").$type<FailureKind>(),
    /** Background readings of the power that failed in a row, up to the number at which the node has a fault. */
    failedReadings: integer("failed_readings").notNull().default(0),
    /** Fault that the service has found; null in all three if there is none. */
    faultKind: text("fault_kind").$type<NodeFault>(),
    faultSince: at("fault_since"),
    faultMessage: text("fault_message"),
    driver: text("driver").notNull(),
    /** Interfaces taken from another driver: interface → driver name. */
    borrowed: jsonb("borrowed").$type<Readonly<Record<string, string>>>().notNull(),
    /** Further drivers of interfaces, in the order in which they are tried: interface → driver names. */
    fallbacks: jsonb("fallbacks").$type<Readonly<Record<string, readonly string[]>>>().notNull().default({}),
    /** Settings without their secrets: driver name → settings. */
    settings: jsonb("settings").$type<Readonly<Record<string, JsonObject>>>().notNull(),
    labels: jsonb("labels").$type<Readonly<Record<string, string>>>().notNull(),
    variables: jsonb("variables").$type<JsonObject>().notNull().default({}),
    /** Outputs of the deploy steps of its system that other nodes can take as variables. */
    outputs: jsonb("outputs").$type<JsonObject>().notNull().default({}),
    /** MAC addresses, sorted: those in `node_macs`, which makes each unique. */
    macs: jsonb("macs").$type<readonly string[]>().notNull().default([]),
    clusterId: uuid("cluster_id").references(() => clusters.id, { onDelete: "set null" }),
    lastError: jsonb("last_error").$type<Failure>(),
    /** The image that the system was installed from. Kept when the image is deleted, so it is not a foreign key. */
    imageId: uuid("image_id"),
    /** Number of transitions so far, registration included. */
    transitionCount: integer("transition_count").notNull().default(0),
    ...versioned,
  },
  (table) => [
    uniqueName("nodes", table.name),
    index("nodes_cluster_name").on(table.clusterId, keyOfName(table.name)),
    index("nodes_natural_name").on(sql`natural_key(${keyOfName(table.name)})`, table.id),
    partialIndex("nodes_cluster_group", [table.clusterId, table.hostGroup], isSet(table.hostGroup)),
    index("nodes_by_state").on(table.state, table.id),
    index("nodes_by_cluster").on(sql`coalesce(${table.clusterId}::text, 'none')`, table.id),
    index("nodes_created").on(table.createdAt, table.id),
    index("nodes_updated").on(table.updatedAt, table.id),
    index("nodes_labels").using("gin", sql`label_pairs(${table.labels})`),
    partialIndex("nodes_disappeared", [table.id], sql`${table.presence} = 'DISAPPEARED'`),
    partialIndex(
      "nodes_identity_conflict",
      [sql`(${table.identityConflict} ->> 'nodeId')`],
      isSet(table.identityConflict),
    ),
  ],
);

const ofNode = () =>
  uuid("node_id")
    .notNull()
    .references(() => nodes.id, { onDelete: "cascade" });

/** Secret settings, in a table of their own so that no read of a node returns them. */
export const nodeSecrets = pgTable("node_secrets", {
  nodeId: ofNode().primaryKey(),
  /** Driver name → secret field → value. */
  secrets: jsonb("secrets").$type<Readonly<Record<string, Readonly<Record<string, string>>>>>().notNull(),
});

/**
 * The inputs of the last deployment of each node, in a table of their own so that no list of nodes reads them. A node
 * without a row has unknown ones.
 */
export const nodeDeployments = pgTable("node_deployments", {
  nodeId: ofNode().primaryKey(),
  /** Null until a deployment has reached PROVISIONED. */
  system: jsonb("system").$type<InstalledSystem>(),
  /** Null until a deployment has ended. */
  configuration: jsonb("configuration").$type<Configuration>(),
  /** Nodes with equal inputs have the same one. */
  hash: text("hash").generatedAlwaysAs(
    sql`md5(coalesce(system::text, '') || ' ' || coalesce(configuration::text, ''))`,
  ),
});

/** The MAC addresses of nodes, in lower case with colons. */
export const nodeMacs = pgTable(
  "node_macs",
  {
    mac: text("mac").primaryKey(),
    nodeId: ofNode(),
    /** GIVEN: by a request. INSPECTED: by the newest inspection, and replaced by the next. */
    source: text("source").$type<"GIVEN" | "INSPECTED">().notNull(),
  },
  (table) => [index("node_macs_node").on(table.nodeId)],
);

/**
 * The identities of the machines of nodes: the controllers of their settings, and what the newest inspection found; of
 * the MACs only those that another node has in `node_macs`.
 */
export const nodeIdentities = pgTable(
  "node_identities",
  {
    nodeId: ofNode(),
    kind: text("kind").$type<IdentityKind>().notNull(),
    /** In the form in which equal values are compared. */
    value: text("value").notNull(),
    /** For a controller: the system behind it; empty if it is the only one. */
    system: text("system").notNull().default(""),
    /** For a controller: other nodes may have it (`nodes.shared_controller`). */
    isShared: boolean("is_shared").notNull().default(false),
    /** The value as it was found. */
    text: text("text").notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.nodeId, table.kind, table.value, table.system] }),
    index("node_identities_value").on(table.kind, table.value),
  ],
);

/** Results of inspections. All are kept; the newest is the node's inventory. */
export const inventories = pgTable(
  "inventories",
  {
    id: uuid("id").primaryKey(),
    nodeId: ofNode(),
    runId: uuid("run_id").notNull(),
    /** The driver that inspected. */
    driver: text("driver"),
    takenAt: at("taken_at").notNull().default(now),
    data: jsonb("data").$type<JsonObject>().notNull(),
  },
  (table) => [index("inventories_newest").on(table.nodeId, table.takenAt)],
);

/** Accepted requests. */
export const operations = pgTable(
  "operations",
  {
    id: uuid("id").primaryKey(),
    kind: text("kind").$type<OperationKind>().notNull(),
    state: text("state").$type<OperationState>().notNull(),
    project: text("project").notNull(),
    actor: text("actor").notNull(),
    reason: text("reason"),
    clusterId: uuid("cluster_id").references(() => clusters.id, { onDelete: "set null" }),
    /** Superseded by `restarts`, and read in older rows only. */
    restartOf: uuid("restart_of"),
    /** Operations that this one restarts, newest first; null if it restarts none, and in older rows. */
    restarts: jsonb("restarts").$type<readonly string[]>(),
    /** The same for all operations of one request, if a restart has several; the first one has the idempotency key. */
    batch: uuid("batch"),
    idempotencyKey: text("idempotency_key"),
    inputHash: text("input_hash"),
    /** Options of the verb; a restart is planned from them again. */
    options: jsonb("options").$type<VerbOptions>().notNull(),
    onFailure: text("on_failure").$type<FailurePolicy>().notNull(),
    maxParallel: integer("max_parallel"),
    /** Variables of the request alone; a restart lays them over the cluster's settings at that time. */
    variables: jsonb("variables").$type<JsonObject>().notNull(),
    /** The image that its deployments install. Kept when the image is deleted, so it is not a foreign key. */
    imageId: uuid("image_id"),
    /** Number of bytes of its user data; null if it has none. The text is in `operation_secrets`. */
    userDataBytes: integer("user_data_bytes"),
    interrupt: text("interrupt").$type<Interrupt>(),
    interruptBy: text("interrupt_by"),
    interruptReason: text("interrupt_reason"),
    interruptAt: at("interrupt_at"),
    /** Null: all nodes at once. */
    waves: jsonb("waves").$type<Waves>(),
    /** The newest wave that may start, from 0. */
    wave: integer("wave").notNull().default(0),
    waveState: text("wave_state").$type<"RUNNING" | "PAUSED" | "AWAITING" | "HALTED">(),
    /** Why and by whom it is halted or paused, and the end of a pause. */
    waveReason: text("wave_reason"),
    waveBy: text("wave_by"),
    waveUntil: at("wave_until"),
    /** Host groups with rules for its nodes; null if there are none. */
    groups: jsonb("groups").$type<OperationGroups>(),
    /** When the time of a stop of the whole operation is over. */
    stopUntil: at("stop_until"),
    /** End of the lease of the replica that works on a discovery. */
    leaseUntil: at("lease_until"),
    /** The failure that made CLEAN_UP_ALL stop the other runs, or else the first failure. */
    firstFailure: jsonb("first_failure").$type<Failure>(),
    totalCount: integer("total_count").notNull(),
    createdAt: at("created_at").notNull().default(now),
    startedAt: at("started_at"),
    finishedAt: at("finished_at"),
    revision: integer("revision").notNull().default(1),
  },
  (table) => [
    unique("operations_idempotency").on(table.actor, table.idempotencyKey),
    partialIndex("operations_batch", [table.batch], isSet(table.batch)),
    index("operations_newest").on(table.createdAt, table.id),
    index("operations_cluster").on(table.clusterId, table.createdAt, table.id),
    index("operations_state").on(table.state, table.createdAt, table.id),
    index("operations_kind").on(table.kind, table.createdAt, table.id),
    partialIndex("operations_unfinished", [table.state], sql`${table.finishedAt} is null`),
    partialIndex(
      "operations_timed",
      [table.createdAt],
      sql`${table.finishedAt} is null and (${table.kind} = 'DISCOVER' or ${table.stopUntil} is not null or ${table.waveUntil} is not null)`,
    ),
  ],
);

const ofOperation = () =>
  uuid("operation_id")
    .notNull()
    .references(() => operations.id);

/**
 * The clusters whose members an operation was accepted for without being requested for them. Rows of a deleted cluster
 * stay: a foreign key would lock the cluster after its nodes.
 */
export const operationClusters = pgTable(
  "operation_clusters",
  {
    clusterId: uuid("cluster_id").notNull(),
    operationId: ofOperation(),
    /** Of the operation, which is inserted in the same transaction. */
    createdAt: at("created_at").notNull().default(now),
  },
  (table) => [primaryKey({ columns: [table.clusterId, table.createdAt, table.operationId] })],
);

/** Plans of runs by the hash of their JSON. Similar nodes share a plan, so ten thousand runs store it once. */
export const plans = pgTable("plans", {
  hash: text("hash").primaryKey(),
  plan: jsonb("plan").$type<Plan>().notNull(),
});

/** An operation's work on one node. A node has at most one unfinished run (`runs_one_unfinished`). */
export const runs = pgTable(
  "runs",
  {
    id: uuid("id").primaryKey(),
    /** Its references are checked once per statement, by triggers, which cost less than a foreign key. */
    operationId: uuid("operation_id").notNull(),
    /** Kept when the node is deleted, so it is not a foreign key. */
    nodeId: uuid("node_id").notNull(),
    nodeName: text("node_name").notNull(),
    /** The node's cluster when the operation was accepted. Kept when the cluster is deleted. */
    clusterId: uuid("cluster_id"),
    /** Index in the request, from 0. */
    ordinal: integer("ordinal").notNull(),
    purpose: text("purpose").$type<"WORK" | "CLEAN_UP">().notNull().default("WORK"),
    state: text("state").$type<RunState>().notNull(),
    /** As `operationId`. */
    planHash: text("plan_hash").notNull(),
    variables: jsonb("variables").$type<JsonObject>().notNull(),
    /** Leg of the plan that the node has entered; -1 while it is untouched. */
    leg: integer("leg").notNull().default(0),
    /** Index of the next or running step; the number of steps when all are done. */
    position: integer("position").notNull().default(0),
    target: text("target").$type<NodeState>().notNull(),
    /** Whether the route changes the node's state. */
    movesState: boolean("moves_state").notNull(),
    attempt: integer("attempt").notNull().default(1),
    restartOf: uuid("restart_of"),
    interrupt: text("interrupt").$type<Interrupt>(),
    interruptBy: text("interrupt_by"),
    interruptReason: text("interrupt_reason"),
    interruptAt: at("interrupt_at"),
    /** How an abort was requested; null for a stop. Absent in older rows. */
    interruptMode: text("interrupt_mode").$type<AbortMode>(),
    /** The failure that ends the run, while the machine is being cleaned up: of a step, or of a stop that timed out. */
    interruptFailure: jsonb("interrupt_failure").$type<Failure>(),
    powerOff: boolean("power_off"),
    /** A change of power that was forced while a step waited, until it is carried out. */
    forcedPower: jsonb("forced_power").$type<ForcedPower>(),
    /**
     * When a replica may claim the run; null while it is executed, and while it waits for a wave, a slot, a request or
     * the end of maintenance.
     */
    dueAt: at("due_at"),
    /** Due runs with a higher one are claimed first. */
    priority: integer("priority").notNull().default(0),
    /** End of the claim's lease; null: the run is not claimed. */
    leaseUntil: at("lease_until"),
    /** Fencing token: raised by each claim, checked by each write of the claimant. */
    fence: integer("fence").notNull().default(0),
    /** The replica that executes the run, or did so until it was lost; null if the run is parked or was released. */
    owner: text("owner"),
    /** When the time of a stop of this run is over. */
    stopUntil: at("stop_until"),
    /**
     * Callback tokens are derived from this salt, a data key, and the generation, which rises with each entry into a
     * step.
     */
    callbackSecret: uuid("callback_secret").notNull().defaultRandom(),
    /** The data key; null: the salt alone is the key, as secrets were not encrypted when the run was created. */
    callbackKey: text("callback_key"),
    generation: integer("generation").notNull().default(0),
    /** Generation whose callback is accepted; null: none. */
    openGeneration: integer("open_generation"),
    /** End of the wait, as it is shown. */
    wakeAt: at("wake_at"),
    waitReason: text("wait_reason").$type<WaitReason>(),
    /** Since when it is QUEUED, WAITING or HOLDING. */
    waitingSince: at("waiting_since"),
    /** The capacity limit that it waits for, as in `phase:clean` or `controller:10.0.0.7`. */
    waitFor: text("wait_for"),
    /** Slots of capacity limits that it holds. */
    slotPhase: text("slot_phase").$type<LegPhase>(),
    slotController: text("slot_controller"),
    /** The node's management controller when the run was created. */
    controller: text("controller"),
    /** Host group that the request asked for: the node joins it when it is deployed. */
    hostGroup: text("host_group"),
    /** Key of the host group that a deployment makes the node a part of, if the cluster has settings for it. */
    groupKey: text("group_key"),
    /** Key of the host group whose node is taken out of service; null if it is not, or the node has no group. */
    budgetKey: text("budget_key"),
    takesOut: text("takes_out").$type<TakesOut>(),
    wave: integer("wave").notNull().default(0),
    failure: jsonb("failure").$type<Failure>(),
    /** Steps that failed on a best-effort route. */
    errors: jsonb("errors").$type<readonly Failure[]>().notNull().default([]),
    leftAs: jsonb("left_as").$type<LeftAs>(),
    createdAt: at("created_at").notNull().default(now),
    startedAt: at("started_at"),
    finishedAt: at("finished_at"),
    updatedAt: at("updated_at").notNull().default(now),
    revision: integer("revision").notNull().default(1),
  },
  (table) => [
    uniqueIndex("runs_one_unfinished")
      .on(table.nodeId)
      .where(sql`${table.finishedAt} is null`),
    index("runs_operation").on(table.operationId, table.ordinal),
    partialIndex("runs_unfinished", [table.operationId], sql`${table.finishedAt} is null`),
    index("runs_node").on(table.nodeId, table.createdAt),
    // Without the columns that a claim and a renewal of its lease change, so that these write to no index.
    partialIndex("runs_due", [table.priority, table.dueAt, table.ordinal], isSet(table.dueAt)),
    partialIndex("runs_owned", [table.id], isSet(table.owner)),
    partialIndex(
      "runs_host_group",
      [table.hostGroup],
      sql`${table.hostGroup} is not null and ${table.finishedAt} is null`,
    ),
    partialIndex("runs_stopping", [table.stopUntil], isSet(table.stopUntil)),
    partialIndex("runs_waiting", [table.waitingSince, table.ordinal, table.id], isSet(table.waitFor)),
    partialIndex(
      "runs_slots",
      [table.slotPhase, table.slotController],
      sql`${table.slotPhase} is not null or ${table.slotController} is not null`,
    ),
    check(
      "runs_finished",
      sql`(${table.finishedAt} is not null) = (${table.state} in ('SUCCEEDED', 'FAILED', 'ABORTED', 'STOPPED', 'UNDONE'))`,
    ),
  ],
);

const ofRun = () =>
  uuid("run_id")
    .notNull()
    .references(() => runs.id);

/**
 * Attempts at steps. Kept indefinitely. No index has a column that a success changes, and pages are filled to a half
 * (`fillfactor`), so that it writes to no index.
 */
export const attempts = pgTable(
  "attempts",
  {
    runId: ofRun(),
    /** Index of the step in the plan. */
    step: integer("step").notNull(),
    /** From 1. */
    number: integer("number").notNull(),
    state: text("state").$type<"RUNNING" | "WAITING" | "SUCCEEDED" | "FAILED" | "ABORTED">().notNull(),
    /** Number of entries, those after waits and crashes included. */
    entries: integer("entries").notNull().default(1),
    startedAt: at("started_at").notNull().default(now),
    deadlineAt: at("deadline_at").notNull(),
    finishedAt: at("finished_at"),
    memo: jsonb("memo").$type<StoredJson>(),
    callback: jsonb("callback").$type<StoredJson>(),
    output: jsonb("output").$type<StoredJson>(),
    failure: jsonb("failure").$type<Failure>(),
    progressPercent: integer("progress_percent"),
    progressMessage: text("progress_message"),
    /** VERIFY: the step is done and is being verified. ABORT: the abort clean-up runs. */
    part: text("part").$type<"RUN" | "VERIFY" | "ABORT">().notNull().default("RUN"),
    /** `interface.name`, driver and model, by which estimates look for durations. */
    label: text("label"),
    driver: text("driver"),
    model: text("model"),
    /** Calls of interfaces for which the node names several drivers, oldest first; null if there are none. */
    driverTries: jsonb("driver_tries").$type<readonly DriverTry[]>(),
    /** Times that the process which ran it ended, since its last outcome. */
    recoveries: integer("recoveries").notNull().default(0),
    // Of the run and its operation, so that one index finds a page of the history. Null in older rows.
    operationId: uuid("operation_id"),
    nodeId: uuid("node_id"),
    clusterId: uuid("cluster_id"),
    /** The node's host group when the attempt began, or the one that it joins with the run. */
    hostGroup: text("host_group"),
    actor: text("actor"),
    /** True of an ABORTED one, else null: an index by the state would be written at each success. */
    aborted: boolean("aborted"),
  },
  (table) => [
    primaryKey({ columns: [table.runId, table.step, table.number] }),
    index("attempts_newest").on(table.startedAt),
    index("attempts_node").on(table.nodeId, table.startedAt),
    index("attempts_operation").on(table.operationId, table.startedAt),
    partialIndex("attempts_cluster", [table.clusterId, table.startedAt], isSet(table.clusterId)),
    partialIndex("attempts_host_group", [table.hostGroup, table.startedAt], isSet(table.hostGroup)),
    index("attempts_label").on(table.label, table.startedAt),
    index("attempts_actor").on(table.actor, table.startedAt),
    partialIndex("attempts_failed", [table.startedAt], isSet(table.failure)),
    partialIndex("attempts_aborted", [table.startedAt], sql`${table.aborted}`),
    partialIndex("attempts_node_aborted", [table.nodeId, table.startedAt], sql`${table.aborted}`),
    index("attempts_durations").on(table.driver, table.label, table.startedAt),
  ],
);

/** Log lines of drivers. Bounded: further lines of a step are dropped. */
export const stepLog = pgTable(
  "step_log",
  {
    runId: ofRun(),
    /** From 1, without holes, through all steps of the run. */
    sequence: integer("sequence").notNull(),
    step: integer("step").notNull(),
    attempt: integer("attempt").notNull(),
    at: at("at").notNull(),
    text: text("text").notNull(),
    /** The number of lines of the attempt that were dropped, if this line states it; null for a line of the driver. */
    dropped: integer("dropped"),
  },
  (table) => [primaryKey({ columns: [table.runId, table.sequence] })],
);

/** Rejected callbacks. Recorded, never applied. */
export const rejectedCallbacks = pgTable(
  "rejected_callbacks",
  {
    id: uuid("id").primaryKey(),
    runId: ofRun(),
    /**
     * LATE: the token of an earlier entry. DUPLICATE: a used token. FORGED: a token that was never issued. STRANGER: a
     * second agent with the secret of a session.
     */
    kind: text("kind").$type<"LATE" | "DUPLICATE" | "FORGED" | "STRANGER">().notNull(),
    /** Index of the step that the run was at. */
    step: text("step"),
    at: at("at").notNull().default(now),
  },
  (table) => [index("rejected_callbacks_run").on(table.runId, table.at)],
);

/**
 * Sessions of the agent that a machine boots from a ramdisk. Of secrets only the SHA-256 is stored. The arguments of a
 * task can contain secrets: they are removed when the task ends, and only the agent gets them.
 */
export const agentSessions = pgTable(
  "agent_sessions",
  {
    id: uuid("id").primaryKey(),
    nodeId: ofNode(),
    runId: uuid("run_id")
      .notNull()
      .references(() => runs.id, { onDelete: "cascade" }),
    secretHash: text("secret_hash").notNull(),
    medium: text("medium").$type<"ISO" | "NETWORK">().notNull(),
    architecture: text("architecture").$type<"X64" | "ARM64">().notNull(),
    kernelArguments: jsonb("kernel_arguments").$type<readonly string[]>().notNull(),
    network: jsonb("network").$type<AgentNetworkSettings>(),
    /** The agent that has the session, fixed by its first contact. */
    instance: text("instance"),
    agent: jsonb("agent").$type<AgentIdentity>(),
    /** Where the boot script was fetched from. A second address that is not leased ends the session. */
    bootAddresses: jsonb("boot_addresses").$type<readonly string[]>().notNull().default([]),
    /** Requests of other agents with the secret. */
    strangers: integer("strangers").notNull().default(0),
    task: jsonb("task").$type<StoredTask>(),
    /** The task whose result was taken last. */
    lastTask: jsonb("last_task").$type<TaskIdentity>(),
    homeHash: text("home_hash"),
    home: jsonb("home").$type<StoredJson>(),
    openedAt: at("opened_at").notNull().default(now),
    dhcpAt: at("dhcp_at"),
    scriptAt: at("script_at"),
    kernelAt: at("kernel_at"),
    contactAt: at("contact_at"),
    seenAt: at("seen_at"),
    homeAt: at("home_at"),
    /** When it was closed, or replaced. A session ends with its run too. */
    endedAt: at("ended_at"),
  },
  (table) => [
    uniqueIndex("agent_sessions_one_open")
      .on(table.nodeId)
      .where(sql`${table.endedAt} is null`),
    index("agent_sessions_run").on(table.runId, table.openedAt),
  ],
);

/** The certificate of the listeners for machines: at most one row. */
export const machineCertificate = pgTable("machine_certificate", {
  id: text("id").primaryKey(),
  /** PEM, as the key. */
  certificate: text("certificate").notNull(),
  key: text("key").notNull(),
  createdAt: at("created_at").notNull().default(now),
});

/** Policy for all nodes: one row. */
export const site = pgTable("site", {
  id: boolean("id").primaryKey().default(true),
  policy: jsonb("policy").$type<SitePolicy>().notNull(),
  variables: jsonb("variables").$type<JsonObject>().notNull().default({}),
  revision: integer("revision").notNull().default(1),
  updatedAt: at("updated_at").notNull().default(now),
  updatedBy: text("updated_by"),
});

/** Named lists of clean steps. */
export const runbooks = pgTable(
  "runbooks",
  {
    id: uuid("id").primaryKey(),
    name: text("name").notNull().unique(),
    description: text("description"),
    phase: text("phase").$type<"clean" | "deploy">().notNull().default("clean"),
    steps: jsonb("steps").$type<readonly StepChoice[]>().notNull(),
    ...versioned,
  },
  ({ name }) => [uniqueName("runbooks", name)],
);

/** Images of operating systems. The content of an image never changes: its checksum identifies it. */
export const images = pgTable(
  "images",
  {
    id: uuid("id").primaryKey(),
    name: text("name").notNull().unique(),
    description: text("description"),
    /** Where machines download it; null: its file is in the service's image folder, by its checksum. */
    url: text("url"),
    format: text("format").$type<ImageFormat>().notNull(),
    /** Of the file, packed or not. */
    sizeBytes: bigint("size_bytes", { mode: "number" }).notNull(),
    /** Unpacked; null if unknown. */
    diskBytes: bigint("disk_bytes", { mode: "number" }),
    checksumAlgorithm: text("checksum_algorithm").$type<ChecksumAlgorithm>().notNull(),
    /** Hexadecimal, in lower case. */
    checksum: text("checksum").notNull(),
    architecture: text("architecture").$type<Architecture>().notNull(),
    /** Null: it starts from both. */
    bootMode: text("boot_mode").$type<BootModeName>(),
    labels: jsonb("labels").$type<Readonly<Record<string, string>>>().notNull(),
    /** Whether the installed system reports that it runs. */
    callsHome: boolean("calls_home").notNull().default(true),
    /** Number of bytes of the default user data; null if there is none. The text is in `image_secrets`. */
    userDataBytes: integer("user_data_bytes"),
    ...versioned,
  },
  (table) => [uniqueName("images", table.name), index("images_checksum").on(table.checksum)],
);

/** Default user data of images, in a table of its own so that no read of an image returns it. */
export const imageSecrets = pgTable("image_secrets", {
  imageId: uuid("image_id")
    .primaryKey()
    .references(() => images.id, { onDelete: "cascade" }),
  userData: text("user_data").notNull(),
});

/** User data of operations: of the request, or of its image. Deleted when nothing is left to restart. */
export const operationSecrets = pgTable("operation_secrets", {
  operationId: uuid("operation_id")
    .primaryKey()
    .references(() => operations.id, { onDelete: "cascade" }),
  userData: text("user_data").notNull(),
});

/** Addresses of a discovery, each once, in the order of the request. */
export const discoveries = pgTable(
  "discoveries",
  {
    operationId: ofOperation(),
    ordinal: integer("ordinal").notNull(),
    address: text("address").notNull(),
    /**
     * REGISTERED: a node was registered. KNOWN: the node existed. SKIPPED: the operation ended before it was probed.
     */
    state: text("state").$type<"QUEUED" | "REGISTERED" | "KNOWN" | "FAILED" | "SKIPPED">().notNull().default("QUEUED"),
    nodeId: uuid("node_id"),
    failure: jsonb("failure").$type<Failure>(),
    finishedAt: at("finished_at"),
  },
  (table) => [primaryKey({ columns: [table.operationId, table.ordinal] })],
);

/** Credentials of an unfinished discovery, deleted at its end. */
export const discoverySecrets = pgTable("discovery_secrets", {
  operationId: ofOperation().primaryKey(),
  settings: jsonb("settings").$type<JsonObject>().notNull(),
});

/**
 * Data keys, which encrypt secrets (secrets/keyring.ts). The one with the highest number encrypts new values. None is
 * deleted: values in backups, and callbacks of running machines, need the older ones.
 */
export const secretKeys = pgTable("secret_keys", {
  id: text("id").primaryKey(),
  number: integer("number").notNull().unique(),
  /** The key, encrypted with a master key. */
  wrapped: text("wrapped").notNull(),
  createdAt: at("created_at").notNull().default(now),
  /** When all secrets had been encrypted with it; null: `ostler secrets rotate` has not finished that. */
  rotatedAt: at("rotated_at"),
});

/**
 * Number of the newest change of accounts, tokens, grants and roles: one row, locked from the change until its commit.
 * By it, replicas recognize that what they know is old.
 */
export const accessVersion = pgTable("access_version", {
  id: boolean("id").primaryKey().default(true),
  version: bigint("version", { mode: "number" }).notNull(),
});

/** Programs, and persons of a site without an issuer. They are disabled, never deleted. */
export const accounts = pgTable(
  "accounts",
  {
    id: uuid("id").primaryKey(),
    name: text("name").notNull(),
    displayName: text("display_name"),
    disabledAt: at("disabled_at"),
    createdAt: at("created_at").notNull().default(now),
    createdBy: text("created_by").notNull(),
  },
  ({ name }) => [uniqueName("accounts", name)],
);

/** Roles: a name for a scope. The four with the names of scopes are filled by a migration. */
export const roles = pgTable("roles", {
  name: text("name").primaryKey(),
  scope: text("scope").$type<Scope>().notNull(),
  description: text("description"),
  isBuiltIn: boolean("is_built_in").notNull().default(false),
});

/** Roles of principals. */
export const grants = pgTable(
  "grants",
  {
    principal: text("principal").notNull(),
    role: text("role")
      .notNull()
      .references(() => roles.name),
    /** Null: the grant is for the whole site. Nothing else exists yet. */
    project: text("project"),
    expiresAt: at("expires_at"),
    grantedAt: at("granted_at").notNull().default(now),
    grantedBy: text("granted_by").notNull(),
  },
  (table) => [unique("grants_once").on(table.principal, table.role, table.project).nullsNotDistinct()],
);

/** Tokens of accounts. The secret itself is not stored. */
export const tokens = pgTable(
  "tokens",
  {
    /** The part of the token that names it. */
    id: text("id").primaryKey(),
    accountId: uuid("account_id")
      .notNull()
      .references(() => accounts.id),
    /** SHA-256 of the secret, in hexadecimal. */
    hash: text("hash").notNull(),
    /** The most that the token may do; null: all that its account may. */
    role: text("role").references(() => roles.name),
    description: text("description"),
    /** Null: those of its account. Nothing else exists yet. */
    projects: text("projects").array(),
    /** The only documents that the token sends; null: it has no such limit. */
    documents: jsonb("documents").$type<readonly BoundDocument[]>(),
    createdAt: at("created_at").notNull().default(now),
    createdBy: text("created_by").notNull(),
    expiresAt: at("expires_at").notNull(),
    revokedAt: at("revoked_at"),
    revokedBy: text("revoked_by"),
    /** Written at most once a minute. */
    lastUsedAt: at("last_used_at"),
    /** The access version of its last change. */
    version: bigint("version", { mode: "number" }).notNull(),
  },
  (table) => [index("tokens_account").on(table.accountId), index("tokens_version").on(table.version)],
);

/** Registered documents, which callers send by their ids. A text never changes. */
export const documents = pgTable("documents", {
  /** `sha256:` and the hash of the text, in hexadecimal. */
  id: text("id").primaryKey(),
  text: text("text").notNull(),
  /** Name of its operation, or the one that was given to it. */
  operation: text("operation"),
  kind: text("kind").$type<DocumentKind>().notNull(),
  registeredAt: at("registered_at").notNull().default(now),
  registeredBy: text("registered_by").notNull(),
});

/** Sessions of browsers. The secret itself is in the cookie and not stored. */
export const sessions = pgTable(
  "sessions",
  {
    /** The beginning of the SHA-256 of the secret. */
    id: text("id").primaryKey(),
    /** SHA-256 of the secret, in hexadecimal; with the configured token, if the session began with that. */
    hash: text("hash").notNull(),
    subject: text("subject").notNull(),
    name: text("name"),
    /** Principals of its groups, as of the sign-in. */
    groups: text("groups").array().notNull(),
    /** The token that was exchanged for the session, which ends with it; null: none of an account. */
    tokenId: text("token_id").references(() => tokens.id),
    createdAt: at("created_at").notNull().default(now),
    /** Written at most once a minute. */
    lastUsedAt: at("last_used_at").notNull().default(now),
    expiresAt: at("expires_at").notNull(),
    endedAt: at("ended_at"),
    /** The access version of its last change. */
    version: bigint("version", { mode: "number" }).notNull(),
  },
  (table) => [index("sessions_subject").on(table.subject), index("sessions_version").on(table.version)],
);

/** Persons and programs that an issuer knows, once they have signed in or their credentials were revoked. */
export const subjects = pgTable(
  "subjects",
  {
    subject: text("subject").primaryKey(),
    /** Name for people, as of the last sign-in. */
    name: text("name"),
    /** JWTs that were issued before are refused; null: none are. */
    tokensFrom: at("tokens_from"),
    /** The access version of its last change. */
    version: bigint("version", { mode: "number" }).notNull(),
  },
  (table) => [index("subjects_version").on(table.version)],
);

/** The edges of node-states.ts, from which the database rejects other changes. Filled by migrations. */
export const lifecycleEdges = pgTable(
  "lifecycle_edges",
  {
    fromState: text("from_state").notNull(),
    event: text("event").notNull(),
    toState: text("to_state").notNull(),
  },
  (table) => [primaryKey({ columns: [table.fromState, table.event, table.toState] })],
);

/** Log of all state changes, in commit order without holes. Append-only. */
export const transitions = pgTable(
  "transitions",
  {
    position: bigint("position", { mode: "number" }).primaryKey(),
    nodeId: uuid("node_id").notNull(),
    nodeName: text("node_name").notNull(),
    project: text("project").notNull(),
    /** Null for the registration. */
    fromState: text("from_state").$type<NodeState>(),
    /** Null for the deletion. */
    toState: text("to_state").$type<NodeState>(),
    event: text("event").$type<NodeEvent | "register" | "delete">().notNull(),
    /** Per node without holes; 1 for the registration. */
    sequence: integer("sequence").notNull(),
    nodeRevision: integer("node_revision").notNull(),
    target: text("target").$type<NodeState>(),
    operationId: uuid("operation_id"),
    runId: uuid("run_id"),
    step: text("step"),
    actor: text("actor").notNull(),
    reason: text("reason"),
    at: at("at").notNull(),
  },
  (table) => [
    foreignKey({
      columns: [table.fromState, table.event, table.toState],
      foreignColumns: [lifecycleEdges.fromState, lifecycleEdges.event, lifecycleEdges.toState],
    }),
    check(
      "transitions_ends",
      sql`(${table.fromState} is not null or ${table.event} = 'register') and (${table.toState} is not null or ${table.event} = 'delete')`,
    ),
    unique("transitions_node").on(table.nodeId, table.sequence),
    index("transitions_operation").on(table.operationId, table.position),
  ],
);

/** The position of the newest row of a log: one row. */
const position = {
  id: boolean("id").primaryKey().default(true),
  position: bigint("position", { mode: "number" }).notNull(),
};

/** Position of the newest transition: locked from the allocation of a position until the commit. */
export const feedPosition = pgTable("feed_position", position);

const change = {
  subject: text("subject").$type<ChangeSubject>().notNull(),
  /** Of the node, cluster, operation or run. */
  subjectId: uuid("subject_id").notNull(),
  /** The node and operation of a run. */
  nodeId: uuid("node_id"),
  operationId: uuid("operation_id"),
  event: text("event").$type<"CREATED" | "CHANGED" | "DELETED">().notNull(),
  fields: text("fields").array().notNull(),
  /** The values that filters saw before; null if nothing changed for them. */
  before: jsonb("before").$type<ChangeBefore>(),
};
const clockTime = sql`clock_timestamp()`;

/**
 * Changes that have no position yet. Triggers write them in the transaction of the change, without a lock; one that has
 * committed is moved to `changes`. Changes of one row have their order, because its writers wait for each other.
 */
export const changeInbox = pgTable("change_inbox", {
  id: bigint("id", { mode: "number" }).primaryKey().generatedAlwaysAsIdentity(),
  ...change,
  at: at("at").notNull().default(clockTime),
});

/** Log of all visible changes of nodes, clusters, operations and runs, in commit order without holes. */
export const changes = pgTable("changes", {
  position: bigint("position", { mode: "number" }).primaryKey(),
  ...change,
  at: at("at").notNull(),
});

/** Position of the newest row of `changes`: one row, locked while changes are numbered. */
export const changePosition = pgTable("change_position", position);

/**
 * The audit: requests and their outcomes, written in the transaction of the effect. A row has no position until it has
 * committed; then it gets one, and never changes again.
 */
export const audit = pgTable(
  "audit",
  {
    id: bigint("id", { mode: "number" }).notNull().generatedAlwaysAsIdentity(),
    position: bigint("position", { mode: "number" }),
    at: at("at").notNull().default(clockTime),
    subject: text("subject").notNull(),
    displayName: text("display_name"),
    /** Names the credential; not secret. */
    credential: text("credential"),
    address: text("address"),
    transport: text("transport").$type<AuditTransport>().notNull(),
    requestId: text("request_id"),
    /** Hash of the registered document. */
    document: text("document"),
    action: text("action").notNull(),
    /** Names of the first ones. */
    targets: text("targets").array().notNull(),
    targetCount: integer("target_count").notNull(),
    operationId: uuid("operation_id"),
    outcome: text("outcome").$type<AuditOutcome>().notNull(),
    code: text("code"),
    reason: text("reason"),
    change: jsonb("change").$type<AuditChange>(),
    /** Null: the site. */
    projects: text("projects").array(),
  },
  (table) => {
    const isNumbered = sql`${table.position} is not null`;
    return [
      partialIndex("audit_new", [table.id], sql`${table.position} is null`),
      uniqueIndex("audit_position_once").on(table.position).where(isNumbered),
      index("audit_subject").on(table.subject, table.position).where(isNumbered),
      index("audit_targets").using("gin", table.targets).where(isNumbered),
    ];
  },
);

/** Position of the newest row of `audit`: one row, locked while rows are numbered. */
export const auditPosition = pgTable("audit_position", position);

/** Observations of the clock of the database by the working replicas: one row. */
export const clock = pgTable("clock", {
  id: boolean("id").primaryKey().default(true),
  /** When a replica last looked. */
  seenAt: at("seen_at").notNull().default(now),
  /** Number of steps of the clock that were corrected. */
  steps: integer("steps").notNull().default(0),
});
