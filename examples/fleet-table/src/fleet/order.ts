/** The orders of the table. Nodes that are equal stay in the order of their names. */
import type { RowFragment } from "../api/generated/graphql.ts";

export type OrderKey = "name" | "state" | "cluster" | "power" | "model";

export interface Order {
  readonly by: OrderKey;
  readonly descending: boolean;
}

const VALUE: Readonly<Record<OrderKey, (row: RowFragment) => string>> = {
  name: (row) => row.name,
  state: (row) => row.state,
  cluster: (row) => row.cluster?.name ?? "",
  power: (row) => row.powerState,
  model: (row) => row.model ?? "",
};

export function comparing({ by, descending }: Order): (a: RowFragment, b: RowFragment) => number {
  const value = VALUE[by];
  const sign = descending ? -1 : 1;
  return (a, b) => sign * compare(value(a), value(b)) || compare(a.name, b.name);
}

/** By code points, as the service orders. Comparing by language takes ten times as long. */
function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
