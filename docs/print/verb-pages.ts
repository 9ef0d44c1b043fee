/**
 * docs/verbs/*.md, a page for each mutation, and docs/verbs.md, the index with the common part. The text comes from the
 * schema, the table of states, verb-data.ts, the examples and docs/templates.
 */
import { existsSync, readFileSync } from "node:fs";
import type { GraphQLField, GraphQLSchema } from "graphql";
import type { Scope } from "../../src/access/access.ts";
import { ERROR_STATUS } from "../../src/errors.ts";
import { describeDrivers } from "../../src/drivers/load.ts";
import { buildSchema } from "../../src/graphql/schema/schema.ts";
import type { OperationKind } from "../../src/lifecycle/verbs.ts";
import { REQUESTS } from "../examples/requests.ts";
import { anchorOf, inputOf, partsOf, sharedParts, tableOf } from "./inputs.ts";
import { code, fence, grouped, paragraphs, table } from "./markdown.ts";
import type { Page } from "./markdown.ts";
import { VERB_ENTRIES, VERB_GROUPS } from "./verb-data.ts";
import type { Refusals, VerbEntry } from "./verb-data.ts";
import { diagramOf, routesOf } from "./routes.ts";

const SCHEMA = buildSchema(await describeDrivers());
const SHARED = sharedParts(VERB_ENTRIES.map(({ mutation }) => inputOf(SCHEMA, mutation)));

/** The index, the shared inputs, and a page for each mutation. Throws if a mutation of the schema has no entry. */
export function verbPages(): readonly Page[] {
  const missing = Object.keys(mutationsOf(SCHEMA)).filter(
    (name) => !VERB_ENTRIES.some(({ mutation }) => mutation === name),
  );
  if (missing.length > 0) throw new Error(`Add an entry to docs/print/verb-data.ts for ${missing.join(", ")}.`);
  return [
    { file: "verbs.md", source: "src/graphql and docs/templates/verbs.md", text: indexPage },
    { file: "verbs/inputs.md", source: "src/graphql", text: inputsPage },
    ...VERB_ENTRIES.map((entry): Page => ({
      file: `verbs/${entry.mutation}.md`,
      source: `src/graphql, src/lifecycle, docs/print/verb-data.ts and docs/templates`,
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

function indexPage(): string {
  const firstSentence = (text: string) => /^.*?[.](?= |$)/.exec(text)?.[0] ?? text;
  const listed = VERB_GROUPS.flatMap(({ title, entries }) => [
    `## ${title}`,
    table(
      ["mutation", "purpose"],
      entries.map(({ mutation }) => [`[${mutation}](verbs/${mutation}.md)`, firstSentence(descriptionOf(mutation))]),
    ),
  ]);
  return paragraphs("# Verbs", ...templateOf("verbs-before"), ...listed, ...templateOf("verbs"));
}

function inputsPage(): string {
  const parts = SHARED.toSorted((a, b) => a.name.localeCompare(b.name, "en"));
  return paragraphs(
    "# Shared inputs",
    "This page is for client developers: it lists the input types that several mutations share. Names, types and meanings come from the schema. An input marked “exactly one field” takes exactly one of its fields.",
    ...parts.flatMap((part) => [`## ${part.name}`, part.description ?? "", tableOf(part)]),
  );
}

function verbPage(entry: VerbEntry): string {
  const { mutation, kind, whole, single, see = [] } = entry;
  const scope = mutationsOf(SCHEMA)[mutation]?.extensions["scope"] as Scope;
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
    "## Input",
    ...inputParts(mutation),
    ...(kind ? ["## Routes", ...routeParts(kind)] : []),
    "## Refusals",
    ...refusalParts(whole, single, entry.singleMeans),
    `The mutation requires the scope \`${scope}\`. For all codes see [errors](../errors.md).`,
  );
}

function inputParts(mutation: string): readonly string[] {
  const input = inputOf(SCHEMA, mutation);
  const parts = partsOf(input, SHARED);
  const shared = parts.filter((part) => SHARED.includes(part));
  const own = parts.filter((part) => !SHARED.includes(part));
  return [
    `${code(input.name)}: ${input.description ?? ""}`,
    tableOf(input),
    ...own.flatMap((part) => [`### ${part.name}`, part.description ?? "", tableOf(part)]),
    ...(shared.length > 0
      ? [`Shared inputs: ${shared.map((part) => `[${part.name}](inputs.md${anchorOf(part)})`).join(", ")}.`]
      : []),
  ];
}

function routeParts(kind: OperationKind): readonly string[] {
  const routes = routesOf(kind);
  const inPlace =
    routes.includes("| (") || routes.includes("→ (")
      ? "Phases in brackets run in place: the node's state does not change. "
      : "";
  return [
    routes,
    `${inPlace}Any other state is refused. The diagram also shows failures, aborts and stops. Within a phase a node can also wait and hold: [lifecycle](../lifecycle.md#inside-each-phase).`,
    diagramOf(kind),
  ];
}

const REQUEST_ALONE = "The request as a whole, in `errors`; nothing is written:";
const NODE_BY_NODE =
  "Each node, in `results { error }`. One refused node refuses the whole request; with `acceptance: BEST_EFFORT` the other nodes start.";

function refusalParts(
  whole: Refusals,
  single: Refusals | undefined,
  singleMeans: string = NODE_BY_NODE,
): readonly string[] {
  return [REQUEST_ALONE, refusalTable(whole), ...(single ? [singleMeans, refusalTable(single)] : [])];
}

function refusalTable(refusals: Refusals): string {
  return table(
    ["code", "status", "when"],
    grouped(refusals, ([name]) => name).map((group) => [
      code(group[0][0]),
      String(ERROR_STATUS[group[0][0]]),
      group.map(([, when]) => when).join("; "),
    ]),
  );
}

/** The text of a file in docs/templates; empty if the file does not exist. */
function templateOf(name: string): readonly string[] {
  const file = new URL(`../templates/${name}.md`, import.meta.url);
  return existsSync(file) ? [readFileSync(file, "utf8").trim()] : [];
}
