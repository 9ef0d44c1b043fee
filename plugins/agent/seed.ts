/**
 * The seed for cloud-init (NoCloud): the texts of its files. Pure. JSON is YAML, so what is not the user's own text is
 * written as JSON.
 */
import { createHash } from "node:crypto";
import type { AgentCall } from "./call.ts";
import { variablesOf } from "./variables.ts";

export type Seed = {
  readonly metaData: string;
  /** Empty: cloud-init requires the file. */
  readonly userData: string;
  readonly vendorData: string;
  /** Null: cloud-init asks by DHCP on the first interface with a link. */
  readonly networkConfig: string | null;
};

/** How many times the installed system tries to call home. */
const CALL_HOME_TRIES = 20;

export function seedOf(call: AgentCall, homeUrl: string | null): Seed {
  const { ssh_keys: keys = [], host_name: name, network_data: network } = variablesOf(call);
  const networkConfig = network ?? staticNetwork(call.settings.network);
  return {
    metaData: JSON.stringify({
      "instance-id": instanceId(call.attemptKey),
      "local-hostname": name ?? hostNameOf(call.node.name),
      "public-keys": keys,
    }),
    userData: call.userData ?? "",
    vendorData: homeUrl === null ? "" : `#cloud-config\n${JSON.stringify({ phone_home: phoneHome(homeUrl) })}\n`,
    networkConfig: networkConfig === null ? null : JSON.stringify(networkConfig),
  };
}

/** A new one makes cloud-init configure the system again, so each installation has its own. */
function instanceId(attemptKey: string): string {
  return `ostler-${createHash("sha256").update(attemptKey).digest("hex").slice(0, 16)}`;
}

/** With the host key, the first SSH connection need not trust blindly. */
function phoneHome(url: string) {
  return { url, post: ["instance_id", "hostname", "fqdn", "pub_key_ed25519"], tries: CALL_HOME_TRIES };
}

/** Names of nodes allow more than those of hosts. */
function hostNameOf(nodeName: string): string {
  const labels = nodeName
    .toLowerCase()
    .replaceAll(/[^a-z0-9.-]+/g, "-")
    .split(".")
    .map((label) => label.replaceAll(/^-+|-+$/g, "").slice(0, 63))
    .filter((label) => label !== "");
  return labels.length > 0 ? labels.join(".") : "node";
}

function staticNetwork(network: AgentCall["settings"]["network"]) {
  if (!network) return null;
  const { mac, address, gateway, dns = [] } = network;
  const anywhere = address.includes(":") ? "::/0" : "0.0.0.0/0";
  return {
    version: 2,
    ethernets: {
      boot: {
        match: { macaddress: mac.toLowerCase() },
        addresses: [address],
        ...(gateway !== undefined && { routes: [{ to: anywhere, via: gateway }] }),
        ...(dns.length > 0 && { nameservers: { addresses: dns } }),
      },
    },
  };
}
