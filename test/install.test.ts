/** The installation is described by several files, which have to agree: page, units, settings, image and compose. */
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseEnv } from "node:util";
import { expect, test } from "vitest";
import { NEEDED } from "../packages/agent/build/programs.ts";
import { CLIENT_VARIABLE, readConfig } from "../src/config/config.ts";
import { VARIABLES } from "../src/config/variables.ts";
import { dnsmasqConfig } from "../src/provisioning/dnsmasq.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const read = (file: string) => readFileSync(join(ROOT, file), "utf8");

const [page, containers, checkout] = read("docs/install.md").split(/\n## In containers\n|\n## From a checkout\n/) as [
  string,
  string,
  string,
];
const unit = read("docs/systemd/ostler.service");
const settings = read("docs/systemd/ostler.env");
const command = read("docs/systemd/ostler-command");
const dnsmasq = read("docs/systemd/ostler-dnsmasq.service");
const postinst = read("packages/release/debian/postinst");
const postrm = read("packages/release/debian/postrm");
const image = read("Dockerfile");
const compose = read("compose.yaml");

const config = readConfig({ OSTLER_DATA: "/var/lib/ostler" }, []);
const PROGRAM = "/usr/lib/ostler";
const SETTINGS = "/etc/ostler/ostler.env";
const TOKEN = "/etc/ostler/token";
/** Of the plugins that a service can load without a project of Ansible. */
const PLUGINS = readdirSync(join(ROOT, "plugins"), { withFileTypes: true })
  .flatMap((entry) => (entry.isDirectory() && entry.name !== "fake" && entry.name !== "ansible" ? [entry.name] : []))
  .toSorted();

/** The matches of the pattern's group, each once and in order. */
function found(text: string, pattern: RegExp): readonly string[] {
  return [...new Set([...text.matchAll(pattern)].map(([, value = ""]) => value))].toSorted();
}

const list = (words: readonly string[]) => words.flatMap((text) => text.split(",")).toSorted();

const API = [String(config.port)];
/** Beside the service. */
const DEMONSTRATION = "4001";
const MACHINES = [String(config.provisionPort)];
const AGENTS = [String(config.provisionTlsPort)];
const PAGE = /(?:127\.0\.0\.1|localhost):(\d+)/g;

