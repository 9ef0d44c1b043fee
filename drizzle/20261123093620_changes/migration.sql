CREATE TABLE "change_inbox" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "change_inbox_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"subject" text NOT NULL,
	"subject_id" uuid NOT NULL,
	"node_id" uuid,
	"operation_id" uuid,
	"event" text NOT NULL,
	"fields" text[] NOT NULL,
	"before" jsonb,
	"at" timestamp(3) with time zone DEFAULT clock_timestamp() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "change_position" (
	"id" boolean PRIMARY KEY DEFAULT true,
	"position" bigint NOT NULL
);
--> statement-breakpoint
CREATE TABLE "changes" (
	"position" bigint PRIMARY KEY,
	"subject" text NOT NULL,
	"subject_id" uuid NOT NULL,
	"node_id" uuid,
	"operation_id" uuid,
	"event" text NOT NULL,
	"fields" text[] NOT NULL,
	"before" jsonb,
	"at" timestamp(3) with time zone NOT NULL
);
--> statement-breakpoint
-- decision 0042: the one row of a new table
INSERT INTO "change_position" ("id", "position") VALUES (true, 0);
--> statement-breakpoint
-- Rows stay only until they are numbered, so the space of deleted ones is soon needed again.
ALTER TABLE "change_inbox" SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
--> statement-breakpoint
-- Numbers changes that have committed, in the order in which they were written, and returns how many. One statement, so
-- no client holds the lock.
CREATE FUNCTION "number_changes"("most" integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE newest bigint; moved integer;
BEGIN
  SELECT position INTO newest FROM change_position FOR UPDATE;
  WITH taken AS (DELETE FROM change_inbox WHERE id IN (SELECT id FROM change_inbox ORDER BY id LIMIT most) RETURNING *)
  INSERT INTO changes (position, subject, subject_id, node_id, operation_id, event, fields, before, at)
  SELECT newest + row_number() OVER (ORDER BY id), subject, subject_id, node_id, operation_id, event, fields, before, at FROM taken;
  GET DIAGNOSTICS moved = ROW_COUNT;
  IF moved > 0 THEN
    UPDATE change_position SET position = newest + moved;
  END IF;
  RETURN moved;
END $$;
--> statement-breakpoint
-- What filters see of a node. Whether it is in maintenance or retired, not why.
CREATE FUNCTION "change_facts"("node" "nodes", "cluster_name" text) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
  SELECT jsonb_build_object('name', node.name, 'state', node.state, 'powerState', node.power_state, 'wantedPower', node.wanted_power,
    'presence', node.presence, 'maintenance', node.maintenance_since IS NOT NULL, 'retired', node.retired_reason IS NOT NULL,
    'faultKind', node.fault_kind, 'isProtected', node.is_protected, 'hostGroup', node.host_group, 'clusterId', node.cluster_id,
    'clusterName', cluster_name, 'driver', node.driver, 'model', node.model, 'macs', node.macs, 'labels', node.labels,
    'errorCode', node.last_error ->> 'code') $$;
--> statement-breakpoint
CREATE FUNCTION "record_node_change"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    INSERT INTO change_inbox (subject, subject_id, event, fields) VALUES ('NODE', NEW.id, 'CREATED', '{}');
  ELSIF TG_OP = 'DELETE' THEN
    INSERT INTO change_inbox (subject, subject_id, event, fields, before)
    VALUES ('NODE', OLD.id, 'DELETED', '{}', change_facts(OLD, (SELECT name FROM clusters WHERE id = OLD.cluster_id)));
  ELSE
    INSERT INTO change_inbox (subject, subject_id, event, fields, before) VALUES ('NODE', OLD.id, 'CHANGED', array_remove(ARRAY[
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
      CASE WHEN OLD.cluster_id IS DISTINCT FROM NEW.cluster_id THEN 'CLUSTER' END,
      CASE WHEN OLD.host_group IS DISTINCT FROM NEW.host_group THEN 'HOST_GROUP' END,
      CASE WHEN (OLD.driver, OLD.borrowed, OLD.fallbacks, OLD.settings) IS DISTINCT FROM (NEW.driver, NEW.borrowed, NEW.fallbacks, NEW.settings) THEN 'SETTINGS' END,
      CASE WHEN OLD.automatic_cleaning IS DISTINCT FROM NEW.automatic_cleaning THEN 'AUTOMATIC_CLEANING' END,
      CASE WHEN OLD.description IS DISTINCT FROM NEW.description THEN 'DESCRIPTION' END,
      CASE WHEN OLD.model IS DISTINCT FROM NEW.model THEN 'MODEL' END,
      CASE WHEN OLD.macs IS DISTINCT FROM NEW.macs THEN 'MACS' END,
      CASE WHEN OLD.controller IS DISTINCT FROM NEW.controller THEN 'CONTROLLER' END,
      CASE WHEN OLD.last_error IS DISTINCT FROM NEW.last_error THEN 'LAST_ERROR' END,
      CASE WHEN OLD.image_id IS DISTINCT FROM NEW.image_id THEN 'IMAGE' END
    ], NULL),
      CASE WHEN (OLD.name, OLD.state, OLD.power_state, OLD.wanted_power, OLD.presence, OLD.maintenance_since, OLD.retired_reason, OLD.fault_kind, OLD.is_protected, OLD.host_group, OLD.cluster_id, OLD.driver, OLD.model, OLD.macs, OLD.labels, OLD.last_error) IS DISTINCT FROM (NEW.name, NEW.state, NEW.power_state, NEW.wanted_power, NEW.presence, NEW.maintenance_since, NEW.retired_reason, NEW.fault_kind, NEW.is_protected, NEW.host_group, NEW.cluster_id, NEW.driver, NEW.model, NEW.macs, NEW.labels, NEW.last_error)
        THEN change_facts(OLD, (SELECT name FROM clusters WHERE id = OLD.cluster_id)) END);
  END IF;
  RETURN NULL;
END $$;
--> statement-breakpoint
-- decision 0042: a trigger records changes of every writer, also of the release before
CREATE TRIGGER "nodes_recorded" AFTER INSERT OR DELETE ON "nodes" FOR EACH ROW EXECUTE FUNCTION record_node_change();
--> statement-breakpoint
-- decision 0042: a trigger records changes of every writer, also of the release before
CREATE TRIGGER "nodes_recorded_update" AFTER UPDATE ON "nodes" FOR EACH ROW
  WHEN ((OLD.name, OLD.project, OLD.state, OLD.transition_count, OLD.stage, OLD.power_state, OLD.power_read_at, OLD.wanted_power, OLD.power_problem, OLD.power_problem_kind, OLD.presence, OLD.maintenance_reason, OLD.maintenance_since, OLD.maintenance_by, OLD.fault_kind, OLD.fault_since, OLD.fault_message, OLD.is_protected, OLD.retired_reason, OLD.labels, OLD.cluster_id, OLD.host_group, OLD.driver, OLD.borrowed, OLD.fallbacks, OLD.settings, OLD.automatic_cleaning, OLD.description, OLD.model, OLD.macs, OLD.controller, OLD.last_error, OLD.image_id) IS DISTINCT FROM (NEW.name, NEW.project, NEW.state, NEW.transition_count, NEW.stage, NEW.power_state, NEW.power_read_at, NEW.wanted_power, NEW.power_problem, NEW.power_problem_kind, NEW.presence, NEW.maintenance_reason, NEW.maintenance_since, NEW.maintenance_by, NEW.fault_kind, NEW.fault_since, NEW.fault_message, NEW.is_protected, NEW.retired_reason, NEW.labels, NEW.cluster_id, NEW.host_group, NEW.driver, NEW.borrowed, NEW.fallbacks, NEW.settings, NEW.automatic_cleaning, NEW.description, NEW.model, NEW.macs, NEW.controller, NEW.last_error, NEW.image_id))
  EXECUTE FUNCTION record_node_change();
--> statement-breakpoint
-- Secrets and inventories belong to a node; theirs disappear with it, which is no change of them.
CREATE FUNCTION "record_node_part"() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE node uuid := CASE WHEN TG_OP = 'DELETE' THEN OLD.node_id ELSE NEW.node_id END;
BEGIN
  IF TG_OP = 'DELETE' AND NOT EXISTS (SELECT FROM nodes WHERE id = node) THEN
    RETURN NULL;
  END IF;
  INSERT INTO change_inbox (subject, subject_id, event, fields) VALUES ('NODE', node, 'CHANGED', ARRAY[TG_ARGV[0]]);
  RETURN NULL;
END $$;
--> statement-breakpoint
-- decision 0042: a trigger records changes of every writer, also of the release before
CREATE TRIGGER "node_secrets_recorded" AFTER INSERT OR DELETE ON "node_secrets" FOR EACH ROW EXECUTE FUNCTION record_node_part('SETTINGS');
--> statement-breakpoint
-- decision 0042: a trigger records changes of every writer, also of the release before
CREATE TRIGGER "node_secrets_recorded_update" AFTER UPDATE ON "node_secrets" FOR EACH ROW
  WHEN (OLD.secrets IS DISTINCT FROM NEW.secrets) EXECUTE FUNCTION record_node_part('SETTINGS');
--> statement-breakpoint
-- decision 0042: a trigger records changes of every writer, also of the release before
CREATE TRIGGER "inventories_recorded" AFTER INSERT OR DELETE ON "inventories" FOR EACH ROW EXECUTE FUNCTION record_node_part('INVENTORY');
--> statement-breakpoint
-- A cluster's name is part of what filters see of its nodes. They are locked, so that the facts stay as recorded.
CREATE FUNCTION "record_cluster_change"() RETURNS trigger LANGUAGE plpgsql AS $$
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
      CASE WHEN OLD.variables IS DISTINCT FROM NEW.variables THEN 'SETTINGS' END,
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
-- decision 0042: a trigger records changes of every writer, also of the release before
CREATE TRIGGER "clusters_recorded" AFTER INSERT ON "clusters" FOR EACH ROW EXECUTE FUNCTION record_cluster_change();
--> statement-breakpoint
-- decision 0042: a trigger records changes of every writer, also of the release before
CREATE TRIGGER "clusters_recorded_delete" BEFORE DELETE ON "clusters" FOR EACH ROW EXECUTE FUNCTION record_cluster_change();
--> statement-breakpoint
-- decision 0042: a trigger records changes of every writer, also of the release before
CREATE TRIGGER "clusters_recorded_update" AFTER UPDATE ON "clusters" FOR EACH ROW
  WHEN ((OLD.name, OLD.variables, OLD.revision) IS DISTINCT FROM (NEW.name, NEW.variables, NEW.revision)) EXECUTE FUNCTION record_cluster_change();
--> statement-breakpoint
CREATE FUNCTION "record_operation_change"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    INSERT INTO change_inbox (subject, subject_id, event, fields) VALUES ('OPERATION', NEW.id, 'CREATED', '{}');
  ELSE
    INSERT INTO change_inbox (subject, subject_id, event, fields, before) VALUES ('OPERATION', OLD.id, 'CHANGED', array_remove(ARRAY[
      CASE WHEN (OLD.state, OLD.started_at, OLD.finished_at) IS DISTINCT FROM (NEW.state, NEW.started_at, NEW.finished_at) THEN 'STATE' END,
      CASE WHEN OLD.total_count IS DISTINCT FROM NEW.total_count THEN 'PROGRESS' END,
      CASE WHEN (OLD.waves, OLD.wave, OLD.wave_state, OLD.wave_reason, OLD.wave_by, OLD.wave_until) IS DISTINCT FROM (NEW.waves, NEW.wave, NEW.wave_state, NEW.wave_reason, NEW.wave_by, NEW.wave_until) THEN 'WAVES' END,
      CASE WHEN (OLD.wish, OLD.wish_by, OLD.wish_reason, OLD.wish_at) IS DISTINCT FROM (NEW.wish, NEW.wish_by, NEW.wish_reason, NEW.wish_at) THEN 'INTERRUPT' END,
      CASE WHEN OLD.first_failure IS DISTINCT FROM NEW.first_failure THEN 'FAILURE' END,
      CASE WHEN (OLD.cluster_id, OLD.on_failure, OLD.max_parallel, OLD.options, OLD.variables) IS DISTINCT FROM (NEW.cluster_id, NEW.on_failure, NEW.max_parallel, NEW.options, NEW.variables) THEN 'OPTIONS' END
    ], NULL),
      CASE WHEN OLD.state <> NEW.state THEN jsonb_build_object('state', OLD.state) END);
  END IF;
  RETURN NULL;
END $$;
--> statement-breakpoint
-- decision 0042: a trigger records changes of every writer, also of the release before
CREATE TRIGGER "operations_recorded" AFTER INSERT ON "operations" FOR EACH ROW EXECUTE FUNCTION record_operation_change();
--> statement-breakpoint
-- decision 0042: a trigger records changes of every writer, also of the release before
CREATE TRIGGER "operations_recorded_update" AFTER UPDATE ON "operations" FOR EACH ROW
  WHEN ((OLD.state, OLD.started_at, OLD.finished_at, OLD.total_count, OLD.waves, OLD.wave, OLD.wave_state, OLD.wave_reason, OLD.wave_by, OLD.wave_until, OLD.wish, OLD.wish_by, OLD.wish_reason, OLD.wish_at, OLD.first_failure, OLD.cluster_id, OLD.on_failure, OLD.max_parallel, OLD.options, OLD.variables) IS DISTINCT FROM (NEW.state, NEW.started_at, NEW.finished_at, NEW.total_count, NEW.waves, NEW.wave, NEW.wave_state, NEW.wave_reason, NEW.wave_by, NEW.wave_until, NEW.wish, NEW.wish_by, NEW.wish_reason, NEW.wish_at, NEW.first_failure, NEW.cluster_id, NEW.on_failure, NEW.max_parallel, NEW.options, NEW.variables))
  EXECUTE FUNCTION record_operation_change();
--> statement-breakpoint
-- A run is a part of its node and of its operation, whose readers find it by their ids.
CREATE FUNCTION "record_run_change"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO change_inbox (subject, subject_id, node_id, operation_id, event, fields)
  VALUES ('RUN', NEW.id, NEW.node_id, NEW.operation_id,
    CASE WHEN TG_OP = 'INSERT' THEN 'CREATED' ELSE 'CHANGED' END,
    CASE WHEN TG_OP = 'INSERT' THEN '{}' ELSE array_remove(ARRAY[
      CASE WHEN (OLD.state, OLD.started_at, OLD.finished_at) IS DISTINCT FROM (NEW.state, NEW.started_at, NEW.finished_at) THEN 'STATE' END,
      CASE WHEN (OLD.leg, OLD.position, OLD.generation) IS DISTINCT FROM (NEW.leg, NEW.position, NEW.generation) THEN 'STEP' END,
      CASE WHEN (OLD.wake_at, OLD.wait_reason, OLD.waiting_since, OLD.wait_for) IS DISTINCT FROM (NEW.wake_at, NEW.wait_reason, NEW.waiting_since, NEW.wait_for) THEN 'WAIT' END,
      CASE WHEN (OLD.wish, OLD.wish_by, OLD.wish_reason, OLD.wish_at, OLD.wish_mode, OLD.power_off) IS DISTINCT FROM (NEW.wish, NEW.wish_by, NEW.wish_reason, NEW.wish_at, NEW.wish_mode, NEW.power_off) THEN 'INTERRUPT' END,
      CASE WHEN (OLD.failure, OLD.errors, OLD.wish_failure, OLD.left_as) IS DISTINCT FROM (NEW.failure, NEW.errors, NEW.wish_failure, NEW.left_as) THEN 'FAILURE' END
    ], NULL) END);
  RETURN NULL;
END $$;
--> statement-breakpoint
-- decision 0042: a trigger records changes of every writer, also of the release before
CREATE TRIGGER "runs_recorded" AFTER INSERT ON "runs" FOR EACH ROW EXECUTE FUNCTION record_run_change();
--> statement-breakpoint
-- decision 0042: a trigger records changes of every writer, also of the release before
CREATE TRIGGER "runs_recorded_update" AFTER UPDATE ON "runs" FOR EACH ROW
  WHEN ((OLD.state, OLD.started_at, OLD.finished_at, OLD.leg, OLD.position, OLD.generation, OLD.wake_at, OLD.wait_reason, OLD.waiting_since, OLD.wait_for, OLD.wish, OLD.wish_by, OLD.wish_reason, OLD.wish_at, OLD.wish_mode, OLD.power_off, OLD.failure, OLD.errors, OLD.wish_failure, OLD.left_as) IS DISTINCT FROM (NEW.state, NEW.started_at, NEW.finished_at, NEW.leg, NEW.position, NEW.generation, NEW.wake_at, NEW.wait_reason, NEW.waiting_since, NEW.wait_for, NEW.wish, NEW.wish_by, NEW.wish_reason, NEW.wish_at, NEW.wish_mode, NEW.power_off, NEW.failure, NEW.errors, NEW.wish_failure, NEW.left_as))
  EXECUTE FUNCTION record_run_change();
--> statement-breakpoint
CREATE FUNCTION "record_run_progress"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO change_inbox (subject, subject_id, node_id, operation_id, event, fields)
  SELECT 'RUN', id, node_id, operation_id, 'CHANGED', ARRAY['PROGRESS'] FROM runs WHERE id = NEW.run_id;
  RETURN NULL;
END $$;
--> statement-breakpoint
-- decision 0042: a trigger records changes of every writer, also of the release before
CREATE TRIGGER "attempts_recorded" AFTER UPDATE ON "attempts" FOR EACH ROW
  WHEN ((OLD.progress_percent, OLD.progress_message, OLD.part) IS DISTINCT FROM (NEW.progress_percent, NEW.progress_message, NEW.part))
  EXECUTE FUNCTION record_run_progress();
--> statement-breakpoint
CREATE FUNCTION "record_address_change"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO change_inbox (subject, subject_id, event, fields) VALUES ('OPERATION', NEW.operation_id, 'CHANGED', ARRAY['PROGRESS']);
  RETURN NULL;
END $$;
--> statement-breakpoint
-- decision 0042: a trigger records changes of every writer, also of the release before
CREATE TRIGGER "discoveries_recorded" AFTER UPDATE ON "discoveries" FOR EACH ROW
  WHEN (OLD.state <> NEW.state) EXECUTE FUNCTION record_address_change();
