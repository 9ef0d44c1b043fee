CREATE TABLE "node_deployments" (
	"node_id" uuid PRIMARY KEY,
	"system" jsonb,
	"configuration" jsonb,
	"hash" text GENERATED ALWAYS AS (md5(coalesce(system::text, '') || ' ' || coalesce(configuration::text, ''))) STORED
);
--> statement-breakpoint
ALTER TABLE "clusters" ADD COLUMN "image_id" uuid;--> statement-breakpoint
ALTER TABLE "node_deployments" ADD CONSTRAINT "node_deployments_node_id_nodes_id_fkey" FOREIGN KEY ("node_id") REFERENCES "nodes"("id") ON DELETE CASCADE;
--> statement-breakpoint
CREATE OR REPLACE FUNCTION "record_cluster_change"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    INSERT INTO change_inbox (subject, subject_id, event, fields) VALUES ('CLUSTER', NEW.id, 'CREATED', '{}');
    RETURN NEW;
  END IF;
  IF TG_OP = 'DELETE' THEN
    INSERT INTO change_inbox (subject, subject_id, event, fields, before)
    VALUES ('CLUSTER', OLD.id, 'DELETED', '{}', jsonb_build_object('name', OLD.name));
  ELSE
    INSERT INTO change_inbox (subject, subject_id, event, fields) VALUES ('CLUSTER', OLD.id, 'CHANGED', array_remove(ARRAY[
      CASE WHEN OLD.name IS DISTINCT FROM NEW.name THEN 'NAME' END,
      CASE WHEN (OLD.variables, OLD.host_groups, OLD.image_id) IS DISTINCT FROM (NEW.variables, NEW.host_groups, NEW.image_id) THEN 'SETTINGS' END,
      CASE WHEN OLD.revision IS DISTINCT FROM NEW.revision THEN 'MEMBERS' END
    ], NULL));
    IF OLD.name = NEW.name THEN
      RETURN NEW;
    END IF;
  END IF;
  PERFORM FROM nodes WHERE cluster_id = OLD.id ORDER BY id FOR NO KEY UPDATE;
  INSERT INTO change_inbox (subject, subject_id, event, fields, before)
  SELECT 'NODE', n.id, 'CHANGED', ARRAY['CLUSTER'], change_facts(n, OLD.name) FROM nodes n WHERE n.cluster_id = OLD.id;
  RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
END $$;
--> statement-breakpoint
-- decision 0037: a trigger records changes of every writer, also of the release before
CREATE OR REPLACE TRIGGER "clusters_recorded_update" AFTER UPDATE ON "clusters" FOR EACH ROW
  WHEN ((OLD.name, OLD.variables, OLD.host_groups, OLD.image_id, OLD.revision) IS DISTINCT FROM (NEW.name, NEW.variables, NEW.host_groups, NEW.image_id, NEW.revision)) EXECUTE FUNCTION record_cluster_change();
