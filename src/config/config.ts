/** The configuration: one frozen object from environment variables and flags, checked before anything starts. */
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { join, resolve } from "node:path";
import { isIP } from "node:net";
import { messageOf } from "./errors.ts";
import type { LogFormat, LogLevel } from "./log.ts";
import { LOG_FORMATS, LOG_LEVELS } from "./log.ts";
import { isEmbeddingNetwork } from "./runtime/ip-addresses.ts";
import { isNetwork } from "./runtime/ip-networks.ts";

/** The part of the service that a replica runs, so that API and engine can scale separately. */
export const ROLES = {
  all: "serves the API and runs operations",
  api: "serves the API; operations wait for a replica that runs them",
  engine: "runs operations; serves only health and metrics",
} as const;
export type Role = keyof typeof ROLES;

/** Use of prepared statements. auto: on, unless the connection goes through a pooler. */
const PREPARING = ["auto", "on", "off"] as const;

export interface Config {
  readonly role: Role;
  readonly host: string;
  readonly port: number;
  /** Folder of the embedded database. */
  readonly data: string;
  /** A PostgreSQL server; null: the embedded database. */
  readonly databaseUrl: string | null;
  /** URL for the LISTEN connection; null: `databaseUrl`. */
  readonly listenUrl: string | null;
  /** Connections shared by the engine and the API's writes; the sizes of the other pools derive from it. */
  readonly dbPool: number;
  readonly prepare: (typeof PREPARING)[number];
  /** Seconds that a start waits for a database that cannot be reached. */
  readonly dbWaitSeconds: number;
  readonly plugins: readonly string[];
  /** Where plugins are looked up by name; null: only among the bundled ones and packages. */
  readonly pluginFolder: string | null;
  /** Networks of BMCs, in CIDR notation; null: all but loopback, link-local, multicast and broadcast. */
  readonly bmcNetworks: readonly string[] | null;
  /** Address of the provisioning listener, which machines reach; null: this replica has none. */
  readonly provisionHost: string | null;
  readonly provisionPort: number;
  /** How machines reach the provisioning listener of this replica or of another one; null: not configured. */
  readonly provisionUrl: string | null;
  /** Folder of the boot media of the in-band agent. */
  readonly agentFolder: string;
  /** Folder of the stored images. */
  readonly imageFolder: string;
  /** Bearer token required of callers; null: none, allowed only on loopback. */
  readonly token: string | null;
  readonly log: LogLevel;
  readonly logFormat: LogFormat;
  /** Whether introspection queries are allowed. */
  readonly introspection: boolean;
  /** Allowed cross-origin web pages, as `https://name:port`. */
  readonly origins: readonly string[];
  /** Maximum size of a request body, in KiB. */
  readonly bodyKb: number;
  /** Maximum number of concurrent queries; the same limit applies to mutations. */
  readonly requests: number;
  /** Maximum number of runs executed at the same time. */
  readonly concurrency: number;
  /**
   * Maximum number of worker processes busy with steps; 0: drivers run in the service's process; null: `concurrency`.
   */
  readonly driverWorkers: number | null;
  /** Seconds between power readings of an idle node; 0: never. */
  readonly powerSeconds: number;
  /** Days that transitions are kept; 0: indefinitely. */
  readonly retentionDays: number;
  /** Register a demonstration fleet if there are no nodes; flag --demo only. */
  readonly demo: boolean;
}

/** An invalid configuration; the message is for the operator. */
export class ConfigError extends Error {}

/** At least one connection per kind of transaction; at most what servers usually allow. */
const DB_POOL_MIN = 4;
const DB_POOL_MAX = 200;
const DB_WAIT_SECONDS_MAX = 3_600;

interface Variable {
  readonly flag: string;
  readonly fallback: string;
  readonly help: string;
}

