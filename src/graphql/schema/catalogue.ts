/** What steps there are: those that a driver declares, what a node and the site make of them, and the reserved ones. */
import type { DriverPhase } from "../../drivers/driver.ts";
import { INTERFACE_OF_PHASE } from "../../drivers/registry.ts";
import type { AnyStep } from "../../drivers/registry.ts";
import { OFF_REASONS, RESERVED_STEPS, catalogueOf, reservedArgsSchema } from "../../engine/engine.ts";
import type { CatalogueEntry } from "../../engine/plans/plan.ts";
import type { ReservedStep } from "../../engine/plans/reserved-steps.ts";
import { touchesOf } from "../../lifecycle/touches.ts";
import type { NodeRow } from "../../store/nodes.ts";
import type { StoredJson } from "../../store/records.ts";
import { cleansAutomatically } from "../../store/site.ts";
import { builder, needs } from "../base/builder.ts";
import type { Context } from "../base/context.ts";
import { DriverInterfaceEnum, InterruptibleEnum, PhaseEnum, StageEnum, StepOffEnum, TouchEnum } from "../base/enums.ts";

export const StepDefinitionRef = builder.objectRef<AnyStep>("StepDefinition").implement({
  description: "A step as a driver declares it.",
  fields: (t) => ({
    name: t.exposeString("name", { description: "Name, unique in its interface and phase." }),
    title: t.exposeString("title", { description: "What it does, for people." }),
    phase: t.field({ type: PhaseEnum, description: "Phase it belongs to.", resolve: ({ phase }) => phase }),
    priority: t.exposeInt("priority", { description: "Higher runs first; 0 means only on request." }),
    interruptible: t.field({
      type: InterruptibleEnum,
      description: "Whether it may be cut while it runs.",
      resolve: ({ interruptible }) => interruptible,
    }),
    idempotent: t.exposeBoolean("idempotent", { description: "Whether it may be entered again after a crash." }),
    timeoutSeconds: t.exposeFloat("timeoutSeconds", {
      description: "Longest time from its beginning to its end, waits included.",
    }),
    retries: t.int({
      description: "How often a failure that may be tried again is tried again.",
      resolve: ({ retries }) => retries?.times ?? 0,
    }),
    backoffSeconds: t.float({
      description: "How long after a failure it is tried again.",
      resolve: ({ retries }) => retries?.backoffSeconds ?? 0,
    }),
    touches: t.field({
      type: [TouchEnum],
      description: "What it changes. A clean, deploy or undeploy step that does not say is taken to change the disks.",
      resolve: (step) => [...touchesOf(step)],
    }),
    reaches: t.field({
      type: StageEnum,
      nullable: true,
      description: "Stage that a node has reached with its success; null: none of its own.",
      resolve: ({ reaches }) => reaches ?? null,
    }),
    verifies: t.boolean({
      description: "Whether it looks, when its work is done, that the work has taken effect.",
      resolve: ({ verify }) => verify !== undefined,
    }),
    argsSchema: t.field({
      type: "JSON",
      nullable: true,
      description: "JSON Schema of its arguments; null when it takes none.",
      resolve: ({ args }) =>
        args ? (args["~standard"].jsonSchema.input({ target: "draft-2020-12" }) as StoredJson) : null,
    }),
  }),
});

// ---- a node's

/** An entry with its place among those that run. */
type Placed = CatalogueEntry & { readonly order: number | null };

export const CatalogueStepRef = builder.objectRef<Placed>("CatalogueStep").implement({
  description: "A step that a node's driver offers, as the node and the site make of it.",
  fields: (t) => ({
    order: t.exposeInt("order", {
      nullable: true,
      description: "Its place among the steps that run by themselves, from 0; null when it does not.",
    }),
    driver: t.string({ description: "Driver that offers it.", resolve: ({ driver }) => driver.name }),
    interface: t.field({
      type: DriverInterfaceEnum,
      description: "Interface that offers it.",
      resolve: (entry) => entry.interface,
    }),
    name: t.string({ description: "Name that lists of steps call it by.", resolve: ({ step }) => step.name }),
    title: t.string({ description: "What it does, for people.", resolve: ({ step }) => step.title }),
    priority: t.exposeInt("priority", { description: "Priority it has here: the site's, or the declared one." }),
    declaredPriority: t.int({
      description: "Priority that its driver declares.",
      resolve: ({ step }) => step.priority,
    }),
    off: t.field({
      type: StepOffEnum,
      nullable: true,
      description: "Why it does not run by itself; null when it does.",
      resolve: ({ off }) => off,
    }),
    offReason: t.string({
      nullable: true,
      description: "The same, for people.",
      resolve: ({ off }) => (off === null ? null : OFF_REASONS[off]),
    }),
    definition: t.field({
      type: StepDefinitionRef,
      description: "The step as its driver declares it.",
      resolve: ({ step }) => step,
    }),
  }),
});

/** All steps that a node's drivers offer for a phase, first those that run by themselves. None where they are not loaded. */
export async function stepCatalogue(
  node: NodeRow,
  phase: string,
  { services: { registry }, load }: Context,
): Promise<Placed[]> {
  const composed = registry.compose(node);
  if ("problem" in composed || !isDriverPhase(phase)) return [];
  const { policy } = await load.site.load("policy");
  const entries = catalogueOf(
    { composition: composed.composition, policy, automaticCleaning: cleansAutomatically(policy, node) },
    phase,
  );
  return entries.map((entry, index) => ({ ...entry, order: entry.off === null ? index : null }));
}

function isDriverPhase(phase: string): phase is DriverPhase {
  return phase in INTERFACE_OF_PHASE;
}

// ---- the service's

const ReservedStepRef = builder.objectRef<ReservedStep>("ReservedStep").implement({
  description: "A step that the service itself has: it works in every list of steps, whatever the driver.",
  fields: (t) => ({
    interface: t.field({
      type: DriverInterfaceEnum,
      description: "POWER or ENGINE: what a list names it with.",
      resolve: (step) => step.interface,
    }),
    name: t.exposeString("name", { description: "Name that lists of steps call it by." }),
    title: t.exposeString("title", { description: "What it does, for people." }),
    argsSchema: t.field({
      type: "JSON",
      description: "JSON Schema of its arguments.",
      resolve: (step) => reservedArgsSchema(step),
    }),
  }),
});

builder.queryField("reservedSteps", (t) =>
  t.field({
    type: [ReservedStepRef],
    ...needs("READ"),
    description: "Steps that work in every list of steps, whatever the driver.",
    resolve: () => [...RESERVED_STEPS],
  }),
);
