/** The checks of the lab, inside its namespaces (lab.ts). */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import {
  lstatSync,
  cpSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
  chmodSync,
  openSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { ask } from "../support/ask.ts";
import { eventually } from "../support/eventually.ts";
import { inputTypeOf } from "../support/input-type.ts";
import { check, part, prove } from "../support/proof.ts";
import { PASSWORD_USER, startHosts } from "./hosts.ts";
import type { Lab, LabHost } from "./hosts.ts";

const URL_OF_SERVICE = "http://127.0.0.1:4000";
const WORK_MS = 180_000;
const CLUSTER = "lab";
const MASTERS = ["h1", "h2"];
const WORKERS = ["h3", "h4", "h5", "h6"];
const ALL = [...MASTERS, ...WORKERS];
/** Long enough that only a leak can contain it. */
const SECRET = "variable-secret-8f3a2c71";

interface Refusal {
  readonly code: string;
  readonly message: string;
}

interface StepView {
  readonly name: string;
  readonly state: string;
  readonly revision: string | null;
  readonly attempts: readonly { readonly output: unknown }[];
}

interface RunView {
  readonly nodeName: string;
  readonly state: string;
  readonly failure: Refusal | null;
  readonly steps: readonly StepView[];
}

const folder = mkdtempSync(join(tmpdir(), "ostler-ansible-lab-"));
const project = join(folder, "project");
const log = join(folder, "service.log");
/** All answers of the API, to search for secrets. */
let answers = "";
/** Command lines that were seen while plays ran. */
let commands = "";
let service: ChildProcess | undefined;

async function start(): Promise<void> {
  const out = openSync(log, "a");
  const words = [
    "src/main.ts",
    "--plugins",
    "ansible,fake",
    "--data",
    join(folder, "data"),
    "--bmc-networks",
    "10.77.0.0/24",
  ];
  service = spawn(process.execPath, words, {
    cwd: fileURLToPath(new URL("../..", import.meta.url)),
    stdio: ["ignore", out, out],
    env: { ...process.env, ANSIBLE_DRIVER_PROJECT: project, OSTLER_DRIVER_USER: "daemon", OSTLER_LOG: "debug" },
  });
  await eventually(
    "the service is ready",
    async () => (await fetch(`${URL_OF_SERVICE}/readyz`).catch(() => null))?.ok,
    60_000,
  );
}

async function kill(): Promise<void> {
  const exited = service && once(service, "exit");
  service?.kill("SIGKILL");
  await exited;
}

function query<Data>(text: string, variables: Readonly<Record<string, unknown>> = {}): Promise<Data> {
  return ask<Data>(URL_OF_SERVICE, text, { variables, onAnswer: (answer) => (answers += answer) });
}

async function mutate(name: string, input: object, fields = "operation { uuid }") {
  const text = `mutation ($input: ${inputTypeOf(name)}!) { ${name}(input: $input) { ${fields} errors { code message } } }`;
  const data = await query<
    Record<
      string,
      {
        readonly operation?: { readonly uuid: string } | null;
        readonly errors: readonly Refusal[];
        readonly planHash?: string | null;
      }
    >
  >(text, { input });
  const found = data[name];
  if (!found) throw new Error(`No answer to ${name}.`);
  return found;
}

/** Starts a verb, and waits for its end. */
async function work(name: string, input: object): Promise<readonly RunView[]> {
  const { operation, errors } = await mutate(name, input);
  if (!operation) throw new Error(`${name} is refused: ${errors.map(({ message }) => message).join(" ")}`);
  return ended(operation.uuid);
}

async function ended(id: string): Promise<readonly RunView[]> {
  return eventually(
    `operation ${id} ends`,
    async () => {
      const found = await viewOf(id);
      return found.finishedAt !== null && found.runs;
    },
    WORK_MS,
  );
}

async function viewOf(id: string): Promise<{ readonly finishedAt: string | null; readonly runs: readonly RunView[] }> {
  const { operation } = await query<{
    operation: { finishedAt: string | null; runs: { edges: readonly { node: RunView }[] } };
  }>(
    "query ($id: ID!) { operation(id: $id) { finishedAt runs(first: 20) { edges { node { nodeName state failure { code message } steps { name state revision attempts { output } } } } } } }",
    { id },
  );
  return { finishedAt: operation.finishedAt, runs: operation.runs.edges.map(({ node }) => node) };
}

async function states(): Promise<Readonly<Record<string, string>>> {
  const { nodes } = await query<{ nodes: { edges: readonly { node: { name: string; state: string } }[] } }>(
    "{ nodes(first: 50) { edges { node { name state } } } }",
  );
  return Object.fromEntries(nodes.edges.map(({ node }) => [node.name, node.state]));
}

function byName(names: readonly string[]) {
  return { nodes: { names } };
}

/** Processes of plays, by their command lines, which are kept to be searched. */
function plays(): readonly string[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        const words = readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
        commands += words;
        return /python.*ansible-playbook/.test(words) ? [`${pid} ${words}`] : [];
      } catch {
        return [];
      }
    });
}

