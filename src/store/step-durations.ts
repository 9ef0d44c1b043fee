/** How long steps took so far: what estimates are made of. Nothing is kept for it but the attempts themselves. */
import { sql } from "drizzle-orm";
import type { Reader } from "./postgres/database.ts";

/** What the durations of are asked for. */
export interface StepKind {
  readonly driver: string;
  /** `interface.name`. */
  readonly label: string;
  /** Of the node it is to run on; null: not known. */
  readonly model: string | null;
}

/** Durations of a kind of step, in seconds from the beginning of an attempt that succeeded to its end. */
export interface StepHistory {
  readonly medianSeconds: number;
  readonly p90Seconds: number;
  /** How many attempts that is made of. */
  readonly samples: number;
  /** The model whose nodes they were on; null: nodes of whatever model. */
  readonly model: string | null;
}

/** The newest so many attempts at a driver's step count: what took long years ago says nothing of today. */
const ATTEMPTS_MAX = 1_000;

interface Row {
  readonly driver: string;
  readonly label: string;
  /** Null in the row over all models, and for nodes whose model is not known. */
  readonly model: string | null;
  readonly ofAll: boolean;
  readonly samples: number;
  readonly seconds: readonly [number, number];
}

/**
 * The history of each kind, in order: of the node's model where there is any, else of the driver's nodes together; null
 * where nothing of the kind ever succeeded. One statement, whose cost goes with the number of different steps.
 */
export async function stepHistories(reader: Reader, kinds: readonly StepKind[]): Promise<(StepHistory | null)[]> {
  if (kinds.length === 0) return [];
  const asked = new Map(kinds.map((kind) => [keyOf(kind), kind]));
  const rows = (await reader.execute(sql`
    with asked as (select * from jsonb_to_recordset(${JSON.stringify([...asked.values()])}::text::jsonb) as a(driver text, label text, model text))
    select step.driver, step.label, h.model, h.of_all as "ofAll", h.samples, h.seconds
    from (select distinct driver, label from asked) step cross join lateral (
      select newest.model, grouping(newest.model) = 1 as of_all, count(*)::int as samples, percentile_cont(array[0.5, 0.9]) within group (order by newest.seconds) as seconds
      from (
        select model, extract(epoch from finished_at - started_at)::float8 as seconds from attempts
        where driver = step.driver and label = step.label and state = 'SUCCEEDED' and finished_at is not null
        order by finished_at desc limit ${ATTEMPTS_MAX}
      ) newest
      group by grouping sets ((), (newest.model))
    ) h
    where h.samples > 0 and (h.of_all or exists (select 1 from asked where asked.driver = step.driver and asked.label = step.label and asked.model = h.model))`)) as unknown as readonly Row[];
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
