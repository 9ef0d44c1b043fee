/** Commands for clusters, the site, registration and discovery. */
import { send, sendUntilAnswered } from "./api.ts";
import type { Variables } from "./api.ts";
import { nearest } from "../../client/src/filter-language.ts";
import { CliError, EXIT, usageError } from "./exit.ts";
import { printFields } from "./nodes.ts";
import { ask, canAsk, confirm } from "./question.ts";
import type { Answers } from "./requests.ts";
import { readText, selectorOf } from "./selection.ts";
import type { Selection } from "./selection.ts";
import { chooseColumns, pages, print, printJson, printTable, warn } from "./session.ts";
import type { Column, Session } from "./session.ts";
import { safe, safeJson, timeText } from "./text.ts";
import { assignment, jsonObject } from "./values.ts";
import { awaitOperations } from "./wait.ts";
import { waitOptions, warnErrors } from "./work.ts";
import type { Refusal, VerbFlags } from "./work.ts";

type Cluster = Answers["clusters"]["clusters"]["nodes"][number];

const COLUMNS: Readonly<Record<string, Column<Cluster>>> = {
  name: { title: "NAME", value: ({ name }) => name },
  state: { title: "STATE", value: ({ state }) => state },
  nodes: { title: "NODES", value: ({ nodeCounts }) => String(nodeCounts.reduce((sum, { count }) => sum + count, 0)) },
  states: {
    title: "STATES",
    value: ({ nodeCounts }) => nodeCounts.map(({ state, count }) => `${count} ${state}`).join(", "),
  },
  updated: { title: "UPDATED", value: ({ updatedAt }, isTerminal) => timeText(updatedAt, isTerminal) },
};
const STANDARD = ["name", "state", "nodes", "states", "updated"];

export async function getClusters(session: Session, name: string | undefined): Promise<number> {
  if (name !== undefined) {
    const cluster = await requireCluster(session, name);
    printFields(session, cluster);
    return EXIT.done;
  }
  const columns = chooseColumns(COLUMNS, session, STANDARD);
  const rows: Cluster[] = [];
  for await (const found of pages(
    async (after) => (await send(session.server, "clusters", { first: 50, after })).clusters,
  ))
    rows.push(...found);
  if (session.output === "json") printJson(rows);
  else if (session.output === "names") for (const one of rows) print(safe(one.name));
  else printTable(session, columns, rows);
  return EXIT.done;
}

async function requireCluster({ server }: Session, name: string): Promise<Cluster> {
  const { cluster } = await send(server, "cluster", { name });
  if (!cluster) throw new CliError(EXIT.refused, `Cluster ${safe(name)} does not exist.`);
  return cluster;
}

export async function createCluster(
  session: Session,
  {
    name,
    selection,
    variables,
  }: { readonly name: string; readonly selection: Selection | null; readonly variables?: object },
): Promise<number> {
  const nodes = selection ? { nodes: selectorOf(selection) } : {};
  const { answer } = await send(session.server, "createCluster", {
    input: { name, ...nodes, ...(variables && { variables }) },
  });
  return finished(session, answer, `Cluster ${name} was created.`);
}

export async function changeCluster(session: Session, name: string, change: Variables): Promise<number> {
  const { answer } = await send(session.server, "updateCluster", { input: { cluster: { name }, ...change } });
  return finished(session, answer, `Cluster ${name} was changed.`);
}

export async function deleteCluster(session: Session, name: string, flags: VerbFlags): Promise<number> {
  const { id, nodeCounts } = await requireCluster(session, name);
  warn(`delete cluster ${name}, and keep its ${nodeCounts.reduce((sum, { count }) => sum + count, 0)} nodes`);
  await confirm({ yes: flags.yes === true });
  const { answer } = await send(session.server, "deleteCluster", { input: { cluster: { id } } });
  return finished(session, answer, `Cluster ${name} was deleted.`);
}

export async function getVariables(session: Session, name: string): Promise<number> {
  const { variables } = await requireCluster(session, name);
  if (session.output === "json") printJson(variables, 2);
  else
    for (const [key, value] of Object.entries(variables as object))
      print(safe(`${key}=${typeof value === "string" ? value : safeJson(value)}`));
  return EXIT.done;
}

