CREATE TABLE "documents" (
	"id" text PRIMARY KEY,
	"text" text NOT NULL,
	"operation" text,
	"kind" text NOT NULL,
	"registered_at" timestamp(3) with time zone DEFAULT now() NOT NULL,
	"registered_by" text NOT NULL
);
--> statement-breakpoint
ALTER TABLE "tokens" ADD COLUMN "documents" jsonb;