/** All variables. Any other name that begins with OSTLER_ is rejected as a typing error. */
export const VARIABLES: Readonly<Record<string, Variable>> = {
  OSTLER_ROLE: {
    flag: "role",
    fallback: "all",
    help: `part of the service that this replica runs: ${Object.entries(ROLES)
      .map(([role, what]) => `${role} (${what})`)
      .join(", ")}; api and engine need DATABASE_URL`,
  },
  OSTLER_HOST: {
    flag: "host",
    fallback: "127.0.0.1",
    help: "address to listen on; an address other than loopback needs OSTLER_TOKEN",
  },
  OSTLER_PORT: { flag: "port", fallback: "4000", help: "port; the API is at /graphql; 0 picks a free port" },
  OSTLER_DATA: { flag: "data", fallback: "./data", help: "folder of the embedded database" },
  DATABASE_URL: {
    flag: "database-url",
    fallback: "",
    help: "PostgreSQL 15 or later, as postgres://user@host/name, with exactly one host; default: the embedded database",
  },
  OSTLER_LISTEN_URL: {
    flag: "listen-url",
    fallback: "",
    help: "the same database without the pooler of DATABASE_URL, for the one LISTEN connection; default: DATABASE_URL",
  },
  OSTLER_DB_POOL: {
    flag: "db-pool",
    fallback: "20",
    help: `connections that the engine and the API's writes share, ${DB_POOL_MIN} to ${DB_POOL_MAX}; docs/replicas.md lists all connections of a replica`,
  },
  OSTLER_PREPARE: {
    flag: "prepare",
    fallback: "auto",
    help: "prepared statements: auto, on or off; auto uses them unless DATABASE_URL goes through a pooler; PgBouncer before 1.21 in transaction mode needs off",
  },
  OSTLER_DB_WAIT_SECONDS: {
    flag: "db-wait-seconds",
    fallback: "60",
    help: "seconds that a start waits for a database that cannot be reached, up to 3600; 0 does not wait",
  },
  OSTLER_PLUGINS: {
    flag: "plugins",
    fallback: "fake",
    help: "driver plugins, comma-separated: bundled names, names in the plugin folder, paths of modules or folders, or packages installed in the working folder; a suffix #sha512-… pins the content of a module",
  },
  OSTLER_PLUGIN_DIR: {
    flag: "plugin-dir",
    fallback: "",
    help: "folder in which plugins are looked up by name",
  },
  OSTLER_BMC_NETWORKS: {
    flag: "bmc-networks",
    fallback: "",
    help: "networks of BMCs, comma-separated, as 10.0.0.0/8,fd00:7::/64: discoveries and addresses in drivers' settings outside of them are refused; default: all networks but loopback, link-local, multicast and broadcast",
  },
  OSTLER_PROVISION_HOST: {
    flag: "provision-host",
    fallback: "",
    help: "address of the provisioning network on which the listener for machines serves boot scripts, the agent and images; default: no such listener",
  },
  OSTLER_PROVISION_PORT: {
    flag: "provision-port",
    fallback: "4010",
    help: "port of the listener for machines",
  },
  OSTLER_PROVISION_URL: {
    flag: "provision-url",
    fallback: "",
    help: "how machines reach the listener, as http://10.0.0.1:4010; default: from OSTLER_PROVISION_HOST and OSTLER_PROVISION_PORT; needed if the host is 0.0.0.0 or ::, and by replicas that run operations without the listener",
  },
  OSTLER_AGENT_DIR: {
    flag: "agent-dir",
    fallback: "",
    help: "folder with the boot media of the agent, one folder for each architecture, x64 and arm64; default: agent in OSTLER_DATA",
  },
  OSTLER_IMAGE_DIR: {
    flag: "image-dir",
    fallback: "",
    help: "folder of the stored images; default: images in OSTLER_DATA",
  },
  OSTLER_TOKEN: {
    flag: "token",
    fallback: "",
    help: "token that callers send as Authorization: Bearer …; at least 16 characters",
  },
  OSTLER_TOKEN_FILE: {
    flag: "token-file",
    fallback: "",
    help: "file with the token, in place of OSTLER_TOKEN; a newline at its end is dropped; read once, at the start",
  },
  OSTLER_LOG: { flag: "log", fallback: "info", help: `lowest level that is logged: ${LOG_LEVELS.join(", ")}` },
  OSTLER_LOG_FORMAT: {
    flag: "log-format",
    fallback: "auto",
    help: "format of the log: json (one object per line), text (short lines for people), auto (text on a terminal, else json)",
  },
  OSTLER_INTROSPECTION: {
    flag: "introspection",
    fallback: "on",
    help: "introspection: on or off; off also disables GET /schema.graphql and name suggestions in errors",
  },
  OSTLER_ORIGINS: {
    flag: "origins",
    fallback: "",
    help: "allowed origins of other web pages, comma-separated, as https://console.example; for HTTP and WebSocket",
  },
  OSTLER_BODY_KB: { flag: "body-kb", fallback: "1024", help: "maximum size of a request body in KiB, 64 to 65536" },
  OSTLER_REQUESTS: {
    flag: "requests",
    fallback: "64",
    help: "maximum concurrent queries of this process, and the same for mutations, 1 to 1024; further requests wait up to 5 seconds",
  },
  OSTLER_CONCURRENCY: {
    flag: "concurrency",
    fallback: "32",
    help: "maximum concurrent runs of this process, one per node, 1 to 512",
  },
  OSTLER_DRIVER_WORKERS: {
    flag: "driver-workers",
    fallback: "",
    help: "maximum worker processes that run steps of drivers, 1 to 512, 15 to 25 MB each; power readings and probes use additional ones; default: OSTLER_CONCURRENCY; 0 runs drivers inside the service, without isolation",
  },
  OSTLER_POWER_SECONDS: {
    flag: "power-seconds",
    fallback: "60",
    help: "seconds between power readings of idle nodes, up to 86400; 0 disables them",
  },
  OSTLER_RETENTION_DAYS: {
    flag: "retention-days",
    fallback: "0",
    help: "days that transitions are kept, up to 36500; 0 keeps them indefinitely",
  },
};