const succeeded = (runs: readonly RunView[]) => runs.length > 0 && runs.every(({ state }) => state === "SUCCEEDED");
const shown = (runs: readonly RunView[]) =>
  runs
    .map(({ nodeName, state, failure }) => `${nodeName} ${state} ${failure?.code ?? ""} ${failure?.message ?? ""}`)
    .join("; ");

await prove(async () => {
  chmodSync(folder, 0o755);
  cpSync(fileURLToPath(new URL("project", import.meta.url)), project, { recursive: true });
  const lab = await startHosts(folder, ALL.length);
  await start();
  const sampler = setInterval(plays, 500);
  try {
    await part("discovery", () => discovers(lab));
    await part("masters and workers", () => commissions(lab));
    await part("power", () => hasNoPower());
    await part("revision", () => refusesStale());
    await part("what goes wrong", () => fails(lab));
    await part("a kill", () => survivesKill(lab));
    await part("redeployment and decommission", () => redeploys(lab));
    await part("secrets", () => keepsSecrets(lab));
  } finally {
    clearInterval(sampler);
    await kill();
    if (process.env["KEEP"] === undefined) rmSync(folder, { recursive: true, force: true });
    else console.log(folder);
  }
});

async function discovers({ hosts, privateKey }: Lab): Promise<void> {
  await mutate("createCluster", { name: CLUSTER }, "cluster { name }");
  const addresses = [...hosts.map(({ address }) => address), "10.77.0.99"];
  const discover = async (login: object) => {
    const { operation, errors } = await mutate("discoverNodes", {
      addresses,
      cluster: { name: CLUSTER },
      driver: { ansible: login },
    });
    if (!operation) throw new Error(errors.map(({ message }) => message).join(" "));
    const text =
      "query ($id: ID!) { operation(id: $id) { finishedAt discoveries(first: 20) { edges { node { address failure { code kind message } } } } } }";
    const found = await eventually(
      "the discovery ends",
      async () => {
        const { operation: now } = await query<{
          operation: {
            finishedAt: string | null;
            discoveries: {
              edges: readonly {
                node: { address: string; state: string; failure: { kind: string; message: string } | null };
              }[];
            };
          };
        }>(text, { id: operation.uuid });
        return now.finishedAt !== null && now.discoveries.edges.map(({ node }) => node);
      },
      WORK_MS,
    );
    return found;
  };
  const unknown = await discover({ privateKey });
  check(
    "hosts whose keys are not known are not registered",
    unknown.filter(({ failure }) => /host key that is not known/.test(failure?.message ?? "")).length === hosts.length,
    unknown[0]?.failure?.message,
  );
  const refused = await discover({ username: PASSWORD_USER.name, password: "wrong-password-77", hostKey: "FIRST_USE" });
  check(
    "a wrong password is a failed login",
    refused.filter(({ failure }) => failure?.kind === "AUTHENTICATION").length === hosts.length,
    refused[0]?.failure?.message,
  );
  const found = await discover({ privateKey, hostKey: "FIRST_USE" });
  check(
    "six hosts are found, and the dead address is not",
    found.filter(({ failure }) => failure === null).length === hosts.length &&
      found.some(({ failure }) => failure?.kind === "UNREACHABLE"),
    JSON.stringify(found.map(({ failure }) => failure)),
  );
  const { nodes } = await query<{
    nodes: {
      edges: readonly {
        node: {
          name: string;
          powerState: string;
          drivers: readonly { settings: { hostKeys: readonly string[] }; secretsSet: readonly string[] }[];
        };
      }[];
    };
  }>(
    "{ nodes(first: 50) { edges { node { name powerState drivers { settings { ansible { hostKeys } } secretsSet } } } } }",
  );
  const keys = nodes.edges.flatMap(({ node }) =>
    node.drivers.flatMap(
      ({ settings }) => (settings as unknown as { ansible: { hostKeys: readonly string[] } }).ansible.hostKeys,
    ),
  );
  check(
    "they have the names and the host keys that they reported",
    ALL.every((name) => nodes.edges.some(({ node }) => node.name === name)) &&
      hosts.every(({ hostKey }) => keys.includes(hostKey)),
    nodes.edges.map(({ node }) => node.name).join(" "),
  );
  check(
    "a probe has changed nothing on the hosts",
    hosts.every(({ shell }) => shell("ls -A /srv").trim() === ""),
  );
}

