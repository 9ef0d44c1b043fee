/**
 * The baseline for the engine: a loop in one process that writes the same rows as the engine and does nothing else. It
 * uses the same tables at the same points, with one transaction per step boundary, but has no claims, locks, fences,
 * interrupts or drivers. It reads the runs that admission has stored.
 */
import { randomUUID } from "node:crypto";
import postgres from "postgres";
import type { Sql, TransactionSql } from "postgres";
import { next } from "../src/lifecycle/machine.ts";
import type { NodeEvent, NodeState } from "../src/lifecycle/node-states.ts";
import type { Connection } from "../src/store/postgres/database.ts";
import type { Plan, PlannedStep } from "../src/store/records.ts";

interface BareRun {
  readonly id: string;
  readonly operationId: string;
  readonly nodeId: string;
  readonly nodeName: string;
  readonly project: string;
  readonly target: string;
  state: NodeState;
  leg: number;
}

/** The same number of connections as the service. */
const CONNECTIONS = 20;

export interface BareLoop extends AsyncDisposable {
  /** Executes every run to its end. */
  work(): Promise<void>;
}

export async function openBareLoop({
  connection,
  concurrency,
}: {
  readonly connection: Connection;
  readonly concurrency: number;
}): Promise<BareLoop> {
  const options = { max: CONNECTIONS, max_pipeline: 1e9, onnotice: () => {} };
  const sql = "url" in connection ? postgres(connection.url, options) : postgres({ ...connection, ...options });
  return {
    async work() {
      const [stored] = await sql<{ plan: Plan }[]>`select plan from plans`;
      if (!stored) throw new Error("Nothing was admitted.");
      const runs = await sql<BareRun[]>`
        select r.id, r.operation_id as "operationId", r.node_id as "nodeId", n.name as "nodeName", n.project, r.target, n.state, r.leg
        from runs r join nodes n on n.id = r.node_id where r.finished_at is null order by r.ordinal`;
      const waiting = [...runs];
      let left = runs.length;
      await sql`update operations set state = 'RUNNING', started_at = now(), revision = revision + 1`;
      const worker = async () => {
        for (let run = waiting.shift(); run; run = waiting.shift()) {
          await execute(sql, run, stored.plan);
          left -= 1;
          if (left === 0)
            await sql`update operations set state = 'SUCCEEDED', finished_at = now(), revision = revision + 1 where id = ${run.operationId}`;
        }
      };
      await Promise.all(Array.from({ length: concurrency }, worker));
    },
    async [Symbol.asyncDispose]() {
      await sql.end({ timeout: 5 });
    },
  };
}

async function execute(sql: Sql, run: BareRun, plan: Plan): Promise<void> {
  await sql.begin(async (tx) => {
    await tx`update runs set fence = 1, owner = ${randomUUID()}, state = 'RUNNING', started_at = now(), generation = generation + 1, open_generation = generation + 1, revision = revision + 1, updated_at = clock_timestamp() where id = ${run.id}`;
    await beginAttempt(tx, run, plan.steps[0], 0);
    await append(tx, await enterLegs(tx, run, plan, 0));
  });
  for (const index of plan.steps.keys()) {
    await sql.begin((tx) => passBoundary(tx, run, plan, index));
  }
}

