/** A driver without permissions whose step kills the service. */
import * as z from "zod";
import type { Driver } from "../../../src/drivers/driver.ts";

export default function createKiller(): Driver<Record<string, never>> {
  return {
    contract: 2,
    name: "killer",
    version: "1.0.0",
    description: "Kills the service.",
    settings: z.strictObject({}),
    power: {
      read: async () => "OFF",
      async set() {},
    },
    clean: {
      supportsAbort: false,
      steps: [
        {
          name: "kill",
          title: "Kill the service",
          phase: "clean",
          priority: 0,
          interruptible: "ALWAYS",
          timeoutSeconds: 60,
          idempotent: true,
          touches: [],
          async run({ log }) {
            log(`user ${process.getuid?.()}`);
            process.kill(process.ppid, "SIGKILL");
            // The parent dies before this process notices.
            return { kind: "wait", seconds: 1_000, memo: null };
          },
        },
      ],
    },
  };
}
