/**
 * Pages of nodes as JSON text that the database writes. The text goes into the response unread: for a page of 1,000
 * nodes this takes 2.5 ms in place of the 15.6 ms that parsing the rows, resolving their fields and writing them again
 * take. The text is to the letter what `JSON.stringify` makes of the same page (json-text.ts, node-fields.ts).
 */
import { and, sql } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import { objectText } from "./json-text.ts";
import type { SelectedField } from "./json-text.ts";
import { NODE_FIELDS } from "./node-fields.ts";
import { nodeCondition } from "./node-filter.ts";
import { NODE_ORDERS } from "./nodes.ts";
import type { NodeListRequest, NodeOrder } from "./nodes.ts";
import type { Reader } from "./postgres/database.ts";
import { cursorOfText, cursorText, pageClauses, toCursor } from "./postgres/pagination.ts";
import { constantSql, runPrepared } from "./postgres/statements.ts";
import { nodes } from "./tables.ts";

/** The requested parts of a page: selections of edges, one for each response key, and the cursors of its ends. */
export interface NodesJsonRequest {
  readonly edges: readonly (readonly SelectedField[])[];
  readonly ends: boolean;
}

export interface NodesJson {
  /** For each selection of edges the text of its objects, joined by commas. */
  readonly edges: readonly string[];
  readonly hasNext: boolean;
  readonly hasPrevious: boolean;
  /** Cursors of the first and the last edge; null on an empty page, and if `ends` was false. */
  readonly start: string | null;
  readonly end: string | null;
}

/** The page that `nodesPage` reads, as text. The fields of an edge are `cursor` and `node`. */
export async function nodesJson(
  reader: Reader,
  { filter, order, request }: NodeListRequest,
  { edges, ends }: NodesJsonRequest,
): Promise<NodesJson> {
  const column = NODE_ORDERS[order.by];
  const { where, orderBy } = pageClauses(request, { column, id: nodes.id, descending: order.descending });
  const { limit, fromEnd } = request;
  const condition = and(nodeCondition(filter), where);
  const cursor = cursorText(column, nodes.id);
  const name = (index: number) => sql.raw(`edges${index}`);
  const kept = sql`filter (where ordinal <= ${limit}::int)`;
  const lists = edges.map(
    (_, index) =>
      sql`, coalesce(string_agg(${name(index)}, ','${fromEnd ? sql` order by ordinal desc` : sql``}) ${kept}, '') as ${name(index)}`,
  );
  const [row] = await runPrepared(
    reader,
    sql`select count(*)::int as read
        ${ends ? sql`, max(cursor) filter (where ordinal = 1) as near, max(cursor) filter (where ordinal = least(${limit}::int, total)) as far` : sql``}
        ${sql.join(lists)}
      from (select row_number() over () as ordinal
          ${ends ? sql`, count(*) over () as total, ${cursor} as cursor` : sql``}
          ${sql.join(edges.map((selection, index) => sql`, ${edgeText(reader, selection, order.by)} as ${name(index)}`))}
        from (select * from ${nodes} ${condition ? sql`where ${condition}` : sql``} order by ${sql.join(orderBy, sql`, `)} limit ${limit + 1}::int) ${nodes}) page`,
  );
  const surplus = Number(row?.["read"]) > limit;
  const [near, far] = [cursorIn(row?.["near"]), cursorIn(row?.["far"])];
  return {
    edges: edges.map((_, index) => String(row?.[`edges${index}`])),
    ...(fromEnd
      ? { hasNext: request.before !== undefined, hasPrevious: surplus, start: far, end: near }
      : { hasNext: surplus, hasPrevious: request.after !== undefined, start: near, end: far }),
  };
}

function cursorIn(content: unknown): string | null {
  return typeof content === "string" ? toCursor(content) : null;
}

/** SQL of edges by selection and by the order that cursors follow: the same requests recur. */
const edgeTexts = new WeakMap<readonly SelectedField[], Map<NodeOrder["by"], SQL>>();

/** The SQL of an edge's JSON text. */
function edgeText(reader: Reader, selection: readonly SelectedField[], by: NodeOrder["by"]): SQL {
  const known = edgeTexts.get(selection) ?? new Map<NodeOrder["by"], SQL>();
  edgeTexts.set(selection, known);
  const cursor = cursorOfText(cursorText(NODE_ORDERS[by], nodes.id));
  const made =
    known.get(by) ??
    constantSql(
      reader,
      objectText(selection, {
        cursor: { text: sql`'"' || ${cursor} || '"'` },
        node: { fields: NODE_FIELDS, wrap: (object) => object },
      }),
    );
  known.set(by, made);
  return made;
}
