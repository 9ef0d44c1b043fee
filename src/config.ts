/** The configuration: one frozen object from the environment and the command line, checked before anything starts. */
import { parseArgs } from "node:util";
import { resolve } from "node:path";
import { messageOf } from "./errors.ts";
import type { LogLevel } from "./log.ts";
import { LOG_LEVELS } from "./log.ts";

/** What a replica does: everything, or one half of it, so that the halves can be scaled apart. */
export const ROLES = {
  all: "serves the API and works",
  api: "serves the API; its requests wait for a replica that works",
  engine: "works, and serves nothing but its health",
} as const;
export type Role = keyof typeof ROLES;

/** Whether statements that come again and again are prepared. auto: not through a pooler. */
const PREPARING = ["auto", "on", "off"] as const;

export interface Config {
  readonly role: Role;
  readonly host: string;
  readonly port: number;
  /** Folder of the embedded database. */
  readonly data: string;
  /** A PostgreSQL server; null: the embedded database. */
  readonly databaseUrl: string | null;
  /** Where the one connection that listens goes; null: where the others go. */
  readonly listenUrl: string | null;
  /** How many connections the engine and the writes of the API share; the other pools follow from it. */
  readonly dbPool: number;
  readonly prepare: (typeof PREPARING)[number];
  /** How long a start waits for a database that cannot be reached yet, in seconds. */
  readonly dbWaitSeconds: number;
  readonly plugins: readonly string[];
  /** What callers must present as a bearer token; null: nothing, and only on loopback. */
  readonly token: string | null;
  readonly log: LogLevel;
  /** Whether callers may ask what the schema is. */
  readonly introspection: boolean;
  /** Origins of other pages that browsers let talk to the service, as `https://name:port`. */
  readonly origins: readonly string[];
  /** How large a request may be, in KiB. */
  readonly bodyKb: number;
  /** Queries executed at the same time, and as many mutations. */
  readonly requests: number;
  /** Runs worked on at the same time. */
  readonly concurrency: number;
  /** Processes that steps may keep busy with their drivers at the same time; 0: drivers run in this one; null: as many as `concurrency`. */
  readonly driverWorkers: number | null;
  /** How often the power of a node at rest is read, in seconds; 0: never. */
  readonly powerSeconds: number;
  /** How long transitions are kept, in days; 0: for ever. */
  readonly retentionDays: number;
  /** Whether an empty service is given a demonstration fleet; flag --demo only. */
  readonly demo: boolean;
}

/** A mistake in the configuration, as a sentence for whoever started the service. */
export class ConfigError extends Error {}

/** Enough for a transaction of each kind at once, and no more than a server has as a rule. */
const DB_POOL_MIN = 4;
const DB_POOL_MAX = 200;
const DB_WAIT_SECONDS_MAX = 3_600;

interface Variable {
  readonly flag: string;
  readonly fallback: string;
  readonly help: string;
}

