-- By its bytes: the same in every database, and of use for the beginning of a name.
ALTER TABLE "nodes" ALTER COLUMN "name" SET DATA TYPE text COLLATE "C";--> statement-breakpoint
-- Labels as `key=value`: of the elements of a list PostgreSQL knows which are common, of a JSON object it does not.
CREATE FUNCTION "label_pairs"("labels" jsonb) RETURNS text[] LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
  AS $$ SELECT coalesce(array_agg(key || '=' || value), '{}') FROM jsonb_each_text(labels) $$;--> statement-breakpoint
DROP INDEX "nodes_cluster";--> statement-breakpoint
CREATE INDEX "nodes_cluster" ON "nodes" ("cluster_id","name");--> statement-breakpoint
DROP INDEX "nodes_labels";--> statement-breakpoint
CREATE INDEX "nodes_labels" ON "nodes" USING gin (label_pairs("labels"));--> statement-breakpoint
DROP INDEX "operations_cluster";--> statement-breakpoint
CREATE INDEX "operations_cluster" ON "operations" ("cluster_id","created_at","id");--> statement-breakpoint
CREATE INDEX "nodes_updated" ON "nodes" ("updated_at","id");--> statement-breakpoint
CREATE INDEX "operations_state" ON "operations" ("state","created_at","id");--> statement-breakpoint
CREATE INDEX "operations_kind" ON "operations" ("kind","created_at","id");
