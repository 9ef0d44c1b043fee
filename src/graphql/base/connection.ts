/**
 * Connections as in Relay's specification: edges with cursors, page info, and the arguments of a page. Written by hand,
 * because every type, field and argument of the schema has a description and a fixed nullability.
 */
import { GraphQLError } from "graphql";
import { cursorOf, readCursor } from "../../store/postgres/pagination.ts";
import { auditCursor } from "../../store/log/audit.ts";
import type { AuditCursor } from "../../store/log/audit.ts";
import { changeCursor } from "../../store/log/changes.ts";
import type { ChangeCursor } from "../../store/log/changes.ts";
import type { LogCursor } from "../../store/log/transitions.ts";
import type { NumberedRequest, Page, PageKey, PageRequest } from "../../store/postgres/pagination.ts";
import { builder } from "./builder.ts";
import type { FieldArgs } from "./builder.ts";
import { isUuid } from "../../runtime/uuid.ts";
import { isStorableText } from "../../runtime/text.ts";

export interface Connection<Row> {
  readonly edges: readonly { readonly cursor: string; readonly node: Row }[];
  readonly pageInfo: {
    readonly hasNextPage: boolean;
    readonly hasPreviousPage: boolean;
    readonly startCursor: string | null;
    readonly endCursor: string | null;
  };
  /** Called only if the field is selected. */
  readonly totalCount: () => Promise<number>;
}

const PageInfoRef = builder.objectRef<Connection<unknown>["pageInfo"]>("PageInfo").implement({
  description: "Position of a page in its list.",
  fields: (t) => ({
    hasNextPage: t.exposeBoolean("hasNextPage", { description: "Whether more items follow `endCursor`." }),
    hasPreviousPage: t.exposeBoolean("hasPreviousPage", { description: "Whether items precede `startCursor`." }),
    startCursor: t.exposeString("startCursor", {
      nullable: true,
      description: "Cursor of the first edge; null if the page is empty.",
    }),
    endCursor: t.exposeString("endCursor", {
      nullable: true,
      description: "Cursor of the last edge; null if the page is empty.",
    }),
  }),
});

type RowRef<Row extends object> = ReturnType<typeof builder.objectRef<Row>>;
type ConnectionRef<Row extends object> = ReturnType<ReturnType<typeof builder.objectRef<Connection<Row>>>["implement"]>;

/** The connection and edge types of an object type; `isFollowed`: a stream follows its objects. */
export function connectionType<Row extends object>(
  name: string,
  row: RowRef<Row>,
  isFollowed?: boolean,
): ConnectionRef<Row>;
// Pothos cannot resolve the type of `node` for a generic row, so the fields are made for any object.
export function connectionType(name: string, row: RowRef<object>, isFollowed = false): ConnectionRef<object> {
  const edge = builder.objectRef<{ readonly cursor: string; readonly node: object }>(`${name}Edge`).implement({
    description: `Item of a page of ${name}.`,
    fields: (t) => ({
      cursor: t.exposeString("cursor", { description: "Cursor of this item." }),
      node: t.expose("node", { type: row, description: "The item." }),
    }),
  });
  return builder.objectRef<Connection<object>>(`${name}Connection`).implement({
    description: `Page of a list of ${name}.`,
    fields: (t) => ({
      edges: t.expose("edges", {
        type: [edge],
        description: "Items of the page with their cursors.",
      }),
      nodes: t.field({
        type: [row],
        description: "Items of the page: the `node` of each edge.",
        resolve: ({ edges }) => edges.map(({ node }) => node),
      }),
      pageInfo: t.expose("pageInfo", {
        type: PageInfoRef,
        description: "Position of the page in the list.",
      }),
      totalCount: t.int({
        description: "Number of all items of the list, on this page or not. Counted only if selected.",
        resolve: ({ totalCount }) => totalCount(),
      }),
      ...(isFollowed && {
        asOf: t.string({
          description:
            "Cursor of the logs as of which the list was read. A stream that begins with `after: <asOf>` has everything that the list does not. The cursor fits all streams of changes, `nodeTransitions` and `transitions`; with several pages, use the one of the first.",
          resolve: (_connection, _args, { load }) => load.asOf.load("now"),
        }),
      }),
    }),
  });
}

