/**
 * All columns with secrets, and their encryption in place: what remains readable is the structure, such as the names of
 * the secret settings of a node.
 */
import { eq, getColumnTable, getTableName } from "drizzle-orm";
import type { PgColumn, PgTable } from "drizzle-orm/pg-core";
import { inArrayParam } from "../postgres/array-parameter.ts";
import { rowsText } from "../postgres/bulk.ts";
import type { Reader, Tx } from "../postgres/database.ts";
import { runStatement } from "../postgres/statements.ts";
import type { JsonObject, StoredJson } from "../records.ts";
import {
  agentSessions,
  clusters,
  discoverySecrets,
  imageSecrets,
  machineCertificate,
  nodeSecrets,
  nodes,
  operationSecrets,
  operations,
  runs,
  site,
} from "../tables.ts";
import { keyIdOf } from "./cipher.ts";
import { readable, SecretError } from "./keyring.ts";
import type { ChangeSecret, Keyring } from "./keyring.ts";

export interface SecretColumn<Value = unknown> {
  readonly table: PgTable;
  /** The key of the table, and the column with secrets. */
  readonly id: PgColumn;
  readonly value: PgColumn;
  /** The type of the value; never set. */
  readonly holds?: Value;
  /**
   * The members that lead to a secret, outermost first: one name, any, or the variables that drivers declare as secret.
   * Empty: the value is a secret.
   */
  readonly path: readonly string[];
}

export const ANY = "*";
export const DECLARED = "declared";

function secretsIn<Column extends PgColumn>(id: PgColumn, value: Column, path: readonly string[]) {
  return { table: getColumnTable(id), id, value, path } as SecretColumn<Column["_"]["data"]>;
}

export const SECRETS = {
  /** Driver, then field. */
  ofNodes: secretsIn(nodeSecrets.nodeId, nodeSecrets.secrets, [ANY, ANY]),
  ofDiscoveries: secretsIn(discoverySecrets.operationId, discoverySecrets.settings, [ANY]),
  imageUserData: secretsIn(imageSecrets.imageId, imageSecrets.userData, []),
  operationUserData: secretsIn(operationSecrets.operationId, operationSecrets.userData, []),
  agentTasks: secretsIn(agentSessions.id, agentSessions.task, ["args"]),
  machineKey: secretsIn(machineCertificate.id, machineCertificate.key, []),
  siteVariables: secretsIn(site.id, site.variables, [DECLARED]),
  nodeVariables: secretsIn(nodes.id, nodes.variables, [DECLARED]),
  nodeOutputs: secretsIn(nodes.id, nodes.outputs, [DECLARED]),
  /** Host group, then variable. */
  hostGroupVariables: secretsIn(clusters.id, clusters.hostGroups, [ANY, "variables", DECLARED]),
  clusterVariables: secretsIn(clusters.id, clusters.variables, [DECLARED]),
  operationVariables: secretsIn(operations.id, operations.variables, [DECLARED]),
  runVariables: secretsIn(runs.id, runs.variables, [DECLARED]),
};

/** The column in one row. `declared`: the names of variables that are secret. */
interface SecretCell<Value> {
  readonly column: SecretColumn<Value>;
  readonly row: string;
  readonly declared?: ReadonlySet<string>;
}

/** Changes all secrets of a value. */
export function mapSecrets<Value>(cell: SecretCell<Value>, value: Value, change: ChangeSecret): Value {
  const { column, row, declared } = cell;
  const walk = (part: StoredJson, [step, ...rest]: readonly string[], names: readonly string[]): StoredJson => {
    if (step === undefined) return change([getTableName(column.table), row, ...names], part);
    // A variable that is encrypted stays secret if no loaded driver declares it.
    const isMeant = (name: string, inside: StoredJson) =>
      step === ANY || step === name || (step === DECLARED && (declared?.has(name) || keyIdOf(inside) !== null));
    const changed = ([name, inside]: [string, StoredJson]) =>
      [name, isMeant(name, inside) ? walk(inside, rest, [...names, name]) : inside] as const;
    return Object.fromEntries(Object.entries(part ?? {}).map(changed));
  };
  return walk(value as StoredJson, column.path, []) as Value;
}

/** Decrypts the secrets of rows; an error for a row of which one cannot be read. */
export async function decrypted<Value>(
  reader: Reader,
  keyring: Keyring,
  column: SecretColumn<Value>,
  rows: readonly (readonly [row: string, value: Value])[],
): Promise<Map<string, Value | SecretError>> {
  const decrypt = await keyring.decryption(reader, rows);
  return new Map(rows.map(([row, value]) => [row, readable(() => mapSecrets({ column, row }, value, decrypt))]));
}

