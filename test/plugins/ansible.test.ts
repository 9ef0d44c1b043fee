import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { loginFailure } from "../../plugins/ansible/failure.ts";
import { inventoryOf } from "../../plugins/ansible/facts.ts";
import { openProject } from "../../plugins/ansible/project.ts";
import { ansibleSettings, ansibleVariables } from "../../plugins/ansible/settings.ts";
import { conformance } from "../../packages/driver/src/conformance/conformance.ts";
import type { AnsibleLab } from "../support/ansible-lab.ts";
import { PRIVATE_KEY, ansibleLab, ansibleMachine } from "../support/ansible-lab.ts";
import { eventually } from "../support/eventually.ts";

const PASSWORD = "password-of-the-lab-19f3";
const VARIABLE = "variable-of-the-lab-77a0";

let lab: AnsibleLab;
beforeAll(async () => {
  lab = await ansibleLab();
});
afterAll(() => lab[Symbol.asyncDispose]());
beforeEach(() => {
  lab.lines.length = 0;
  lab.play("configure", "ended");
});

const isAlive = (pid: number) => {
  try {
    // A zombie waits for its parent, and does nothing.
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
};
/** A process ID that a playbook has written. */
const pidIn = (file: string) =>
  eventually(`${file} has an ID`, () => (existsSync(file) && Number(readFileSync(file, "utf8"))) || false);

const suite = (port: number) => conformance({ ...ansibleMachine(port), factory: () => lab.driver() });

describe("driver ansible: conformance", () => {
  test.each(suite(22).map(({ title }) => title))("driver ansible %s", async (title) => {
    await suite(lab.port)
      .find((check) => check.title === title)
      ?.run();
  });
});

describe("driver ansible: settings", () => {
  test.each([
    ["no login", { privateKey: undefined }],
    ["a user name that Ansible would evaluate", { username: "{{ lookup('pipe', 'id') }}" }],
    ["a user name that is an option", { username: "-oProxyCommand=id" }],
    ["a key that is none", { privateKey: "ssh-ed25519 AAAA" }],
    ["a host key that is none", { hostKeys: ["10.0.0.7 ssh-ed25519 AAAA\nx"] }],
    ["an address with a port", { address: "10.0.0.7:22" }],
  ])("settings of ansible refuse %s", (_what, change) => {
    const given = { address: "10.0.0.7", privateKey: PRIVATE_KEY, ...change };
    expect(ansibleSettings.safeParse(given).success).toBe(false);
  });

  test("variables that would lead the login of a node elsewhere are refused [R-1221]", () => {
    expect(ansibleVariables.safeParse({ ansible_host: "10.0.0.9" }).success).toBe(false);
    expect(ansibleVariables.safeParse({ ntp: "10.0.0.9", host_group: "masters" }).success).toBe(true);
  });
});

describe("driver ansible: a play", () => {
  test("a play gets the node in its host group, and the effective variables as data [R-1220]", async () => {
    lab.play(
      "configure",
      `cp "$HOME/inventory.json" "$HOME/variables.json" ${lab.folder}; ended "{\\"timeout\\":$ANSIBLE_TIMEOUT}"`,
    );
    const call = lab.call({ variables: { host_group: "masters", greeting: "{{ lookup('pipe', 'id') }}", n: [1] } });
    expect(await lab.run("configure", call)).toEqual({ kind: "done", output: { timeout: 30 } });
    const inventory: unknown = JSON.parse(readFileSync(join(lab.folder, "inventory.json"), "utf8"));
    const { name } = call.node;
    expect(inventory).toMatchObject({
      all: { hosts: [name] },
      masters: { hosts: [name] },
      _meta: { hostvars: { [name]: { ansible_host: "127.0.0.1", ansible_port: lab.port, ansible_user: "root" } } },
    });
    expect(JSON.parse(readFileSync(join(lab.folder, "variables.json"), "utf8"))).toEqual({
      host_group: { __ansible_unsafe: "masters" },
      greeting: { __ansible_unsafe: "{{ lookup('pipe', 'id') }}" },
      n: { __ansible_unsafe: [1] },
    });
  });

  test("no file, argument or environment has a secret while a play runs [R-1222]", async () => {
    lab.play(
      "configure",
      `rm "$HOME/inventory.json" "$HOME/variables.json"
       for pid in $(ls /proc | grep '^[0-9]*$'); do cat /proc/$pid/cmdline /proc/$pid/environ; done >${lab.folder}/seen 2>/dev/null
       find "$HOME" -type f | xargs cat >>${lab.folder}/seen; ended`,
    );
    const settings = lab.settings({ password: PASSWORD, becomePassword: `${PASSWORD}-2` });
    const result = await lab.run("configure", lab.call({ settings, variables: { token: VARIABLE } }));
    expect(result).toEqual({ kind: "done", output: {} });
    const seen = readFileSync(join(lab.folder, "seen"), "latin1");
    expect(seen).toContain("OSTLER_ANSIBLE_RUN=");
    for (const secret of [PASSWORD, VARIABLE, PRIVATE_KEY.split("\n")[1] ?? ""]) expect(seen).not.toContain(secret);
  });

  test("modules are in no file on either machine, and connections have 30 s, unless the project's ansible.cfg decides that [R-1386]", async () => {
    lab.play("configure", `echo "$ANSIBLE_PIPELINING $ANSIBLE_TIMEOUT" >${lab.folder}/decided; ended`);
    const decided = async () => {
      expect(await lab.run("configure", lab.call())).toEqual({ kind: "done", output: {} });
      return readFileSync(join(lab.folder, "decided"), "utf8").trimEnd();
    };
    const config = join(lab.project, "ansible.cfg");
    onTestFinished(() => rmSync(config, { recursive: true, force: true }));
    expect(await decided()).toBe("True 30");
    writeFileSync(config, "[ssh_connection]\n# pipelining = False\n");
    expect(await decided()).toBe("True 30");
    writeFileSync(config, "[ssh_connection]\npipelining = False\n");
    expect(await decided()).toBe(" 30");
    writeFileSync(config, "[defaults]\ntimeout = 120\n");
    expect(await decided()).toBe("True");
    rmSync(config);
    mkdirSync(config);
    expect(await decided()).toBe("True 30");
  });

  test("the path of a socket of ssh is short enough, or the step names TMPDIR", async () => {
    lab.play("configure", `echo "$ANSIBLE_SSH_CONTROL_PATH_DIR:$ANSIBLE_SSH_CONTROL_PATH" >${lab.folder}/path; ended`);
    // 11 characters are the name that Ansible gives the socket, 17 those that ssh adds.
    const most = 107 - 11 - 17;
    const below = `/ostler-ansible-${process.getuid?.()}/${lab.call().node.id.replaceAll("-", "")}`;
    for (const isTooLong of [false, true]) {
      const tmp = join(lab.folder, "t".repeat(most - `${lab.folder}/${below}`.length + (isTooLong ? 1 : 0)));
      mkdirSync(tmp);
      vi.stubEnv("TMPDIR", tmp);
      const result = await lab.run("configure", lab.call());
      vi.unstubAllEnvs();
      const refused = { kind: "failed", reason: expect.stringContaining("Set TMPDIR") as string };
      expect(result).toMatchObject(isTooLong ? refused : { kind: "done" });
    }
    const [folder = "", path] = readFileSync(join(lab.folder, "path"), "utf8").trim().split(":");
    expect(folder).toHaveLength(most);
    // A name for all of them would lead a delegated task to the node itself.
    expect(path).toBe("");
  });

  test("the data of set_stats is the output, and plays, tasks and results are in the step log [R-1223]", async () => {
    lab.play(
      "configure",
      `event '{"event":"play","name":"site"}'; event '{"event":"task","name":"token"}'
       event "{\\"event\\":\\"result\\",\\"status\\":\\"changed\\",\\"host\\":\\"$node\\",\\"task\\":\\"token\\"}"
       ended '{"join_token":"abc"}'`,
    );
    expect(await lab.run("configure")).toEqual({ kind: "done", output: { join_token: "abc" } });
    expect(lab.lines).toEqual(["PLAY site", "TASK token", "changed"]);
  });

  const failure = (status: string, reason: object) =>
    `event '${JSON.stringify({ event: "result", status, host: "n", task: "install", reason })}'`;
  test.each([
    [
      "a task that fails",
      `${failure("failed", { msg: "no space left" })}; exit 2`,
      "OTHER",
      /"install" failed .*no space left/,
    ],
    [
      "a machine without Python",
      `${failure("failed", { msg: "The module interpreter '/usr/bin/python3' was not found." })}; exit 2`,
      "REFUSED",
      /has no Python/,
    ],
    [
      "an unknown host key",
      `${failure("unreachable", { msg: "Failed to connect: Host key verification failed." })}; exit 4`,
      "REFUSED",
      /host key that is not known/,
    ],
    [
      "a machine that does not answer",
      `${failure("unreachable", { msg: "Connection timed out" })}; exit 4`,
      "UNREACHABLE",
      /does not answer/,
    ],
    [
      "a syntax error",
      `echo "[WARNING]: x" >&2; echo "ERROR! Syntax Error while loading YAML." >&2; exit 4`,
      "OTHER",
      /configure\.yml cannot be run: Syntax Error/,
    ],
    [
      "no play for the host group",
      `event '{"event":"end","plays":0,"size":2,"output":{}}'`,
      "REFUSED",
      /No play of .* in host group masters/,
    ],
    ["too much data", `ended null 300000`, "REFUSED", /has 300000 characters/],
    ["a program that was killed", `kill -KILL $$`, "OTHER", /was killed|exit code 137/],
  ])("a play ends with a failure that names the cause: %s [R-1224]", async (_what, script, errorKind, reason) => {
    lab.play("configure", script);
    const result = await lab.run("configure", lab.call({ variables: { host_group: "masters" } }));
    expect(result).toMatchObject({ kind: "failed", errorKind, reason: expect.stringMatching(reason) as string });
  });

  test("a private key that cannot be used is a failure that says so", async () => {
    const settings = lab.settings({ privateKey: PRIVATE_KEY.replace("\nc2", "\nDAMAGED") });
    const result = await lab.run("configure", lab.call({ settings }));
    expect(result).toMatchObject({ kind: "failed", errorKind: "AUTHENTICATION" });
    expect(JSON.stringify(result)).not.toContain("DAMAGED");
  });

  test("much output of a program fills no memory, and ends nothing", async () => {
    lab.play(
      "configure",
      "head -c 50000000 /dev/zero; head -c 50000000 /dev/zero >&2; head -c 50000000 /dev/zero >&3; echo >&3; ended",
    );
    const before = process.memoryUsage().rss;
    expect(await lab.run("configure")).toMatchObject({ kind: "done" });
    expect(process.memoryUsage().rss - before).toBeLessThan(150_000_000);
  });
});

/** A playbook that waits, with a process that has left its session, as a connection that ssh shares. */
const HANGS = () =>
  `setsid sleep 1000 >/dev/null 2>&1 & echo $! >${lab.folder}/far; echo $$ >${lab.folder}/near; sleep 1000`;

describe("driver ansible: the end of a play", () => {
  beforeEach(() => {
    for (const name of ["far", "near"]) writeFileSync(join(lab.folder, name), "");
    lab.play("configure", HANGS());
  });

  test("an abort ends all processes of a play before the step ends [R-1225]", async () => {
    const abort = new AbortController();
    const running = lab.run("configure", lab.call({ signal: abort.signal }));
    const pids = [await pidIn(join(lab.folder, "far")), await pidIn(join(lab.folder, "near"))];
    abort.abort(new Error("aborted"));
    await expect(running).rejects.toThrow("aborted");
    expect(pids.map(isAlive)).toEqual([false, false]);
  });

  test("a worker that is killed leaves no process of a play [R-1226]", async () => {
    const { node } = lab.call();
    const worker = spawn(
      process.execPath,
      [fileURLToPath(new URL("../support/ansible-worker.ts", import.meta.url)), node.id, String(lab.port)],
      { stdio: "inherit" },
    );
    const pids = [await pidIn(join(lab.folder, "far")), await pidIn(join(lab.folder, "near"))];
    expect(pids.map(isAlive)).toEqual([true, true]);
    worker.kill("SIGKILL");
    await once(worker, "exit");
    await eventually("all processes have ended", () => !pids.some(isAlive));
  });

  test("a newer run ends the processes that an earlier one has left, and begins after that [R-1227]", async () => {
    const call = lab.call();
    const earlier = lab.run("configure", call);
    const left = await pidIn(join(lab.folder, "far"));
    lab.play("configure", `kill -0 ${left} 2>/dev/null && ps -o stat= ${left} | grep -qv Z && exit 9; ended`);
    const newer = await lab.run("configure", { ...call, fence: 2 });
    expect(newer).toMatchObject({ kind: "done" });
    expect(await earlier).toMatchObject({ kind: "failed" });
    expect(isAlive(left)).toBe(false);
  });

  test("an earlier run that was paused does not begin beside a newer one of its step [R-1227]", async () => {
    const call = lab.call({ fence: 2 });
    lab.play("configure", "ended");
    expect(await lab.run("configure", call)).toMatchObject({ kind: "done" });
    const stale = await lab.run("configure", { ...call, fence: 1 });
    expect(stale).toMatchObject({
      kind: "failed",
      reason: expect.stringContaining("Another process has begun") as string,
    });
  });
});

describe("driver ansible: the system", () => {
  test("a node is verified by a login, and its power is UNKNOWN [R-1215]", async () => {
    const { power } = await lab.driver();
    expect(await power.read(lab.call())).toBe("UNKNOWN");
    expect(power.set).toBeUndefined();
    const refused = power.read(lab.call({ settings: lab.settings({ username: "refused" }) }));
    await expect(refused).rejects.toMatchObject({ name: "DriverError", kind: "AUTHENTICATION" });
    const wrong = power.read(
      lab.call({ settings: lab.settings({ privateKey: undefined, password: "wrong-password" }) }),
    );
    await expect(wrong).rejects.toMatchObject({ kind: "AUTHENTICATION" });
    const stranger = power.read(lab.call({ settings: lab.settings({ username: "stranger" }) }));
    await expect(stranger).rejects.toMatchObject({
      kind: "REFUSED",
      message: expect.stringContaining("FIRST_USE") as string,
    });
  });

  test("a login that hangs ends with its signal", async () => {
    const { power } = await lab.driver();
    const signal = AbortSignal.timeout(300);
    const hanging = power.read(lab.call({ signal, settings: lab.settings({ username: "silent" }) }));
    await expect(hanging).rejects.toThrow(/timeout/);
  });

  test("check_system waits for a machine that does not answer, and fails at once if it refuses the login", async () => {
    const away = lab.call({ settings: lab.settings({ port: 1 }) });
    const waiting = await lab.run("check_system", away);
    expect(waiting).toMatchObject({ kind: "wait", seconds: 5 });
    expect(await lab.run("check_system", { ...away, memo: 0 })).toMatchObject({
      kind: "failed",
      errorKind: "UNREACHABLE",
    });
    const refused = lab.call({ settings: lab.settings({ username: "refused" }) });
    expect(await lab.run("check_system", refused)).toMatchObject({ kind: "failed", errorKind: "AUTHENTICATION" });
  });

  test("a host key that was accepted at its first use is in the settings of a node that is found [R-1228]", async () => {
    const { discover } = await lab.driver();
    const { address: _, ...login } = lab.settings({ hostKey: "FIRST_USE" });
    const found = await discover?.probe({ ...lab.call(), settings: login, address: "127.0.0.1" });
    expect(found).toMatchObject({ name: "machine-7", settings: { hostKeys: ["ssh-ed25519 AAAAhostkey"] } });
  });

  test("a first host key is forgotten only by a request that installs the system again [R-1228]", async () => {
    const call = lab.call({ settings: lab.settings({ hostKey: "FIRST_USE" }) });
    await lab.run("check_system", call);
    const known =
      readdirSync(lab.folder)
        .flatMap((name) => join(lab.folder, name, "known_hosts", call.node.id))
        .find(existsSync) ?? "";
    writeFileSync(known, "older ssh-ed25519 AAAAolder\n");
    await lab.run("check_system", call);
    expect(readFileSync(known, "utf8")).toContain("AAAAolder");
    await lab.run("check_system", { ...call, image: {} as never });
    expect(readFileSync(known, "utf8")).toContain("AAAAhostkey");
  });
});

describe("driver ansible: the project", () => {
  test("the revision changes with each file of the project, and not with its history [R-1229]", () => {
    const project = openProject(lab.project);
    const first = project.revision();
    mkdirSync(join(lab.project, "roles"), { recursive: true });
    mkdirSync(join(lab.project, ".git"), { recursive: true });
    writeFileSync(join(lab.project, ".git", "HEAD"), "x");
    expect(project.revision()).toBe(first);
    writeFileSync(join(lab.project, "roles", "main.yml"), "a");
    const second = project.revision();
    writeFileSync(join(lab.project, "roles", "main.yml"), "b");
    expect(new Set([first, second, project.revision(), openProject(lab.project).revision()]).size).toBe(3);
  });

  test("plays declare whether they can be interrupted and repeated; only configure is idempotent otherwise [R-1230]", async () => {
    const manifest = join(lab.project, "ostler.json");
    const stepsOf = async () => {
      const { deploy, clean } = await lab.driver();
      return [...(deploy?.steps ?? []), ...(clean?.steps ?? [])].map(({ name, interruptible, idempotent }) => [
        name,
        interruptible,
        idempotent,
      ]);
    };
    expect(await stepsOf()).toEqual([
      ["check_system", "ALWAYS", true],
      ["configure", "AT_BOUNDARY", true],
      ["unconfigure", "AT_BOUNDARY", false],
      ["reset", "AT_BOUNDARY", false],
    ]);
    writeFileSync(
      manifest,
      JSON.stringify({ reset: { interruptible: "NEVER", idempotent: true, timeoutSeconds: 60 } }),
    );
    expect((await stepsOf()).at(-1)).toEqual(["reset", "NEVER", true]);
    const project = openProject(lab.project);
    writeFileSync(manifest, "{}");
    expect(() => project.revision()).toThrow("restart the service");
  });

  test.each([
    ["{", "is not JSON"],
    ['{ "configure": { "interruptible": "SOMETIMES" } }', "configure.interruptible"],
    ['{ "configure": { "playbook": "../other.yml" } }', "configure.playbook"],
    ['{ "reset": { "playbook": "missing.yml" } }', "has no missing.yml"],
  ])("a project is refused at the start: %s", (text, says) => {
    const folder = join(lab.folder, "bad");
    mkdirSync(folder, { recursive: true });
    for (const name of ["configure", "unconfigure"]) writeFileSync(join(folder, `${name}.yml`), "");
    writeFileSync(join(folder, "ostler.json"), text);
    expect(() => openProject(folder)).toThrow(says);
  });

  test("a service without a project does not start with this driver", () => {
    expect(() => openProject(undefined)).toThrow("ANSIBLE_DRIVER_PROJECT");
    expect(() => openProject(join(lab.folder, "none"))).toThrow("has no configure.yml");
  });
});

test("the inventory has what Ansible reports of the machine, without placeholders", () => {
  const facts = {
    ansible_system_vendor: "Lab",
    ansible_product_serial: "NA",
    ansible_product_uuid: "4C4C4544",
    ansible_memtotal_mb: 2,
    ansible_interfaces: ["lo", "eth0", "br-0"],
    ansible_lo: { type: "loopback" },
    ansible_eth0: { type: "ether", macaddress: "52:54:00:AA:00:01", active: true, speed: -1 },
    ansible_br_0: { type: "bridge", macaddress: "52:54:00:aa:00:01" },
    ansible_devices: { loop0: { sectors: "8" }, sda: { sectors: "2048", model: "M", rotational: "0", removable: "0" } },
  };
  expect(inventoryOf({ facts })).toEqual({
    manufacturer: "Lab",
    uuid: "4c4c4544",
    memoryBytes: 2_097_152,
    networkInterfaces: [{ id: "eth0", name: "eth0", mac: "52:54:00:aa:00:01", link: "UP" }],
    disks: [{ id: "sda", path: "/dev/sda", sizeBytes: 1_048_576, model: "M", rotational: false, removable: false }],
  });
});

test("a failed login without a known reason quotes what SSH has printed", () => {
  expect(loginFailure("h:22", "x\nssh: strange\n").message).toBe('Host h:22 was not reached: "ssh: strange".');
});
