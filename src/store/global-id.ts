/** Global IDs of the API, opaque to clients: type and key in base64url, made here or by the database. */
import { sql } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import type { PgColumn } from "drizzle-orm/pg-core";

export type IdType =
  | "Node"
  | "Cluster"
  | "Operation"
  | "Run"
  | "Driver"
  | "Transition"
  | "Inventory"
  | "Runbook"
  | "Image";

export function globalId(type: IdType, key: string): string {
  return Buffer.from(`${type}:${key}`, "utf8").toString("base64url");
}

/** The same in SQL. Only for keys up to 48 bytes: PostgreSQL breaks the lines of longer base64. */
export function globalIdSql(type: IdType, key: PgColumn): SQL {
  return sql`translate(encode(convert_to(${sql.raw(`'${type}:'`)} || ${key}, 'UTF8'), 'base64'), '+/=', '-_')`;
}