/** Every variable there is. Another one that begins with OSTLER_ is refused: it would be a typing error unnoticed. */
export const VARIABLES: Readonly<Record<string, Variable>> = {
  OSTLER_ROLE: {
    flag: "role",
    fallback: "all",
    help: `what this replica does: ${Object.entries(ROLES)
      .map(([role, what]) => `${role} (${what})`)
      .join(", ")}; all but all need DATABASE_URL`,
  },
  OSTLER_HOST: {
    flag: "host",
    fallback: "127.0.0.1",
    help: "address to listen on; anything but loopback needs OSTLER_TOKEN",
  },
  OSTLER_PORT: { flag: "port", fallback: "4000", help: "port; the API is at /graphql; 0 takes a free one" },
  OSTLER_DATA: { flag: "data", fallback: "./data", help: "folder of the embedded database" },
  DATABASE_URL: {
    flag: "database-url",
    fallback: "",
    help: "a PostgreSQL 15 or later, as postgres://user@host/name, with one host; absent: the embedded database",
  },
  OSTLER_LISTEN_URL: {
    flag: "listen-url",
    fallback: "",
    help: "the same database without the pooler that DATABASE_URL goes through, for the one connection that listens; absent: DATABASE_URL",
  },
  OSTLER_DB_POOL: {
    flag: "db-pool",
    fallback: "20",
    help: `connections that the engine and the API's writes share, ${DB_POOL_MIN} to ${DB_POOL_MAX}; docs/replicas.md tells how many a replica takes in all`,
  },
  OSTLER_PREPARE: {
    flag: "prepare",
    fallback: "auto",
    help: "auto, on or off: whether statements are prepared; auto prepares them unless DATABASE_URL leads through a pooler; a PgBouncer before 1.21 in transaction mode needs off",
  },
  OSTLER_DB_WAIT_SECONDS: {
    flag: "db-wait-seconds",
    fallback: "60",
    help: "how long a start waits for a database that cannot be reached yet, in seconds, up to 3600; 0 waits for none",
  },
  OSTLER_PLUGINS: {
    flag: "plugins",
    fallback: "fake",
    help: "driver plugins, separated by commas: bundled names, paths, or installed packages",
  },
  OSTLER_TOKEN: {
    flag: "token",
    fallback: "",
    help: "token that callers present as Authorization: Bearer …; at least 16 characters",
  },
  OSTLER_LOG: { flag: "log", fallback: "info", help: `least severe level that is logged: ${LOG_LEVELS.join(", ")}` },
  OSTLER_INTROSPECTION: {
    flag: "introspection",
    fallback: "on",
    help: "on or off: whether callers may ask what the schema is; when off, GET /schema.graphql is refused too, and errors suggest no names",
  },
  OSTLER_ORIGINS: {
    flag: "origins",
    fallback: "",
    help: "origins of other web pages that may talk to the service, separated by commas, as https://console.example; for HTTP and WebSocket",
  },
  OSTLER_BODY_KB: { flag: "body-kb", fallback: "1024", help: "how large a request may be, in KiB, 64 to 65536" },
  OSTLER_REQUESTS: {
    flag: "requests",
    fallback: "64",
    help: "queries executed at the same time by this process, and as many mutations, 1 to 1024; others wait their turn for up to 5 seconds",
  },
  OSTLER_CONCURRENCY: {
    flag: "concurrency",
    fallback: "32",
    help: "nodes worked on at the same time by this process, 1 to 512",
  },
  OSTLER_DRIVER_WORKERS: {
    flag: "driver-workers",
    fallback: "",
    help: "processes that steps may keep busy with their drivers at the same time, 1 to 512, each some 25 MB; readings of the power and probes have places besides; absent: as many as OSTLER_CONCURRENCY; 0 runs drivers inside the service, where one that misbehaves harms all of it",
  },
  OSTLER_POWER_SECONDS: {
    flag: "power-seconds",
    fallback: "60",
    help: "how often the power of nodes at rest is read, in seconds, up to 86400; 0 switches that off",
  },
  OSTLER_RETENTION_DAYS: {
    flag: "retention-days",
    fallback: "0",
    help: "how long transitions are kept, in days, up to 36500; 0 keeps them for ever",
  },
};

const TOKEN_LENGTH_MIN = 16;
const CONCURRENCY_MAX = 512;
const REQUESTS_MAX = 1_024;
const BODY_KB_MIN = 64;
const BODY_KB_MAX = 65_536;
const POWER_SECONDS_MAX = 86_400;
const RETENTION_DAYS_MAX = 36_500;

