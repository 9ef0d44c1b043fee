/** Settings of a node that the agent inspects, cleans or deploys. */
import * as z from "zod";
import { rootDisk } from "./variables.ts";

const MAC = /^[0-9a-f]{2}(:[0-9a-f]{2}){5}$/i;

/** The longest time that a machine may take to start the agent. */
export const BOOT_SECONDS_MAX = 3600;

const ipAddress = z.union([z.ipv4(), z.ipv6()], { error: "is not an IP address" });

const network = z
  .strictObject({
    mac: z.string().regex(MAC, "is not a MAC address").meta({ description: "MAC address of the interface." }),
    address: z
      .union([z.cidrv4(), z.cidrv6()], { error: "is not an address with the length of its prefix, as in 10.0.7.20/24" })
      .meta({ description: "IP address with the length of its prefix, as in 10.0.7.20/24." }),
    gateway: ipAddress.optional().meta({ description: "IP address of the router." }),
    dns: z.array(ipAddress).max(3).optional().meta({ description: "IP addresses of up to 3 name servers." }),
  })
  .optional()
  .meta({ description: "Static address for the agent, and for the installed system. Absent: both ask by DHCP." });

export const agentSettings = z.strictObject({
  boot: z
    .enum(["AUTO", "MEDIA", "NETWORK", "HTTP"])
    .default("AUTO")
    .meta({
      description: "How the machine starts the agent.",
      enumDescriptions: {
        AUTO: "From a virtual medium if the node's drivers offer it, otherwise by PXE.",
        MEDIA: "From a virtual medium of its BMC.",
        NETWORK: "By PXE.",
        HTTP: "By HTTP boot of UEFI.",
      },
    }),
  bootMode: z.enum(["UEFI", "BIOS"]).optional().meta({
    sharedEnum: "BootMode",
    description: "Firmware mode to request with a boot device. Absent: the machine's own.",
  }),
  architecture: z
    .enum(["X64", "ARM64"])
    .default("X64")
    .meta({ sharedEnum: "Architecture", description: "Architecture of the machine." }),
  network,
  console: z
    .string()
    .regex(/^tty[A-Za-z0-9]{1,12}(,[0-9]{1,7}[noe]?[5-8]?)?$/, "is not a console such as ttyS0,115200n8")
    .optional()
    .meta({
      description: "Console of the agent's kernel, as in ttyS0,115200n8. Absent: the agent's default.",
    }),
  rootDisk: rootDisk.optional().meta({
    description:
      "Disk to install on. Absent: the only disk, or the smallest of at least 4 GiB, of equal ones the first by place, serial number and WWN. Removable and read-only disks, and media of the BMC, are never chosen.",
  }),
  lldpSeconds: z.int().min(0).max(300).default(0).meta({
    description: "How long an inspection listens for neighbors (LLDP), in seconds. Switches report every 30 s.",
  }),
  callHome: z
    .enum(["REQUIRED", "NOT_REQUIRED"])
    .default("REQUIRED")
    .meta({
      description: "Whether the installed system must report that it runs.",
      enumDescriptions: {
        REQUIRED: "An image whose system does not call home is refused.",
        NOT_REQUIRED:
          "An image whose system does not call home is accepted too; its node is ACTIVE when the machine was started from its disk.",
      },
    }),
  bootTimeoutSeconds: z
    .int()
    .min(60)
    .max(BOOT_SECONDS_MAX)
    .default(900)
    .meta({ description: "Time from power on to the agent's first contact." }),
  callHomeTimeoutSeconds: z
    .int()
    .min(60)
    .max(4 * 3600)
    .default(1800)
    .meta({ description: "Time from the start of the installed system to its call home." }),
});

export type AgentSettings = z.output<typeof agentSettings>;
