/** What an edit changes. A row keeps its revision where nothing of it becomes another: sending the same input again changes nothing. */
import { hashOf } from "../../runtime/canonical-json.ts";

/** The members of a change that the row does not have like that already; null where there are none. */
export function differing<Row extends object>(row: Row, change: Partial<Row>): Partial<Row> | null {
  const members = (Object.keys(change) as (keyof Row)[]).filter(
    (name) => change[name] !== undefined && !isSame(change[name], row[name]),
  );
  return members.length === 0
    ? null
    : (Object.fromEntries(members.map((name) => [name, change[name]])) as Partial<Row>);
}

/** Whether two values would be stored alike. */
export function isSame(one: unknown, other: unknown): boolean {
  return one === other || hashOf(one) === hashOf(other);
}
