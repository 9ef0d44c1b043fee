/**
 * Secrets of one life, from the registration to the erased disk: BMC password, user data, the session of the agent, and
 * the call home. Each is searched for where it could have left a copy, with the service logging at debug level: command
 * lines, tables, answers of the API, plans, boot scripts, files, and core dumps.
 */
import { randomBytes } from "node:crypto";
import { join, relative } from "node:path";
import { eventually } from "../../support/eventually.ts";
import { describeEnd } from "../lab/api.ts";
import { run } from "../lab/commands.ts";
import type { Lab } from "../lab/lab.ts";
import type { LabMachine } from "../lab/machines.ts";
import { PROVISION_URL } from "../lab/service.ts";
import { WHOLE, makeUnused, giveAgent, switchOff } from "../lab/nodes.ts";
import { dumpCores, filesBelow, formsOf, isInCore, processesOf, searchFiles, searchTables } from "../lab/traces.ts";

const INSTALL_MS = 900_000;
const ERASE_MS = 300_000;
const SCRIPT_MS = 60_000;
const WRITTEN_PERCENT = 10;
/** The service, workers of its drivers, and the database. */
const PROCESSES_MIN = 5;

/** The machine that is installed. Its name is not a secret: each search finds it where it must be. */
const KNOWN = "e2e-redfish-1";

type Secrets = Map<string, string>;

export async function hidesSecrets(lab: Lab): Promise<void> {
  const { api, report } = lab;
  const machine = lab.machine(KNOWN);
  const { name } = machine;
  const userData = `user-data-${randomBytes(9).toString("hex")}`;
  const secrets: Secrets = new Map([
    ["BMC password", machine.login.password],
    ["user data", userData],
  ]);
  await makeUnused(api, machine);
  await giveAgent(api, machine, WHOLE);
  const uuid = await api.work("commissionNodes", {
    nodes: { names: [name] },
    image: { name: "good" },
    userData: `#cloud-config\nwrite_files:\n  - path: /etc/canary\n    content: ${userData}\n`,
    variables: { ssh_keys: [lab.key.publicKey] },
  });
  await api.working(uuid, name, "write_image", WRITTEN_PERCENT, INSTALL_MS);
  secrets.set("session", sessionOf(machine));
  await searchDuring(lab, secrets, uuid);
  const ended = await api.end(uuid, INSTALL_MS);
  report.check(`${name} is installed with user data`, ended.state === "SUCCEEDED", describeEnd(ended));
  const home = await homeOf(machine);
  report.check("the token of the call home is in the seed on the disk", home !== null);
  if (home !== null) secrets.set("call home", home);
  const onDisk = await searchFiles([machine.vm.files.disk], formsOf(userData));
  report.check("the user data is on the disk", onDisk.length === 1);
  const erased = await api.end(await api.work("undeployNodes", { nodes: { names: [name] } }), ERASE_MS);
  report.check(`${name} is undeployed`, erased.state === "SUCCEEDED", describeEnd(erased));
  const plan = await planOf(lab, name, `#cloud-config\n# ${userData}\n`);
  checkText(lab, secrets, "the plan of a deployment", plan);
  await searchScripts(lab, secrets);
  await switchOff(api, lab.machines);
  await searchAfter(lab, secrets);
}

/** The secret in the address of the last medium, after the identity of its session. */
function sessionOf({ media }: LabMachine): string {
  const [, secret] = /\/media\/[^/]*?([\w-]{43})\/agent\.iso/.exec(media.at(-1) ?? "") ?? [];
  if (secret === undefined) throw new Error(`The BMC was given no medium: ${media.join()}`);
  return secret;
}

/** The secret in the address that the seed on the disk has. */
async function homeOf({ vm }: LabMachine): Promise<string | null> {
  const words = ["-a", "-o", "-m", "1", "-E", `${PROVISION_URL}/home/[A-Za-z0-9_.-]+`, vm.files.disk];
  const found = await run("grep", words).catch(() => "");
  return /\/home\/\S*?([\w-]{43})(?![\w-])/.exec(found)?.[1] ?? null;
}

const scriptFor = async (mac: string): Promise<string> =>
  (await fetch(`${PROVISION_URL}/boot/ipxe?mac=${mac}&arch=x86_64`)).text();

/**
 * Two machines boot from the network, and get their secrets by boot scripts: neither script has the secret of the other
 * one. They are aborted as soon as both secrets have been seen.
 */
async function searchScripts(lab: Lab, secrets: Secrets): Promise<void> {
  const { api, machines } = lab;
  const waiting = [lab.machine("e2e-ipmi-1"), lab.machine("e2e-ipmi-2")];
  for (const machine of waiting) {
    secrets.set(`password of ${machine.name}`, machine.login.password);
    await giveAgent(api, machine, WHOLE);
  }
  const nodes = { names: waiting.map(({ name }) => name) };
  const uuid = await api.work("commissionNodes", { nodes, until: "AVAILABLE" });
  const scripts = new Map<string, string>();
  for (const { name, mac } of waiting) {
    const fetched = async () => {
      const script = await scriptFor(mac);
      scripts.set(mac, script);
      return secretIn(script);
    };
    secrets.set(`session of ${name}`, await eventually("the boot script has a secret", fetched, SCRIPT_MS));
  }
  for (const mac of [...machines.map((each) => each.mac), "02:00:00:00:00:99"]) {
    const script = scripts.get(mac) ?? (await scriptFor(mac));
    const own = waiting.find((machine) => machine.mac === mac)?.name;
    const hasSecret = secretIn(script) !== undefined;
    lab.report.check(`the boot script for ${mac} has a secret: ${hasSecret}`, hasSecret === (own !== undefined));
    const others = new Map([...secrets].filter(([what]) => what !== `session of ${own}`));
    checkText(lab, others, `the boot script for ${mac}, except its own`, script);
  }
  await api.mutate("abort", { work: nodes, reason: "e2e" }, "__typename");
  await api.end(uuid, ERASE_MS);
}

