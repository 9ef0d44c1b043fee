/**
 * All columns with secrets, and their encryption in place: what remains readable is the structure, such as the names of
 * the secret settings of a node.
 */
import { getTableName } from "drizzle-orm";
import type { PgTable } from "drizzle-orm/pg-core";
import type { Reader, Tx } from "../postgres/database.ts";
import type { StoredJson } from "../records.ts";
import {
  agentSessions,
  clusters,
  discoverySecrets,
  imageSecrets,
  machineCertificate,
  nodeSecrets,
  operationSecrets,
  operations,
  runs,
} from "../tables.ts";
import { keyIdOf } from "./cipher.ts";
import type { Place } from "./cipher.ts";
import { readable } from "./keyring.ts";
import type { Keyring, SecretError } from "./keyring.ts";

export interface SecretColumn {
  readonly table: PgTable;
  /** Fields of the table: its key, and the one with secrets. */
  readonly key: string;
  readonly field: string;
  /** Names on the path from the column to a secret. */
  readonly depth: 0 | 1 | 2;
  /** The only member that is secret; "declared": the variables that drivers declare as secret. Absent: all are. */
  readonly only?: string;
}

export const DECLARED = "declared";
const variablesOf = (table: PgTable): SecretColumn => ({
  table,
  key: "id",
  field: "variables",
  depth: 1,
  only: DECLARED,
});

export const SECRET_COLUMNS = {
  /** Driver → field → value. */
  nodeSecrets: { table: nodeSecrets, key: "nodeId", field: "secrets", depth: 2 },
  discoverySecrets: { table: discoverySecrets, key: "operationId", field: "settings", depth: 1 },
  imageUserData: { table: imageSecrets, key: "imageId", field: "userData", depth: 0 },
  operationUserData: { table: operationSecrets, key: "operationId", field: "userData", depth: 0 },
  agentTasks: { table: agentSessions, key: "id", field: "task", depth: 1, only: "args" },
  machineKey: { table: machineCertificate, key: "id", field: "key", depth: 0 },
  clusterVariables: variablesOf(clusters),
  operationVariables: variablesOf(operations),
  runVariables: variablesOf(runs),
} as const satisfies Readonly<Record<string, SecretColumn>>;

/** The value of a column in one row. `declared`: the names of variables that are secret. */
export interface SecretCell {
  readonly column: SecretColumn;
  readonly row: string;
  readonly declared?: ReadonlySet<string>;
}

/** Encrypts the secrets of one row. */
export async function encryptSecrets<Value>(tx: Tx, keyring: Keyring, cell: SecretCell, value: Value): Promise<Value> {
  const { encrypt } = await keyring.encryption(tx);
  return mapSecrets(cell, value, encrypt);
}

/** Decrypts the secrets of rows; an error for a row of which one cannot be read. */
export async function decryptSecrets<Value>(
  reader: Reader,
  keyring: Keyring,
  column: SecretColumn,
  rows: readonly (readonly [row: string, value: Value])[],
): Promise<Map<string, Value | SecretError>> {
  const decrypt = await keyring.decryption(reader, rows);
  return new Map(rows.map(([row, value]) => [row, readable(() => mapSecrets({ column, row }, value, decrypt))]));
}

/** Changes all secrets of a value. */
export function mapSecrets<Value>(
  { column, row, declared = new Set() }: SecretCell,
  value: Value,
  change: (place: Place, secret: StoredJson) => StoredJson,
): Value {
  const walk = (part: StoredJson, path: readonly string[]): StoredJson => {
    if (path.length === column.depth)
      return isSecret(column, path, part, declared) ? change([getTableName(column.table), row, ...path], part) : part;
    return Object.fromEntries(
      Object.entries(part ?? {}).map(([name, inside]) => [name, walk(inside, [...path, name])]),
    );
  };
  return walk(value as StoredJson, []) as Value;
}

/** A variable that is encrypted stays secret if no loaded driver declares it. */
function isSecret(
  { only }: SecretColumn,
  [name = ""]: readonly string[],
  value: StoredJson,
  declared: ReadonlySet<string>,
): boolean {
  if (only === DECLARED) return declared.has(name) || keyIdOf(value) !== null;
  return only === undefined || only === name;
}
