/**
 * All tables, as the migrations in `drizzle/` make them. Besides what stands here the migrations hold what Drizzle
 * cannot say: the legal edges (`lifecycle_edges`), the trigger that refuses any other change of `nodes.state`, and the
 * one row of `feed_position`. The tables of the durable queue are its own, in the schema `pgboss`.
 */
import { sql } from "drizzle-orm";
import { bigint, boolean, check, foreignKey, index, integer, jsonb, pgTable, primaryKey, text, timestamp, unique, uniqueIndex, uuid } from "drizzle-orm/pg-core";
import type { NodeEvent, NodeState } from "../lifecycle/node-states.ts";
import type { Stage } from "../lifecycle/cluster-state.ts";
import type { FailurePolicy, OperationState, RunState, Wish } from "../lifecycle/operation-states.ts";
import type { OperationKind } from "../lifecycle/verbs.ts";
import type { Failure, JsonObject, LeftAs, Plan, StoredJson, VerbOptions } from "./records.ts";

const at = (name: string) => timestamp(name, { withTimezone: true, precision: 3 });
const now = sql`now()`;

/** A named set of nodes. Its state is derived. */
export const clusters = pgTable("clusters", {
  id: uuid("id").primaryKey(),
  name: text("name").notNull().unique(),
  project: text("project").notNull(),
  variables: jsonb("variables").$type<JsonObject>().notNull(),
  revision: integer("revision").notNull().default(1),
  createdAt: at("created_at").notNull().default(now),
  updatedAt: at("updated_at").notNull().default(now),
});

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
    maintenanceReason: text("maintenance_reason"),
    maintenanceSince: at("maintenance_since"),
    maintenanceBy: text("maintenance_by"),
    isProtected: boolean("is_protected").notNull().default(false),
    driver: text("driver").notNull(),
    /** Interfaces taken from another driver: interface → driver name. */
    borrowed: jsonb("borrowed").$type<Readonly<Record<string, string>>>().notNull(),
    /** Settings without their secrets: driver name → settings. */
    settings: jsonb("settings").$type<Readonly<Record<string, JsonObject>>>().notNull(),
    labels: jsonb("labels").$type<Readonly<Record<string, string>>>().notNull(),
    clusterId: uuid("cluster_id").references(() => clusters.id, { onDelete: "set null" }),
    lastError: jsonb("last_error").$type<Failure>(),
    /** Number of transitions so far, registration included. */
    transitionCount: integer("transition_count").notNull().default(0),
    revision: integer("revision").notNull().default(1),
    createdAt: at("created_at").notNull().default(now),
    updatedAt: at("updated_at").notNull().default(now),
  },
  (table) => [
    index("nodes_cluster").on(table.clusterId),
    index("nodes_state").on(table.state),
    index("nodes_created").on(table.createdAt, table.id),
    index("nodes_labels").using("gin", table.labels.op("jsonb_path_ops")),
  ],
);

/** Secret settings, apart from the node so that no read of a node can carry them along. */
export const nodeSecrets = pgTable("node_secrets", {
  nodeId: uuid("node_id").primaryKey().references(() => nodes.id, { onDelete: "cascade" }),
  /** Driver name → secret field → value. */
  secrets: jsonb("secrets").$type<Readonly<Record<string, Readonly<Record<string, string>>>>>().notNull(),
});

/** What an inspection found. Snapshots stay, the newest is the node's inventory. */
export const inventories = pgTable(
  "inventories",
  {
    id: uuid("id").primaryKey(),
    nodeId: uuid("node_id").notNull().references(() => nodes.id, { onDelete: "cascade" }),
    runId: uuid("run_id").notNull(),
    takenAt: at("taken_at").notNull().default(now),
    data: jsonb("data").$type<JsonObject>().notNull(),
  },
  (table) => [index("inventories_newest").on(table.nodeId, table.takenAt)],
);

/** One accepted request. */
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
    restartOf: uuid("restart_of"),
    idempotencyKey: text("idempotency_key"),
    inputHash: text("input_hash"),
    /** What the verb was given besides nodes and policy; a restart is planned from it again. */
    options: jsonb("options").$type<VerbOptions>().notNull(),
    onFailure: text("on_failure").$type<FailurePolicy>().notNull(),
    maxParallel: integer("max_parallel"),
    /** Variables of the request alone; a restart overlays the cluster's settings of then with them. */
    variables: jsonb("variables").$type<JsonObject>().notNull(),
    wish: text("wish").$type<Wish>(),
    wishBy: text("wish_by"),
    wishAt: at("wish_at"),
    /** The failure that made CLEAN_UP_ALL stop the rest, or the first one at all. */
    firstFailure: jsonb("first_failure").$type<Failure>(),
    totalCount: integer("total_count").notNull(),
    createdAt: at("created_at").notNull().default(now),
    startedAt: at("started_at"),
    finishedAt: at("finished_at"),
    revision: integer("revision").notNull().default(1),
  },
  (table) => [
    unique("operations_idempotency").on(table.actor, table.idempotencyKey),
    index("operations_newest").on(table.createdAt, table.id),
    index("operations_cluster").on(table.clusterId),
    index("operations_unfinished").on(table.state).where(sql`${table.finishedAt} is null`),
  ],
);

