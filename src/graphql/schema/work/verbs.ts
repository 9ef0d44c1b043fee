/** The verbs: mutations that start work on selected nodes, each with its input, which `plan` takes as well. */
import type { VerbRequest } from "../../../engine/admission/request-terms.ts";
import { NODE_VERBS, allowedStates, verbOf } from "../../../lifecycle/verbs.ts";
import type { NodeVerb } from "../../../lifecycle/verbs.ts";
import type { VerbOptions } from "../../../store/records.ts";
import { builder, needs } from "../../base/builder.ts";
import type { InputRef } from "../../base/builder.ts";
import { callerOf } from "../../base/context.ts";
import { BootDeviceEnum, BootModeEnum, CommissionFromEnum, PowerActionEnum, UntilEnum } from "../../base/enums.ts";
import { inputName } from "../../base/payload.ts";
import { installFields, installOf } from "../images/image.ts";
import { verbPayload } from "./node-work.ts";
import { StepInput, stepChoices } from "../fleet/runbook.ts";
import { nodeSelector } from "../selectors.ts";
import type { NodeSelectorShape } from "../selectors.ts";
import { termsOf, workFields } from "./verb-terms.ts";
import type { TermsInput } from "./verb-terms.ts";

/** The input of a verb without fields of its own. */
function plainInput(mutation: string) {
  return builder.inputType(inputName(mutation), {
    description: `Nodes and terms of ${mutation}.`,
    fields: (t) => workFields(t),
  });
}

/** Members of the inputs of all verbs. */
interface NodeWork extends TermsInput {
  readonly nodes: NodeSelectorShape;
  readonly force: boolean;
}

/** The fields of one verb, as the engine takes them. */
type OwnFields = VerbOptions & Pick<VerbRequest, "image" | "userData">;

interface Verb<Input extends NodeWork> {
  readonly description: string;
  readonly input: InputRef<Input>;
  /** Description of the argument. */
  readonly argument: string;
  readonly own?: (input: Input) => OwnFields;
}

/** The verbs by their mutations. */
export const VERBS = new Map<string, Verb<NodeWork> & { readonly kind: NodeVerb }>();

/** The input of one verb, under the name of its mutation. */
type VerbChoice = Readonly<Record<string, NodeWork | null | undefined>>;

function addVerb<Input extends NodeWork>(kind: NodeVerb, verb: Verb<Input>): void;
// Pothos cannot resolve the type of a generic input, so the mutation is made for the fields that all of them have.
function addVerb(kind: NodeVerb, verb: Verb<NodeWork>): void {
  const { mutation } = verbOf(kind);
  const { description, input, argument } = verb;
  VERBS.set(mutation, { ...verb, kind });
  builder.mutationField(mutation, (t) =>
    t.field({
      type: verbPayload(mutation),
      ...needs("OPERATE"),
      description,
      args: { input: t.arg({ type: input, required: true, description: argument }) },
      resolve: (_root, args, context) =>
        context.services.engine.submit(callerOf(context), requestOf({ [mutation]: args.input })),
    }),
  );
}

/** The request as the engine takes it. */
export function requestOf(choice: VerbChoice): VerbRequest {
  const [[mutation, input] = []] = Object.entries(choice);
  const verb = VERBS.get(mutation ?? "");
  if (!verb || !input) throw new Error("The request names no verb.");
  const { image, userData, ...options } = verb.own?.(input) ?? {};
  return {
    ...termsOf(input),
    kind: verb.kind,
    nodes: nodeSelector(input.nodes),
    options: { ...options, ...(input.force && { force: true }) },
    ...(image && { image }),
    ...(userData !== undefined && { userData }),
  };
}

addVerb("COMMISSION", {
  description:
    "Run the missing phases of verify, inspect, clean and deploy. Allowed from every stable or failed state except ACTIVE. An installed system (stage PROVISIONED) is kept, unless `from` is BEGINNING. By default, a failure cleans up all nodes of the operation; see `onFailure`.",
  argument: "Nodes, final state and terms.",
  input: builder.inputType("CommissionNodesInput", {
    description: "Nodes and terms of a commission.",
    fields: (t) => ({
      ...workFields(t),
      ...installFields(t),
      until: t.field({
        type: UntilEnum,
        required: true,
        defaultValue: "ACTIVE",
        description: "State in which the commission ends.",
      }),
      from: t.field({
        type: CommissionFromEnum,
        required: true,
        defaultValue: "STAGE",
        description: "What the commission keeps of a node's earlier work.",
      }),
    }),
  }),
  own: (input) => ({ until: input.until, from: input.from, ...installOf(input) }),
});

addVerb("CLEAN", {
  description:
    "Run clean steps: the automatic ones, the given ones, or those of a runbook. A node ends in the state in which it started.",
  argument: "Nodes, steps and terms.",
  input: builder.inputType("CleanNodesInput", {
    description: "Nodes, steps and terms of a cleaning.",
    fields: (t) => ({
      ...workFields(t),
      steps: t.field({
        type: [StepInput],
        description: "Clean steps and reserved steps to run in this order instead of the automatic ones; 1 to 100.",
      }),
      runbook: t.string({
        description:
          "Name of a runbook for CLEAN to use instead of `steps`. The operation runs the steps that the runbook has now.",
      }),
    }),
  }),
  own: (input) => stepOptions(input, "clean"),
});

