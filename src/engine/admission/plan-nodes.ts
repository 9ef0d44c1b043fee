/** Decides for each node of a submission whether it is admitted, and plans the admitted ones. */
import type { Refusal } from "../../errors.ts";
import { judge } from "../../lifecycle/admission.ts";
import type { NodeState } from "../../lifecycle/node-states.ts";
import { resumeRoute } from "../../lifecycle/verbs.ts";
import type { OperationKind, Route } from "../../lifecycle/verbs.ts";
import type { Registry } from "../../drivers/registry.ts";
import { createYielding } from "../../runtime/yielding.ts";
import type { NodeRow } from "../../store/nodes.ts";
import type { Reader } from "../../store/postgres/database.ts";
import type { Plan, SitePolicy } from "../../store/records.ts";
import { busyNodes } from "../../store/runs.ts";
import type { RunRow } from "../../store/runs.ts";
import { cleansAutomatically } from "../../store/site.ts";
import { keepSteps, planSteps } from "../plans/plan.ts";
import type { PlanRequest } from "../plans/plan.ts";
import { choicePath } from "../plans/step-selection.ts";
import { NO_DRIVERS, factsOf } from "./node-facts.ts";
import type { EarlierWork, Submission } from "./submission.ts";

/** The work on an admitted node. `earlier`: the run that a restart continues. */
export interface PlannedWork {
  readonly plan: Plan;
  readonly target: NodeState;
  readonly earlier: RunRow | null;
}

export type AdmittedNode = PlannedWork & { readonly node: NodeRow };

/** `further`: more reasons for the refusal. */
export type NodeDecision = PlannedWork | { readonly refusal: Refusal; readonly further?: readonly Refusal[] };

/** Verbs that accept a list of steps, with the phase whose automatic steps the list replaces. */
const PHASE_OF_LIST: Partial<Record<OperationKind, "clean" | "deploy">> = { CLEAN: "clean", DEPLOY: "deploy" };

export interface PlanBasis {
  readonly registry: Registry;
  readonly policy: SitePolicy;
  readonly submission: Submission;
}

/** A decision for each node, by id. `nodes` are locked, except in a dry run. */
export async function planNodes(
  reader: Reader,
  nodes: ReadonlyMap<string, NodeRow>,
  basis: PlanBasis,
): Promise<Map<string, NodeDecision>> {
  const busy = new Map((await busyNodes(reader, [...nodes.keys()])).map((run) => [run.nodeId, run]));
  const plans = new SharedPlans(basis);
  const decisions = new Map<string, NodeDecision>();
  const yieldWhenDue = createYielding();
  for (const node of nodes.values()) {
    await yieldWhenDue();
    const composed = basis.registry.compose(node);
    const facts = factsOf(node, composed, busy.get(node.id) ?? null);
    const earlier = basis.submission.earlierOf?.(node) ?? null;
    const found = routeFor(facts, basis.submission, earlier);
    if ("refusal" in found) {
      decisions.set(node.id, found);
      continue;
    }
    const composition = "composition" in composed ? composed.composition : NO_DRIVERS;
    decisions.set(node.id, await plans.planFor(node, { route: found.route, composition, earlier }));
  }
  return decisions;
}

/** Plans, made once for all nodes with the same drivers on the same route of which a restart keeps the same steps. */
class SharedPlans {
  readonly #basis: PlanBasis;
  readonly #fresh = new Map<string, Plan>();
  readonly #kept = new Map<string, Plan>();

  constructor(basis: PlanBasis) {
    this.#basis = basis;
  }

  async planFor(
    node: NodeRow,
    {
      route,
      composition,
      earlier,
    }: Pick<PlanRequest, "route" | "composition"> & { readonly earlier: EarlierWork | null },
  ): Promise<NodeDecision> {
    const { policy, submission } = this.#basis;
    // A requested cleaning takes place even if automatic cleaning is disabled.
    const automaticCleaning = submission.kind === "CLEAN" || cleansAutomatically(policy, node);
    const key = JSON.stringify([node.driver, node.borrowed, route, automaticCleaning]);
    const fresh = this.#fresh.get(key);
    // Refusals are not shared, because they name the node.
    const planned = fresh
      ? { plan: fresh }
      : await planSteps({
          nodeName: node.name,
          route,
          composition,
          policy,
          automaticCleaning,
          chosen: chosenSteps(submission),
          powerAction: submission.options.powerAction,
          softTimeoutSeconds: submission.options.softTimeoutSeconds,
        });
    if ("refusals" in planned) {
      const [first = unknownNode(node.name), ...further] = planned.refusals.map((refusal) => ({
        ...refusal,
        nodeId: node.id,
      }));
      return { refusal: first, further };
    }
    this.#fresh.set(key, planned.plan);
    const keptKey = JSON.stringify([key, ...(earlier?.done ?? [])]);
    const plan = this.#kept.get(keptKey) ?? (earlier ? keepSteps(planned.plan, earlier.done) : planned.plan);
    this.#kept.set(keptKey, plan);
    return { plan, target: route.target, earlier: earlier?.run ?? null };
  }
}

function chosenSteps({ kind, options, restartOf }: Submission): PlanRequest["chosen"] {
  const phase = PHASE_OF_LIST[kind];
  if (!phase || !options.steps) return undefined;
  return { phase, steps: options.steps, path: restartOf === null ? choicePath(options) : undefined };
}

function routeFor(
  facts: ReturnType<typeof factsOf>,
  { kind, options: { until, steps, powerAction, force = false } }: Submission,
  earlier: EarlierWork | null,
): { readonly route: Route } | { readonly refusal: Refusal } {
  const options = { ...(until && { until }), manualCleaning: steps !== undefined, ...(powerAction && { powerAction }) };
  const resumed = earlier && { resumed: resumeRoute(earlier.plan, facts.state, earlier.firstLeg)?.route ?? null };
  const decision = judge(facts, { verb: kind, options, force, ...resumed });
  return decision.admitted ? { route: decision.route } : { refusal: decision.refusal };
}

export function unknownNode(ref: string): Refusal {
  return { code: "NOT_FOUND", message: `There is no node ${ref}.`, missing: [ref] };
}
