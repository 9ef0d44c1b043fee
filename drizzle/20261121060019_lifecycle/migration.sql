-- What Drizzle cannot say: the legal edges of the lifecycle, and that no state changes without its transition.

INSERT INTO "feed_position" ("id", "position") VALUES (true, 0);
--> statement-breakpoint
INSERT INTO "lifecycle_edges" ("from_state", "event", "to_state") VALUES
  ('ENROLLED', 'verify', 'VERIFYING'),
  ('ENROLLED', 'retire', 'DECOMMISSIONED'),
  ('VERIFYING', 'done', 'MANAGEABLE'),
  ('VERIFYING', 'fail', 'ENROLLED'),
  ('VERIFYING', 'abort', 'ENROLLED'),
  ('VERIFYING', 'stop', 'STOPPED'),
  ('MANAGEABLE', 'inspect', 'INSPECTING'),
  ('MANAGEABLE', 'clean', 'CLEANING'),
  ('MANAGEABLE', 'retire', 'DECOMMISSIONED'),
  ('INSPECTING', 'wait', 'INSPECT_WAIT'),
  ('INSPECTING', 'done', 'MANAGEABLE'),
  ('INSPECTING', 'fail', 'INSPECT_FAILED'),
  ('INSPECTING', 'abort', 'INSPECT_FAILED'),
  ('INSPECTING', 'stop', 'STOPPED'),
  ('INSPECT_WAIT', 'resume', 'INSPECTING'),
  ('INSPECT_WAIT', 'done', 'MANAGEABLE'),
  ('INSPECT_WAIT', 'fail', 'INSPECT_FAILED'),
  ('INSPECT_WAIT', 'abort', 'INSPECT_FAILED'),
  ('INSPECT_WAIT', 'stop', 'STOPPED'),
  ('INSPECT_FAILED', 'inspect', 'INSPECTING'),
  ('INSPECT_FAILED', 'manage', 'MANAGEABLE'),
  ('CLEANING', 'wait', 'CLEAN_WAIT'),
  ('CLEANING', 'hold', 'CLEAN_HOLD'),
  ('CLEANING', 'done', 'AVAILABLE'),
  ('CLEANING', 'manage', 'MANAGEABLE'),
  ('CLEANING', 'retire', 'DECOMMISSIONED'),
  ('CLEANING', 'fail', 'CLEAN_FAILED'),
  ('CLEANING', 'abort', 'CLEAN_FAILED'),
  ('CLEANING', 'stop', 'STOPPED'),
  ('CLEAN_WAIT', 'resume', 'CLEANING'),
  ('CLEAN_WAIT', 'hold', 'CLEAN_HOLD'),
  ('CLEAN_WAIT', 'done', 'AVAILABLE'),
  ('CLEAN_WAIT', 'manage', 'MANAGEABLE'),
  ('CLEAN_WAIT', 'retire', 'DECOMMISSIONED'),
  ('CLEAN_WAIT', 'fail', 'CLEAN_FAILED'),
  ('CLEAN_WAIT', 'abort', 'CLEAN_FAILED'),
  ('CLEAN_WAIT', 'stop', 'STOPPED'),
  ('CLEAN_HOLD', 'unhold', 'CLEAN_WAIT'),
  ('CLEAN_HOLD', 'fail', 'CLEAN_FAILED'),
  ('CLEAN_HOLD', 'abort', 'CLEAN_FAILED'),
  ('CLEAN_HOLD', 'stop', 'STOPPED'),
  ('CLEAN_FAILED', 'clean', 'CLEANING'),
  ('CLEAN_FAILED', 'manage', 'MANAGEABLE'),
  ('CLEAN_FAILED', 'retire', 'DECOMMISSIONED'),
  ('AVAILABLE', 'clean', 'CLEANING'),
  ('AVAILABLE', 'deploy', 'DEPLOYING'),
  ('AVAILABLE', 'manage', 'MANAGEABLE'),
  ('AVAILABLE', 'retire', 'DECOMMISSIONED'),
  ('DEPLOYING', 'wait', 'DEPLOY_WAIT'),
  ('DEPLOYING', 'hold', 'DEPLOY_HOLD'),
  ('DEPLOYING', 'done', 'ACTIVE'),
  ('DEPLOYING', 'fail', 'DEPLOY_FAILED'),
  ('DEPLOYING', 'abort', 'DEPLOY_FAILED'),
  ('DEPLOYING', 'stop', 'STOPPED'),
  ('DEPLOY_WAIT', 'resume', 'DEPLOYING'),
  ('DEPLOY_WAIT', 'hold', 'DEPLOY_HOLD'),
  ('DEPLOY_WAIT', 'done', 'ACTIVE'),
  ('DEPLOY_WAIT', 'fail', 'DEPLOY_FAILED'),
  ('DEPLOY_WAIT', 'abort', 'DEPLOY_FAILED'),
  ('DEPLOY_WAIT', 'stop', 'STOPPED'),
  ('DEPLOY_HOLD', 'unhold', 'DEPLOY_WAIT'),
  ('DEPLOY_HOLD', 'fail', 'DEPLOY_FAILED'),
  ('DEPLOY_HOLD', 'abort', 'DEPLOY_FAILED'),
  ('DEPLOY_HOLD', 'stop', 'STOPPED'),
  ('DEPLOY_FAILED', 'deploy', 'DEPLOYING'),
  ('DEPLOY_FAILED', 'undeploy', 'UNDEPLOYING'),
  ('ACTIVE', 'deploy', 'DEPLOYING'),
  ('ACTIVE', 'undeploy', 'UNDEPLOYING'),
  ('UNDEPLOYING', 'wait', 'UNDEPLOY_WAIT'),
  ('UNDEPLOYING', 'clean', 'CLEANING'),
  ('UNDEPLOYING', 'retire', 'DECOMMISSIONED'),
  ('UNDEPLOYING', 'fail', 'UNDEPLOY_FAILED'),
  ('UNDEPLOYING', 'abort', 'UNDEPLOY_FAILED'),
  ('UNDEPLOYING', 'stop', 'STOPPED'),
  ('UNDEPLOY_WAIT', 'resume', 'UNDEPLOYING'),
  ('UNDEPLOY_WAIT', 'clean', 'CLEANING'),
  ('UNDEPLOY_WAIT', 'retire', 'DECOMMISSIONED'),
  ('UNDEPLOY_WAIT', 'fail', 'UNDEPLOY_FAILED'),
  ('UNDEPLOY_WAIT', 'abort', 'UNDEPLOY_FAILED'),
  ('UNDEPLOY_WAIT', 'stop', 'STOPPED'),
  ('UNDEPLOY_FAILED', 'undeploy', 'UNDEPLOYING'),
  ('UNDEPLOY_FAILED', 'retire', 'DECOMMISSIONED'),
  ('STOPPED', 'verify', 'VERIFYING'),
  ('STOPPED', 'inspect', 'INSPECTING'),
  ('STOPPED', 'clean', 'CLEANING'),
  ('STOPPED', 'deploy', 'DEPLOYING'),
  ('STOPPED', 'undeploy', 'UNDEPLOYING'),
  ('STOPPED', 'manage', 'MANAGEABLE'),
  ('DECOMMISSIONED', 'clean', 'CLEANING'),
  ('DECOMMISSIONED', 'manage', 'MANAGEABLE'),
  ('ENROLLED', 'recover', 'ENROLLED'),
  ('MANAGEABLE', 'recover', 'MANAGEABLE'),
  ('AVAILABLE', 'recover', 'AVAILABLE'),
  ('ACTIVE', 'recover', 'ACTIVE'),
  ('STOPPED', 'recover', 'STOPPED'),
  ('DECOMMISSIONED', 'recover', 'DECOMMISSIONED'),
  ('VERIFYING', 'recover', 'VERIFYING'),
  ('INSPECTING', 'recover', 'INSPECTING'),
  ('INSPECT_FAILED', 'recover', 'INSPECT_FAILED'),
  ('CLEANING', 'recover', 'CLEANING'),
  ('CLEAN_FAILED', 'recover', 'CLEAN_FAILED'),
  ('DEPLOYING', 'recover', 'DEPLOYING'),
  ('DEPLOY_FAILED', 'recover', 'DEPLOY_FAILED'),
  ('UNDEPLOYING', 'recover', 'UNDEPLOYING'),
  ('UNDEPLOY_FAILED', 'recover', 'UNDEPLOY_FAILED');
