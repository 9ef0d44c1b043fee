/**
 * docs/verbs/*.md, a page for each mutation, and docs/verbs.md, which lists them and says what they share. What a page
 * says comes from the schema, from the table of states, from verb-data.ts, from the examples, and from docs/templates.
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
import { diagramOf, waysOf } from "./ways.ts";

const SCHEMA = buildSchema(await describeDrivers());
const SHARED = sharedParts(VERB_ENTRIES.map(({ mutation }) => inputOf(SCHEMA, mutation)));

/** The index, the shared inputs, and a page for each mutation. Throws when one of the schema's has none. */
export function verbPages(): readonly Page[] {
  const forgotten = Object.keys(mutationsOf(SCHEMA)).filter(
    (name) => !VERB_ENTRIES.some(({ mutation }) => mutation === name),
  );
  if (forgotten.length > 0) throw new Error(`docs/print/verb-data.ts says nothing of ${forgotten.join(", ")}.`);
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
      ["mutation", "does"],
      entries.map(({ mutation }) => [`[${mutation}](verbs/${mutation}.md)`, firstSentence(descriptionOf(mutation))]),
    ),
  ]);
  return paragraphs("# Verbs", ...noteOf("verbs-before"), ...listed, ...noteOf("verbs"));
}

function inputsPage(): string {
  const parts = SHARED.toSorted((a, b) => a.name.localeCompare(b.name, "en"));
  return paragraphs(
    "# Inputs that requests share",
    "Names, types and meanings are those of the schema. Of an input with “exactly one field” exactly one is given.",
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
    ...noteOf(mutation),
    "## Input",
    ...inputParts(mutation),
    ...(kind ? ["## From where, through what, to which end", ...wayParts(kind)] : []),
    "## Refusals",
    ...refusalParts(whole, single, entry.singleMeans),
    `The caller needs the scope \`${scope}\`. All codes: [errors](../errors.md).`,
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
      ? [
          `Shared with other requests: ${shared.map((part) => `[${part.name}](inputs.md${anchorOf(part)})`).join(", ")}.`,
        ]
      : []),
  ];
}

function wayParts(kind: OperationKind): readonly string[] {
  const ways = waysOf(kind);
  const inPlace =
    ways.includes("| (") || ways.includes("→ (")
      ? "Phases in brackets run in place: the state stays as it is meanwhile. "
      : "";
  return [
    ways,
    `${inPlace}Any other state is refused. The diagram shows what takes a node off its way as well. Within a phase it may also wait and hold: [lifecycle](../lifecycle.md#inside-each-phase).`,
    diagramOf(kind),
  ];
}

const REQUEST_ALONE = "In `errors`; nothing was written.";
const NODE_BY_NODE =
  "Node by node, in `results { error }`. One such node refuses the whole request, unless `acceptance: BEST_EFFORT`: then the others start.";

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

/** Words that stand in a file of docs/templates; none where there is no such file. */
function noteOf(name: string): readonly string[] {
  const file = new URL(`../templates/${name}.md`, import.meta.url);
  return existsSync(file) ? [readFileSync(file, "utf8").trim()] : [];
}
