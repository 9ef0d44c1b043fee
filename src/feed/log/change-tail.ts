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
import type { NumberedTail } from "./numbered-tail.ts";
import { createPacedHead } from "./paced-head.ts";
import type { Head } from "./paced-head.ts";
import { createSharedPages } from "./shared-pages.ts";
import type { SharedPages } from "./shared-pages.ts";

export interface ChangeTail extends Pick<NumberedTail<ChangeRow>, "recent"> {
  /** The newest change that this process has seen; behind while there is no stream. */
  readonly live: Head;
  /** The newest change for streams whose items sum up many. */
  readonly paced: Head;
  /** The same for those whose items read a whole cluster. */
  readonly slow: Head;
  /** Objects as streams read them, shared. */
  readonly known: ReturnType<typeof knownObjects>;
  /** Items of pages, shared by streams with equal requests. */
  readonly pages: SharedPages;
}

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

export function createChangeTail({
  database: { reader },
  log,
}: {
  readonly database: Database;
  readonly log: Log;
}): ChangeTail & NumberedTail<ChangeRow> {
  const numbered = createNumberedTail<ChangeRow>({
    number: (limit) => numberChanges(reader, limit),
    newest: () => newestChange(reader),
    rowsAfter: (after, limit) => changesAfter(reader, { after, limit }),
    log,
  });
  return {
    ...numbered,
    paced: createPacedHead(numbered.live, PACE_MS),
    slow: createPacedHead(numbered.live, SLOW_PACE_MS),
    known: knownObjects(reader),
    pages: createSharedPages(),
  };
}