--> statement-breakpoint
-- A node begins ENROLLED, changes only along an edge, and counts its transitions.
CREATE FUNCTION "refuse_illegal_edge"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    IF NEW.state <> 'ENROLLED' OR NEW.transition_count <> 1 THEN
      RAISE EXCEPTION 'illegal transition: a node is registered ENROLLED, not %', NEW.state USING ERRCODE = 'check_violation';
    END IF;
  ELSIF NEW.transition_count <> OLD.transition_count + 1
     OR NOT EXISTS (SELECT FROM lifecycle_edges WHERE from_state = OLD.state AND to_state = NEW.state) THEN
    RAISE EXCEPTION 'illegal transition: no edge leads from % to %', OLD.state, NEW.state USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
--> statement-breakpoint
CREATE TRIGGER "nodes_legal_insert" BEFORE INSERT ON "nodes" FOR EACH ROW EXECUTE FUNCTION refuse_illegal_edge();
--> statement-breakpoint
CREATE TRIGGER "nodes_legal_update" BEFORE UPDATE OF "state", "transition_count" ON "nodes" FOR EACH ROW
  WHEN (OLD.state IS DISTINCT FROM NEW.state OR OLD.transition_count IS DISTINCT FROM NEW.transition_count)
  EXECUTE FUNCTION refuse_illegal_edge();
--> statement-breakpoint
-- At commit every change of state, and every end of a node, has its row in the log.
CREATE FUNCTION "require_transition"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' THEN
    IF NOT EXISTS (SELECT FROM transitions WHERE node_id = OLD.id AND sequence = OLD.transition_count + 1 AND to_state IS NULL) THEN
      RAISE EXCEPTION 'node % was deleted without a transition', OLD.name USING ERRCODE = 'check_violation';
    END IF;
  ELSIF NOT EXISTS (SELECT FROM transitions WHERE node_id = NEW.id AND sequence = NEW.transition_count AND to_state = NEW.state) THEN
    RAISE EXCEPTION 'node % became % without a transition', NEW.name, NEW.state USING ERRCODE = 'check_violation';
  END IF;
  RETURN NULL;
END $$;
--> statement-breakpoint
CREATE CONSTRAINT TRIGGER "nodes_logged" AFTER INSERT OR DELETE ON "nodes" DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION require_transition();
--> statement-breakpoint
CREATE CONSTRAINT TRIGGER "nodes_logged_update" AFTER UPDATE OF "state", "transition_count" ON "nodes" DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
  WHEN (OLD.transition_count IS DISTINCT FROM NEW.transition_count) EXECUTE FUNCTION require_transition();
--> statement-breakpoint
CREATE FUNCTION "refuse_rewriting"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'transitions are append only' USING ERRCODE = 'check_violation';
END $$;
--> statement-breakpoint
CREATE TRIGGER "transitions_append_only" BEFORE UPDATE ON "transitions" FOR EACH ROW EXECUTE FUNCTION refuse_rewriting();
