/**
 * `npm run schema:changes`: what has changed in the schema since the last release, and whether that may be released. What
 * breaks a client is refused unless a decision says so, in a line of its own: `Breaks <last release>: <change>`.
 */
import { globSync, readFileSync } from "node:fs";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import { BreakingChangeType, DangerousChangeType, buildSchema as parsedSchema, findSchemaChanges } from "graphql";
import type { GraphQLSchema } from "graphql";
import { describeDrivers } from "../../drivers/load.ts";
import { buildSchema } from "../schema/schema.ts";

const HOUSE = fileURLToPath(new URL("../../..", import.meta.url));

export interface Release {
  readonly version: string;
  readonly schema: GraphQLSchema;
}

export interface ChangesSince {
  /** Breaks that no decision names. */
  readonly refused: readonly string[];
  /** Breaks that one does. */
  readonly decided: readonly string[];
  /** What decisions name and nobody did, so that no later break goes through under their name. */
  readonly undone: readonly string[];
  /** What breaks no request, but may surprise who reads an answer. */
  readonly dangerous: readonly string[];
}

/** What is new since a release, in the light of the decisions. */
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

/** The version that comes last by semantic versioning: 0.2.0-preview.10 after 0.2.0-preview.9, and 0.2.0 after both. */
export function newest(versions: readonly string[]): string | undefined {
  return versions.toSorted(byPrecedence).at(-1);
}

function byPrecedence(one: string, other: string): number {
  const [left, right] = [partsOf(one), partsOf(other)];
  for (let at = 0; at < Math.max(left.length, right.length); at += 1) {
    const [a, b] = [left[at], right[at]];
    if (a === b) continue;
    // The release follows its own previews; of two previews the longer follows.
    if (a === undefined || b === undefined) return (a === undefined) === (at === 3) ? 1 : -1;
    if (typeof a === typeof b) return a < b ? -1 : 1;
    return typeof a === "number" ? -1 : 1;
  }
  return 0;
}

function partsOf(version: string): (number | string)[] {
  return version.split(/[.-]/).map((part) => (/^\d+$/.test(part) ? Number(part) : part));
}

/** The last release, as docs/releases keeps it. */
export function lastRelease(): Release {
  const version = newest(globSync("docs/releases/*.graphql", { cwd: HOUSE }).map((file) => basename(file, ".graphql")));
  if (version === undefined) throw new Error("There is no schema in docs/releases; see its README.");
  return { version, schema: parsedSchema(readFileSync(`${HOUSE}/docs/releases/${version}.graphql`, "utf8")) };
}

export function allDecisions(): string[] {
  return globSync("docs/decisions/*.md", { cwd: HOUSE }).map((file) => readFileSync(`${HOUSE}/${file}`, "utf8"));
}

/** What there is to say of changes, and whether they may be released. */
export function reportOf(
  { refused, decided, undone, dangerous }: ChangesSince,
  version: string,
): { readonly text: string; readonly passes: boolean } {
  const list = (title: string, changes: readonly string[]) =>
    changes.length === 0 ? "" : `${title}:\n${changes.map((change) => `  ${change}\n`).join("")}`;
  const text =
    list(`Breaks since ${version} that decisions name`, decided) +
    list(`Dangerous since ${version}`, dangerous) +
    list(
      "A change breaks clients. Take it back, or write a decision in docs/decisions with the line",
      refused.map((change) => `Breaks ${version}: ${change}`),
    ) +
    list(
      "A decision names a break that is none; take the line out",
      undone.map((change) => `Breaks ${version}: ${change}`),
    );
  return {
    text: text === "" ? `Nothing that could break a client has changed since ${version}.\n` : text,
    passes: refused.length + undone.length === 0,
  };
}

if (import.meta.main) {
  const release = lastRelease();
  const { text, passes } = reportOf(
    changesSince(release, buildSchema(await describeDrivers()), allDecisions()),
    release.version,
  );
  (passes ? process.stdout : process.stderr).write(text);
  if (!passes) process.exitCode = 1;
}
