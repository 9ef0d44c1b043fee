/** The DHCP server of the provisioning network: dnsmasq, with a fixed address for each machine. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { eventually } from "../../support/eventually.ts";
import { startBackground } from "./background.ts";
import type { LabMachine } from "./machines.ts";
import { bridgeName } from "./network.ts";

export async function startDhcp(
  machines: readonly LabMachine[],
  folder: string,
  parts: AsyncDisposableStack,
): Promise<void> {
  const file = join(folder, "dnsmasq.conf");
  const lines = [
    "keep-in-foreground",
    "port=0",
    `interface=${bridgeName()}`,
    "bind-interfaces",
    "user=root",
    "no-ping",
    "log-dhcp",
    "log-facility=-",
    `dhcp-leasefile=${join(folder, "dnsmasq.leases")}`,
    "dhcp-range=10.77.0.10,10.77.0.99,1h",
    // iPXE waits 13 s for a router advertisement where there is none.
    "enable-ra",
    "dhcp-range=fd77::,ra-only",
    ...machines.map(({ mac, address }) => `dhcp-host=${mac},${address}`),
  ];
  writeFileSync(file, `${lines.join("\n")}\n`);
  const server = startBackground(["dnsmasq", `--conf-file=${file}`], join(folder, "dnsmasq.log"), parts);
  await eventually("dnsmasq is ready", () => {
    if (server.hasEnded()) throw new Error(`dnsmasq ended: ${server.output().trim().slice(-500)}`);
    return server.output().includes("DHCP, IP range");
  });
}
