/** The configuration: every variable with its bounds, flags before variables, mistakes named, secrets kept. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { ConfigError, isLoopback, webPort } from "../src/config/values.ts";
import { VARIABLES } from "../src/config/variables.ts";
import { configForLog, readConfig } from "../src/config/config.ts";

const TOKEN = "0123456789abcdef";

/** The message of the `ConfigError`. */
function refusalOf(environment: Record<string, string>, args: readonly string[] = []): string {
  try {
    readConfig(environment, args);
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError);
    return (error as ConfigError).message;
  }
  throw new Error("The configuration was accepted.");
}

describe("default configuration", () => {
  test("the default configuration listens on loopback with the embedded database and the fake driver", () => {
    expect(readConfig({}, [])).toEqual({
      role: "all",
      host: "127.0.0.1",
      port: 4000,
      tls: null,
      proxies: [],
      data: resolve("./data"),
      databaseUrl: null,
      listenUrl: null,
      secretKeys: null,
      secretKeysFile: null,
      dbPool: 20,
      prepare: "auto",
      dbWaitSeconds: 60,
      plugins: ["fake"],
      pluginFolder: null,
      bmcNetworks: null,
      fileServers: [],
      provisionHost: null,
      provisionPort: 4010,
      provisionTlsPort: 4012,
      provisionUrl: null,
      dhcpLeases: null,
      agentFolder: resolve("./data/agent"),
      imageFolder: resolve("./data/images"),
      token: null,
      issuers: [],
      log: "info",
      logFormat: "auto",
      console: true,
      introspection: true,
      admins: [],
      origins: [],
      bodyKb: 1024,
      keepAliveSeconds: 75,
      requests: 64,
      concurrency: 32,
      driverUser: "",
      driverWorkers: null,
      powerSeconds: 60,
      retentionDays: 0,
      auditDays: 400,
      demo: false,
    });
  });

  test("the configuration is frozen", () => {
    const config = readConfig({}, []);
    expect(Object.isFrozen(config) && Object.isFrozen(config.plugins)).toBe(true);
  });

  test("an empty variable counts as unset", () => {
    const empty = Object.keys(VARIABLES).flatMap((name) => (name.startsWith("OSTLER_TOKEN") ? [] : [[name, ""]]));
    expect(readConfig(Object.fromEntries(empty), [])).toEqual(readConfig({}, []));
  });

  test("an empty OSTLER_TOKEN, as from a secret that was not found, is refused", () => {
    expect(() => readConfig({ OSTLER_TOKEN: "" }, [])).toThrow("OSTLER_TOKEN is empty");
    expect(() => readConfig({}, ["--token", ""])).toThrow("OSTLER_TOKEN is empty");
  });

  describe("token file", () => {
    const folder = mkdtempSync(join(tmpdir(), "token-file-"));
    afterAll(() => rmSync(folder, { recursive: true }));
    let files = 0;
    const withText = (text: string) => {
      files += 1;
      const file = join(folder, `token-${files}`);
      writeFileSync(file, text);
      return { OSTLER_TOKEN_FILE: file };
    };

    test.each([TOKEN, `${TOKEN}\n`, `${TOKEN}\r\n`])(
      "token file %j has the token, without its newline [R-311]",
      (text) => {
        const environment = withText(text);
        expect(readConfig(environment, []).token).toBe(TOKEN);
        expect(readConfig({}, ["--token-file", environment.OSTLER_TOKEN_FILE]).token).toBe(TOKEN);
      },
    );

    test.each([
      ["empty", withText(""), "is empty"],
      ["a newline only", withText("\n"), "is empty"],
      ["two lines", withText(`${TOKEN}\n${TOKEN}\n`), "more than one line"],
      ["a short token", withText("short\n"), "has 5 characters"],
      ["not there", { OSTLER_TOKEN_FILE: join(folder, "none") }, "cannot be read: ENOENT"],
      ["a folder", { OSTLER_TOKEN_FILE: folder }, "cannot be read: EISDIR"],
      ["an empty name", { OSTLER_TOKEN_FILE: "" }, "OSTLER_TOKEN_FILE is empty"],
    ])("token file that is %s is refused [R-311]", (_what, environment, message) => {
      expect(refusalOf(environment)).toContain(message);
    });

    test("token and token file together are refused [R-311]", () => {
      expect(refusalOf({ ...withText(TOKEN), OSTLER_TOKEN: TOKEN })).toContain("both set");
      expect(refusalOf(withText(TOKEN), ["--token", TOKEN])).toContain("both set");
    });
  });

  test("variables without the OSTLER_ prefix are ignored", () => {
    expect(readConfig({ PATH: "/bin", PORT: "1", NODE_OPTIONS: "x", ostler_port: "1" }, [])).toEqual(
      readConfig({}, []),
    );
  });
});

