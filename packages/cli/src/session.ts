/** The session of a command: the service, the form of its output, and the way a user interrupts it. */
import { send } from "./api.ts";
import type { Server } from "./api.ts";
import { resolveEndpoint } from "./contexts.ts";
import { CliError, EXIT, usageError } from "./exit.ts";
import { safe, safeJson, table } from "./text.ts";
import type { TableStyle } from "./text.ts";

export interface GlobalFlags {
  readonly context?: string;
  readonly server?: string;
  readonly json?: boolean;
  readonly output?: string;
  readonly columns?: string;
  readonly headers?: boolean;
  readonly sort?: string;
  readonly color?: string;
  readonly verbose?: boolean;
}

export interface Session extends TableStyle {
  readonly server: Server;
  readonly output: "table" | "names" | "json";
  readonly isTerminal: boolean;
  readonly columns: string | undefined;
  readonly sort: string | undefined;
}

export function openSession(flags: GlobalFlags): Session {
  const output = flags.json === true ? "json" : (flags.output ?? "table");
  if (output !== "table" && output !== "names" && output !== "json")
    throw usageError(`--output cannot be ${safe(output)}. Use table, names or json.`);
  const { color = "auto" } = flags;
  if (!/^(auto|always|never)$/.test(color)) throw usageError("--color is auto, always or never.");
  const isTerminal = process.stdout.isTTY;
  const { NO_COLOR, TERM } = process.env;
  return {
    server: {
      ...resolveEndpoint(flags),
      trace: flags.verbose === true ? (text) => void process.stderr.write(`${text}\n`) : null,
      report: warn,
    },
    output,
    isTerminal,
    columns: flags.columns,
    sort: flags.sort,
    width: isTerminal ? Math.max(process.stdout.columns || 80, 20) : Number.POSITIVE_INFINITY,
    hasColor: color === "always" || (color === "auto" && isTerminal && !NO_COLOR && TERM !== "dumb"),
    hasHeader: flags.headers !== false,
  };
}

/** A line for people, beside the answer. */
export function warn(text: string): void {
  process.stderr.write(`${text.split("\n").map(safe).join("\n")}\n`);
}

export function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

export function printJson(value: unknown, indent?: number): void {
  print(safeJson(value, indent));
}

export interface Column<Row> {
  readonly title: string;
  readonly value: (row: Row, isTerminal: boolean) => string;
}

/** The chosen columns of a table, by their titles in any case. */
export function chooseColumns<Row>(
  all: Readonly<Record<string, Column<Row>>>,
  { columns }: Session,
  standard: readonly string[],
): readonly Column<Row>[] {
  const names = columns === undefined ? standard : columns.split(",");
  return names.map((name) => {
    const column = Object.hasOwn(all, name) ? all[name] : undefined;
    if (!column) throw usageError(`Column ${safe(name)} does not exist. Use ${Object.keys(all).join(", ")}.`);
    return column;
  });
}

export function printTable<Row>(session: Session, columns: readonly Column<Row>[], rows: readonly Row[]): void {
  const cells = rows.map((row) => columns.map(({ value }) => value(row, session.isTerminal)));
  process.stdout.write(
    table(
      columns.map(({ title }) => title),
      cells,
      session,
    ),
  );
}

interface Page<Row> {
  readonly nodes: readonly Row[];
  readonly pageInfo: { readonly hasNextPage: boolean; readonly endCursor: string | null };
}

/** The pages of a list. */
export async function* pages<Row>(
  read: (after: string | null) => Promise<Page<Row> | null>,
): AsyncGenerator<readonly Row[]> {
  let after: string | null = null;
  for (;;) {
    const page: Page<Row> | null = await read(after);
    if (!page) return;
    yield page.nodes;
    if (!page.pageInfo.hasNextPage) return;
    after = page.pageInfo.endCursor;
  }
}

/** The UUID of an operation, by its ID or by the beginning of it among the newest 100; null if no operation has it. */
export async function findOperation({ server }: Session, given: string): Promise<string | null> {
  if (/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(given)) return given;
  if (!/^[0-9a-f][0-9a-f-]{3,35}$/i.test(given)) return null;
  const { operations } = await send(server, "operationUuids", { first: 100 });
  const found = operations.nodes.filter(({ uuid }) => uuid.startsWith(given.toLowerCase()));
  if (found.length > 1)
    throw usageError(
      `${given} is the beginning of ${found.length} operations: ${found.map(({ uuid }) => uuid).join(", ")}.`,
    );
  return found[0]?.uuid ?? null;
}

export async function requireOperation(session: Session, given: string): Promise<string> {
  const found = await findOperation(session, given);
  if (found === null)
    throw new CliError(EXIT.refused, `Operation ${safe(given)} is not among the newest 100. Give the whole ID.`);
  return found;
}

let handler: (() => void) | null = null;
let isInterrupted = false;

/** Ctrl-C calls the handler that is set; without one, and the second time, it ends the command. */
export function installInterrupt(): void {
  process.on("SIGINT", () => {
    if (handler === null || isInterrupted) process.exit(EXIT.interrupted);
    isInterrupted = true;
    handler();
  });
}

/** Runs the work with a handler of Ctrl-C. */
export async function withInterrupt<Value>(onInterrupt: () => void, work: () => Promise<Value>): Promise<Value> {
  const before = handler;
  handler = onInterrupt;
  try {
    return await work();
  } finally {
    handler = before;
  }
}
