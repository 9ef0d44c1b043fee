/** Host groups of a cluster: their order, tolerance, minimum in service, and variables. */
import { send } from "./api.ts";
import { nearest } from "../../client/src/filter-language.ts";
import { CliError, EXIT, usageError } from "./exit.ts";
import { finished } from "./fleet.ts";
import type { Answers } from "./requests.ts";
import { chooseColumns, print, printJson, printTable, warn } from "./session.ts";
import type { Column, Session } from "./session.ts";
import { plural, safe } from "./text.ts";
import { allOf, share } from "./values.ts";

type Settings = NonNullable<Answers["clusterSettings"]["cluster"]>;
export type HostGroup = Settings["hostGroups"][number];

export interface GroupFlags {
  readonly after?: readonly string[];
  readonly tolerates?: string;
  readonly minActive?: string;
}

/** A member of the input that a flag does not give keeps its value; null removes it. */
type Rules = Partial<Record<"after" | "tolerates" | "minActive", unknown>>;

const COLUMNS: Readonly<Record<string, Column<HostGroup>>> = {
  name: { title: "NAME", value: ({ name }) => name },
  after: { title: "AFTER", value: ({ after }) => afterText(after) },
  tolerates: { title: "TOLERATES", value: ({ tolerates }) => shareText(tolerates) },
  minActive: { title: "MIN-ACTIVE", value: ({ minActive }) => shareText(minActive) },
  nodes: { title: "NODES", value: ({ nodeCount }) => String(nodeCount) },
  inService: { title: "IN SERVICE", value: ({ inServiceCount }) => String(inServiceCount) },
  variables: { title: "VARIABLES", value: ({ variables }) => Object.keys(variables as object).join(",") },
};

export async function requireSettings({ server }: Session, name: string): Promise<Settings> {
  const { cluster } = await send(server, "clusterSettings", { name });
  if (!cluster) throw new CliError(EXIT.refused, `Cluster ${safe(name)} does not exist.`);
  return cluster;
}

export async function getGroups(session: Session, cluster: string): Promise<number> {
  const columns = chooseColumns(COLUMNS, session, Object.keys(COLUMNS));
  const { hostGroups, otherHostGroups } = await requireSettings(session, cluster);
  if (session.output === "json") printJson(hostGroups);
  else if (session.output === "names") for (const { name } of hostGroups) print(safe(name));
  else {
    printTable(session, columns, hostGroups);
    if (otherHostGroups.length > 0) warn(`Nodes have these groups too, without rules: ${otherHostGroups.join(" ")}`);
  }
  return EXIT.done;
}

/** Changes the rules of these groups, which the cluster gets if it lacks them. */
export async function setGroups(
  session: Session,
  cluster: string,
  { names, flags }: { readonly names: readonly string[]; readonly flags: GroupFlags },
): Promise<number> {
  const rules = rulesOf(flags);
  const settings = await requireSettings(session, cluster);
  const isKnown = names.every((name) => settings.hostGroups.some((group) => group.name === name));
  if (isKnown && Object.keys(rules).length === 0)
    throw usageError("The command changes nothing. Example: --after masters --tolerates 2%");
  return store(session, settings, Object.fromEntries(names.map((name) => [name, rules])));
}

/** Removes the settings of these groups. Their nodes stay as they are. */
export async function unsetGroups(session: Session, cluster: string, names: readonly string[]): Promise<number> {
  const settings = await requireSettings(session, cluster);
  const known = settings.hostGroups.map(({ name }) => name);
  const unknown = names.filter((name) => !known.includes(name));
  if (unknown.length > 0) throw unknownGroups(cluster, unknown, known);
  return store(session, settings, Object.fromEntries(names.map((name) => [name, null])));
}

export async function groupVariables(session: Session, cluster: string, name: string): Promise<unknown> {
  const { hostGroups } = await requireSettings(session, cluster);
  const group = hostGroups.find((one) => one.name === name);
  if (group) return group.variables;
  const known = hostGroups.map((one) => one.name);
  throw unknownGroups(cluster, [name], known);
}