describe("each variable", () => {
  test.each([
    {
      name: "OSTLER_HOST",
      value: "::1",
      flag: "host",
      other: "localhost",
      field: "host",
      read: "::1",
      readOther: "localhost",
    },
    {
      name: "OSTLER_PROVISION_HOST",
      value: "10.0.0.1",
      flag: "provision-host",
      other: "::1",
      field: "provisionHost",
      read: "10.0.0.1",
      readOther: "::1",
    },
    {
      name: "OSTLER_PROVISION_PORT",
      value: "1",
      flag: "provision-port",
      other: "65535",
      field: "provisionPort",
      read: 1,
      readOther: 65_535,
    },
    {
      name: "OSTLER_PROVISION_TLS_PORT",
      value: "1",
      flag: "provision-tls-port",
      other: "65535",
      field: "provisionTlsPort",
      read: 1,
      readOther: 65_535,
    },
    {
      name: "OSTLER_PROVISION_URL",
      value: "http://10.0.0.1:4010",
      flag: "provision-url",
      other: "http://[fd00::1]:80/",
      field: "provisionUrl",
      read: "http://10.0.0.1:4010",
      readOther: "http://[fd00::1]",
    },
    {
      name: "OSTLER_DHCP_LEASES",
      value: "package.json",
      flag: "dhcp-leases",
      other: "README.md",
      field: "dhcpLeases",
      read: resolve("package.json"),
      readOther: resolve("README.md"),
    },
    {
      name: "OSTLER_AGENT_DIR",
      value: "/srv/agent",
      flag: "agent-dir",
      other: "media",
      field: "agentFolder",
      read: "/srv/agent",
      readOther: resolve("media"),
    },
    {
      name: "OSTLER_IMAGE_DIR",
      value: "/srv/images",
      flag: "image-dir",
      other: "img",
      field: "imageFolder",
      read: "/srv/images",
      readOther: resolve("img"),
    },
    { name: "OSTLER_PORT", value: "0", flag: "port", other: "65535", field: "port", read: 0, readOther: 65_535 },
    {
      name: "OSTLER_DATA",
      value: "/var/lib/ostler",
      flag: "data",
      other: "there",
      field: "data",
      read: "/var/lib/ostler",
      readOther: resolve("there"),
    },
    {
      name: "DATABASE_URL",
      value: "postgres://o@db/ostler",
      flag: "database-url",
      other: "postgresql://o@db2/x",
      field: "databaseUrl",
      read: "postgres://o@db/ostler",
      readOther: "postgresql://o@db2/x",
    },
    {
      name: "OSTLER_SECRET_KEYS",
      value: "off",
      flag: "secret-keys",
      other: "a:AA==",
      field: "secretKeys",
      read: "off",
      readOther: "a:AA==",
    },
    {
      name: "OSTLER_SECRET_KEYS_FILE",
      value: "/etc/ostler/keys",
      flag: "secret-keys-file",
      other: "keys",
      field: "secretKeysFile",
      read: "/etc/ostler/keys",
      readOther: "keys",
    },
    { name: "OSTLER_DB_POOL", value: "4", flag: "db-pool", other: "200", field: "dbPool", read: 4, readOther: 200 },
    {
      name: "OSTLER_PREPARE",
      value: "on",
      flag: "prepare",
      other: "off",
      field: "prepare",
      read: "on",
      readOther: "off",
    },
    {
      name: "OSTLER_DB_WAIT_SECONDS",
      value: "0",
      flag: "db-wait-seconds",
      other: "3600",
      field: "dbWaitSeconds",
      read: 0,
      readOther: 3600,
    },
    {
      name: "OSTLER_BMC_NETWORKS",
      value: "10.0.0.0/8, fd00:7::/64",
      flag: "bmc-networks",
      other: "127.0.0.0/8",
      field: "bmcNetworks",
      read: ["10.0.0.0/8", "fd00:7::/64"],
      readOther: ["127.0.0.0/8"],
    },
    {
      name: "OSTLER_PROXIES",
      value: "127.0.0.0/8, fd00:7::/64",
      flag: "proxies",
      other: "10.0.0.5/32",
      field: "proxies",
      read: ["127.0.0.0/8", "fd00:7::/64"],
      readOther: ["10.0.0.5/32"],
    },
    {
      name: "OSTLER_FILE_SERVERS",
      value: "files.example, 10.0.0.5:8080,10.1.0.0/16,[fd00:7::1]:80",
      flag: "file-servers",
      other: "mirror.example:8443",
      field: "fileServers",
      read: ["files.example", "10.0.0.5:8080", "10.1.0.0/16", "[fd00:7::1]:80"],
      readOther: ["mirror.example:8443"],
    },
    {
      name: "OSTLER_PLUGINS",
      value: "fake, ipmi,,./mine.ts",
      flag: "plugins",
      other: "ipmi",
      field: "plugins",
      read: ["fake", "ipmi", "./mine.ts"],
      readOther: ["ipmi"],
    },
    {
      name: "OSTLER_PLUGIN_DIR",
      value: "/etc/ostler/plugins",
      flag: "plugin-dir",
      other: "./plugins",
      field: "pluginFolder",
      read: "/etc/ostler/plugins",
      readOther: "./plugins",
    },
    {
      name: "OSTLER_TOKEN",
      value: TOKEN,
      flag: "token",
      other: `${TOKEN}2`,
      field: "token",
      read: TOKEN,
      readOther: `${TOKEN}2`,
    },
    {
      name: "OSTLER_LOG_FORMAT",
      value: "json",
      flag: "log-format",
      other: "text",
      field: "logFormat",
      read: "json",
      readOther: "text",
    },
    {
      name: "OSTLER_ADMINS",
      flag: "admins",
      value: "account:alice, account:bob",
      other: "account:carol",
      field: "admins",
      read: ["account:alice", "account:bob"],
      readOther: ["account:carol"],
    },
    {
      name: "OSTLER_LOG",
      value: "debug",
      flag: "log",
      other: "silent",
      field: "log",
      read: "debug",
      readOther: "silent",
    },
    {
      name: "OSTLER_INTROSPECTION",
      value: "off",
      flag: "introspection",
      other: "on",
      field: "introspection",
      read: false,
      readOther: true,
    },
    {
      name: "OSTLER_CONSOLE",
      value: "off",
      flag: "console",
      other: "on",
      field: "console",
      read: false,
      readOther: true,
    },
    {
      name: "OSTLER_ORIGINS",
      value: "https://Console.example:443/, http://10.0.0.1:8080",
      flag: "origins",
      other: "https://b.example",
      field: "origins",
      read: ["https://console.example", "http://10.0.0.1:8080"],
      readOther: ["https://b.example"],
    },
    {
      name: "OSTLER_REQUESTS",
      value: "1",
      flag: "requests",
      other: "1024",
      field: "requests",
      read: 1,
      readOther: 1_024,
    },
    {
      name: "OSTLER_BODY_KB",
      value: "64",
      flag: "body-kb",
      other: "65536",
      field: "bodyKb",
      read: 64,
      readOther: 65_536,
    },
    {
      name: "OSTLER_KEEP_ALIVE_SECONDS",
      value: "1",
      flag: "keep-alive-seconds",
      other: "3600",
      field: "keepAliveSeconds",
      read: 1,
      readOther: 3_600,
    },
    {
      name: "OSTLER_DRIVER_USER",
      value: "service",
      flag: "driver-user",
      other: "ostler-driver",
      field: "driverUser",
      read: "service",
      readOther: "ostler-driver",
    },
    {
      name: "OSTLER_DRIVER_WORKERS",
      value: "0",
      flag: "driver-workers",
      other: "512",
      field: "driverWorkers",
      read: 0,
      readOther: 512,
    },
    {
      name: "OSTLER_CONCURRENCY",
      value: "1",
      flag: "concurrency",
      other: "512",
      field: "concurrency",
      read: 1,
      readOther: 512,
    },
    {
      name: "OSTLER_POWER_SECONDS",
      value: "0",
      flag: "power-seconds",
      other: "86400",
      field: "powerSeconds",
      read: 0,
      readOther: 86_400,
    },
    {
      name: "OSTLER_RETENTION_DAYS",
      value: "365",
      flag: "retention-days",
      other: "36500",
      field: "retentionDays",
      read: 365,
      readOther: 36_500,
    },
    {
      name: "OSTLER_AUDIT_DAYS",
      value: "30",
      flag: "audit-days",
      other: "0",
      field: "auditDays",
      read: 30,
      readOther: 0,
    },
  ])("$name is read, and --$flag overrides it", ({ name, value, flag, other, field, read, readOther }) => {
    const expected = (at: string | number | boolean | readonly string[]) => ({
      ...readConfig({}, []),
      ...derivedFrom(name, String(at)),
      [field]: at,
    });
    expect(readConfig({ [name]: value }, [])).toEqual(expected(read));
    expect(readConfig({ [name]: value }, [`--${flag}`, other])).toEqual(expected(readOther));
    expect(readConfig({}, [`--${flag}=${other}`])).toEqual(expected(readOther));
  });

  test("every variable is covered by this table", () => {
    expect(Object.keys(VARIABLES).toSorted()).toEqual(
      [
        ...NEED_A_SERVER,
        "DATABASE_URL",
        "OSTLER_ADMINS",
        "OSTLER_AGENT_DIR",
        "OSTLER_AUDIT_DAYS",
        "OSTLER_DHCP_LEASES",
        "OSTLER_IMAGE_DIR",
        "OSTLER_PROVISION_HOST",
        "OSTLER_PROVISION_PORT",
        "OSTLER_PROVISION_TLS_PORT",
        "OSTLER_PROVISION_URL",
        "OSTLER_SECRET_KEYS",
        "OSTLER_SECRET_KEYS_FILE",
        "OSTLER_BMC_NETWORKS",
        "OSTLER_BODY_KB",
        "OSTLER_CONCURRENCY",
        "OSTLER_CONSOLE",
        "OSTLER_DATA",
        "OSTLER_DB_POOL",
        "OSTLER_DB_WAIT_SECONDS",
        "OSTLER_DRIVER_USER",
        "OSTLER_DRIVER_WORKERS",
        "OSTLER_FILE_SERVERS",
        "OSTLER_HOST",
        "OSTLER_INTROSPECTION",
        "OSTLER_KEEP_ALIVE_SECONDS",
        "OSTLER_LOG",
        "OSTLER_LOG_FORMAT",
        "OSTLER_OIDC",
        "OSTLER_ORIGINS",
        "OSTLER_PLUGINS",
        "OSTLER_PLUGIN_DIR",
        "OSTLER_PORT",
        "OSTLER_POWER_SECONDS",
        "OSTLER_PREPARE",
        "OSTLER_PROXIES",
        "OSTLER_REQUESTS",
        "OSTLER_RETENTION_DAYS",
        "OSTLER_TLS_CERT",
        "OSTLER_TLS_KEY",
        "OSTLER_TOKEN",
        "OSTLER_TOKEN_FILE",
      ].toSorted(),
    );
  });

  test("every variable has a help text", () => {
    for (const [name, { help }] of Object.entries(VARIABLES)) expect(help.length, name).toBeGreaterThan(10);
  });

  test("the demonstration fleet has a flag and no variable", () => {
    expect(readConfig({}, ["--demo"]).demo).toBe(true);
    expect(refusalOf({ OSTLER_DEMO: "1" })).toContain("OSTLER_DEMO");
  });
});