async function passBoundary(tx: TransactionSql, run: BareRun, plan: Plan, index: number): Promise<void> {
  const step = plan.steps[index];
  if (!step) return;
  const output = step.phase === "inspect" ? { cpus: 8 } : null;
  await tx`update attempts set state = 'SUCCEEDED', output = ${tx.json(output)}, finished_at = now() where run_id = ${run.id} and step = ${index} and number = 1`;
  if (step.phase === "verify")
    await tx`update nodes set power_state = 'OFF', power_read_at = now(), revision = revision + 1, updated_at = now() where id = ${run.nodeId}`;
  if (step.phase === "inspect")
    await tx`insert into inventories (id, node_id, run_id, data) values (${randomUUID()}, ${run.nodeId}, ${run.id}, ${tx.json(output)})`;
  if (step.reaches)
    await tx`update nodes set stage = ${step.reaches}, revision = revision + 1, updated_at = now() where id = ${run.nodeId}`;
  const transitions: object[] = [];
  const following = plan.steps[index + 1];
  if (following) {
    transitions.push(...(await enterLegs(tx, run, plan, following.leg)));
    await beginAttempt(tx, run, following, index + 1);
    await tx`update runs set position = ${index + 1}, leg = ${run.leg}, generation = generation + 1, open_generation = generation + 1, revision = revision + 1, updated_at = clock_timestamp() where id = ${run.id}`;
  } else {
    for (const event of plan.finish) transitions.push(await move(tx, run, step, { event, stage: "DEPLOYED" }));
    await tx`update runs set state = 'SUCCEEDED', position = ${index + 1}, finished_at = now(), owner = null, open_generation = null, slot_phase = null, slot_controller = null, fence = 2, revision = revision + 1, updated_at = clock_timestamp() where id = ${run.id}`;
  }
  if (transitions.length > 0) await append(tx, transitions);
}

async function enterLegs(tx: TransactionSql, run: BareRun, plan: Plan, leg: number): Promise<object[]> {
  const transitions: object[] = [];
  const step = plan.steps[leg];
  while (run.leg < leg) {
    run.leg += 1;
    const { enter = [], phase } = plan.legs[run.leg] ?? {};
    for (const event of enter)
      transitions.push(
        await move(tx, run, step, { event, stage: phase === "clean" || phase === "deploy" ? "NONE" : null }),
      );
  }
  return transitions;
}

async function beginAttempt(
  tx: TransactionSql,
  run: BareRun,
  step: PlannedStep | undefined,
  index: number,
): Promise<void> {
  await tx`insert into attempts (run_id, step, number, state, deadline_at) values (${run.id}, ${index}, 1, 'RUNNING', now() + make_interval(secs => ${step?.timeoutSeconds ?? 0}))`;
}

async function move(
  tx: TransactionSql,
  run: BareRun,
  step: PlannedStep | undefined,
  { event, stage }: { readonly event: NodeEvent; readonly stage: string | null },
): Promise<object> {
  const from = run.state;
  const to = next(from, event);
  const [row] = await tx`
    update nodes set state = ${to}, stage = coalesce(${stage}, stage), transition_count = transition_count + 1, revision = revision + 1, updated_at = now()
    where id = ${run.nodeId} returning transition_count, revision`;
  run.state = to;
  return {
    nodeId: run.nodeId,
    nodeName: run.nodeName,
    project: run.project,
    fromState: from,
    toState: to,
    event,
    sequence: row?.["transition_count"] as number,
    nodeRevision: row?.["revision"] as number,
    target: run.target,
    operationId: run.operationId,
    runId: run.id,
    step: step ? `${step.interface}.${step.name}` : null,
    actor: "engine",
    reason: null,
  };
}

/** The statement of `appendTransitions`: positions must be drawn as the engine draws them. */
async function append(tx: TransactionSql, rows: readonly object[]): Promise<void> {
  const json = JSON.stringify(rows.map((row, index) => ({ ...row, ord: index + 1 })));
  await tx`
    with drawn as (update feed_position set position = position + ${rows.length} returning position)
    insert into transitions (position, node_id, node_name, project, from_state, to_state, event, sequence, node_revision,
                             target, operation_id, run_id, step, actor, reason, at)
    select drawn.position - ${rows.length} + r.ord, r."nodeId", r."nodeName", r.project, r."fromState", r."toState", r.event,
           r.sequence, r."nodeRevision", r.target, r."operationId", r."runId", r.step, r.actor, r.reason, clock_timestamp()
    from drawn, jsonb_to_recordset(${json}::text::jsonb) as r(
      ord bigint, "nodeId" uuid, "nodeName" text, project text, "fromState" text, "toState" text, event text, sequence int,
      "nodeRevision" int, target text, "operationId" uuid, "runId" uuid, step text, actor text, reason text)`;
}
