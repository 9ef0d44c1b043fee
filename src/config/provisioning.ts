/** The settings of the listener for machines, and how machines reach it. */
import { accessSync, constants } from "node:fs";
import { isIP } from "node:net";
import { resolve } from "node:path";
import { messageOf } from "../errors.ts";
import { ConfigError, wholeNumber } from "./values.ts";

export interface ProvisioningConfig {
  /** Address of the provisioning listener, which machines reach; null: this replica has none. */
  readonly provisionHost: string | null;
  readonly provisionPort: number;
  /** How machines reach the provisioning listener of this replica or of another one; null: not configured. */
  readonly provisionUrl: string | null;
  /** Port of the listener for agents, which speaks TLS. */
  readonly provisionTlsPort: number;
  /** The lease file of dnsmasq; null: boot scripts are sent to any address. */
  readonly dhcpLeases: string | null;
}

/** The settings of the listener for machines; `value` gives a variable, empty if it is not set. */
export function provisioningOf(value: (name: string) => string): ProvisioningConfig {
  const tlsPort = wholeNumber("OSTLER_PROVISION_TLS_PORT", value("OSTLER_PROVISION_TLS_PORT"), 1, 65_535);
  const listener = listenerOf(value);
  if (listener.provisionHost !== null && tlsPort === listener.provisionPort)
    throw new ConfigError(
      `OSTLER_PROVISION_PORT and OSTLER_PROVISION_TLS_PORT are both ${tlsPort}. Use another port for one of them.`,
    );
  return { ...listener, provisionTlsPort: tlsPort, dhcpLeases: leasesOf(value("OSTLER_DHCP_LEASES")) };
}

function leasesOf(path: string): string | null {
  if (path === "") return null;
  try {
    accessSync(path, constants.R_OK);
  } catch (error) {
    throw new ConfigError(
      `OSTLER_DHCP_LEASES is ${JSON.stringify(path)}, which cannot be read: ${messageOf(error)}. Start dnsmasq first, which makes the file, and let the user of this service read it.`,
    );
  }
  return resolve(path);
}

function listenerOf(
  value: (name: string) => string,
): Pick<ProvisioningConfig, "provisionHost" | "provisionPort" | "provisionUrl"> {
  const host = value("OSTLER_PROVISION_HOST");
  // Machines must know the port before the service starts.
  const port = wholeNumber("OSTLER_PROVISION_PORT", value("OSTLER_PROVISION_PORT"), 1, 65_535);
  const url = value("OSTLER_PROVISION_URL");
  if (host !== "" && isIP(host) === 0)
    throw new ConfigError(
      `OSTLER_PROVISION_HOST is ${JSON.stringify(host)}, which is not an IP address. Use the address of this machine on the provisioning network.`,
    );
  if (url !== "") return { provisionHost: host || null, provisionPort: port, provisionUrl: provisionUrlOf(url) };
  if (host === "") return { provisionHost: null, provisionPort: port, provisionUrl: null };
  if (isWildcard(host))
    throw new ConfigError(
      `OSTLER_PROVISION_HOST is ${host}, which does not say how machines reach this service. Set OSTLER_PROVISION_URL too, as http://10.0.0.1:${port}.`,
    );
  if (host.includes("%"))
    throw new ConfigError(
      `OSTLER_PROVISION_HOST is ${host}, a link-local address, which URLs cannot name. Set OSTLER_PROVISION_URL too.`,
    );
  return {
    provisionHost: host,
    provisionPort: port,
    provisionUrl: `http://${isIP(host) === 6 ? `[${host}]` : host}:${port}`,
  };
}

function isWildcard(host: string): boolean {
  return /^(0\.0\.0\.0|[0:]*:[0:]*)$/.test(host);
}

/** An origin without a path. TLS is refused: neither iPXE nor a BMC knows the certificate for machines. */
function provisionUrlOf(text: string): string {
  const { origin, href } = URL.canParse(text) ? new URL(text) : { origin: "", href: text };
  if (!origin.startsWith("http://") || (href !== `${origin}/` && href !== origin))
    throw new ConfigError(
      `OSTLER_PROVISION_URL is ${JSON.stringify(text)}. Use http, an address that machines reach, and the port, as http://10.0.0.1:4010.`,
    );
  return origin;
}
