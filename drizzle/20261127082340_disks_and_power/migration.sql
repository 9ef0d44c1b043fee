ALTER TABLE "inventories" ADD COLUMN "driver" text;--> statement-breakpoint
-- decision 0067: inventories of the release before were made by one driver each.
UPDATE "inventories" SET "driver" = (
  SELECT step->>'driver' FROM "runs" JOIN "plans" ON "plans"."hash" = "runs"."plan_hash", jsonb_array_elements("plans"."plan"->'steps') step
  WHERE "runs"."id" = "inventories"."run_id" AND step->>'phase' = 'inspect' LIMIT 1
);--> statement-breakpoint
ALTER TABLE "runs" ADD COLUMN "forced_power" jsonb;--> statement-breakpoint
-- decision 0067: the power can be forced in every state; the table has a row for each edge.
INSERT INTO "lifecycle_edges" ("from_state", "event", "to_state")
SELECT state, 'power_forced', state
FROM (SELECT from_state AS state FROM "lifecycle_edges" UNION SELECT to_state FROM "lifecycle_edges") AS states;
