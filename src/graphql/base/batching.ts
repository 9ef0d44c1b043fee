/**
 * Data loaders that read many keys in one statement. They cache nothing: a subscription lives long and must not see an
 * old row.
 */
import DataLoader from "dataloader";
import type { Reader } from "../../store/postgres/database.ts";

/** A query of the store about several parents at once; its answer is a map by parent. */
export type Question<Asked, Found> = (
  reader: Reader,
  parents: readonly string[],
  asked: Asked,
) => Promise<ReadonlyMap<string, Found>>;

/** An object that is made on first use: most of thousands of subscribers never use their loaders. */
export function lazily<Made extends object>(make: () => Made): Made {
  let made: Made | undefined;
  return new Proxy({} as Made, { get: (_none, name) => Reflect.get((made ??= make()), name) as unknown });
}

/** When a batch is sent; absent: when all that is ready has been asked for. */
export type Schedule = (send: () => void) => void;

export type ReadByKey<Value> = (keys: readonly string[]) => Promise<ReadonlyMap<string, Value>>;

/** A loader of one value per key; `absent` for keys that are not found. */
export function loaderOf<Found, Absent>(
  read: ReadByKey<Found>,
  absent: Absent,
  schedule?: Schedule,
): DataLoader<string, Found | Absent> {
  return new DataLoader(
    async (keys) => {
      const found = await read([...new Set(keys)]);
      return keys.map((key) => found.get(key) ?? absent);
    },
    { cache: false, ...(schedule && { batchScheduleFn: schedule }) },
  );
}

/** The rows of these keys, in their order, without those that do not exist. */
export async function existing<Row>(loader: DataLoader<string, Row | null>, keys: readonly string[]): Promise<Row[]> {
  return (await Promise.all(keys.map((key) => loader.load(key)))).filter((row) => row !== null);
}

export type Below = <Asked, Found>(
  question: Question<Asked, Found>,
  parent: string,
  asked: Asked,
  absent: Found,
) => Promise<Found>;

/** A `Below` that groups questions by their query and arguments, and sends one statement per group. */
export function belowOf(reader: Reader, schedule?: Schedule): Below {
  interface Key {
    readonly question: Question<unknown, unknown>;
    readonly parent: string;
    readonly asked: unknown;
    readonly absent: unknown;
  }
  const loader = new DataLoader<Key, unknown>(
    async (keys) => {
      const answers = new Map<Key, unknown>();
      const reads = [...Map.groupBy(keys, ({ question }) => question)].flatMap(([question, alike]) =>
        [...Map.groupBy(alike, ({ asked }) => JSON.stringify(asked)).values()].map(async (same) => {
          const found = await question(reader, [...new Set(same.map(({ parent }) => parent))], same[0]?.asked);
          for (const key of same) answers.set(key, found.get(key.parent) ?? key.absent);
        }),
      );
      await Promise.all(reads);
      return keys.map((key) => answers.get(key));
    },
    { cache: false, ...(schedule && { batchScheduleFn: schedule }) },
  );
  return async <Asked, Found>(question: Question<Asked, Found>, parent: string, asked: Asked, absent: Found) => {
    const key: Key = { question: question as Question<unknown, unknown>, parent, asked, absent };
    return (await loader.load(key)) as Found;
  };
}
