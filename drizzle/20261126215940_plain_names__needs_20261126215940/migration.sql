-- decision 0016: nothing has been released that uses the earlier name
ALTER TABLE "anomalies" RENAME TO "rejected_callbacks";
--> statement-breakpoint
-- decision 0016: nothing has been released that uses the earlier name
ALTER TABLE "rejected_callbacks" RENAME CONSTRAINT "anomalies_pkey" TO "rejected_callbacks_pkey";
--> statement-breakpoint
-- decision 0016: nothing has been released that uses the earlier name
ALTER TABLE "rejected_callbacks" RENAME CONSTRAINT "anomalies_run_id_runs_id_fkey" TO "rejected_callbacks_run_id_runs_id_fkey";
--> statement-breakpoint
-- decision 0016: nothing has been released that uses the earlier name
ALTER TABLE "operations" RENAME COLUMN "wish" TO "interrupt";
--> statement-breakpoint
-- decision 0016: nothing has been released that uses the earlier name
ALTER TABLE "operations" RENAME COLUMN "wish_by" TO "interrupt_by";
--> statement-breakpoint
-- decision 0016: nothing has been released that uses the earlier name
ALTER TABLE "operations" RENAME COLUMN "wish_reason" TO "interrupt_reason";
--> statement-breakpoint
-- decision 0016: nothing has been released that uses the earlier name
ALTER TABLE "operations" RENAME COLUMN "wish_at" TO "interrupt_at";
--> statement-breakpoint
-- decision 0016: nothing has been released that uses the earlier name
ALTER TABLE "runs" RENAME COLUMN "wish" TO "interrupt";
--> statement-breakpoint
-- decision 0016: nothing has been released that uses the earlier name
ALTER TABLE "runs" RENAME COLUMN "wish_by" TO "interrupt_by";
--> statement-breakpoint
-- decision 0016: nothing has been released that uses the earlier name
ALTER TABLE "runs" RENAME COLUMN "wish_reason" TO "interrupt_reason";
--> statement-breakpoint
-- decision 0016: nothing has been released that uses the earlier name
ALTER TABLE "runs" RENAME COLUMN "wish_at" TO "interrupt_at";
--> statement-breakpoint
-- decision 0016: nothing has been released that uses the earlier name
ALTER TABLE "runs" RENAME COLUMN "wish_mode" TO "interrupt_mode";
--> statement-breakpoint
-- decision 0016: nothing has been released that uses the earlier name
ALTER TABLE "runs" RENAME COLUMN "wish_failure" TO "interrupt_failure";
--> statement-breakpoint
-- decision 0016: nothing has been released that uses the earlier name
ALTER INDEX "anomalies_run" RENAME TO "rejected_callbacks_run";
--> statement-breakpoint
CREATE OR REPLACE FUNCTION "record_operation_change"() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE changed text[];
BEGIN
  IF TG_OP = 'INSERT' THEN
    INSERT INTO change_inbox (subject, subject_id, event, fields) VALUES ('OPERATION', NEW.id, 'CREATED', '{}');
    RETURN NULL;
  END IF;
  changed := array_remove(ARRAY[
    CASE WHEN (OLD.state, OLD.started_at, OLD.finished_at) IS DISTINCT FROM (NEW.state, NEW.started_at, NEW.finished_at) THEN 'STATE' END,
    CASE WHEN OLD.total_count IS DISTINCT FROM NEW.total_count THEN 'PROGRESS' END,
    CASE WHEN (OLD.waves, OLD.wave, OLD.wave_state, OLD.wave_reason, OLD.wave_by, OLD.wave_until) IS DISTINCT FROM (NEW.waves, NEW.wave, NEW.wave_state, NEW.wave_reason, NEW.wave_by, NEW.wave_until) THEN 'WAVES' END,
    CASE WHEN (OLD.interrupt, OLD.interrupt_by, OLD.interrupt_reason, OLD.interrupt_at) IS DISTINCT FROM (NEW.interrupt, NEW.interrupt_by, NEW.interrupt_reason, NEW.interrupt_at) THEN 'INTERRUPT' END,
    CASE WHEN OLD.first_failure IS DISTINCT FROM NEW.first_failure THEN 'FAILURE' END,
    CASE WHEN (OLD.cluster_id, OLD.on_failure, OLD.max_parallel, OLD.options, OLD.variables) IS DISTINCT FROM (NEW.cluster_id, NEW.on_failure, NEW.max_parallel, NEW.options, NEW.variables) THEN 'OPTIONS' END
  ], NULL);
  IF changed <> '{}' THEN
    INSERT INTO change_inbox (subject, subject_id, event, fields, before) VALUES ('OPERATION', OLD.id, 'CHANGED', changed,
      CASE WHEN OLD.state <> NEW.state THEN jsonb_build_object('state', OLD.state) END);
  END IF;
  RETURN NULL;
END $$;
--> statement-breakpoint
CREATE OR REPLACE FUNCTION "record_run_change"() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE changed text[];
BEGIN
  IF TG_OP = 'INSERT' THEN
    INSERT INTO change_inbox (subject, subject_id, node_id, operation_id, event, fields)
    VALUES ('RUN', NEW.id, NEW.node_id, NEW.operation_id, 'CREATED', '{}');
    RETURN NULL;
  END IF;
  changed := array_remove(ARRAY[
    CASE WHEN (OLD.state, OLD.started_at, OLD.finished_at) IS DISTINCT FROM (NEW.state, NEW.started_at, NEW.finished_at) THEN 'STATE' END,
    CASE WHEN (OLD.leg, OLD.position, OLD.generation) IS DISTINCT FROM (NEW.leg, NEW.position, NEW.generation) THEN 'STEP' END,
    CASE WHEN (OLD.wake_at, OLD.wait_reason, OLD.waiting_since, OLD.wait_for) IS DISTINCT FROM (NEW.wake_at, NEW.wait_reason, NEW.waiting_since, NEW.wait_for) THEN 'WAIT' END,
    CASE WHEN (OLD.interrupt, OLD.interrupt_by, OLD.interrupt_reason, OLD.interrupt_at, OLD.interrupt_mode, OLD.power_off) IS DISTINCT FROM (NEW.interrupt, NEW.interrupt_by, NEW.interrupt_reason, NEW.interrupt_at, NEW.interrupt_mode, NEW.power_off) THEN 'INTERRUPT' END,
    CASE WHEN (OLD.failure, OLD.errors, OLD.interrupt_failure, OLD.left_as) IS DISTINCT FROM (NEW.failure, NEW.errors, NEW.interrupt_failure, NEW.left_as) THEN 'FAILURE' END
  ], NULL);
  IF changed <> '{}' THEN
    INSERT INTO change_inbox (subject, subject_id, node_id, operation_id, event, fields)
    VALUES ('RUN', NEW.id, NEW.node_id, NEW.operation_id, 'CHANGED', changed);
  END IF;
  RETURN NULL;
END $$;
