/** Variables of the deployment steps. */
import * as z from "zod";

const BYTES_MAX = Number.MAX_SAFE_INTEGER;

/** Hints that select one disk: all that are given must match. */
export const rootDisk = z
  .strictObject({
    path: z
      .string()
      .regex(/^\/dev\/[A-Za-z0-9/_.:-]{1,200}$/, "is not a path such as /dev/nvme0n1")
      .optional()
      .meta({
        description:
          "Device path in the agent, as in /dev/nvme0n1, or the place of the disk, as in /dev/disk/by-path/pci-0000:3b:00.0-nvme-1",
      }),
    controller: z
      .string()
      .regex(/^[0-9A-Fa-f]{4,}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]$/, "is not a PCI address such as 0000:3b:00.0")
      .optional()
      .meta({ description: "PCI address of the disk's controller, as in 0000:3b:00.0." }),
    slot: z.number().int().min(0).max(100_000).optional().meta({
      description: "Number of the bay, port or target at the controller, or of the PCI slot of an NVMe disk.",
    }),
    serial: z.string().trim().min(1).max(200).optional().meta({ description: "Serial number." }),
    wwn: z.string().trim().min(1).max(200).optional().meta({ description: "World Wide Name." }),
    vendor: z.string().trim().min(1).max(200).optional().meta({ description: "Vendor, or a part of it, in any case." }),
    model: z.string().trim().min(1).max(200).optional().meta({ description: "Model, or a part of it, in any case." }),
    kind: z
      .enum(["NVME", "SSD", "HDD", "VIRTUAL"])
      .optional()
      .meta({
        description: "Kind of disk.",
        enumDescriptions: {
          NVME: "Flash at an NVMe controller.",
          SSD: "Flash at another controller.",
          HDD: "Rotating disk.",
          VIRTUAL: "Disk of a virtual machine.",
        },
      }),
    rotational: z.boolean().optional().meta({ description: "Whether the disk rotates, as the kernel says." }),
    hctl: z
      .string()
      .regex(/^\d+:\d+:\d+:\d+$/, "is not a SCSI address such as 0:2:1:0")
      .optional()
      .meta({ description: "SCSI address (host, channel, target, LUN), as in 0:2:1:0." }),
    minimumBytes: z.number().int().min(1).max(BYTES_MAX).optional().meta({ description: "Smallest size, in bytes." }),
    maximumBytes: z.number().int().min(1).max(BYTES_MAX).optional().meta({ description: "Largest size, in bytes." }),
  })
  .refine(({ minimumBytes = 1, maximumBytes = BYTES_MAX }) => minimumBytes <= maximumBytes, {
    error: "is below minimumBytes, so that no disk matches",
    path: ["maximumBytes"],
  });

export type RootDisk = z.output<typeof rootDisk>;

const HOST_NAME =
  /^(?=.{1,253}$)[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$/;

export const agentVariables = z.strictObject({
  ssh_keys: z
    .array(
      z
        .string()
        .min(1)
        .max(16_384)
        .regex(/^\S+ \S+[^\n\r]*$/, "is not a public key in one line"),
    )
    .max(100)
    .optional()
    .meta({ description: "Public SSH keys of the default user of the installed system." }),
  host_name: z
    .string()
    .regex(HOST_NAME, "is not a host name")
    .optional()
    .meta({ description: "Host name of the installed system. Absent: made from the node's name." }),
  network_data: z.record(z.string(), z.json()).optional().meta({
    description:
      "Network configuration for cloud-init (version 1 or 2). Absent: the static address of the node's settings, otherwise DHCP.",
  }),
  root_disk: rootDisk
    .optional()
    .meta({ description: "Disk to install on, in place of `rootDisk` of the node's settings." }),
});

export type AgentVariables = z.output<typeof agentVariables>;

/** The variables of a call. A request whose variables do not match was refused. */
export function variablesOf({ variables }: { readonly variables: unknown }): AgentVariables {
  return agentVariables.parse(variables);
}
