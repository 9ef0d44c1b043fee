ALTER TABLE "operations" ADD COLUMN "batch" uuid;--> statement-breakpoint
ALTER TABLE "runs" ADD COLUMN "host_group" text;--> statement-breakpoint
CREATE INDEX IF NOT EXISTS "operations_batch" ON "operations" ("batch") WHERE "batch" is not null;