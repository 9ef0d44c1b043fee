/**
 * Two witnesses of what really happens, neither of which asks the service. In the database triggers write down every
 * change of an operation, a run and an attempt in the order of the run's lock, so that "before" and "after" are
 * certain. In the driver every entry of a step is recorded by the worker that entered it.
 */
import createFake from "../../plugins/fake/index.ts";
import type { FakeSettings } from "../../plugins/fake/settings.ts";
import type { Call, Driver, Step, StepCall, StepResult } from "../../src/drivers/driver.ts";
import type { Sql } from "postgres";

// ---- the driver's witness

/** One entry of a step. */
export interface Visit {
  readonly owner: string;
  readonly run: string;
  readonly attempt: string;
  readonly node: string;
  readonly step: string;
  readonly at: number;
  /** When it left; null: it never did. */
  left: number | null;
  /** Its signal fired while it was inside, and not because its time was over. */
  cut: boolean;
  /** Its process was killed while it was inside. */
  killed: boolean;
  /** It asked to be entered again after so long, in ms; null: it did not. */
  waits: number | null;
  /** The machine had called back. */
  readonly calledBack: boolean;
  /** The step itself, not what looks over its work, was entered from its beginning: without a memo. */
  readonly fresh: boolean;
}

/** The entry of a step, as a listener gets it. */
export interface Entered {
  readonly visit: Visit;
  readonly memo: unknown;
  readonly callbackPath: string;
}

export interface Listener {
  readonly owner: string;
  entered(entered: Entered): void;
  left(visit: Visit): void;
}

/** The fake driver under the name `watched`, with a witness at the door of each step. */
export function watchedFake({ owner, entered, left }: Listener): Driver<FakeSettings> {
  const fake = createFake({ log: () => {} });
  const watch = (interfaceName: string, step: Step<FakeSettings>): Step<FakeSettings> => {
    const inside = async (
      call: StepCall<FakeSettings>,
      fresh: boolean,
      work: (call: StepCall<FakeSettings>) => Promise<StepResult>,
    ): Promise<StepResult> => {
      const visit: Visit = {
        owner,
        run: call.attemptKey.split(":")[0] ?? "",
        attempt: call.attemptKey,
        node: call.node.id,
        step: `${interfaceName}.${step.name}`,
        at: Date.now(),
        left: null,
        cut: false,
        killed: false,
        waits: null,
        calledBack: call.callback !== null,
        fresh,
      };
      entered({ visit, memo: call.memo, callbackPath: call.callbackPath });
      try {
        const result = await work(call);
        if (result.kind === "wait") visit.waits = (result.seconds ?? Infinity) * 1000;
        return result;
      } finally {
        visit.left = Date.now();
        visit.cut = isCut(call);
        left(visit);
      }
    };
    return {
      ...step,
      run: (call) => inside(call, call.memo === null, (of) => step.run(of)),
      ...(step.verify && {
        verify: (call: StepCall<FakeSettings>) =>
          inside(call, false, (of) => step.verify?.(of) ?? Promise.reject(new Error("The step has no second part."))),
      }),
    };
  };
  return {
    ...fake,
    name: "watched",
    ...(fake.inspect && {
      inspect: { ...fake.inspect, steps: fake.inspect.steps.map((step) => watch("inspect", step)) },
    }),
    ...(fake.clean && { clean: { ...fake.clean, steps: fake.clean.steps.map((step) => watch("clean", step)) } }),
    ...(fake.deploy && { deploy: { ...fake.deploy, steps: fake.deploy.steps.map((step) => watch("deploy", step)) } }),
  };
}

function isCut({ signal, deadline }: Call<FakeSettings>): boolean {
  return signal.aborted && deadline.getTime() > Date.now();
}

// ---- the database's witness

/** One change, as a trigger saw it inside the transaction that made it. */
export interface Seen {
  /** Orders the changes of one run, and those of one operation. */
  readonly seq: number;
  /** By the database's clock, ms. */
  readonly at: number;
  /** Start of the transaction that made the change, ms. */
  readonly begunAt: number;
  readonly runId: string | null;
  readonly what:
    | "CREATED"
    | "STATE"
    | "INTERRUPT"
    | "FENCE"
    | "ATTEMPT"
    | "ENTRY"
    | "OPERATION"
    | "OPERATION_INTERRUPT";
  readonly was: string | null;
  readonly becomes: string | null;
  /** CREATED has the state of the node, an interrupt its caller, an attempt its step and number. */
  readonly more: { readonly by?: string; readonly step?: number; readonly number?: number; readonly node?: NodeThen };
}

/** A node in the moment in which a run on it was accepted. */
export interface NodeThen {
  readonly state: string;
  readonly stage: string;
  readonly maintenance: boolean;
  readonly isProtected: boolean;
  readonly isRetired: boolean;
  readonly lastTarget: string | null;
  readonly presence: string;
  /** Its unfinished runs, this one left out. */
  readonly others: number;
}

