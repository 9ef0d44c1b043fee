ALTER TABLE "operations" ADD COLUMN "stop_until" timestamp(3) with time zone;--> statement-breakpoint
ALTER TABLE "operations" ADD COLUMN "lease_until" timestamp(3) with time zone;--> statement-breakpoint
ALTER TABLE "runs" ADD COLUMN "due_at" timestamp(3) with time zone;--> statement-breakpoint
ALTER TABLE "runs" ADD COLUMN "priority" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "runs" ADD COLUMN "lease_until" timestamp(3) with time zone;--> statement-breakpoint
ALTER TABLE "runs" ADD COLUMN "stop_until" timestamp(3) with time zone;--> statement-breakpoint
CREATE INDEX IF NOT EXISTS "operations_timed" ON "operations" ("created_at") WHERE "finished_at" is null and ("kind" = 'DISCOVER' or "stop_until" is not null or "wave_until" is not null);--> statement-breakpoint
CREATE INDEX IF NOT EXISTS "runs_due" ON "runs" ("priority","due_at","ordinal") WHERE "due_at" is not null;--> statement-breakpoint
CREATE INDEX IF NOT EXISTS "runs_owned" ON "runs" ("id") WHERE "owner" is not null;--> statement-breakpoint
CREATE INDEX IF NOT EXISTS "runs_stopping" ON "runs" ("stop_until") WHERE "stop_until" is not null;