/** Changes variables of a group that the cluster has, or that its nodes have. */
export async function setGroupVariables(
  session: Session,
  cluster: string,
  { name, variables }: { readonly name: string; readonly variables: unknown },
): Promise<number> {
  const settings = await requireSettings(session, cluster);
  const known = [...settings.hostGroups.map((one) => one.name), ...settings.otherHostGroups];
  if (!known.includes(name)) throw unknownGroups(cluster, [name], known);
  return store(session, settings, { [name]: { variables } });
}

function unknownGroups(cluster: string, names: readonly string[], known: readonly string[]): CliError {
  const lines = names.map((name) => {
    const meant = nearest(name, known);
    const hint = meant === null ? `Add it: ostler clusters groups set ${cluster} ${name}` : `Did you mean ${meant}?`;
    return safe(`Cluster ${cluster} has no host group ${name}. ${hint}`);
  });
  return new CliError(EXIT.refused, lines.join("\n"));
}

/** The service replaces the whole list: refused if the cluster has changed since it was read. */
async function store(
  session: Session,
  { name, revision, hostGroups }: Settings,
  changes: Readonly<Record<string, object | null>>,
): Promise<number> {
  const added = Object.keys(changes).filter((group) => !hostGroups.some((one) => one.name === group));
  const kept = [...hostGroups.map(inputOf), ...added.map((group) => ({ name: group }))];
  const groups = kept.flatMap((group) => {
    const change = changes[group.name];
    return change === null ? [] : [{ ...group, ...change }];
  });
  const { answer } = await send(session.server, "updateCluster", {
    input: { cluster: { name }, ifRevision: revision, hostGroups: groups },
  });
  const done = [
    ...added.map((group) => `${group} added`),
    ...Object.entries(changes)
      .filter(([group]) => !added.includes(group))
      .map(([group, change]) => `${group} ${change === null ? "removed" : "changed"}`),
  ];
  return finished(session, answer, `Host groups of cluster ${name}: ${done.join(", ")}.`);
}

/** Variables are left out: those that a request does not name stay. */
function inputOf({ name, after, tolerates, minActive }: HostGroup): { readonly name: string } & Rules {
  const given = (one: HostGroup["tolerates"]) =>
    one === null ? null : one.count === null ? { percent: one.percent } : { count: one.count };
  return {
    name,
    after: after.map((one) => ({ group: one.group, share: given(one.share) })),
    tolerates: given(tolerates),
    minActive: given(minActive),
  };
}

/** The flags as members of the input. All flaws are one error. */
function rulesOf({ after, tolerates, minActive }: GroupFlags): Rules {
  const shareOrNone = (flag: string, text: string) => (text === "none" ? null : share(flag, text));
  const isNone = after?.length === 1 && after[0] === "none";
  const [requirements, most, least] = allOf([
    () => after && (isNone ? [] : allOf(after.map((one) => () => requirementOf(one)))),
    () => tolerates !== undefined && shareOrNone("--tolerates", tolerates),
    () => minActive !== undefined && shareOrNone("--min-active", minActive),
  ]);
  return {
    ...(after && { after: requirements }),
    ...(tolerates !== undefined && { tolerates: most }),
    ...(minActive !== undefined && { minActive: least }),
  };
}

/** `masters`, `masters=1` or `masters=50%`. */
function requirementOf(text: string): object {
  const at = text.indexOf("=");
  return at < 0 ? { group: text } : { group: text.slice(0, at), share: share("--after", text.slice(at + 1)) };
}

/** Shares and requirements in the form of the flags. */
function shareText(one: HostGroup["tolerates"]): string {
  return one === null ? "" : one.count === null ? `${one.percent}%` : String(one.count);
}

function afterText(after: HostGroup["after"]): string {
  return after.map(({ group, share: part }) => (part ? `${group}=${shareText(part)}` : group)).join(",");
}

/** A group as a line of its cluster. */
export function groupLine(group: HostGroup): string {
  const { name, after, tolerates, minActive, nodeCount, inServiceCount, variables } = group;
  const names = Object.keys(variables as object);
  return [
    `${name}: ${inServiceCount} of ${plural(nodeCount, "node")} in service`,
    ...(after.length > 0 ? [`after ${afterText(after)}`] : []),
    ...(tolerates ? [`tolerates ${shareText(tolerates)}`] : []),
    ...(minActive ? [`min-active ${shareText(minActive)}`] : []),
    ...(names.length > 0 ? [`variables ${names.join(", ")}`] : []),
  ].join("; ");
}
