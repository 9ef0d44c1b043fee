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
CREATE TABLE "node_macs" (
	"mac" text PRIMARY KEY,
	"node_id" uuid NOT NULL,
	"source" text NOT NULL
);
--> statement-breakpoint
ALTER TABLE "nodes" ADD COLUMN "macs" jsonb DEFAULT '[]' NOT NULL;--> statement-breakpoint
CREATE UNIQUE INDEX "agent_sessions_one_open" ON "agent_sessions" ("node_id") WHERE "ended_at" is null;--> statement-breakpoint
CREATE INDEX "agent_sessions_run" ON "agent_sessions" ("run_id","opened_at");--> statement-breakpoint
CREATE INDEX "node_macs_node" ON "node_macs" ("node_id");--> statement-breakpoint
ALTER TABLE "agent_sessions" ADD CONSTRAINT "agent_sessions_node_id_nodes_id_fkey" FOREIGN KEY ("node_id") REFERENCES "nodes"("id") ON DELETE CASCADE;--> statement-breakpoint
ALTER TABLE "agent_sessions" ADD CONSTRAINT "agent_sessions_run_id_runs_id_fkey" FOREIGN KEY ("run_id") REFERENCES "runs"("id") ON DELETE CASCADE;--> statement-breakpoint
ALTER TABLE "node_macs" ADD CONSTRAINT "node_macs_node_id_nodes_id_fkey" FOREIGN KEY ("node_id") REFERENCES "nodes"("id") ON DELETE CASCADE;