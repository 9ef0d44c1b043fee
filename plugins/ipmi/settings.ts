/** Settings of a node whose power goes through an IPMI BMC. */
import * as z from "zod";

/** No address or name begins with a dash, so that a program cannot take one for an option. */
const ADDRESS = /^[0-9A-Za-z:][0-9A-Za-z.:_%-]*$/;
/** Environment variables and C strings end at NUL, and nothing a keyboard makes is a control character. */
const PRINTABLE = /^[^\p{Cc}]+$/u;

function bytesAtMost(bytes: number): (text: string) => boolean {
  return (text) => Buffer.byteLength(text) <= bytes;
}

export const ipmiSettings = z.strictObject({
  address: z
    .string()
    .min(1)
    .max(253)
    .regex(ADDRESS, "is not a host name or IP address")
    .meta({ description: "Host name or IP address of the BMC, without a port." }),
  port: z.int().min(1).max(65535).default(623).meta({ description: "UDP port of the BMC." }),
  // A length that does not fit ends the look at a text, so that one flaw is told once.
  username: z
    .string()
    .min(1, { abort: true })
    .max(16, { abort: true })
    .regex(PRINTABLE, "holds a control character")
    .refine(bytesAtMost(16), "is longer than the 16 bytes of IPMI 2.0")
    .meta({ description: "User name on the BMC, at most 16 bytes." }),
  password: z
    .string()
    .min(1, { abort: true })
    .max(20, { abort: true })
    .regex(PRINTABLE, "holds a control character")
    .refine(bytesAtMost(20), "is longer than the 20 bytes of IPMI 2.0")
    .meta({ writeOnly: true, description: "Password of that user, at most 20 bytes." }),
  // Suite 0 lets anybody in, 1 and 2 (15 and 16) do not encrypt, the rest is MD5 and RC4: with ipmitool 1.8.19 some of it crashes.
  cipherSuite: z
    .literal([3, 17])
    .default(17)
    .meta({ description: "IPMI cipher suite: 17 (SHA-256), or 3 (SHA-1) for BMCs that know nothing newer." }),
  privilege: z
    .enum(["USER", "OPERATOR", "ADMINISTRATOR"])
    .default("ADMINISTRATOR")
    .meta({ description: "Privilege asked for in a session. USER can only read; OPERATOR can switch power." }),
  bootMode: z
    .enum(["UEFI", "LEGACY"])
    .default("UEFI")
    .meta({ description: "How the machine shall start when a boot device is set: by UEFI or by a legacy BIOS." }),
  replySeconds: z.int().min(1).max(10).default(2).meta({
    description: "How long the first try of a message waits for a reply; each later try waits a second longer.",
  }),
  sessionTries: z
    .int()
    .min(1)
    .max(5)
    .default(3)
    .meta({ description: "How often a message is sent before the BMC counts as silent." }),
});

export type IpmiSettings = z.output<typeof ipmiSettings>;

/** The BMC as an operator would write it down. */
export function bmcName(settings: Pick<IpmiSettings, "address" | "port">): string {
  return settings.address.includes(":")
    ? `[${settings.address}]:${settings.port}`
    : `${settings.address}:${settings.port}`;
}

/**
 * Seconds until ipmitool gives a silent BMC up: it asks in two dialects, `sessionTries` times each, and waits
 * a second longer every time.
 */
export function silentSeconds(settings: Pick<IpmiSettings, "replySeconds" | "sessionTries">): number {
  const { replySeconds: reply, sessionTries: tries } = settings;
  return 2 * (tries * reply + (tries * (tries - 1)) / 2);
}
