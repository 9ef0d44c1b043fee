/** Clusters in few words: their states, what their host groups wait for, and changes of their variables. */
import { familyOf, sentenceCase } from "./states.ts";
import type { Family } from "./states.ts";

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
}

interface WaitingRun {
  readonly nodeName: string;
  readonly finishedAt: string | null;
  readonly waiting: { readonly reason: string; readonly description: string } | null;
}

export interface HostGroupLine {
  /** Null: the nodes of none. */
  readonly name: string | null;
  readonly counts: readonly { readonly state: string; readonly count: number }[];
  /** Why its nodes wait, the reason of most nodes first. */
  readonly waits: readonly { readonly reason: string; readonly example: string; readonly count: number }[];
}

/** Host groups by name, the nodes of none last. */
export function hostGroupsOf(members: Iterable<Member>, runs: Iterable<WaitingRun>): readonly HostGroupLine[] {
  const waiting = new Map(
    [...runs]
      .filter((run) => run.finishedAt === null && run.waiting !== null)
      .map(({ nodeName, waiting: why }) => [nodeName, why]),
  );
  return [...Map.groupBy(members, ({ hostGroup }) => hostGroup)]
    .toSorted(([a], [b]) => (a === null ? 1 : b === null ? -1 : a < b ? -1 : 1))
    .map(([name, nodes]) => {
      const reasons = nodes.map((node) => waiting.get(node.name)).filter((why) => why != null);
      return {
        name,
        counts: countsOf(nodes.map(({ state }) => state)),
        waits: countsOf(reasons.map(({ reason }) => reason)).map(({ state: reason, count }) => ({
          reason: sentenceCase(reason),
          example: reasons.find((why) => why.reason === reason)?.description ?? "",
          count,
        })),
      };
    });
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

/** The steps of an operation over its nodes, in their order. */
export function stepLines(runs: readonly { readonly steps: readonly StepOfRun[] }[]): readonly StepLine[] {
  const all = runs.flatMap(({ steps }) => steps);
  return [...Map.groupBy(all, ({ interface: kind, name, index }) => `${index} ${kind}.${name}`)]
    .toSorted(([, [a]], [, [b]]) => (a?.index ?? 0) - (b?.index ?? 0))
    .map(([, steps]) => {
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