/** Reads the configuration; flags win over variables. Throws a `ConfigError` that names the variable. */
export function readConfig(environment: NodeJS.ProcessEnv, args: readonly string[]): Config {
  const unknown = Object.keys(environment).filter((name) => name.startsWith("OSTLER_") && !(name in VARIABLES));
  if (unknown.length > 0)
    throw new ConfigError(
      `There is no variable ${unknown.join(", ")}. There are ${Object.keys(VARIABLES).join(", ")}.`,
    );
  const flags = readFlags(args);
  const value = (name: string): string => {
    const variable = VARIABLES[name];
    return flags.values[variable?.flag ?? ""] ?? (environment[name] || (variable?.fallback ?? ""));
  };
  const host = value("OSTLER_HOST");
  const token = value("OSTLER_TOKEN") || null;
  if (token !== null && token.length < TOKEN_LENGTH_MIN)
    throw new ConfigError(`OSTLER_TOKEN has ${token.length} characters; take at least ${TOKEN_LENGTH_MIN}, at random.`);
  if (!isLoopback(host) && token === null) {
    throw new ConfigError(
      `OSTLER_HOST is ${host}, where others can reach the service, and OSTLER_TOKEN is not set. Set a token, or listen on 127.0.0.1.`,
    );
  }
  const role = oneOf("OSTLER_ROLE", value("OSTLER_ROLE"), Object.keys(ROLES) as Role[]);
  const databaseUrl = databaseUrlOf("DATABASE_URL", value("DATABASE_URL"));
  if (databaseUrl === null && role !== "all") {
    throw new ConfigError(
      `OSTLER_ROLE is ${role}, and DATABASE_URL is not set: the embedded database is this process's own, so no other replica could do the other half of the work. Set DATABASE_URL, or leave the role at all.`,
    );
  }
  const listenUrl = databaseUrlOf("OSTLER_LISTEN_URL", value("OSTLER_LISTEN_URL"));
  if (listenUrl !== null && databaseUrl === null)
    throw new ConfigError(
      "OSTLER_LISTEN_URL is set, and DATABASE_URL is not: the embedded database needs no other way. Set both, or neither.",
    );
  const introspection = oneOf("OSTLER_INTROSPECTION", value("OSTLER_INTROSPECTION"), ["on", "off"]);
  return Object.freeze({
    role,
    host,
    port: wholeNumber("OSTLER_PORT", value("OSTLER_PORT"), 0, 65_535),
    data: resolve(value("OSTLER_DATA")),
    databaseUrl,
    listenUrl,
    dbPool: wholeNumber("OSTLER_DB_POOL", value("OSTLER_DB_POOL"), DB_POOL_MIN, DB_POOL_MAX),
    prepare: oneOf("OSTLER_PREPARE", value("OSTLER_PREPARE"), PREPARING),
    dbWaitSeconds: wholeNumber("OSTLER_DB_WAIT_SECONDS", value("OSTLER_DB_WAIT_SECONDS"), 0, DB_WAIT_SECONDS_MAX),
    plugins: Object.freeze(words(value("OSTLER_PLUGINS"))),
    token,
    log: oneOf("OSTLER_LOG", value("OSTLER_LOG"), LOG_LEVELS),
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

/** The plugins of `ostler schema`: those of its flag, or those that the service would load. */
export function readPlugins(environment: NodeJS.ProcessEnv, args: readonly string[]): readonly string[] {
  const { OSTLER_PLUGINS: variable } = VARIABLES;
  try {
    const { plugins } = parseArgs({
      args: [...args],
      options: { plugins: { type: "string" } },
      allowPositionals: false,
    }).values;
    return words(plugins ?? (environment["OSTLER_PLUGINS"] || (variable?.fallback ?? "")));
  } catch (error) {
    throw new ConfigError(
      `${messageOf(error).replace(/\.?$/, ".")} \`ostler schema\` takes --plugins, ${variable?.help ?? ""}.`,
    );
  }
}

/** What `ostler help` says. */
export function helpText(): string {
  const flags = Object.entries(VARIABLES).map(
    ([name, { flag, fallback, help }]) =>
      `  --${flag} (${name})\n      ${help}${fallback === "" ? "" : `; ${fallback} unless said`}\n`,
  );
  return `Usage:
  ostler [flags]                    run the service
  ostler migrate [flags]            bring the database of DATABASE_URL to the newest migration, and nothing else
  ostler schema [--plugins a,b]     print its GraphQL schema with these driver plugins
  ostler help                       print this

Flags, each with the variable that does the same; the flag wins:
${flags.join("")}  --demo
      give an empty service a demonstration fleet
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
    throw new ConfigError(`${messageOf(error).replace(/\.?$/, ".")} There are ${flags.join(", ")} and --demo.`);
  }
}

function wholeNumber(name: string, text: string, least: number, most: number): number {
  const number = Number(text);
  if (!/^\d+$/.test(text) || number < least || number > most)
    throw new ConfigError(`${name} is ${JSON.stringify(text)}; it is a whole number from ${least} to ${most}.`);
  return number;
}

function oneOf<Word extends string>(name: string, text: string, among: readonly Word[]): Word {
  const found = among.find((word) => word === text);
  if (found === undefined) throw new ConfigError(`${name} is ${text}; it is one of ${among.join(", ")}.`);
  return found;
}

/** The address of a database with one host: what lists, sockets and defaults mean, each of the libraries that connect reads in its own way. */
function databaseUrlOf(name: string, text: string): string | null {
  if (text === "") return null;
  const [, authority] = /^postgres(?:ql)?:\/\/([^/?#]*)/.exec(text) ?? [];
  if (authority === undefined) throw new ConfigError(`${name} does not begin with postgres://.`);
  const host = authority.slice(authority.lastIndexOf("@") + 1);
  if (host.includes(","))
    throw new ConfigError(
      `${name} names several hosts. Name one that leads to whoever takes writes: a name, a floating address or a proxy.`,
    );
  if (host.includes("%"))
    throw new ConfigError(`${name} names the path of a socket. Name a host, as postgres://user@127.0.0.1/name.`);
  if (/^(:\d*)?$/.test(host))
    throw new ConfigError(`${name} names no host. Name it before the database, as postgres://user@127.0.0.1/name.`);
  if (!isUrl(text))
    throw new ConfigError(
      `${name} cannot be read. Write what has a meaning in an address as its code, in a password above all: / as %2F, ? as %3F, # as %23, % as %25.`,
    );
  if (new URL(text).searchParams.has("host"))
    throw new ConfigError(
      `${name} has a host among its parameters. Name it before the database, as postgres://user@127.0.0.1/name; a socket is not taken.`,
    );
  return text;
}

/** Whether an address can be read, and each of its codes stands for something. */
function isUrl(text: string): boolean {
  try {
    const { username, password, pathname } = new URL(text);
    decodeURIComponent(username + password + pathname);
    return true;
  } catch {
    return false;
  }
}

/** Words that commas separate. */
function words(text: string): string[] {
  return text
    .split(",")
    .map((word) => word.trim())
    .filter((word) => word !== "");
}

/** An origin as browsers write it: without a path, and without a port that its scheme implies. */
function originOf(text: string): string {
  const { origin, href } = URL.canParse(text) ? new URL(text) : { origin: "", href: text };
  if (!/^https?:/.test(origin) || href !== `${origin}/`)
    throw new ConfigError(
      `OSTLER_ORIGINS has ${JSON.stringify(text)}; an origin is a scheme, a name and perhaps a port, as https://console.example.`,
    );
  return origin;
}

/** Whether only this machine can reach an address. */
export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(host);
}

/** The configuration without its secrets, for the log. */
export function shownConfig(config: Config): Record<string, unknown> {
  const { token, databaseUrl, listenUrl, ...open } = config;
  return {
    ...open,
    token: token === null ? null : "***",
    databaseUrl: databaseUrl && urlWithoutSecrets(databaseUrl),
    listenUrl: listenUrl && urlWithoutSecrets(listenUrl),
  };
}

/** Where a database is, without its password and without its parameters, which may hold one too. */
export function urlWithoutSecrets(databaseUrl: string): string {
  const { protocol, username, password, host, pathname } = new URL(databaseUrl);
  const user = username + (password === "" ? "" : ":***");
  return `${protocol}//${user === "" ? "" : `${user}@`}${host}${pathname}`;
}