/** A fact of the installation, a place that states it, and what that place says. */
const FACTS: readonly (readonly [string, string, readonly string[], readonly string[]])[] = [
  ["plugins", "page", PLUGINS, list(found(page, /^OSTLER_PLUGINS=(.*)$/gm))],
  ["plugins", "page, containers", PLUGINS, list(found(containers, /OSTLER_PLUGINS=(\S+)/g))],
  ["plugins", "compose", PLUGINS, list(found(compose, /OSTLER_PLUGINS:-([\w,]+)/g))],
  ["port of the API", "page", [...API, DEMONSTRATION], found(page, PAGE)],
  ["port of the API", "page, containers", API, found(containers, PAGE)],
  ["port of the API", "compose", API, found(compose, /"127\.0\.0\.1:\d+:(\d+)"/g)],
  ["address of the API", "compose", [config.host], found(compose, /"([\d.]+):\d+:4000"/g)],
  [
    "ports",
    "image",
    [...API, ...MACHINES, ...AGENTS],
    found(image, /^EXPOSE (.*)$/gm).flatMap((ports) => ports.split(" ")),
  ],
  ["port of the API", "health check of the image", API, found(image, PAGE)],
  ["port for machines", "page", MACHINES, found(page, /\$PROVISION_HOST:(\d+)/g)],
  [
    "ports for machines",
    "firewall",
    [`{ ${[...MACHINES, ...AGENTS].join(", ")} }`],
    found(page, /iifname "\$PROVISION_INTERFACE" tcp dport (.*) accept/g),
  ],
  ["port for machines", "firewall, BMCs", MACHINES, found(page, /ip saddr \$BMC_NETWORK tcp dport (.*) accept/g)],
  ["ports for machines", "page, containers", [...MACHINES, ...AGENTS], found(containers, /\$PROVISION_HOST:(\d+)/g)],
  [
    "ports for machines",
    "compose, published",
    [...MACHINES, ...AGENTS],
    found(compose, /\$\{OSTLER_PROVISION_HOST\}:\d+:(\d+)/g),
  ],
  ["port for machines", "compose, in the URL", MACHINES, found(compose, /OSTLER_PROVISION_URL: .*:(\d+)$/gm)],
  ["ports of network boot", "firewall", ["{ 67, 69, 4011 }"], found(page, /udp dport (.*) accept/g)],
  ["data", "unit", [config.data], found(unit, /^Environment=OSTLER_DATA=(.*)$/gm)],
  [
    "data",
    "folder of the unit",
    [config.data],
    found(unit, /^StateDirectory=(.*)$/gm).map((name) => `/var/lib/${name}`),
  ],
  ["data", "command", [config.data], found(command, /OSTLER_DATA=(\S+)/g)],
  ["data", "user", [config.data], found(`${checkout}${postinst}`, /--home-dir (\S+)/g)],
  ["data", "volume", [config.data], found(containers, /-v ostler:(\S+)/g)],
  ["data", "image", [config.data], found(image, /OSTLER_DATA=(\S+)/g)],
  [
    "folder for compiled code",
    "postrm",
    found(unit, /^CacheDirectory=(.*)$/gm).map((name) => `/var/cache/${name}`),
    found(postrm, /(\/var\/cache\/\S+)/g),
  ],
  ["boot media", "page", [`${config.agentFolder}/`], found(page, /cp -r agent\/x64 (\S+)/g)],
  ["boot media", "page, containers", [config.agentFolder], found(containers, /-v \$PWD\/agent:([^:]+)/g)],
  ["boot media", "page, checkout", [config.agentFolder], found(checkout, /agent-build --out (\S+)/g)],
  ["boot media", "image", [config.agentFolder], found(image, /"--out", "([^"]+)"/g)],
  ["boot media", "compose", [config.agentFolder], found(compose, /"agent:([^":]+)/g)],
  ["images", "compose", [config.imageFolder], found(compose, /"images:([^":]+)/g)],
  [
    "folders",
    "image, of the service's user",
    [config.data, config.agentFolder, config.imageFolder],
    found(image, /^RUN install .* -m 0700 (.*)$/gm).flatMap((names) => names.split(" ")),
  ],
  ["program", "unit", [PROGRAM], found(unit, /^(?:WorkingDirectory=(.*)$)/gm)],
  ["program", "unit, Node", [PROGRAM], found(unit, /^ExecStart=(.*)\/node_modules\/\.bin\/node /gm)],
  ["program", "command", [PROGRAM], found(command, /^program=(\S+)$/gm)],
  ["program", "page, checkout", [PROGRAM], found(checkout, /(?:git clone .*<repository>|^cd) (\/\S+)$/gm)],
  ["program", "image", ["/opt/ostler"], found(image, /^WORKDIR (.*)$/gm)],
  ["settings", "page", [SETTINGS], found(`${page}${checkout}`, /(\/etc\/\S+\.env)/g)],
  ["settings", "unit", [SETTINGS], found(unit, /^EnvironmentFile=(.*)$/gm)],
  ["settings", "command", [SETTINGS], found(command, /^settings=(\S+)$/gm)],
  ["token", "page", [TOKEN], found(`${page}${checkout}`, /(\/etc\/\S*\/token)\b/g)],
  ["token", "unit", [TOKEN], found(unit, /^LoadCredential=token:(.*)$/gm)],
  ["token", "command", [TOKEN], found(command, /OSTLER_TOKEN_FILE=(\S+)/g)],
  ["token", "package", [TOKEN], found(postinst, /(\S+\/token)$/gm)],
  ["dnsmasq", "page", ["/etc/ostler-dnsmasq.conf"], found(page, /> (\/etc\/[\w-]+dnsmasq\.conf)$/gm)],
  ["dnsmasq", "unit", ["/etc/ostler-dnsmasq.conf"], found(dnsmasq, /--conf-file=(\S+)$/gm)],
  [
    "TFTP",
    "page",
    found(dnsmasqConfig({ url: "http://10.0.0.1", leaseTime: "1h", tftpRoot: "/srv/tftp" }), /^tftp-root=(.*)$/gm),
    found(page, /mkdir -p (\S+)/g),
  ],
];

