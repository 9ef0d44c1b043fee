/** Clusters in few words: their states, what their host groups wait for, and changes of their variables. */
import { numberText, plural, withLocalTimes } from "./numbers.ts";
import { familyOf, sentenceCase } from "./states.ts";
import type { Family } from "./states.ts";
import type { ReadShare } from "./terms.ts";

const FAMILIES: Readonly<Record<string, Family>> = {
  OPERATIONAL: "active",
  PARTIALLY_DEPLOYED: "waiting",
  ERROR: "failed",
  STOPPED: "aside",
  NEW: "rest",
};

/** Of the state of a cluster; a state of a newer service has a family too. */
export const clusterFamilyOf = (state: string): Family => FAMILIES[state] ?? familyOf(state);

interface Member {
  readonly name: string;
  readonly state: string;
  readonly hostGroup: string | null;
  readonly presence: string;
  readonly powerState: string;
  readonly fault: object | null;
}

interface GroupRun {
  readonly nodeName: string;
  readonly state: string;
  readonly finishedAt: string | null;
  readonly waiting: {
    readonly reason: string;
    readonly description: string;
    readonly hostGroups: readonly { readonly group: string }[];
  } | null;
  readonly operation: { readonly kind: string };
}

export interface HostGroupSettings {
  readonly name: string;
  readonly after: readonly { readonly group: string; readonly share: ReadShare | null }[];
  readonly tolerates: ReadShare | null;
  readonly minActive: ReadShare | null;
  readonly variables: unknown;
}

export interface HostGroupLine {
  /** Null: the nodes of none. */
  readonly name: string | null;
  readonly counts: readonly { readonly state: string; readonly count: number }[];
  /** Its settings, with the numbers of now. */
  readonly rules: readonly string[];
  /** Why its nodes wait, the reason of most nodes first. The numbers of a wait for other groups are in `rules`. */
  readonly waits: readonly string[];
}

const waiting = (count: number) => `${plural(count, "node")} wait${count === 1 ? "s" : ""}`;
/** Work that leaves the state of a node. */
const STAYING = ["POWER", "BOOT_DEVICE"];

/** Host groups in the order of their deployment, then by name, the nodes of none last. `runs`: of what is done now. */
export function hostGroupsOf(
  members: Iterable<Member>,
  runs: Iterable<GroupRun>,
  settings: readonly HostGroupSettings[],
): readonly HostGroupLine[] {
  const all = [...runs];
  const open = new Map(all.filter(({ finishedAt }) => finishedAt === null).map((run) => [run.nodeName, run]));
  const failed = new Set(all.filter(({ state }) => state === "FAILED").map(({ nodeName }) => nodeName));
  const byGroup = Map.groupBy(members, ({ hostGroup }) => hostGroup);
  const nodesOf = (group: string | null) => byGroup.get(group) ?? [];
  const isActive = ({ name, state }: Member) => {
    const kind = open.get(name)?.operation.kind;
    return state === "ACTIVE" && (kind === undefined || STAYING.includes(kind));
  };
  const others = [...byGroup.keys()].filter((group) => !settings.some(({ name }) => name === group));
  const line = (group: string | null, rules: readonly string[]): HostGroupLine => {
    const nodes = nodesOf(group);
    const reasons = nodes.map(({ name }) => open.get(name)?.waiting).filter((why) => why != null);
    return {
      name: group,
      counts: countsOf(nodes.map(({ state }) => state)),
      rules,
      waits: countsOf(reasons.map(({ reason }) => reason)).map(({ state: reason, count }) => {
        const same = reasons.filter((why) => why.reason === reason);
        const groups = [...new Set(same.flatMap(({ hostGroups }) => hostGroups.map((wait) => wait.group)))];
        // The numbers in the description are those of when the wait began.
        return reason === "GROUP"
          ? `${waiting(count)} for ${groups.join(" and ")}.`
          : `${waiting(count)}, ${sentenceCase(reason).toLowerCase()}: ${withLocalTimes(same[0]?.description ?? "")}`;
      }),
    };
  };
  return [
    ...settings.map(({ name, after, tolerates, minActive }) => {
      const total = nodesOf(name).length;
      const failures = nodesOf(name).filter((node) => failed.has(node.name)).length;
      const serving = nodesOf(name).filter(isServing).length;
      return line(name, [
        ...after.map(({ group, share }) => {
          const nodes = nodesOf(group);
          const needed = Math.max(1, share ? countOf(share, nodes.length, Math.ceil) : nodes.length);
          const active = nodes.filter(isActive).length;
          const verdict = active >= needed ? "it may begin" : `${numberText(needed - active)} missing`;
          return `After ${group}: ${numberText(active)} of ${numberText(needed)} needed nodes active, ${verdict}.`;
        }),
        ...(tolerates
          ? [
              `Tolerates ${plural(countOf(tolerates, total, Math.floor), "failure")}${all.length === 0 ? "" : `, ${numberText(failures)} so far`}.`,
            ]
          : []),
        ...(minActive
          ? [`${numberText(serving)} in service, at least ${numberText(countOf(minActive, total, Math.ceil))} to stay.`]
          : []),
      ]);
    }),
    ...others.toSorted((a, b) => (a === null ? 1 : b === null ? -1 : a < b ? -1 : 1)).map((group) => line(group, [])),
  ];
}

