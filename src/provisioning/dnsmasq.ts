/**
 * The configuration of a dnsmasq that lets machines boot the agent over the network: DHCP, TFTP for the program of
 * iPXE, and the address of the boot script for iPXE itself. Also the script with which it reports leases.
 */
import { BOOT_SCRIPT_PATH } from "./boot-script.ts";

interface DnsmasqOptions {
  /** How machines reach the listener, without a slash at its end. */
  readonly url: string;
  readonly interface?: string | undefined;
  /** Addresses to lease, as `first,last` or `first,last,netmask`. */
  readonly range?: string | undefined;
  readonly leaseTime: string;
  readonly router?: string | undefined;
  readonly dns?: string | undefined;
  /** A network in which another DHCP server leases the addresses. */
  readonly proxy?: string | undefined;
  /** Address of the dnsmasq, which a proxy must name. */
  readonly server?: string | undefined;
  /** Prefix of the interface's IPv6 network, for router advertisements. */
  readonly ipv6Prefix?: string | undefined;
  readonly tftpRoot: string;
  /** Where the script that reports leases was saved. */
  readonly leaseScript?: string | undefined;
}

/** DHCP option 93 (RFC 4578 and later registrations) of the firmware that boots by TFTP and by HTTP. */
const CLIENTS = [
  { tag: "bios", numbers: [0], what: "BIOS" },
  { tag: "x64", numbers: [7, 9], what: "UEFI x64" },
  { tag: "arm64", numbers: [11], what: "UEFI arm64" },
  { tag: "x64http", numbers: [16], what: "UEFI HTTP boot x64" },
  { tag: "arm64http", numbers: [19], what: "UEFI HTTP boot arm64" },
] as const;

/** Programs of iPXE by the firmware that loads them by TFTP, and dnsmasq's names of these firmwares. */
const PROGRAMS = [
  { tag: "bios", file: "undionly.kpxe", services: ["x86PC"] },
  { tag: "x64", file: "snponly.efi", services: ["X86-64_EFI", "BC_EFI"] },
  { tag: "arm64", file: "snponly-arm64.efi", services: ["ARM64_EFI"] },
] as const;

const HTTP_PROGRAMS = [
  { tag: "x64http", folder: "x64" },
  { tag: "arm64http", folder: "arm64" },
] as const;

export function dnsmasqConfig(options: DnsmasqOptions): string {
  const { proxy } = options;
  return [
    ...introduction(options),
    "",
    ...base(options),
    "",
    ...(proxy === undefined ? leasing(options) : [`dhcp-range=${proxy},proxy`]),
    "",
    "# Who asks: option 93 is the firmware, option 175 and the user class are iPXE's own.",
    ...CLIENTS.flatMap(({ tag, numbers }) => numbers.map((one) => `dhcp-match=set:${tag},option:client-arch,${one}`)),
    "dhcp-match=set:ipxe,175",
    "dhcp-userclass=set:ipxe,iPXE",
    "",
    ...(proxy === undefined ? bootFiles(options) : proxyBootFiles(options)),
    "",
    ...advertisement(options),
    ...leaseReports(options),
    "",
  ].join("\n");
}

function introduction({ tftpRoot, url }: DnsmasqOptions): readonly string[] {
  return [
    "# dnsmasq for network boot of the agent; printed by `ostler boot dnsmasq`.",
    `# The listener of Ostler is at ${url}.`,
    "# dnsmasq gives iPXE to firmware by TFTP. From Debian's package ipxe:",
    `#   mkdir -p ${tftpRoot}`,
    `#   cp /usr/lib/ipxe/undionly.kpxe /usr/lib/ipxe/snponly.efi ${tftpRoot}/`,
    `# arm64: build bin-arm64-efi/snponly.efi from iPXE's sources, and save it as ${tftpRoot}/snponly-arm64.efi.`,
    "# UEFI HTTP boot: the listener serves /usr/lib/ipxe/snponly.efi of its own machine, or ipxe.efi in the folder of",
    "# the boot media (OSTLER_AGENT_DIR/x64, OSTLER_AGENT_DIR/arm64).",
    "# Check this file with: dnsmasq --test --conf-file=FILE",
  ];
}

function base({ interface: name, tftpRoot }: DnsmasqOptions): readonly string[] {
  return [
    "# No DNS.",
    "port=0",
    ...(name === undefined
      ? ["# Interface of the provisioning network (--interface).", "#interface=eth1"]
      : [`interface=${name}`]),
    "bind-interfaces",
    "log-dhcp",
    "enable-tftp",
    `tftp-root=${tftpRoot}`,
    "# Some firmware refuses the negotiation of larger blocks.",
    "tftp-no-blocksize",
  ];
}

