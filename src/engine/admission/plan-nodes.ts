/** Decides for each node of a submission whether it is admitted, and plans the admitted ones. */
import { nodeRefusal } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import { judge, keepsSystem } from "../../lifecycle/admission.ts";
import type { PowerOnFailure } from "../../lifecycle/interrupts.ts";
import type { NodeState } from "../../lifecycle/node-states.ts";
import type { RootDisk } from "../../lifecycle/root-disk.ts";
import { erasesData } from "../../lifecycle/touches.ts";
import { resumeRoute } from "../../lifecycle/verbs.ts";
import type { Route } from "../../lifecycle/verbs.ts";
import type { AddressRules } from "../../drivers/address-settings.ts";
import type { Composition, Registry } from "../../drivers/registry.ts";
import type { NodeRow } from "../../store/nodes/nodes.ts";
import type { Reader, Tx } from "../../store/postgres/database.ts";
import type { Plan, PlannedStep, SitePolicy } from "../../store/records.ts";
import { busyNodes, newestWork } from "../../store/runs/runs.ts";
import type { RunRow } from "../../store/runs/runs.ts";
import { cleansAutomatically } from "../../store/site.ts";
import { idsOf } from "../input/ids.ts";
import { agentProblem } from "../input/agent-media.ts";
import type { Provisioning } from "../input/agent-media.ts";
import { unknownNodes } from "../input/unknown-nodes.ts";
import { installFlaw } from "../plans/install-check.ts";
import { installedSteps, keepSteps, keysOf, planSteps } from "../plans/plan.ts";
import type { PlanRequest } from "../plans/plan.ts";
import { chosenOf } from "../plans/deployed-steps.ts";
import { PHASE_OF_LIST, choicePath } from "../plans/step-selection.ts";
import type { EffectiveVariables } from "./effective-variables.ts";
import type { Membership } from "./membership.ts";
import { refusalOfForcedPower, waitingRuns } from "./forced-power.ts";
import type { WaitingRun } from "./forced-power.ts";
import { NO_DRIVERS, factsOf } from "./node-facts.ts";
import type { EarlierWork, Submission } from "./submission.ts";
import { refusalOfWanted, wantedSteps } from "./wanted-work.ts";
import type { WantedWork } from "./wanted-work.ts";
import { isReserved } from "../plans/reserved-steps.ts";

/** The work on an admitted node. `earlier`: the run that a restart continues. */
interface PlannedWork {
  readonly plan: Plan;
  readonly target: NodeState;
  readonly erasesData: boolean;
  readonly earlier: RunRow | null;
  /** The run that waits, beside which the power is changed. */
  readonly waiting?: WaitingRun;
}

export interface AdmittedNode extends PlannedWork {
  readonly node: NodeRow;
  readonly variables: EffectiveVariables;
  readonly membership: Membership;
  /** A host group holds it: it does not begin at once. */
  readonly isHeld?: true;
  /** Null if a failure of the plan never changes the power. */
  readonly powerOnFailure: PowerOnFailure | null;
  /** Null if the plan installs nothing through the agent, or the agent has not inspected the machine. */
  readonly rootDisk: RootDisk | null;
}

/** `further`: more reasons for the refusal. */
export interface RefusedNode {
  readonly refusal: Refusal;
  readonly further?: readonly Refusal[];
}

/** `unchanged`: the node is as its cluster wants it. */
export type NodeDecision = PlannedWork | RefusedNode | { readonly unchanged: true };

interface PlanBasis {
  readonly registry: Registry;
  readonly provisioning: Provisioning | null;
  readonly policy: SitePolicy;
  readonly rules: AddressRules;
  readonly submission: Submission;
  /** The unfinished work on the nodes, if it has been read. */
  readonly busy?: ReadonlyMap<string, BusyNode>;
  /** The work that is wanted on a node, if the request is for a cluster. */
  readonly wantedOf?: ((node: NodeRow) => WantedWork) | undefined;
  /** Null in a dry run, which locks nothing. */
  readonly lockIn: Tx | null;
}

export type BusyNode = Awaited<ReturnType<typeof busyNodes>>[number];

