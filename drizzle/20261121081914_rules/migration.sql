CREATE TABLE "anomalies" (
	"id" uuid PRIMARY KEY,
	"run_id" uuid NOT NULL,
	"kind" text NOT NULL,
	"step" text,
	"at" timestamp(3) with time zone DEFAULT now() NOT NULL
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
CREATE TABLE "runbooks" (
	"id" uuid PRIMARY KEY,
	"name" text NOT NULL UNIQUE,
	"description" text,
	"steps" jsonb NOT NULL,
	"revision" integer DEFAULT 1 NOT NULL,
	"created_at" timestamp(3) with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp(3) with time zone DEFAULT now() NOT NULL
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
	CONSTRAINT "step_log_pkey" PRIMARY KEY("run_id","sequence")
);
--> statement-breakpoint
DROP INDEX "runs_callback";--> statement-breakpoint
ALTER TABLE "attempts" ADD COLUMN "part" text DEFAULT 'RUN' NOT NULL;--> statement-breakpoint
ALTER TABLE "attempts" ADD COLUMN "label" text;--> statement-breakpoint
ALTER TABLE "attempts" ADD COLUMN "driver" text;--> statement-breakpoint
ALTER TABLE "attempts" ADD COLUMN "model" text;--> statement-breakpoint
ALTER TABLE "nodes" ADD COLUMN "retired_reason" text;--> statement-breakpoint
ALTER TABLE "nodes" ADD COLUMN "automatic_cleaning" boolean;--> statement-breakpoint
ALTER TABLE "nodes" ADD COLUMN "host_group" text;--> statement-breakpoint
ALTER TABLE "nodes" ADD COLUMN "model" text;--> statement-breakpoint
ALTER TABLE "nodes" ADD COLUMN "controller" text;--> statement-breakpoint
ALTER TABLE "nodes" ADD COLUMN "wanted_power" text;--> statement-breakpoint
ALTER TABLE "nodes" ADD COLUMN "power_checked_at" timestamp(3) with time zone;--> statement-breakpoint
ALTER TABLE "nodes" ADD COLUMN "power_problem" text;--> statement-breakpoint
ALTER TABLE "operations" ADD COLUMN "wish_reason" text;--> statement-breakpoint
ALTER TABLE "operations" ADD COLUMN "waves" jsonb;--> statement-breakpoint
ALTER TABLE "operations" ADD COLUMN "wave" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "operations" ADD COLUMN "wave_state" text;--> statement-breakpoint
ALTER TABLE "operations" ADD COLUMN "wave_reason" text;--> statement-breakpoint
ALTER TABLE "operations" ADD COLUMN "wave_by" text;--> statement-breakpoint
ALTER TABLE "operations" ADD COLUMN "wave_until" timestamp(3) with time zone;--> statement-breakpoint
ALTER TABLE "runs" ADD COLUMN "wish_at" timestamp(3) with time zone;--> statement-breakpoint
ALTER TABLE "runs" ADD COLUMN "callback_secret" uuid DEFAULT gen_random_uuid() NOT NULL;--> statement-breakpoint
ALTER TABLE "runs" ADD COLUMN "generation" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "runs" ADD COLUMN "open_generation" integer;--> statement-breakpoint
ALTER TABLE "runs" ADD COLUMN "waiting_since" timestamp(3) with time zone;--> statement-breakpoint
ALTER TABLE "runs" ADD COLUMN "wait_for" text;--> statement-breakpoint
ALTER TABLE "runs" ADD COLUMN "slot_phase" text;--> statement-breakpoint
ALTER TABLE "runs" ADD COLUMN "slot_controller" text;--> statement-breakpoint
ALTER TABLE "runs" ADD COLUMN "controller" text;--> statement-breakpoint
ALTER TABLE "runs" ADD COLUMN "wave" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "runs" DROP COLUMN "callback_token";--> statement-breakpoint
CREATE INDEX "anomalies_run" ON "anomalies" ("run_id","at");--> statement-breakpoint
CREATE INDEX "attempts_history" ON "attempts" ("driver","label","finished_at") WHERE "state" = 'SUCCEEDED';--> statement-breakpoint
CREATE INDEX "runs_waiting" ON "runs" ("waiting_since","ordinal","id") WHERE "wait_for" is not null;--> statement-breakpoint
CREATE INDEX "runs_slots" ON "runs" ("slot_phase","slot_controller") WHERE "slot_phase" is not null or "slot_controller" is not null;--> statement-breakpoint
ALTER TABLE "anomalies" ADD CONSTRAINT "anomalies_run_id_runs_id_fkey" FOREIGN KEY ("run_id") REFERENCES "runs"("id");--> statement-breakpoint
ALTER TABLE "discoveries" ADD CONSTRAINT "discoveries_operation_id_operations_id_fkey" FOREIGN KEY ("operation_id") REFERENCES "operations"("id");--> statement-breakpoint
ALTER TABLE "discovery_secrets" ADD CONSTRAINT "discovery_secrets_operation_id_operations_id_fkey" FOREIGN KEY ("operation_id") REFERENCES "operations"("id");--> statement-breakpoint
ALTER TABLE "step_log" ADD CONSTRAINT "step_log_run_id_runs_id_fkey" FOREIGN KEY ("run_id") REFERENCES "runs"("id");--> statement-breakpoint
INSERT INTO "lifecycle_edges" ("from_state", "event", "to_state")
SELECT state, event, state
FROM (SELECT from_state AS state FROM "lifecycle_edges" UNION SELECT to_state FROM "lifecycle_edges") AS states
CROSS JOIN (VALUES ('abort_pending'), ('abort_withdrawn')) AS events (event);--> statement-breakpoint
INSERT INTO "site" ("policy") VALUES ('{}');--> statement-breakpoint
UPDATE "operations" SET "options" = "options" - 'cleanSteps' || jsonb_build_object('steps', "options" -> 'cleanSteps') WHERE "options" ? 'cleanSteps';
