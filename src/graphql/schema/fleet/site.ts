/** The site's policy. */
import type { SiteEdited } from "../../../engine/inventory/site.ts";
import type { LimitedPhase, SitePolicy, StepPolicy, StepScope } from "../../../store/records.ts";
import { readSite } from "../../../store/site.ts";
import type { SiteRow } from "../../../store/site.ts";
import { builder, given, needs } from "../../base/builder.ts";
import { addMutation } from "../../base/mutation.ts";
import { payloadType, refusalFields } from "../../base/payload.ts";
import { ScopeEnum } from "../access/roles.ts";
import { FailurePolicyEnum, PhaseEnum, PowerOnFailureEnum, UnerasedDisksEnum } from "../../base/enums.ts";
import { variablesField } from "../../base/shared-fields.ts";

const PhaseLimitRef = builder
  .objectRef<{ readonly phase: LimitedPhase; readonly limit: number }>("PhaseLimit")
  .implement({
    description: "Maximum number of active runs in a phase at the same time, over all replicas.",
    fields: (t) => ({
      phase: t.expose("phase", {
        type: PhaseEnum,
        description: "Limited phase.",
      }),
      limit: t.exposeInt("limit", { description: "Maximum number of runs." }),
    }),
  });

const StepPolicyRef = builder.objectRef<StepPolicy>("StepPolicy").implement({
  description: "The site's settings for one step: its priority, and whether it is forbidden.",
  fields: (t) => ({
    step: t.exposeString("step", { description: "Step as `interface.name`, such as `clean.erase_disks`." }),
    driver: t.exposeString("driver", {
      nullable: true,
      description:
        "Driver that the policy is limited to; null for all drivers that provide the step. A policy for one driver takes precedence over one for all.",
    }),
    priority: t.exposeInt("priority", {
      nullable: true,
      description:
        "Priority to use instead of the declared one; 0 means that the step does not run automatically. Null to use the declared priority.",
    }),
    forbidden: t.exposeBoolean("forbidden", {
      nullable: true,
      description:
        "Whether the step is forbidden: it never runs, not even if requested by name. Null if the policy does not say.",
    }),
  }),
});

const StepScopeRef = builder.objectRef<StepScope>("StepScope").implement({
  description: "Scope that callers need for one step.",
  fields: (t) => ({
    step: t.exposeString("step", { description: "Step as `interface.name`, such as `clean.erase_disks`." }),
    scope: t.expose("scope", { type: ScopeEnum, description: "Scope that a caller needs." }),
  }),
});

const limitsOf = ({ phaseLimits = {} }: SitePolicy) =>
  (Object.entries(phaseLimits) as [LimitedPhase, number][]).map(([phase, limit]) => ({ phase, limit }));

const SiteRef = builder.objectRef<SiteRow>("Site").implement({
  description: "Policy of the site: settings for all nodes.",
  fields: (t) => ({
    phaseLimits: t.field({
      type: [PhaseLimitRef],
      description: "Limits per phase; a phase that is not listed has no limit.",
      resolve: ({ policy }) => limitsOf(policy),
    }),
    controllerLimit: t.int({
      nullable: true,
      description:
        "Maximum number of active runs on nodes of one management controller at the same time; null for no limit.",
      resolve: ({ policy }) => policy.controllerLimit ?? null,
    }),
    disappearedTimeoutSeconds: t.int({
      nullable: true,
      description:
        "How long, in seconds, a step waits for a node that has disappeared, before its run fails with TIMEOUT. Time in maintenance does not count. Null if only the timeout of the step ends the wait.",
      resolve: ({ policy }) => policy.disappearedTimeoutSeconds ?? null,
    }),
    automaticCleaning: t.boolean({
      description:
        "Whether automatic clean steps run in a commission and after a tear-down, unless a node overrides it. `cleanNodes` always runs them.",
      resolve: ({ policy }) => policy.automaticCleaning ?? true,
    }),
    correctPower: t.boolean({
      description: "Whether Ostler changes back a power state that was changed outside it.",
      resolve: ({ policy }) => policy.correctPower ?? false,
    }),
    powerOnFailure: t.field({
      type: PowerOnFailureEnum,
      description: "Power of a node whose cleaning or deployment fails, unless the request chooses.",
      resolve: ({ policy }) => policy.powerOnFailure ?? "OFF",
    }),
    commissionOnFailure: t.field({
      type: FailurePolicyEnum,
      description: "Effect of a failed node on the others of its commission, unless the request chooses.",
      resolve: ({ policy }) => policy.commissionOnFailure ?? "CLEAN_UP_ALL",
    }),
    sharedIdentities: t.stringList({
      description:
        "Serial numbers, UUIDs and MAC addresses that several machines have: they decide nothing about whether two nodes are the same machine.",
      resolve: ({ policy }) => [...(policy.sharedIdentities ?? [])],
    }),
    unerasedDisks: t.field({
      type: UnerasedDisksEnum,
      description:
        "Whether an erasure succeeds that left out a disk, found none, or did not see a disk that an inspection has reported.",
      resolve: ({ policy }) => policy.unerasedDisks ?? "FAIL",
    }),
    steps: t.field({
      type: [StepPolicyRef],
      description: "Policies for single steps.",
      resolve: ({ policy }) => [...(policy.steps ?? [])],
    }),
    stepScopes: t.field({
      type: [StepScopeRef],
      description:
        "Scopes that callers need for single steps, chosen in a request or from a runbook. Other chosen steps need MANAGE; other steps of a runbook need OPERATE.",
      resolve: ({ policy }) => [...(policy.stepScopes ?? [])],
    }),
    variables: variablesField(t, "Variables of every operation on any node, below those of clusters."),
    revision: t.exposeInt("revision", {
      description: "Increases with every change. Send it as `ifRevision` to detect concurrent changes.",
    }),
    updatedAt: t.expose("updatedAt", { type: "DateTime", description: "Time of the last change." }),
    updatedBy: t.exposeString("updatedBy", {
      nullable: true,
      description: "Who made the last change; null if there was none.",
    }),
  }),
});

