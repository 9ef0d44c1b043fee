/**
 * The inputs of a node's last deployment, compared with what its cluster wants now. Pure: the caller reads the rows,
 * and computes the digests by which secrets are compared.
 */
import { isSameJson } from "../../runtime/canonical-json.ts";
import type { Configuration, DeployedStep, InstalledSystem, StoredJson } from "../../store/records.ts";

/** The inputs that a deployment of the node would have now. */
export interface WantedInputs {
  /** Absent: the cluster names no image. */
  readonly image?: { readonly name: string; readonly checksum: string };
  /** Digest of the user data, null for none, and whether the request gives it. Absent: not known. */
  readonly userData?: { readonly digest: string | null; readonly isOwn: boolean };
  readonly hostGroup: string | null;
  /** Null: not known, because it is an output that no node has. */
  readonly variables: ReadonlyMap<string, WantedVariable | null>;
  /** The deploy steps up to PROVISIONED, and those after it. Absent: they cannot be planned. */
  readonly steps?: { readonly system: readonly DeployedStep[]; readonly configuration: readonly DeployedStep[] };
}

interface VariableInput {
  readonly value: StoredJson;
  /** Digest of the value, if it is secret. */
  readonly digest: string | null;
}

export interface WantedVariable extends VariableInput {
  /** The values of an output that other nodes of the group have: a node that took one of these is as it should be. */
  readonly others?: readonly VariableInput[];
}

/** The differences of a node, as texts. An input that is not known differs from nothing. */
interface InputDifferences {
  /** Only another installation brings these about. */
  readonly system: readonly string[];
  /** The steps after PROVISIONED bring these about. */
  readonly configuration: readonly string[];
}

export function inputDifferences(
  deployed: { readonly system: InstalledSystem | null; readonly configuration: Configuration | null },
  wanted: WantedInputs,
): InputDifferences {
  const { system, configuration } = deployed;
  return {
    system: system
      ? [
          ...imageDifferences(system, wanted),
          ...userDataDifferences(system, wanted),
          ...stepDifferences(system.steps, wanted.steps?.system),
        ]
      : [],
    configuration: configuration
      ? [
          ...(configuration.hostGroup === wanted.hostGroup
            ? []
            : [`host group: ${configuration.hostGroup ?? NONE} → ${wanted.hostGroup ?? NONE}`]),
          ...variableDifferences(configuration, wanted),
          ...stepDifferences(configuration.steps, wanted.steps?.configuration),
        ]
      : [],
  };
}

const NONE = "none";

function imageDifferences({ image }: InstalledSystem, { image: wanted }: WantedInputs): string[] {
  if (!wanted || image?.checksum === wanted.checksum) return [];
  if (image?.name !== wanted.name) return [`image: ${image?.name ?? NONE} → ${wanted.name}`];
  return [`checksum of image ${wanted.name}: ${shortened(image.checksum)} → ${shortened(wanted.checksum)}`];
}

/** User data that a request gave once is not compared with that of an image. */
function userDataDifferences(system: InstalledSystem, { userData: wanted }: WantedInputs): string[] {
  if (!wanted || (system.hasOwnUserData && !wanted.isOwn)) return [];
  return system.userData === wanted.digest ? [] : ["user data: changed"];
}

function variableDifferences({ variables }: Configuration, { variables: wanted }: WantedInputs): string[] {
  const names = [...new Set([...Object.keys(variables), ...wanted.keys()])].toSorted();
  return names.flatMap((name) => {
    const was = Object.hasOwn(variables, name) ? variables[name] : undefined;
    const is = wanted.get(name);
    if (is === null) return [];
    if (was && is && [is, ...(is.others ?? [])].some((one) => isSameVariable(was, one))) return [];
    const isSecret = (was && "digest" in was) || (is && is.digest !== null);
    if (isSecret) return [`variables.${name}: changed`];
    return [`variables.${name}: ${was ? textOf(was.value) : NONE} → ${is ? textOf(is.value) : NONE}`];
  });
}

/** A variable that was not secret, and is now, is compared by its value. */
function isSameVariable(was: Configuration["variables"][string], { value, digest }: VariableInput): boolean {
  return "digest" in was ? was.digest === digest : isSameJson(was.value, value);
}

function stepDifferences(was: readonly DeployedStep[], is: readonly DeployedStep[] | undefined): string[] {
  if (!is || isSameJson(was, is)) return [];
  const labels = (steps: readonly DeployedStep[]) => steps.map(({ step }) => step);
  const added = labels(is).filter((step) => !labels(was).includes(step));
  const removed = labels(was).filter((step) => !labels(is).includes(step));
  const changed = is.flatMap((step) => {
    const before = was.find((one) => one.step === step.step);
    if (!before || isSameJson(before, step)) return [];
    if (before.driver !== step.driver) return [`driver of ${step.step}: ${before.driver} → ${step.driver}`];
    return [`arguments of ${step.step}: ${textOf(before.args)} → ${textOf(step.args)}`];
  });
  const texts = [
    ...(added.length > 0 ? [`steps: ${added.join(", ")} added`] : []),
    ...(removed.length > 0 ? [`steps: ${removed.join(", ")} removed`] : []),
    ...changed,
  ];
  return texts.length > 0 ? texts : ["steps: another order"];
}

/** Characters of a value in a difference. */
const VALUE_MAX = 60;

function textOf(value: StoredJson): string {
  return shortened(typeof value === "string" ? value : JSON.stringify(value));
}

function shortened(text: string): string {
  return text.length > VALUE_MAX ? `${text.slice(0, VALUE_MAX)}…` : text;
}