const TOKEN_LENGTH_MIN = 16;
const CONCURRENCY_MAX = 512;
const REQUESTS_MAX = 1_024;
const BODY_KB_MIN = 64;
const BODY_KB_MAX = 65_536;
const POWER_SECONDS_MAX = 86_400;
const RETENTION_DAYS_MAX = 36_500;

/** Reads the configuration; a flag overrides its variable. Throws a `ConfigError` that names the variable. */
export function readConfig(environment: NodeJS.ProcessEnv, args: readonly string[]): Config {
  const unknown = Object.keys(environment).filter((name) => name.startsWith("OSTLER_") && !(name in VARIABLES));
  if (unknown.length > 0)
    throw new ConfigError(
      `Unknown variable ${unknown.join(", ")}. Known variables: ${Object.keys(VARIABLES).join(", ")}.`,
    );
  const flags = readFlags(args);
  const value = (name: string): string => {
    const variable = VARIABLES[name];
    return flags.values[variable?.flag ?? ""] ?? (environment[name] || (variable?.fallback ?? ""));
  };
  const host = value("OSTLER_HOST");
  const token = tokenOf(
    flags.values["token"] ?? environment["OSTLER_TOKEN"],
    flags.values["token-file"] ?? environment["OSTLER_TOKEN_FILE"],
  );
  if (!isLoopback(host) && token === null) {
    throw new ConfigError(
      `OSTLER_HOST is ${host}, which other machines can reach, but neither OSTLER_TOKEN nor OSTLER_TOKEN_FILE is set. Set one of them, or listen on 127.0.0.1.`,
    );
  }
  const role = oneOf("OSTLER_ROLE", value("OSTLER_ROLE"), Object.keys(ROLES) as Role[]);
  const databaseUrl = databaseUrlOf("DATABASE_URL", value("DATABASE_URL"));
  if (databaseUrl === null && role !== "all") {
    throw new ConfigError(
      `OSTLER_ROLE is ${role}, but DATABASE_URL is not set. Other replicas cannot use the embedded database. Set DATABASE_URL, or use the role all.`,
    );
  }
  const listenUrl = databaseUrlOf("OSTLER_LISTEN_URL", value("OSTLER_LISTEN_URL"));
  if (listenUrl !== null && databaseUrl === null)
    throw new ConfigError("OSTLER_LISTEN_URL is set, but DATABASE_URL is not. Set both or neither.");
  const data = resolve(value("OSTLER_DATA"));
  const introspection = oneOf("OSTLER_INTROSPECTION", value("OSTLER_INTROSPECTION"), ["on", "off"]);
  return Object.freeze({
    role,
    host,
    port: wholeNumber("OSTLER_PORT", value("OSTLER_PORT"), 0, 65_535),
    data,
    databaseUrl,
    listenUrl,
    dbPool: wholeNumber("OSTLER_DB_POOL", value("OSTLER_DB_POOL"), DB_POOL_MIN, DB_POOL_MAX),
    prepare: oneOf("OSTLER_PREPARE", value("OSTLER_PREPARE"), PREPARING),
    dbWaitSeconds: wholeNumber("OSTLER_DB_WAIT_SECONDS", value("OSTLER_DB_WAIT_SECONDS"), 0, DB_WAIT_SECONDS_MAX),
    plugins: Object.freeze(words(value("OSTLER_PLUGINS"))),
    pluginFolder: value("OSTLER_PLUGIN_DIR") || null,
    bmcNetworks: networksOf(words(value("OSTLER_BMC_NETWORKS"))),
    ...provisioningOf(value),
    agentFolder: resolve(value("OSTLER_AGENT_DIR") || join(data, "agent")),
    imageFolder: resolve(value("OSTLER_IMAGE_DIR") || join(data, "images")),
    token,
    log: oneOf("OSTLER_LOG", value("OSTLER_LOG"), LOG_LEVELS),
    logFormat: oneOf("OSTLER_LOG_FORMAT", value("OSTLER_LOG_FORMAT"), LOG_FORMATS),
    introspection: introspection === "on",
    origins: Object.freeze(words(value("OSTLER_ORIGINS")).map(originOf)),
    bodyKb: wholeNumber("OSTLER_BODY_KB", value("OSTLER_BODY_KB"), BODY_KB_MIN, BODY_KB_MAX),
    requests: wholeNumber("OSTLER_REQUESTS", value("OSTLER_REQUESTS"), 1, REQUESTS_MAX),
    concurrency: wholeNumber("OSTLER_CONCURRENCY", value("OSTLER_CONCURRENCY"), 1, CONCURRENCY_MAX),
    driverWorkers:
      value("OSTLER_DRIVER_WORKERS") === ""
        ? null
        : wholeNumber("OSTLER_DRIVER_WORKERS", value("OSTLER_DRIVER_WORKERS"), 0, CONCURRENCY_MAX),
    powerSeconds: wholeNumber("OSTLER_POWER_SECONDS", value("OSTLER_POWER_SECONDS"), 0, POWER_SECONDS_MAX),
    retentionDays: wholeNumber("OSTLER_RETENTION_DAYS", value("OSTLER_RETENTION_DAYS"), 0, RETENTION_DAYS_MAX),
    demo: flags.demo,
  });
}

