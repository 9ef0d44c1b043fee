/** The difference between a row and a change of it. A row keeps its revision if the change changes nothing. */
import { isSameJson } from "../../runtime/canonical-json.ts";

/**
 * The members of a change that differ from the row; null if none does. An undefined member is not part of the change.
 */
export function changedFields<Row extends object>(row: Row, change: Partial<Row>): Partial<Row> | null {
  const names = (Object.keys(change) as (keyof Row)[]).filter(
    (name) => change[name] !== undefined && !isSameJson(change[name], row[name]),
  );
  return names.length === 0 ? null : (Object.fromEntries(names.map((name) => [name, change[name]])) as Partial<Row>);
}