export interface PageArgs {
  readonly first?: number | null | undefined;
  readonly after?: string | null | undefined;
  readonly last?: number | null | undefined;
  readonly before?: string | null | undefined;
}

export const PAGE_DEFAULT = 50;
export const PAGE_MAX = 100;
/** Larger for nodes, because clients read whole lists of them. */
export const NODES_PAGE_MAX = 1_000;
export const TRANSITIONS_PAGE_MAX = 500;

/** The arguments of a connection field. */
export function pageArgs(arg: FieldArgs, most = PAGE_MAX) {
  return {
    first: arg.int({
      description: `Number of items from the start, 1 to ${most}. Default ${PAGE_DEFAULT} if neither \`first\` nor \`last\` is given.`,
    }),
    after: arg.string({ description: "Only items after this cursor." }),
    last: arg.int({ description: `Number of items from the end, 1 to ${most}.` }),
    before: arg.string({ description: "Only items before this cursor." }),
  };
}

/** The error of a request with an invalid argument. */
export function badInput(message: string): GraphQLError {
  return new GraphQLError(message, { extensions: { code: "BAD_USER_INPUT" } });
}

/** An argument for a number of items. */
export function sizeWithin(most: number, name: string, size: number): number {
  if (size < 1 || size > most) throw badInput(`\`${name}\` is ${size}; use 1 to ${most}.`);
  return size;
}

/** The number of items requested, and whether they are counted from the end of the list. */
export function pageSize(args: PageArgs, most = PAGE_MAX): { readonly limit: number; readonly fromEnd: boolean } {
  if (args.first != null && args.last != null) throw badInput("Give `first` or `last`, not both.");
  const limit = args.first ?? args.last ?? Math.min(PAGE_DEFAULT, most);
  const fromEnd = args.last != null;
  return { limit: sizeWithin(most, fromEnd ? "last" : "first", limit), fromEnd };
}

/** The requested page of a list that is sorted by a key (a text or a timestamp) and the id. */
export function pageRequest(args: PageArgs, key: "text" | "instant", most = PAGE_MAX): PageRequest {
  const { limit, fromEnd } = pageSize(args, most);
  return { limit, fromEnd, after: keyIn(args.after, key), before: keyIn(args.before, key) };
}

function keyIn(cursor: string | null | undefined, kind: "text" | "instant"): PageKey | undefined {
  if (cursor == null) return undefined;
  try {
    const [key, id] = readCursor(cursor) as unknown[];
    if (
      typeof key === "string" &&
      typeof id === "string" &&
      isUuid(id) &&
      (kind === "text" ? isStorableText(key) : new Date(key).toISOString() === key)
    )
      return { key, id };
  } catch {
    // Rejected below, like every invalid cursor.
  }
  throw badInput(`${JSON.stringify(cursor)} is not a cursor of this list; use one that the list returned.`);
}

/** The position in an operation that a cursor stands for. */
export function placeOf(cursor: string | null | undefined): number | undefined {
  if (cursor == null) return undefined;
  if (!/^\d{1,9}$/.test(cursor))
    throw badInput(`${JSON.stringify(cursor)} is not a cursor of this list; use one that the list returned.`);
  return Number(cursor);
}

/** The position in the log that a cursor stands for. */
export function positionOf(cursor: string | null | undefined): number | undefined {
  if (cursor == null) return undefined;
  if (!/^\d{1,15}$/.test(cursor)) throw notOfStream(cursor);
  return Number(cursor);
}

