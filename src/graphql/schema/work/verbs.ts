/** The verbs: mutations that start work on selected nodes, each with its input. */
import type { VerbRequest } from "../../../engine/admission/request-terms.ts";
import type { SubmitAnswer } from "../../../engine/input/answers.ts";
import { NODE_VERBS, allowedStates, verbOf } from "../../../lifecycle/verbs.ts";
import type { OperationKind } from "../../../lifecycle/verbs.ts";
import type { VerbOptions } from "../../../store/records.ts";
import { builder, needs } from "../../base/builder.ts";
import { callerOf } from "../../base/context.ts";
import type { Context } from "../../base/context.ts";
import { BootDeviceEnum, BootModeEnum, CommissionFromEnum, PowerActionEnum, UntilEnum } from "../../base/enums.ts";
import { inputName } from "../../base/payload.ts";
import { installFields, installOf } from "../images/image.ts";
import { verbPayload } from "./node-work.ts";
import { StepInput, stepChoices } from "../fleet/runbook.ts";
import { nodeSelector } from "../selectors.ts";
import { termsOf, workFields } from "./verb-terms.ts";

/** The input of a verb without fields of its own. */
function plainInput(mutation: string) {
  return builder.inputType(inputName(mutation), {
    description: `Nodes and terms of ${mutation}.`,
    fields: (t) => workFields(t),
  });
}

type NodeWork = ReturnType<typeof plainInput>["$inferInput"];

/** The fields of one verb, as the engine takes them. */
type OwnFields = VerbOptions & Pick<VerbRequest, "image" | "userData">;

function submit(context: Context, kind: OperationKind, input: NodeWork, own: OwnFields = {}): Promise<SubmitAnswer> {
  const { image, userData, ...options } = own;
  const request = {
    ...termsOf(input),
    kind,
    nodes: nodeSelector(input.nodes),
    options: { ...options, ...(input.force && { force: true }) },
    ...(image && { image }),
    ...(userData !== undefined && { userData }),
  };
  return context.services.engine.submit(callerOf(context), request);
}

for (const kind of NODE_VERBS) {
  const { mutation, description, note, takes } = verbOf(kind);
  if (takes.length > 0) continue;
  const states = allowedStates(kind);
  if (states.length === 0) throw new Error(`${kind} has no route from any state without options; see routes.ts.`);
  const allowed = `Allowed from ${states.join(", ")}.`;
  builder.mutationField(mutation, (t) =>
    t.field({
      type: verbPayload(mutation),
      ...needs("OPERATE"),
      description: [description, allowed, ...(note ? [note] : [])].join(" "),
      args: { input: t.arg({ type: plainInput(mutation), required: true, description: "Nodes and terms." }) },
      resolve: (_root, { input }, context) => submit(context, kind, input),
    }),
  );
}

const CommissionNodesInput = builder.inputType("CommissionNodesInput", {
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
});

builder.mutationField("commissionNodes", (t) =>
  t.field({
    type: verbPayload("commissionNodes"),
    ...needs("OPERATE"),
    description:
      "Run the missing phases of verify, inspect, clean and deploy. Allowed from every stable or failed state except ACTIVE. An installed system (stage PROVISIONED) is kept, unless `from` is BEGINNING. By default, a failure cleans up all nodes of the operation; see `onFailure`.",
    args: {
      input: t.arg({
        type: CommissionNodesInput,
        required: true,
        description: "Nodes, final state and terms.",
      }),
    },
    resolve: (_root, { input }, context) =>
      submit(context, "COMMISSION", input, { until: input.until, from: input.from, ...installOf(input) }),
  }),
);

const CleanNodesInput = builder.inputType("CleanNodesInput", {
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
});

builder.mutationField("cleanNodes", (t) =>
  t.field({
    type: verbPayload("cleanNodes"),
    ...needs("OPERATE"),
    description:
      "Run clean steps: the automatic ones, the given ones, or those of a runbook. A node ends in the state in which it started.",
    args: {
      input: t.arg({ type: CleanNodesInput, required: true, description: "Nodes, steps and terms." }),
    },
    resolve: (_root, { input }, context) => submit(context, "CLEAN", input, stepOptions(input, "clean")),
  }),
);