/** Settings whose defaults follow from a variable. */
function derivedFrom(name: string, value: string): Record<string, string> {
  if (name === "OSTLER_DATA") return { agentFolder: join(value, "agent"), imageFolder: join(value, "images") };
  if (name !== "OSTLER_PROVISION_HOST") return {};
  return { provisionUrl: `http://${value.includes(":") ? `[${value}]` : value}:4010` };
}

/** Variables that the embedded database does not support. */
const NEED_A_SERVER = ["OSTLER_ROLE", "OSTLER_LISTEN_URL"];

describe("settings that need a database server", () => {
  const databaseUrl = "postgres://o@db/ostler";

  test.each(["api", "engine"])("the role %s is read, and rejected with the embedded database", (role) => {
    expect(readConfig({ OSTLER_ROLE: role, DATABASE_URL: databaseUrl }, [])).toEqual({
      ...readConfig({}, []),
      databaseUrl,
      role,
    });
    expect(readConfig({ OSTLER_ROLE: "all" }, ["--role", role, "--database-url", databaseUrl]).role).toBe(role);
    expect(refusalOf({ OSTLER_ROLE: role })).toMatch(
      new RegExp(`^OSTLER_ROLE is ${role}, but DATABASE_URL is not set\\. .*Other replicas cannot`),
    );
  });

  test("a separate URL for the LISTEN connection is read, and rejected with the embedded database", () => {
    const listenUrl = "postgres://o@server/ostler";
    expect(readConfig({ OSTLER_LISTEN_URL: listenUrl, DATABASE_URL: databaseUrl }, [])).toEqual({
      ...readConfig({}, []),
      databaseUrl,
      listenUrl,
    });
    expect(readConfig({}, ["--listen-url", listenUrl, "--database-url", databaseUrl])).toMatchObject({
      databaseUrl,
      listenUrl,
    });
    expect(refusalOf({ OSTLER_LISTEN_URL: listenUrl })).toMatch(/^OSTLER_LISTEN_URL is set, but DATABASE_URL is not/);
  });
});