const WATCH = `
  create schema watch;
  create table watch.seen (
    seq bigint generated always as identity primary key, at timestamptz not null default clock_timestamp(), begun_at timestamptz not null default transaction_timestamp(),
    operation_id uuid not null, run_id uuid, what text not null, was text, becomes text, more jsonb not null default '{}');
  create index seen_operation on watch.seen (operation_id);

  create function watch.run_created() returns trigger language plpgsql as $$ begin
    insert into watch.seen (operation_id, run_id, what, becomes, more)
    select new.operation_id, new.id, 'CREATED', new.state, jsonb_build_object('node', jsonb_build_object(
      'state', n.state, 'stage', n.stage, 'maintenance', n.maintenance_since is not null, 'isProtected', n.is_protected, 'isRetired', n.retired_reason is not null,
      'presence', n.presence,
      'lastTarget', (select r.target from runs r where r.node_id = n.id and r.id <> new.id and r.purpose = 'WORK' and r.moves_state order by r.created_at desc limit 1),
      'others', (select count(*) from runs r where r.node_id = n.id and r.finished_at is null and r.id <> new.id)))
    from nodes n where n.id = new.node_id;
    return null; end $$;
  create trigger watch_created after insert on runs for each row execute function watch.run_created();

  create function watch.run_changed() returns trigger language plpgsql as $$ begin
    if new.interrupt is distinct from old.interrupt then
      insert into watch.seen (operation_id, run_id, what, was, becomes, more) values (new.operation_id, new.id, 'INTERRUPT', old.interrupt, new.interrupt, jsonb_build_object('by', new.interrupt_by)); end if;
    if new.state <> old.state then
      insert into watch.seen (operation_id, run_id, what, was, becomes) values (new.operation_id, new.id, 'STATE', old.state, new.state); end if;
    if new.fence <> old.fence and new.finished_at is null then
      insert into watch.seen (operation_id, run_id, what, was, becomes) values (new.operation_id, new.id, 'FENCE', old.fence, new.fence); end if;
    return null; end $$;
  create trigger watch_changed after update on runs for each row
    when (new.interrupt is distinct from old.interrupt or new.state <> old.state or new.fence <> old.fence) execute function watch.run_changed();

  create function watch.attempt_changed() returns trigger language plpgsql as $$ begin
    insert into watch.seen (operation_id, run_id, what, was, becomes, more)
    select r.operation_id, new.run_id, case when tg_op = 'UPDATE' and new.state = old.state then 'ENTRY' else 'ATTEMPT' end,
      case when tg_op = 'UPDATE' then old.state end, new.state, jsonb_build_object('step', new.step, 'number', new.number)
    from runs r where r.id = new.run_id;
    return null; end $$;
  create trigger watch_begun after insert on attempts for each row execute function watch.attempt_changed();
  create trigger watch_attempt after update on attempts for each row
    when (new.state <> old.state or new.entries <> old.entries) execute function watch.attempt_changed();

  create function watch.operation_changed() returns trigger language plpgsql as $$ begin
    if (new.interrupt, new.interrupt_by) is distinct from (old.interrupt, old.interrupt_by) then
      insert into watch.seen (operation_id, what, was, becomes, more) values (new.id, 'OPERATION_INTERRUPT', old.interrupt, new.interrupt, jsonb_build_object('by', new.interrupt_by)); end if;
    if new.state <> old.state then
      insert into watch.seen (operation_id, what, was, becomes) values (new.id, 'OPERATION', old.state, new.state); end if;
    return null; end $$;
  create trigger watch_operation after update on operations for each row
    when ((new.interrupt, new.interrupt_by) is distinct from (old.interrupt, old.interrupt_by) or new.state <> old.state)
    execute function watch.operation_changed();`;

/** Puts the triggers in. The service neither sees nor needs them. */
export async function watchDatabase(sql: Sql): Promise<void> {
  await sql.unsafe(WATCH);
}

// ---- accounts

export interface AttemptSeen {
  readonly step: number;
  readonly number: number;
  readonly state: "RUNNING" | "WAITING" | "SUCCEEDED" | "FAILED" | "ABORTED";
  readonly entries: number;
  readonly isFinished: boolean;
}

export interface TransitionSeen {
  readonly position: number;
  readonly from: string | null;
  readonly to: string | null;
  readonly event: string;
  readonly actor: string;
  readonly step: string | null;
  readonly at: number;
}