test.each(FACTS)("%s: what the %s has is what the code has [R-821]", (_fact, _place, expected, stated) => {
  expect(stated).toEqual(expected);
});

test("every setting that the installation sets exists, and the service accepts them together [R-821]", () => {
  const names = found(`${unit}${settings}${command}${image}${compose}${page}${containers}`, /\b(OSTLER_[A-Z_]+)/g);
  expect(names.filter((name) => !(name in VARIABLES) && name !== CLIENT_VARIABLE)).toEqual([]);
  const [, lines = ""] = /ostler\.env <<ENV\n(.*?)^ENV$/ms.exec(page) ?? [];
  const values = { PROVISION_HOST: "10.77.0.1", BMC_NETWORK: "10.77.1.0/24", DB_PASSWORD: "secret" };
  const given = lines.replaceAll(/\$(\w+)/g, (_, name: keyof typeof values) => values[name]);
  expect(readConfig(parseEnv(given), [])).toMatchObject({
    databaseUrl: "postgres://ostler:secret@127.0.0.1/ostler",
    provisionUrl: "http://10.77.0.1:4010",
    bmcNetworks: ["10.77.1.0/24"],
  });
});

test("the settings of the package start a service on loopback with the embedded database [R-861]", () => {
  expect(readConfig({ ...parseEnv(settings), OSTLER_DATA: config.data }, [])).toMatchObject({
    host: "127.0.0.1",
    port: 4000,
    databaseUrl: null,
    plugins: ["redfish", "agent"],
  });
  const offered = parseEnv(settings.replaceAll(/^#([A-Z_]+=)/gm, "$1"));
  expect(Object.keys(offered).length).toBeGreaterThan(2);
  expect(() => readConfig(offered, [])).not.toThrow();
});

test.each([
  ["page", read("docs/agent.md")],
  ["image", image],
])("%s: names every Debian package that the build of the boot media needs [R-821]", (_place, text) => {
  const named = found(text, /([\w.+-]+)/g);
  expect(Object.values(NEEDED).filter((name) => !named.includes(name) && name !== "apt" && name !== "dpkg")).toEqual(
    [],
  );
});

const canRunLab = process.platform === "linux" && process.arch === "x64" && process.getuid?.() === 0;

test.each([
  ["agent-build", "packages/agent/build/main.ts", true, ["binutils", "mtools", "xorriso", "zstd"]],
  ["demo-vm", "test/e2e/demo.ts", canRunLab, ["ipmitool", "mmdebstrap", "qemu-system-x86", "xorriso", "zstd"]],
  ["e2e", "test/e2e/e2e.ts", canRunLab, ["ipmitool", "mmdebstrap", "qemu-system-x86", "xorriso", "zstd"]],
] as const)(
  "%s: names all missing Debian packages before it starts anything [R-822]",
  (_name, file, canRun, packages) => {
    if (!canRun) return;
    const env = { PATH: join(ROOT, "docs"), HOME: "/" };
    const { status, stdout, stderr } = spawnSync(process.execPath, [file], { cwd: ROOT, env, encoding: "utf8" });
    expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
    const named = /^.*Install the Debian packages: apt-get install --no-install-recommends (.*)\n$/.exec(stderr)?.[1];
    expect(named?.split(" ")).toEqual(expect.arrayContaining([...packages]));
  },
);

test("page installs every file of docs/systemd that an installation needs [R-821]", () => {
  const files = readdirSync(join(ROOT, "docs/systemd")).filter((file) => file !== "driver-user.conf");
  const installed = found(`${page}${checkout}`, /install .*(?:docs\/systemd|ostler\/examples)\/(\S+)/g);
  expect(installed).toEqual(files.toSorted());
});
