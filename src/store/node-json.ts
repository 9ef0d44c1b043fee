/**
 * Nodes as JSON text that the database makes, for lists that are handed on without being read: 10,000 values cost less
 * there than the rows they stand in cost to parse. The text is to the letter what JSON.stringify would have made of the
 * same answer, so the table below says of each field what its resolver in `graphql/node.ts` says of it.
 */
import { and, sql } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import type { PgColumn } from "drizzle-orm/pg-core";
import { fixed, runPrepared } from "./postgres/database.ts";
import type { Reader } from "./postgres/database.ts";
import { NODE_ORDERS, nodeCondition } from "./nodes.ts";
import type { NodeFilter, NodeOrder } from "./nodes.ts";
import { cursorOfText, cursorText, instantText, pageClauses, toCursor } from "./postgres/pagination.ts";
import type { PageRequest } from "./postgres/pagination.ts";
import { clusters, nodes } from "./tables.ts";

/** What an object of the answer is to hold: under each key a text that is known already, or a field. */
export type Asked = { readonly key: string } & (
  | { readonly text: string }
  | { readonly field: string; readonly of?: readonly Asked[] }
);

/** Where a field comes from: the SQL of its JSON text, never null; of an object, or a list of them, with its own fields. */
export type JsonField =
  | { readonly value: SQL }
  | { readonly fields: JsonFields; readonly around: (object: SQL) => SQL };
export type JsonFields = Readonly<Record<string, JsonField>>;

const NULL = sql.raw("'null'");

/** Any text; null where there is none. */
const text = (column: PgColumn | SQL): JsonField => ({ value: sql`coalesce(to_json(${column})::text, ${NULL})` });
/** A text of our own that needs no escapes: a name of a state, a UUID. */
const word = (column: PgColumn): JsonField => ({ value: sql`coalesce('"' || ${column} || '"', ${NULL})` });
/** A number or a truth. */
const plain = (column: PgColumn | SQL): JsonField => ({ value: sql`coalesce((${column})::text, ${NULL})` });
const instant = (column: PgColumn | SQL): JsonField => ({
  value: sql`coalesce('"' || ${instantText(column)} || '"', ${NULL})`,
});
/** As `globalId` in graphql/ids.ts makes it. */
const globalId = (type: string, id: PgColumn): JsonField => ({
  value: sql`'"' || translate(encode(convert_to(${sql.raw(`'${type}:'`)} || ${id}, 'UTF8'), 'base64'), '+/=', '-_') || '"'`,
});

const CLUSTER: JsonFields = {
  id: globalId("Cluster", clusters.id),
  name: text(clusters.name),
  project: text(clusters.project),
  revision: plain(clusters.revision),
  createdAt: instant(clusters.createdAt),
  updatedAt: instant(clusters.updatedAt),
};

const FAILURE: JsonFields = {
  code: text(sql`${nodes.lastError} ->> 'code'`),
  message: text(sql`${nodes.lastError} ->> 'message'`),
  step: text(sql`${nodes.lastError} ->> 'step'`),
  nodeName: text(sql`${nodes.lastError} ->> 'nodeName'`),
  at: instant(sql`(${nodes.lastError} ->> 'at')::timestamptz`),
  retryable: plain(sql`${nodes.lastError} ->> 'retryable'`),
};

/** Fields of the type Node. Those that are missing here take more than the node's row; a list with one of them is resolved. */
export const NODE_JSON: JsonFields = {
  id: globalId("Node", nodes.id),
  uuid: word(nodes.id),
  name: text(nodes.name),
  project: text(nodes.project),
  state: word(nodes.state),
  stage: word(nodes.stage),
  powerState: word(nodes.powerState),
  powerReadAt: instant(nodes.powerReadAt),
  powerCheckedAt: instant(nodes.powerCheckedAt),
  powerProblem: text(nodes.powerProblem),
  wantedPower: word(nodes.wantedPower),
  powerDrift: plain(
    sql`${nodes.wantedPower} is not null and ${nodes.powerState} <> 'UNKNOWN' and ${nodes.powerState} <> ${nodes.wantedPower}`,
  ),
  presence: word(nodes.presence),
  maintenance: {
    fields: {
      reason: text(sql`coalesce(${nodes.maintenanceReason}, '')`),
      since: instant(nodes.maintenanceSince),
      by: text(sql`coalesce(${nodes.maintenanceBy}, '')`),
    },
    around: (object) => sql`case when ${nodes.maintenanceSince} is null then ${NULL} else ${object} end`,
  },
  protected: plain(nodes.isProtected),
  retired: plain(sql`${nodes.retiredReason} is not null`),
  retiredReason: text(nodes.retiredReason),
  automaticCleaning: plain(nodes.automaticCleaning),
  hostGroup: text(nodes.hostGroup),
  model: text(nodes.model),
  controller: text(nodes.controller),
  lastError: {
    fields: FAILURE,
    around: (object) => sql`case when ${nodes.lastError} is null then ${NULL} else ${object} end`,
  },
  revision: plain(nodes.revision),
  transitionCount: plain(nodes.transitionCount),
  createdAt: instant(nodes.createdAt),
  updatedAt: instant(nodes.updatedAt),
  labels: {
    fields: { key: text(sql.raw("label.key")), value: text(sql.raw("label.value")) },
    around: (object) =>
      sql`'[' || coalesce((select string_agg(${object}, ',' order by label.key collate "C") from jsonb_each_text(${nodes.labels}) label), '') || ']'`,
  },
  // A look at an index for each node: a join would not keep the page in its order.
  cluster: {
    fields: CLUSTER,
    around: (object) =>
      sql`coalesce((select ${object} from ${clusters} where ${clusters.id} = ${nodes.clusterId}), ${NULL})`,
  },
};

