/**
 * `npm run tool -- schema-changes`: prints the changes of the schema since the last release, and fails for a breaking
 * change unless a decision allows it with a line `Breaks <last release>: <change>`. With `--brief`, as in `npm run
 * check`, it lists only what fails, and counts the rest. Before the first release every change passes.
 */
import { globSync, readFileSync } from "node:fs";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import { BreakingChangeType, DangerousChangeType, buildSchema as parsedSchema, findSchemaChanges } from "graphql";
import type { GraphQLSchema } from "graphql";
import { describeDrivers } from "../../src/drivers/load.ts";
import { buildSchema } from "../../src/graphql/schema/schema.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

export interface Release {
  readonly version: string;
  readonly schema: GraphQLSchema;
}

export interface ChangesSince {
  /** Breaking changes that no decision allows. */
  readonly refused: readonly string[];
  /** Breaking changes that a decision allows. */
  readonly decided: readonly string[];
  /** Changes that a decision allows but that were not made: no later change may use its permission. */
  readonly undone: readonly string[];
  /** Changes that break no request, but may surprise readers of a response. */
  readonly dangerous: readonly string[];
}

/** The changes since a release, grouped by whether a decision allows them. */
export function changesSince(release: Release, schema: GraphQLSchema, decisions: readonly string[]): ChangesSince {
  const changes = findSchemaChanges(release.schema, schema);
  const breaks = new Set(
    changes.filter(({ type }) => type in BreakingChangeType).map(({ description }) => description),
  );
  const named = new Set(decisions.flatMap((text) => breaksNamedIn(text, release.version)));
  return {
    refused: [...breaks].filter((change) => !named.has(change)),
    decided: [...breaks].filter((change) => named.has(change)),
    undone: [...named].filter((change) => !breaks.has(change)),
    dangerous: changes.filter(({ type }) => type in DangerousChangeType).map(({ description }) => description),
  };
}

function breaksNamedIn(decision: string, version: string): string[] {
  const lines = decision.matchAll(/^(?:- )?Breaks ([^:\s]+): (.+)$/gm);
  return [...lines].flatMap(([, since, change = ""]) => (since === version ? [change.trim()] : []));
}

/** The latest version by semantic versioning: 0.2.0 after 0.2.0-preview.10 after 0.2.0-preview.9. */
export function newest(versions: readonly string[]): string | undefined {
  return versions.toSorted(byPrecedence).at(-1);
}

function byPrecedence(one: string, other: string): number {
  const [left, right] = [partsOf(one), partsOf(other)];
  for (let at = 0; at < Math.max(left.length, right.length); at += 1) {
    const [a, b] = [left[at], right[at]];
    if (a === b) continue;
    // A release follows its previews; of two previews, the longer one is later.
    if (a === undefined || b === undefined) return (a === undefined) === (at === 3) ? 1 : -1;
    if (typeof a === typeof b) return a < b ? -1 : 1;
    return typeof a === "number" ? -1 : 1;
  }
  return 0;
}

function partsOf(version: string): (number | string)[] {
  return version.split(/[.-]/).map((part) => (/^\d+$/.test(part) ? Number(part) : part));
}

/** The schema of the last release in docs/releases; null before the first. */
export function lastRelease(): Release | null {
  const version = newest(globSync("docs/releases/*.graphql", { cwd: ROOT }).map((file) => basename(file, ".graphql")));
  if (version === undefined) return null;
  return { version, schema: parsedSchema(readFileSync(`${ROOT}/docs/releases/${version}.graphql`, "utf8")) };
}

export function allDecisions(): string[] {
  return globSync("docs/decisions/*.md", { cwd: ROOT }).map((file) => readFileSync(`${ROOT}/${file}`, "utf8"));
}

/** A report of the changes, and whether they may be released. `isBrief`: it counts the changes that pass. */
export function reportOf(
  { refused, decided, undone, dangerous }: ChangesSince,
  version: string,
  { isBrief = false }: { readonly isBrief?: boolean } = {},
): { readonly text: string; readonly passes: boolean } {
  const list = (title: string, changes: readonly string[]) =>
    changes.length === 0 ? "" : `${title}:\n${changes.map((change) => `  ${change}\n`).join("")}`;
  const passing =
    list(`Breaking changes since ${version} that a decision allows`, decided) +
    list(`Dangerous changes since ${version}`, dangerous);
  const counts = `Schema changes since ${version} that pass: ${decided.length} breaking, ${dangerous.length} dangerous. \`npm run tool -- schema-changes\` lists them.\n`;
  const text =
    (isBrief && passing !== "" ? counts : passing) +
    list(
      "Breaking changes without a decision. Revert them, or write a decision in docs/decisions with these lines",
      refused.map((change) => `Breaks ${version}: ${change}`),
    ) +
    list(
      "Decisions allow changes that were not made. Remove these lines",
      undone.map((change) => `Breaks ${version}: ${change}`),
    );
  return {
    text: text === "" ? `No breaking or dangerous change since ${version}.\n` : text,
    passes: refused.length + undone.length === 0,
  };
}

if (import.meta.main) {
  const release = lastRelease();
  const { text, passes } =
    release === null
      ? { text: "No release yet: every change of the schema passes.\n", passes: true }
      : reportOf(changesSince(release, buildSchema(await describeDrivers()), allDecisions()), release.version, {
          isBrief: process.argv.includes("--brief"),
        });
  (passes ? process.stdout : process.stderr).write(text);
  if (!passes) process.exitCode = 1;
}
