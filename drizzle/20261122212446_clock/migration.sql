CREATE TABLE "clock" (
	"id" boolean PRIMARY KEY DEFAULT true,
	"seen_at" timestamp(3) with time zone DEFAULT now() NOT NULL,
	"steps" integer DEFAULT 0 NOT NULL
);
--> statement-breakpoint
INSERT INTO "clock" DEFAULT VALUES;
