/**
 * The filters of the table, as the page's address keeps them and as the service takes them. The service evaluates the
 * filter: of nodes that do not match, nothing is sent.
 */
import type { NodeFilter, NodeState, PowerState } from "../api/generated/graphql.ts";

export const MARKS = ["failed", "fault", "maintenance", "drift", "disappeared", "protected", "retired"] as const;
export type Mark = (typeof MARKS)[number];

export interface Filters {
  /** A part of the name. */
  readonly text: string;
  readonly states: readonly NodeState[];
  /** Name of a cluster; empty for all. */
  readonly cluster: string;
  readonly power: PowerState | "";
  readonly mark: Mark | "";
}

export const NO_FILTERS: Filters = { text: "", states: [], cluster: "", power: "", mark: "" };

const MARK_FILTERS: Readonly<Record<Mark, NodeFilter>> = {
  failed: { withErrors: true },
  fault: { faulty: true },
  maintenance: { maintenance: true },
  drift: { powerDrift: true },
  disappeared: { presences: ["DISAPPEARED"] },
  protected: { protected: true },
  retired: { retired: true },
};

/** Null if all nodes match. */
export function nodeFilterOf({ text, states, cluster, power, mark }: Filters): NodeFilter | null {
  const filter: NodeFilter = {
    ...(text !== "" && { name: { contains: text } }),
    ...(states.length > 0 && { states: [...states] }),
    ...(cluster !== "" && { cluster: { name: cluster } }),
    ...(power !== "" && { powerStates: [power] }),
    ...(mark !== "" && MARK_FILTERS[mark]),
  };
  return Object.keys(filter).length > 0 ? filter : null;
}

export function filtersOf(search: string): Filters {
  const parameters = new URLSearchParams(search);
  const mark = parameters.get("mark") ?? "";
  return {
    text: parameters.get("name") ?? "",
    // The service refuses a state that it does not know; the page shows the refusal.
    states: parameters.getAll("state") as NodeState[],
    cluster: parameters.get("cluster") ?? "",
    power: (parameters.get("power") ?? "") as PowerState | "",
    mark: isMark(mark) ? mark : "",
  };
}

export function searchOf({ text, states, cluster, power, mark }: Filters): string {
  const parameters = new URLSearchParams(states.map((state) => ["state", state]));
  for (const [key, value] of Object.entries({ name: text, cluster, power, mark }))
    if (value !== "") parameters.set(key, value);
  const search = parameters.toString();
  return search === "" ? "" : `?${search}`;
}

function isMark(text: string): text is Mark {
  return MARKS.some((mark) => mark === text);
}
