/** Grouping of lists. */

/** Items that have the same key, in their order. */
export interface Group<Key, Item> {
  readonly key: Key;
  readonly first: Item;
  readonly all: readonly Item[];
}

/** The groups of a list, in the order of their first items. Items whose key is null or undefined are in none. */
export function groupsOf<Item, Key>(
  items: Iterable<Item>,
  keyOf: (item: Item) => Key | null | undefined,
): Group<Key, Item>[] {
  return [...Map.groupBy(items, keyOf)].flatMap(([key, all]) => {
    const [first] = all;
    return key == null || first === undefined ? [] : [{ key, first, all }];
  });
}
