/** Variables of clusters, operations and runs, of which some are secret. */
import type { Reader, Tx } from "../postgres/database.ts";
import type { JsonObject } from "../records.ts";
import { keyIdOf } from "./cipher.ts";
import { SecretError } from "./keyring.ts";
import type { Keyring } from "./keyring.ts";
import { mapSecrets, decryptSecrets, SECRET_COLUMNS } from "./secret-columns.ts";

/** Decrypted variables, and the names of those that are secret. */
export interface OpenVariables {
  readonly values: JsonObject;
  readonly secretNames: ReadonlySet<string>;
}

type VariablesColumn = "clusterVariables" | "operationVariables" | "runVariables";

/** Variables as the row stores them. */
export type EncryptVariables = (row: string, variables: OpenVariables) => JsonObject;

export async function variablesEncryption(
  tx: Tx,
  keyring: Keyring,
  column: VariablesColumn,
  all: Iterable<OpenVariables>,
): Promise<EncryptVariables> {
  const hasSecrets = [...new Set(all)].some(({ values, secretNames }) =>
    [...secretNames].some((name) => name in values),
  );
  if (!hasSecrets) return (_, { values }) => values;
  const { encrypt } = await keyring.encryption(tx);
  return (row, { values, secretNames }) =>
    mapSecrets({ column: SECRET_COLUMNS[column], row, declared: secretNames }, values, encrypt);
}

/** Opens the variables of rows. `declared`: names of the variables that drivers declare as secret. */
export async function openVariables(
  reader: Reader,
  keyring: Keyring,
  { column, declared }: { readonly column: VariablesColumn; readonly declared: ReadonlySet<string> },
  rows: readonly { readonly id: string; readonly variables: JsonObject }[],
): Promise<Map<string, OpenVariables | SecretError>> {
  const values = rows.map(({ id, variables }) => [id, variables] as const);
  const opened = await decryptSecrets(reader, keyring, SECRET_COLUMNS[column], values);
  return new Map(
    rows.map(({ id, variables }) => {
      const found = opened.get(id) ?? variables;
      const secretNames = namesOfSecrets(variables, declared);
      return [id, found instanceof SecretError ? found : { values: found, secretNames }];
    }),
  );
}

/** Stored variables as they are shown. */
export function maskedVariables(variables: JsonObject, declared: ReadonlySet<string>): JsonObject {
  const secret = namesOfSecrets(variables, declared);
  if (secret.size === 0) return variables;
  return Object.fromEntries(Object.entries(variables).map(([name, value]) => [name, secret.has(name) ? MASK : value]));
}

export const MASK = "***";

/** A variable that is encrypted is secret, also if no driver declares it any more. */
function namesOfSecrets(variables: JsonObject, declared: ReadonlySet<string>): Set<string> {
  return new Set(Object.keys(variables).filter((name) => declared.has(name) || keyIdOf(variables[name]) !== null));
}
