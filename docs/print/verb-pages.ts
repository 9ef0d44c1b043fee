/**
 * docs/verbs/*.md, a page for each mutation, and docs/verbs.md, the index with the common part. The text comes from the
 * schema, the table of states, verb-data.ts, the examples and docs/templates. Inputs are explained by the schema alone.
 */
import { existsSync, readFileSync } from "node:fs";
import type { GraphQLField, GraphQLSchema } from "graphql";
import { describeDrivers } from "../../src/drivers/load.ts";
import { buildSchema } from "../../src/graphql/schema/schema.ts";
import type { OperationKind } from "../../src/lifecycle/verbs.ts";
import { REQUESTS } from "../examples/requests.ts";
import { code, fence, grouped, paragraphs, table } from "./markdown.ts";
import type { Page } from "./markdown.ts";
import { SHARED_REFUSALS, VERB_ENTRIES, VERB_GROUPS } from "./verb-data.ts";
import type { Refusals, VerbEntry } from "./verb-data.ts";
import { diagramOf, routesOf } from "./routes.ts";

const SCHEMA = buildSchema(await describeDrivers());

/** The index, and a page for each mutation. Throws if a mutation of the schema has no entry. */
export function verbPages(): readonly Page[] {
  const missing = Object.keys(mutationsOf(SCHEMA)).filter(
    (name) => !VERB_ENTRIES.some(({ mutation }) => mutation === name),
  );
  if (missing.length > 0) throw new Error(`Add an entry to docs/print/verb-data.ts for ${missing.join(", ")}.`);
  return [
    { file: "verbs.md", source: "src/graphql and docs/templates/verbs.md", text: indexPage },
    ...VERB_ENTRIES.map((entry): Page => ({
      file: `verbs/${entry.mutation}.md`,
      source: "docs/print and docs/templates",
      text: () => verbPage(entry),
    })),
  ];
}

function mutationsOf(schema: GraphQLSchema): Readonly<Record<string, GraphQLField<unknown, unknown>>> {
  return schema.getMutationType()?.getFields() ?? {};
}

function descriptionOf(mutation: string): string {
  return mutationsOf(SCHEMA)[mutation]?.description ?? "";
}

function scopeOf(mutation: string): string {
  return String(mutationsOf(SCHEMA)[mutation]?.extensions["scope"]);
}

function indexPage(): string {
  const firstSentence = (text: string) => /^.*?[.](?= |$)/.exec(text)?.[0] ?? text;
  const listed = VERB_GROUPS.flatMap(({ title, entries }) => [
    `## ${title}`,
    table(
      ["mutation", "scope", "purpose"],
      entries.map(({ mutation }) => [
        `[${mutation}](verbs/${mutation}.md)`,
        code(scopeOf(mutation)),
        firstSentence(descriptionOf(mutation)),
      ]),
    ),
  ]);
  return paragraphs("# Verbs", ...templateOf("verbs-before"), ...listed, ...templateOf("verbs"), ...sharedRefusals());
}

function verbPage(entry: VerbEntry): string {
  const { mutation, kind, whole, single, see = [] } = entry;
  return paragraphs(
    `# ${mutation}`,
    descriptionOf(mutation),
    ...(see.length > 0
      ? [`See also ${see.map((file) => `[${file.replace(".md", "")}](../${file})`).join(", ")}.`]
      : []),
    ...REQUESTS.filter((request) => request.mutation === mutation).flatMap(({ query, variables }) => [
      fence("graphql", query),
      ...(variables ? [fence("json", JSON.stringify(variables))] : []),
    ]),
    ...templateOf(mutation),
    ...(kind ? ["## Routes", ...routeParts(kind)] : []),
    "## Refusals",
    ...refusalParts(whole, single, entry.singleMeans),
  );
}

function routeParts(kind: OperationKind): readonly string[] {
  const routes = routesOf(kind);
  const inPlace =
    routes.includes("| (") || routes.includes("→ (")
      ? "Phases in brackets run in place: the node's state does not change. "
      : "";
  return [routes, `${inPlace}Any other state is refused.`, ...diagramOf(kind)];
}

const NODE_BY_NODE = "Each node, in `results { error }`; with `acceptance: BEST_EFFORT` the other nodes start";

function refusalParts(
  whole: Refusals,
  single: Refusals | undefined,
  singleMeans: string = NODE_BY_NODE,
): readonly string[] {
  return [
    ...refusalTable("The request as a whole, in `errors`", whole),
    ...(single ? refusalTable(singleMeans, single) : []),
  ];
}

/** The names of the refusals that a mutation shares with others, and a table of those that it alone has. */
function refusalTable(means: string, refusals: Refusals): readonly string[] {
  const whens = new Set(refusals.map(([, when]) => when));
  const shared = Object.entries(SHARED_REFUSALS).filter(([, group]) => group.every(([, when]) => whens.has(when)));
  const inShared = new Set(shared.flatMap(([, group]) => group.map(([, when]) => when)));
  const own = refusals.filter(([, when]) => !inShared.has(when));
  const names = shared.map(([name]) => name).join(", ");
  return [
    `${means.replace(/[.]$/, "")}${shared.length > 0 ? ` ([shared](../verbs.md#shared-refusals): ${names})` : ""}${own.length > 0 ? ":" : "."}`,
    ...(own.length > 0 ? [table(["code", "when"], grouped(own, ([name]) => name).map(refusalRow))] : []),
  ];
}

function refusalRow(group: Refusals): readonly string[] {
  return [code(group[0]?.[0] ?? ""), group.map(([, when]) => when).join("; ")];
}

function sharedRefusals(): readonly string[] {
  const rows = Object.entries(SHARED_REFUSALS).flatMap(([shared, refusals]) =>
    grouped(refusals, ([name]) => name).map((group, index) => [index === 0 ? shared : "", ...refusalRow(group)]),
  );
  return [
    "## Shared refusals",
    "The pages of the mutations name these groups. [errors.md](errors.md) has the status of every code.",
    table(["group", "code", "when"], rows),
  ];
}

/** The text of a file in docs/templates; empty if the file does not exist. */
function templateOf(name: string): readonly string[] {
  const file = new URL(`../templates/${name}.md`, import.meta.url);
  return existsSync(file) ? [readFileSync(file, "utf8").trim()] : [];
}
