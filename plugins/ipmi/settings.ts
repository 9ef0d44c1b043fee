/** Settings of a node with an IPMI BMC. */
import { bmcAddress, printableText } from "../bmc-settings.ts";
import { lazySchema } from "../lazy-schema.ts";
import type { Output } from "../lazy-schema.ts";

function bytesAtMost(bytes: number): (text: string) => boolean {
  return (text) => Buffer.byteLength(text) <= bytes;
}

export const ipmiSettings = lazySchema((z) =>
  z.strictObject({
    address: bmcAddress(z, { inUrls: false }),
    port: z.int().min(1).max(65535).default(623).meta({ bindsSecret: true, description: "UDP port of the BMC." }),
    username: printableText(z, 16)
      .refine((text) => !text.startsWith("-"), "begins with a dash, like an option of a program")
      .refine(bytesAtMost(16), "is longer than the 16 bytes of IPMI 2.0")
      .meta({ bindsSecret: true, description: "User name on the BMC, at most 16 bytes." }),
    password: printableText(z, 20)
      .refine(bytesAtMost(20), "is longer than the 20 bytes of IPMI 2.0")
      .meta({ writeOnly: true, description: "Password of that user, at most 20 bytes." }),
    // Suite 0 accepts any login, 1, 2, 15 and 16 do not encrypt, the others use MD5 and RC4; some crash ipmitool
    // 1.8.19.
    cipherSuite: z.literal([3, 17]).default(17).meta({
      bindsSecret: true,
      description: "IPMI cipher suite: 17 (SHA-256), or 3 (SHA-1) for BMCs that do not support 17.",
    }),
    privilege: z
      .enum(["USER", "OPERATOR", "ADMINISTRATOR"])
      .default("ADMINISTRATOR")
      .meta({
        description: "Privilege requested for a session.",
        enumDescriptions: {
          USER: "Can only read.",
          OPERATOR: "Can switch the power too.",
          ADMINISTRATOR: "Can do everything that the BMC offers.",
        },
      }),
    bootMode: z.enum(["UEFI", "BIOS"]).default("UEFI").meta({
      sharedEnum: "BootMode",
      description: "Firmware mode in which the machine starts when a boot device is set: UEFI or legacy BIOS.",
    }),
    replySeconds: z.int().min(1).max(10).default(2).meta({
      description: "Timeout for the first reply to a message, in seconds; each later attempt waits one second longer.",
    }),
    sessionTries: z
      .int()
      .min(1)
      .max(5)
      .default(3)
      .meta({ description: "Number of attempts per message before the BMC counts as silent." }),
  }),
);

export type IpmiSettings = Output<typeof ipmiSettings>;

/**
 * Seconds until ipmitool gives up on a silent BMC: it sends two forms of the request, `sessionTries` times each, and
 * waits one second longer each time.
 */
export function silentSeconds(settings: Pick<IpmiSettings, "replySeconds" | "sessionTries">): number {
  const { replySeconds: reply, sessionTries: tries } = settings;
  return 2 * (tries * reply + (tries * (tries - 1)) / 2);
}
