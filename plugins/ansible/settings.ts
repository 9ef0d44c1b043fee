/** Settings of a machine whose system the driver logs in to. */
import type * as Zod from "zod";
import { bmcAddress, printableText } from "../bmc-settings.ts";
import { lazySchema } from "../lazy-schema.ts";
import type { Output } from "../lazy-schema.ts";

/** Ansible evaluates templates in the variables of a host, and a shell takes a leading dash for an option. */
const USER = /^[A-Za-z_][A-Za-z0-9_.@\\-]*\$?$/;
const HOST_KEY = /^(ssh-|ecdsa-|sk-)[a-z0-9@.-]+ [A-Za-z0-9+/]+={0,3}$/;
const PRIVATE_KEY = /^-----BEGIN [A-Z ]*PRIVATE KEY-----\n[\s\S]*\n-----END [A-Z ]*PRIVATE KEY-----\s*$/;

const loginFields = (z: typeof Zod) => ({
  port: z.int().min(1).max(65535).default(22).meta({ bindsSecret: true, description: "TCP port of SSH." }),
  username: z
    .string()
    .max(64)
    .regex(USER, "is not a name of a user")
    .default("root")
    .meta({ bindsSecret: true, description: "User to log in as." }),
  privateKey: z
    .string()
    .min(8)
    .max(16_384)
    .regex(PRIVATE_KEY, "is not a private key in PEM or OpenSSH format")
    .optional()
    .meta({ writeOnly: true, description: "Private SSH key, without a passphrase." }),
  password: printableText(z, 128)
    .optional()
    .meta({ writeOnly: true, description: "Password of that user; needs the program sshpass." }),
  becomePassword: printableText(z, 128)
    .optional()
    .meta({ writeOnly: true, description: "Password for tasks that become another user, as by sudo." }),
  hostKey: z
    .enum(["KNOWN", "FIRST_USE"])
    .default("KNOWN")
    .meta({
      bindsSecret: true,
      description: "Which host key is accepted if `hostKeys` has none.",
      enumDescriptions: {
        KNOWN: "One that is known to SSH on the service's machine, as in /etc/ssh/ssh_known_hosts.",
        FIRST_USE:
          "The first one that the machine shows; later ones must be the same, until a request installs the system again.",
      },
    }),
});

/** Refuses settings without a login. */
function requireLogin(
  { privateKey, password }: { readonly privateKey?: string | undefined; readonly password?: string | undefined },
  context: Zod.RefinementCtx,
): void {
  if (privateKey === undefined && password === undefined)
    context.addIssue({ code: "custom", path: ["privateKey"], message: "is missing; give a privateKey or a password" });
}

export const ansibleSettings = lazySchema((z) =>
  z
    .strictObject({
      address: bmcAddress(z, { inUrls: false }).meta({
        address: true,
        bindsSecret: true,
        description: "Host name or IP address of the machine's system, without a port.",
      }),
      ...loginFields(z),
      hostKeys: z
        .array(z.string().max(4096).regex(HOST_KEY, "is not a public key such as ssh-ed25519 AAAA…"))
        .min(1)
        .max(10)
        .optional()
        .meta({ bindsSecret: true, description: "Public host keys of the machine; no other is accepted." }),
    })
    .superRefine(requireLogin),
);

export const discoverSettings = lazySchema((z) =>
  z
    .strictObject(loginFields(z))
    .superRefine(requireLogin)
    .meta({ description: "Login at systems: the settings of a node without the address." }),
);

/**
 * All variables are passed to Ansible, where those of the connection would lead the login of a node to another machine.
 */
export const ansibleVariables = lazySchema((z) =>
  z.looseObject({}).superRefine((variables, context) => {
    for (const name of Object.keys(variables))
      if (name.startsWith("ansible_"))
        context.addIssue({
          code: "custom",
          path: [name],
          message: "begins with ansible_; the driver sets these from the node's settings, and a play can set others",
        });
  }),
);

export type AnsibleSettings = Output<typeof ansibleSettings>;
export type Login = Output<typeof discoverSettings>;
