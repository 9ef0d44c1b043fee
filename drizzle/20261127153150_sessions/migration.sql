CREATE TABLE "sessions" (
	"id" text PRIMARY KEY,
	"hash" text NOT NULL,
	"subject" text NOT NULL,
	"name" text,
	"groups" text[] NOT NULL,
	"token_id" text,
	"created_at" timestamp(3) with time zone DEFAULT now() NOT NULL,
	"last_used_at" timestamp(3) with time zone DEFAULT now() NOT NULL,
	"expires_at" timestamp(3) with time zone NOT NULL,
	"ended_at" timestamp(3) with time zone,
	"version" bigint NOT NULL
);
--> statement-breakpoint
CREATE TABLE "subjects" (
	"subject" text PRIMARY KEY,
	"name" text,
	"tokens_from" timestamp(3) with time zone,
	"version" bigint NOT NULL
);
--> statement-breakpoint
CREATE INDEX "sessions_subject" ON "sessions" ("subject");--> statement-breakpoint
CREATE INDEX "sessions_version" ON "sessions" ("version");--> statement-breakpoint
CREATE INDEX "subjects_version" ON "subjects" ("version");--> statement-breakpoint
ALTER TABLE "sessions" ADD CONSTRAINT "sessions_token_id_tokens_id_fkey" FOREIGN KEY ("token_id") REFERENCES "tokens"("id");