/** Values of the declared fields of a node, so that a new field needs no line in tests of all fields. */
import type { TransactionSql } from "postgres";
import { DECLARED_NAMES, FILTERED_COLUMNS, declared } from "../../src/store/nodes/node-fields.ts";
import type { DeclaredName, FilteredColumn, NodeRow } from "../../src/store/nodes/node-fields.ts";
import { nodes } from "../../src/store/tables.ts";

const VALUES = { String: "other", Boolean: true, Int: 8 } as const;

/** A value that no node has before a test sets it. */
export function otherValue(name: DeclaredName): string | boolean | number {
  return VALUES[declared(name).type];
}

export const COLUMN_OF = Object.fromEntries(DECLARED_NAMES.map((name) => [name, nodes[name].name])) as Readonly<
  Record<DeclaredName, string>
>;

/** The facts of filters on declared fields, none of them set. */
export const NOTHING_DECLARED = Object.fromEntries(FILTERED_COLUMNS.map((name) => [name, null])) as Pick<
  NodeRow,
  FilteredColumn
>;

/** Gives some of the nodes a value of each declared field that none has. */
export async function fillDeclared(sql: TransactionSql): Promise<void> {
  for (const name of DECLARED_NAMES) {
    const column = sql(COLUMN_OF[name]);
    const value = { String: sql`E'"Ä"\\n' || number`, Boolean: sql`number % 2 = 0`, Int: sql`number` }[
      declared(name).type
    ];
    await sql`
      update nodes set ${column} = ${value} from (select id, row_number() over (order by name) as number from nodes) one
      where one.id = nodes.id and number % 3 > 0 and not exists (select from nodes where ${column} is not null)`;
  }
}
