/** Settings of a fake node: the behavior of its machine, step by step. */
import { lazySchema } from "../lazy-schema.ts";
import type { Output } from "../lazy-schema.ts";

const milliseconds = lazySchema((z) => z.int().min(0).max(3_600_000));

const script = lazySchema((z) =>
  z
    .strictObject({
      delayMs: milliseconds.zod.optional().meta({ description: "Duration of the step, in milliseconds." }),
      waitSeconds: z
        .number()
        .min(0)
        .max(86_400)
        .optional()
        .meta({ description: "The step first waits for this number of seconds, then is entered again." }),
      callback: z.boolean().optional().meta({ description: "The step first waits for a callback." }),
      failures: z
        .int()
        .min(0)
        .optional()
        .meta({ description: "Number of failures before it succeeds, counted until the service restarts." }),
      fail: z.string().optional().meta({ description: "Fails every time, with this reason." }),
      retryable: z.boolean().optional().meta({ description: "Whether its failures are retryable." }),
      atRest: z
        .boolean()
        .optional()
        .meta({ description: "Its failures say that the machine does nothing for the step any more." }),
      throws: z.string().optional().meta({ description: "Throws an error with this message." }),
      junk: z.boolean().optional().meta({ description: "Returns an invalid result." }),
      silent: z.boolean().optional().meta({ description: "Ends only with its signal." }),
      stuck: z.boolean().optional().meta({
        description: "Waits half a second at a time while this is set; change the settings to let it continue.",
      }),
      gate: z.string().optional().meta({ description: "Waits at the gate with this name, which a test opens." }),
      ignoreSignal: z.boolean().optional().meta({ description: "Continues when its signal fires." }),
      says: z
        .array(z.string().max(10_000))
        .max(100)
        .optional()
        .meta({ description: "Lines that it writes to the step log before it works." }),
      progress: z.boolean().optional().meta({ description: "Reports progress while it works." }),
    })
    .meta({ description: "Script of one step." }),
);

export type Script = Output<typeof script>;

const disk = lazySchema((z) =>
  z
    .strictObject({
      name: z.string().max(64).optional().meta({ description: "Its name. Absent: disk0, disk1 and so on." }),
      serial: z
        .string()
        .max(64)
        .optional()
        .meta({ description: "Serial number. Absent: derived from the node's id; empty: the disk has none." }),
      wwn: z.string().max(64).optional().meta({ description: "World Wide Name." }),
      sizeBytes: z.int().min(0).optional().meta({ description: "Size; by default 960 GB." }),
      leftOut: z.string().max(200).optional().meta({ description: "The erasure leaves it out, for this reason." }),
      medium: z.boolean().optional().meta({ description: "The erasure leaves it out as a medium of the BMC." }),
      hiddenFrom: z
        .enum(["ERASURE", "INSPECTION"])
        .optional()
        .meta({
          description: "Work that does not see it.",
          enumDescriptions: {
            ERASURE: "The erasure neither erases nor reports it.",
            INSPECTION: "It is missing in the inventory.",
          },
        }),
    })
    .meta({ description: "One of the disks of the machine, and who sees it." }),
);

export type FakeDisk = Output<typeof disk>;

export const fakeSettings = lazySchema((z) =>
  z
    .strictObject({
      delayMs: milliseconds.zod
        .default(0)
        .meta({ description: "Duration of every step, unless its script sets another, in milliseconds." }),
      waitSeconds: z
        .number()
        .min(0)
        .max(86_400)
        .default(0)
        .meta({ description: "Time for which boot_system is parked while the machine starts, in seconds." }),
      steps: z
        .record(z.string().regex(/^[a-z]+\.[a-z_]+(\.verify)?$/), script.zod)
        .default({})
        .meta({
          description:
            "Scripts of single steps, by interface and name, as in deploy.write_image. Other scripts: power.read, power.set, driver.abort, and clean.update_firmware.verify, which checks whether the firmware has taken effect.",
        }),
      dead: z.boolean().default(false).meta({ description: "The BMC does not answer." }),
      refusesLogin: z.boolean().default(false).meta({ description: "The BMC refuses the login." }),
      powerDelayMs: milliseconds.zod.default(0).meta({ description: "Duration of a power change, in milliseconds." }),
      activity: z.string().max(200).nullable().optional().meta({
        description:
          "What the machine reports to be doing that must not be cut; null: nothing. Absent: it reports no activity.",
      }),
      lacks: z.array(z.string().max(80)).max(50).default([]).meta({
        description: "Abilities that the machine reports as missing, such as media or clean.update_firmware.",
      }),
      controller: z.string().max(253).optional().meta({
        bindsSecret: true,
        description:
          "Identity of the management controller; nodes with the same text share one. Absent: the node has its own.",
      }),
      serial: z
        .string()
        .max(64)
        .optional()
        .meta({ description: "Serial number that inspection reports. Absent: derived from the node's id." }),
      disks: z
        .array(disk.zod)
        .max(100)
        .optional()
        .meta({ description: "Disks of the machine; an empty list for none. Absent: derived from the node's id." }),
      outputs: z.boolean().default(false).meta({
        description: "The step configure returns a secret `join_token` and an `endpoint`, for later host groups.",
      }),
      password: z
        .string()
        .min(1)
        .max(128)
        .optional()
        .meta({ writeOnly: true, description: "A secret, to show that the API never returns it." }),
    })
    .meta({ description: "A simulated machine." }),
);

/** The variables that the steps read. `configure` returns all that it is given. */
export const fakeVariables = lazySchema((z) =>
  z.looseObject({
    image: z.string().max(2_000).optional().meta({ description: "Image to write. Absent: a default one." }),
  }),
);

export type FakeSettings = Output<typeof fakeSettings>;