describe("invalid configuration", () => {
  test("an unknown command is answered with the commands, and not with the flags", () => {
    const refusal = () => readConfig({}, ["nodes", "--port", "1"]);
    expect(refusal).toThrow(/^There is no command nodes\.\n\nThese work .*\n {2}ostler nodes [^]*\n {2}ostler migrate/);
    expect(refusal).not.toThrow("--db-pool");
  });

  test.each([
    ["OSTLER_ROLE", "both"],
    ["OSTLER_ROLE", "API"],
    ["OSTLER_DB_POOL", "3"],
    ["OSTLER_DB_POOL", "201"],
    ["OSTLER_PREPARE", "yes"],
    ["OSTLER_DB_WAIT_SECONDS", "3601"],
    ["OSTLER_LISTEN_URL", "mysql://db/ostler"],
    ["OSTLER_PROVISION_HOST", "ostler.example.org"],
    ["OSTLER_PROVISION_HOST", "10.0.0.0/24"],
    ["OSTLER_PROVISION_HOST", "[::1]"],
    ["OSTLER_PROVISION_PORT", "0"],
    ["OSTLER_PROVISION_PORT", "65536"],
    ["OSTLER_PROVISION_URL", "10.0.0.1:4010"],
    ["OSTLER_PROVISION_URL", "https://10.0.0.1:4010"],
    ["OSTLER_PROVISION_URL", "http://10.0.0.1:4010/boot"],
    ["OSTLER_PROVISION_URL", "http://user@10.0.0.1:4010"],
    ["OSTLER_PROVISION_URL", "http://10.0.0.1:4010/?a=b"],
    ["OSTLER_PORT", "65536"],
    ["OSTLER_PORT", "-1"],
    ["OSTLER_PORT", "4e3"],
    ["OSTLER_PORT", "80.5"],
    ["OSTLER_PORT", "http"],
    ["OSTLER_PORT", " "],
    ["OSTLER_DRIVER_WORKERS", "513"],
    ["OSTLER_CONCURRENCY", "0"],
    ["OSTLER_CONCURRENCY", "513"],
    ["OSTLER_CONCURRENCY", "many"],
    ["OSTLER_POWER_SECONDS", "86401"],
    ["OSTLER_POWER_SECONDS", "1.5"],
    ["OSTLER_POWER_SECONDS", "never"],
    ["OSTLER_LOG", "loud"],
    ["OSTLER_LOG", "INFO"],
    ["OSTLER_LOG_FORMAT", "pretty"],
    ["OSTLER_INTROSPECTION", "yes"],
    ["OSTLER_ORIGINS", "*"],
    ["OSTLER_ORIGINS", "console.example"],
    ["OSTLER_ORIGINS", "https://console.example/app"],
    ["OSTLER_ORIGINS", "https://a.example,https://me@b.example"],
    ["OSTLER_ORIGINS", "ftp://a.example"],
    ["OSTLER_REQUESTS", "0"],
    ["OSTLER_REQUESTS", "1025"],
    ["OSTLER_KEEP_ALIVE_SECONDS", "0"],
    ["OSTLER_KEEP_ALIVE_SECONDS", "3601"],
    ["OSTLER_BODY_KB", "63"],
    ["OSTLER_BODY_KB", "65537"],
    ["DATABASE_URL", "mysql://db/ostler"],
    ["DATABASE_URL", "db:5432"],
    ["OSTLER_TOKEN", "short"],
    ["OSTLER_TOKEN", "123456789012345"],
  ])("the invalid value %s=%s is rejected with the name of the variable", (name, value) => {
    expect(refusalOf({ [name]: value })).toContain(name);
  });

  test.each([
    {
      what: "several hosts",
      url: "postgres://o:s3cret@a.example,b.example/ostler",
      says: /names several hosts\. Name one /,
    },
    { what: "several hosts with ports", url: "postgres://a:5432,b:5433/ostler", says: /names several hosts/ },
    {
      what: "the path of a socket",
      url: "postgres://o:s3cret@%2Frun%2Fpostgresql/ostler",
      says: /names the path of a socket/,
    },
    {
      what: "a socket among the parameters",
      url: "postgres://o:s3cret@db/ostler?host=/run/postgresql",
      says: /has a host parameter/,
    },
    { what: "no host", url: "postgres:///ostler", says: /names no host/ },
    { what: "a role without a host", url: "postgresql://o:s3cret@/ostler", says: /names no host/ },
    { what: "a port alone", url: "postgres://:5432/ostler", says: /names no host/ },
    { what: "a host among the parameters alone", url: "postgres:///ostler?host=db", says: /names no host/ },
    {
      what: "a password with a slash",
      url: "postgres://o:s3cret/1@db/ostler",
      says: /is not a valid URL\..* \/ as %2F/,
    },
    {
      what: "a password with invalid percent-encoding",
      url: "postgres://o:s3cret%zz@db/ostler",
      says: /is not a valid URL\..* % as %25/,
    },
  ])("a database URL with $what is rejected with a remedy", ({ url, says }) => {
    const refusals = {
      DATABASE_URL: refusalOf({ DATABASE_URL: url }),
      OSTLER_LISTEN_URL: refusalOf({ DATABASE_URL: "postgres://o@db/ostler", OSTLER_LISTEN_URL: url }),
    };
    for (const [name, refusal] of Object.entries(refusals)) {
      expect(refusal).toMatch(new RegExp(`^${name} `));
      expect(refusal).toMatch(says);
      expect(refusal).not.toContain("s3cret");
    }
  });

  test("exactly the ports that browsers and fetch refuse are refused, with the remedy [R-820]", () => {
    const { badPorts } = createRequire(import.meta.url)("undici/lib/web/fetch/constants.js") as { badPorts: string[] };
    const refused = Array.from({ length: 65_536 }, (_, port) => String(port)).filter((port) => {
      try {
        return webPort("OSTLER_PORT", port) !== Number(port);
      } catch {
        return true;
      }
    });
    expect(refused).toEqual(badPorts);
    expect(refusalOf({ OSTLER_PORT: "4190" })).toBe(
      "OSTLER_PORT is 4190, which browsers and fetch refuse to connect to, because other protocols use it. Use another port, such as 4000.",
    );
    expect(refusalOf({}, ["--port", "6000"])).toMatch(/^OSTLER_PORT is 6000/);
  });

  test("unknown OSTLER_ variables are rejected with a list of the known ones", () => {
    const message = refusalOf({ OSTLER_PROT: "1", OSTLER_TOKENS: "x", OSTLER_PORT: "1" });
    expect(message).toContain("OSTLER_PROT, OSTLER_TOKENS");
    for (const name of Object.keys(VARIABLES)) expect(message).toContain(name);
  });

  test("OSTLER_URL, which the command line reads, does not keep the service from starting", () => {
    expect(() => readConfig({ OSTLER_URL: "http://127.0.0.1:4000" }, [])).not.toThrow();
  });

  test.each([[["--prot", "1"]], [["--port"]], [["--demo=yes"]], [["-p", "1"]]])(
    "invalid arguments %j are rejected with a list of the known flags",
    (args) => {
      const message = refusalOf({}, args);
      expect(message).toContain("--port");
      expect(message).toContain("--demo");
    },
  );
});

