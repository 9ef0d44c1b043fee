/** How far a machine has come on its way to the agent, in words for operators. Pure. */
import type { AgentStatus, PowerState } from "../../src/drivers/driver.ts";

/** MEDIUM: a virtual medium of the BMC. NETWORK: PXE. HTTP: HTTP boot of UEFI. */
export type Route = "MEDIUM" | "NETWORK" | "HTTP";

/** The steps of a boot that the service sees, last first. */
type Reached = "CONTACT" | "KERNEL" | "SCRIPT" | "LEASE" | "NOTHING";

export function reachedBy({ contactAt, kernelAt, scriptAt, dhcpAt }: AgentStatus): Reached {
  if (contactAt !== null) return "CONTACT";
  if (kernelAt !== null) return "KERNEL";
  if (scriptAt !== null) return "SCRIPT";
  return dhcpAt === null ? "NOTHING" : "LEASE";
}

/** Progress, in percent and words. */
export function bootProgress(status: AgentStatus, route: Route): { readonly percent: number; readonly text: string } {
  switch (reachedBy(status)) {
    case "CONTACT":
      return { percent: 100, text: "the agent has made contact" };
    case "KERNEL":
      return { percent: 70, text: "the kernel was fetched" };
    case "SCRIPT":
      return { percent: 50, text: route === "MEDIUM" ? "the medium was fetched" : "the boot script was fetched" };
    case "LEASE":
      return { percent: 30, text: "the machine has a DHCP lease" };
    case "NOTHING":
      return { percent: 10, text: "the machine was powered on" };
  }
}

/** The failure of a boot whose time is over: what was seen last, and what to look at. */
export function bootFailure({ node, seconds, route, power }: BootFacts, status: AgentStatus): string {
  const { seen, advice } = lastSeen(status, route);
  const at = power === "ON" ? "" : ` The power of the machine is ${power} now.`;
  const others =
    status.strangers > 0
      ? ` ${status.strangers} other agents reported with the secret of this boot and were turned away: check whether the medium is inserted in another machine.`
      : "";
  return `The agent on node ${node} made no contact within ${seconds} s of power on. Last seen: ${seen}.${at}${others} ${advice}`;
}

interface BootFacts {
  readonly node: string;
  readonly seconds: number;
  readonly route: Route;
  readonly power: PowerState;
}

function lastSeen(status: AgentStatus, route: Route): { readonly seen: string; readonly advice: string } {
  const at = (time: string | null) => (time === null ? "" : ` at ${time}`);
  switch (reachedBy(status)) {
    case "CONTACT":
    case "KERNEL":
      return { seen: `the kernel was fetched${at(status.kernelAt)}`, advice: KERNEL_RUNS };
    case "SCRIPT":
      if (route === "MEDIUM") return { seen: `the medium was fetched${at(status.scriptAt)}`, advice: KERNEL_RUNS };
      return {
        seen: `the boot script was fetched${at(status.scriptAt)}`,
        advice:
          "Look at the console: the machine did not fetch the kernel. Check the setting architecture, and that OSTLER_PROVISION_URL is the address at which machines reach the service.",
      };
    case "LEASE":
      return {
        seen: `a DHCP lease${at(status.dhcpAt)}`,
        advice:
          "Check the boot options of the DHCP server (`ostler boot dnsmasq` prints them), TFTP, and that the machine reaches OSTLER_PROVISION_URL.",
      };
    case "NOTHING":
      return { seen: "power on", advice: NOTHING_SEEN[route] };
  }
}

const KERNEL_RUNS =
  "Look at the console: the kernel may lack a driver, or the agent an address. Check that the machine reaches OSTLER_PROVISION_URL, or give it a static address with the setting network.";

const NOTHING_SEEN: Readonly<Record<Route, string>> = {
  MEDIUM:
    "The BMC has not read the medium: check that it reaches OSTLER_PROVISION_URL, and on the console that the machine starts from the virtual CD; or set boot to NETWORK.",
  NETWORK:
    "No DHCP lease was reported: check the cable, the VLAN, the boot order, the setting bootMode, and that the MAC addresses of the node are known; a DHCP server other than dnsmasq reports no leases.",
  HTTP: "No DHCP lease was reported: check the cable, the VLAN, that HTTP boot is enabled in the firmware setup, and that the MAC addresses of the node are known; a DHCP server other than dnsmasq reports no leases.",
};
