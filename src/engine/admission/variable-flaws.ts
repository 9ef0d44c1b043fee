/**
 * Checks the variables of a node against what its drivers declare: values that do not match a schema, and names that no
 * driver reads. A name that is close to one that is read is taken for a typing error: a driver would otherwise work
 * with a default, such as the wrong image.
 */
import { isVerification } from "../plans/reserved-steps.ts";
import type { AddressRules } from "../../drivers/address-settings.ts";
import type { AnyDriver } from "../../drivers/interfaces.ts";
import type { Composition, Registry } from "../../drivers/registry.ts";
import { outputsOf, variableIssues, variablesReadBy } from "../../drivers/variables.ts";
import { referencesIn } from "../input/output-references.ts";
import type { Refusal } from "../../errors.ts";
import { nearest } from "../../runtime/edit-distance.ts";
import type { NodeRow } from "../../store/nodes/nodes.ts";
import type { Plan } from "../../store/records.ts";
import type { UnknownVariables, VariableWarning } from "../input/unknown-variables.ts";
import { HOST_GROUP } from "../input/variables.ts";
import type { VariableSource } from "../input/variables.ts";
import type { EffectiveVariables } from "./effective-variables.ts";
import { NO_DRIVERS } from "./node-facts.ts";

interface VariableCheck {
  readonly flaws: readonly Refusal[];
  readonly warnings: readonly VariableWarning[];
}

/** A node whose variables are checked. */
interface CheckedNode {
  readonly node: NodeRow;
  readonly plan: Plan;
  readonly variables: EffectiveVariables;
}

interface Checked extends Omit<CheckedNode, "node"> {
  readonly composition: Composition;
  readonly unknown: UnknownVariables;
  readonly rules: AddressRules;
  /** Outputs that deploy steps of the loaded drivers declare. */
  readonly outputs: ReadonlySet<string>;
}

const ISSUES_MAX = 10;

/** Checks the variables of nodes, once for all nodes with the same drivers, plan and variables. */
export function createVariableCheck(
  registry: Registry,
  unknown: UnknownVariables,
  rules: AddressRules,
): (checked: CheckedNode) => Promise<VariableCheck> {
  const outputs = declaredOutputs(registry.drivers);
  const known = new Map<Plan, Map<string, Promise<VariableCheck>>>();
  return ({ node, plan, variables }) => {
    // Plans are shared objects. Two sets of drivers can have the same plan, and differ in what they read.
    const key = JSON.stringify([node.driver, node.borrowed, node.fallbacks, variables.hash]);
    const ofPlan = known.get(plan) ?? new Map<string, Promise<VariableCheck>>();
    known.set(plan, ofPlan);
    const found = ofPlan.get(key);
    if (found) return found;
    const composed = registry.compose(node);
    const composition = "composition" in composed ? composed.composition : NO_DRIVERS;
    const made = checkVariables({ composition, plan, variables, unknown, rules, outputs });
    ofPlan.set(key, made);
    return made;
  };
}

/** Nodes with the same drivers, plan and variables share the result, whose messages name no node. */
async function checkVariables(checked: Checked): Promise<VariableCheck> {
  const { composition, plan, variables, unknown, rules, outputs } = checked;
  const inPlan = driversIn(plan, composition);
  const flaws: Refusal[] = [];
  const refuse = (message: string, name: string | undefined) => flaws.push(invalid(message, name, variables));
  const references = referencesIn(variables.values);
  const known = Object.fromEntries(Object.entries(variables.values).filter(([name]) => !references.has(name)));
  for (const [name, { fromGroup, output }] of references) {
    const message = `Variable ${name} is the output ${output} of host group ${fromGroup}, which no deploy step of a loaded driver declares. Correct the name.`;
    if (!outputs.has(output)) refuse(message, name);
  }
  for (const driver of inPlan)
    for (const { path, message } of (await variableIssues(driver, known, rules)).slice(0, ISSUES_MAX))
      refuse(`Variable ${path.join(".")} does not suit driver ${driver.name}: ${message}.`, path[0]);
  const read = composition.drivers.map(variablesReadBy);
  const passesAll = read.some(({ others }) => others);
  const names = new Set(read.flatMap((one) => one.names));
  const wanted = inPlan
    .flatMap((driver) => variablesReadBy(driver).names)
    .filter((name) => !(name in variables.values));
  const warnings: VariableWarning[] = [];
  for (const { name, source } of variables.list) {
    if (name === HOST_GROUP || names.has(name)) continue;
    const meant = nearest(name, wanted);
    const close = meant ?? nearest(name, [...names]);
    const message = unknownText(name, close, composition.drivers);
    const isRefused =
      unknown === "REFUSE" ? !passesAll || meant !== null : unknown === "REFUSE_SIMILAR" && meant !== null;
    if (isRefused) refuse(`${message} ${remedyFor(unknown)}`, name);
    else if (!passesAll || close !== null) warnings.push({ name, source, nearest: close, message });
  }
  return { flaws, warnings };
}

function declaredOutputs(drivers: readonly AnyDriver[]): ReadonlySet<string> {
  const steps = drivers.flatMap(({ deploy }) => deploy?.steps ?? []);
  return new Set(steps.flatMap(({ outputs }) => (outputs ? outputsOf(outputs).names : [])));
}

function unknownText(name: string, close: string | null, drivers: readonly AnyDriver[]): string {
  const readers = drivers.map((driver) => driver.name).join(", ");
  return `No driver of the node (${readers}) declares the variable ${name}.${close === null ? "" : ` Did you mean ${close}?`}`;
}

function remedyFor(unknown: UnknownVariables): string {
  return unknown === "REFUSE"
    ? "Remove it, or send the request without `unknownVariables: REFUSE`."
    : "Correct it, or send the request with `unknownVariables: WARN`.";
}

/** The owner of the variables of a level that is not a request. */
const OWNERS: { readonly [Source in VariableSource]?: string } = {
  SITE: "site",
  CLUSTER: "cluster",
  HOST_GROUP: "host group",
  NODE: "node",
};

/** The path leads to the request only if the variable is in it. */
function invalid(message: string, name: string | undefined, { list }: EffectiveVariables): Refusal {
  const source = list.find((one) => one.name === name)?.source;
  const owner = source && OWNERS[source];
  return {
    code: "INVALID_INPUT",
    message: owner ? `${message} The variable is set for the ${owner}.` : message,
    ...(name !== undefined && source === "REQUEST" && { path: ["input", "variables", name] }),
  };
}

/** The drivers whose steps a plan still has to run. */
function driversIn(plan: Plan, { drivers }: Composition): readonly AnyDriver[] {
  const names = new Set(
    plan.steps
      .filter((step) => !step.kept && step.phase !== "power" && !isVerification(step))
      .map(({ driver }) => driver),
  );
  return drivers.filter(({ name }) => names.has(name));
}

/** The flaws as refusals of one node. */
export function refusalOf(
  node: NodeRow,
  [first, ...further]: readonly Refusal[],
): { readonly refusal: Refusal; readonly further: readonly Refusal[] } | null {
  const named = (one: Refusal): Refusal => ({ ...one, message: `Node ${node.name}: ${one.message}`, nodeId: node.id });
  return first ? { refusal: named(first), further: further.map(named) } : null;
}
