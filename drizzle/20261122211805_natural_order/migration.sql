-- Every number in a name as 20 digits, so that n2 precedes n10.
CREATE FUNCTION "natural_key"("name" text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
  AS $$ SELECT regexp_replace(regexp_replace(name, '([0-9]+)', '00000000000000000000\1', 'g'), '[0-9]*([0-9]{20})', '\1', 'g') $$;--> statement-breakpoint
CREATE INDEX IF NOT EXISTS "nodes_natural" ON "nodes" (natural_key("name"),"id");--> statement-breakpoint
CREATE INDEX IF NOT EXISTS "nodes_by_state" ON "nodes" ("state","id");