builder.queryField("site", (t) =>
  t.field({
    type: SiteRef,
    ...needs("READ"),
    description: "Policy of the site.",
    resolve: (_root, _args, { services }) => readSite(services.database.reader),
  }),
);

// ---- mutations

const PhaseLimitInput = builder.inputType("PhaseLimitInput", {
  description: "Limit of active runs in a phase at the same time.",
  fields: (t) => ({
    phase: t.field({
      type: PhaseEnum,
      required: true,
      description: "Phase: verify, inspect, clean, deploy or undeploy.",
    }),
    limit: t.int({ required: true, description: "Maximum number of runs, 1 or more." }),
  }),
});

const StepPolicyInput = builder.inputType("StepPolicyInput", {
  description: "Policy for one step: a priority, or whether it is forbidden.",
  fields: (t) => ({
    step: t.string({
      required: true,
      description: "Step as `interface.name`, such as `clean.erase_disks`; a loaded driver must provide it.",
    }),
    driver: t.string({ description: "Driver to limit the policy to; by default all drivers that provide the step." }),
    priority: t.int({
      description:
        "Priority to use instead of the declared one, 0 to 1000000; 0 means that the step does not run automatically. A step that requires arguments cannot run automatically.",
    }),
    forbidden: t.boolean({
      description: "Whether the step is forbidden: it never runs, not even if requested by name.",
    }),
  }),
});

const StepScopeInput = builder.inputType("StepScopeInput", {
  description: "Scope that callers need for one step.",
  fields: (t) => ({
    step: t.string({
      required: true,
      description: "Step as `interface.name`, such as `clean.erase_disks`; a loaded driver must provide it.",
    }),
    scope: t.field({ type: ScopeEnum, required: true, description: "Scope that a caller needs: MANAGE or ADMIN." }),
  }),
});

addMutation("updateSite", {
  scope: "ADMIN",
  description: "Change the site's policy.",
  input: builder.inputType("UpdateSiteInput", {
    description:
      "Changes to the site's policy. Omitted fields stay as they are; null restores the default. Accepted work keeps its steps, but new limits apply to it.",
    fields: (t) => ({
      ifRevision: t.int({ description: "Refuse the request if the policy has another revision." }),
      phaseLimits: t.field({
        type: [PhaseLimitInput],
        description:
          "Limits per phase; replaces the present ones. Active runs beyond a lower limit continue, but no further run starts.",
      }),
      controllerLimit: t.int({
        description: "Maximum number of active runs on nodes of one management controller at the same time, 1 or more.",
      }),
      disappearedTimeoutSeconds: t.int({
        description:
          "How long, in seconds, a step waits for a node that has disappeared, before its run fails with TIMEOUT: 1 to 2592000. Applies to runs that wait already; null removes the limit.",
      }),
      automaticCleaning: t.boolean({
        description:
          "Whether automatic clean steps run in a commission and after a tear-down; null restores the default, true.",
      }),
      correctPower: t.boolean({
        description:
          "Whether Ostler changes back a power state that was changed outside it; null restores the default, false.",
      }),
      powerOnFailure: t.field({
        type: PowerOnFailureEnum,
        description:
          "Power of a node whose cleaning or deployment fails, unless the request chooses; null restores the default, OFF.",
      }),
      commissionOnFailure: t.field({
        type: FailurePolicyEnum,
        description:
          "Effect of a failed node on the others of its commission, unless the request chooses; null restores the default, CLEAN_UP_ALL.",
      }),
      sharedIdentities: t.stringList({
        description:
          "Serial numbers, UUIDs and MAC addresses that several machines have, in any notation, at most 1000; replaces the present ones. Values such as an empty text, NA and 0123456789 decide nothing anyway.",
      }),
      unerasedDisks: t.field({
        type: UnerasedDisksEnum,
        description: "Whether an erasure that is not proven for every disk succeeds; null restores the default, FAIL.",
      }),
      stepScopes: t.field({
        type: [StepScopeInput],
        description:
          "Scopes that callers need for single steps, chosen in a request or from a runbook; replaces the present ones.",
      }),
      variables: t.field({
        type: "JSON",
        description: "Variables of all nodes, to merge into the present ones; null removes a key.",
      }),
      steps: t.field({ type: [StepPolicyInput], description: "Policies for single steps; replaces the present ones." }),
    }),
  }),
  argument: "Changes to make.",
  payload: payloadType<SiteEdited>("updateSite", (t) => ({
    site: t.field({
      type: SiteRef,
      nullable: true,
      description: "The policy after the change; null if the request was refused.",
      resolve: ({ done }, _args, { services }) => (done ? readSite(services.database.reader) : null),
    }),
    ...refusalFields(t, "Every reason why the request was refused; empty if it succeeded."),
  })),
  run: (input, engine, caller) => engine.updateSite(caller, { ...input, ifRevision: given(input.ifRevision) }),
});
