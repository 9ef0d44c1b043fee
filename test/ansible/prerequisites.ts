/** Programs and rights that the lab of the driver `ansible` needs. */
import { spawnSync } from "node:child_process";
import { missingPrograms } from "../../packages/agent/build/programs.ts";

/** Why the lab cannot run here; null if it can. */
export function missingForHosts(): string | null {
  if (process.getuid?.() !== 0) return "It needs root, for network namespaces.";
  const missing = missingPrograms({
    "ansible-playbook": "ansible-core",
    "/usr/sbin/sshd": "openssh-server",
    ssh: "openssh-client",
    sshpass: "sshpass",
    ip: "iproute2",
    nsenter: "util-linux",
    openssl: "openssl",
  });
  if (missing !== null) return missing;
  const namespace = spawnSync("unshare", ["--net", "--pid", "--fork", "--mount-proc", "true"]);
  return namespace.status === 0 ? null : "Network and process namespaces cannot be created here.";
}
