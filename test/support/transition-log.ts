/** The log of transitions as a client reads it. Does not depend on a test runner; scripts use it too. */
import { ask } from "./ask.ts";

export interface LoggedTransition {
  readonly cursor: string;
  readonly nodeName: string;
  readonly sequence: number;
  readonly from: string | null;
  readonly to: string | null;
  readonly event: string;
}

export const TRANSITION_FIELDS = "cursor nodeName sequence from to event";

/** Reads the whole log, page by page. */
export async function wholeLog(url: string, token?: string): Promise<LoggedTransition[]> {
  const all: LoggedTransition[] = [];
  for (;;) {
    const { transitions } = await ask<{
      transitions: { edges: readonly { node: LoggedTransition }[]; pageInfo: { hasNextPage: boolean } };
    }>(
      url,
      `query ($after: String) { transitions(first: 500, after: $after) { edges { node { ${TRANSITION_FIELDS} } } pageInfo { hasNextPage } } }`,
      { variables: { after: all.at(-1)?.cursor ?? "0" }, token },
    );
    all.push(...transitions.edges.map(({ node }) => node));
    if (!transitions.pageInfo.hasNextPage) return all;
  }
}

/** Flaws of a log: gaps between positions, and transitions of a node that do not connect. */
export function logFlaws(log: readonly LoggedTransition[]): LoggedTransition[] {
  const last = new Map<string, LoggedTransition>();
  return log.filter((one, index) => {
    const before = last.get(one.nodeName);
    last.set(one.nodeName, one);
    return (
      Number.parseInt(one.cursor, 10) !== index + 1 ||
      (before?.to ?? null) !== one.from ||
      (before?.sequence ?? 0) + 1 !== one.sequence
    );
  });
}