const secretIn = (script: string): string | undefined => /(?<![\w-])[\w-]{43}(?![\w-])/.exec(script)?.[0];

/** While the image is written: a task with secrets is under way. */
async function searchDuring(lab: Lab, secrets: Secrets, uuid: string): Promise<void> {
  const { count, found } = await searchTables(lab.folder, allForms(secrets));
  lab.report.check(`no secret is in ${count} tables while the image is written`, found.length === 0, found.join());
  checkText(lab, secrets, "answers of the API while the image is written", await answers(lab, uuid));
  await searchCores(lab, secrets);
}

/** The files stay, and are searched again for the secrets that are not known yet. */
async function searchCores({ folder, report, service }: Lab, secrets: Secrets): Promise<void> {
  const pids = processesOf(service.pid);
  const cores = await dumpCores(pids, join(folder, "cores"));
  const found = await searchFiles(cores, allForms(secrets));
  report.check(
    `no secret is in core dumps of ${cores.length} processes of the service while the image is written`,
    cores.length > PROCESSES_MIN && found.length === 0,
    found.map((file) => relative(folder, file)).join(),
  );
  // A search of dumps that are always empty would pass too.
  report.check("a core dump with memory has what was in it", await isInCore(KNOWN, join(folder, "whole-core")));
}

async function searchAfter(lab: Lab, secrets: Secrets): Promise<void> {
  const { api, report, folder, commands } = lab;
  await findsWhatIsThere(lab);
  // QEMU is the machine: its command line has the address of the medium, as a BMC has.
  const others = [...commands].filter((command) => !command.startsWith("qemu-system"));
  checkText(lab, secrets, `command lines of ${others.length} processes`, others.join("\n"));
  const { operations } = await api.query<{ operations: { edges: { node: { uuid: string } }[] } }>(
    "{ operations(first: 20) { edges { node { uuid } } } }",
  );
  for (const { node } of operations.edges)
    checkText(lab, secrets, `answers of the API about operation ${node.uuid}`, await answers(lab, node.uuid));
  const disks = new Set(lab.machines.map(({ vm }) => vm.files.disk));
  const files = filesBelow(folder).filter((file) => !disks.has(file) && !/large\.raw|\/package\//.test(file));
  const { count, found } = await searchTables(folder, allForms(secrets));
  report.check(`no secret is in ${count} tables`, found.length === 0, found.join());
  const wrong = await searchFiles(files, allForms(secrets));
  report.check(
    `no secret is in ${files.length} files: database and WAL, logs, consoles, core dumps`,
    wrong.length === 0,
    wrong.map((file) => relative(folder, file)).join(),
  );
}

/** A search that finds nothing at all would pass too. */
async function findsWhatIsThere({ report, folder, commands }: Lab): Promise<void> {
  const name = [KNOWN];
  const { found } = await searchTables(folder, name);
  const files = [join(folder, "service.log"), ...filesBelow(join(folder, "data/postgres/data/pg_wal"))];
  const inLogs = await searchFiles(files, name);
  const isService = [...commands].some((command) => command.includes("--plugins redfish"));
  report.check("the searches find the node and the service", found.includes("nodes") && inLogs.length > 1 && isService);
}

const allForms = (secrets: Secrets): readonly string[] => [...secrets.values()].flatMap(formsOf);

function checkText({ report }: Lab, secrets: Secrets, where: string, text: string): void {
  const found = [...secrets].flatMap(([what, secret]) =>
    formsOf(secret).some((form) => text.includes(form)) ? [what] : [],
  );
  report.check(
    `no secret is in ${where}`,
    text !== "" && found.length === 0,
    found.join() || `${text.length} characters`,
  );
}

const OPERATION = "query ($id: ID!) { operation(id: $id)";
const ofRun = (fields: string) => `${OPERATION} { runs(first: 1) { edges { node { ${fields} } } } } }`;
const FAILURES = "failure { message } errors { message }";
/** Several requests: each answer has a limit of objects. */
const QUERIES: readonly string[] = [
  `${OPERATION} { kind reason variables userDataBytes firstFailure { message } cleanUpFailures { message } } }`,
  `${OPERATION} { transitions(first: 100) { edges { node { event from to reason actor step } } } } }`,
  ofRun(`nodeName variables ${FAILURES}`),
  ofRun("log(first: 100) { edges { node { text } } }"),
  ofRun("steps { name title args output progressMessage failure { message } }"),
  ofRun("steps { log(tail: 50) { text } }"),
  ofRun("steps { attempts { output failure { message } } }"),
  ofRun("steps { attempts { driverCalls { call error } } }"),
];

async function answers({ api }: Lab, uuid: string): Promise<string> {
  const about = await Promise.all(QUERIES.map((text) => api.query(text, { id: uuid })));
  const others = await api.query(`{
    nodes(first: 10) { edges { node {
      name lastError { message } powerProblem inventory { data }
      drivers { name secretsSet settings { redfish { address username } agent { boot } } }
    } } }
    transitions(first: 100) { edges { node { event from to reason actor step } } }
  }`);
  return JSON.stringify([...about, others]);
}

/** The plan of a deployment; nothing is started. */
async function planOf({ api }: Lab, name: string, userData: string): Promise<string> {
  const input = { deployNodes: { nodes: { names: [name] }, image: { name: "good" }, userData } };
  const text = `query ($input: PlanInput!) {
    plan(input: $input) { planHash errors { message } results { ref errors { message } steps { name args } variables { __typename } } }
  }`;
  return JSON.stringify(await api.query(text, { input }));
}
