/**
 * The work that a cluster wants on its nodes, and why: none on an ACTIVE node whose last deployment had the inputs that
 * one would have now. Reads only; the plans of requests and `Cluster.pendingChanges` are made of it.
 */
import type { Refusal } from "../../errors.ts";
import { kindOf } from "../../lifecycle/machine.ts";
import { route } from "../../lifecycle/verbs.ts";
import { createYielding } from "../../runtime/yielding.ts";
import type { AddressRules } from "../../drivers/address-settings.ts";
import type { Registry } from "../../drivers/registry.ts";
import type { ImageRow } from "../../store/images.ts";
import { deploymentsOf } from "../../store/nodes/node-deployments.ts";
import type { NodeDeployment } from "../../store/nodes/node-deployments.ts";
import type { NodeRow } from "../../store/nodes/nodes.ts";
import type { Reader } from "../../store/postgres/database.ts";
import type { SitePolicy } from "../../store/records.ts";
import { nameKey } from "../../store/names.ts";
import { runbooksByNames } from "../../store/runbooks.ts";
import { plansByHashes } from "../../store/runs/plans.ts";
import { newestWork } from "../../store/runs/runs.ts";
import { SecretError } from "../../store/secrets/keyring.ts";
import type { Keyring } from "../../store/secrets/keyring.ts";
import { heldOutputs } from "../input/group-outputs.ts";
import type { OutputValue } from "../input/group-outputs.ts";
import { idsOf } from "../input/ids.ts";
import { referenceIn } from "../input/output-references.ts";
import type { OutputReference } from "../input/output-references.ts";
import { HOST_GROUP } from "../input/variables.ts";
import { chosenList, deployedSteps, variableDigest } from "../plans/deployed-steps.ts";
import { planSteps } from "../plans/plan.ts";
import type { ChosenList } from "../plans/plan.ts";
import type { EffectiveVariables } from "./effective-variables.ts";
import { inputDifferences } from "./input-differences.ts";
import type { WantedInputs, WantedVariable } from "./input-differences.ts";
import type { Submission } from "./submission.ts";

/**
 * NOTHING: the node is as its cluster wants it. DEPLOY: it has no system. CONTINUE: its work is unfinished. CONFIGURE:
 * the steps after PROVISIONED run again. REINSTALL: only another installation brings it there.
 */
export type WantedWork =
  | { readonly kind: "NOTHING" }
  | {
      readonly kind: "DEPLOY" | "CONTINUE" | "CONFIGURE" | "REINSTALL";
      /** As in `variables.ntp: 10.0.0.1 → 10.0.0.2`. */
      readonly reason: string;
      /** The deploy steps in place of the automatic ones: those by which the node was deployed. */
      readonly chosen: ChosenList | undefined;
    };

export interface WantedBasis {
  readonly registry: Registry;
  readonly keyring: Keyring;
  readonly policy: SitePolicy;
  readonly rules?: AddressRules;
  /** The image and user data of a deployment; the same for all nodes of a cluster. */
  readonly installOf: (node: NodeRow) => WantedInstall;
  /** Whether nodes that only another installation brings there are installed again. */
  readonly reinstall: boolean;
  readonly variablesOf: (node: NodeRow) => EffectiveVariables | SecretError;
}

/** The deploy steps that are wanted in place of the automatic ones. */
export function wantedSteps(wanted: WantedWork | undefined): ChosenList | undefined {
  return wanted && "chosen" in wanted ? wanted.chosen : undefined;
}

export interface WantedInstall {
  /** Null: neither the cluster nor the request names one. */
  readonly image: Pick<ImageRow, "name" | "checksum"> | null;
  /** Null: none. Undefined: not known. A secret. */
  readonly userData: string | null | undefined;
  /** The request gives the user data. */
  readonly hasOwnUserData: boolean;
}

const NOTHING: WantedWork = { kind: "NOTHING" };

