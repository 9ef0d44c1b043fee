/** The variables and flags of the configuration, with their defaults and descriptions. */
import { parseArgs } from "node:util";
import { messageOf } from "../errors.ts";
import { LOG_LEVELS } from "../log.ts";
import { ConfigError } from "./values.ts";

/** The part of the service that a replica runs, so that API and engine can scale separately. */
export const ROLES = {
  all: "serves the API and runs operations",
  api: "serves the API; operations wait for a replica that runs them",
  engine: "runs operations; serves only health and metrics",
} as const;
export type Role = keyof typeof ROLES;

/** At least one connection per kind of transaction; at most what servers usually allow. */
export const DB_POOL_MIN = 4;
export const DB_POOL_MAX = 200;

interface Variable {
  readonly flag: string;
  readonly fallback?: string;
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
    help: "address to listen on; an address other than loopback needs OSTLER_TOKEN or OSTLER_OIDC",
  },
  OSTLER_PORT: { flag: "port", fallback: "4000", help: "port; the API is at /graphql; 0 picks a free port" },
  OSTLER_TLS_CERT: {
    flag: "tls-cert",
    help: "file with the certificate of the port and its intermediates, in PEM format; with OSTLER_TLS_KEY the port speaks TLS; both are read again when they change",
  },
  OSTLER_TLS_KEY: {
    flag: "tls-key",
    help: "file with the private key of OSTLER_TLS_CERT, in PEM format, unencrypted, not readable by every user",
  },
  OSTLER_PROXIES: {
    flag: "proxies",
    help: "networks of proxies, comma-separated, as 127.0.0.0/8: only from there X-Forwarded-For and X-Forwarded-Proto count; default: from nowhere",
  },
  OSTLER_DATA: { flag: "data", fallback: "./data", help: "folder of the embedded database" },
  DATABASE_URL: {
    flag: "database-url",
    help: "PostgreSQL 15 or later, as postgres://user@host/name, with exactly one host; default: the embedded database",
  },
  OSTLER_SECRET_KEYS: {
    flag: "secret-keys",
    help: "master keys that encrypt the secrets in the database, newest first, comma-separated, each id:base64 of 32 bytes; off stores secrets in clear; one of this and OSTLER_SECRET_KEYS_FILE is required with DATABASE_URL; the embedded database makes a key at the first start, in the file secret-keys of its folder",
  },
  OSTLER_SECRET_KEYS_FILE: {
    flag: "secret-keys-file",
    help: "file with the master keys, in place of OSTLER_SECRET_KEYS, one a line; others than its owner must not read it",
  },
  OSTLER_LISTEN_URL: {
    flag: "listen-url",
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
    help: "folder in which plugins are looked up by name",
  },
  OSTLER_BMC_NETWORKS: {
    flag: "bmc-networks",
    help: "networks of BMCs, comma-separated, as 10.0.0.0/8,fd00:7::/64: discoveries and addresses in drivers' settings outside of them are refused; default: all networks but loopback, link-local, metadata of clouds, multicast and broadcast",
  },
  OSTLER_FILE_SERVERS: {
    flag: "file-servers",
    help: "servers from which drivers and BMCs may fetch files that callers name, such as firmware, comma-separated: hosts, host:port, IP addresses and networks, as files.example,10.0.0.5:8080,10.1.0.0/16; in addition to the listener for machines and the servers of registered images",
  },
  OSTLER_PROVISION_HOST: {
    flag: "provision-host",
    help: "address of the provisioning network on which the listener for machines serves boot scripts, the agent and images; default: no such listener",
  },
  OSTLER_PROVISION_PORT: {
    flag: "provision-port",
    fallback: "4010",
    help: "port of the listener for machines",
  },
  OSTLER_PROVISION_TLS_PORT: {
    flag: "provision-tls-port",
    fallback: "4012",
    help: "port of the listener for machines that speaks TLS with agents, at the host of OSTLER_PROVISION_URL",
  },
  OSTLER_PROVISION_URL: {
    flag: "provision-url",
    help: "how machines reach the listener, as http://10.0.0.1:4010; default: from OSTLER_PROVISION_HOST and OSTLER_PROVISION_PORT; needed if the host is 0.0.0.0 or ::, and by replicas that run operations without the listener",
  },
  OSTLER_DHCP_LEASES: {
    flag: "dhcp-leases",
    help: "lease file of dnsmasq: boot scripts are sent only to the IPv4 address that is leased to the machine's MAC; default: to any address",
  },
  OSTLER_AGENT_DIR: {
    flag: "agent-dir",
    help: "folder with the boot media of the agent, one folder for each architecture, x64 and arm64; default: agent in OSTLER_DATA",
  },
  OSTLER_IMAGE_DIR: {
    flag: "image-dir",
    help: "folder of the stored images; default: images in OSTLER_DATA",
  },
  OSTLER_TOKEN: {
    flag: "token",
    help: "token that callers send as Authorization: Bearer …; at least 16 characters",
  },
  OSTLER_TOKEN_FILE: {
    flag: "token-file",
    help: "file with the token, in place of OSTLER_TOKEN; a newline at its end is dropped; read once, at the start",
  },
  OSTLER_ADMINS: {
    flag: "admins",
    help: "principals that are always administrators, comma-separated, as account:alice; a way back in if no other grant of admin is left",
  },
  OSTLER_OIDC: {
    flag: "oidc",
    help: "JSON file with issuers of JWTs, and the client with which people sign in at one of them (docs/sign-in.md); default: none",
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
  OSTLER_CONSOLE: {
    flag: "console",
    fallback: "on",
    help: "web console at /console/, to which / leads browsers: on or off",
  },
  OSTLER_ORIGINS: {
    flag: "origins",
    help: "allowed origins of other web pages, comma-separated, as https://console.example; for HTTP and WebSocket",
  },
  OSTLER_BODY_KB: { flag: "body-kb", fallback: "1024", help: "maximum size of a request body in KiB, 64 to 65536" },
  OSTLER_KEEP_ALIVE_SECONDS: {
    flag: "keep-alive-seconds",
    fallback: "75",
    help: "seconds that an idle HTTP connection stays open, 1 to 3600; more than a proxy keeps its own, usually 60, so that it sends no request into a closing one",
  },
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
    help: "maximum worker processes that run steps of drivers, 1 to 512, 15 to 25 MB each; power readings and probes use additional ones; default: OSTLER_CONCURRENCY; 0 runs drivers inside the service, without isolation",
  },
  OSTLER_DRIVER_USER: {
    flag: "driver-user",
    help: "user of the processes of drivers, by name or number, so that they cannot signal the service; service: that of the service; default: 65531 if the service runs as root, else service",
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
  OSTLER_AUDIT_DAYS: {
    flag: "audit-days",
    fallback: "400",
    help: "days that rows of the audit are kept, up to 36500; 0 keeps them indefinitely",
  },
};