function leasing({ range, leaseTime, router, dns }: DnsmasqOptions): readonly string[] {
  return [
    ...(range === undefined
      ? ["# Addresses to lease (--range).", "#dhcp-range=10.0.0.100,10.0.0.200,1h"]
      : [`dhcp-range=${range},${leaseTime}`]),
    // An empty option keeps dnsmasq from naming itself.
    `dhcp-option=option:router${router === undefined ? "" : `,${router}`}`,
    `dhcp-option=option:dns-server${dns === undefined ? "" : `,${dns}`}`,
    "# The only DHCP server of this network: answers machines that ask for an address of another one at once.",
    "dhcp-authoritative",
    "dhcp-no-override",
    "# Does not wait 3 s for an answer to ping before an address is offered.",
    "no-ping",
  ];
}

function bootFiles({ url }: DnsmasqOptions): readonly string[] {
  return [
    "# What they get. iPXE comes first: it must not load itself again.",
    `dhcp-boot=tag:ipxe,${url}${BOOT_SCRIPT_PATH}`,
    ...PROGRAMS.map(({ tag, file }) => `dhcp-boot=tag:!ipxe,tag:${tag},${file}`),
    '# UEFI HTTP boot: the firmware ignores an offer without "HTTPClient".',
    ...HTTP_PROGRAMS.flatMap(({ tag, folder }) => [
      `dhcp-boot=tag:!ipxe,tag:${tag},${httpProgram(url, folder)}`,
      `dhcp-option-force=tag:!ipxe,tag:${tag},60,HTTPClient`,
    ]),
  ];
}

function proxyBootFiles({ url, server }: DnsmasqOptions): readonly string[] {
  if (server === undefined) throw new Error("A proxy needs the address of the dnsmasq.");
  return [
    "# Beside another DHCP server: adds only what to boot (ports 67 and 4011).",
    ...PROGRAMS.flatMap(({ file, services }) =>
      services.map((service) => `pxe-service=tag:!ipxe,${service},"Ostler",${file}`),
    ),
    "# The address at the end is needed: without it, iPXE passes over the answer.",
    `dhcp-boot=tag:ipxe,${url}${BOOT_SCRIPT_PATH},,${server}`,
    "# UEFI HTTP boot: dnsmasq answers only the vendor classes that are named here.",
    "dhcp-pxe-vendor=PXEClient,HTTPClient",
    ...HTTP_PROGRAMS.map(({ tag, folder }) => `dhcp-boot=tag:!ipxe,tag:${tag},${httpProgram(url, folder)},,${server}`),
  ];
}

function httpProgram(url: string, folder: string): string {
  return `${url}/boot/agent/${folder}/ipxe.efi`;
}

function advertisement({ ipv6Prefix }: DnsmasqOptions): readonly string[] {
  const reason = "# Without a router advertisement, iPXE waits 13 s for IPv6 before it uses its IPv4 address.";
  return ipv6Prefix === undefined
    ? [`${reason} To send one, give the`, "# interface an address such as fd77::1/64 and use --ipv6-prefix fd77::", ""]
    : [reason, "enable-ra", `dhcp-range=${ipv6Prefix},ra-only,64,5m`, ""];
}

function leaseReports({ proxy, leaseScript }: DnsmasqOptions): readonly string[] {
  if (proxy !== undefined) return ["# A proxy leases no addresses, so it cannot report them to Ostler."];
  const reason = "# Reports leases to Ostler, which shows them with the boot of a machine.";
  return leaseScript === undefined
    ? [
        `${reason} Save the`,
        "# script of `ostler boot dnsmasq --lease-script`, make it executable, and use --report-leases PATH.",
      ]
    : [
        reason,
        `dhcp-script=${leaseScript}`,
        "# Also when a lease is renewed: a machine that boots again keeps its address.",
        "script-on-renewal",
      ];
}

/** The script that dnsmasq runs for each lease: with `add`, `old` or `del`, then the MAC. */
export function leaseScriptText(url: string): string {
  return `#!/bin/sh
# Reports the leases of dnsmasq to Ostler; printed by \`ostler boot dnsmasq --lease-script\`.
# Save it, make it executable, and name it in dnsmasq's configuration with dhcp-script=PATH and script-on-renewal.
# Needs curl or wget. dnsmasq waits for the script and for its output, so the report is sent in the background and
# prints nothing.
case $1 in add | old) ;; *) exit 0 ;; esac
# The MAC becomes part of an address. Addresses that are not of Ethernet have a prefix, and are not reported.
case $2 in *[!0-9A-Fa-f:]* | '') exit 0 ;; esac
report="${url}/boot/dhcp?mac=$2"
if command -v curl > /dev/null; then
  curl --silent --max-time 5 --request POST "$report" < /dev/null > /dev/null 2>&1 &
else
  wget --quiet --output-document=- --timeout=5 --tries=1 --post-data= "$report" < /dev/null > /dev/null 2>&1 &
fi
exit 0
`;
}
