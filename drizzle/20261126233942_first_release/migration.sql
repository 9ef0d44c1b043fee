-- The database of the first release. At its beginning, the functions that indexes use.

-- Labels as `key=value`: of the elements of a list PostgreSQL knows which are common, of a JSON object it does not.
CREATE FUNCTION "label_pairs"("labels" jsonb) RETURNS text[] LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
  AS $$ SELECT coalesce(array_agg(key || '=' || value), '{}') FROM jsonb_each_text(labels) $$;
--> statement-breakpoint
-- Every number in a name as 20 digits, so that n2 precedes n10.
CREATE FUNCTION "natural_key"("name" text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
  AS $$ SELECT regexp_replace(regexp_replace(name, '([0-9]+)', '00000000000000000000\1', 'g'), '[0-9]*([0-9]{20})', '\1', 'g') $$;
--> statement-breakpoint
-- Tables, indexes and references, as src/store/tables.ts has them.
CREATE TABLE "agent_sessions" (
	"id" uuid PRIMARY KEY,
	"node_id" uuid NOT NULL,
	"run_id" uuid NOT NULL,
	"secret_hash" text NOT NULL,
	"medium" text NOT NULL,
	"architecture" text NOT NULL,
	"kernel_arguments" jsonb NOT NULL,
	"network" jsonb,
	"instance" text,
	"agent" jsonb,
	"strangers" integer DEFAULT 0 NOT NULL,
	"task" jsonb,
	"last_task" jsonb,
	"home_hash" text,
	"home" jsonb,
	"opened_at" timestamp(3) with time zone DEFAULT now() NOT NULL,
	"dhcp_at" timestamp(3) with time zone,
	"script_at" timestamp(3) with time zone,
	"kernel_at" timestamp(3) with time zone,
	"contact_at" timestamp(3) with time zone,
	"seen_at" timestamp(3) with time zone,
	"home_at" timestamp(3) with time zone,
	"ended_at" timestamp(3) with time zone
);
--> statement-breakpoint
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
	"part" text DEFAULT 'RUN' NOT NULL,
	"label" text,
	"driver" text,
	"model" text,
	"driver_tries" jsonb,
	"recoveries" integer DEFAULT 0 NOT NULL,
	CONSTRAINT "attempts_pkey" PRIMARY KEY("run_id","step","number")
);
--> statement-breakpoint
CREATE TABLE "change_inbox" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "change_inbox_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"subject" text NOT NULL,
	"subject_id" uuid NOT NULL,
	"node_id" uuid,
	"operation_id" uuid,
	"event" text NOT NULL,
	"fields" text[] NOT NULL,
	"before" jsonb,
	"at" timestamp(3) with time zone DEFAULT clock_timestamp() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "change_position" (
	"id" boolean PRIMARY KEY DEFAULT true,
	"position" bigint NOT NULL
);
--> statement-breakpoint
CREATE TABLE "changes" (
	"position" bigint PRIMARY KEY,
	"subject" text NOT NULL,
	"subject_id" uuid NOT NULL,
	"node_id" uuid,
	"operation_id" uuid,
	"event" text NOT NULL,
	"fields" text[] NOT NULL,
	"before" jsonb,
	"at" timestamp(3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "clock" (
	"id" boolean PRIMARY KEY DEFAULT true,
	"seen_at" timestamp(3) with time zone DEFAULT now() NOT NULL,
	"steps" integer DEFAULT 0 NOT NULL
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
CREATE TABLE "discoveries" (
	"operation_id" uuid,
	"ordinal" integer,
	"address" text NOT NULL,
	"state" text DEFAULT 'QUEUED' NOT NULL,
	"node_id" uuid,
	"failure" jsonb,
	"finished_at" timestamp(3) with time zone,
	CONSTRAINT "discoveries_pkey" PRIMARY KEY("operation_id","ordinal")
);
--> statement-breakpoint
CREATE TABLE "discovery_secrets" (
	"operation_id" uuid PRIMARY KEY,
	"settings" jsonb NOT NULL
);
--> statement-breakpoint
CREATE TABLE "feed_position" (
	"id" boolean PRIMARY KEY DEFAULT true,
	"position" bigint NOT NULL
);
--> statement-breakpoint
CREATE TABLE "image_secrets" (
	"image_id" uuid PRIMARY KEY,
	"user_data" text NOT NULL
);
--> statement-breakpoint
CREATE TABLE "images" (
	"id" uuid PRIMARY KEY,
	"name" text NOT NULL UNIQUE,
	"description" text,
	"url" text,
	"format" text NOT NULL,
	"size_bytes" bigint NOT NULL,
	"disk_bytes" bigint,
	"checksum_algorithm" text NOT NULL,
	"checksum" text NOT NULL,
	"architecture" text NOT NULL,
	"boot_mode" text,
	"labels" jsonb NOT NULL,
	"calls_home" boolean DEFAULT true NOT NULL,
	"user_data_bytes" integer,
	"revision" integer DEFAULT 1 NOT NULL,
	"created_at" timestamp(3) with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp(3) with time zone DEFAULT now() NOT NULL
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
CREATE TABLE "node_identities" (
	"node_id" uuid,
	"kind" text,
	"value" text,
	"system" text DEFAULT '',
	"is_shared" boolean DEFAULT false NOT NULL,
	"text" text NOT NULL,
	CONSTRAINT "node_identities_pkey" PRIMARY KEY("node_id","kind","value","system")
);
--> statement-breakpoint
CREATE TABLE "node_macs" (
	"mac" text PRIMARY KEY,
	"node_id" uuid NOT NULL,
	"source" text NOT NULL
);
--> statement-breakpoint
CREATE TABLE "node_secrets" (
	"node_id" uuid PRIMARY KEY,
	"secrets" jsonb NOT NULL
);
--> statement-breakpoint
CREATE TABLE "nodes" (
	"id" uuid PRIMARY KEY,
	-- By its bytes: the same in every database, and of use for the beginning of a name.
	"name" text COLLATE "C" NOT NULL UNIQUE,
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
	"retired_reason" text,
	"automatic_cleaning" boolean,
	"diskless" boolean,
	"host_group" text,
	"description" text,
	"model" text,
	"controller" text,
	"shared_controller" boolean,
	"identity_conflict" jsonb,
	"wanted_power" text,
	"power_checked_at" timestamp(3) with time zone,
	"power_problem" text,
	"power_problem_kind" text,
	"failed_readings" integer DEFAULT 0 NOT NULL,
	"fault_kind" text,
	"fault_since" timestamp(3) with time zone,
	"fault_message" text,
	"driver" text NOT NULL,
	"borrowed" jsonb NOT NULL,
	"fallbacks" jsonb DEFAULT '{}' NOT NULL,
	"settings" jsonb NOT NULL,
	"labels" jsonb NOT NULL,
	"macs" jsonb DEFAULT '[]' NOT NULL,
	"cluster_id" uuid,
	"last_error" jsonb,
	"image_id" uuid,
	"transition_count" integer DEFAULT 0 NOT NULL,
	"revision" integer DEFAULT 1 NOT NULL,
	"created_at" timestamp(3) with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp(3) with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "operation_clusters" (
	"cluster_id" uuid,
	"operation_id" uuid,
	"created_at" timestamp(3) with time zone DEFAULT now(),
	CONSTRAINT "operation_clusters_pkey" PRIMARY KEY("cluster_id","created_at","operation_id")
);
--> statement-breakpoint
CREATE TABLE "operation_secrets" (
	"operation_id" uuid PRIMARY KEY,
	"user_data" text NOT NULL
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
	"restarts" jsonb,
	"batch" uuid,
	"idempotency_key" text,
	"input_hash" text,
	"options" jsonb NOT NULL,
	"on_failure" text NOT NULL,
	"max_parallel" integer,
	"variables" jsonb NOT NULL,
	"image_id" uuid,
	"user_data_bytes" integer,
	"interrupt" text,
	"interrupt_by" text,
	"interrupt_reason" text,
	"interrupt_at" timestamp(3) with time zone,
	"waves" jsonb,
	"wave" integer DEFAULT 0 NOT NULL,
	"wave_state" text,
	"wave_reason" text,
	"wave_by" text,
	"wave_until" timestamp(3) with time zone,
	"stop_until" timestamp(3) with time zone,
	"lease_until" timestamp(3) with time zone,
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
CREATE TABLE "rejected_callbacks" (
	"id" uuid PRIMARY KEY,
	"run_id" uuid NOT NULL,
	"kind" text NOT NULL,
	"step" text,
	"at" timestamp(3) with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "runbooks" (
	"id" uuid PRIMARY KEY,
	"name" text NOT NULL UNIQUE,
	"description" text,
	"phase" text DEFAULT 'clean' NOT NULL,
	"steps" jsonb NOT NULL,
	"revision" integer DEFAULT 1 NOT NULL,
	"created_at" timestamp(3) with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp(3) with time zone DEFAULT now() NOT NULL
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
	"interrupt" text,
	"interrupt_by" text,
	"interrupt_reason" text,
	"interrupt_at" timestamp(3) with time zone,
	"interrupt_mode" text,
	"interrupt_failure" jsonb,
	"power_off" boolean,
	"due_at" timestamp(3) with time zone,
	"priority" integer DEFAULT 0 NOT NULL,
	"lease_until" timestamp(3) with time zone,
	"fence" integer DEFAULT 0 NOT NULL,
	"owner" text,
	"stop_until" timestamp(3) with time zone,
	"callback_secret" uuid DEFAULT gen_random_uuid() NOT NULL,
	"generation" integer DEFAULT 0 NOT NULL,
	"open_generation" integer,
	"wake_at" timestamp(3) with time zone,
	"wait_reason" text,
	"waiting_since" timestamp(3) with time zone,
	"wait_for" text,
	"slot_phase" text,
	"slot_controller" text,
	"controller" text,
	"host_group" text,
	"wave" integer DEFAULT 0 NOT NULL,
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
CREATE TABLE "site" (
	"id" boolean PRIMARY KEY DEFAULT true,
	"policy" jsonb NOT NULL,
	"revision" integer DEFAULT 1 NOT NULL,
	"updated_at" timestamp(3) with time zone DEFAULT now() NOT NULL,
	"updated_by" text
);
--> statement-breakpoint
CREATE TABLE "step_log" (
	"run_id" uuid,
	"sequence" integer,
	"step" integer NOT NULL,
	"attempt" integer NOT NULL,
	"at" timestamp(3) with time zone NOT NULL,
	"text" text NOT NULL,
	"dropped" integer,
	CONSTRAINT "step_log_pkey" PRIMARY KEY("run_id","sequence")
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
CREATE UNIQUE INDEX "agent_sessions_one_open" ON "agent_sessions" ("node_id") WHERE "ended_at" is null;
--> statement-breakpoint
CREATE INDEX "agent_sessions_run" ON "agent_sessions" ("run_id","opened_at");
--> statement-breakpoint
CREATE INDEX "attempts_history" ON "attempts" ("driver","label","finished_at") WHERE "state" = 'SUCCEEDED';
--> statement-breakpoint
CREATE INDEX "images_checksum" ON "images" ("checksum");
--> statement-breakpoint
CREATE INDEX "inventories_newest" ON "inventories" ("node_id","taken_at");
--> statement-breakpoint
CREATE INDEX "node_identities_value" ON "node_identities" ("kind","value");
--> statement-breakpoint
CREATE INDEX "node_macs_node" ON "node_macs" ("node_id");
--> statement-breakpoint
CREATE INDEX "nodes_cluster" ON "nodes" ("cluster_id","name");
--> statement-breakpoint
CREATE INDEX "nodes_natural" ON "nodes" (natural_key("name"),"id");
--> statement-breakpoint
CREATE INDEX "nodes_by_state" ON "nodes" ("state","id");
--> statement-breakpoint
CREATE INDEX "nodes_by_cluster" ON "nodes" (coalesce("cluster_id"::text, 'none'),"id");
--> statement-breakpoint
CREATE INDEX "nodes_created" ON "nodes" ("created_at","id");
--> statement-breakpoint
CREATE INDEX "nodes_updated" ON "nodes" ("updated_at","id");
--> statement-breakpoint
CREATE INDEX "nodes_labels" ON "nodes" USING gin (label_pairs("labels"));
--> statement-breakpoint
CREATE INDEX "nodes_identity_conflict" ON "nodes" (("identity_conflict" ->> 'nodeId')) WHERE "identity_conflict" is not null;
--> statement-breakpoint
CREATE INDEX "operations_batch" ON "operations" ("batch") WHERE "batch" is not null;
--> statement-breakpoint
CREATE INDEX "operations_newest" ON "operations" ("created_at","id");
--> statement-breakpoint
CREATE INDEX "operations_cluster" ON "operations" ("cluster_id","created_at","id");
--> statement-breakpoint
CREATE INDEX "operations_state" ON "operations" ("state","created_at","id");
--> statement-breakpoint
CREATE INDEX "operations_kind" ON "operations" ("kind","created_at","id");
--> statement-breakpoint
CREATE INDEX "operations_unfinished" ON "operations" ("state") WHERE "finished_at" is null;
--> statement-breakpoint
CREATE INDEX "operations_timed" ON "operations" ("created_at") WHERE "finished_at" is null and ("kind" = 'DISCOVER' or "stop_until" is not null or "wave_until" is not null);
--> statement-breakpoint
CREATE INDEX "rejected_callbacks_run" ON "rejected_callbacks" ("run_id","at");
--> statement-breakpoint
CREATE UNIQUE INDEX "runs_one_unfinished" ON "runs" ("node_id") WHERE "finished_at" is null;
--> statement-breakpoint
CREATE INDEX "runs_operation" ON "runs" ("operation_id","ordinal");
--> statement-breakpoint
CREATE INDEX "runs_unfinished" ON "runs" ("operation_id") WHERE "finished_at" is null;
--> statement-breakpoint
CREATE INDEX "runs_node" ON "runs" ("node_id","created_at");
--> statement-breakpoint
CREATE INDEX "runs_due" ON "runs" ("priority","due_at","ordinal") WHERE "due_at" is not null;
--> statement-breakpoint
CREATE INDEX "runs_owned" ON "runs" ("id") WHERE "owner" is not null;
--> statement-breakpoint
CREATE INDEX "runs_stopping" ON "runs" ("stop_until") WHERE "stop_until" is not null;
--> statement-breakpoint
CREATE INDEX "runs_waiting" ON "runs" ("waiting_since","ordinal","id") WHERE "wait_for" is not null;
--> statement-breakpoint
CREATE INDEX "runs_slots" ON "runs" ("slot_phase","slot_controller") WHERE "slot_phase" is not null or "slot_controller" is not null;
--> statement-breakpoint
CREATE INDEX "transitions_operation" ON "transitions" ("operation_id","position");
--> statement-breakpoint
ALTER TABLE "agent_sessions" ADD CONSTRAINT "agent_sessions_node_id_nodes_id_fkey" FOREIGN KEY ("node_id") REFERENCES "nodes"("id") ON DELETE CASCADE;
--> statement-breakpoint
ALTER TABLE "agent_sessions" ADD CONSTRAINT "agent_sessions_run_id_runs_id_fkey" FOREIGN KEY ("run_id") REFERENCES "runs"("id") ON DELETE CASCADE;
--> statement-breakpoint
ALTER TABLE "attempts" ADD CONSTRAINT "attempts_run_id_runs_id_fkey" FOREIGN KEY ("run_id") REFERENCES "runs"("id");
--> statement-breakpoint
ALTER TABLE "discoveries" ADD CONSTRAINT "discoveries_operation_id_operations_id_fkey" FOREIGN KEY ("operation_id") REFERENCES "operations"("id");
--> statement-breakpoint
ALTER TABLE "discovery_secrets" ADD CONSTRAINT "discovery_secrets_operation_id_operations_id_fkey" FOREIGN KEY ("operation_id") REFERENCES "operations"("id");
--> statement-breakpoint
ALTER TABLE "image_secrets" ADD CONSTRAINT "image_secrets_image_id_images_id_fkey" FOREIGN KEY ("image_id") REFERENCES "images"("id") ON DELETE CASCADE;
--> statement-breakpoint
ALTER TABLE "inventories" ADD CONSTRAINT "inventories_node_id_nodes_id_fkey" FOREIGN KEY ("node_id") REFERENCES "nodes"("id") ON DELETE CASCADE;
--> statement-breakpoint
ALTER TABLE "node_identities" ADD CONSTRAINT "node_identities_node_id_nodes_id_fkey" FOREIGN KEY ("node_id") REFERENCES "nodes"("id") ON DELETE CASCADE;
--> statement-breakpoint
ALTER TABLE "node_macs" ADD CONSTRAINT "node_macs_node_id_nodes_id_fkey" FOREIGN KEY ("node_id") REFERENCES "nodes"("id") ON DELETE CASCADE;
--> statement-breakpoint
ALTER TABLE "node_secrets" ADD CONSTRAINT "node_secrets_node_id_nodes_id_fkey" FOREIGN KEY ("node_id") REFERENCES "nodes"("id") ON DELETE CASCADE;
--> statement-breakpoint
ALTER TABLE "nodes" ADD CONSTRAINT "nodes_cluster_id_clusters_id_fkey" FOREIGN KEY ("cluster_id") REFERENCES "clusters"("id") ON DELETE SET NULL;
--> statement-breakpoint
ALTER TABLE "operation_clusters" ADD CONSTRAINT "operation_clusters_operation_id_operations_id_fkey" FOREIGN KEY ("operation_id") REFERENCES "operations"("id");
--> statement-breakpoint
ALTER TABLE "operation_secrets" ADD CONSTRAINT "operation_secrets_operation_id_operations_id_fkey" FOREIGN KEY ("operation_id") REFERENCES "operations"("id") ON DELETE CASCADE;
--> statement-breakpoint
ALTER TABLE "operations" ADD CONSTRAINT "operations_cluster_id_clusters_id_fkey" FOREIGN KEY ("cluster_id") REFERENCES "clusters"("id") ON DELETE SET NULL;
--> statement-breakpoint
ALTER TABLE "rejected_callbacks" ADD CONSTRAINT "rejected_callbacks_run_id_runs_id_fkey" FOREIGN KEY ("run_id") REFERENCES "runs"("id");
--> statement-breakpoint
ALTER TABLE "step_log" ADD CONSTRAINT "step_log_run_id_runs_id_fkey" FOREIGN KEY ("run_id") REFERENCES "runs"("id");
--> statement-breakpoint
ALTER TABLE "transitions" ADD CONSTRAINT "transitions_0kozgmsUuPhM_fkey" FOREIGN KEY ("from_state","event","to_state") REFERENCES "lifecycle_edges"("from_state","event","to_state");
--> statement-breakpoint
-- Rows stay only until they are numbered, so the space of deleted ones is soon needed again.
ALTER TABLE "change_inbox" SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
--> statement-breakpoint
-- Tables of one row.
INSERT INTO "feed_position" ("id", "position") VALUES (true, 0);
--> statement-breakpoint
INSERT INTO "change_position" ("id", "position") VALUES (true, 0);
--> statement-breakpoint
INSERT INTO "clock" DEFAULT VALUES;
--> statement-breakpoint
INSERT INTO "site" ("policy") VALUES ('{}');
--> statement-breakpoint
-- The lifecycle: its legal edges, and that no state changes without its transition.
INSERT INTO "lifecycle_edges" ("from_state", "event", "to_state") VALUES
  ('ENROLLED', 'verify', 'VERIFYING'),
  ('ENROLLED', 'retire', 'DECOMMISSIONED'),
  ('VERIFYING', 'done', 'MANAGEABLE'),
  ('VERIFYING', 'fail', 'ENROLLED'),
  ('VERIFYING', 'abort', 'ENROLLED'),
  ('VERIFYING', 'stop', 'STOPPED'),
  ('MANAGEABLE', 'inspect', 'INSPECTING'),
  ('MANAGEABLE', 'clean', 'CLEANING'),
  ('MANAGEABLE', 'retire', 'DECOMMISSIONED'),
  ('INSPECTING', 'wait', 'INSPECT_WAIT'),
  ('INSPECTING', 'done', 'MANAGEABLE'),
  ('INSPECTING', 'fail', 'INSPECT_FAILED'),
  ('INSPECTING', 'abort', 'INSPECT_FAILED'),
  ('INSPECTING', 'stop', 'STOPPED'),
  ('INSPECT_WAIT', 'resume', 'INSPECTING'),
  ('INSPECT_WAIT', 'done', 'MANAGEABLE'),
  ('INSPECT_WAIT', 'fail', 'INSPECT_FAILED'),
  ('INSPECT_WAIT', 'abort', 'INSPECT_FAILED'),
  ('INSPECT_WAIT', 'stop', 'STOPPED'),
  ('INSPECT_FAILED', 'inspect', 'INSPECTING'),
  ('INSPECT_FAILED', 'manage', 'MANAGEABLE'),
  ('CLEANING', 'wait', 'CLEAN_WAIT'),
  ('CLEANING', 'hold', 'CLEAN_HOLD'),
  ('CLEANING', 'done', 'AVAILABLE'),
  ('CLEANING', 'manage', 'MANAGEABLE'),
  ('CLEANING', 'retire', 'DECOMMISSIONED'),
  ('CLEANING', 'fail', 'CLEAN_FAILED'),
  ('CLEANING', 'abort', 'CLEAN_FAILED'),
  ('CLEANING', 'stop', 'STOPPED'),
  ('CLEAN_WAIT', 'resume', 'CLEANING'),
  ('CLEAN_WAIT', 'hold', 'CLEAN_HOLD'),
  ('CLEAN_WAIT', 'done', 'AVAILABLE'),
  ('CLEAN_WAIT', 'manage', 'MANAGEABLE'),
  ('CLEAN_WAIT', 'retire', 'DECOMMISSIONED'),
  ('CLEAN_WAIT', 'fail', 'CLEAN_FAILED'),
  ('CLEAN_WAIT', 'abort', 'CLEAN_FAILED'),
  ('CLEAN_WAIT', 'stop', 'STOPPED'),
  ('CLEAN_HOLD', 'unhold', 'CLEAN_WAIT'),
  ('CLEAN_HOLD', 'fail', 'CLEAN_FAILED'),
  ('CLEAN_HOLD', 'abort', 'CLEAN_FAILED'),
  ('CLEAN_HOLD', 'stop', 'STOPPED'),
  ('CLEAN_FAILED', 'clean', 'CLEANING'),
  ('CLEAN_FAILED', 'manage', 'MANAGEABLE'),
  ('CLEAN_FAILED', 'retire', 'DECOMMISSIONED'),
  ('AVAILABLE', 'clean', 'CLEANING'),
  ('AVAILABLE', 'deploy', 'DEPLOYING'),
  ('AVAILABLE', 'manage', 'MANAGEABLE'),
  ('AVAILABLE', 'retire', 'DECOMMISSIONED'),
  ('DEPLOYING', 'wait', 'DEPLOY_WAIT'),
  ('DEPLOYING', 'hold', 'DEPLOY_HOLD'),
  ('DEPLOYING', 'done', 'ACTIVE'),
  ('DEPLOYING', 'fail', 'DEPLOY_FAILED'),
  ('DEPLOYING', 'abort', 'DEPLOY_FAILED'),
  ('DEPLOYING', 'stop', 'STOPPED'),
  ('DEPLOY_WAIT', 'resume', 'DEPLOYING'),
  ('DEPLOY_WAIT', 'hold', 'DEPLOY_HOLD'),
  ('DEPLOY_WAIT', 'done', 'ACTIVE'),
  ('DEPLOY_WAIT', 'fail', 'DEPLOY_FAILED'),
  ('DEPLOY_WAIT', 'abort', 'DEPLOY_FAILED'),
  ('DEPLOY_WAIT', 'stop', 'STOPPED'),
  ('DEPLOY_HOLD', 'unhold', 'DEPLOY_WAIT'),
  ('DEPLOY_HOLD', 'fail', 'DEPLOY_FAILED'),
  ('DEPLOY_HOLD', 'abort', 'DEPLOY_FAILED'),
  ('DEPLOY_HOLD', 'stop', 'STOPPED'),
  ('DEPLOY_FAILED', 'deploy', 'DEPLOYING'),
  ('DEPLOY_FAILED', 'undeploy', 'UNDEPLOYING'),
  ('ACTIVE', 'deploy', 'DEPLOYING'),
  ('ACTIVE', 'undeploy', 'UNDEPLOYING'),
  ('UNDEPLOYING', 'wait', 'UNDEPLOY_WAIT'),
  ('UNDEPLOYING', 'clean', 'CLEANING'),
  ('UNDEPLOYING', 'retire', 'DECOMMISSIONED'),
  ('UNDEPLOYING', 'fail', 'UNDEPLOY_FAILED'),
  ('UNDEPLOYING', 'abort', 'UNDEPLOY_FAILED'),
  ('UNDEPLOYING', 'stop', 'STOPPED'),
  ('UNDEPLOY_WAIT', 'resume', 'UNDEPLOYING'),
  ('UNDEPLOY_WAIT', 'clean', 'CLEANING'),
  ('UNDEPLOY_WAIT', 'retire', 'DECOMMISSIONED'),
  ('UNDEPLOY_WAIT', 'fail', 'UNDEPLOY_FAILED'),
  ('UNDEPLOY_WAIT', 'abort', 'UNDEPLOY_FAILED'),
  ('UNDEPLOY_WAIT', 'stop', 'STOPPED'),
  ('UNDEPLOY_FAILED', 'undeploy', 'UNDEPLOYING'),
  ('UNDEPLOY_FAILED', 'retire', 'DECOMMISSIONED'),
  ('STOPPED', 'verify', 'VERIFYING'),
  ('STOPPED', 'inspect', 'INSPECTING'),
  ('STOPPED', 'clean', 'CLEANING'),
  ('STOPPED', 'deploy', 'DEPLOYING'),
  ('STOPPED', 'undeploy', 'UNDEPLOYING'),
  ('STOPPED', 'manage', 'MANAGEABLE'),
  ('DECOMMISSIONED', 'clean', 'CLEANING'),
  ('DECOMMISSIONED', 'manage', 'MANAGEABLE'),
  ('ENROLLED', 'recover', 'ENROLLED'),
  ('MANAGEABLE', 'recover', 'MANAGEABLE'),
  ('AVAILABLE', 'recover', 'AVAILABLE'),
  ('ACTIVE', 'recover', 'ACTIVE'),
  ('STOPPED', 'recover', 'STOPPED'),
  ('DECOMMISSIONED', 'recover', 'DECOMMISSIONED'),
  ('VERIFYING', 'recover', 'VERIFYING'),
  ('INSPECTING', 'recover', 'INSPECTING'),
  ('INSPECT_FAILED', 'recover', 'INSPECT_FAILED'),
  ('CLEANING', 'recover', 'CLEANING'),
  ('CLEAN_FAILED', 'recover', 'CLEAN_FAILED'),
  ('DEPLOYING', 'recover', 'DEPLOYING'),
  ('DEPLOY_FAILED', 'recover', 'DEPLOY_FAILED'),
  ('UNDEPLOYING', 'recover', 'UNDEPLOYING'),
  ('UNDEPLOY_FAILED', 'recover', 'UNDEPLOY_FAILED');
--> statement-breakpoint
-- An abort can be pending, or withdrawn, in every state.
INSERT INTO "lifecycle_edges" ("from_state", "event", "to_state")
SELECT state, event, state
FROM (SELECT from_state AS state FROM "lifecycle_edges" UNION SELECT to_state FROM "lifecycle_edges") AS states
CROSS JOIN (VALUES ('abort_pending'), ('abort_withdrawn')) AS events (event);
--> statement-breakpoint
-- A node begins ENROLLED, changes only along an edge, and counts its transitions.
CREATE FUNCTION "refuse_illegal_edge"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    IF NEW.state <> 'ENROLLED' OR NEW.transition_count <> 1 THEN
      RAISE EXCEPTION 'illegal transition: a node is registered ENROLLED, not %', NEW.state USING ERRCODE = 'check_violation';
    END IF;
  ELSIF NEW.transition_count <> OLD.transition_count + 1
     OR NOT EXISTS (SELECT FROM lifecycle_edges WHERE from_state = OLD.state AND to_state = NEW.state) THEN
    RAISE EXCEPTION 'illegal transition: no edge leads from % to %', OLD.state, NEW.state USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
--> statement-breakpoint
CREATE TRIGGER "nodes_legal_insert" BEFORE INSERT ON "nodes" FOR EACH ROW EXECUTE FUNCTION refuse_illegal_edge();
--> statement-breakpoint
CREATE TRIGGER "nodes_legal_update" BEFORE UPDATE OF "state", "transition_count" ON "nodes" FOR EACH ROW
  WHEN (OLD.state IS DISTINCT FROM NEW.state OR OLD.transition_count IS DISTINCT FROM NEW.transition_count)
  EXECUTE FUNCTION refuse_illegal_edge();
--> statement-breakpoint
-- At commit every change of state, and every end of a node, has its row in the log.
CREATE FUNCTION "require_transition"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' THEN
    IF NOT EXISTS (SELECT FROM transitions WHERE node_id = OLD.id AND sequence = OLD.transition_count + 1 AND to_state IS NULL) THEN
      RAISE EXCEPTION 'node % was deleted without a transition', OLD.name USING ERRCODE = 'check_violation';
    END IF;
  ELSIF NOT EXISTS (SELECT FROM transitions WHERE node_id = NEW.id AND sequence = NEW.transition_count AND to_state = NEW.state) THEN
    RAISE EXCEPTION 'node % became % without a transition', NEW.name, NEW.state USING ERRCODE = 'check_violation';
  END IF;
  RETURN NULL;
END $$;
--> statement-breakpoint
CREATE CONSTRAINT TRIGGER "nodes_logged" AFTER INSERT OR DELETE ON "nodes" DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION require_transition();
--> statement-breakpoint
CREATE CONSTRAINT TRIGGER "nodes_logged_update" AFTER UPDATE OF "state", "transition_count" ON "nodes" DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
  WHEN (OLD.transition_count IS DISTINCT FROM NEW.transition_count) EXECUTE FUNCTION require_transition();
--> statement-breakpoint
CREATE FUNCTION "refuse_rewriting"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'transitions are append only' USING ERRCODE = 'check_violation';
END $$;
--> statement-breakpoint
CREATE TRIGGER "transitions_append_only" BEFORE UPDATE ON "transitions" FOR EACH ROW EXECUTE FUNCTION refuse_rewriting();
--> statement-breakpoint
-- References of runs, by triggers in place of foreign keys (decision 0054): the operation and the plan of new runs are
-- looked up once per statement. As with a foreign key, the rows are locked until the transaction ends, and the error
-- names the constraint.
CREATE FUNCTION "check_new_runs"() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  missing text;
BEGIN
  PERFORM FROM operations WHERE id IN (SELECT operation_id FROM created) ORDER BY id FOR KEY SHARE;
  SELECT operation_id INTO missing FROM created
  WHERE NOT EXISTS (SELECT FROM operations WHERE id = operation_id) LIMIT 1;
  IF missing IS NOT NULL THEN
    RAISE foreign_key_violation USING MESSAGE = format('a new run refers to operation %s, which is not stored', missing),
      TABLE = 'runs', CONSTRAINT = 'runs_operation_id_operations_id_fkey';
  END IF;
  PERFORM FROM plans WHERE hash IN (SELECT plan_hash FROM created) ORDER BY hash FOR KEY SHARE;
  SELECT plan_hash INTO missing FROM created WHERE NOT EXISTS (SELECT FROM plans WHERE hash = plan_hash) LIMIT 1;
  IF missing IS NOT NULL THEN
    RAISE foreign_key_violation USING MESSAGE = format('a new run refers to plan %s, which is not stored', missing),
      TABLE = 'runs', CONSTRAINT = 'runs_plan_hash_plans_hash_fkey';
  END IF;
  RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER "runs_refer" AFTER INSERT ON "runs" REFERENCING NEW TABLE AS created FOR EACH STATEMENT
  EXECUTE FUNCTION check_new_runs();
--> statement-breakpoint
CREATE FUNCTION "check_deleted_operations"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM runs JOIN deleted ON runs.operation_id = deleted.id) THEN
    RAISE foreign_key_violation USING MESSAGE = 'an operation that has runs is not deleted',
      TABLE = 'runs', CONSTRAINT = 'runs_operation_id_operations_id_fkey';
  END IF;
  RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER "operations_referred" AFTER DELETE ON "operations" REFERENCING OLD TABLE AS deleted FOR EACH STATEMENT
  EXECUTE FUNCTION check_deleted_operations();
--> statement-breakpoint
CREATE FUNCTION "check_deleted_plans"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM runs JOIN deleted ON runs.plan_hash = deleted.hash) THEN
    RAISE foreign_key_violation USING MESSAGE = 'a plan of a run is not deleted',
      TABLE = 'runs', CONSTRAINT = 'runs_plan_hash_plans_hash_fkey';
  END IF;
  RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER "plans_referred" AFTER DELETE ON "plans" REFERENCING OLD TABLE AS deleted FOR EACH STATEMENT
  EXECUTE FUNCTION check_deleted_plans();
--> statement-breakpoint
CREATE FUNCTION "keep_reference"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE foreign_key_violation USING MESSAGE = 'a run keeps its operation and its plan, and these their keys',
    TABLE = TG_TABLE_NAME, CONSTRAINT = TG_NAME;
END $$;
--> statement-breakpoint
CREATE TRIGGER "runs_keep_references" BEFORE UPDATE OF operation_id, plan_hash ON "runs" FOR EACH ROW
  WHEN (NEW.operation_id <> OLD.operation_id OR NEW.plan_hash <> OLD.plan_hash) EXECUTE FUNCTION keep_reference();
--> statement-breakpoint
CREATE TRIGGER "operations_keep_id" BEFORE UPDATE OF id ON "operations" FOR EACH ROW WHEN (NEW.id <> OLD.id)
  EXECUTE FUNCTION keep_reference();
--> statement-breakpoint
CREATE TRIGGER "plans_keep_hash" BEFORE UPDATE OF hash ON "plans" FOR EACH ROW WHEN (NEW.hash <> OLD.hash)
  EXECUTE FUNCTION keep_reference();
--> statement-breakpoint
-- Changes (decision 0037): triggers record those of every writer. Conditions are in the functions, not in WHEN:
-- PostgreSQL parses a condition of WHEN again in each statement, which costs 60 µs for the columns of a node, also if
-- nothing is recorded. UPDATE OF costs nothing.

-- Numbers changes that have committed, in the order in which they were written, and returns how many. One statement, so
-- no client holds the lock.
CREATE FUNCTION "number_changes"("most" integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE newest bigint; moved integer;
BEGIN
  SELECT position INTO newest FROM change_position FOR UPDATE;
  WITH taken AS (DELETE FROM change_inbox WHERE id IN (SELECT id FROM change_inbox ORDER BY id LIMIT most) RETURNING *)
  INSERT INTO changes (position, subject, subject_id, node_id, operation_id, event, fields, before, at)
  SELECT newest + row_number() OVER (ORDER BY id), subject, subject_id, node_id, operation_id, event, fields, before, at FROM taken;
  GET DIAGNOSTICS moved = ROW_COUNT;
  IF moved > 0 THEN
    UPDATE change_position SET position = newest + moved;
  END IF;
  RETURN moved;
END $$;
--> statement-breakpoint
-- What filters see of a node. Whether it is in maintenance or retired, not why.
CREATE FUNCTION "change_facts"("node" "nodes", "cluster_name" text) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
  SELECT jsonb_build_object('name', node.name,
    'state', node.state,
    'powerState', node.power_state,
    'wantedPower', node.wanted_power,
    'presence', node.presence,
    'maintenance', node.maintenance_since IS NOT NULL,
    'retired', node.retired_reason IS NOT NULL,
    'faultKind', node.fault_kind,
    'isProtected', node.is_protected,
    'clusterId', node.cluster_id,
    'clusterName', cluster_name,
    'driver', node.driver,
    'macs', node.macs,
    'labels', node.labels,
    'hostGroup', node.host_group,
    'diskless', node.diskless,
    'model', node.model,
    'errorCode', node.last_error ->> 'code') $$;
--> statement-breakpoint
CREATE FUNCTION "record_node_change"() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE changed text[]; facts jsonb; cluster_name text;
BEGIN
  IF TG_OP = 'INSERT' THEN
    INSERT INTO change_inbox (subject, subject_id, event, fields) VALUES ('NODE', NEW.id, 'CREATED', '{}');
    RETURN NULL;
  ELSIF TG_OP = 'DELETE' THEN
    INSERT INTO change_inbox (subject, subject_id, event, fields, before)
    VALUES ('NODE', OLD.id, 'DELETED', '{}', change_facts(OLD, (SELECT name FROM clusters WHERE id = OLD.cluster_id)));
    RETURN NULL;
  END IF;
  changed := array_remove(ARRAY[
      CASE WHEN OLD.name IS DISTINCT FROM NEW.name THEN 'NAME' END,
      CASE WHEN OLD.project IS DISTINCT FROM NEW.project THEN 'PROJECT' END,
      CASE WHEN (OLD.state, OLD.transition_count) IS DISTINCT FROM (NEW.state, NEW.transition_count) THEN 'STATE' END,
      CASE WHEN OLD.stage IS DISTINCT FROM NEW.stage THEN 'STAGE' END,
      CASE WHEN (OLD.power_state, OLD.power_read_at, OLD.wanted_power, OLD.power_problem, OLD.power_problem_kind) IS DISTINCT FROM (NEW.power_state, NEW.power_read_at, NEW.wanted_power, NEW.power_problem, NEW.power_problem_kind) THEN 'POWER' END,
      CASE WHEN OLD.presence IS DISTINCT FROM NEW.presence THEN 'PRESENCE' END,
      CASE WHEN (OLD.maintenance_reason, OLD.maintenance_since, OLD.maintenance_by) IS DISTINCT FROM (NEW.maintenance_reason, NEW.maintenance_since, NEW.maintenance_by) THEN 'MAINTENANCE' END,
      CASE WHEN (OLD.fault_kind, OLD.fault_since, OLD.fault_message) IS DISTINCT FROM (NEW.fault_kind, NEW.fault_since, NEW.fault_message) THEN 'FAULT' END,
      CASE WHEN OLD.is_protected IS DISTINCT FROM NEW.is_protected THEN 'PROTECTED' END,
      CASE WHEN OLD.retired_reason IS DISTINCT FROM NEW.retired_reason THEN 'RETIRED' END,
      CASE WHEN OLD.labels IS DISTINCT FROM NEW.labels THEN 'LABELS' END,
      CASE WHEN OLD.cluster_id IS DISTINCT FROM NEW.cluster_id THEN 'CLUSTER' END,
      CASE WHEN (OLD.driver, OLD.borrowed, OLD.fallbacks, OLD.settings) IS DISTINCT FROM (NEW.driver, NEW.borrowed, NEW.fallbacks, NEW.settings) THEN 'SETTINGS' END,
      CASE WHEN OLD.macs IS DISTINCT FROM NEW.macs THEN 'MACS' END,
      CASE WHEN (OLD.controller, OLD.shared_controller) IS DISTINCT FROM (NEW.controller, NEW.shared_controller) THEN 'CONTROLLER' END,
      CASE WHEN OLD.identity_conflict IS DISTINCT FROM NEW.identity_conflict THEN 'IDENTITY_CONFLICT' END,
      CASE WHEN OLD.last_error IS DISTINCT FROM NEW.last_error THEN 'LAST_ERROR' END,
      CASE WHEN OLD.image_id IS DISTINCT FROM NEW.image_id THEN 'IMAGE' END,
      CASE WHEN OLD.host_group IS DISTINCT FROM NEW.host_group THEN 'HOST_GROUP' END,
      CASE WHEN OLD.automatic_cleaning IS DISTINCT FROM NEW.automatic_cleaning THEN 'AUTOMATIC_CLEANING' END,
      CASE WHEN OLD.diskless IS DISTINCT FROM NEW.diskless THEN 'DISKLESS' END,
      CASE WHEN OLD.description IS DISTINCT FROM NEW.description THEN 'DESCRIPTION' END,
      CASE WHEN OLD.model IS DISTINCT FROM NEW.model THEN 'MODEL' END
  ], NULL);
  -- A revision is visible, and `ifRevision` needs it, also if nothing else changed.
  IF changed = '{}' AND OLD.revision = NEW.revision THEN
    RETURN NULL;
  END IF;
  IF (OLD.name, OLD.state, OLD.power_state, OLD.wanted_power, OLD.presence, OLD.maintenance_since, OLD.retired_reason, OLD.fault_kind, OLD.is_protected, OLD.cluster_id, OLD.driver, OLD.macs, OLD.labels, OLD.host_group, OLD.diskless, OLD.model, OLD.last_error) IS DISTINCT FROM (NEW.name, NEW.state, NEW.power_state, NEW.wanted_power, NEW.presence, NEW.maintenance_since, NEW.retired_reason, NEW.fault_kind, NEW.is_protected, NEW.cluster_id, NEW.driver, NEW.macs, NEW.labels, NEW.host_group, NEW.diskless, NEW.model, NEW.last_error) THEN
    IF OLD.cluster_id IS NOT NULL THEN
      cluster_name := (SELECT name FROM clusters WHERE id = OLD.cluster_id);
    END IF;
    -- As change_facts, which would be planned again in each transaction.
    facts := jsonb_build_object('name', OLD.name,
    'state', OLD.state,
    'powerState', OLD.power_state,
    'wantedPower', OLD.wanted_power,
    'presence', OLD.presence,
    'maintenance', OLD.maintenance_since IS NOT NULL,
    'retired', OLD.retired_reason IS NOT NULL,
    'faultKind', OLD.fault_kind,
    'isProtected', OLD.is_protected,
    'clusterId', OLD.cluster_id,
    'clusterName', cluster_name,
    'driver', OLD.driver,
    'macs', OLD.macs,
    'labels', OLD.labels,
    'hostGroup', OLD.host_group,
    'diskless', OLD.diskless,
    'model', OLD.model,
    'errorCode', OLD.last_error ->> 'code');
  END IF;
  INSERT INTO change_inbox (subject, subject_id, event, fields, before) VALUES ('NODE', OLD.id, 'CHANGED', changed, facts);
  RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER "nodes_recorded" AFTER INSERT OR DELETE ON "nodes" FOR EACH ROW EXECUTE FUNCTION record_node_change();
--> statement-breakpoint
CREATE TRIGGER "nodes_recorded_update" AFTER UPDATE OF "name", "project", "state", "transition_count", "stage", "power_state", "power_read_at", "wanted_power", "power_problem", "power_problem_kind", "presence", "maintenance_reason", "maintenance_since", "maintenance_by", "fault_kind", "fault_since", "fault_message", "is_protected", "retired_reason", "labels", "cluster_id", "driver", "borrowed", "fallbacks", "settings", "macs", "controller", "shared_controller", "identity_conflict", "last_error", "image_id", "host_group", "automatic_cleaning", "diskless", "description", "model", "revision" ON "nodes" FOR EACH ROW
  EXECUTE FUNCTION record_node_change();
--> statement-breakpoint
-- Secrets and inventories belong to a node; theirs disappear with it, which is no change of them.
CREATE FUNCTION "record_node_part"() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE node uuid := CASE WHEN TG_OP = 'DELETE' THEN OLD.node_id ELSE NEW.node_id END;
BEGIN
  IF TG_OP = 'DELETE' AND NOT EXISTS (SELECT FROM nodes WHERE id = node) THEN
    RETURN NULL;
  END IF;
  INSERT INTO change_inbox (subject, subject_id, event, fields) VALUES ('NODE', node, 'CHANGED', ARRAY[TG_ARGV[0]]);
  RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER "node_secrets_recorded" AFTER INSERT OR DELETE ON "node_secrets" FOR EACH ROW EXECUTE FUNCTION record_node_part('SETTINGS');
--> statement-breakpoint
CREATE TRIGGER "node_secrets_recorded_update" AFTER UPDATE ON "node_secrets" FOR EACH ROW
  WHEN (OLD.secrets IS DISTINCT FROM NEW.secrets) EXECUTE FUNCTION record_node_part('SETTINGS');
--> statement-breakpoint
CREATE TRIGGER "inventories_recorded" AFTER INSERT OR DELETE ON "inventories" FOR EACH ROW EXECUTE FUNCTION record_node_part('INVENTORY');
--> statement-breakpoint
-- A cluster's name is part of what filters see of its nodes. They are locked, so that the facts stay as recorded.
CREATE FUNCTION "record_cluster_change"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    INSERT INTO change_inbox (subject, subject_id, event, fields) VALUES ('CLUSTER', NEW.id, 'CREATED', '{}');
    RETURN NEW;
  END IF;
  IF TG_OP = 'DELETE' THEN
    INSERT INTO change_inbox (subject, subject_id, event, fields, before)
    VALUES ('CLUSTER', OLD.id, 'DELETED', '{}', jsonb_build_object('name', OLD.name));
  ELSE
    INSERT INTO change_inbox (subject, subject_id, event, fields) VALUES ('CLUSTER', OLD.id, 'CHANGED', array_remove(ARRAY[
      CASE WHEN OLD.name IS DISTINCT FROM NEW.name THEN 'NAME' END,
      CASE WHEN OLD.variables IS DISTINCT FROM NEW.variables THEN 'SETTINGS' END,
      CASE WHEN OLD.revision IS DISTINCT FROM NEW.revision THEN 'MEMBERS' END
    ], NULL));
    IF OLD.name = NEW.name THEN
      RETURN NEW;
    END IF;
  END IF;
  PERFORM FROM nodes WHERE cluster_id = OLD.id ORDER BY id FOR NO KEY UPDATE;
  INSERT INTO change_inbox (subject, subject_id, event, fields, before)
  SELECT 'NODE', n.id, 'CHANGED', ARRAY['CLUSTER'], change_facts(n, OLD.name) FROM nodes n WHERE n.cluster_id = OLD.id;
  RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
END $$;
--> statement-breakpoint
CREATE TRIGGER "clusters_recorded" AFTER INSERT ON "clusters" FOR EACH ROW EXECUTE FUNCTION record_cluster_change();
--> statement-breakpoint
CREATE TRIGGER "clusters_recorded_delete" BEFORE DELETE ON "clusters" FOR EACH ROW EXECUTE FUNCTION record_cluster_change();
--> statement-breakpoint
CREATE TRIGGER "clusters_recorded_update" AFTER UPDATE ON "clusters" FOR EACH ROW
  WHEN ((OLD.name, OLD.variables, OLD.revision) IS DISTINCT FROM (NEW.name, NEW.variables, NEW.revision)) EXECUTE FUNCTION record_cluster_change();
--> statement-breakpoint
CREATE FUNCTION "record_operation_change"() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE changed text[];
BEGIN
  IF TG_OP = 'INSERT' THEN
    INSERT INTO change_inbox (subject, subject_id, event, fields) VALUES ('OPERATION', NEW.id, 'CREATED', '{}');
    RETURN NULL;
  END IF;
  changed := array_remove(ARRAY[
    CASE WHEN (OLD.state, OLD.started_at, OLD.finished_at) IS DISTINCT FROM (NEW.state, NEW.started_at, NEW.finished_at) THEN 'STATE' END,
    CASE WHEN OLD.total_count IS DISTINCT FROM NEW.total_count THEN 'PROGRESS' END,
    CASE WHEN (OLD.waves, OLD.wave, OLD.wave_state, OLD.wave_reason, OLD.wave_by, OLD.wave_until) IS DISTINCT FROM (NEW.waves, NEW.wave, NEW.wave_state, NEW.wave_reason, NEW.wave_by, NEW.wave_until) THEN 'WAVES' END,
    CASE WHEN (OLD.interrupt, OLD.interrupt_by, OLD.interrupt_reason, OLD.interrupt_at) IS DISTINCT FROM (NEW.interrupt, NEW.interrupt_by, NEW.interrupt_reason, NEW.interrupt_at) THEN 'INTERRUPT' END,
    CASE WHEN OLD.first_failure IS DISTINCT FROM NEW.first_failure THEN 'FAILURE' END,
    CASE WHEN (OLD.cluster_id, OLD.on_failure, OLD.max_parallel, OLD.options, OLD.variables) IS DISTINCT FROM (NEW.cluster_id, NEW.on_failure, NEW.max_parallel, NEW.options, NEW.variables) THEN 'OPTIONS' END
  ], NULL);
  IF changed <> '{}' THEN
    INSERT INTO change_inbox (subject, subject_id, event, fields, before) VALUES ('OPERATION', OLD.id, 'CHANGED', changed,
      CASE WHEN OLD.state <> NEW.state THEN jsonb_build_object('state', OLD.state) END);
  END IF;
  RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER "operations_recorded" AFTER INSERT ON "operations" FOR EACH ROW EXECUTE FUNCTION record_operation_change();
--> statement-breakpoint
CREATE TRIGGER "operations_recorded_update" AFTER UPDATE OF "state", "started_at", "finished_at", "total_count", "waves", "wave", "wave_state", "wave_reason", "wave_by", "wave_until", "interrupt", "interrupt_by", "interrupt_reason", "interrupt_at", "first_failure", "cluster_id", "on_failure", "max_parallel", "options", "variables" ON "operations" FOR EACH ROW
  EXECUTE FUNCTION record_operation_change();
--> statement-breakpoint
-- A run is a part of its node and of its operation, whose readers find it by their ids. New runs are recorded once per
-- statement (decision 0049), which takes two thirds of what a trigger for each row takes.
CREATE FUNCTION "record_new_runs"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO change_inbox (subject, subject_id, node_id, operation_id, event, fields)
  SELECT 'RUN', id, node_id, operation_id, 'CREATED', '{}' FROM created;
  RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER "runs_recorded" AFTER INSERT ON "runs" REFERENCING NEW TABLE AS created FOR EACH STATEMENT
  EXECUTE FUNCTION record_new_runs();
--> statement-breakpoint
CREATE FUNCTION "record_run_change"() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE changed text[];
BEGIN
  IF TG_OP = 'INSERT' THEN
    INSERT INTO change_inbox (subject, subject_id, node_id, operation_id, event, fields)
    VALUES ('RUN', NEW.id, NEW.node_id, NEW.operation_id, 'CREATED', '{}');
    RETURN NULL;
  END IF;
  changed := array_remove(ARRAY[
    CASE WHEN (OLD.state, OLD.started_at, OLD.finished_at) IS DISTINCT FROM (NEW.state, NEW.started_at, NEW.finished_at) THEN 'STATE' END,
    CASE WHEN (OLD.leg, OLD.position, OLD.generation) IS DISTINCT FROM (NEW.leg, NEW.position, NEW.generation) THEN 'STEP' END,
    CASE WHEN (OLD.wake_at, OLD.wait_reason, OLD.waiting_since, OLD.wait_for) IS DISTINCT FROM (NEW.wake_at, NEW.wait_reason, NEW.waiting_since, NEW.wait_for) THEN 'WAIT' END,
    CASE WHEN (OLD.interrupt, OLD.interrupt_by, OLD.interrupt_reason, OLD.interrupt_at, OLD.interrupt_mode, OLD.power_off) IS DISTINCT FROM (NEW.interrupt, NEW.interrupt_by, NEW.interrupt_reason, NEW.interrupt_at, NEW.interrupt_mode, NEW.power_off) THEN 'INTERRUPT' END,
    CASE WHEN (OLD.failure, OLD.errors, OLD.interrupt_failure, OLD.left_as) IS DISTINCT FROM (NEW.failure, NEW.errors, NEW.interrupt_failure, NEW.left_as) THEN 'FAILURE' END
  ], NULL);
  IF changed <> '{}' THEN
    INSERT INTO change_inbox (subject, subject_id, node_id, operation_id, event, fields)
    VALUES ('RUN', NEW.id, NEW.node_id, NEW.operation_id, 'CHANGED', changed);
  END IF;
  RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER "runs_recorded_update" AFTER UPDATE OF "state", "started_at", "finished_at", "leg", "position", "generation", "wake_at", "wait_reason", "waiting_since", "wait_for", "interrupt", "interrupt_by", "interrupt_reason", "interrupt_at", "interrupt_mode", "power_off", "failure", "errors", "interrupt_failure", "left_as" ON "runs" FOR EACH ROW
  EXECUTE FUNCTION record_run_change();
--> statement-breakpoint
CREATE FUNCTION "record_run_progress"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF (OLD.progress_percent, OLD.progress_message, OLD.part) IS DISTINCT FROM (NEW.progress_percent, NEW.progress_message, NEW.part) THEN
    INSERT INTO change_inbox (subject, subject_id, node_id, operation_id, event, fields)
    SELECT 'RUN', id, node_id, operation_id, 'CHANGED', ARRAY['PROGRESS'] FROM runs WHERE id = NEW.run_id;
  END IF;
  RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER "attempts_recorded" AFTER UPDATE OF "progress_percent", "progress_message", "part" ON "attempts" FOR EACH ROW
  EXECUTE FUNCTION record_run_progress();
--> statement-breakpoint
CREATE FUNCTION "record_address_change"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO change_inbox (subject, subject_id, event, fields) VALUES ('OPERATION', NEW.operation_id, 'CHANGED', ARRAY['PROGRESS']);
  RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER "discoveries_recorded" AFTER UPDATE ON "discoveries" FOR EACH ROW
  WHEN (OLD.state <> NEW.state) EXECUTE FUNCTION record_address_change();
