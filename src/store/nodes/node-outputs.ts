/** Outputs of deploy steps that nodes of later host groups take as variables. */
import { sql } from "drizzle-orm";
import { inArrayParam } from "../postgres/array-parameter.ts";
import type { Reader } from "../postgres/database.ts";
import type { JsonObject } from "../records.ts";
import { keyOfName, nodes } from "../tables.ts";

/** The outputs of the ACTIVE nodes of a group that have any, by name. */
export async function outputsOfGroup(
  reader: Reader,
  { clusterId, group }: { readonly clusterId: string; readonly group: string },
): Promise<{ readonly id: string; readonly outputs: JsonObject }[]> {
  return reader
    .select({ id: nodes.id, outputs: nodes.outputs })
    .from(nodes)
    .where(
      sql`${inArrayParam(nodes.clusterId, [clusterId])} and ${nodes.hostGroup} = ${group} and ${nodes.state} = 'ACTIVE' and ${nodes.outputs} <> '{}'`,
    )
    .orderBy(keyOfName(nodes.name));
}