/** Returns the decision for each of these nodes, which are locked, except in a dry run. */
export async function createDecisions(
  reader: Reader,
  nodes: readonly NodeRow[],
  basis: PlanBasis,
): Promise<(node: NodeRow) => Promise<NodeDecision>> {
  const busy = basis.busy ?? (await busyByNode(reader, idsOf(nodes)));
  const uncleaned = idsOf(nodes.filter(({ state }) => state === "CLEAN_FAILED"));
  const failed = new Map((await newestWork(reader, uncleaned, null)).map(({ nodeId, target }) => [nodeId, target]));
  const { submission } = basis;
  const isForced = submission.kind === "POWER" && submission.options.force === true;
  const waiting = await waitingRuns(reader, isForced ? [...busy.keys()] : [], basis);
  const planFor = createPlans(basis);
  return async (node) => {
    const composed = basis.registry.compose(node);
    const facts = factsOf(node, composed, busy.get(node.id) ?? null, failed.get(node.id));
    const wanted = basis.wantedOf?.(node);
    if (wanted?.kind === "NOTHING" && !facts.busyWith) return { unchanged: true };
    const earlier = submission.earlierOf?.(node) ?? null;
    const found = routeFor(facts, submission, earlier);
    if ("refusal" in found) return found;
    const refusal = wanted ? refusalOfWanted(node, wanted, submission) : null;
    if (refusal) return { refusal };
    const composition = "composition" in composed ? composed.composition : NO_DRIVERS;
    const decision = await planFor(node, { route: found.route, composition, earlier, wanted });
    return facts.busyWith ? besideWork(node, decision, waiting.get(node.id)) : decision;
  };
}

function besideWork(node: NodeRow, decision: NodeDecision, waiting: WaitingRun | undefined): NodeDecision {
  if (!("plan" in decision)) return decision;
  const refusal = refusalOfForcedPower(node, waiting, decision.plan);
  return refusal ? { refusal } : { ...decision, ...(waiting && { waiting }) };
}

/** The unfinished work on nodes, by node. */
export async function busyByNode(reader: Reader, nodeIds: readonly string[]): Promise<Map<string, BusyNode>> {
  return new Map((await busyNodes(reader, nodeIds)).map((run) => [run.nodeId, run]));
}

/** The work of a node that the request continues, or that its cluster wants. */
interface WorkOnNode {
  readonly earlier: EarlierWork | null;
  readonly wanted: WantedWork | undefined;
}

/** Plans, made once for all nodes with the same drivers on the same route of which a restart keeps the same steps. */
function createPlans({ policy, submission, rules, provisioning }: PlanBasis) {
  const freshPlans = new Map<string, Plan>();
  const keptPlans = new Map<string, Plan>();
  return async (
    node: NodeRow,
    { route, composition, earlier, wanted }: Pick<PlanRequest, "route" | "composition"> & WorkOnNode,
  ): Promise<NodeDecision> => {
    // A requested cleaning takes place even if automatic cleaning is disabled.
    const chosen = chosenSteps(submission, { earlier, wanted });
    const automaticCleaning = submission.kind === "CLEAN" || cleansAutomatically(policy, node);
    const inMaintenance = node.maintenanceSince !== null;
    const list = submission.kind === "APPLY" ? chosen : null;
    const { driver, borrowed, fallbacks } = node;
    const key = JSON.stringify([driver, borrowed, fallbacks, route, automaticCleaning, inMaintenance, list]);
    const fresh = freshPlans.get(key);
    // Refusals are not shared, because they name the node.
    const planned = fresh
      ? { plan: fresh }
      : await planSteps({
          nodeName: node.name,
          route,
          composition,
          policy,
          automaticCleaning,
          inMaintenance,
          chosen,
          rules,
          options: submission.options,
        });
    if ("refusals" in planned) {
      const [first = unknownNodes([node.name]), ...further] = planned.refusals.map((refusal) => ({
        ...refusal,
        nodeId: node.id,
      }));
      return { refusal: first, further };
    }
    freshPlans.set(key, planned.plan);
    const flaw = installFlaw(node, { plan: planned.plan, composition, policy, automaticCleaning, chosen });
    if (flaw) return { refusal: flaw };
    const inService = wanted?.kind === "CONFIGURE" || (earlier?.plan.inService === true && node.stage !== "NONE");
    const done = earlier?.done ?? keptOfNew(node, submission, wanted, planned.plan);
    const keptKey = JSON.stringify([key, inService, ...done]);
    const kept = keptPlans.get(keptKey) ?? (done.size > 0 ? keepSteps(planned.plan, done) : planned.plan);
    const plan = inService && !kept.inService ? { ...kept, inService } : kept;
    keptPlans.set(keptKey, plan);
    const agentless = agentFlaw(node, plan, { composition, provisioning });
    if (agentless) return { refusal: agentless };
    const erases = inService
      ? plan.steps.some((step) => !step.kept && step.touches?.includes("DISKS"))
      : erasesData(node, plan.steps, earlier ? keptSteps(earlier) : plan.steps.filter((step) => step.kept));
    if (erases && !earlier && submission.kind === "REDEPLOY" && !submission.options.reinstall)
      return { refusal: unaskedErasure(node) };
    return { plan, target: route.target, erasesData: erases, earlier: earlier?.run ?? null };
  };
}

