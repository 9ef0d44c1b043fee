/**
 * The verbs, as tests of all of them request them. The durability tests have an oracle of their own, which shares
 * nothing with this table or the code: test/durability/expectations.ts.
 */
import type { NodeState } from "../../src/lifecycle/node-states.ts";
import { NODE_VERBS, verbOf } from "../../src/lifecycle/verbs.ts";
import type { NodeVerb } from "../../src/lifecycle/verbs.ts";
import type { VerbOptions } from "../../src/store/records.ts";
import { fakeStepPhases } from "./fake-steps.ts";

/** A request that is accepted, and what it does. */
interface Example {
  /** State of the node. */
  readonly from: "ENROLLED" | "MANAGEABLE" | "AVAILABLE" | "ACTIVE";
  /** Members of the mutation's input beside the nodes. */
  readonly input?: Readonly<Record<string, unknown>>;
  /** The same members as the engine takes them. */
  readonly options?: VerbOptions;
  /** Of the node, after success. */
  readonly end: { readonly state: NodeState; readonly stage?: string; readonly powerState?: string };
  /** Of each step in order, on a node of the driver `fake`. */
  readonly phases: readonly string[];
}

/** The first example of each verb takes only the members without which it is refused. */
const EXAMPLES: Readonly<Record<NodeVerb, readonly [Example, ...(readonly Example[])]>> = {
  MANAGE: [{ from: "ENROLLED", end: { state: "MANAGEABLE" }, phases: fakeStepPhases("verify") }],
  INSPECT: [
    { from: "MANAGEABLE", end: { state: "MANAGEABLE" }, phases: fakeStepPhases("inspect") },
    { from: "ACTIVE", end: { state: "ACTIVE" }, phases: fakeStepPhases("inspect") },
  ],
  CLEAN: [
    { from: "AVAILABLE", end: { state: "AVAILABLE" }, phases: fakeStepPhases("clean") },
    {
      from: "AVAILABLE",
      input: { steps: [{ name: "update_firmware", args: { version: "2.1" } }] },
      options: { steps: [{ interface: "clean", name: "update_firmware", args: { version: "2.1" } }] },
      end: { state: "AVAILABLE" },
      phases: ["CLEAN"],
    },
  ],
  PROVIDE: [{ from: "MANAGEABLE", end: { state: "AVAILABLE" }, phases: fakeStepPhases("clean") }],
  COMMISSION: [
    {
      from: "ENROLLED",
      end: { state: "ACTIVE", stage: "DEPLOYED", powerState: "ON" },
      phases: fakeStepPhases("verify", "inspect", "clean", "deploy"),
    },
    {
      from: "ENROLLED",
      input: { until: "AVAILABLE" },
      options: { until: "AVAILABLE" },
      end: { state: "AVAILABLE", stage: "NONE" },
      phases: fakeStepPhases("verify", "inspect", "clean"),
    },
  ],
  DEPLOY: [{ from: "AVAILABLE", end: { state: "ACTIVE", stage: "DEPLOYED" }, phases: fakeStepPhases("deploy") }],
  UNDEPLOY: [
    {
      from: "ACTIVE",
      end: { state: "AVAILABLE", stage: "NONE", powerState: "OFF" },
      phases: fakeStepPhases("undeploy", "clean"),
    },
  ],
  REDEPLOY: [
    {
      from: "ACTIVE",
      input: { reinstall: true },
      options: { reinstall: true },
      end: { state: "ACTIVE", stage: "DEPLOYED" },
      phases: fakeStepPhases("undeploy", "clean", "deploy"),
    },
    {
      from: "ACTIVE",
      input: { reinstall: true, hostGroup: "db" },
      options: { reinstall: true, hostGroup: "db" },
      end: { state: "ACTIVE" },
      phases: fakeStepPhases("undeploy", "clean", "deploy"),
    },
  ],
  DECOMMISSION: [{ from: "ACTIVE", end: { state: "DECOMMISSIONED" }, phases: fakeStepPhases("undeploy", "clean") }],
  POWER: [
    {
      from: "ENROLLED",
      input: { action: "ON" },
      options: { powerAction: "ON" },
      end: { state: "ENROLLED", powerState: "ON" },
      phases: ["POWER"],
    },
    {
      from: "ACTIVE",
      input: { action: "SOFT_OFF" },
      options: { powerAction: "SOFT_OFF" },
      end: { state: "ACTIVE", powerState: "OFF" },
      phases: ["POWER"],
    },
    {
      from: "ACTIVE",
      input: { action: "SOFT_REBOOT", timeoutSeconds: 60 },
      options: { powerAction: "SOFT_REBOOT", softTimeoutSeconds: 60 },
      end: { state: "ACTIVE", powerState: "ON" },
      phases: ["POWER"],
    },
  ],
  BOOT_DEVICE: [
    {
      from: "ACTIVE",
      input: { device: "NETWORK" },
      options: { bootDevice: { device: "NETWORK", persistent: false } },
      end: { state: "ACTIVE" },
      phases: ["POWER"],
    },
    {
      from: "AVAILABLE",
      input: { device: "DISK", persistent: true },
      options: { bootDevice: { device: "DISK", persistent: true } },
      end: { state: "AVAILABLE" },
      phases: ["POWER"],
    },
  ],
};

/** All examples, with their verb and mutation. */
export const VERB_EXAMPLES = NODE_VERBS.flatMap((kind) =>
  EXAMPLES[kind].map((example) => ({ kind, verb: verbOf(kind).mutation, input: {}, options: {}, ...example })),
);

/** The mutations of the verbs, each with the first example of its verb. */
export const VERB_MUTATIONS: ReadonlyMap<string, Example> = new Map(
  NODE_VERBS.map((kind) => [verbOf(kind).mutation, EXAMPLES[kind][0]]),
);