addVerb("DEPLOY", {
  description:
    "Install the system; nodes end ACTIVE. Allowed from AVAILABLE and DEPLOY_FAILED, and from ACTIVE with `reinstall: true`.",
  argument: "Nodes, steps and terms.",
  input: builder.inputType("DeployNodesInput", {
    description: "Nodes, steps and terms of a deployment.",
    fields: (t) => ({
      ...workFields(t),
      ...installFields(t),
      steps: t.field({
        type: [StepInput],
        description:
          "Deploy steps and reserved steps to run in this order instead of the automatic ones; 1 to 100. One of them must reach PROVISIONED, unless the node has an installed system.",
      }),
      runbook: t.string({
        description:
          "Name of a runbook for DEPLOY to use instead of `steps`. The operation runs the steps that the runbook has now.",
      }),
      reinstall: t.boolean({
        required: true,
        defaultValue: false,
        description: "Install again on ACTIVE nodes. This erases their systems; without it ACTIVE nodes are refused.",
      }),
    }),
  }),
  own: (input) => ({ ...stepOptions(input, "deploy"), ...installOf(input), reinstall: input.reinstall }),
});

addVerb("REDEPLOY", {
  description:
    "Remove the workload, clean, and deploy again with the present settings, optionally in another host group. Allowed from ACTIVE, with `reinstall: true` if it erases data. A failed tear-down or cleaning ends the run.",
  argument: "Nodes and terms.",
  input: builder.inputType("RedeployNodesInput", {
    description: "Nodes and terms of a redeployment.",
    fields: (t) => ({
      ...workFields(t),
      ...installFields(t),
      reinstall: t.boolean({
        required: true,
        defaultValue: false,
        description:
          "Erase the nodes and install again. Without it, a node is refused if it would lose data, as `results { erasesData }` of a plan shows.",
      }),
    }),
  }),
  own: (input) => ({ reinstall: input.reinstall, ...installOf(input) }),
});

addVerb("POWER", {
  description:
    "Change the power state of nodes. A node that already has the requested state succeeds without a call to its BMC. Refused with BUSY while a node has an unfinished run, unless its step waits and `force` is true: the power is then changed, and the step goes on waiting. Such a node has no run of the operation; the result has the run that waits. A protected node accepts only ON.",
  argument: "Nodes, action and terms.",
  input: builder.inputType("SetPowerInput", {
    description: "Nodes, action and terms of a power change.",
    fields: (t) => ({
      ...workFields(t),
      action: t.field({ type: PowerActionEnum, required: true, description: "Power action." }),
      timeoutSeconds: t.int({
        description:
          "For SOFT_OFF and SOFT_REBOOT: seconds that the system may take to shut down before it is powered off, 1 to 86400. Default 600.",
      }),
    }),
  }),
  own: ({ action, timeoutSeconds }) => ({
    powerAction: action,
    ...(timeoutSeconds != null && { softTimeoutSeconds: timeoutSeconds }),
  }),
});

addVerb("BOOT_DEVICE", {
  description:
    "Set the device from which machines start, for their next start or for all later ones. It restarts no machine; see `setPower`. Refused with BUSY while a node has an unfinished run, because its steps may set the boot device themselves.",
  argument: "Nodes, boot device and terms.",
  input: builder.inputType("SetBootDeviceInput", {
    description: "Nodes, boot device and terms.",
    fields: (t) => ({
      ...workFields(t),
      device: t.field({ type: BootDeviceEnum, required: true, description: "Device from which the machines start." }),
      persistent: t.boolean({
        required: true,
        defaultValue: false,
        description: "Whether all later starts use the device. By default only the next one does.",
      }),
      mode: t.field({
        type: BootModeEnum,
        description: "How the firmware starts the device. By default as the node's settings or the machine decide.",
      }),
    }),
  }),
  own: ({ device, persistent, mode }) => ({ bootDevice: { device, persistent, ...(mode && { mode }) } }),
});

/** Options for the steps chosen in a request; the automatic ones run if none are. */
function stepOptions(
  { steps, runbook }: { steps?: Parameters<typeof stepChoices>[0]; runbook?: string | null | undefined },
  phase: "clean" | "deploy",
): VerbOptions {
  const chosen = stepChoices(steps, phase);
  return { ...(chosen && { steps: chosen }), ...(runbook != null && { runbook }) };
}

/** The verbs without fields of their own. */
for (const kind of NODE_VERBS) {
  const { mutation, description, note } = verbOf(kind);
  if (VERBS.has(mutation)) continue;
  const states = allowedStates(kind);
  if (states.length === 0) throw new Error(`${kind} has no route from any state without options; see routes.ts.`);
  const allowed = `Allowed from ${states.join(", ")}.`;
  addVerb(kind, {
    description: [description, allowed, ...(note ? [note] : [])].join(" "),
    argument: "Nodes and terms.",
    input: plainInput(mutation),
  });
}
