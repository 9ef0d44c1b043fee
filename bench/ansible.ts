/**
 * Subject `ansible`: CPU of plays that the service runs with the driver `ansible`, against the same plain runs of
 * ansible-playbook, in alternating passes on one SSH server on loopback. The service deploys nodes again, which
 * includes its check of the login. Needs the Debian packages ansible-core and openssh-server.
 */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { printTable, shown } from "./figures.ts";
import { mutate, request } from "./request.ts";
import { startServed } from "./service.ts";
import type { Served } from "./service.ts";
import { end } from "./testbed.ts";
import type { Testbed } from "./testbed.ts";

const PORT = 22_022;
const TICK_MS = 10;
/** Each question costs the service some milliseconds. */
const POLL_MS = 1_000;
const PLAY = `
- hosts: all
  tasks:
    - command: "true"
    - copy: { dest: "{{ folder }}/{{ inventory_hostname }}", content: "{{ greeting }}" }
    - command: "true"
`;

export async function measureAnsible(testbed: Testbed, rounds: number): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "ostler-bench-ansible-"));
  const project = join(folder, "project");
  mkdirSync(project);
  for (const name of ["configure", "unconfigure"]) writeFileSync(join(project, `${name}.yml`), PLAY);
  writeFileSync(join(project, "reset.yml"), "- { hosts: all, gather_facts: false, tasks: [] }\n");
  const key = newKey(join(folder, "key"));
  const hostKey = newKey(join(folder, "host"));
  const config = join(folder, "sshd_config");
  writeFileSync(join(folder, "authorized_keys"), key.publicKey);
  writeFileSync(
    config,
    [
      `Port ${PORT}`,
      "ListenAddress 127.0.0.1",
      `HostKey ${join(folder, "host")}`,
      `AuthorizedKeysFile ${join(folder, "authorized_keys")}`,
      "PidFile none\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n",
    ].join("\n"),
  );
  if (process.getuid?.() === 0) mkdirSync("/run/sshd", { recursive: true });
  const server = spawn("/usr/sbin/sshd", ["-D", "-f", config], { stdio: "ignore" });
  testbed.watch(server);
  await using made = await testbed.database("served");
  if (!("url" in made.connection)) throw new Error("A served database has a URL.");
  await using service = await startServed(testbed, {
    environment: {
      DATABASE_URL: made.connection.url,
      OSTLER_PLUGINS: "ansible",
      OSTLER_BMC_NETWORKS: "127.0.0.0/8",
      OSTLER_DRIVER_USER: "service",
      OSTLER_POWER_SECONDS: "0",
      ANSIBLE_DRIVER_PROJECT: project,
    },
  });
  const settings = {
    address: "127.0.0.1",
    port: PORT,
    username: userInfo().username,
    privateKey: key.privateKey,
    hostKeys: [hostKey.publicKey.split(" ").slice(0, 2).join(" ")],
  };
  const register = `mutation ($nodes: [RegisterNodeInput!]!) { registerNodes(input: { nodes: $nodes }) { errors { message } } }`;
  await mutate(service, register, { nodes: [{ name: "n1", driver: { ansible: settings } }] });
  await work(service, `manageNodes(input: { nodes: { names: ["n1"] } })`);
  await work(service, `provideNodes(input: { nodes: { names: ["n1"] } })`);
  const variables = { folder, greeting: "hello" };
  const served = () =>
    work(
      service,
      `deployNodes(input: { nodes: { names: ["n1"] }, reinstall: true, variables: $variables })`,
      variables,
    );
  const plain = () => runPlain({ folder, project, variables });
  await served();
  await plain();
  const results: (readonly [string, number, number])[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const plainMs = await cpuDuring(() => ticksOf(statOf(String(process.pid)), WAITED_FOR), plain);
    const servedMs = await cpuDuring(() => ticksOfTree(service.pid), served);
    results.push([String(round + 1), plainMs, servedMs]);
  }
  const median = (index: 1 | 2) =>
    results.map((one) => one[index]).toSorted((a, b) => a - b)[Math.floor(results.length / 2)] ?? 0;
  console.log("  CPU of one play, in ms");
  printTable(
    ["round", "plain", "service", "ratio"],
    [
      ...results.map(([name, one, other]) => [name, shown(one), shown(other), shown(other / one)]),
      ["median", shown(median(1)), shown(median(2)), shown(median(2) / median(1))],
    ],
  );
  await end(server);
  rmSync(folder, { recursive: true, force: true });
}

