ALTER TABLE "attempts" ADD COLUMN "aborted" boolean;--> statement-breakpoint
CREATE INDEX IF NOT EXISTS "attempts_aborted" ON "attempts" ("started_at") WHERE "aborted";--> statement-breakpoint
CREATE INDEX IF NOT EXISTS "attempts_node_aborted" ON "attempts" ("node_id","started_at") WHERE "aborted";