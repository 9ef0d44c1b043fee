/** Grouping of lists. */

/**
 * The groups of items with the same key, in the order of their first items. Items whose key is null or undefined are in
 * none.
 */
export function groupsOf<Item, Key>(
  items: Iterable<Item>,
  keyOf: (item: Item) => Key | null | undefined,
): { readonly key: Key; readonly first: Item; readonly all: readonly Item[] }[] {
  return [...Map.groupBy(items, keyOf)].flatMap(([key, all]) => {
    const [first] = all;
    return key == null || first === undefined ? [] : [{ key, first, all }];
  });
}
