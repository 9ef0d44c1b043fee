-- decision 0056: new runs are recorded once per statement, which takes two thirds of what a trigger for each row takes.
-- The trigger keeps its name and records the same, also of writers of the release before.
CREATE FUNCTION "record_new_runs"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO change_inbox (subject, subject_id, node_id, operation_id, event, fields)
  SELECT 'RUN', id, node_id, operation_id, 'CREATED', '{}' FROM created;
  RETURN NULL;
END $$;
--> statement-breakpoint
-- decision 0042: a trigger records changes of every writer, also of the release before
CREATE OR REPLACE TRIGGER "runs_recorded" AFTER INSERT ON "runs" REFERENCING NEW TABLE AS created FOR EACH STATEMENT
  EXECUTE FUNCTION record_new_runs();