/** A page of nodes as text. */
export interface NodesText {
  /** For each list of edges that was asked for, its objects, joined by commas. */
  readonly edges: readonly string[];
  readonly hasNext: boolean;
  readonly hasPrevious: boolean;
  /** Cursors of the first and the last edge; null on an empty page, and where they are not wanted. */
  readonly start: string | null;
  readonly end: string | null;
}

/**
 * The page that `nodesPage` would read, as text: its edges as often as they are asked for, each time with the fields asked
 * for, and the cursors of its ends where they are wanted. Of an edge there are `cursor` and `node`.
 */
export async function nodesText(
  reader: Reader,
  filter: NodeFilter | undefined,
  order: NodeOrder,
  request: PageRequest,
  asked: { readonly edges: readonly (readonly Asked[])[]; readonly ends: boolean },
): Promise<NodesText> {
  const column = NODE_ORDERS[order.by];
  const { where, orderBy } = pageClauses(request, { column, id: nodes.id, descending: order.descending });
  const { limit, fromEnd } = request;
  const condition = and(nodeCondition(filter), where);
  const cursor = cursorText(column, nodes.id);
  const name = (index: number) => sql.raw(`edges${index}`);
  const kept = sql`filter (where place <= ${limit}::int)`;
  const lists = asked.edges.map(
    (_, index) =>
      sql`, coalesce(string_agg(${name(index)}, ','${fromEnd ? sql` order by place desc` : sql``}) ${kept}, '') as ${name(index)}`,
  );
  const [row] = await runPrepared(
    reader,
    sql`select count(*)::int as read
        ${asked.ends ? sql`, max(cursor) filter (where place = 1) as near, max(cursor) filter (where place = least(${limit}::int, total)) as far` : sql``}
        ${sql.join(lists)}
      from (select row_number() over () as place
          ${asked.ends ? sql`, count(*) over () as total, ${cursor} as cursor` : sql``}
          ${sql.join(asked.edges.map((one, index) => sql`, ${edgeText(reader, one, order.by)} as ${name(index)}`))}
        from (select * from ${nodes} ${condition ? sql`where ${condition}` : sql``} order by ${sql.join(orderBy, sql`, `)} limit ${limit + 1}::int) ${nodes}) page`,
  );
  const surplus = Number(row?.["read"]) > limit;
  const [start, end] = [row?.["near"], row?.["far"]].map((found) =>
    typeof found === "string" ? toCursor(found) : null,
  ) as [string | null, string | null];
  return {
    edges: asked.edges.map((_, index) => String(row?.[`edges${index}`])),
    ...(fromEnd
      ? { hasNext: request.before !== undefined, hasPrevious: surplus, start: end, end: start }
      : { hasNext: surplus, hasPrevious: request.after !== undefined, start, end }),
  };
}

/** What was asked of edges, by the order that cursors go by: the same request comes again and again. */
const edgeTexts = new WeakMap<readonly Asked[], Map<NodeOrder["by"], SQL>>();

/** The SQL of an edge's JSON text. */
function edgeText(reader: Reader, asked: readonly Asked[], by: NodeOrder["by"]): SQL {
  const known = edgeTexts.get(asked) ?? new Map<NodeOrder["by"], SQL>();
  edgeTexts.set(asked, known);
  const cursor = cursorOfText(cursorText(NODE_ORDERS[by], nodes.id));
  const made =
    known.get(by) ??
    fixed(
      reader,
      objectText(asked, {
        cursor: { value: sql`'"' || ${cursor} || '"'` },
        node: { fields: NODE_JSON, around: (object) => object },
      }),
    );
  known.set(by, made);
  return made;
}

/** A function of PostgreSQL takes no more arguments. */
const ARGUMENTS_MAX = 100;

/** The SQL of an object's JSON text. */
function objectText(asked: readonly Asked[], fields: JsonFields): SQL {
  const parts: SQL[] = [];
  let literal = "{";
  asked.forEach((one, index) => {
    literal += `${index === 0 ? "" : ","}${JSON.stringify(one.key)}:`;
    if ("text" in one) {
      literal += one.text;
      return;
    }
    const field = fields[one.field];
    if (!field) throw new Error(`The database makes no text of ${one.field}.`);
    parts.push(quoted(literal), "value" in field ? field.value : field.around(objectText(one.of ?? [], field.fields)));
    literal = "";
  });
  return joined([...parts, quoted(`${literal}}`)]);
}

function joined(parts: readonly SQL[]): SQL {
  if (parts.length <= ARGUMENTS_MAX) return sql`concat(${sql.join([...parts], sql`, `)})`;
  return joined(
    Array.from({ length: Math.ceil(parts.length / ARGUMENTS_MAX) }, (_, index) =>
      joined(parts.slice(index * ARGUMENTS_MAX, (index + 1) * ARGUMENTS_MAX)),
    ),
  );
}

/** A text as a literal: names of GraphQL, and punctuation. */
function quoted(literal: string): SQL {
  return sql.raw(`'${literal.replaceAll("'", "''")}'`);
}