describe("listening address", () => {
  test.each(["0.0.0.0", "::", "10.0.0.1", "ostler.example.org", "127.0.0.1.example.org", "[::1]", "127.1"])(
    "the listening address %s needs a token",
    (host) => {
      expect(refusalOf({ OSTLER_HOST: host })).toMatch(/OSTLER_HOST .*OSTLER_TOKEN/);
      expect(refusalOf({}, ["--host", host])).toMatch(/OSTLER_TOKEN/);
      expect(readConfig({ OSTLER_HOST: host, OSTLER_TOKEN: TOKEN }, [])).toMatchObject({ host, token: TOKEN });
    },
  );

  test.each(["127.0.0.1", "127.8.9.10", "localhost", "::1"])("%s is a loopback address and needs no token", (host) => {
    expect(isLoopback(host)).toBe(true);
    expect(readConfig({ OSTLER_HOST: host }, []).token).toBeNull();
  });
});

describe("listener for machines", () => {
  test.each([
    ["10.0.0.1", "http://10.0.0.1:4010"],
    ["fd00::1", "http://[fd00::1]:4010"],
  ])("machines reach the listener on %s at %s unless a URL is given", (host, url) => {
    expect(readConfig({ OSTLER_PROVISION_HOST: host }, [])).toMatchObject({ provisionHost: host, provisionUrl: url });
    const given = { OSTLER_PROVISION_HOST: host, OSTLER_PROVISION_URL: "http://boot.example:80" };
    expect(readConfig(given, []).provisionUrl).toBe("http://boot.example");
  });

  test("machines and agents need a port each", () => {
    const given = { OSTLER_PROVISION_HOST: "10.0.0.1", OSTLER_PROVISION_PORT: "4012" };
    expect(refusalOf(given)).toMatch(/OSTLER_PROVISION_PORT and OSTLER_PROVISION_TLS_PORT are both 4012\./);
  });

  test.each(["0.0.0.0", "::", "0:0:0:0:0:0:0:0", "fe80::1%eth0"])("the listening address %s needs a URL", (host) => {
    expect(refusalOf({ OSTLER_PROVISION_HOST: host })).toContain("OSTLER_PROVISION_URL");
    const given = { OSTLER_PROVISION_HOST: host, OSTLER_PROVISION_URL: "http://10.0.0.1:4010" };
    expect(readConfig(given, [])).toMatchObject({ provisionHost: host, provisionUrl: "http://10.0.0.1:4010" });
  });

  test("a replica without the listener can know the URL of another replica", () => {
    const given = { OSTLER_PROVISION_URL: "http://10.0.0.1:4010" };
    expect(readConfig(given, [])).toMatchObject({ provisionHost: null, provisionUrl: "http://10.0.0.1:4010" });
  });
});