function notOfStream(cursor: string): GraphQLError {
  return badInput(
    `${JSON.stringify(cursor)} is not a cursor of a stream; use one that a stream returned, or \`asOf\` of a list.`,
  );
}

const CURSOR = String.raw`(\d{1,15})(?:-([0-9a-z]{1,10}))?`;
const LOG_CURSOR = new RegExp(`^${CURSOR}(?:~c${CURSOR})?$`);
const CHANGE_CURSOR = new RegExp(`^(?:${CURSOR}~)?c${CURSOR}$`);

function cursorFrom(position: string, at: string | undefined): LogCursor {
  return { position: Number(position), at: at === undefined ? null : new Date(Number.parseInt(at, 36)) };
}

/** Reads a cursor of the log of transitions. */
export function logCursorOf(cursor: string | null | undefined): LogCursor | undefined {
  if (cursor == null) return undefined;
  const [, position, at] = LOG_CURSOR.exec(cursor) ?? [];
  if (position !== undefined) return cursorFrom(position, at);
  throw CHANGE_CURSOR.test(cursor)
    ? badInput(`${JSON.stringify(cursor)} is a cursor of a stream of changes, which does not fit here.`)
    : notOfStream(cursor);
}

/** Reads a cursor of the log of changes. */
export function changeCursorOf(cursor: string | null | undefined): ChangeCursor | undefined {
  if (cursor == null) return undefined;
  const [, , , position, at] = CHANGE_CURSOR.exec(cursor) ?? [];
  if (position !== undefined) return changeCursor(cursorFrom(position, at));
  throw LOG_CURSOR.test(cursor)
    ? badInput(
        `${JSON.stringify(cursor)} is a cursor of transitions; use one that a stream of changes returned, or \`asOf\` of a list.`,
      )
    : notOfStream(cursor);
}

const AUDIT_CURSOR = new RegExp(`^a${CURSOR}$`);

/** Reads a cursor of the audit. */
export function auditCursorOf(cursor: string | null | undefined): AuditCursor | undefined {
  if (cursor == null) return undefined;
  const [, position, at] = AUDIT_CURSOR.exec(cursor) ?? [];
  if (position !== undefined) return auditCursor(cursorFrom(position, at));
  throw badInput(`${JSON.stringify(cursor)} is not a cursor of the audit; use one that it returned.`);
}

/** The position of a cursor of the log of transitions. */
export function logPositionOf(cursor: string | null | undefined): number | undefined {
  return logCursorOf(cursor)?.position;
}

/** The page of an empty list. */
export const EMPTY_PAGE = { rows: [], hasNext: false, hasPrevious: false } as const;

/** The requested page of a list that is sorted by a number. */
export function numberedRequest(args: PageArgs, most = TRANSITIONS_PAGE_MAX, cursor = positionOf): NumberedRequest {
  const { limit, fromEnd } = pageSize(args, most);
  return { limit, fromEnd, after: cursor(args.after), before: cursor(args.before) };
}

/** A page as a connection. */
export function connectionOf<Row extends { readonly id: string }>(
  page: Page<Row>,
  keyOf: (row: Row) => string | Date,
  totalCount: () => Promise<number>,
): Connection<Row> {
  return connectionWith(
    page,
    (row) => {
      const key = keyOf(row);
      return cursorOf({ key: key instanceof Date ? key.toISOString() : key, id: row.id });
    },
    totalCount,
  );
}

export function connectionWith<Row>(
  page: Page<Row>,
  cursorFor: (row: Row) => string,
  totalCount: () => Promise<number>,
): Connection<Row> {
  const edges = page.rows.map((node) => ({ cursor: cursorFor(node), node }));
  return {
    edges,
    pageInfo: {
      hasNextPage: page.hasNext,
      hasPreviousPage: page.hasPrevious,
      startCursor: edges[0]?.cursor ?? null,
      endCursor: edges.at(-1)?.cursor ?? null,
    },
    totalCount,
  };
}
