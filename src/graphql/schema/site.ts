/** The site's policy: what holds for all nodes. */
import type { SiteEdited } from "../../engine/inventory/site.ts";
import type { LimitedPhase, SitePolicy, StepPolicy } from "../../store/records.ts";
import { readSite } from "../../store/site.ts";
import type { SiteRow } from "../../store/site.ts";
import { QueryRef, builder, given, needs } from "../base/builder.ts";
import { callerOf } from "../base/context.ts";
import { PhaseEnum } from "../base/enums.ts";
import { UserErrorRef } from "../base/errors.ts";

const PhaseLimitRef = builder
  .objectRef<{ readonly phase: LimitedPhase; readonly limit: number }>("PhaseLimit")
  .implement({
    description: "How many runs may be at work in a phase at the same time, over the whole service.",
    fields: (t) => ({
      phase: t.field({
        type: PhaseEnum,
        description: "What the runs that are counted are at.",
        resolve: ({ phase }) => phase,
      }),
      limit: t.exposeInt("limit", { description: "So many runs at most." }),
    }),
  });

const StepPolicyRef = builder.objectRef<StepPolicy>("StepPolicy").implement({
  description: "The site's word on one step.",
  fields: (t) => ({
    step: t.exposeString("step", { description: "The step, as in `clean.erase_disks`." }),
    driver: t.string({
      nullable: true,
      description:
        "Of this driver only; null: of every driver that offers it. What is said of one driver outranks what is said of all.",
      resolve: ({ driver }) => driver ?? null,
    }),
    priority: t.int({
      nullable: true,
      description: "In place of the declared priority; 0 switches it off. Null: as declared.",
      resolve: ({ priority }) => priority ?? null,
    }),
    forbidden: t.boolean({
      nullable: true,
      description: "Never run, not even when asked for by name. Null: nothing is said.",
      resolve: ({ forbidden }) => forbidden ?? null,
    }),
  }),
});

const limitsOf = ({ phaseLimits = {} }: SitePolicy) =>
  (Object.entries(phaseLimits) as [LimitedPhase, number][]).map(([phase, limit]) => ({ phase, limit }));

const SiteRef = builder.objectRef<SiteRow>("Site").implement({
  description: "The site's policy: what holds for all nodes.",
  fields: (t) => ({
    phaseLimits: t.field({
      type: [PhaseLimitRef],
      description: "Limits of phases; a phase that is not listed has none.",
      resolve: ({ policy }) => limitsOf(policy),
    }),
    controllerLimit: t.int({
      nullable: true,
      description:
        "How many runs may be at work at the same time on nodes of one management controller; null: any number.",
      resolve: ({ policy }) => policy.controllerLimit ?? null,
    }),
    automaticCleaning: t.boolean({
      description:
        "Whether automatic clean steps run in a commission and after a tear-down, unless a node says otherwise. `cleanNodes` runs them in any case.",
      resolve: ({ policy }) => policy.automaticCleaning ?? true,
    }),
    correctPower: t.boolean({
      description: "Whether a power state that somebody else changed is changed back.",
      resolve: ({ policy }) => policy.correctPower ?? false,
    }),
    steps: t.field({
      type: [StepPolicyRef],
      description: "What is said of single steps.",
      resolve: ({ policy }) => [...(policy.steps ?? [])],
    }),
    revision: t.exposeInt("revision", { description: "Increases with every change; send it back as `ifRevision`." }),
    updatedAt: t.expose("updatedAt", { type: "DateTime", description: "When it was last changed." }),
    updatedBy: t.exposeString("updatedBy", { nullable: true, description: "Who changed it; null: nobody yet." }),
  }),
});

builder.queryField("site", (t) =>
  t.field({
    type: SiteRef,
    ...needs("READ"),
    description: "The site's policy.",
    resolve: (_root, _args, { services }) => readSite(services.database.reader),
  }),
);

// ---- mutations

const PhaseLimitInput = builder.inputType("PhaseLimitInput", {
  description: "How many runs may be at work in a phase at the same time.",
  fields: (t) => ({
    phase: t.field({
      type: PhaseEnum,
      required: true,
      description: "The phase: verify, inspect, clean, deploy or undeploy.",
    }),
    limit: t.int({ required: true, description: "So many runs at most, 1 or more." }),
  }),
});

const StepPolicyInput = builder.inputType("StepPolicyInput", {
  description: "The site's word on one step: a priority, or that it is forbidden or not.",
  fields: (t) => ({
    step: t.string({
      required: true,
      description: "The step, as in `clean.erase_disks`; a loaded driver must offer it.",
    }),
    driver: t.string({ description: "Of this driver only; absent: of every driver that offers it." }),
    priority: t.int({
      description:
        "In place of the declared priority: 0, which switches it off, to 1000000. A step that needs arguments cannot run by itself.",
    }),
    forbidden: t.boolean({ description: "Never run, not even when asked for by name." }),
  }),
});

const UpdateSiteInput = builder.inputType("UpdateSiteInput", {
  description:
    "Change the site's policy. An omitted field stays, null takes it away. Work that was accepted before keeps its steps; limits hold for it too.",
  fields: (t) => ({
    ifRevision: t.int({ description: "Refuse if the policy has another revision by now." }),
    phaseLimits: t.field({
      type: [PhaseLimitInput],
      description: "Limits of phases, all of them. What exceeds a new limit already goes on; nothing is added to it.",
    }),
    controllerLimit: t.int({
      description: "How many runs may be at work at the same time on nodes of one management controller, 1 or more.",
    }),
    automaticCleaning: t.boolean({
      description: "Whether automatic clean steps run in a commission and after a tear-down; null: yes.",
    }),
    correctPower: t.boolean({
      description: "Whether a power state that somebody else changed is changed back; null: no.",
    }),
    steps: t.field({ type: [StepPolicyInput], description: "What is said of single steps, all of it." }),
  }),
});

const SitePayloadRef = builder.objectRef<SiteEdited>("SitePayload").implement({
  description: "Answer to a change of the site's policy.",
  fields: (t) => ({
    site: t.field({
      type: SiteRef,
      nullable: true,
      description: "The policy as it is now, null after a refusal.",
      resolve: ({ done }, _args, { services }) => (done ? readSite(services.database.reader) : null),
    }),
    errors: t.field({
      type: [UserErrorRef],
      description: "Why the request was refused, every flaw of it; empty when it was carried out.",
      resolve: ({ refusals }) => [...refusals],
    }),
    query: t.field({ type: QueryRef, description: "Root query, to read on in the same request.", resolve: () => ({}) }),
  }),
});

builder.mutationField("updateSite", (t) =>
  t.field({
    type: SitePayloadRef,
    nullable: true,
    ...needs("MANAGE"),
    description: "Change the site's policy.",
    args: { input: t.arg({ type: UpdateSiteInput, required: true, description: "The change." }) },
    resolve: (_root, { input }, context) =>
      context.services.engine.updateSite(callerOf(context), { ...input, ifRevision: given(input.ifRevision) }),
  }),
);
