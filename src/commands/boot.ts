/** `ostler boot`: prints what the servers of a provisioning network need. It starts nothing. */
import { isIP, isIPv4, isIPv6 } from "node:net";
import { parseArgs } from "node:util";
import { ConfigError } from "../config/values.ts";
import { provisioningOf } from "../config/provisioning.ts";
import { VARIABLES } from "../config/variables.ts";
import { messageOf } from "../errors.ts";
import { dnsmasqConfig, leaseScriptText } from "../provisioning/dnsmasq.ts";

const TFTP_ROOT = "/srv/tftp";
const LEASE_TIME = "1h";

const SETTINGS = ["OSTLER_PROVISION_HOST", "OSTLER_PROVISION_PORT", "OSTLER_PROVISION_URL"] as const;

const BOOT_HELP = `Usage:
  ostler boot dnsmasq [flags]                    print the configuration of a dnsmasq for network boot
  ostler boot dnsmasq --lease-script [flags]     print the script with which that dnsmasq reports leases
  ostler boot help                               print this

The address of the listener is that of OSTLER_PROVISION_URL or OSTLER_PROVISION_HOST, also as --provision-url,
--provision-host and --provision-port. What is not given is printed as a comment.

Flags:
  --interface NAME           interface of the provisioning network
  --range FIRST,LAST[,MASK]  addresses to lease
  --lease-time TIME          how long, as 30m or 12h; default ${LEASE_TIME}
  --router ADDRESS           default router of the machines; default: none
  --dns ADDRESS[,ADDRESS]    DNS servers of the machines; default: none
  --proxy NETWORK            beside another DHCP server in this network, as 10.0.0.0: say only what to boot
  --server ADDRESS           with --proxy: IPv4 address of the dnsmasq; default: that of the listener
  --ipv6-prefix PREFIX       send router advertisements for this network of the interface, as fd77::
  --tftp-root FOLDER         folder with iPXE's programs; default ${TFTP_ROOT}
  --report-leases PATH       where the script of --lease-script was saved
`;

/** The text that the command prints. Throws a `ConfigError` for what cannot be used. */
export function bootText(environment: NodeJS.ProcessEnv, args: readonly string[]): string {
  const [what, ...rest] = args;
  if (what === undefined || what === "help" || what === "--help" || what === "-h") return BOOT_HELP;
  if (what !== "dnsmasq")
    throw new ConfigError(
      `\`ostler boot ${what}\` does not exist. Use \`ostler boot dnsmasq\` or \`ostler boot help\`.`,
    );
  const flags = readFlags(rest);
  if (flags.help === true) return BOOT_HELP;
  const url = urlOf(environment, flags);
  if (flags["lease-script"] === true) return leaseScriptText(url);
  if (flags.proxy !== undefined && flags.range !== undefined)
    throw new ConfigError("--range and --proxy exclude each other: beside another DHCP server, that one leases.");
  return dnsmasqConfig({
    url,
    interface: word("interface", flags.interface),
    range: rangeOf(flags.range),
    leaseTime: leaseTimeOf(flags["lease-time"] ?? LEASE_TIME),
    router: addressOf("router", flags.router),
    dns:
      flags.dns === undefined
        ? undefined
        : flags.dns
            .split(",")
            .map((one) => addressOf("dns", one))
            .join(","),
    proxy: addressOf("proxy", flags.proxy),
    server: flags.proxy === undefined ? undefined : serverOf(flags.server, url),
    ipv6Prefix: prefixOf(flags["ipv6-prefix"]),
    tftpRoot: pathOf("tftp-root", flags["tftp-root"]) ?? TFTP_ROOT,
    leaseScript: pathOf("report-leases", flags["report-leases"]),
  });
}

