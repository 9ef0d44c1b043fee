/**
 * The servers from which files may be fetched: the configured ones, the service's own listener for machines, and those
 * of registered images. A server is a host with a port. Addresses at which no server of files is (`ipNetworks`) are
 * allowed only if they are listed themselves; a listed name may lead to loopback.
 */
import { isIP, isIPv6 } from "node:net";
import { isEmbeddingNetwork } from "./ip-addresses.ts";
import { ipNetworks, isNetwork } from "./ip-networks.ts";
import type { IpNetworks } from "./ip-networks.ts";

export interface FileServers {
  /** As configured, each valid by `isFileServer`. */
  readonly listed: readonly string[];
  /** URL of the service's own listener; null if there is none. */
  readonly own: string | null;
  /**
   * Why the file at a URL must not be fetched, as a sentence without its end; null if it may be. `images`: servers of
   * registered images, by `serverName`. `addresses`: those of the host; none if its name does not resolve. Without them
   * a name is not looked up, and only a server that cannot be allowed is refused.
   */
  problem(url: string, images: readonly string[], addresses?: readonly string[]): string | null;
}

const SERVERS = ipNetworks(null);
const LOOPBACK = ipNetworks(["127.0.0.0/8", "::1/128"]);

/** `own`: URL of the service's own listener. */
export function fileServers(listed: readonly string[], own: string | null): FileServers {
  const entries = listed.flatMap((text) => entryOf(text) ?? []);
  const ownName = own === null ? null : serverName(own);
  return {
    listed,
    own,
    problem(url, images, addresses) {
      const server = serverOf(url);
      if (!server)
        return "It is not the URL of a file on a server. Use an address such as https://files.example/bios.bin";
      const { host, port, name } = server;
      if (server.hasLogin)
        return `The URL on ${name} has a user or a password, which plans would show. Use one without them`;
      if (name === ownName) return null;
      const fitting = entries.filter((entry) => entry.port === null || entry.port === port);
      const isNamed = fitting.some((entry) => "host" in entry && entry.host === host);
      const isKnown = isNamed || images.includes(name);
      const notListed = `File server ${name} is not on the list of file servers. Add it to OSTLER_FILE_SERVERS, or register the image that it serves`;
      const found = addresses ?? literalOf(host);
      if (!found) return isKnown || fitting.some((entry) => "networks" in entry) ? null : notListed;
      if (found.length === 0 && !isKnown) return notListed;
      for (const address of found) {
        if (fitting.some((entry) => "networks" in entry && entry.networks.has(address))) continue;
        if (!SERVERS.has(address) && !(isNamed && LOOPBACK.has(address)))
          return `File server ${name}${address === host ? "" : ` (${address})`} has a loopback, link-local, metadata, multicast or broadcast address. List it in OSTLER_FILE_SERVERS to allow it`;
        if (!isKnown) return notListed;
      }
      return null;
    },
  };
}

/** A server by its host name, or by the addresses that its host has; `port`: null for every port. */
type Entry = ({ readonly host: string } | { readonly networks: IpNetworks }) & { readonly port: string | null };

/** Whether a text names file servers: a host, `host:port`, an IP address, or a network in CIDR notation. */
export function isFileServer(text: string): boolean {
  return entryOf(text) !== null;
}

function entryOf(text: string): Entry | null {
  if (isNetwork(text)) return isEmbeddingNetwork(text) ? null : { networks: ipNetworks([text]), port: null };
  if (isIP(text) !== 0) return entryOf(`${text}/${isIPv6(text) ? 128 : 32}`);
  const [, port = null] = /:(\d{1,5})$/.exec(text) ?? [];
  const server = /[/?#@\\\s]/.test(text) ? null : serverOf(`http://${text}`);
  if (!server) return null;
  const entry = isIP(server.host) === 0 ? { host: server.host } : entryOf(server.host);
  return entry && { ...entry, port };
}

interface Server {
  /** In lower case, without brackets and without a dot at its end. */
  readonly host: string;
  readonly port: string;
  /** Host and port. */
  readonly name: string;
  readonly hasLogin: boolean;
}

const DEFAULT_PORTS: Readonly<Record<string, string>> = { "http:": "80", "https:": "443" };

/** The server of a URL, whose unusual spellings of addresses are resolved; null if it names none. */
function serverOf(url: string): Server | null {
  // Programs do not agree on the host of a URL with a backslash.
  const parsed = /[\\\s]/.test(url) ? null : URL.parse(url);
  if (!parsed || parsed.hostname === "") return null;
  const host = parsed.hostname
    .replaceAll(/^\[|\]$/g, "")
    .replace(/\.$/, "")
    .toLowerCase();
  const port = parsed.port || (DEFAULT_PORTS[parsed.protocol] ?? "");
  const name = `${isIPv6(host) ? `[${host}]` : host}${port === "" ? "" : `:${port}`}`;
  return { host, port, name, hasLogin: parsed.username !== "" || parsed.password !== "" };
}

/** Host and port of the server of a URL; null if it names none. */
export function serverName(url: string): string | null {
  return serverOf(url)?.name ?? null;
}

/** Whether the host of a URL is an address of links, groups or clouds' metadata: no machine can download from it. */
export function isServerless(url: string): boolean {
  const [address] = literalOf(serverOf(url)?.host ?? "") ?? [];
  return address !== undefined && !SERVERS.has(address) && !LOOPBACK.has(address);
}

/** The addresses of a host that are known without a lookup. */
function literalOf(host: string): readonly string[] | null {
  if (isIP(host) !== 0) return [host];
  return /(^|\.)localhost$/.test(host) ? ["127.0.0.1"] : null;
}
