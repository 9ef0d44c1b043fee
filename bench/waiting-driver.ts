/** The driver of the subject `workers`: its step waits as long as it is asked, after a nested call if it is asked. */
import * as z from "zod";
import { setTimeout as delay } from "node:timers/promises";
import type { Driver } from "../src/drivers/driver.ts";

export interface WaitingSettings {
  readonly ms: number;
  readonly nested: boolean;
}

export default function createWaiting(): Driver<WaitingSettings> {
  return {
    contract: 2,
    name: "waiting",
    version: "0.1.0",
    description: "A step that waits, for the benchmark.",
    settings: z.strictObject({ ms: z.number(), nested: z.boolean() }).meta({ description: "Of the step." }),
    power: {
      async read() {
        return "OFF";
      },
      async set() {},
    },
    clean: {
      supportsAbort: true,
      steps: [
        {
          name: "wait",
          title: "Wait",
          phase: "clean",
          priority: 10,
          interruptible: "ALWAYS",
          timeoutSeconds: 600,
          idempotent: true,
          async run({ settings: { ms, nested }, power }) {
            if (nested) await power.read();
            if (ms > 0) await delay(ms);
            return { kind: "done" };
          },
        },
      ],
    },
  };
}