const isServing = ({ state, presence, powerState, fault }: Member) =>
  state === "ACTIVE" && presence !== "DISAPPEARED" && powerState !== "OFF" && fault === null;

function countOf({ count, percent }: ReadShare, total: number, round: (exact: number) => number): number {
  return percent == null ? (count ?? 0) : round((percent * total) / 100);
}

function countsOf(states: readonly string[]): readonly { readonly state: string; readonly count: number }[] {
  return [...Map.groupBy(states, (state) => state)]
    .map(([state, { length }]) => ({ state, count: length }))
    .toSorted((a, b) => b.count - a.count);
}

type Values = Readonly<Record<string, unknown>>;

/** The keys that two objects of variables have with other values. */
export function changedKeys(before: Values, after: Values): readonly string[] {
  return [...new Set([...Object.keys(before), ...Object.keys(after)])].filter(
    (key) => JSON.stringify(before[key]) !== JSON.stringify(after[key]),
  );
}

/** The change that makes one of the other: changed keys with their value, and removed ones with null. */
export function variablesPatch(before: Values, after: Values): Values {
  return Object.fromEntries(changedKeys(before, after).map((key) => [key, after[key] ?? null]));
}

interface StepOfRun {
  readonly index: number;
  readonly name: string;
  readonly title: string;
  readonly interface: string;
  readonly state: string;
  readonly startedAt: string | null;
  readonly finishedAt: string | null;
}

export interface StepLine {
  readonly name: string;
  readonly title: string;
  /** Of the first node. */
  readonly startedAt: string | null;
  /** From the first node's start to the last node's end; null until then. */
  readonly seconds: number | null;
  readonly counts: readonly { readonly state: string; readonly count: number }[];
}

/** Names a step, and which one it is of those with its name in a run. */
function keyOf({ interface: kind, name, index }: StepOfRun, steps: readonly StepOfRun[]): string {
  const before = steps.filter((step) => step.interface === kind && step.name === name && step.index < index);
  return `${kind}.${name} ${before.length}`;
}

/** The steps of an operation over its nodes, in their order. */
export function stepLines(runs: readonly { readonly steps: readonly StepOfRun[] }[]): readonly StepLine[] {
  const keyed = runs.map(({ steps }) => steps.map((step) => ({ step, key: keyOf(step, steps) })));
  const keys: string[] = [];
  // A step that only some nodes have comes after the one before it there.
  for (const run of keyed.toSorted((a, b) => b.length - a.length))
    run.forEach(({ key }, index) => {
      const after = keys.indexOf(run[index - 1]?.key ?? "");
      if (!keys.includes(key)) keys.splice(after + 1, 0, key);
    });
  return [...Map.groupBy(keyed.flat(), ({ key }) => key)]
    .toSorted(([a], [b]) => keys.indexOf(a) - keys.indexOf(b))
    .map(([, same]) => {
      const steps = same.map(({ step }) => step);
      const begun = steps.filter(({ startedAt }) => startedAt !== null);
      const starts = begun.map(({ startedAt }) => startedAt ?? "").toSorted();
      const ends = begun.map(({ finishedAt }) => finishedAt ?? "").toSorted();
      const [first] = starts;
      const last = ends.at(-1);
      const hasEnded = first !== undefined && last !== undefined && ends[0] !== "";
      return {
        name: `${steps[0]?.interface.toLowerCase()}.${steps[0]?.name}`,
        title: steps[0]?.title ?? "",
        startedAt: first ?? null,
        seconds: hasEnded ? (new Date(last).getTime() - new Date(first).getTime()) / 1_000 : null,
        counts: countsOf(steps.map(({ state }) => state)),
      };
    });
}
