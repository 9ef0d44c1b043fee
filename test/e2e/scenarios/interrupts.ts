/** Aborts, stops and crashes of the service while machines are being installed. */
import { stat } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { eventually } from "../../support/eventually.ts";
import { describeEnd } from "../lab/api.ts";
import type { Lab } from "../lab/lab.ts";
import type { LabMachine } from "../lab/machines.ts";
import { DEPLOY_ONLY, giveAgent, makeAvailable } from "../lab/nodes.ts";

const BOOT_MS = 600_000;
const INSTALL_MS = 1_200_000;
const ABORT_MS = 60_000;
/** Promise of the agent: this long after an abort it writes nothing more. */
const QUIET_MS = 2_000;
const WATCH_MS = 4_000;

export async function prepareForDeployment(lab: Lab, ...names: readonly string[]): Promise<readonly LabMachine[]> {
  const machines = names.map((name) => lab.machine(name));
  await makeAvailable(lab.api, machines);
  for (const machine of machines) await giveAgent(lab.api, machine, DEPLOY_ONLY);
  return machines;
}

export function deploy(
  { api, key }: Lab,
  names: readonly string[],
  image: string,
  terms: object = {},
): Promise<string> {
  return api.work("deployNodes", {
    nodes: { names },
    image: { name: image },
    variables: { ssh_keys: [key.publicKey] },
    ...terms,
  });
}

/** Bytes that the host stores for the disk: they grow while the machine writes. */
const storedBytes = async ({ vm }: LabMachine): Promise<number> => (await stat(vm.files.disk)).blocks * 512;

export async function abortsWhileWriting(lab: Lab): Promise<void> {
  const { api, report } = lab;
  const [machine] = await prepareForDeployment(lab, "e2e-redfish-1");
  if (machine === undefined) return;
  const uuid = await deploy(lab, [machine.name], "slow");
  await api.working(uuid, machine.name, "write_image", 10, BOOT_MS);
  const before = await storedBytes(machine);
  await eventually("the disk grows", async () => (await storedBytes(machine)) > before, ABORT_MS);
  const began = performance.now();
  await api.mutate("abort", { work: { names: [machine.name] }, reason: "e2e" }, "__typename");
  const last = await lastGrowth(machine, began);
  report.check("an abort while writing: the disk does not change after 2 s", last <= QUIET_MS, `${last.toFixed(0)} ms`);
  const ended = await api.end(uuid, ABORT_MS);
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  const { state } = await api.node(machine.name);
  const [run] = ended.runs;
  report.check("the node is DEPLOY_FAILED", state === "DEPLOY_FAILED", `${state} after ${seconds} s, ${ended.state}`);
  await eventually("the machine is off", () => machine.vm.pid() === null, ABORT_MS);
  report.check("the machine is off", true);
  report.check(
    "the run records how the machine was left: off, with changed disks",
    run?.machineCondition?.power === "OFF" &&
      run.machineCondition.disksChanged &&
      run.machineCondition.cleanUpError === null,
    JSON.stringify(run?.machineCondition ?? null),
  );
}

/** Milliseconds after `began` at which the disk was seen to grow last. */
async function lastGrowth(machine: LabMachine, began: number): Promise<number> {
  let size = await storedBytes(machine);
  let last = 0;
  while (performance.now() - began < QUIET_MS + WATCH_MS) {
    await delay(50);
    const now = await storedBytes(machine);
    if (now === size) continue;
    size = now;
    last = performance.now() - began;
  }
  return last;
}

export async function stopsBetweenNodes(lab: Lab): Promise<void> {
  const { api, report } = lab;
  const machines = await prepareForDeployment(lab, "e2e-redfish-1", "e2e-redfish-2");
  const [first, second] = machines;
  if (first === undefined || second === undefined) return;
  const names = machines.map(({ name }) => name);
  const counted = lab.images.requests.length;
  const uuid = await deploy(lab, names, "moved", { maxParallel: 1 });
  await eventually(`${first.name} is ACTIVE`, async () => (await api.node(first.name)).state === "ACTIVE", INSTALL_MS);
  await api.mutate("stop", { work: { operationId: uuid }, reason: "e2e" }, "__typename");
  const stopped = await api.end(uuid, BOOT_MS);
  const state = (await api.node(second.name)).state;
  report.check(
    "a stop between two nodes: the installed one is ACTIVE, the other one is not",
    (await api.node(first.name)).state === "ACTIVE" && state !== "ACTIVE",
    `${second.name} is ${state}, ${describeEnd(stopped)}`,
  );
  const starts = first.starts.length;
  const restarted = await api.work("restart", { work: { operationId: uuid } });
  const ended = await api.end(restarted, INSTALL_MS);
  report.check(
    "after the restart both are ACTIVE",
    (await Promise.all(names.map((name) => api.node(name)))).every((node) => node.state === "ACTIVE"),
    describeEnd(ended),
  );
  report.check("the machine that was installed is not started again", first.starts.length === starts);
  const requests = lab.images.requests.slice(counted).filter((path) => path.startsWith("/good/"));
  report.check(
    "each machine has fetched the image once, through a redirect",
    requests.length === 2,
    `${requests.length}`,
  );
}

export async function stopsBeforeTheCall(lab: Lab): Promise<void> {
  const { api, report } = lab;
  const [machine] = await prepareForDeployment(lab, "e2e-ipmi-1");
  if (machine === undefined) return;
  const counted = lab.images.requests.length;
  const uuid = await deploy(lab, [machine.name], "good");
  await api.working(uuid, machine.name, "await_call_home", 0, INSTALL_MS);
  await api.mutate("stop", { work: { operationId: uuid }, timeoutSeconds: 1, reason: "e2e" }, "__typename");
  const stopped = await api.end(uuid, BOOT_MS);
  const between = (await api.node(machine.name)).state;
  const starts = machine.starts.length;
  const restarted = await api.work("restart", { work: { operationId: uuid } });
  const ended = await api.end(restarted, INSTALL_MS);
  const { state } = await api.node(machine.name);
  report.check(
    "a stop after the image was written, and a restart: the node becomes ACTIVE",
    state === "ACTIVE",
    `${between} after ${describeEnd(stopped)}, then ${describeEnd(ended)}`,
  );
  const requests = lab.images.requests.slice(counted);
  report.check("the image was fetched once", requests.length === 1, `${requests.length}`);
  report.check("the machine was not started again", machine.starts.length === starts, machine.starts.join());
}

export async function survivesKill(lab: Lab): Promise<void> {
  const { api, report, service } = lab;
  const [machine] = await prepareForDeployment(lab, "e2e-redfish-2");
  if (machine === undefined) return;
  const counted = lab.images.requests.length;
  const uuid = await deploy(lab, [machine.name], "slow");
  await api.working(uuid, machine.name, "write_image", 10, BOOT_MS);
  const before = await storedBytes(machine);
  await service.kill();
  await eventually(
    "the machine goes on writing without the service",
    async () => (await storedBytes(machine)) > before + 8 * 2 ** 20,
    ABORT_MS,
  );
  report.check("kill -9 of the service while writing: the machine goes on", true);
  await service.start();
  const ended = await api.end(uuid, INSTALL_MS);
  const { state } = await api.node(machine.name);
  report.check("after a start of the service the node becomes ACTIVE", state === "ACTIVE", describeEnd(ended));
  const requests = lab.images.requests.slice(counted);
  report.check("the image was fetched once", requests.length === 1, requests.join());
}
