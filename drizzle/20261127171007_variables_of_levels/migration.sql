ALTER TABLE "clusters" ADD COLUMN "host_groups" jsonb DEFAULT '{}' NOT NULL;--> statement-breakpoint
ALTER TABLE "nodes" ADD COLUMN "variables" jsonb DEFAULT '{}' NOT NULL;--> statement-breakpoint
ALTER TABLE "site" ADD COLUMN "variables" jsonb DEFAULT '{}' NOT NULL;
--> statement-breakpoint
CREATE OR REPLACE FUNCTION "record_node_change"() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE changed text[]; facts jsonb; cluster_name text;
BEGIN
  IF TG_OP = 'INSERT' THEN
    INSERT INTO change_inbox (subject, subject_id, event, fields) VALUES ('NODE', NEW.id, 'CREATED', '{}');
    RETURN NULL;
  ELSIF TG_OP = 'DELETE' THEN
    INSERT INTO change_inbox (subject, subject_id, event, fields, before)
    VALUES ('NODE', OLD.id, 'DELETED', '{}', change_facts(OLD, (SELECT name FROM clusters WHERE id = OLD.cluster_id)));
    RETURN NULL;
  END IF;
  changed := array_remove(ARRAY[
      CASE WHEN OLD.name IS DISTINCT FROM NEW.name THEN 'NAME' END,
      CASE WHEN OLD.project IS DISTINCT FROM NEW.project THEN 'PROJECT' END,
      CASE WHEN (OLD.state, OLD.transition_count) IS DISTINCT FROM (NEW.state, NEW.transition_count) THEN 'STATE' END,
      CASE WHEN OLD.stage IS DISTINCT FROM NEW.stage THEN 'STAGE' END,
      CASE WHEN (OLD.power_state, OLD.power_read_at, OLD.wanted_power, OLD.power_problem, OLD.power_problem_kind) IS DISTINCT FROM (NEW.power_state, NEW.power_read_at, NEW.wanted_power, NEW.power_problem, NEW.power_problem_kind) THEN 'POWER' END,
      CASE WHEN OLD.presence IS DISTINCT FROM NEW.presence THEN 'PRESENCE' END,
      CASE WHEN (OLD.maintenance_reason, OLD.maintenance_since, OLD.maintenance_by) IS DISTINCT FROM (NEW.maintenance_reason, NEW.maintenance_since, NEW.maintenance_by) THEN 'MAINTENANCE' END,
      CASE WHEN (OLD.fault_kind, OLD.fault_since, OLD.fault_message) IS DISTINCT FROM (NEW.fault_kind, NEW.fault_since, NEW.fault_message) THEN 'FAULT' END,
      CASE WHEN OLD.is_protected IS DISTINCT FROM NEW.is_protected THEN 'PROTECTED' END,
      CASE WHEN OLD.retired_reason IS DISTINCT FROM NEW.retired_reason THEN 'RETIRED' END,
      CASE WHEN OLD.labels IS DISTINCT FROM NEW.labels THEN 'LABELS' END,
      CASE WHEN OLD.variables IS DISTINCT FROM NEW.variables THEN 'VARIABLES' END,
      CASE WHEN OLD.cluster_id IS DISTINCT FROM NEW.cluster_id THEN 'CLUSTER' END,
      CASE WHEN (OLD.driver, OLD.borrowed, OLD.fallbacks, OLD.settings) IS DISTINCT FROM (NEW.driver, NEW.borrowed, NEW.fallbacks, NEW.settings) THEN 'SETTINGS' END,
      CASE WHEN OLD.macs IS DISTINCT FROM NEW.macs THEN 'MACS' END,
      CASE WHEN (OLD.controller, OLD.shared_controller) IS DISTINCT FROM (NEW.controller, NEW.shared_controller) THEN 'CONTROLLER' END,
      CASE WHEN OLD.identity_conflict IS DISTINCT FROM NEW.identity_conflict THEN 'IDENTITY_CONFLICT' END,
      CASE WHEN OLD.last_error IS DISTINCT FROM NEW.last_error THEN 'LAST_ERROR' END,
      CASE WHEN OLD.image_id IS DISTINCT FROM NEW.image_id THEN 'IMAGE' END,
      CASE WHEN OLD.host_group IS DISTINCT FROM NEW.host_group THEN 'HOST_GROUP' END,
      CASE WHEN OLD.automatic_cleaning IS DISTINCT FROM NEW.automatic_cleaning THEN 'AUTOMATIC_CLEANING' END,
      CASE WHEN OLD.diskless IS DISTINCT FROM NEW.diskless THEN 'DISKLESS' END,
      CASE WHEN OLD.description IS DISTINCT FROM NEW.description THEN 'DESCRIPTION' END,
      CASE WHEN OLD.model IS DISTINCT FROM NEW.model THEN 'MODEL' END
  ], NULL);
  -- A revision is visible, and `ifRevision` needs it, also if nothing else changed.
  IF changed = '{}' AND OLD.revision = NEW.revision THEN
    RETURN NULL;
  END IF;
  IF (OLD.name, OLD.state, OLD.power_state, OLD.wanted_power, OLD.presence, OLD.maintenance_since, OLD.retired_reason, OLD.fault_kind, OLD.is_protected, OLD.cluster_id, OLD.driver, OLD.macs, OLD.labels, OLD.host_group, OLD.diskless, OLD.model, OLD.last_error) IS DISTINCT FROM (NEW.name, NEW.state, NEW.power_state, NEW.wanted_power, NEW.presence, NEW.maintenance_since, NEW.retired_reason, NEW.fault_kind, NEW.is_protected, NEW.cluster_id, NEW.driver, NEW.macs, NEW.labels, NEW.host_group, NEW.diskless, NEW.model, NEW.last_error) THEN
    IF OLD.cluster_id IS NOT NULL THEN
      cluster_name := (SELECT name FROM clusters WHERE id = OLD.cluster_id);
    END IF;
    -- As change_facts, which would be planned again in each transaction.
    facts := jsonb_build_object('name', OLD.name,
    'state', OLD.state,
    'powerState', OLD.power_state,
    'wantedPower', OLD.wanted_power,
    'presence', OLD.presence,
    'maintenance', OLD.maintenance_since IS NOT NULL,
    'retired', OLD.retired_reason IS NOT NULL,
    'faultKind', OLD.fault_kind,
    'isProtected', OLD.is_protected,
    'clusterId', OLD.cluster_id,
    'clusterName', cluster_name,
    'driver', OLD.driver,
    'macs', OLD.macs,
    'labels', OLD.labels,
    'hostGroup', OLD.host_group,
    'diskless', OLD.diskless,
    'model', OLD.model,
    'errorCode', OLD.last_error ->> 'code');
  END IF;
  INSERT INTO change_inbox (subject, subject_id, event, fields, before) VALUES ('NODE', OLD.id, 'CHANGED', changed, facts);
  RETURN NULL;
END $$;
--> statement-breakpoint
-- decision 0037: a trigger records changes of every writer, also of the release before
CREATE OR REPLACE TRIGGER "nodes_recorded_update" AFTER UPDATE OF "name", "project", "state", "transition_count", "stage", "power_state", "power_read_at", "wanted_power", "power_problem", "power_problem_kind", "presence", "maintenance_reason", "maintenance_since", "maintenance_by", "fault_kind", "fault_since", "fault_message", "is_protected", "retired_reason", "labels", "variables", "cluster_id", "driver", "borrowed", "fallbacks", "settings", "macs", "controller", "shared_controller", "identity_conflict", "last_error", "image_id", "host_group", "automatic_cleaning", "diskless", "description", "model", "revision" ON "nodes" FOR EACH ROW
  EXECUTE FUNCTION record_node_change();

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
      CASE WHEN (OLD.variables, OLD.host_groups) IS DISTINCT FROM (NEW.variables, NEW.host_groups) THEN 'SETTINGS' END,
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
  WHEN ((OLD.name, OLD.variables, OLD.host_groups, OLD.revision) IS DISTINCT FROM (NEW.name, NEW.variables, NEW.host_groups, NEW.revision)) EXECUTE FUNCTION record_cluster_change();