/** What runs do. Nodes of one kind share their plan, so ten thousand runs store it once; the hash is that of its JSON. */
export const plans = pgTable("plans", {
  hash: text("hash").primaryKey(),
  plan: jsonb("plan").$type<Plan>().notNull(),
});

/** The share of one operation on one node. At most one unfinished run a node: `runs_one_unfinished`. */
export const runs = pgTable(
  "runs",
  {
    id: uuid("id").primaryKey(),
    operationId: uuid("operation_id").notNull().references(() => operations.id),
    /** Stays when the node is deleted, so it is no foreign key. */
    nodeId: uuid("node_id").notNull(),
    nodeName: text("node_name").notNull(),
    /** Place in the request, from 0. */
    ordinal: integer("ordinal").notNull(),
    purpose: text("purpose").$type<"WORK" | "CLEAN_UP">().notNull().default("WORK"),
    state: text("state").$type<RunState>().notNull(),
    planHash: text("plan_hash").notNull().references(() => plans.hash),
    variables: jsonb("variables").$type<JsonObject>().notNull(),
    /** The leg of the plan the node has entered. */
    leg: integer("leg").notNull().default(0),
    /** The step that is next or under way; the number of steps when all are done. */
    position: integer("position").notNull().default(0),
    target: text("target").$type<NodeState>().notNull(),
    /** Whether the route moves the node's state at all. */
    movesState: boolean("moves_state").notNull(),
    attempt: integer("attempt").notNull().default(1),
    restartOf: uuid("restart_of"),
    wish: text("wish").$type<Wish>(),
    wishBy: text("wish_by"),
    wishReason: text("wish_reason"),
    /** Set with an abort that is the consequence of something: a stop's time-out. */
    wishFailure: jsonb("wish_failure").$type<Failure>(),
    powerOff: boolean("power_off"),
    /** Fencing token: raised by each claim, checked by each write of whoever claimed. */
    fence: integer("fence").notNull().default(0),
    owner: text("owner"),
    /** What a call-back must carry to be taken; a new one with every wait. */
    callbackToken: uuid("callback_token"),
    wakeAt: at("wake_at"),
    waitReason: text("wait_reason").$type<"TIME" | "CALLBACK" | "RETRY">(),
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
    uniqueIndex("runs_one_unfinished").on(table.nodeId).where(sql`${table.finishedAt} is null`),
    index("runs_operation").on(table.operationId, table.ordinal),
    index("runs_unfinished").on(table.operationId).where(sql`${table.finishedAt} is null`),
    index("runs_changed").on(table.operationId, table.updatedAt),
    index("runs_node").on(table.nodeId, table.createdAt),
    index("runs_callback").on(table.callbackToken).where(sql`${table.callbackToken} is not null`),
    check("runs_finished", sql`(${table.finishedAt} is not null) = (${table.state} in ('SUCCEEDED', 'FAILED', 'ABORTED', 'STOPPED'))`),
  ],
);

/** One try of one step. Kept for good. */
export const attempts = pgTable(
  "attempts",
  {
    runId: uuid("run_id").notNull().references(() => runs.id),
    /** Index of the step in the plan. */
    step: integer("step").notNull(),
    /** 1 for the first try. */
    number: integer("number").notNull(),
    state: text("state").$type<"RUNNING" | "WAITING" | "SUCCEEDED" | "FAILED" | "ABORTED">().notNull(),
    /** How often it was entered: waits, and crashes that it survived, included. */
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
  },
  (table) => [primaryKey({ columns: [table.runId, table.step, table.number] })],
);

/** The table of node-states.ts, for the database to refuse what it does not hold. Filled by migrations. */
export const lifecycleEdges = pgTable(
  "lifecycle_edges",
  {
    fromState: text("from_state").notNull(),
    event: text("event").notNull(),
    toState: text("to_state").notNull(),
  },
  (table) => [primaryKey({ columns: [table.fromState, table.event, table.toState] })],
);

/** The log of all changes of state, gapless and in commit order. Append only. */
export const transitions = pgTable(
  "transitions",
  {
    position: bigint("position", { mode: "number" }).primaryKey(),
    nodeId: uuid("node_id").notNull(),
    nodeName: text("node_name").notNull(),
    project: text("project").notNull(),
    /** Null: the node was registered. */
    fromState: text("from_state").$type<NodeState>(),
    /** Null: the node was deleted. */
    toState: text("to_state").$type<NodeState>(),
    event: text("event").$type<NodeEvent | "register" | "delete">().notNull(),
    /** 1 for the registration, without holes for each node. */
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
    foreignKey({ columns: [table.fromState, table.event, table.toState], foreignColumns: [lifecycleEdges.fromState, lifecycleEdges.event, lifecycleEdges.toState] }),
    check("transitions_ends", sql`(${table.fromState} is not null or ${table.event} = 'register') and (${table.toState} is not null or ${table.event} = 'delete')`),
    unique("transitions_node").on(table.nodeId, table.sequence),
    index("transitions_operation").on(table.operationId, table.position),
  ],
);

/** The position of the newest transition: one row, locked from the moment a position is drawn until the commit. */
export const feedPosition = pgTable("feed_position", {
  id: boolean("id").primaryKey().default(true),
  position: bigint("position", { mode: "number" }).notNull(),
});