/** The settings of the listener for machines; `value` gives a variable, empty if it is not set. */
export function provisioningOf(
  value: (name: string) => string,
): Pick<Config, "provisionHost" | "provisionPort" | "provisionUrl"> {
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

/** An origin without a path. TLS is refused: neither iPXE nor the agent knows the service's certificate. */
function provisionUrlOf(text: string): string {
  const { origin, href } = URL.canParse(text) ? new URL(text) : { origin: "", href: text };
  if (!origin.startsWith("http://") || (href !== `${origin}/` && href !== origin))
    throw new ConfigError(
      `OSTLER_PROVISION_URL is ${JSON.stringify(text)}. Use http, an address that machines reach, and the port, as http://10.0.0.1:4010.`,
    );
  return origin;
}

/** The plugins for `ostler schema` and their folder: its flags, else those that the service would use. */
export function readPlugins(
  environment: NodeJS.ProcessEnv,
  args: readonly string[],
): Pick<Config, "plugins" | "pluginFolder"> {
  const valueOf = (name: "OSTLER_PLUGINS" | "OSTLER_PLUGIN_DIR", flag: string | undefined) =>
    flag ?? (environment[name] || (VARIABLES[name]?.fallback ?? ""));
  try {
    const { values } = parseArgs({
      args: [...args],
      options: { plugins: { type: "string" }, "plugin-dir": { type: "string" } },
      allowPositionals: false,
    });
    return {
      plugins: words(valueOf("OSTLER_PLUGINS", values.plugins)),
      pluginFolder: valueOf("OSTLER_PLUGIN_DIR", values["plugin-dir"]) || null,
    };
  } catch (error) {
    throw new ConfigError(
      `${messageOf(error).replace(/\.?$/, ".")} \`ostler schema\` takes --plugins, ${VARIABLES["OSTLER_PLUGINS"]?.help ?? ""}, and --plugin-dir.`,
    );
  }
}

/** The text of `ostler help`. */
export function helpText(): string {
  const flags = Object.entries(VARIABLES).map(
    ([name, { flag, fallback, help }]) =>
      `  --${flag} (${name})\n      ${help}${fallback === "" ? "" : `; default ${fallback}`}\n`,
  );
  return `Usage:
  ostler [flags]                    run the service
  ostler migrate [flags]            migrate the database of DATABASE_URL, and exit
  ostler schema [--plugins a,b]     print the GraphQL schema with these driver plugins
  ostler boot dnsmasq [flags]       print the configuration of a dnsmasq for network boot; see ostler boot help
  ostler image add FILE [flags]     register an image of an operating system; see ostler image help
  ostler help                       print this

Flags, each with its variable; a flag overrides its variable:
${flags.join("")}  --demo
      register a demonstration fleet if there are no nodes
`;
}

function readFlags(args: readonly string[]): {
  readonly values: Readonly<Record<string, string | undefined>>;
  readonly demo: boolean;
} {
  const options = Object.fromEntries(Object.values(VARIABLES).map(({ flag }) => [flag, { type: "string" as const }]));
  try {
    const { demo, ...values } = parseArgs({
      args: [...args],
      options: { ...options, demo: { type: "boolean" } },
      allowPositionals: false,
    }).values as Record<string, string | boolean | undefined>;
    return { values: values as Record<string, string | undefined>, demo: demo === true };
  } catch (error) {
    const flags = Object.values(VARIABLES).map(({ flag }) => `--${flag}`);
    throw new ConfigError(`${messageOf(error).replace(/\.?$/, ".")} Known flags: ${flags.join(", ")} and --demo.`);
  }
}

/**
 * The token, given itself or by its file; null if neither is given. An empty one is refused: its secret was not found.
 */
function tokenOf(given: string | undefined, file: string | undefined): string | null {
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

function wholeNumber(name: string, text: string, least: number, most: number): number {
  const number = Number(text);
  if (!/^\d+$/.test(text) || number < least || number > most)
    throw new ConfigError(`${name} is ${JSON.stringify(text)}. Use a whole number from ${least} to ${most}.`);
  return number;
}

function oneOf<Word extends string>(name: string, text: string, among: readonly Word[]): Word {
  const found = among.find((word) => word === text);
  if (found === undefined) throw new ConfigError(`${name} is ${text}. Use one of ${among.join(", ")}.`);
  return found;
}

/** Requires a URL with exactly one host: postgres.js and pg-boss disagree about host lists, sockets and defaults. */
function databaseUrlOf(name: string, text: string): string | null {
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
function words(text: string): string[] {
  return text
    .split(",")
    .map((word) => word.trim())
    .filter((word) => word !== "");
}

function networksOf(given: readonly string[]): readonly string[] | null {
  const wrong = given.find((network) => !isNetwork(network));
  if (wrong !== undefined)
    throw new ConfigError(
      `OSTLER_BMC_NETWORKS has ${JSON.stringify(wrong)}, which is not a network. Use CIDR notation, as 10.0.0.0/8.`,
    );
  const embedding = given.find(isEmbeddingNetwork);
  if (embedding !== undefined)
    throw new ConfigError(
      `OSTLER_BMC_NETWORKS has ${embedding}, whose addresses embed IPv4 addresses and count as those. List the IPv4 networks instead, as 10.0.0.0/8.`,
    );
  return given.length === 0 ? null : Object.freeze(given);
}

/** An origin as browsers send it: no path, and no default port. */
function originOf(text: string): string {
  const { origin, href } = URL.canParse(text) ? new URL(text) : { origin: "", href: text };
  if (!/^https?:/.test(origin) || href !== `${origin}/`)
    throw new ConfigError(
      `OSTLER_ORIGINS has ${JSON.stringify(text)}, which is not an origin. Use scheme, host and optional port, as https://console.example.`,
    );
  return origin;
}

/** Whether an address is reachable from this machine only. */
export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(host);
}

/** The configuration for the log, without secrets. */
export function configForLog(config: Config): Record<string, unknown> {
  const { token, databaseUrl, listenUrl, ...open } = config;
  return {
    ...open,
    token: token === null ? null : "***",
    databaseUrl: databaseUrl && urlWithoutSecrets(databaseUrl),
    listenUrl: listenUrl && urlWithoutSecrets(listenUrl),
  };
}

/** A database URL without its password, and without its parameters, which may hold one. */
export function urlWithoutSecrets(databaseUrl: string): string {
  const { protocol, username, password, host, pathname } = new URL(databaseUrl);
  const user = username + (password === "" ? "" : ":***");
  return `${protocol}//${user === "" ? "" : `${user}@`}${host}${pathname}`;
}