/** Returns what is wanted of each of these nodes. */
export async function wantedWorkOf(
  reader: Reader,
  nodes: readonly NodeRow[],
  basis: WantedBasis,
): Promise<(node: NodeRow) => WantedWork> {
  const deployments = await deploymentsOf(reader, idsOf(nodes));
  const places = await placesOf(reader, nodes);
  const listOf = await chosenLists(reader, new Set(deployments.values()));
  const stepsOf = createStepPlans(basis);
  const differences = createComparison(basis, createOutputReader(reader, basis));
  const work = new Map<string, WantedWork>();
  const yieldWhenDue = createYielding();
  for (const node of nodes) {
    await yieldWhenDue();
    const deployment = deployments.get(node.id);
    const chosen = deployment && listOf(deployment);
    if (node.state !== "ACTIVE") {
      work.set(node.id, unfinishedWork(node, { deployment, chosen, place: places.get(node.id) }));
      continue;
    }
    const found = deployment && (await differences(node, deployment, await stepsOf(node, chosen)));
    work.set(node.id, found ? { ...found, chosen } : NOTHING);
  }
  return ({ id }) => work.get(id) ?? NOTHING;
}

/** The refusal of what is wanted of a node; null if it may be done. */
export function refusalOfWanted(
  { id, name }: NodeRow,
  wanted: WantedWork,
  { options: { reinstall } }: Pick<Submission, "options">,
): Refusal | null {
  if (wanted.kind !== "REINSTALL" || reinstall) return null;
  return {
    code: "INVALID_STATE",
    message: `Node ${name} has to be installed again (${wanted.reason}), which erases its disks. Send reinstall: true to do so.`,
    nodeId: id,
    path: ["input", "reinstall"],
  };
}

function unfinishedWork(
  { state, lastError }: NodeRow,
  {
    deployment,
    chosen,
    place,
  }: {
    readonly deployment: NodeDeployment | undefined;
    readonly chosen: ChosenList | undefined;
    readonly place: string | undefined;
  },
): WantedWork {
  if (state === "STOPPED")
    return { kind: "CONTINUE", reason: place === undefined ? "stopped" : `stopped in ${place}`, chosen };
  if (kindOf(state) === "failed") {
    const step = lastError?.step?.split(".").at(-1);
    return { kind: "CONTINUE", reason: step === undefined ? "failed" : `failed in ${step}`, chosen };
  }
  const isNew = !deployment?.configuration && state !== "DECOMMISSIONED";
  return { kind: "DEPLOY", reason: isNew ? "new" : "not deployed", chosen };
}

/** The steps at which the work of stopped nodes goes on, by node. */
async function placesOf(reader: Reader, nodes: readonly NodeRow[]): Promise<ReadonlyMap<string, string>> {
  const stopped = idsOf(nodes.filter(({ state }) => state === "STOPPED"));
  const work = await newestWork(reader, stopped, null);
  const plans = await plansByHashes(reader, [...new Set(work.map(({ planHash }) => planHash))]);
  return new Map(
    work.flatMap(({ nodeId, planHash, position }) => {
      const step = plans.get(planHash)?.steps[position];
      return step ? [[nodeId, step.name] as const] : [];
    }),
  );
}

/** The chosen deploy steps of deployments: those that the runbook has now, or else those that ran. */
async function chosenLists(
  reader: Reader,
  deployments: ReadonlySet<NodeDeployment>,
): Promise<(deployment: NodeDeployment) => ChosenList | undefined> {
  const names = [...deployments].flatMap(({ configuration }) => configuration?.chosen?.runbook ?? []);
  const runbooks = await runbooksByNames(reader, [...new Set(names)]);
  const ofDeploy = runbooks.filter(({ phase }) => phase === "deploy");
  const steps = new Map(ofDeploy.map((one) => [nameKey(one.name), one.steps]));
  return ({ system, configuration }) => {
    // Steps that continued after an installed system install nothing.
    if (!configuration?.chosen || !system) return undefined;
    const ran = chosenList([...system.steps, ...configuration.steps], configuration.chosen);
    const now = steps.get(nameKey(ran.runbook ?? ""));
    return now ? { ...ran, steps: now } : ran;
  };
}

type Steps = WantedInputs["steps"];

