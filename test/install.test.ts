/** The installation is described by several files, which have to agree: page, units, settings, image and compose. */
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { NEEDED } from "../packages/agent/build/programs.ts";
import { readConfig } from "../src/config/config.ts";
import { VARIABLES } from "../src/config/variables.ts";
import { dnsmasqConfig } from "../src/provisioning/dnsmasq.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const read = (file: string) => readFileSync(join(ROOT, file), "utf8");

const [page, containers] = read("docs/install.md").split("\n## In containers\n") as [string, string];
const unit = read("docs/systemd/ostler.service");
const settings = read("docs/systemd/ostler.env");
const command = read("docs/systemd/ostler-command");
const dnsmasq = read("docs/systemd/ostler-dnsmasq.service");
const image = read("Dockerfile");
const compose = read("compose.yaml");

const config = readConfig({ OSTLER_DATA: "/var/lib/ostler" }, []);
const PLUGINS = readdirSync(join(ROOT, "plugins"), { withFileTypes: true })
  .flatMap((entry) => (entry.isDirectory() && entry.name !== "fake" ? [entry.name] : []))
  .toSorted();

/** The matches of the pattern's group, each once and in order. */
function found(text: string, pattern: RegExp): readonly string[] {
  return [...new Set([...text.matchAll(pattern)].map(([, value = ""]) => value))].toSorted();
}

const API = [String(config.port)];
const MACHINES = [String(config.provisionPort)];
const PAGE = /(?:127\.0\.0\.1|localhost):(\d+)/g;

/** A fact of the installation, a place that states it, and what that place says. */
const FACTS: readonly (readonly [string, string, readonly string[], readonly string[]])[] = [
  [
    "plugins",
    "settings",
    PLUGINS,
    found(settings, /^OSTLER_PLUGINS=(.*)$/gm)
      .flatMap((list) => list.split(","))
      .toSorted(),
  ],
  [
    "plugins",
    "compose",
    PLUGINS,
    found(compose, /OSTLER_PLUGINS:-([\w,]+)/g)
      .flatMap((list) => list.split(","))
      .toSorted(),
  ],
  ["port of the API", "page", API, found(page, PAGE)],
  ["port of the API", "page, containers", API, found(containers, PAGE)],
  ["port of the API", "compose", API, found(compose, /"127\.0\.0\.1:\d+:(\d+)"/g)],
  ["address of the API", "compose", [config.host], found(compose, /"([\d.]+):\d+:4000"/g)],
  ["ports", "image", [...API, ...MACHINES], found(image, /^EXPOSE (.*)$/gm).flatMap((ports) => ports.split(" "))],
  ["port of the API", "health check of the image", API, found(image, PAGE)],
  ["port for machines", "page", MACHINES, found(page, /\$PROVISION_HOST:(\d+)/g)],
  ["port for machines", "firewall", MACHINES, found(page, /iifname "\$PROVISION_INTERFACE" tcp dport (.*) accept/g)],
  ["port for machines", "firewall, BMCs", MACHINES, found(page, /ip saddr \$BMC_NETWORK tcp dport (.*) accept/g)],
  ["port for machines", "page, containers", MACHINES, found(containers, /\$PROVISION_HOST:(\d+)/g)],
  ["port for machines", "compose, published", MACHINES, found(compose, /\$\{OSTLER_PROVISION_HOST\}:\d+:(\d+)/g)],
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
  ["data", "user", [config.data], found(page, /--home-dir (\S+)/g)],
  ["data", "image", [config.data], found(image, /OSTLER_DATA=(\S+)/g)],
  ["boot media", "page", [config.agentFolder], found(page, /agent-build --out (\S+)/g)],
  ["boot media", "image", [config.agentFolder], found(image, /"--out", "([^"]+)"/g)],
  ["boot media", "compose", [config.agentFolder], found(compose, /"agent:([^":]+)/g)],
  ["images", "compose", [config.imageFolder], found(compose, /"images:([^":]+)/g)],
  [
    "folders",
    "image, of the service's user",
    [config.data, config.agentFolder, config.imageFolder],
    found(image, /^RUN install .* -m 0700 (.*)$/gm).flatMap((names) => names.split(" ")),
  ],
  ["program", "unit", ["/opt/ostler"], found(unit, /^(?:WorkingDirectory=(.*)$)/gm)],
  ["program", "unit, Node", ["/opt/ostler"], found(unit, /^ExecStart=(.*)\/node_modules\/\.bin\/node /gm)],
  ["program", "command", ["/opt/ostler"], found(command, /(\/\S+?)\/(?:node_modules|src)\//g)],
  ["program", "page", ["/opt/ostler"], found(page, /(?:git clone .*<repository>|^cd) (\/opt\S+)$/gm)],
  ["program", "image", ["/opt/ostler"], found(image, /^WORKDIR (.*)$/gm)],
  ["settings", "page", ["/etc/ostler.env"], found(page, /(\/etc\/[\w-]+\.env)/g)],
  ["settings", "unit", ["/etc/ostler.env"], found(unit, /^EnvironmentFile=(.*)$/gm)],
  ["settings", "command", ["/etc/ostler.env"], found(command, /--env-file=(\S+)/g)],
  ["token", "page", ["/etc/ostler.token"], found(page, /(\/etc\/[\w-]+\.token)/g)],
  ["token", "unit", ["/etc/ostler.token"], found(unit, /^LoadCredential=token:(.*)$/gm)],
  ["token", "command", ["/etc/ostler.token"], found(command, /OSTLER_TOKEN_FILE=(\S+)/g)],
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
  const names = found(`${unit}${settings}${command}${image}${compose}${containers}`, /\b(OSTLER_[A-Z_]+)/g);
  expect(names.filter((name) => !(name in VARIABLES))).toEqual([]);
  const lines = settings.split("\n").filter((line) => /^\w+=/.test(line));
  const environment = Object.fromEntries(lines.map((line) => line.split(/=(.*)/).slice(0, 2))) as Record<
    string,
    string
  >;
  const values = { PROVISION_HOST: "10.77.0.1", BMC_NETWORK: "10.77.1.0/24", DB_PASSWORD: "secret" };
  const given = Object.entries(environment).map(([name, value]) => [
    name,
    value.replace(/PROVISION_HOST|BMC_NETWORK|DB_PASSWORD/, (word) => values[word as keyof typeof values]),
  ]);
  expect(readConfig(Object.fromEntries(given) as Record<string, string>, [])).toMatchObject({
    plugins: expect.arrayContaining(PLUGINS) as unknown,
    provisionUrl: "http://10.77.0.1:4010",
    bmcNetworks: ["10.77.1.0/24"],
  });
});

test.each([
  ["page", page],
  ["image", image],
])("%s: installs every Debian package that the build of the boot media needs [R-821]", (_place, text) => {
  const installed = found(text, /apt-get install ([^&\n]+)/g).flatMap((words) => words.trim().split(" "));
  const essential = ["apt", "dpkg"];
  expect(Object.values(NEEDED).filter((name) => !essential.includes(name) && !installed.includes(name))).toEqual([]);
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
  expect(found(page, /install -m 0\d+ docs\/systemd\/(\S+)/g)).toEqual(files.toSorted());
});
