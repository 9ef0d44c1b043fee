CREATE TABLE "access_version" (
	"id" boolean PRIMARY KEY DEFAULT true,
	"version" bigint NOT NULL
);
--> statement-breakpoint
CREATE TABLE "accounts" (
	"id" uuid PRIMARY KEY,
	"name" text NOT NULL,
	"display_name" text,
	"disabled_at" timestamp(3) with time zone,
	"created_at" timestamp(3) with time zone DEFAULT now() NOT NULL,
	"created_by" text NOT NULL
);
--> statement-breakpoint
CREATE TABLE "grants" (
	"principal" text NOT NULL,
	"role" text NOT NULL,
	"project" text,
	"expires_at" timestamp(3) with time zone,
	"granted_at" timestamp(3) with time zone DEFAULT now() NOT NULL,
	"granted_by" text NOT NULL,
	CONSTRAINT "grants_once" UNIQUE NULLS NOT DISTINCT("principal","role","project")
);
--> statement-breakpoint
CREATE TABLE "roles" (
	"name" text PRIMARY KEY,
	"scope" text NOT NULL,
	"description" text,
	"is_built_in" boolean DEFAULT false NOT NULL
);
--> statement-breakpoint
CREATE TABLE "tokens" (
	"id" text PRIMARY KEY,
	"account_id" uuid NOT NULL,
	"hash" text NOT NULL,
	"role" text,
	"description" text,
	"projects" text[],
	"created_at" timestamp(3) with time zone DEFAULT now() NOT NULL,
	"created_by" text NOT NULL,
	"expires_at" timestamp(3) with time zone NOT NULL,
	"revoked_at" timestamp(3) with time zone,
	"revoked_by" text,
	"last_used_at" timestamp(3) with time zone,
	"version" bigint NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX "accounts_name_nocase" ON "accounts" (lower("name" collate "C"));--> statement-breakpoint
CREATE INDEX "tokens_account" ON "tokens" ("account_id");--> statement-breakpoint
CREATE INDEX "tokens_version" ON "tokens" ("version");--> statement-breakpoint
ALTER TABLE "grants" ADD CONSTRAINT "grants_role_roles_name_fkey" FOREIGN KEY ("role") REFERENCES "roles"("name");--> statement-breakpoint
ALTER TABLE "tokens" ADD CONSTRAINT "tokens_account_id_accounts_id_fkey" FOREIGN KEY ("account_id") REFERENCES "accounts"("id");--> statement-breakpoint
ALTER TABLE "tokens" ADD CONSTRAINT "tokens_role_roles_name_fkey" FOREIGN KEY ("role") REFERENCES "roles"("name");--> statement-breakpoint
INSERT INTO "access_version" ("version") VALUES (0);--> statement-breakpoint
INSERT INTO "roles" ("name", "scope", "description", "is_built_in") VALUES
	('viewer', 'READ', 'Sees everything but accounts.', true),
	('operator', 'OPERATE', 'Runs verbs, power, interrupts, waves and holds.', true),
	('manager', 'MANAGE', 'Changes nodes, clusters, runbooks and images; may force and choose steps.', true),
	('admin', 'ADMIN', 'Changes the policy of the site, accounts, tokens and roles.', true);
