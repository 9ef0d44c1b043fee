DROP INDEX "attempts_history";--> statement-breakpoint
ALTER TABLE "attempts" ADD COLUMN "operation_id" uuid;--> statement-breakpoint
ALTER TABLE "attempts" ADD COLUMN "node_id" uuid;--> statement-breakpoint
ALTER TABLE "attempts" ADD COLUMN "cluster_id" uuid;--> statement-breakpoint
ALTER TABLE "attempts" ADD COLUMN "host_group" text;--> statement-breakpoint
ALTER TABLE "attempts" ADD COLUMN "actor" text;--> statement-breakpoint
ALTER TABLE "nodes" ADD COLUMN "disappeared_at" timestamp(3) with time zone;--> statement-breakpoint
ALTER TABLE "runs" ADD COLUMN "cluster_id" uuid;--> statement-breakpoint
CREATE INDEX IF NOT EXISTS "attempts_newest" ON "attempts" ("started_at");--> statement-breakpoint
CREATE INDEX IF NOT EXISTS "attempts_node" ON "attempts" ("node_id","started_at");--> statement-breakpoint
CREATE INDEX IF NOT EXISTS "attempts_operation" ON "attempts" ("operation_id","started_at");--> statement-breakpoint
CREATE INDEX IF NOT EXISTS "attempts_cluster" ON "attempts" ("cluster_id","started_at") WHERE "cluster_id" is not null;--> statement-breakpoint
CREATE INDEX IF NOT EXISTS "attempts_host_group" ON "attempts" ("host_group","started_at") WHERE "host_group" is not null;--> statement-breakpoint
CREATE INDEX IF NOT EXISTS "attempts_label" ON "attempts" ("label","started_at");--> statement-breakpoint
CREATE INDEX IF NOT EXISTS "attempts_actor" ON "attempts" ("actor","started_at");--> statement-breakpoint
CREATE INDEX IF NOT EXISTS "attempts_failed" ON "attempts" ("started_at") WHERE "failure" is not null;--> statement-breakpoint
CREATE INDEX IF NOT EXISTS "attempts_durations" ON "attempts" ("driver","label","started_at");--> statement-breakpoint
CREATE INDEX IF NOT EXISTS "nodes_disappeared" ON "nodes" ("id") WHERE "presence" = 'DISAPPEARED';--> statement-breakpoint
-- decision 0090: room for the end of an attempt on its page; new pages only, and no table is rewritten.
ALTER TABLE "attempts" SET (fillfactor = 50);
