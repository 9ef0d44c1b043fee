/** Outputs of deploy steps that nodes of later host groups take as variables. */
import { sql } from "drizzle-orm";
import { inArrayParam } from "../postgres/array-parameter.ts";
import type { Reader } from "../postgres/database.ts";
import type { JsonObject } from "../records.ts";
import { keyOfName, nodes } from "../tables.ts";

/** A node that has an output, and that output alone. */
interface HeldOutput {
  readonly id: string;
  readonly isActive: boolean;
  readonly outputs: JsonObject;
}

/** The nodes of a group that have an output, ACTIVE ones first, then by name. `first`: at most this number. */
export async function outputsOfGroup(
  reader: Reader,
  of: { readonly clusterId: string; readonly fromGroup: string; readonly output: string },
  first: number,
): Promise<HeldOutput[]> {
  const isActive = sql<boolean>`${nodes.state} = 'ACTIVE'`;
  const value = sql`${nodes.outputs} -> ${of.output}::text`;
  return reader
    .select({
      id: nodes.id,
      isActive,
      outputs: sql<JsonObject>`jsonb_build_object(${of.output}::text, ${value})`,
    })
    .from(nodes)
    .where(
      sql`${inArrayParam(nodes.clusterId, [of.clusterId])} and ${nodes.hostGroup} = ${of.fromGroup} and ${value} is not null`,
    )
    .orderBy(sql`${isActive} desc`, keyOfName(nodes.name))
    .limit(first);
}
