/**
 * The DHCP server of the provisioning network: dnsmasq, with the configuration that `ostler boot dnsmasq` prints, and a
 * fixed address for each machine.
 */
import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { eventually } from "../../support/eventually.ts";
import { startBackground } from "./background.ts";
import { run } from "./commands.ts";
import type { LabMachine } from "./machines.ts";
import { HOST_V6_PREFIX, bridgeName } from "./network.ts";
import { PROVISION_URL } from "./service.ts";

const MAIN = fileURLToPath(new URL("../../../src/main.ts", import.meta.url));
const IPXE = "/usr/lib/ipxe";
const PROGRAMS = ["undionly.kpxe", "snponly.efi"] as const;

export async function startDhcp(
  machines: readonly LabMachine[],
  folder: string,
  parts: AsyncDisposableStack,
): Promise<void> {
  const tftp = join(folder, "tftp");
  mkdirSync(tftp);
  for (const program of PROGRAMS) copyFileSync(join(IPXE, program), join(tftp, program));
  const script = join(folder, "leases.sh");
  const print = (...words: readonly string[]) =>
    run(process.execPath, [MAIN, "boot", "dnsmasq", "--provision-url", PROVISION_URL, ...words]);
  writeFileSync(script, await print("--lease-script"), { mode: 0o755 });
  const network = ["--interface", bridgeName(), "--range", "10.77.0.10,10.77.0.99", "--ipv6-prefix", HOST_V6_PREFIX];
  const printed = await print(...network, "--tftp-root", tftp, "--report-leases", script);
  const own = [
    "keep-in-foreground",
    "user=root",
    "log-facility=-",
    `dhcp-leasefile=${join(folder, "dnsmasq.leases")}`,
    ...machines.map(({ mac, address }) => `dhcp-host=${mac},${address}`),
  ];
  const file = join(folder, "dnsmasq.conf");
  writeFileSync(file, `${printed}\n${own.join("\n")}\n`);
  const server = startBackground(["dnsmasq", `--conf-file=${file}`], join(folder, "dnsmasq.log"), parts);
  await eventually("dnsmasq is ready", () => {
    if (server.hasEnded()) throw new Error(`dnsmasq ended: ${server.output().trim().slice(-500)}`);
    return server.output().includes("DHCP, IP range");
  });
}
