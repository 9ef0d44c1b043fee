-- Names are equal without regard to case. The release before finds and orders them by their spelling.
DO $$
DECLARE kind text; names text;
BEGIN
  SELECT found.kind, found.names INTO kind, names FROM (
    SELECT 'nodes' AS kind, string_agg(name, ', ' ORDER BY name) AS names FROM nodes GROUP BY lower(name COLLATE "C") HAVING count(*) > 1
    UNION ALL SELECT 'clusters', string_agg(name, ', ' ORDER BY name) FROM clusters GROUP BY lower(name COLLATE "C") HAVING count(*) > 1
    UNION ALL SELECT 'runbooks', string_agg(name, ', ' ORDER BY name) FROM runbooks GROUP BY lower(name COLLATE "C") HAVING count(*) > 1
    UNION ALL SELECT 'images', string_agg(name, ', ' ORDER BY name) FROM images GROUP BY lower(name COLLATE "C") HAVING count(*) > 1
  ) found LIMIT 1;
  IF kind IS NOT NULL THEN
    RAISE EXCEPTION 'The names of the % % differ only in case. Give all but one another name with the release before, then start this one.', kind, names;
  END IF;
END $$;
--> statement-breakpoint
-- decision 0068: the release before refuses names that differ in case as taken.
CREATE UNIQUE INDEX "clusters_name_nocase" ON "clusters" (lower("name" collate "C"));
--> statement-breakpoint
-- decision 0068: as above.
CREATE UNIQUE INDEX "images_name_nocase" ON "images" (lower("name" collate "C"));
--> statement-breakpoint
-- decision 0068: as above.
CREATE UNIQUE INDEX "nodes_name_nocase" ON "nodes" (lower("name" collate "C"));
--> statement-breakpoint
-- decision 0068: as above.
CREATE UNIQUE INDEX "runbooks_name_nocase" ON "runbooks" (lower("name" collate "C"));
--> statement-breakpoint
CREATE INDEX IF NOT EXISTS "nodes_cluster_name" ON "nodes" ("cluster_id",lower("name" collate "C"));
--> statement-breakpoint
CREATE INDEX IF NOT EXISTS "nodes_natural_name" ON "nodes" (natural_key(lower("name" collate "C")),"id");
--> statement-breakpoint
DROP INDEX "nodes_cluster";
--> statement-breakpoint
DROP INDEX "nodes_natural";
