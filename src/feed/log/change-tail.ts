/** The tail of the log of changes, for all streams of changes of a process, with what these share. */
import type { Log } from "../../log.ts";
import { changesAfter, newestChange, numberChanges } from "../../store/log/changes.ts";
import type { ChangeRow } from "../../store/log/changes.ts";
import type { Database, Reader } from "../../store/postgres/database.ts";
import { clustersByIds } from "../../store/nodes/clusters.ts";
import { operationsByIds } from "../../store/operations/operations.ts";
import { runsByIds } from "../../store/runs/runs.ts";
import { createKnownRows, createKnownRowsAlone, knownNodes } from "./known-rows.ts";
import { createNumberedTail } from "./numbered-tail.ts";
import { createPacedHead } from "./paced-head.ts";
import { createSharedPages } from "./shared-pages.ts";

/** With the members of the tail of any log that is numbered (numbered-tail.ts). */
export type ChangeTail = ReturnType<typeof createChangeTail>;

/** Counts of an operation are read for each of its items. */
const PACE_MS = 200;
/** Pending changes of a cluster are. */
const SLOW_PACE_MS = 1_000;

function knownObjects(reader: Reader) {
  return {
    nodes: createKnownRows((ids) => knownNodes(reader, ids)),
    operations: createKnownRowsAlone((ids) => operationsByIds(reader, ids)),
    runs: createKnownRowsAlone((ids) => runsByIds(reader, ids)),
    clusters: createKnownRowsAlone((ids) => clustersByIds(reader, ids)),
  };
}

export function createChangeTail({ database: { reader }, log }: { readonly database: Database; readonly log: Log }) {
  const numbered = createNumberedTail<ChangeRow>({
    number: (limit) => numberChanges(reader, limit),
    newest: () => newestChange(reader),
    rowsAfter: (after, limit) => changesAfter(reader, { after, limit }),
    log,
  });
  return {
    ...numbered,
    /** The newest change for streams whose items sum up many. */
    paced: createPacedHead(numbered.live, PACE_MS),
    /** The same for those whose items read a whole cluster. */
    slow: createPacedHead(numbered.live, SLOW_PACE_MS),
    /** Objects as streams read them, shared. */
    known: knownObjects(reader),
    /** Items of pages, shared by streams with equal requests. */
    pages: createSharedPages(),
  };
}
