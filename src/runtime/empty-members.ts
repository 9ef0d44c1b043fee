/**
 * Members of a filter that have no value: null, an empty text, list or object. A variable that was left out or a form
 * field that was not filled in makes such a member. A query ignores it; a request that changes something refuses it,
 * because the filter would select more nodes than the caller meant.
 */

/** The paths of these members within the filter; the path of the filter itself is empty. */
export function emptyMembers(filter: unknown): readonly (readonly string[])[] {
  if (filter === null || filter === "") return [[]];
  if (typeof filter !== "object" || filter instanceof Date) return [];
  const members = Object.entries(filter).filter(([, value]) => value !== undefined);
  if (members.length === 0) return [[]];
  return members.flatMap(([name, value]) =>
    // A label may have an empty value.
    name === "labels" && isFilled(value) ? [] : emptyMembers(value).map((path) => [name, ...path]),
  );
}

function isFilled(value: unknown): boolean {
  return typeof value === "object" && value !== null && Object.keys(value).length > 0;
}