const OPTIONS = {
  help: { type: "boolean" },
  "lease-script": { type: "boolean" },
  interface: { type: "string" },
  range: { type: "string" },
  "lease-time": { type: "string" },
  router: { type: "string" },
  dns: { type: "string" },
  proxy: { type: "string" },
  server: { type: "string" },
  "ipv6-prefix": { type: "string" },
  "tftp-root": { type: "string" },
  "report-leases": { type: "string" },
  "provision-host": { type: "string" },
  "provision-port": { type: "string" },
  "provision-url": { type: "string" },
} as const;

type Flags = ReturnType<typeof readFlags>;

function readFlags(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], options: OPTIONS, allowPositionals: false }).values;
  } catch (error) {
    throw new ConfigError(`${messageOf(error).replace(/\.?$/, ".")} See \`ostler boot help\`.`);
  }
}

function urlOf(environment: NodeJS.ProcessEnv, flags: Flags): string {
  const given: Readonly<Record<(typeof SETTINGS)[number], string | undefined>> = {
    OSTLER_PROVISION_HOST: flags["provision-host"],
    OSTLER_PROVISION_PORT: flags["provision-port"],
    OSTLER_PROVISION_URL: flags["provision-url"],
  };
  const { provisionUrl } = provisioningOf((name) => {
    const flag = given[name as (typeof SETTINGS)[number]];
    return flag ?? (environment[name] || (VARIABLES[name]?.fallback ?? ""));
  });
  if (provisionUrl !== null) return provisionUrl;
  throw new ConfigError(
    "Neither OSTLER_PROVISION_URL nor OSTLER_PROVISION_HOST is set, so machines would not find this service. Set the one that the service uses, or give --provision-url.",
  );
}

/** Values become lines of a configuration file: no blank, comma or comment may get into them. */
function word(flag: string, text: string | undefined): string | undefined {
  if (text === undefined || /^[\w.:@-]+$/.test(text)) return text;
  throw new ConfigError(`--${flag} is ${JSON.stringify(text)}. Use letters, digits, dots, colons and dashes.`);
}

function addressOf(flag: string, text: string | undefined): string | undefined {
  if (text === undefined || isIPv4(text)) return text;
  throw new ConfigError(`--${flag} is ${JSON.stringify(text)}. Use an IPv4 address, as 10.0.0.1.`);
}

function rangeOf(text: string | undefined): string | undefined {
  const parts = text?.split(",") ?? [];
  if (text === undefined || ((parts.length === 2 || parts.length === 3) && parts.every((part) => isIPv4(part))))
    return text;
  throw new ConfigError(
    `--range is ${JSON.stringify(text)}. Use the first and the last address, and a netmask if the network has several, as 10.0.0.100,10.0.0.200 or 10.0.0.100,10.0.0.200,255.255.255.0.`,
  );
}

function leaseTimeOf(text: string): string {
  if (/^(\d+[mhd]?|infinite)$/.test(text)) return text;
  throw new ConfigError(`--lease-time is ${JSON.stringify(text)}. Use a number of seconds, or as 30m, 12h, 7d.`);
}

/** iPXE passes over the answer of a proxy that does not name a server. */
function serverOf(text: string | undefined, url: string): string {
  const { hostname } = new URL(url);
  if (text === undefined && isIP(hostname) !== 4)
    throw new ConfigError(
      `The listener is at ${hostname}, which is not an IPv4 address. Add --server with that of the dnsmasq.`,
    );
  return addressOf("server", text) ?? hostname;
}

function prefixOf(text: string | undefined): string | undefined {
  if (text === undefined || (isIPv6(text) && text.endsWith("::"))) return text;
  throw new ConfigError(`--ipv6-prefix is ${JSON.stringify(text)}. Use the network without its length, as fd77::.`);
}

function pathOf(flag: string, text: string | undefined): string | undefined {
  if (text === undefined || /^\/[\w./-]*$/.test(text)) return text;
  throw new ConfigError(
    `--${flag} is ${JSON.stringify(text)}. Use an absolute path of letters, digits, dots and dashes.`,
  );
}
