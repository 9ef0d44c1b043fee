CREATE TABLE "audit" (
	"id" bigint GENERATED ALWAYS AS IDENTITY (sequence name "audit_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"position" bigint,
	"at" timestamp(3) with time zone DEFAULT clock_timestamp() NOT NULL,
	"subject" text NOT NULL,
	"display_name" text,
	"credential" text,
	"address" text,
	"transport" text NOT NULL,
	"request_id" text,
	"document" text,
	"action" text NOT NULL,
	"targets" text[] NOT NULL,
	"target_count" integer NOT NULL,
	"operation_id" uuid,
	"outcome" text NOT NULL,
	"code" text,
	"reason" text,
	"change" jsonb,
	"projects" text[]
);
--> statement-breakpoint
CREATE TABLE "audit_position" (
	"id" boolean PRIMARY KEY DEFAULT true,
	"position" bigint NOT NULL
);
--> statement-breakpoint
CREATE INDEX "audit_new" ON "audit" ("id") WHERE "position" is null;--> statement-breakpoint
CREATE UNIQUE INDEX "audit_position_once" ON "audit" ("position") WHERE "position" is not null;--> statement-breakpoint
CREATE INDEX "audit_subject" ON "audit" ("subject","position") WHERE "position" is not null;--> statement-breakpoint
CREATE INDEX "audit_targets" ON "audit" USING gin ("targets") WHERE "position" is not null;--> statement-breakpoint
INSERT INTO "audit_position" ("position") VALUES (0);--> statement-breakpoint
-- Numbers rows that have committed, in the order in which they were written, and returns how many; as `number_changes`.
CREATE FUNCTION "number_audit"("most" integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE newest bigint; numbered integer;
BEGIN
  SELECT position INTO newest FROM audit_position FOR UPDATE;
  WITH taken AS (SELECT id, row_number() OVER (ORDER BY id) AS place FROM
    (SELECT id FROM audit WHERE position IS NULL ORDER BY id LIMIT most) oldest)
  UPDATE audit SET position = newest + taken.place FROM taken WHERE audit.id = taken.id AND audit.position IS NULL;
  GET DIAGNOSTICS numbered = ROW_COUNT;
  IF numbered > 0 THEN
    UPDATE audit_position SET position = newest + numbered;
  END IF;
  RETURN numbered;
END $$;
--> statement-breakpoint
-- A row of the audit gets its position once, and then stays as it is. Retention says that it is retention.
CREATE FUNCTION "keep_audit"() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE as_it_was audit;
BEGIN
  IF TG_OP = 'UPDATE' THEN
    as_it_was := NEW;
    as_it_was.position := NULL;
    IF OLD.position IS NULL AND NEW.position IS NOT NULL AND as_it_was IS NOT DISTINCT FROM OLD THEN
      RETURN NEW;
    END IF;
  ELSIF TG_OP = 'DELETE' AND OLD.position IS NOT NULL AND current_setting('ostler.deletes_old_audit', true) = 'on' THEN
    RETURN OLD;
  END IF;
  RAISE EXCEPTION 'rows of audit are never changed; only the service deletes old ones, after OSTLER_AUDIT_DAYS'
    USING ERRCODE = 'check_violation';
END $$;
--> statement-breakpoint
CREATE TRIGGER "audit_kept" BEFORE UPDATE OR DELETE ON "audit" FOR EACH ROW EXECUTE FUNCTION keep_audit();
--> statement-breakpoint
CREATE TRIGGER "audit_not_truncated" BEFORE TRUNCATE ON "audit" FOR EACH STATEMENT EXECUTE FUNCTION keep_audit();