async function commissions({ hosts }: Lab): Promise<void> {
  await mutate("updateNodes", { ...byName(MASTERS), hostGroup: "masters" }, "changedCount");
  await mutate("updateNodes", { ...byName(WORKERS), hostGroup: "workers" }, "changedCount");
  const variables = { greeting: "{{ lookup('pipe', 'id') }}", work_seconds: 1 };
  const runs = await work("commissionNodes", { nodes: { cluster: { name: CLUSTER } }, onFailure: "LEAVE", variables });
  check("six hosts are commissioned", runs.length === 6 && succeeded(runs), shown(runs));
  const role = ({ shell }: LabHost) => shell("cat /srv/role").trim();
  check(
    "each has the play of its host group, and variables are data, not templates",
    hosts.every((host) => role(host) === `${MASTERS.includes(host.name) ? "master" : "worker"} ${variables.greeting}`),
    hosts.map(role).join(", "),
  );
  const configure = runs.find(({ nodeName }) => nodeName === "h1")?.steps.find(({ name }) => name === "configure");
  check(
    "the data of set_stats is the output of the step",
    JSON.stringify(configure?.attempts[0]?.output) === '{"join_token":"token-of-h1"}',
    JSON.stringify(configure?.attempts[0]?.output),
  );
  check(
    "the revision of the project is with the step",
    /^[0-9a-f]{40}$/.test(configure?.revision ?? ""),
    configure?.revision ?? "",
  );
  const refused = await mutate("deployNodes", {
    ...byName(["h1"]),
    reinstall: true,
    variables: { ansible_host: "10.77.0.99" },
  });
  check(
    "variables of the connection are refused",
    /begins with ansible_/.test(refused.errors[0]?.message ?? ""),
    refused.errors[0]?.message,
  );
}

async function hasNoPower(): Promise<void> {
  const { errors } = await mutate("setPower", { ...byName(["h1"]), action: "OFF" });
  check("a change of power is UNSUPPORTED_BY_DRIVER", errors[0]?.code === "UNSUPPORTED_BY_DRIVER", errors[0]?.message);
  const { nodes } = await query<{
    nodes: { edges: readonly { node: { powerState: string; powerProblem: unknown } }[] };
  }>("{ nodes(first: 50) { edges { node { powerState powerProblem } } } }");
  check(
    "the power is UNKNOWN, without a problem",
    nodes.edges.every(({ node }) => node.powerState === "UNKNOWN" && node.powerProblem === null),
  );
}

async function refusesStale(): Promise<void> {
  const input = { ...byName(["h1"]), reinstall: true, onFailure: "LEAVE" };
  const planned = await mutate("deployNodes", { ...input, dryRun: true }, "planHash");
  writeFileSync(join(project, "note.yml"), "# changed\n");
  const stale = await mutate("deployNodes", { ...input, planHash: planned.planHash });
  check("a plan of another revision is refused", stale.errors[0]?.code === "STALE_REVISION", stale.errors[0]?.message);
  const steps = [
    { interface: "DEPLOY", name: "check_system" },
    { interface: "ENGINE", name: "hold" },
    { interface: "DEPLOY", name: "configure" },
  ];
  const { operation, errors } = await mutate("deployNodes", { ...input, steps });
  if (!operation) throw new Error(errors[0]?.message);
  await eventually("the run holds", async () => (await viewOf(operation.uuid)).runs[0]?.state === "HOLDING");
  writeFileSync(join(project, "note.yml"), "# changed again\n");
  await mutate("releaseHolds", { work: { names: ["h1"] } }, "acceptedCount");
  const [run] = await ended(operation.uuid);
  check("a change between plan and run is refused", run?.failure?.code === "STALE_REVISION", run?.failure?.message);
  const restarted = await mutate("restart", { work: { names: ["h1"] } });
  const next = restarted.operation?.uuid ?? "";
  await eventually("the run holds again", async () => (await viewOf(next)).runs[0]?.state === "HOLDING");
  await mutate("releaseHolds", { work: { names: ["h1"] } }, "acceptedCount");
  const again = await ended(next);
  check("a restart works with the new revision", succeeded(again), shown(again));
}