async function work(service: Served, mutation: string, variables: object = {}): Promise<void> {
  const text = mutation.includes("$variables")
    ? `mutation ($variables: JSON) { verb: ${mutation} { operation { uuid } errors { message } } }`
    : `mutation { verb: ${mutation} { operation { uuid } errors { message } } }`;
  const { verb } = await mutate<{ verb: { operation: { uuid: string } } }>(service, text, { variables });
  for (;;) {
    const { operation } = await request<{ operation: { state: string; firstFailure: { message: string } | null } }>(
      service,
      "query ($id: ID!) { operation(id: $id) { state firstFailure { message } } }",
      { id: verb.operation.uuid },
    );
    if (operation.state === "SUCCEEDED") return;
    if (operation.firstFailure) throw new Error(operation.firstFailure.message);
    await delay(POLL_MS);
  }
}

async function runPlain({
  folder,
  project,
  variables,
}: {
  readonly folder: string;
  readonly project: string;
  readonly variables: object;
}): Promise<void> {
  const inventory = join(folder, "hosts.ini");
  writeFileSync(
    inventory,
    `n1 ansible_host=127.0.0.1 ansible_port=${PORT} ansible_ssh_private_key_file=${join(folder, "key")}\n`,
  );
  const words = ["-i", inventory, "--limit", "n1", "-e", JSON.stringify(variables), join(project, "configure.yml")];
  // Without the connection that ssh keeps of the run before: other nodes have none.
  const connections = mkdtempSync(join(folder, "cp-"));
  const env = {
    ...process.env,
    LC_ALL: "C.UTF-8",
    ANSIBLE_HOST_KEY_CHECKING: "False",
    ANSIBLE_SSH_CONTROL_PATH_DIR: connections,
  };
  const child = spawn("ansible-playbook", words, { env, stdio: "ignore" });
  const [code] = (await once(child, "exit")) as [number | null];
  if (code !== 0) throw new Error(`A plain run of ansible-playbook ended with ${code}.`);
}

/** CPU while the work is done, in ms. */
async function cpuDuring(ticks: () => number, measured: () => Promise<void>): Promise<number> {
  const before = ticks();
  await measured();
  return TICK_MS * (ticks() - before);
}

/** Of a process and its children, each with the children that it has waited for. */
function ticksOfTree(parent: number): number {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .reduce((sum, pid) => {
      const fields = statOf(pid);
      const isOfTree = Number(pid) === parent || Number(fields[1]) === parent;
      return isOfTree ? sum + ticksOf(fields, [...OWN, ...WAITED_FOR]) : sum;
    }, 0);
}

function ticksOf(fields: readonly string[], indexes: readonly number[]): number {
  return indexes.reduce((sum, index) => sum + Number(fields[index]), 0);
}

/** Fields of /proc/PID/stat after the name: CPU of the process, and of the children that it has waited for. */
const OWN = [11, 12];
const WAITED_FOR = [13, 14];

function statOf(pid: string): readonly string[] {
  try {
    return readFileSync(`/proc/${pid}/stat`, "latin1").split(") ").at(-1)?.split(" ") ?? [];
  } catch {
    // The process has ended.
    return [];
  }
}

function newKey(file: string): { readonly privateKey: string; readonly publicKey: string } {
  execFileSync("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-C", "bench", "-f", file]);
  return { privateKey: readFileSync(file, "utf8"), publicKey: readFileSync(`${file}.pub`, "utf8") };
}