describe("configuration in the log", () => {
  test.each([
    "postgres://ostler:s3cret@db:5432/ostler",
    "postgresql://ostler:s3cret:with:colons@db/x",
    "postgres://ostler:s3cr@t@db/x",
    "postgres://db/x?user=ostler&password=s3cret",
    "postgres://:s3cret@db/x",
    "postgres://o:s3cret,%40@[::1]:5432/db",
  ])("the logged configuration contains neither the token nor the password of %s", (databaseUrl) => {
    const shown = JSON.stringify(configForLog(readConfig({ OSTLER_TOKEN: TOKEN, DATABASE_URL: databaseUrl }, [])));
    expect(shown).not.toContain(TOKEN);
    expect(shown).not.toMatch(/s3cr|t@db/);
    expect(shown).toContain("db");
  });

  test("the logged configuration hides the password of the LISTEN connection", () => {
    const shown = configForLog(
      readConfig(
        { DATABASE_URL: "postgres://o:s3cret@pooler/x", OSTLER_LISTEN_URL: "postgres://o:s3cret@server/x" },
        [],
      ),
    );
    expect(shown).toMatchObject({ databaseUrl: "postgres://o:***@pooler/x", listenUrl: "postgres://o:***@server/x" });
  });

  test("the logged configuration contains all other settings", () => {
    expect(configForLog(readConfig({ OSTLER_PLUGINS: "fake,ipmi" }, ["--port", "8"]))).toEqual({
      ...readConfig({}, []),
      plugins: ["fake", "ipmi"],
      port: 8,
    });
  });
});
