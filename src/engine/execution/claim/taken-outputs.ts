/** Fills in the outputs of other nodes that are variables of a run, when the run begins. They stay as they are then. */
import { groupOfKey } from "../../../store/nodes/host-groups.ts";
import type { Tx } from "../../../store/postgres/database.ts";
import type { JsonObject } from "../../../store/records.ts";
import { SecretError } from "../../../store/secrets/keyring.ts";
import { decrypted, namesOfSecrets, SECRETS, variablesEncryption } from "../../../store/secrets/secrets.ts";
import type { OpenVariables, VariablesParts } from "../../../store/secrets/secrets.ts";
import type { RunRow } from "../../../store/runs/runs.ts";
import type { NodeRow } from "../../../store/nodes/nodes.ts";
import { secretTexts } from "../../input/variables.ts";
import { takenOutput } from "../../input/group-outputs.ts";
import { referencesIn } from "../../input/output-references.ts";
import type { OutputReference } from "../../input/output-references.ts";

interface FilledIn {
  readonly variables: OpenVariables;
  /** The variables as they are stored from now on; or why they cannot be filled in. */
  readonly filledIn: JsonObject | null;
  readonly lacks: string | null;
}

/** The secret texts among the outputs of each node, to be masked; none for a node whose outputs cannot be decrypted. */
export async function secretOutputs(
  tx: Tx,
  { keyring }: VariablesParts,
  nodes: readonly NodeRow[],
): Promise<(nodeId: string) => readonly string[]> {
  const stored = nodes.flatMap(({ id, outputs }) =>
    namesOfSecrets(outputs, NONE).size > 0 ? [[id, outputs] as const] : [],
  );
  if (stored.length === 0) return () => [];
  const opened = await decrypted(tx, keyring, SECRETS.nodeOutputs, stored);
  const texts = new Map(
    stored.map(([id, outputs]) => {
      const values = opened.get(id);
      const secretNames = namesOfSecrets(outputs, NONE);
      return [id, values && !(values instanceof SecretError) ? secretTexts({ values, secretNames }) : []] as const;
    }),
  );
  return (nodeId) => texts.get(nodeId) ?? [];
}

const NONE: ReadonlySet<string> = new Set();

/** The variables of the runs that begin and take outputs, by run. */
export async function takenOutputs(
  tx: Tx,
  parts: VariablesParts,
  runs: readonly RunRow[],
  variablesOf: (run: RunRow) => OpenVariables | SecretError,
): Promise<Map<string, FilledIn>> {
  const filled = new Map<string, FilledIn>();
  for (const run of runs) {
    const { groupKey } = run;
    if (groupKey === null || run.startedAt !== null || run.purpose !== "WORK") continue;
    const variables = variablesOf(run);
    if (variables instanceof SecretError) continue;
    const references = referencesIn(variables.values);
    if (references.size > 0)
      filled.set(run.id, await fillIn(tx, parts, { ...run, groupKey }, { variables, references }));
  }
  return filled;
}

async function fillIn(
  tx: Tx,
  parts: VariablesParts,
  { id, groupKey }: Pick<RunRow, "id"> & { readonly groupKey: string },
  {
    variables,
    references,
  }: { readonly variables: OpenVariables; readonly references: ReadonlyMap<string, OutputReference> },
): Promise<FilledIn> {
  const { clusterId } = groupOfKey(groupKey);
  const values = { ...variables.values };
  const secretNames = new Set(variables.secretNames);
  for (const [name, reference] of references) {
    const taken = await takenOutput(tx, parts, clusterId, reference);
    if (taken === null || taken instanceof SecretError)
      return {
        variables,
        filledIn: null,
        lacks: `its variable ${name} is the output ${reference.output} of host group ${reference.fromGroup}, which ${taken ? "cannot be decrypted" : "no ACTIVE node of the group has"}. Deploy a node that has it again, then restart`,
      };
    values[name] = taken.value;
    if (taken.isSecret) secretNames.add(name);
  }
  const open = { values, secretNames };
  const encrypt = await variablesEncryption(tx, parts.keyring, SECRETS.runVariables, [open]);
  return { variables: open, filledIn: encrypt(id, open), lacks: null };
}
