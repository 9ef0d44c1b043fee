/** The configuration: one frozen object from environment variables and flags, checked before anything starts. */
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { messageOf } from "../errors.ts";
import { LOG_FORMATS, LOG_LEVELS } from "../log.ts";
import type { LogFormat, LogLevel } from "../log.ts";
import { issuersOf } from "./oidc.ts";
import type { IssuerConfig } from "./oidc.ts";
import { provisioningOf } from "./provisioning.ts";
import type { ProvisioningConfig } from "./provisioning.ts";
import {
  ConfigError,
  databaseUrlOf,
  fileServersOf,
  isLoopback,
  networksOf,
  oneOf,
  originOf,
  tlsFilesOf,
  tokenOf,
  webPort,
  wholeNumber,
  words,
} from "./values.ts";
import type { TlsFiles } from "./values.ts";
import { DB_POOL_MAX, DB_POOL_MIN, readFlags, ROLES, VARIABLES } from "./variables.ts";
import type { Role } from "./variables.ts";

/** Use of prepared statements. auto: on, unless the connection goes through a pooler. */
const PREPARING = ["auto", "on", "off"] as const;

export interface Config extends ProvisioningConfig {
  readonly role: Role;
  readonly host: string;
  readonly port: number;
  /** The certificate of the port; null: HTTP in clear. */
  readonly tls: TlsFiles | null;
  /** Networks of proxies, in CIDR notation: what they say of the sender of a request counts. */
  readonly proxies: readonly string[];
  /** Folder of the embedded database. */
  readonly data: string;
  /** A PostgreSQL server; null: the embedded database. */
  readonly databaseUrl: string | null;
  /** URL for the LISTEN connection; null: `databaseUrl`. */
  readonly listenUrl: string | null;
  /** Master keys of the secrets, themselves or in a file; both null: the key file of the embedded database. */
  readonly secretKeys: string | null;
  readonly secretKeysFile: string | null;
  /** Connections shared by the engine and the API's writes; the sizes of the other pools derive from it. */
  readonly dbPool: number;
  readonly prepare: (typeof PREPARING)[number];
  /** Seconds that a start waits for a database that cannot be reached. */
  readonly dbWaitSeconds: number;
  readonly plugins: readonly string[];
  /** Where plugins are looked up by name; null: only among the bundled ones and packages. */
  readonly pluginFolder: string | null;
  /** Networks of BMCs, in CIDR notation; null: all but loopback, link-local, metadata, multicast and broadcast. */
  readonly bmcNetworks: readonly string[] | null;
  /** Servers of files that callers name: hosts, `host:port`, IP addresses and networks. */
  readonly fileServers: readonly string[];
  /** Folder of the boot media of the in-band agent. */
  readonly agentFolder: string;
  /** Folder of the stored images. */
  readonly imageFolder: string;
  /** Token of a caller that may do everything; null: none. */
  readonly token: string | null;
  /** Issuers of JWTs. Without one, and without a token, callers need no credential: only on loopback. */
  readonly issuers: readonly IssuerConfig[];
  /** Principals that are always administrators. */
  readonly admins: readonly string[];
  readonly log: LogLevel;
  readonly logFormat: LogFormat;
  /** Whether the web console is served. */
  readonly console: boolean;
  /** Whether introspection queries are allowed. */
  readonly introspection: boolean;
  /** Allowed cross-origin web pages, as `https://name:port`. */
  readonly origins: readonly string[];
  /** Maximum size of a request body, in KiB. */
  readonly bodyKb: number;
  /** Seconds that an idle HTTP connection stays open. */
  readonly keepAliveSeconds: number;
  /** Maximum number of concurrent queries; the same limit applies to mutations. */
  readonly requests: number;
  /** Maximum number of runs executed at the same time. */
  readonly concurrency: number;
  /**
   * Maximum number of worker processes busy with steps; 0: drivers run in the service's process; null: `concurrency`.
   */
  readonly driverWorkers: number | null;
  /** User of worker processes, by name or number; `service`: that of the service; empty: the default. */
  readonly driverUser: string;
  /** Seconds between power readings of an idle node; 0: never. */
  readonly powerSeconds: number;
  /** Days that transitions are kept; 0: indefinitely. */
  readonly retentionDays: number;
  /** The same of rows of the audit. */
  readonly auditDays: number;
  /** Register a demonstration fleet if there are no nodes; flag --demo only. */
  readonly demo: boolean;
}

const DB_WAIT_SECONDS_MAX = 3_600;
const CONCURRENCY_MAX = 512;
const REQUESTS_MAX = 1_024;
const BODY_KB_MIN = 64;
const BODY_KB_MAX = 65_536;
const KEEP_ALIVE_SECONDS_MAX = 3_600;
const POWER_SECONDS_MAX = 86_400;
const RETENTION_DAYS_MAX = 36_500;

