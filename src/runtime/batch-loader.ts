/** Lookups by id that are requested in the same turn of the event loop, read together. */
import DataLoader from "dataloader";

/**
 * Turns a read of many ids into one of a single id. Nothing is cached: an answer was read after it was requested.
 * undefined: there is nothing under the id.
 */
export function createBatchLoader<Answer>(
  read: (ids: readonly string[]) => Promise<ReadonlyMap<string, Answer>>,
): (id: string) => Promise<Answer | undefined> {
  const loader = new DataLoader<string, Answer | undefined>(
    async (ids) => {
      const answers = await read([...new Set(ids)]);
      return ids.map((id) => answers.get(id));
    },
    {
      cache: false,
      maxBatchSize: Number.POSITIVE_INFINITY,
      batchScheduleFn: (dispatch) => void setImmediate(dispatch),
    },
  );
  return (id) => loader.load(id);
}
