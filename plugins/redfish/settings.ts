/** Settings of a node with a Redfish service. */
import { X509Certificate } from "node:crypto";
import { bmcAddress, bmcName, printableText } from "../bmc-settings.ts";
import { lazySchema } from "../lazy-schema.ts";
import type { Output } from "../lazy-schema.ts";

/** Whether a text begins with a certificate that can be read. */
function isCertificate(text: string): boolean {
  try {
    return text.includes("-----BEGIN CERTIFICATE-----") && new X509Certificate(text).subject !== "";
  } catch {
    return false;
  }
}

export const redfishSettings = lazySchema((z) =>
  z.strictObject({
    address: bmcAddress(z, { inUrls: true }),
    port: z.int().min(1).max(65535).default(443).meta({ bindsSecret: true, description: "TCP port of the BMC." }),
    scheme: z
      .enum(["HTTPS", "HTTP"])
      .default("HTTPS")
      .meta({
        bindsSecret: true,
        description: "Protocol of the Redfish service.",
        enumDescriptions: {
          HTTPS: "Encrypted.",
          HTTP: "Sends the password unencrypted: for simulated machines only.",
        },
      }),
    username: printableText(z, 128)
      .refine((text) => !text.includes(":"), "contains a colon, which basic authentication does not allow")
      .meta({ bindsSecret: true, description: "User name on the BMC, without a colon." }),
    password: printableText(z, 256).meta({ writeOnly: true, description: "Password of that user." }),
    nextPassword: printableText(z, 256).optional().meta({
      writeOnly: true,
      description:
        "Password that the clean step rotate_password gives the user. While it is set, a login that fails with `password` is tried with it.",
    }),
    certificateAuthority: z.string().max(65_536).refine(isCertificate, "contains no PEM certificate").optional().meta({
      bindsSecret: true,
      description: "PEM certificates that the BMC's certificate must be signed by; absent: those of the system.",
    }),
    fingerprint: z
      .string()
      .regex(/^([0-9A-Fa-f]{2}:?){31}[0-9A-Fa-f]{2}$/, "is not a SHA-256 fingerprint (64 hexadecimal digits)")
      .optional()
      .meta({
        bindsSecret: true,
        description: "SHA-256 fingerprint of the BMC's certificate; nothing else of the certificate is then checked.",
      }),
    verifyCertificate: z.boolean().default(true).meta({
      bindsSecret: true,
      description: "False accepts every certificate: anyone on the management network can then read the password.",
    }),
    system: z.string().min(1).max(256).optional().meta({
      description:
        "`Id` of the computer system, for a BMC with several. Absent: the only one that can start an operating system.",
    }),
    bootMode: z.enum(["UEFI", "BIOS"]).optional().meta({
      sharedEnum: "BootMode",
      description: "Firmware mode to request with a boot device. Absent: the machine's own.",
    }),
  }),
);

export type RedfishSettings = Output<typeof redfishSettings>;

/** The part of the settings that decides where requests go and who sends them. */
export type Login = Pick<
  RedfishSettings,
  | "address"
  | "port"
  | "scheme"
  | "username"
  | "password"
  | "nextPassword"
  | "certificateAuthority"
  | "fingerprint"
  | "verifyCertificate"
>;

export function originOf(settings: Pick<RedfishSettings, "scheme" | "address" | "port">): string {
  return `${settings.scheme.toLowerCase()}://${bmcName(settings)}`;
}