/** Words are of the form `NAME=VALUE`, or names. */
export function variablesChange(change: "set" | "unset", words: readonly string[]): Variables {
  return { variables: Object.fromEntries(words.map((one) => (change === "set" ? assignment(one) : [one, null]))) };
}

export async function getSite(session: Session): Promise<number> {
  const { site } = await send(session.server, "site");
  printFields(session, site);
  return EXIT.done;
}

/** Fields that the service keeps itself. */
const READ_ONLY = new Set(["revision", "updatedAt", "updatedBy"]);

export async function setSite(session: Session, assignments: readonly string[]): Promise<number> {
  const input = Object.fromEntries(assignments.map((one) => assignment(one)));
  const { site } = await send(session.server, "site");
  const fields = Object.keys(site).filter((field) => !READ_ONLY.has(field));
  for (const field of Object.keys(input)) {
    if (fields.includes(field)) continue;
    const meant = nearest(field, fields);
    const hint = meant === null ? `Use ${fields.join(", ")}.` : `Did you mean ${meant}?`;
    throw usageError(`The site has no field ${safe(field)}. ${hint}`);
  }
  const { answer } = await send(session.server, "updateSite", { input: { ...input, ifRevision: site.revision } });
  return finished(session, answer, "The site was changed.");
}

export async function registerNodes(session: Session, file: string): Promise<number> {
  const input = jsonObject(file, readText(file));
  const { answer } = await send(session.server, "registerNodes", { input });
  if (session.output !== "json") for (const { name } of answer.nodes) print(safe(name));
  return finished(session, answer, `${answer.count} registered.`);
}

export interface DiscoverFlags extends VerbFlags {
  readonly driver?: string;
  readonly set?: readonly string[];
  readonly secret?: readonly string[];
  readonly setLabel?: readonly string[];
  readonly cluster?: string;
  readonly namePrefix?: string;
  readonly reason?: string;
  readonly idempotencyKey?: string;
}

export async function discover(session: Session, addresses: readonly string[], flags: DiscoverFlags): Promise<number> {
  if (flags.driver === undefined) throw usageError("`discover` needs --driver. Example: --driver redfish");
  const wait = waitOptions(flags);
  const settings: Record<string, unknown> = Object.fromEntries((flags.set ?? []).map((one) => assignment(one)));
  for (const name of flags.secret ?? []) settings[name] = await secret(name);
  const idempotencyKey = flags.idempotencyKey ?? crypto.randomUUID();
  const input = {
    addresses,
    driver: { [flags.driver]: settings },
    idempotencyKey,
    ...(flags.cluster !== undefined && { cluster: { name: flags.cluster } }),
    ...(flags.namePrefix !== undefined && { namePrefix: flags.namePrefix }),
    ...(flags.reason !== undefined && { reason: flags.reason }),
    ...(flags.setLabel && { labels: labelsOf(flags.setLabel) }),
    ...(flags.dryRun && { dryRun: true }),
  };
  const { answer } = await sendUntilAnswered(session.server, "discoverNodes", { input }, Date.now() + 60_000);
  const code = finished(session, answer, flags.dryRun ? "The discovery would start." : "The discovery has started.");
  const uuid = answer.operation?.uuid;
  if (uuid !== undefined && session.output !== "json") print(uuid);
  return flags.wait && uuid !== undefined ? awaitOperations(session, [uuid], wait) : code;
}

export function labelsOf(assignments: readonly string[]): object[] {
  return assignments.map((one) => {
    const [key, value] = assignment(one, { isText: true });
    return { key, value };
  });
}

/** A secret, from the terminal without echo, or a line of standard input. */
export async function secret(name: string): Promise<string> {
  const value = canAsk()
    ? await ask(`${name}: `, { isSecret: true })
    : (readText("-").split("\n")[0] ?? "").replace(/\r$/, "");
  if (value === "") throw usageError(`No ${safe(name)} was given.`);
  return value;
}

function finished(session: Session, answer: { readonly errors: readonly Refusal[] }, text: string): number {
  if (session.output === "json") printJson(answer);
  warnErrors(answer.errors);
  if (answer.errors.length > 0) return EXIT.refused;
  warn(text);
  return EXIT.done;
}
