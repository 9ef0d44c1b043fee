/** Durations of past steps, for estimates. They are read from the attempts. */
import { sql } from "drizzle-orm";
import type { Reader } from "../postgres/database.ts";

export interface StepKind {
  readonly driver: string;
  /** `interface.name`. */
  readonly label: string;
  /** Model of the node; null if unknown. */
  readonly model: string | null;
}

/** Durations of succeeded attempts, in seconds. */
export interface StepHistory {
  readonly medianSeconds: number;
  readonly p90Seconds: number;
  /** Number of attempts. */
  readonly samples: number;
  /** Model of the nodes; null for all models. */
  readonly model: string | null;
}

/** Number of the newest attempts at a driver's step that count: old durations say little about today. */
const ATTEMPTS_MAX = 1_000;

interface Row {
  readonly driver: string;
  readonly label: string;
  /** Null in the row over all models, and for nodes of an unknown model. */
  readonly model: string | null;
  readonly ofAll: boolean;
  readonly samples: number;
  readonly seconds: readonly [number, number];
}

/**
 * The durations of each kind of step, in order: on nodes of the same model if there are any, else on all nodes of the
 * driver; null if the step never succeeded. One statement; its cost depends on the number of different steps.
 */
export async function stepHistories(reader: Reader, kinds: readonly StepKind[]): Promise<(StepHistory | null)[]> {
  if (kinds.length === 0) return [];
  const requested = new Map(kinds.map((kind) => [keyOf(kind), kind]));
  const rows = (await reader.execute(sql`
    with requested as (select * from jsonb_to_recordset(${JSON.stringify([...requested.values()])}::text::jsonb) as a(driver text, label text, model text))
    select step.driver, step.label, h.model, h.of_all as "ofAll", h.samples, h.seconds
    from (select distinct driver, label from requested) step cross join lateral (
      select newest.model, grouping(newest.model) = 1 as of_all, count(*)::int as samples, percentile_cont(array[0.5, 0.9]) within group (order by newest.seconds) as seconds
      from (
        select model, extract(epoch from finished_at - started_at)::float8 as seconds from attempts
        where driver = step.driver and label = step.label and state = 'SUCCEEDED' and finished_at is not null
        order by started_at desc limit ${ATTEMPTS_MAX}
      ) newest
      group by grouping sets ((), (newest.model))
    ) h
    where h.samples > 0 and (h.of_all or exists (select 1 from requested where requested.driver = step.driver and requested.label = step.label and requested.model = h.model))`)) as unknown as readonly Row[];
  const ofAll = new Map(rows.filter((row) => row.ofAll).map((row) => [keyOf({ ...row, model: null }), historyOf(row)]));
  const ofModel = new Map(rows.filter((row) => !row.ofAll).map((row) => [keyOf(row), historyOf(row)]));
  return kinds.map((kind) => ofModel.get(keyOf(kind)) ?? ofAll.get(keyOf({ ...kind, model: null })) ?? null);
}

function historyOf({ model, samples, seconds: [medianSeconds, p90Seconds] }: Row): StepHistory {
  return { medianSeconds, p90Seconds, samples, model };
}

function keyOf({ driver, label, model }: StepKind): string {
  return JSON.stringify([driver, label, model]);
}
