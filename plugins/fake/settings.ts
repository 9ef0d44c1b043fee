/** Settings of a fake node: how its machine behaves, step by step. */
import * as z from "zod";

const milliseconds = z.int().min(0).max(3_600_000);

const script = z
  .strictObject({
    delayMs: milliseconds.optional().meta({ description: "How long the step works before it ends, in milliseconds." }),
    waitSeconds: z
      .number()
      .min(0)
      .max(86_400)
      .optional()
      .meta({ description: "The step first asks to be entered again after so many seconds." }),
    callback: z.boolean().optional().meta({ description: "The step first waits for a call-back." }),
    failures: z
      .int()
      .min(0)
      .optional()
      .meta({ description: "Fails so many times, counted for each run of the service; then it succeeds." }),
    fail: z.string().optional().meta({ description: "Fails every time, with this reason." }),
    retryable: z.boolean().optional().meta({ description: "Whether its failures may be tried again." }),
    throws: z.string().optional().meta({ description: "Throws an error with this message." }),
    junk: z.boolean().optional().meta({ description: "Returns what no step may return." }),
    silent: z.boolean().optional().meta({ description: "Never ends by itself." }),
    stuck: z.boolean().optional().meta({
      description:
        "Asks to be entered again every half second for as long as this is set; change the settings to let it go on.",
    }),
    gate: z.string().optional().meta({ description: "Waits at the gate of this name, which a test opens." }),
    ignoreSignal: z.boolean().optional().meta({ description: "Goes on working when its signal fires." }),
    says: z
      .array(z.string().max(10_000))
      .max(100)
      .optional()
      .meta({ description: "Lines that it writes to the step's log before it works." }),
    progress: z.boolean().optional().meta({ description: "Reports progress while it works." }),
  })
  .meta({ description: "What one step does." });

export type Script = z.infer<typeof script>;

export const fakeSettings = z
  .strictObject({
    delayMs: milliseconds
      .default(0)
      .meta({ description: "How long every step works, unless its script says otherwise, in milliseconds." }),
    waitSeconds: z
      .number()
      .min(0)
      .max(86_400)
      .default(0)
      .meta({ description: "How long boot_system is parked for the machine's start, in seconds." }),
    steps: z
      .record(z.string().regex(/^[a-z]+\.[a-z_]+(\.verify)?$/), script)
      .default({})
      .meta({
        description:
          "Scripts of single steps, by interface and name, as in deploy.write_image; power.read, power.set and clean.update_firmware.verify, the part that looks whether it has taken effect, are scripted likewise.",
      }),
    dead: z.boolean().default(false).meta({ description: "The BMC does not answer." }),
    refusesLogin: z.boolean().default(false).meta({ description: "The BMC refuses the login." }),
    powerDelayMs: milliseconds.default(0).meta({ description: "How long a change of power takes, in milliseconds." }),
    controller: z.string().max(253).optional().meta({
      description:
        "What its management controller is reached by; nodes with the same text share it. Absent: one of its own.",
    }),
    serial: z
      .string()
      .max(64)
      .optional()
      .meta({ description: "Serial number that inspection finds; made up from the node's id when absent." }),
    password: z
      .string()
      .min(1)
      .max(128)
      .optional()
      .meta({ writeOnly: true, description: "A secret, to see that it never comes back." }),
  })
  .meta({ description: "A machine that is not there." });

export type FakeSettings = z.infer<typeof fakeSettings>;
