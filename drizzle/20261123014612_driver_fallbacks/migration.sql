ALTER TABLE "attempts" ADD COLUMN "driver_tries" jsonb;--> statement-breakpoint
ALTER TABLE "nodes" ADD COLUMN "fallbacks" jsonb DEFAULT '{}' NOT NULL;