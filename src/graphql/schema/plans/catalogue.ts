/**
 * Catalogues of steps: those that a driver declares, those of a node under the site's policy, and the reserved ones.
 */
import type { DriverPhase } from "../../../drivers/driver.ts";
import { INTERFACE_OF_PHASE } from "../../../drivers/interfaces.ts";
import type { AnyStep } from "../../../drivers/interfaces.ts";
import { OFF_REASONS, RESERVED_STEPS, catalogueOf, reservedArgsSchema } from "../../../engine/views.ts";
import type { CatalogueEntry } from "../../../engine/plans/catalogue.ts";
import type { ReservedStep } from "../../../engine/plans/reserved-steps.ts";
import { touchesOf } from "../../../lifecycle/touches.ts";
import type { NodeRow } from "../../../store/nodes/nodes.ts";
import type { StoredJson } from "../../../store/records.ts";
import { cleansAutomatically } from "../../../store/site.ts";
import { builder, needs, wholeSeconds } from "../../base/builder.ts";
import type { Context } from "../../base/context.ts";
import {
  DriverInterfaceEnum,
  InterruptibleEnum,
  PhaseEnum,
  StageEnum,
  StepDisabledReasonEnum,
  StepGroupEnum,
  MachinePartEnum,
} from "../../base/enums.ts";

export const StepDefinitionRef = builder.objectRef<AnyStep>("StepDefinition").implement({
  description: "Step as declared by a driver.",
  fields: (t) => ({
    name: t.exposeString("name", { description: "Name of the step, unique in its interface and phase." }),
    title: t.exposeString("title", { description: "What the step does, for people." }),
    phase: t.expose("phase", { type: PhaseEnum, description: "Phase of the step." }),
    priority: t.exposeInt("priority", {
      description: "Priority: steps with a higher one run first; 0 runs only on request.",
    }),
    group: t.expose("group", {
      type: StepGroupEnum,
      nullable: true,
      description:
        "Decides the order among steps of equal priority. Null if the step declares none: it then has the place of its interface, a deploy step after FIRMWARE, others last.",
    }),
    interruptible: t.expose("interruptible", {
      type: InterruptibleEnum,
      description: "Whether the running step can be canceled.",
    }),
    idempotent: t.exposeBoolean("idempotent", { description: "Whether the step can safely run again after a crash." }),
    timeoutSeconds: t.int({
      resolve: ({ timeoutSeconds }) => wholeSeconds(timeoutSeconds),
      description:
        "Maximum duration of one attempt in seconds, waits included; rounded up. 2147483647 if it never times out.",
    }),
    retries: t.int({
      description: "Maximum number of retries after retryable failures.",
      resolve: ({ retries }) => retries?.times ?? 0,
    }),
    backoffSeconds: t.int({
      description: "Delay before a retry, in seconds; rounded up.",
      resolve: ({ retries }) => wholeSeconds(retries?.backoffSeconds ?? 0),
    }),
    changes: t.field({
      type: [MachinePartEnum],
      description:
        "Parts of the machine that the step changes. A clean, deploy or undeploy step without a declaration counts as DISKS.",
      resolve: (step) => touchesOf(step),
    }),
    reaches: t.expose("reaches", {
      type: StageEnum,
      nullable: true,
      description: "Stage that a node reaches when the step succeeds; null if the step does not change the stage.",
    }),
    verifies: t.boolean({
      description: "Whether the step verifies afterwards that its work has taken effect.",
      resolve: ({ verify }) => verify !== undefined,
    }),
    argsSchema: t.field({
      type: "JSON",
      nullable: true,
      description: "JSON Schema of the step's arguments; null if it takes none.",
      resolve: ({ args }) =>
        args ? (args["~standard"].jsonSchema.input({ target: "draft-2020-12" }) as StoredJson) : null,
    }),
  }),
});

// ---- a node's

/** An entry with its position among the steps that run automatically. */
type Placed = CatalogueEntry & { readonly order: number | null };

export const CatalogueStepRef = builder.objectRef<Placed>("CatalogueStep").implement({
  description: "Step that a driver offers for a node, with the effect of the node's settings and the site's policy.",
  fields: (t) => ({
    order: t.exposeInt("order", {
      nullable: true,
      description: "Position among the steps that run automatically, from 0; null if the step does not.",
    }),
    driver: t.string({ description: "Driver that provides the step.", resolve: ({ driver }) => driver.name }),
    interface: t.field({
      type: DriverInterfaceEnum,
      description: "Interface that provides the step.",
      resolve: (entry) => entry.interface,
    }),
    name: t.string({ description: "Name of the step in lists of steps.", resolve: ({ step }) => step.name }),
    title: t.string({ description: "What the step does, for people.", resolve: ({ step }) => step.title }),
    priority: t.exposeInt("priority", {
      description: "Effective priority: that of the site's policy, or the declared one.",
    }),
    declaredPriority: t.int({
      description: "Priority declared by the driver.",
      resolve: ({ step }) => step.priority,
    }),
    disabledReason: t.expose("off", {
      type: StepDisabledReasonEnum,
      nullable: true,
      description: "Reason why the step does not run automatically; null if it does.",
    }),
    disabledMessage: t.string({
      nullable: true,
      description: "The reason as a sentence for people; null if the step runs automatically.",
      resolve: ({ off }) => (off === null ? null : OFF_REASONS[off]),
    }),
    definition: t.expose("step", {
      type: StepDefinitionRef,
      description: "Step as declared by the driver.",
    }),
  }),
});

/** All steps that a node's drivers offer for a phase, the automatic ones first; empty if a driver is not loaded. */
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
  description: "Step that the service itself provides. It can be used in every list of steps, with any driver.",
  fields: (t) => ({
    interface: t.field({
      type: DriverInterfaceEnum,
      description: "Interface under which lists of steps name it: POWER or ENGINE.",
      resolve: (step) => step.interface,
    }),
    name: t.exposeString("name", { description: "Name of the step in lists of steps." }),
    title: t.exposeString("title", { description: "What the step does, for people." }),
    argsSchema: t.field({
      type: "JSON",
      description: "JSON Schema of the step's arguments.",
      resolve: (step) => reservedArgsSchema(step),
    }),
  }),
});

builder.queryField("reservedSteps", (t) =>
  t.field({
    type: [ReservedStepRef],
    ...needs("READ"),
    description: "Steps that the service provides for every list of steps, with any driver.",
    resolve: () => [...RESERVED_STEPS],
  }),
);
