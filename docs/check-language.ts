/**
 * `npm run tool -- language`: finds the words of docs/language-rules.ts in code, comments, messages, tests and
 * documentation. Fails for a file with more of them than docs/language-exceptions.json lists, and for one with fewer:
 * the list only shrinks. `--update` lowers the list. `npm run tool -- language src/engine` prints all findings below
 * the given paths.
 */
import { existsSync, globSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { RULES } from "./language-rules.ts";
import type { Rule } from "./language-rules.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const EXCEPTIONS = join(dirname(fileURLToPath(import.meta.url)), "language-exceptions.json");

const SCANNED = [
  "{src,plugins,test,bench,docs,packages,examples}/**/*.{ts,tsx,mjs,js,py,md,go,yml,graphql}",
  "docs/grafana/*.json",
  "*.{ts,md,graphql}",
  ".ci/*",
];
/** Schemas of releases never change; the word list and its test have to name the words. */
const LEFT_OUT = [
  "**/node_modules/**",
  "docs/releases/*.graphql",
  "{examples,packages}/*/dist/**",
  "examples/*/generated/**",
  "docs/language-rules.ts",
  "docs/check-language.ts",
  "test/language.test.ts",
];

export interface Finding {
  readonly file: string;
  readonly line: number;
  /** The text as it stands in the file. */
  readonly text: string;
  readonly rule: Rule;
}

/** File → findings that are tolerated in it. */
export type Exceptions = Readonly<Record<string, number>>;

const RULE_OF_WORD: ReadonlyMap<string, Rule> = new Map(
  RULES.flatMap((rule) => (rule.words ?? []).map((word) => [word, rule] as const)),
);

const PATTERNS = RULES.flatMap((rule) => {
  if (rule.pattern === undefined) return [];
  // A phrase may continue on the next line of a comment.
  const source = rule.pattern.replaceAll(" ", "(?:\\s+(?:(?:\\*|//)\\s+)?)");
  return [{ rule, expression: new RegExp(source, rule.exact ? "g" : "gi") }];
});

/** Words of prose, and parts of identifiers: `toldAt`, `NOBODY`, `ToldError`, `told_at`. */
const WORD = /[A-Z]?[a-z]+|[A-Z]+(?![a-z])/g;

export function findingsOf(file: string, text: string): readonly Finding[] {
  const scanned = file.endsWith(".md") ? proseOf(text) : text;
  const starts = lineStarts(text);
  const found: Finding[] = [];
  const add = (rule: Rule, index: number, match: string) => {
    const line = lineAt(starts, index);
    const whole = text.slice(starts[line - 1], starts[line] ?? text.length).trimEnd();
    if (rule.allowed?.some((allowed) => allowed.files.test(file) && allowed.line.test(whole))) return;
    found.push({ file, line, text: match.replaceAll(/\s+(?:(?:\*|\/\/)\s+)?/g, " "), rule });
  };
  for (const match of scanned.matchAll(WORD)) {
    const rule = RULE_OF_WORD.get(match[0].toLowerCase());
    if (rule) add(rule, match.index, match[0]);
  }
  for (const { rule, expression } of PATTERNS)
    for (const match of scanned.matchAll(expression)) add(rule, match.index, match[0]);
  return found.toSorted((one, other) => one.line - other.line);
}

/** Markdown without inline code, which names things that are checked where they are defined. Blanks keep positions. */
function proseOf(text: string): string {
  return text.replaceAll(/(?<!`)`[^`\n]+`(?!`)/g, (match) => " ".repeat(match.length));
}

function lineStarts(text: string): readonly number[] {
  const starts = [0];
  for (let index = text.indexOf("\n"); index !== -1; index = text.indexOf("\n", index + 1)) starts.push(index + 1);
  return starts;
}

/** Line of a character, from 1. */
function lineAt(starts: readonly number[], index: number): number {
  let [low, high] = [0, starts.length];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if ((starts[middle] ?? 0) <= index) low = middle;
    else high = middle;
  }
  return low + 1;
}

/** Findings in excess of the exceptions, and exceptions that are too high. */
export function compare(
  findings: readonly Finding[],
  exceptions: Exceptions,
): { readonly excess: readonly Finding[]; readonly stale: readonly string[] } {
  const byFile = Map.groupBy(findings, ({ file }) => file);
  const excess = [...byFile].flatMap(([file, own]) => (own.length > (exceptions[file] ?? 0) ? own : []));
  const stale = Object.entries(exceptions).flatMap(([file, count]) => {
    const now = byFile.get(file)?.length ?? 0;
    return now < count ? [`${file}: ${count} listed, ${now} found`] : [];
  });
  return { excess, stale };
}

/** The exceptions lowered to what is found. A file that was moved takes the count of the old path with it. */
export function lowered(findings: readonly Finding[], exceptions: Exceptions, exists = isFile): Exceptions {
  const counts = new Map([...Map.groupBy(findings, ({ file }) => file)].map(([file, own]) => [file, own.length]));
  let moved = Object.entries(exceptions).reduce((sum, [file, count]) => sum + (exists(file) ? 0 : count), 0);
  const lower = [...counts].flatMap(([file, count]): [string, number][] => {
    const listed = exceptions[file];
    if (listed !== undefined) return [[file, Math.min(listed, count)]];
    const carried = Math.min(count, moved);
    moved -= carried;
    return carried > 0 ? [[file, carried]] : [];
  });
  return Object.fromEntries(lower.toSorted(([one], [other]) => (one < other ? -1 : 1)));
}

const isFile = (file: string): boolean => existsSync(join(ROOT, file));

export function scan(): readonly Finding[] {
  return globSync(SCANNED, { cwd: ROOT, exclude: LEFT_OUT })
    .toSorted()
    .flatMap((file) => findingsOf(file, readFileSync(join(ROOT, file), "utf8")));
}

export const readExceptions = (): Exceptions => JSON.parse(readFileSync(EXCEPTIONS, "utf8")) as Exceptions;

const describe = ({ file, line, text, rule }: Finding) => `${file}:${line}: "${text}": write ${rule.write}`;

function main(args: readonly string[]): void {
  const findings = scan();
  const paths = args.filter((argument) => !argument.startsWith("--"));
  if (paths.length > 0) {
    const below = findings.filter(({ file }) => paths.some((path) => file === path || file.startsWith(path)));
    process.stdout.write(below.map((finding) => `${describe(finding)}\n`).join(""));
    return;
  }
  if (args.includes("--update")) {
    writeFileSync(EXCEPTIONS, `${JSON.stringify(lowered(findings, readExceptions()), null, 2)}\n`);
  }
  const { excess, stale } = compare(findings, readExceptions());
  for (const finding of excess) process.stderr.write(`${describe(finding)}\n`);
  for (const line of stale) process.stderr.write(`${line}; run \`npm run tool -- language --update\` and commit.\n`);
  if (excess.length + stale.length > 0) process.exitCode = 1;
}

if (import.meta.main) main(process.argv.slice(2));
