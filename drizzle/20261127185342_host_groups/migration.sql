ALTER TABLE "nodes" ADD COLUMN "outputs" jsonb DEFAULT '{}' NOT NULL;--> statement-breakpoint
ALTER TABLE "operations" ADD COLUMN "groups" jsonb;--> statement-breakpoint
ALTER TABLE "runs" ADD COLUMN "group_key" text;--> statement-breakpoint
ALTER TABLE "runs" ADD COLUMN "budget_key" text;--> statement-breakpoint
ALTER TABLE "runs" ADD COLUMN "takes_out" text;--> statement-breakpoint
CREATE INDEX IF NOT EXISTS "nodes_cluster_group" ON "nodes" ("cluster_id","host_group") WHERE "host_group" is not null;--> statement-breakpoint
CREATE INDEX IF NOT EXISTS "runs_host_group" ON "runs" ("host_group") WHERE "host_group" is not null and "finished_at" is null;