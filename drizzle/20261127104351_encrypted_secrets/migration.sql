CREATE TABLE "secret_keys" (
	"id" text PRIMARY KEY,
	"number" integer NOT NULL UNIQUE,
	"wrapped" text NOT NULL,
	"created_at" timestamp(3) with time zone DEFAULT now() NOT NULL,
	"rotated_at" timestamp(3) with time zone
);
--> statement-breakpoint
ALTER TABLE "runs" ADD COLUMN "callback_key" text;