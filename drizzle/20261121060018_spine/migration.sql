CREATE TABLE "attempts" (
	"run_id" uuid,
	"step" integer,
	"number" integer,
	"state" text NOT NULL,
	"entries" integer DEFAULT 1 NOT NULL,
	"started_at" timestamp(3) with time zone DEFAULT now() NOT NULL,
	"deadline_at" timestamp(3) with time zone NOT NULL,
	"finished_at" timestamp(3) with time zone,
	"memo" jsonb,
	"callback" jsonb,
	"output" jsonb,
	"failure" jsonb,
	"progress_percent" integer,
	"progress_message" text,
	CONSTRAINT "attempts_pkey" PRIMARY KEY("run_id","step","number")
);
--> statement-breakpoint
CREATE TABLE "clusters" (
	"id" uuid PRIMARY KEY,
	"name" text NOT NULL UNIQUE,
	"project" text NOT NULL,
	"variables" jsonb NOT NULL,
	"revision" integer DEFAULT 1 NOT NULL,
	"created_at" timestamp(3) with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp(3) with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "feed_position" (
	"id" boolean PRIMARY KEY DEFAULT true,
	"position" bigint NOT NULL
);
--> statement-breakpoint
CREATE TABLE "inventories" (
	"id" uuid PRIMARY KEY,
	"node_id" uuid NOT NULL,
	"run_id" uuid NOT NULL,
	"taken_at" timestamp(3) with time zone DEFAULT now() NOT NULL,
	"data" jsonb NOT NULL
);
--> statement-breakpoint
CREATE TABLE "lifecycle_edges" (
	"from_state" text,
	"event" text,
	"to_state" text,
	CONSTRAINT "lifecycle_edges_pkey" PRIMARY KEY("from_state","event","to_state")
);
--> statement-breakpoint
CREATE TABLE "node_secrets" (
	"node_id" uuid PRIMARY KEY,
	"secrets" jsonb NOT NULL
);
--> statement-breakpoint
CREATE TABLE "nodes" (
	"id" uuid PRIMARY KEY,
	"name" text NOT NULL UNIQUE,
	"project" text NOT NULL,
	"state" text NOT NULL,
	"stage" text DEFAULT 'NONE' NOT NULL,
	"power_state" text DEFAULT 'UNKNOWN' NOT NULL,
	"power_read_at" timestamp(3) with time zone,
	"presence" text DEFAULT 'UNSEEN' NOT NULL,
	"maintenance_reason" text,
	"maintenance_since" timestamp(3) with time zone,
	"maintenance_by" text,
	"is_protected" boolean DEFAULT false NOT NULL,
	"driver" text NOT NULL,
	"borrowed" jsonb NOT NULL,
	"settings" jsonb NOT NULL,
	"labels" jsonb NOT NULL,
	"cluster_id" uuid,
	"last_error" jsonb,
	"transition_count" integer DEFAULT 0 NOT NULL,
	"revision" integer DEFAULT 1 NOT NULL,
	"created_at" timestamp(3) with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp(3) with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "operations" (
	"id" uuid PRIMARY KEY,
	"kind" text NOT NULL,
	"state" text NOT NULL,
	"project" text NOT NULL,
	"actor" text NOT NULL,
	"reason" text,
	"cluster_id" uuid,
	"restart_of" uuid,
	"idempotency_key" text,
	"input_hash" text,
	"options" jsonb NOT NULL,
	"on_failure" text NOT NULL,
	"max_parallel" integer,
	"variables" jsonb NOT NULL,
	"wish" text,
	"wish_by" text,
	"wish_at" timestamp(3) with time zone,
	"first_failure" jsonb,
	"total_count" integer NOT NULL,
	"created_at" timestamp(3) with time zone DEFAULT now() NOT NULL,
	"started_at" timestamp(3) with time zone,
	"finished_at" timestamp(3) with time zone,
	"revision" integer DEFAULT 1 NOT NULL,
	CONSTRAINT "operations_idempotency" UNIQUE("actor","idempotency_key")
);
--> statement-breakpoint
CREATE TABLE "plans" (
	"hash" text PRIMARY KEY,
	"plan" jsonb NOT NULL
);
--> statement-breakpoint
CREATE TABLE "runs" (
	"id" uuid PRIMARY KEY,
	"operation_id" uuid NOT NULL,
	"node_id" uuid NOT NULL,
	"node_name" text NOT NULL,
	"ordinal" integer NOT NULL,
	"purpose" text DEFAULT 'WORK' NOT NULL,
	"state" text NOT NULL,
	"plan_hash" text NOT NULL,
	"variables" jsonb NOT NULL,
	"leg" integer DEFAULT 0 NOT NULL,
	"position" integer DEFAULT 0 NOT NULL,
	"target" text NOT NULL,
	"moves_state" boolean NOT NULL,
	"attempt" integer DEFAULT 1 NOT NULL,
	"restart_of" uuid,
	"wish" text,
	"wish_by" text,
	"wish_reason" text,
	"wish_failure" jsonb,
	"power_off" boolean,
	"fence" integer DEFAULT 0 NOT NULL,
	"owner" text,
	"callback_token" uuid,
	"wake_at" timestamp(3) with time zone,
	"wait_reason" text,
	"failure" jsonb,
	"errors" jsonb DEFAULT '[]' NOT NULL,
	"left_as" jsonb,
	"created_at" timestamp(3) with time zone DEFAULT now() NOT NULL,
	"started_at" timestamp(3) with time zone,
	"finished_at" timestamp(3) with time zone,
	"updated_at" timestamp(3) with time zone DEFAULT now() NOT NULL,
	"revision" integer DEFAULT 1 NOT NULL,
	CONSTRAINT "runs_finished" CHECK (("finished_at" is not null) = ("state" in ('SUCCEEDED', 'FAILED', 'ABORTED', 'STOPPED')))
);
--> statement-breakpoint
CREATE TABLE "transitions" (
	"position" bigint PRIMARY KEY,
	"node_id" uuid NOT NULL,
	"node_name" text NOT NULL,
	"project" text NOT NULL,
	"from_state" text,
	"to_state" text,
	"event" text NOT NULL,
	"sequence" integer NOT NULL,
	"node_revision" integer NOT NULL,
	"target" text,
	"operation_id" uuid,
	"run_id" uuid,
	"step" text,
	"actor" text NOT NULL,
	"reason" text,
	"at" timestamp(3) with time zone NOT NULL,
	CONSTRAINT "transitions_node" UNIQUE("node_id","sequence"),
	CONSTRAINT "transitions_ends" CHECK (("from_state" is not null or "event" = 'register') and ("to_state" is not null or "event" = 'delete'))
);
--> statement-breakpoint
CREATE INDEX "inventories_newest" ON "inventories" ("node_id","taken_at");--> statement-breakpoint
CREATE INDEX "nodes_cluster" ON "nodes" ("cluster_id");--> statement-breakpoint
CREATE INDEX "nodes_state" ON "nodes" ("state");--> statement-breakpoint
CREATE INDEX "nodes_created" ON "nodes" ("created_at","id");--> statement-breakpoint
CREATE INDEX "nodes_labels" ON "nodes" USING gin ("labels" jsonb_path_ops);--> statement-breakpoint
CREATE INDEX "operations_newest" ON "operations" ("created_at","id");--> statement-breakpoint
CREATE INDEX "operations_cluster" ON "operations" ("cluster_id");--> statement-breakpoint
CREATE INDEX "operations_unfinished" ON "operations" ("state") WHERE "finished_at" is null;--> statement-breakpoint
CREATE UNIQUE INDEX "runs_one_unfinished" ON "runs" ("node_id") WHERE "finished_at" is null;--> statement-breakpoint
CREATE INDEX "runs_operation" ON "runs" ("operation_id","ordinal");--> statement-breakpoint
CREATE INDEX "runs_unfinished" ON "runs" ("operation_id") WHERE "finished_at" is null;--> statement-breakpoint
CREATE INDEX "runs_changed" ON "runs" ("operation_id","updated_at");--> statement-breakpoint
CREATE INDEX "runs_node" ON "runs" ("node_id","created_at");--> statement-breakpoint
CREATE INDEX "runs_callback" ON "runs" ("callback_token") WHERE "callback_token" is not null;--> statement-breakpoint
CREATE INDEX "transitions_operation" ON "transitions" ("operation_id","position");--> statement-breakpoint
ALTER TABLE "attempts" ADD CONSTRAINT "attempts_run_id_runs_id_fkey" FOREIGN KEY ("run_id") REFERENCES "runs"("id");--> statement-breakpoint
ALTER TABLE "inventories" ADD CONSTRAINT "inventories_node_id_nodes_id_fkey" FOREIGN KEY ("node_id") REFERENCES "nodes"("id") ON DELETE CASCADE;--> statement-breakpoint
ALTER TABLE "node_secrets" ADD CONSTRAINT "node_secrets_node_id_nodes_id_fkey" FOREIGN KEY ("node_id") REFERENCES "nodes"("id") ON DELETE CASCADE;--> statement-breakpoint
ALTER TABLE "nodes" ADD CONSTRAINT "nodes_cluster_id_clusters_id_fkey" FOREIGN KEY ("cluster_id") REFERENCES "clusters"("id") ON DELETE SET NULL;--> statement-breakpoint
ALTER TABLE "operations" ADD CONSTRAINT "operations_cluster_id_clusters_id_fkey" FOREIGN KEY ("cluster_id") REFERENCES "clusters"("id") ON DELETE SET NULL;--> statement-breakpoint
ALTER TABLE "runs" ADD CONSTRAINT "runs_operation_id_operations_id_fkey" FOREIGN KEY ("operation_id") REFERENCES "operations"("id");--> statement-breakpoint
ALTER TABLE "runs" ADD CONSTRAINT "runs_plan_hash_plans_hash_fkey" FOREIGN KEY ("plan_hash") REFERENCES "plans"("hash");--> statement-breakpoint
ALTER TABLE "transitions" ADD CONSTRAINT "transitions_0kozgmsUuPhM_fkey" FOREIGN KEY ("from_state","event","to_state") REFERENCES "lifecycle_edges"("from_state","event","to_state");