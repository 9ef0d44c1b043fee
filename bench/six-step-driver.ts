/**
 * The driver of the benchmark: a commission with it has exactly six steps (verify, inspect, two clean, two deploy),
 * which return at once. The benchmark therefore measures the engine and the database, not a machine.
 */
import * as z from "zod";
import type { Driver, DriverPhase, Json, Step } from "../src/drivers/driver.ts";

export const DRIVER = "six_step";

function step(
  phase: DriverPhase,
  name: string,
  priority: number,
  more: { readonly output?: Json; readonly reaches?: "PROVISIONED" } = {},
): Step<unknown> {
  const { output, reaches } = more;
  return {
    name,
    title: name,
    phase,
    priority,
    interruptible: "ALWAYS",
    timeoutSeconds: 600,
    idempotent: true,
    ...(reaches && { reaches }),
    async run() {
      return output === undefined ? { kind: "done" } : { kind: "done", output };
    },
  };
}

export default function createSixStep(): Driver<unknown> {
  return {
    contract: 2,
    name: DRIVER,
    version: "0.1.0",
    description: "Six steps without effects, for the benchmark.",
    settings: z.strictObject({}).meta({ description: "None." }),
    power: {
      async read() {
        return "OFF";
      },
      async set() {},
    },
    inspect: {
      supportsAbort: true,
      withoutReboot: false,
      steps: [step("inspect", "collect_inventory", 10, { output: { cpus: 8 } })],
    },
    clean: { supportsAbort: true, steps: [step("clean", "erase_metadata", 20), step("clean", "erase_disks", 10)] },
    deploy: {
      supportsAbort: true,
      steps: [step("deploy", "write_image", 20, { reaches: "PROVISIONED" }), step("deploy", "boot_system", 10)],
    },
  };
}