// ---- tables that have nothing but secrets

/** Stores or replaces secrets of rows. */
export async function putSecrets<Value>(
  tx: Tx,
  keyring: Keyring,
  column: SecretColumn<Value>,
  rows: readonly (readonly [row: string, value: Value])[],
): Promise<void> {
  if (rows.length === 0) return;
  const encrypt = await keyring.encryption(tx);
  const [id, value] = [column.id.name, column.value.name];
  const stored = rows.map(([row, given]) => ({ row, value: mapSecrets({ column, row }, given, encrypt) }));
  const text = `insert into ${getTableName(column.table)} ("${id}", "${value}") select row, value from ${givenFor(column)}
    on conflict ("${id}") do update set "${value}" = excluded."${value}"`;
  await runStatement(tx, text, [rowsText(stored)]);
}

/** The relation of a JSON parameter with the columns `row` and `value`. */
export function givenFor({ id, value }: SecretColumn): string {
  return `json_to_recordset($1::text::json) as given("row" ${id.getSQLType()}, value ${value.getSQLType()})`;
}

/** The secrets of the rows that have any; an error for a row of which one cannot be read. */
export async function secretsOf<Value>(
  reader: Reader,
  keyring: Keyring,
  column: SecretColumn<Value>,
  rows: readonly string[],
): Promise<Map<string, Value | SecretError>> {
  if (rows.length === 0) return new Map();
  const { table, id, value } = column;
  const found = await reader.select({ id, value }).from(table).where(inArrayParam(id, rows));
  const values = found.map((one) => [one.id as string, one.value as Value] as const);
  return decrypted(reader, keyring, column, values);
}

export async function deleteSecrets(tx: Tx, { table, id }: SecretColumn, row: string): Promise<void> {
  await tx.delete(table).where(eq(id, row));
}

// ---- variables, of which some are secret

/** Decrypted variables, and the names of those that are secret. */
export interface OpenVariables {
  readonly values: JsonObject;
  readonly secretNames: ReadonlySet<string>;
}

export const NO_VARIABLES: OpenVariables = { values: {}, secretNames: new Set() };

export interface VariablesParts {
  readonly keyring: Keyring;
  /** `secretVariables`: names of the variables that drivers declare as secret. */
  readonly registry: { readonly secretVariables: ReadonlySet<string> };
}

/** Variables as the row stores them. */
export type EncryptVariables = (row: string, variables: OpenVariables) => JsonObject;

/** `all`: the variables that will be encrypted. */
export async function variablesEncryption(
  tx: Tx,
  keyring: Keyring,
  column: SecretColumn<JsonObject>,
  all: Iterable<OpenVariables>,
): Promise<EncryptVariables> {
  if ([...all].every(({ secretNames }) => secretNames.size === 0)) return (_, { values }) => values;
  const encrypt = await keyring.encryption(tx);
  return (row, { values, secretNames }) => mapSecrets({ column, row, declared: secretNames }, values, encrypt);
}

/** Opens the variables of rows. The result has those of a row; none if there is no such row. */
export async function openVariables(
  reader: Reader,
  { keyring, registry: { secretVariables } }: VariablesParts,
  column: SecretColumn<JsonObject>,
  rows: readonly { readonly id: string; readonly variables: JsonObject }[],
): Promise<(row: string | null) => OpenVariables | SecretError> {
  const values = rows.map(({ id, variables }) => [id, variables] as const);
  const opened = await decrypted(reader, keyring, column, values);
  const stored = new Map(values);
  return (row) => {
    const found = opened.get(row ?? "") ?? {};
    if (found instanceof SecretError) return found;
    return { values: found, secretNames: namesOfSecrets(stored.get(row ?? "") ?? {}, secretVariables) };
  };
}

/** Variables of which those with these names are secret. */
export function withSecretNames(values: JsonObject, names: Iterable<string>): OpenVariables {
  return { values, secretNames: new Set([...names].filter((name) => Object.hasOwn(values, name))) };
}

/** Stored variables as they are shown. */
export function maskedVariables(variables: JsonObject, declared: ReadonlySet<string>): JsonObject {
  const secret = namesOfSecrets(variables, declared);
  if (secret.size === 0) return variables;
  return Object.fromEntries(Object.entries(variables).map(([name, value]) => [name, secret.has(name) ? MASK : value]));
}

export const MASK = "***";

/** A variable that is encrypted is secret, also if no driver declares it any more. */
export function namesOfSecrets(variables: JsonObject, declared: ReadonlySet<string>): Set<string> {
  return new Set(Object.keys(variables).filter((name) => declared.has(name) || keyIdOf(variables[name]) !== null));
}