async function fails({ hosts, privateKey }: Lab): Promise<void> {
  const deploy = (names: readonly string[], variables = {}) =>
    work("deployNodes", { ...byName(names), reinstall: true, onFailure: "LEAVE", variables });
  const restart = async (names: readonly string[]) =>
    succeeded(await work("restart", { work: { names }, keepVariables: false }));
  const failureOf = (runs: readonly RunView[]) => runs[0]?.failure?.message ?? "no failure";

  const good = readFileSync(join(project, "configure.yml"), "utf8");
  writeFileSync(join(project, "configure.yml"), "- hosts: all\n  tasks:\n   - name: x\n  bad: [");
  const syntax = failureOf(await deploy(["h3"]));
  check("a syntax error is reported with its place", /configure\.yml cannot be run: .*YAML/s.test(syntax), syntax);
  writeFileSync(join(project, "configure.yml"), good);
  check("and a restart works after the repair", await restart(["h3"]));

  hosts[5]?.setLink("down");
  const { operation } = await mutate("deployNodes", {
    ...byName(WORKERS),
    reinstall: true,
    onFailure: "LEAVE",
    steps: [
      { interface: "DEPLOY", name: "check_system" },
      { interface: "DEPLOY", name: "configure" },
    ],
  });
  const id = operation?.uuid ?? "";
  const others = await eventually(
    "the other hosts end",
    async () => {
      const { runs } = await viewOf(id);
      const rest = runs.filter(({ nodeName }) => nodeName !== "h6");
      return rest.every(({ state }) => state === "SUCCEEDED" || state === "FAILED") && rest;
    },
    WORK_MS,
  );
  check("one unreachable host does not hold up the others", succeeded(others), shown(others));
  await mutate("abort", { work: { names: ["h6"] } }, "acceptedCount");
  await ended(id);
  hosts[5]?.setLink("up");
  check("it goes on when it is back", await restart(["h6"]));

  const many = await deploy(["h3"], { output_bytes: 50_000_000 });
  check("50 MB of output fill no memory", succeeded(many), shown(many));
  const much = failureOf(await deploy(["h3"], { much_data: true }));
  check("too much data of set_stats is refused", /at most 200000 are kept/.test(much), much);
  await restart(["h3"]);

  const hanging = await mutate("deployNodes", {
    ...byName(["h3"]),
    reinstall: true,
    onFailure: "LEAVE",
    variables: { work_seconds: 1000 },
  });
  await eventually("the play works", () => hosts[2]?.shell("pgrep -f 'sleep [1]000'") !== "", 60_000);
  const began = Date.now();
  await mutate("abort", { work: { names: ["h3"] } }, "acceptedCount");
  const [aborted] = await ended(hanging.operation?.uuid ?? "");
  check("a module that hangs is aborted", aborted?.state === "ABORTED", `${Date.now() - began} ms`);
  check("and no play is left", plays().length === 0, plays().join("\n"));
  check("an aborted node can be restarted", await restart(["h3"]));

  hosts[3]?.shell("mount --bind /dev/null $(readlink -f /usr/bin/python3)");
  const python = failureOf(await deploy(["h4"]));
  hosts[3]?.shell("umount $(readlink -f /usr/bin/python3)");
  check("a host without Python is reported", /has no Python/.test(python), python);
  await restart(["h4"]);

  await mutate(
    "updateNodes",
    { ...byName(["h5"]), driver: { ansible: { hostKeys: [hosts[0]?.hostKey], privateKey } } },
    "changedCount",
  );
  const changed = failureOf(await deploy(["h5"]));
  check("another host key than the known one is refused", /host key/.test(changed), changed);
  await mutate(
    "updateNodes",
    { ...byName(["h5"]), driver: { ansible: { hostKeys: [hosts[4]?.hostKey], privateKey } } },
    "changedCount",
  );
  await restart(["h5"]);

  const login = { username: PASSWORD_USER.name, password: PASSWORD_USER.password, privateKey: null };
  await mutate("updateNodes", { ...byName(["h6"]), driver: { ansible: login } }, "changedCount");
  hosts[5]?.shell("rm -f /srv/*");
  const byPassword = await deploy(["h6"]);
  check("a login by password works", succeeded(byPassword), shown(byPassword));
  check("by that user", hosts[5]?.shell("stat -c %u /srv/role").trim() === "4242", hosts[5]?.shell("ls -ln /srv"));
  hosts[5]?.shell("rm -f /srv/*");
  await mutate(
    "updateNodes",
    { ...byName(["h6"]), driver: { ansible: { username: "root", password: null, privateKey } } },
    "changedCount",
  );
}