/** The deploy steps that a node would have now, planned once for nodes with the same drivers and list. */
function createStepPlans({
  registry,
  policy,
  rules,
}: WantedBasis): (
  node: NodeRow,
  chosen: ChosenList | undefined,
) => Promise<{ readonly key: string; readonly steps: Steps }> {
  const known = new Map<string, { readonly key: string; readonly steps: Steps }>();
  const way = route("APPLY", "ACTIVE");
  return async (node, chosen) => {
    const key = JSON.stringify([node.driver, node.borrowed, node.fallbacks, chosen]);
    const found = known.get(key);
    if (found) return found;
    const composed = registry.compose(node);
    const planned =
      way && "composition" in composed
        ? await planSteps({
            nodeName: node.name,
            route: way,
            composition: composed.composition,
            policy,
            automaticCleaning: false,
            chosen,
            ...(rules && { rules }),
          })
        : null;
    const steps = planned && "plan" in planned ? deployedSteps(planned.plan) : undefined;
    const made = { key: String(known.size), steps };
    known.set(key, made);
    return made;
  };
}

type Found = Omit<Extract<WantedWork, { readonly reason: string }>, "chosen">;

/** The values of an output for the nodes of a cluster. */
type ReadOutput = (clusterId: string, reference: OutputReference) => Promise<readonly OutputValue[]>;

/** Reads each output once. */
function createOutputReader(reader: Reader, basis: WantedBasis): ReadOutput {
  const known = new Map<string, ReturnType<ReadOutput>>();
  return (clusterId, reference) => {
    const key = JSON.stringify([clusterId, reference.fromGroup, reference.output]);
    const found = known.get(key) ?? heldOutputs(reader, basis, clusterId, reference);
    known.set(key, found);
    return found;
  };
}

/** Compares nodes, once for those with equal inputs; null if nothing differs. */
function createComparison(
  basis: WantedBasis,
  readOutput: ReadOutput,
): (
  node: NodeRow,
  deployment: NodeDeployment,
  plan: { readonly key: string; readonly steps: Steps },
) => Promise<Found | null> {
  const known = new Map<string, Found | null>();
  return async (node, deployment, { key: stepsKey, steps }) => {
    const variables = basis.variablesOf(node);
    // An input that cannot be read is not known.
    if (variables instanceof SecretError) return null;
    const key = `${node.clusterId} ${deployment.hash} ${variables.hash} ${stepsKey}`;
    const before = known.get(key);
    if (before !== undefined) return before;
    const ofOutput = (reference: OutputReference) => readOutput(node.clusterId ?? "", reference);
    const wanted = {
      ...wantedSystem(basis.installOf(node), basis.keyring),
      ...(await wantedConfiguration(variables, basis.keyring, ofOutput)),
    };
    const made = compared(deployment, { ...wanted, ...(steps && { steps }) }, basis);
    known.set(key, made);
    return made;
  };
}

function compared(deployment: NodeDeployment, wanted: WantedInputs, { reinstall }: WantedBasis): Found | null {
  const { system, configuration } = inputDifferences(deployment, wanted);
  if (system.length === 0 && configuration.length === 0) return null;
  if (system.length > 0 && (reinstall || configuration.length === 0))
    return { kind: "REINSTALL", reason: [...system, ...configuration].join("; ") };
  const left = system.map((difference) => `${difference} (only with reinstall: true)`);
  return { kind: "CONFIGURE", reason: [...configuration, ...left].join("; ") };
}

function wantedSystem(
  { image, userData, hasOwnUserData }: WantedInstall,
  keyring: Keyring,
): Pick<WantedInputs, "image" | "userData"> {
  return {
    ...(image && { image }),
    ...(userData !== undefined && {
      userData: { digest: userData === null ? null : keyring.digest(userData), isOwn: hasOwnUserData },
    }),
  };
}

/** A variable that is an output has the value that a node takes if it begins now. */
async function wantedConfiguration(
  { values, secretNames }: EffectiveVariables,
  keyring: Keyring,
  ofOutput: (reference: OutputReference) => Promise<readonly OutputValue[]>,
): Promise<Pick<WantedInputs, "hostGroup" | "variables">> {
  const { [HOST_GROUP]: hostGroup, ...others } = values;
  const variables = new Map<string, WantedVariable | null>();
  for (const [name, value] of Object.entries(others)) {
    const reference = referenceIn(value);
    const found = reference ? await ofOutput(reference) : [{ value, isSecret: false }];
    const [taken, ...held] = found.map((one) => ({
      value: one.value,
      digest: one.isSecret || secretNames.has(name) ? variableDigest(keyring, name, one.value) : null,
    }));
    variables.set(name, taken ? { ...taken, ...(held.length > 0 && { others: held }) } : null);
  }
  return { hostGroup: typeof hostGroup === "string" ? hostGroup : null, variables };
}
