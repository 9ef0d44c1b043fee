/**
 * The steps of the driver `fake`, as data: what each declares, and the work it does unless its script says otherwise.
 */
import { randomUUID } from "node:crypto";
import { lazySchema } from "../lazy-schema.ts";
import type { Json, Step, StepCall } from "../../src/drivers/driver.ts";
import { erasureOf, inventoryOf } from "./inventory.ts";
import type { FakeSettings } from "./settings.ts";

export interface FakeStep extends Omit<Step<FakeSettings>, "run" | "verify" | "abort"> {
  /** Returns the output of the step. Absent: the step does nothing and has no output. */
  readonly work?: (call: StepCall<FakeSettings>) => Promise<Json | undefined>;
  /** The step has a `verify`, scripted as `interface.name.verify`. */
  readonly verified?: true;
}

const usual = { timeoutSeconds: 600, idempotent: true } as const;

export const INSPECT_STEPS: readonly FakeStep[] = [
  {
    ...usual,
    name: "collect_inventory",
    title: "Collect the inventory",
    phase: "inspect",
    priority: 10,
    interruptible: "ALWAYS",
    touches: [],
    work: async (call) => inventoryOf(call),
  },
];

export const CLEAN_STEPS: readonly FakeStep[] = [
  {
    ...usual,
    name: "erase_metadata",
    title: "Erase partition tables",
    phase: "clean",
    priority: 20,
    interruptible: "AT_BOUNDARY",
    touches: ["DISKS"],
    erases: true,
    work: async (call) => erasureOf(call),
  },
  {
    ...usual,
    name: "erase_disks",
    title: "Erase the disks",
    phase: "clean",
    priority: 10,
    interruptible: "ALWAYS",
    timeoutSeconds: 6 * 3600,
    touches: ["DISKS"],
    erases: true,
    work: async (call) => erasureOf(call),
  },
  {
    ...usual,
    name: "update_firmware",
    title: "Write the firmware",
    phase: "clean",
    priority: 0,
    interruptible: "NEVER",
    idempotent: false,
    touches: ["FIRMWARE"],
    args: lazySchema((z) =>
      z.strictObject({
        version: z
          .string()
          .regex(/^\d+\.\d+$/)
          .meta({ description: "Version to write, as in 2.1." }),
      }),
    ),
    verified: true,
    async work(call) {
      call.log(`Firmware ${JSON.stringify(call.args["version"])} is written.`);
      return { version: call.args["version"] ?? null };
    },
  },
];

export const DEPLOY_STEPS: readonly FakeStep[] = [
  {
    ...usual,
    name: "prepare",
    title: "Set the boot device and reserve the image",
    phase: "deploy",
    priority: 40,
    interruptible: "ALWAYS",
    touches: ["NETWORK"],
    async work(call) {
      await call.power.setBootDevice("PXE");
      return { image: call.variables["image"] ?? "default" };
    },
  },
  {
    ...usual,
    name: "write_image",
    title: "Write the operating system to disk",
    phase: "deploy",
    priority: 30,
    interruptible: "ALWAYS",
    reaches: "PROVISIONED",
    touches: ["DISKS"],
    retries: { times: 2, backoffSeconds: 1 },
    async work(call) {
      const image = call.variables["image"] ?? "default";
      call.log(`Image ${JSON.stringify(image)} is written.`);
      return { image };
    },
  },
  {
    ...usual,
    name: "boot_system",
    title: "Start the installed system",
    phase: "deploy",
    priority: 20,
    interruptible: "ALWAYS",
    touches: [],
    async work(call) {
      await call.power.set("ON");
      return undefined;
    },
  },
  {
    ...usual,
    name: "configure",
    title: "Configure the system",
    phase: "deploy",
    priority: 10,
    interruptible: "AT_BOUNDARY",
    touches: [],
    outputs: lazySchema((z) =>
      z.looseObject({
        join_token: z.string().max(1_000).optional().meta({ writeOnly: true, description: "A secret of the system." }),
        endpoint: z.string().max(1_000).optional().meta({ description: "Address of the system." }),
      }),
    ),
    work: async ({ variables, settings, node }) => ({
      variables: { ...variables },
      ...(settings.outputs && { join_token: randomUUID(), endpoint: node.name }),
    }),
  },
  {
    ...usual,
    name: "remove_system",
    title: "Take the system out of service",
    phase: "undeploy",
    priority: 10,
    interruptible: "ALWAYS",
    touches: [],
    async work(call) {
      await call.power.set("OFF");
      return undefined;
    },
  },
];
