/** The values of outputs of host groups: what a node takes if it begins now, and what nodes of the group have. */
import { outputsOfGroup } from "../../store/nodes/node-outputs.ts";
import type { Reader } from "../../store/postgres/database.ts";
import type { StoredJson } from "../../store/records.ts";
import { SecretError } from "../../store/secrets/keyring.ts";
import { decrypted, namesOfSecrets, SECRETS } from "../../store/secrets/secrets.ts";
import type { VariablesParts } from "../../store/secrets/secrets.ts";
import type { OutputReference } from "./output-references.ts";

export interface OutputValue {
  readonly value: StoredJson;
  readonly isSecret: boolean;
}

/** Nodes of a group whose outputs are read. */
const HOLDERS_MAX = 1_000;

/** That of the first ACTIVE node by name; null if none has it. */
export async function takenOutput(
  reader: Reader,
  parts: VariablesParts,
  clusterId: string,
  reference: OutputReference,
): Promise<OutputValue | SecretError | null> {
  const [taken] = await valuesOf(reader, parts, { clusterId, ...reference }, 1);
  return taken ?? null;
}

/** The one that a node takes, then those of other nodes, whatever their state. Empty: none can be taken. */
export async function heldOutputs(
  reader: Reader,
  parts: VariablesParts,
  clusterId: string,
  reference: OutputReference,
): Promise<readonly OutputValue[]> {
  const [taken, ...others] = await valuesOf(reader, parts, { clusterId, ...reference }, HOLDERS_MAX);
  if (taken === undefined || taken instanceof SecretError) return [];
  return [taken, ...others.flatMap((one) => (one instanceof SecretError ? [] : one))];
}

async function valuesOf(
  reader: Reader,
  { keyring, registry: { secretVariables } }: VariablesParts,
  of: OutputReference & { readonly clusterId: string },
  first: number,
): Promise<(OutputValue | SecretError)[]> {
  const { output } = of;
  const rows = await outputsOfGroup(reader, of, first);
  if (!rows[0]?.isActive) return [];
  const stored = rows.map(({ id, outputs }) => [id, outputs] as const);
  const opened = await decrypted(reader, keyring, SECRETS.nodeOutputs, stored);
  return stored.flatMap(([id, outputs]) => {
    const values = opened.get(id);
    if (!values || values instanceof SecretError) return values ?? [];
    return { value: values[output] ?? null, isSecret: namesOfSecrets(outputs, secretVariables).has(output) };
  });
}
