/** Commands for clusters. */
import { send } from "./api.ts";
import type { Variables } from "./api.ts";
import { CliError, EXIT, usageError } from "./exit.ts";
import { finished } from "./fleet.ts";
import { groupLine, groupVariables, requireSettings, setGroupVariables } from "./host-groups.ts";
import { printFields } from "./nodes.ts";
import { confirm } from "./question.ts";
import type { Answers } from "./requests.ts";
import { chooseColumns, pages, print, printJson, printTable, warn } from "./session.ts";
import type { Column, Session } from "./session.ts";
import { plural, safe, safeJson, timeText } from "./text.ts";
import { allOf, assignment } from "./values.ts";
import type { VerbFlags } from "./work.ts";

type WholeCluster = NonNullable<Answers["cluster"]["cluster"]>;
type Cluster = Answers["clusters"]["clusters"]["nodes"][number];

const COLUMNS: Readonly<Record<string, Column<Cluster>>> = {
  name: { title: "NAME", value: ({ name }) => name },
  state: { title: "STATE", value: ({ state }) => state },
  nodes: { title: "NODES", value: ({ nodeCounts }) => String(nodeCounts.reduce((sum, { count }) => sum + count, 0)) },
  states: {
    title: "STATES",
    value: ({ nodeCounts }) => countsText(nodeCounts),
  },
  updated: { title: "UPDATED", value: ({ updatedAt }, isTerminal) => timeText(updatedAt, isTerminal) },
};
const STANDARD = ["name", "state", "nodes", "states", "updated"];

export async function getClusters(session: Session, name: string | undefined): Promise<number> {
  if (name !== undefined) {
    const { cluster } = await send(session.server, "cluster", { name });
    if (!cluster) throw new CliError(EXIT.refused, `Cluster ${safe(name)} does not exist.`);
    printFields(session, session.output === "json" ? cluster : linesOf(cluster));
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

/** A cluster as lines for people. */
function linesOf({ id, nodeCounts, hostGroups, otherHostGroups, pendingChanges, ...cluster }: WholeCluster): Variables {
  const { count, groupCount, groups } = pendingChanges;
  const changes = groups.map(({ reason, nodeCount, needsReinstall, nodes }) => {
    const others = nodeCount > nodes.length ? ` and ${nodeCount - nodes.length} more` : "";
    const names = nodes.map(({ name }) => name).join(" ");
    return `  ${nodeCount}  ${reason}${needsReinstall ? " (only with --reinstall)" : ""}    ${names}${others}`;
  });
  return {
    ...cluster,
    image: cluster.image?.name ?? null,
    nodeCounts: countsText(nodeCounts),
    hostGroups: [...hostGroups.map(groupLine), ...otherHostGroups.map((name) => `${name}: no rules`)],
    pendingChanges:
      count === 0
        ? "none"
        : [
            `${plural(count, "node")}: ostler clusters apply ${cluster.name}`,
            ...changes,
            ...(groupCount > groups.length ? [`  and ${groupCount - groups.length} more reasons`] : []),
          ],
    id,
  };
}

function countsText(counts: Cluster["nodeCounts"]): string {
  return counts.map(({ state, count }) => `${count} ${state}`).join(", ");
}

export async function createCluster(session: Session, name: string, settings: Variables): Promise<number> {
  const { answer } = await send(session.server, "createCluster", { input: { name, ...settings } });
  return finished(session, answer, `Cluster ${name} was created.`);
}

export async function changeCluster(session: Session, name: string, change: Variables): Promise<number> {
  if (Object.keys(change).length === 0) throw usageError("The command changes nothing. Example: --image debian-13");
  const { answer } = await send(session.server, "updateCluster", { input: { cluster: { name }, ...change } });
  return finished(session, answer, `Cluster ${name} was changed.`);
}

export async function deleteCluster(session: Session, name: string, flags: VerbFlags): Promise<number> {
  const { id, nodeCounts } = await requireSettings(session, name);
  warn(`delete cluster ${name}, and keep its ${nodeCounts.reduce((sum, { count }) => sum + count, 0)} nodes`);
  await confirm({ yes: flags.yes === true });
  const { answer } = await send(session.server, "deleteCluster", { input: { cluster: { id } } });
  return finished(session, answer, `Cluster ${name} was deleted.`);
}

/** Of the cluster, or of one of its host groups. */
export async function getVariables(session: Session, name: string, group: string | undefined): Promise<number> {
  const variables =
    group === undefined ? (await requireSettings(session, name)).variables : await groupVariables(session, name, group);
  if (session.output === "json") printJson(variables, 2);
  else
    for (const [key, value] of Object.entries(variables as object))
      print(safe(`${key}=${typeof value === "string" ? value : safeJson(value)}`));
  return EXIT.done;
}

/** Words are of the form `NAME=VALUE`, or names of variables to remove. */
export function changeVariables(
  session: Session,
  name: string,
  {
    words,
    isSet,
    group,
  }: { readonly words: readonly string[]; readonly isSet: boolean; readonly group: string | undefined },
): Promise<number> {
  const pairs = allOf(words.map((one) => () => (isSet ? assignment(one) : [one, null])));
  const variables: unknown = Object.fromEntries(pairs as [string, unknown][]);
  return group === undefined
    ? changeCluster(session, name, { variables })
    : setGroupVariables(session, name, { name: group, variables });
}