/** Everything that is stored of a run, and what the witnesses say of it. */
export interface RunAccount {
  readonly id: string;
  readonly nodeId: string;
  readonly nodeName: string;
  readonly purpose: "WORK" | "CLEAN_UP";
  /** As it ended, also if it is UNDONE. */
  readonly state: string;
  readonly isUndone: boolean;
  readonly target: string;
  readonly interrupt: string | null;
  readonly leftAs: {
    readonly power: string;
    readonly mayBeWorking?: boolean;
    readonly tearDownError: string | null;
  } | null;
  readonly failure: { readonly code: string; readonly message: string } | null;
  readonly powerOff: boolean | null;
  readonly isFinished: boolean;
  readonly isOwned: boolean;
  readonly plan: {
    readonly bestEffort: boolean;
    readonly steps: readonly {
      readonly leg: number;
      readonly interface: string;
      readonly name: string;
      readonly phase: string;
      readonly kept: boolean;
    }[];
  };
  readonly attempts: readonly AttemptSeen[];
  readonly transitions: readonly TransitionSeen[];
  readonly seen: readonly Seen[];
  readonly visits: readonly Visit[];
  /** The node as it is now. */
  readonly nodeState: string;
  readonly nodeFault: string | null;
}

export interface OperationAccount {
  readonly id: string;
  readonly kind: string;
  readonly state: string;
  readonly interrupt: string | null;
  readonly interruptBy: string | null;
  readonly onFailure: string;
  readonly maxParallel: number | null;
  readonly isFinished: boolean;
  readonly seen: readonly Seen[];
  readonly runs: readonly RunAccount[];
}

/** All that is known of some operations. `visits`: by run. */
export async function accountsOf(
  sql: Sql,
  ids: readonly string[],
  visits: ReadonlyMap<string, readonly Visit[]>,
): Promise<OperationAccount[]> {
  const operations = await sql<{ account: Omit<OperationAccount, "seen" | "runs"> }[]>`
    select jsonb_build_object('id', id, 'kind', kind, 'state', state, 'interrupt', interrupt, 'interruptBy', interrupt_by, 'onFailure', on_failure, 'maxParallel', max_parallel, 'isFinished', finished_at is not null) as account
    from operations where id in ${sql([...ids])} order by created_at`;
  const runs = await sql<{ operation: string; account: Omit<RunAccount, "seen" | "visits" | "isUndone"> }[]>`
    select r.operation_id as operation, jsonb_build_object(
      'id', r.id, 'nodeId', r.node_id, 'nodeName', r.node_name, 'purpose', r.purpose, 'state', r.state, 'target', r.target, 'interrupt', r.interrupt, 'leftAs', r.left_as, 'failure', r.failure,
      'powerOff', r.power_off, 'isFinished', r.finished_at is not null, 'isOwned', r.owner is not null, 'plan', p.plan, 'nodeState', n.state, 'nodeFault', n.fault_kind,
      'attempts', (select coalesce(jsonb_agg(jsonb_build_object('step', a.step, 'number', a.number, 'state', a.state, 'entries', a.entries, 'isFinished', a.finished_at is not null) order by a.step, a.number), '[]')
        from attempts a where a.run_id = r.id),
      'transitions', (select coalesce(jsonb_agg(jsonb_build_object('position', t.position, 'from', t.from_state, 'to', t.to_state, 'event', t.event, 'actor', t.actor, 'step', t.step,
        'at', extract(epoch from t.at) * 1000) order by t.position), '[]') from transitions t where t.operation_id = r.operation_id and t.run_id = r.id)) as account
    from runs r join plans p on p.hash = r.plan_hash left join nodes n on n.id = r.node_id where r.operation_id in ${sql([...ids])} order by r.ordinal, r.created_at`;
  const seen = await sql<{ operation: string; seen: Seen }[]>`
    select operation_id as operation, jsonb_build_object('seq', seq, 'at', extract(epoch from at) * 1000, 'begunAt', extract(epoch from begun_at) * 1000, 'runId', run_id, 'what', what, 'was', was, 'becomes', becomes, 'more', more) as seen
    from watch.seen where operation_id in ${sql([...ids])} order by seq`;
  const seenBy = Map.groupBy(seen, ({ operation }) => operation);
  const runsBy = Map.groupBy(runs, ({ operation }) => operation);
  return operations.map(({ account }) => {
    const all = (seenBy.get(account.id) ?? []).map((row) => row.seen);
    return {
      ...account,
      seen: all.filter(({ runId }) => runId === null),
      runs: (runsBy.get(account.id) ?? []).map(({ account: run }) => {
        const own = all.filter(({ runId }) => runId === run.id);
        const undone = own.find(({ what, becomes }) => what === "STATE" && becomes === "UNDONE");
        return {
          ...run,
          state: undone?.was ?? run.state,
          isUndone: run.state === "UNDONE",
          seen: own.filter((one) => one !== undone),
          visits: visits.get(run.id) ?? [],
        };
      }),
    };
  });
}
