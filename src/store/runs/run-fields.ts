/**
 * Fields of a run that are columns, as the SQL of their JSON text: for lists of nodes that the database writes with
 * their unfinished run. Resolvers of a run have the same values; `test/graphql/lists.test.ts` compares both.
 */
import { sql } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import { globalIdSql } from "../global-id.ts";
import { NULL_TEXT, dateText, plainStringText, scalarText, stringText } from "../json-text.ts";
import type { JsonFields } from "../json-text.ts";
import { nodes, runs } from "../tables.ts";

export const RUN_FIELDS = {
  id: { text: sql`'"' || ${globalIdSql("Run", runs.id)} || '"'` },
  nodeName: { text: stringText(runs.nodeName) },
  purpose: { text: plainStringText(runs.purpose) },
  state: { text: plainStringText(runs.state) },
  target: { text: plainStringText(runs.target) },
  attempt: { text: scalarText(runs.attempt) },
  wakeAt: { text: dateText(runs.wakeAt) },
  createdAt: { text: dateText(runs.createdAt) },
  startedAt: { text: dateText(runs.startedAt) },
  finishedAt: { text: dateText(runs.finishedAt) },
} satisfies JsonFields;

/** JSON text of the node's unfinished run; null if there is none. One index look-up per node. */
export function ofUnfinishedRun(text: SQL): SQL {
  return sql`coalesce((select ${text} from ${runs} where ${runs.nodeId} = ${nodes.id} and ${runs.finishedAt} is null), ${NULL_TEXT})`;
}