const DeployNodesInput = builder.inputType("DeployNodesInput", {
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
});

builder.mutationField("deployNodes", (t) =>
  t.field({
    type: verbPayload("deployNodes"),
    ...needs("OPERATE"),
    description:
      "Install the system; nodes end ACTIVE. Allowed from AVAILABLE and DEPLOY_FAILED, and from ACTIVE with `reinstall: true`.",
    args: {
      input: t.arg({
        type: DeployNodesInput,
        required: true,
        description: "Nodes, steps and terms.",
      }),
    },
    resolve: (_root, { input }, context) =>
      submit(context, "DEPLOY", input, {
        ...stepOptions(input, "deploy"),
        ...installOf(input),
        reinstall: input.reinstall,
      }),
  }),
);

/** Options for the steps chosen in a request; the automatic ones run if none are. */
function stepOptions(
  { steps, runbook }: Pick<typeof CleanNodesInput.$inferInput, "steps" | "runbook">,
  phase: "clean" | "deploy",
): VerbOptions {
  const chosen = stepChoices(steps, phase);
  return { ...(chosen && { steps: chosen }), ...(runbook != null && { runbook }) };
}

const RedeployNodesInput = builder.inputType("RedeployNodesInput", {
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
    hostGroup: t.string({
      description:
        "Host group to deploy the nodes for. Drivers receive it as the variable `host_group`. By default the nodes keep their host group.",
    }),
  }),
});

builder.mutationField("redeployNodes", (t) =>
  t.field({
    type: verbPayload("redeployNodes"),
    ...needs("OPERATE"),
    description:
      "Remove the workload, clean, and deploy again with the present settings, optionally in another host group. Allowed from ACTIVE, with `reinstall: true` if it erases data. A failed tear-down or cleaning ends the run.",
    args: { input: t.arg({ type: RedeployNodesInput, required: true, description: "Nodes and terms." }) },
    resolve: (_root, { input }, context) =>
      submit(context, "REDEPLOY", input, {
        reinstall: input.reinstall,
        ...(input.hostGroup != null && { hostGroup: input.hostGroup }),
        ...installOf(input),
      }),
  }),
);

const SetPowerInput = builder.inputType("SetPowerInput", {
  description: "Nodes, action and terms of a power change.",
  fields: (t) => ({
    ...workFields(t),
    action: t.field({ type: PowerActionEnum, required: true, description: "Power action." }),
    timeoutSeconds: t.int({
      description:
        "For SOFT_OFF and SOFT_REBOOT: seconds that the system may take to shut down before it is powered off, 1 to 86400. Default 600.",
    }),
  }),
});

builder.mutationField("setPower", (t) =>
  t.field({
    type: verbPayload("setPower"),
    ...needs("OPERATE"),
    description:
      "Change the power state of nodes. A node that already has the requested state succeeds without a call to its BMC. Refused with BUSY while a node has an unfinished run of any kind. A protected node accepts only ON.",
    args: { input: t.arg({ type: SetPowerInput, required: true, description: "Nodes, action and terms." }) },
    resolve: (_root, { input }, context) => submit(context, "POWER", input, powerOptions(input)),
  }),
);

function powerOptions({ action, timeoutSeconds }: typeof SetPowerInput.$inferInput): VerbOptions {
  return { powerAction: action, ...(timeoutSeconds != null && { softTimeoutSeconds: timeoutSeconds }) };
}

const SetBootDeviceInput = builder.inputType("SetBootDeviceInput", {
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
});

builder.mutationField("setBootDevice", (t) =>
  t.field({
    type: verbPayload("setBootDevice"),
    ...needs("OPERATE"),
    description:
      "Set the device from which machines start, for their next start or for all later ones. It restarts no machine; see `setPower`. Refused with BUSY while a node has an unfinished run, because its steps may set the boot device themselves.",
    args: { input: t.arg({ type: SetBootDeviceInput, required: true, description: "Nodes, boot device and terms." }) },
    resolve: (_root, { input }, context) => {
      const { device, persistent, mode } = input;
      return submit(context, "BOOT_DEVICE", input, { bootDevice: { device, persistent, ...(mode && { mode }) } });
    },
  }),
);