const COMMANDS = `These work with a running service, and each has --help:
  ostler nodes                      list, watch, change and work on nodes
  ostler operations                 follow, stop, abort and restart work
  ostler clusters                   what clusters want; their host groups and variables
  ostler plan                       show what work on nodes would do
  ostler discover, site, query      find machines; the policy of the site; send GraphQL
  ostler login, context, completion choose the service; completion of bash

These are for the host of the service:
  ostler [flags]                    run the service
  ostler migrate [flags]            migrate the database of DATABASE_URL, and exit
  ostler secrets status [flags]     list the keys of the stored secrets; also rotate, rewrap, encrypt
  ostler token create [flags]       create a token of an account; see ostler token help
  ostler schema [--plugins a,b]     print the GraphQL schema with these driver plugins
  ostler boot dnsmasq [flags]       print the configuration of a dnsmasq for network boot; see ostler boot help
  ostler image add FILE [flags]     register an image of an operating system; see ostler image help
  ostler help flags                 list the flags of the service, each with its variable`;

/** The text of `ostler help`, and of `ostler help flags`. */
export function helpText(topic?: string): string {
  if (topic !== "flags") return `${COMMANDS}\n\nTo begin: ostler nodes get, then ostler nodes --help\n`;
  const flags = Object.entries(VARIABLES).map(
    ([name, { flag, fallback, help }]) =>
      `  --${flag} (${name})\n      ${help}${fallback === undefined ? "" : `; default ${fallback}`}\n`,
  );
  return `Flags, each with its variable; a flag overrides its variable:
${flags.join("")}  --demo
      register a demonstration fleet if there are no nodes
`;
}

export function readFlags(args: readonly string[]): {
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
    const [stray] = args.filter((arg) => messageOf(error).startsWith(`Unexpected argument '${arg}'`));
    if (stray !== undefined) throw new ConfigError(`There is no command ${stray}.\n\n${COMMANDS}`);
    const flags = Object.values(VARIABLES).map(({ flag }) => `--${flag}`);
    throw new ConfigError(`${messageOf(error).replace(/\.?$/, ".")} Known flags: ${flags.join(", ")} and --demo.`);
  }
}
