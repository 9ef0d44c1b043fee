-- decision 0062: triggers of this migration take its place, also for the release before
ALTER TABLE "runs" DROP CONSTRAINT "runs_operation_id_operations_id_fkey";
--> statement-breakpoint
-- decision 0062: triggers of this migration take its place, also for the release before
ALTER TABLE "runs" DROP CONSTRAINT "runs_plan_hash_plans_hash_fkey";
--> statement-breakpoint
-- decision 0062: the operation and the plan of new runs are looked up once per statement. As with a foreign key, the
-- rows are locked until the transaction ends, and the error names the constraint, also to the release before.
CREATE FUNCTION "check_new_runs"() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  missing text;
BEGIN
  PERFORM FROM operations WHERE id IN (SELECT operation_id FROM created) ORDER BY id FOR KEY SHARE;
  SELECT operation_id INTO missing FROM created
  WHERE NOT EXISTS (SELECT FROM operations WHERE id = operation_id) LIMIT 1;
  IF missing IS NOT NULL THEN
    RAISE foreign_key_violation USING MESSAGE = format('a new run refers to operation %s, which is not stored', missing),
      TABLE = 'runs', CONSTRAINT = 'runs_operation_id_operations_id_fkey';
  END IF;
  PERFORM FROM plans WHERE hash IN (SELECT plan_hash FROM created) ORDER BY hash FOR KEY SHARE;
  SELECT plan_hash INTO missing FROM created WHERE NOT EXISTS (SELECT FROM plans WHERE hash = plan_hash) LIMIT 1;
  IF missing IS NOT NULL THEN
    RAISE foreign_key_violation USING MESSAGE = format('a new run refers to plan %s, which is not stored', missing),
      TABLE = 'runs', CONSTRAINT = 'runs_plan_hash_plans_hash_fkey';
  END IF;
  RETURN NULL;
END $$;
--> statement-breakpoint
-- decision 0062: as the foreign key did
CREATE TRIGGER "runs_refer" AFTER INSERT ON "runs" REFERENCING NEW TABLE AS created FOR EACH STATEMENT
  EXECUTE FUNCTION check_new_runs();
--> statement-breakpoint
CREATE FUNCTION "check_deleted_operations"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM runs JOIN deleted ON runs.operation_id = deleted.id) THEN
    RAISE foreign_key_violation USING MESSAGE = 'an operation that has runs is not deleted',
      TABLE = 'runs', CONSTRAINT = 'runs_operation_id_operations_id_fkey';
  END IF;
  RETURN NULL;
END $$;
--> statement-breakpoint
-- decision 0062: as the foreign key did
CREATE TRIGGER "operations_referred" AFTER DELETE ON "operations" REFERENCING OLD TABLE AS deleted FOR EACH STATEMENT
  EXECUTE FUNCTION check_deleted_operations();
--> statement-breakpoint
CREATE FUNCTION "check_deleted_plans"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM runs JOIN deleted ON runs.plan_hash = deleted.hash) THEN
    RAISE foreign_key_violation USING MESSAGE = 'a plan of a run is not deleted',
      TABLE = 'runs', CONSTRAINT = 'runs_plan_hash_plans_hash_fkey';
  END IF;
  RETURN NULL;
END $$;
--> statement-breakpoint
-- decision 0062: as the foreign key did
CREATE TRIGGER "plans_referred" AFTER DELETE ON "plans" REFERENCING OLD TABLE AS deleted FOR EACH STATEMENT
  EXECUTE FUNCTION check_deleted_plans();
--> statement-breakpoint
CREATE FUNCTION "keep_reference"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE foreign_key_violation USING MESSAGE = 'a run keeps its operation and its plan, and these their keys',
    TABLE = TG_TABLE_NAME, CONSTRAINT = TG_NAME;
END $$;
--> statement-breakpoint
-- decision 0062: as the foreign key did
CREATE TRIGGER "runs_keep_references" BEFORE UPDATE OF operation_id, plan_hash ON "runs" FOR EACH ROW
  WHEN (NEW.operation_id <> OLD.operation_id OR NEW.plan_hash <> OLD.plan_hash) EXECUTE FUNCTION keep_reference();
--> statement-breakpoint
-- decision 0062: as the foreign key did
CREATE TRIGGER "operations_keep_id" BEFORE UPDATE OF id ON "operations" FOR EACH ROW WHEN (NEW.id <> OLD.id)
  EXECUTE FUNCTION keep_reference();
--> statement-breakpoint
-- decision 0062: as the foreign key did
CREATE TRIGGER "plans_keep_hash" BEFORE UPDATE OF hash ON "plans" FOR EACH ROW WHEN (NEW.hash <> OLD.hash)
  EXECUTE FUNCTION keep_reference();