/** The address for the commands that speak to a running service (packages/cli). */
export const CLIENT_VARIABLE = "OSTLER_URL";

/** Reads the configuration; a flag overrides its variable. Throws a `ConfigError` that names the variable. */
export function readConfig(environment: NodeJS.ProcessEnv, args: readonly string[]): Config {
  const known = { ...VARIABLES, [CLIENT_VARIABLE]: null };
  const unknown = Object.keys(environment).filter((name) => name.startsWith("OSTLER_") && !(name in known));
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
  const issuers = issuersOf(value("OSTLER_OIDC"));
  requireCredentials(host, token !== null || issuers.length > 0);
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
  const isOn = (name: string) => oneOf(name, value(name), ["on", "off"]) === "on";
  const number = (name: string, least: number, most: number) => wholeNumber(name, value(name), least, most);
  return Object.freeze({
    role,
    host,
    port: webPort("OSTLER_PORT", value("OSTLER_PORT")),
    tls: tlsFilesOf(value("OSTLER_TLS_CERT"), value("OSTLER_TLS_KEY")),
    proxies: networksOf("OSTLER_PROXIES", words(value("OSTLER_PROXIES"))) ?? [],
    data,
    databaseUrl,
    listenUrl,
    secretKeys: value("OSTLER_SECRET_KEYS") || null,
    secretKeysFile: value("OSTLER_SECRET_KEYS_FILE") || null,
    dbPool: number("OSTLER_DB_POOL", DB_POOL_MIN, DB_POOL_MAX),
    prepare: oneOf("OSTLER_PREPARE", value("OSTLER_PREPARE"), PREPARING),
    dbWaitSeconds: number("OSTLER_DB_WAIT_SECONDS", 0, DB_WAIT_SECONDS_MAX),
    plugins: Object.freeze(words(value("OSTLER_PLUGINS"))),
    pluginFolder: value("OSTLER_PLUGIN_DIR") || null,
    bmcNetworks: networksOf("OSTLER_BMC_NETWORKS", words(value("OSTLER_BMC_NETWORKS"))),
    fileServers: fileServersOf(words(value("OSTLER_FILE_SERVERS"))),
    ...provisioningOf(value),
    agentFolder: resolve(value("OSTLER_AGENT_DIR") || join(data, "agent")),
    imageFolder: resolve(value("OSTLER_IMAGE_DIR") || join(data, "images")),
    token,
    issuers,
    admins: Object.freeze(words(value("OSTLER_ADMINS"))),
    log: oneOf("OSTLER_LOG", value("OSTLER_LOG"), LOG_LEVELS),
    logFormat: oneOf("OSTLER_LOG_FORMAT", value("OSTLER_LOG_FORMAT"), LOG_FORMATS),
    console: isOn("OSTLER_CONSOLE"),
    introspection: isOn("OSTLER_INTROSPECTION"),
    origins: Object.freeze(words(value("OSTLER_ORIGINS")).map(originOf)),
    bodyKb: number("OSTLER_BODY_KB", BODY_KB_MIN, BODY_KB_MAX),
    keepAliveSeconds: number("OSTLER_KEEP_ALIVE_SECONDS", 1, KEEP_ALIVE_SECONDS_MAX),
    requests: number("OSTLER_REQUESTS", 1, REQUESTS_MAX),
    concurrency: number("OSTLER_CONCURRENCY", 1, CONCURRENCY_MAX),
    driverWorkers: value("OSTLER_DRIVER_WORKERS") === "" ? null : number("OSTLER_DRIVER_WORKERS", 0, CONCURRENCY_MAX),
    driverUser: value("OSTLER_DRIVER_USER"),
    powerSeconds: number("OSTLER_POWER_SECONDS", 0, POWER_SECONDS_MAX),
    retentionDays: number("OSTLER_RETENTION_DAYS", 0, RETENTION_DAYS_MAX),
    auditDays: number("OSTLER_AUDIT_DAYS", 0, RETENTION_DAYS_MAX),
    demo: flags.demo,
  });
}

/** Callers need no credential only on loopback. */
function requireCredentials(host: string, areRequired: boolean): void {
  if (areRequired || isLoopback(host)) return;
  throw new ConfigError(
    `OSTLER_HOST is ${host}, which other machines can reach, but none of OSTLER_TOKEN, OSTLER_TOKEN_FILE and OSTLER_OIDC is set. Set one of them, or listen on 127.0.0.1.`,
  );
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

/** The configuration for the log, without secrets. */
export function configForLog(config: Config): Record<string, unknown> {
  const { token, secretKeys, databaseUrl, listenUrl, issuers, ...open } = config;
  return {
    ...open,
    issuers: issuers.map(({ name, issuer }) => ({ name, issuer })),
    token: token && "***",
    secretKeys: secretKeys && "***",
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
