/** Variables of the site, of clusters and their host groups, and of nodes: what a request makes of the stored ones. */
import type { Tx } from "../../store/postgres/database.ts";
import type { HostGroups, JsonObject } from "../../store/records.ts";
import {
  SECRETS,
  mapSecrets,
  namesOfSecrets,
  variablesEncryption,
  withSecretNames,
} from "../../store/secrets/secrets.ts";
import type { SecretColumn, VariablesParts } from "../../store/secrets/secrets.ts";
import { isJsonObject, overlay } from "../input/variables.ts";

/**
 * Encrypts the secrets among given variables for rows of a column. The result lays them over those that a row has: null
 * removes one. It returns undefined if none are given.
 */
export async function variablesOverlay(
  tx: Tx,
  { keyring, registry }: VariablesParts,
  column: SecretColumn<JsonObject>,
  given: unknown,
): Promise<(row: string, present: JsonObject) => JsonObject | undefined> {
  if (!isJsonObject(given)) return () => undefined;
  const variables = withSecretNames(given, registry.secretVariables);
  const encrypt = await variablesEncryption(tx, keyring, column, [variables]);
  return (row, present) => overlay(present, encrypt(row, variables));
}

/** Encrypts the secrets among the variables of host groups of one cluster. */
export async function encryptGroups(
  tx: Tx,
  { keyring, registry: { secretVariables: declared } }: VariablesParts,
  clusterId: string,
  groups: HostGroups,
): Promise<HostGroups> {
  const hasSecret = Object.values(groups).some(({ variables }) => namesOfSecrets(variables, declared).size > 0);
  if (!hasSecret) return groups;
  const encrypt = await keyring.encryption(tx);
  return mapSecrets({ column: SECRETS.hostGroupVariables, row: clusterId, declared }, groups, encrypt);
}

/** Names of the variables that are secret, at any of these places. */
export function secretNames(
  { registry }: Pick<VariablesParts, "registry">,
  ...all: readonly (JsonObject | undefined)[]
): string[] {
  return all.flatMap((variables) => [...namesOfSecrets(variables ?? {}, registry.secretVariables)]);
}