async function survivesKill({ hosts }: Lab): Promise<void> {
  const [host] = hosts;
  if (!host) return;
  host.shell("rm -f /srv/journal");
  const { operation } = await mutate("deployNodes", {
    ...byName(["h1"]),
    reinstall: true,
    onFailure: "LEAVE",
    variables: { work_seconds: 8, role: "killed" },
  });
  await eventually("the play works", () => host.shell("pgrep -f 'sleep [8]'") !== "", 60_000);
  const before = plays();
  await kill();
  const began = Date.now();
  await eventually("no play is left", () => plays().length === 0, 20_000);
  check(
    "a play ends with the service that was killed",
    before.length > 0,
    `${before.length} processes, gone after ${Date.now() - began} ms`,
  );
  const left = readdirSync(tmpdir()).filter((name) => /^ostler-ansible-\d+$/.test(name));
  const files = left.flatMap((name) =>
    readdirSync(join(tmpdir(), name), { recursive: true, encoding: "utf8" }).map((file) => join(tmpdir(), name, file)),
  );
  check(
    "no file that it left behind has the key",
    files.every((file) => !readsSecret(file)),
    files.join(" "),
  );
  await start();
  const runs = await ended(operation?.uuid ?? "");
  check("the step is entered again, and the node becomes ACTIVE", succeeded(runs), shown(runs));
  const lines = host.shell("cat /srv/journal").trim().split("\n");
  check(
    "the first run has not gone on beside the second",
    lines.filter((line) => line.startsWith("begin")).length === 2 &&
      lines.filter((line) => line.startsWith("end")).length === 1,
    lines.join(", "),
  );
}

function readsSecret(file: string): boolean {
  try {
    // An empty named pipe would be waited for.
    if (!lstatSync(file).isFile()) return false;
    const text = readFileSync(file, "latin1");
    return text.includes("PRIVATE KEY") || text.includes(PASSWORD_USER.password) || text.includes(SECRET);
  } catch {
    // It was removed meanwhile.
    return false;
  }
}

async function redeploys({ hosts }: Lab): Promise<void> {
  await mutate("updateNodes", { ...byName(["h3"]), hostGroup: "masters" }, "changedCount");
  const runs = await work("redeployNodes", { nodes: { cluster: { name: CLUSTER } }, onFailure: "LEAVE" });
  check("six hosts are redeployed", runs.length === 6 && succeeded(runs), shown(runs));
  check("a host with another group has its play", hosts[2]?.shell("cat /srv/role").startsWith("master") === true);
  const gone = await work("decommissionNodes", { nodes: { cluster: { name: CLUSTER } } });
  check("six hosts are decommissioned", gone.length === 6 && succeeded(gone), shown(gone));
  check(
    "they are DECOMMISSIONED",
    Object.values(await states()).every((state) => state === "DECOMMISSIONED"),
    JSON.stringify(await states()),
  );
  check(
    "nothing of the plays is left on them",
    hosts.every(({ shell }) => shell("ls -A /srv").trim() === ""),
    hosts.map(({ shell }) => shell("ls -A /srv").trim()).join(" "),
  );
}

async function keepsSecrets({ privateKey }: Lab): Promise<void> {
  await delay(100);
  const key = privateKey.split("\n")[2] ?? "";
  const places = { "the log": readFileSync(log, "utf8"), "the answers": answers, "command lines": commands };
  for (const [place, text] of Object.entries(places))
    check(
      `${place} have no secret`,
      text.length > 0 &&
        !text.includes(key) &&
        !text.includes(PASSWORD_USER.password) &&
        !text.includes("wrong-password-77"),
      `${text.length} characters`,
    );
}
