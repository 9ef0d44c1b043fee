ALTER TABLE "nodes" ADD COLUMN "failed_readings" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "nodes" ADD COLUMN "fault_kind" text;--> statement-breakpoint
ALTER TABLE "nodes" ADD COLUMN "fault_since" timestamp(3) with time zone;--> statement-breakpoint
ALTER TABLE "nodes" ADD COLUMN "fault_message" text;