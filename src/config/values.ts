/** The values of variables: what each kind of them may be. Errors name the variable and the remedy. */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { SettingError, messageOf } from "../errors.ts";
import { isFileServer } from "../runtime/file-servers.ts";
import { isEmbeddingNetwork } from "../runtime/ip-addresses.ts";
import { isNetwork } from "../runtime/ip-networks.ts";

/** An invalid configuration; the message is for the operator. */
export class ConfigError extends SettingError {}

const TOKEN_LENGTH_MIN = 16;

/**
 * The token, given itself or by its file; null if neither is given. An empty one is refused: its secret was not found.
 */
export function tokenOf(given: string | undefined, file: string | undefined): string | null {
  if (given !== undefined && file !== undefined)
    throw new ConfigError("OSTLER_TOKEN and OSTLER_TOKEN_FILE are both set. Remove one of them.");
  if (file === "")
    throw new ConfigError(
      "OSTLER_TOKEN_FILE is empty. Name the file with the token, or remove the variable to run without a token.",
    );
  const token = file === undefined ? given : readToken(file);
  if (token === undefined) return null;
  const source = file === undefined ? "OSTLER_TOKEN" : `The file ${file} of OSTLER_TOKEN_FILE`;
  if (token === "")
    throw new ConfigError(
      `${source} is empty, as if its secret had not been found. Set a token, or remove the variable to run without one.`,
    );
  if (/[\r\n]/.test(token)) throw new ConfigError(`${source} has more than one line. Use one line with the token.`);
  if (token.length < TOKEN_LENGTH_MIN)
    throw new ConfigError(
      `${source} has ${token.length} characters. Use at least ${TOKEN_LENGTH_MIN} random characters.`,
    );
  return token;
}

function readToken(file: string): string {
  try {
    return readFileSync(file, "utf8").replace(/\r?\n$/, "");
  } catch (error) {
    throw new ConfigError(
      `The token of OSTLER_TOKEN_FILE cannot be read: ${messageOf(error)}. Check its path, and that the user of the service may read it.`,
    );
  }
}

/** The files of a certificate and of its private key. */
export interface TlsFiles {
  readonly cert: string;
  readonly key: string;
}

export function tlsFilesOf(cert: string, key: string): TlsFiles | null {
  if (cert === "" && key === "") return null;
  if (cert === "" || key === "") {
    const [set, missing] = key === "" ? ["CERT", "KEY"] : ["KEY", "CERT"];
    throw new ConfigError(
      `OSTLER_TLS_${set} is ${cert || key}, but OSTLER_TLS_${missing} is not set. Set both, or neither for HTTP in clear.`,
    );
  }
  return { cert: resolve(cert), key: resolve(key) };
}

export function wholeNumber(name: string, text: string, least: number, most: number): number {
  const number = Number(text);
  if (!/^\d+$/.test(text) || number < least || number > most)
    throw new ConfigError(`${name} is ${JSON.stringify(text)}. Use a whole number from ${least} to ${most}.`);
  return number;
}

/** Ports that browsers and `fetch` refuse ("bad port"), by the Fetch standard. */
const BLOCKED_PORTS: readonly number[] = [
  1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110,
  111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532,
  540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061,
  6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
];

export function webPort(name: string, text: string): number {
  const port = wholeNumber(name, text, 0, 65_535);
  if (BLOCKED_PORTS.includes(port))
    throw new ConfigError(
      `${name} is ${port}, which browsers and fetch refuse to connect to, because other protocols use it. Use another port, such as 4000.`,
    );
  return port;
}

export function oneOf<Word extends string>(name: string, text: string, among: readonly Word[]): Word {
  const found = among.find((word) => word === text);
  if (found === undefined) throw new ConfigError(`${name} is ${text}. Use one of ${among.join(", ")}.`);
  return found;
}

/** Requires a URL with exactly one host: postgres.js would choose among several on its own. */
export function databaseUrlOf(name: string, text: string): string | null {
  if (text === "") return null;
  const [, authority] = /^postgres(?:ql)?:\/\/([^/?#]*)/.exec(text) ?? [];
  if (authority === undefined) throw new ConfigError(`${name} is not a PostgreSQL URL. Begin it with postgres://.`);
  const host = authority.slice(authority.lastIndexOf("@") + 1);
  if (host.includes(","))
    throw new ConfigError(
      `${name} names several hosts. Name one that always leads to the primary: a DNS name, a floating address or a proxy.`,
    );
  if (host.includes("%"))
    throw new ConfigError(`${name} names the path of a socket. Name a host, as postgres://user@127.0.0.1/name.`);
  if (/^(:\d*)?$/.test(host))
    throw new ConfigError(`${name} names no host. Name it before the database, as postgres://user@127.0.0.1/name.`);
  if (!isUrl(text))
    throw new ConfigError(
      `${name} is not a valid URL. Percent-encode reserved characters, especially in the password: / as %2F, ? as %3F, # as %23, % as %25.`,
    );
  if (new URL(text).searchParams.has("host"))
    throw new ConfigError(
      `${name} has a host parameter. Put the host before the database, as postgres://user@127.0.0.1/name. Sockets are not supported.`,
    );
  return text;
}

/** Whether a URL is valid, including its percent-encoding. */
function isUrl(text: string): boolean {
  try {
    const { username, password, pathname } = new URL(text);
    decodeURIComponent(username + password + pathname);
    return true;
  } catch {
    return false;
  }
}

/** Splits a comma-separated list. */
export function words(text: string): string[] {
  return text
    .split(",")
    .map((word) => word.trim())
    .filter((word) => word !== "");
}

export function networksOf(name: string, given: readonly string[]): readonly string[] | null {
  const wrong = given.find((network) => !isNetwork(network));
  if (wrong !== undefined)
    throw new ConfigError(
      `${name} has ${JSON.stringify(wrong)}, which is not a network. Use CIDR notation, as 10.0.0.0/8.`,
    );
  const embedding = given.find(isEmbeddingNetwork);
  if (embedding !== undefined)
    throw new ConfigError(
      `${name} has ${embedding}, whose addresses embed IPv4 addresses and count as those. List the IPv4 networks instead, as 10.0.0.0/8.`,
    );
  return given.length === 0 ? null : Object.freeze(given);
}

export function fileServersOf(given: readonly string[]): readonly string[] {
  const wrong = given.find((text) => !isFileServer(text));
  if (wrong !== undefined)
    throw new ConfigError(
      `OSTLER_FILE_SERVERS has ${JSON.stringify(wrong)}. Use a host, host:port, an IP address or a network, as files.example:8080 or 10.0.0.0/8, without a scheme; for an IPv6 address that embeds an IPv4 address, use the IPv4 address.`,
    );
  return Object.freeze(given);
}

/** An origin as browsers send it: no path, and no default port. */
export function originOf(text: string): string {
  const { origin, href } = URL.canParse(text) ? new URL(text) : { origin: "", href: text };
  if (!/^https?:/.test(origin) || href !== `${origin}/`)
    throw new ConfigError(
      `OSTLER_ORIGINS has ${JSON.stringify(text)}, which is not an origin. Use scheme, host and optional port, as https://console.example.`,
    );
  return origin;
}

/** Whether no third party can read or change the requests to a URL: over TLS, or on this machine. */
export function isConfidential({ protocol, hostname }: URL): boolean {
  return protocol === "https:" || isLoopback(hostname.replace(/^\[|\]$/g, ""));
}

/** Whether an address is reachable from this machine only. */
export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(host);
}
