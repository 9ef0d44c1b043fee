/** Which nodes a command is for: names and ranges, a file, standard input, a filter, a cluster, or all. */
import { readFileSync, readSync } from "node:fs";
import { parseFilter, toNodeFilter } from "../../client/src/filter-language.ts";
import { messageOf, usageError } from "./exit.ts";
import { NAMES_MAX, expandRange } from "./ranges.ts";

export type Selection =
  | { readonly kind: "names"; readonly names: readonly string[] }
  | { readonly kind: "filter"; readonly filter: object }
  | { readonly kind: "cluster"; readonly cluster: string }
  | { readonly kind: "all" };

export interface SelectionFlags {
  readonly filter?: string;
  readonly cluster?: string;
  readonly all?: boolean;
}

/** Null if the command selects nothing. Names are in the given order, each once. */
export function readSelection(
  words: readonly string[],
  flags: SelectionFlags,
  { stream = false }: { readonly stream?: boolean } = {},
): Selection | null {
  const file = words.find((word) => word === "-" || word.startsWith("@"));
  const kinds = [
    ...(file === undefined ? [] : [`nodes from ${file}`]),
    ...(words.length > (file === undefined ? 0 : 1) ? ["names"] : []),
    ...(flags.filter === undefined ? [] : ["--filter"]),
    ...(flags.cluster === undefined ? [] : ["--cluster"]),
    ...(flags.all === true ? ["--all"] : []),
  ];
  if (kinds.length > 1) throw usageError(`The command selects by ${kinds.join(" and ")}. Use one of them.`);
  if (flags.filter !== undefined) {
    const parsed = parseFilter(flags.filter, { stream });
    if ("flaw" in parsed) throw usageError(`--filter: ${parsed.flaw.message}`);
    if (parsed.terms.length === 0) throw usageError("--filter is empty. Use --all for all nodes.");
    return { kind: "filter", filter: toNodeFilter(parsed.terms) };
  }
  if (flags.cluster !== undefined) return { kind: "cluster", cluster: flags.cluster };
  if (flags.all === true) return { kind: "all" };
  if (words.length === 0) return null;
  const names = new Map<string, string>();
  for (const word of file === undefined ? words : linesOf(file))
    for (const name of expandRange(word)) if (!names.has(name.toLowerCase())) names.set(name.toLowerCase(), name);
  if (names.size > NAMES_MAX && file === undefined) throw usageError(`More than ${NAMES_MAX} names. Use a file.`);
  return { kind: "names", names: [...names.values()] };
}

/** `others`: what else the command takes. */
export function requireSelection(selection: Selection | null, others = ""): Selection {
  if (selection !== null) return selection;
  throw usageError(
    `Nothing is selected. Select ${others}nodes by names, ranges, @FILE, - for standard input, --filter, --cluster or --all.`,
  );
}

/** One name per line; empty lines and what follows `#` are left out. */
function linesOf(file: string): string[] {
  const text = readText(file);
  const lines = text.split("\n").map((line) => line.replace(/#.*/, "").trim());
  const names = lines.filter((line) => line !== "");
  if (names.length === 0) throw usageError(`${file} has no names.`);
  return names;
}

/** The text of `@FILE`, or of standard input for `-`. */
export function readText(source: string): string {
  try {
    return source === "-" ? readInput(0) : readFileSync(source.replace(/^@/, ""), "utf8");
  } catch (error) {
    throw usageError(`${source} cannot be read: ${messageOf(error)}.`);
  }
}

const INPUT_PAUSE_MS = 20;

/** The text of an open file until its end. `pause`: between two tries while it has nothing to read. */
export function readInput(file: number, pause: () => void = pauseHere): string {
  const chunks: Buffer[] = [];
  const buffer = Buffer.alloc(65_536);
  for (;;) {
    try {
      const count = readSync(file, buffer);
      if (count === 0) return Buffer.concat(chunks).toString("utf8");
      chunks.push(Buffer.from(buffer.subarray(0, count)));
    } catch (error) {
      // A module has opened standard input without blocking, and the writer is slow.
      if (!(error instanceof Error && "code" in error && error.code === "EAGAIN")) throw error;
      pause();
    }
  }
}

function pauseHere(): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, INPUT_PAUSE_MS);
}

/** The selection as `NodeSelector` and `WorkSelector` have it. */
export function selectorOf(selection: Selection): object {
  switch (selection.kind) {
    case "names":
      return { names: selection.names };
    case "filter":
      return { filter: selection.filter };
    case "cluster":
      return { cluster: { name: selection.cluster } };
    case "all":
      return { all: true };
  }
}

/** The selection as `NodeFilter`; undefined for all nodes. */
export function filterOf(selection: Selection | null): object | undefined {
  switch (selection?.kind) {
    case "names":
      return { name: { in: selection.names } };
    case "filter":
      return selection.filter;
    case "cluster":
      return { cluster: { name: selection.cluster } };
    default:
      return undefined;
  }
}
