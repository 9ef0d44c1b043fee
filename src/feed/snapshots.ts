/**
 * Snapshots of the fleet, shared by the streams that ask for the same at the same time: when a process comes back, all
 * its subscribers do at once, and each of them would read and hold the whole fleet. Of one filter one snapshot is read
 * at a time, and whoever asks meanwhile is given the next one: what a client wrote before it asked is always in it.
 */
import type { Database } from "../store/database.ts";
import { nodesAfterName } from "../store/nodes.ts";
import type { NodeFilter, NodeRow } from "../store/nodes.ts";
import { newestPosition } from "../store/transitions.ts";

/** Every matching node, by name, and the position they are as of. */
export interface Snapshot {
  readonly position: number;
  readonly nodes: readonly NodeRow[];
}

const PAGE = 1_000;

export function createSnapshots(database: Database): (filter: NodeFilter | undefined) => Promise<Snapshot> {
  const underWay = new Map<string, { readonly now: Promise<Snapshot>; next: Promise<Snapshot> | null }>();

  function take(key: string, filter: NodeFilter | undefined): Promise<Snapshot> {
    const mine = { now: takeSnapshot(database, filter), next: null };
    underWay.set(key, mine);
    const end = () => {
      if (mine.next === null) underWay.delete(key);
    };
    mine.now.then(end, end);
    return mine.now;
  }

  return (filter) => {
    const key = JSON.stringify(filter ?? {});
    const current = underWay.get(key);
    if (!current) return take(key, filter);
    const following = () => take(key, filter);
    current.next ??= current.now.then(following, following);
    return current.next;
  };
}

async function takeSnapshot(database: Database, filter: NodeFilter | undefined): Promise<Snapshot> {
  return database.snapshot(async (reader) => {
    const position = await newestPosition(reader);
    const nodes: NodeRow[] = [];
    for (;;) {
      const page = await nodesAfterName(reader, filter, nodes.at(-1)?.name ?? null, PAGE);
      nodes.push(...page);
      if (page.length < PAGE) return { position, nodes };
    }
  });
}
