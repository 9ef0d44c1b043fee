/** A limit on how much runs at the same time. */

/** Maps items with at most `limit` calls at the same time. Results are in the order of the items. */
export async function mapConcurrently<Item, Result>(
  limit: number,
  items: readonly Item[],
  call: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  const left = items.entries();
  const lane = async () => {
    for (const [index, item] of left) results[index] = await call(item);
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, lane));
  return results;
}