function unaskedErasure({ id, name }: NodeRow): Refusal {
  const message = `Node ${name} would lose its data: REDEPLOY erases its disks and installs again. Send reinstall: true to do so.`;
  return nodeRefusal("INVALID_STATE", id, message, { path: ["input", "reinstall"] });
}

/** The completed steps that a restart keeps, those of phases that it does not pass through again included. */
function keptSteps({ plan, done }: EarlierWork): PlannedStep[] {
  const keys = keysOf(plan);
  return plan.steps.filter((_, index) => done.has(keys[index] ?? ""));
}

/** Keys of the steps that a new request keeps: those of the system that it finds installed. */
function keptOfNew(
  node: NodeRow,
  { kind, options }: Submission,
  wanted: WantedWork | undefined,
  plan: Plan,
): ReadonlySet<string> {
  const completes = kind === "COMMISSION" || kind === "APPLY";
  return wanted?.kind === "CONFIGURE" || (completes && keepsSystem(node, options)) ? installedSteps(plan) : new Set();
}

function chosenSteps({ kind, options, restarts }: Submission, { earlier, wanted }: WorkOnNode): PlanRequest["chosen"] {
  if (kind === "APPLY") return earlier ? chosenOf(earlier.plan) : wantedSteps(wanted);
  const phase = PHASE_OF_LIST[kind];
  if (!phase || !options.steps) return undefined;
  const { steps, runbook = null } = options;
  return { phase, steps, runbook, path: restarts === null ? choicePath(options) : undefined };
}

/** The route of a submission on a node, or why there is none. */
export function routeFor(
  facts: ReturnType<typeof factsOf>,
  { kind, options, applied }: Pick<Submission, "kind" | "options" | "applied">,
  earlier: EarlierWork | null,
): { readonly route: Route } | { readonly refusal: Refusal } {
  const resumed = earlier && {
    resumed: resumeRoute(earlier.plan, facts.state, earlier.firstLeg)?.route ?? null,
    endedWith: earlier.run.failure?.code ?? null,
  };
  const decision = judge(facts, {
    verb: kind,
    options: { ...options, manualCleaning: options.steps !== undefined },
    force: options.force ?? false,
    leavesFaulty: applied !== undefined,
    ...resumed,
  });
  return decision.admitted ? { route: decision.route } : { refusal: decision.refusal };
}

/** The refusal of a plan with a step that needs the agent, where the node cannot boot it; null if it can. */
function agentFlaw(
  node: Pick<NodeRow, "id" | "name" | "settings">,
  plan: Plan,
  { composition, provisioning }: { readonly composition: Composition; readonly provisioning: Provisioning | null },
): Refusal | null {
  const users = new Set(composition.drivers.filter(({ usesAgent }) => usesAgent).map(({ name }) => name));
  const needsAgent = (step: PlannedStep) => !step.kept && users.has(step.driver) && isDeclared(step);
  const step = users.size > 0 && plan.steps.find(needsAgent);
  if (!step) return null;
  const architecture = node.settings[step.driver]?.["architecture"] === "ARM64" ? "ARM64" : "X64";
  const problem = agentProblem(provisioning, architecture);
  if (problem === null) return null;
  const message = `Node ${node.name} cannot boot the agent for ${step.interface}.${step.name}. ${problem}`;
  return nodeRefusal("AGENT_UNAVAILABLE", node.id, message);
}

/** The engine's own steps use the power of the driver, and not its agent. */
function isDeclared(step: PlannedStep): boolean {
  return !isReserved(step) && step.phase !== "verify" && step.phase !== "power";
}
