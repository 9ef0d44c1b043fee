/** The difference between a row and a change of it. A row keeps its revision if the change changes nothing. */
import { isSameJson } from "../../runtime/canonical-json.ts";

/** A change of a row. An undefined member is not part of the change. */
export type Change<Row> = { readonly [Name in keyof Row]?: Row[Name] | undefined };

/** The members of a change that differ from the row; null if none does. */
export function changedFields<Row extends object>(row: Row, change: Change<Row>): Partial<Row> | null {
  const names = (Object.keys(change) as (keyof Row)[]).filter(
    (name) => change[name] !== undefined && !isSameJson(change[name], row[name]),
  );
  return names.length === 0 ? null : (Object.fromEntries(names.map((name) => [name, change[name]])) as Partial<Row>);
}
