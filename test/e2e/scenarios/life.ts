/**
 * The life of machines: discovered, inspected, cleaned, installed, called home, logged in to, undeployed, taken out of
 * service.
 */
import { eventually } from "../../support/eventually.ts";
import { describeEnd } from "../lab/api.ts";
import { readDisk } from "../lab/disk.ts";
import type { Lab } from "../lab/lab.ts";
import type { LabMachine } from "../lab/machines.ts";
import { WHOLE, giveAgent } from "../lab/nodes.ts";
import { overSsh } from "../lab/ssh.ts";

const INSTALL_MS = 1_500_000;
const ERASE_MS = 600_000;
const OFF_MS = 60_000;
/** Verified, inspected, cleaned, installed. */
const COMMISSION_PATH = "MANAGEABLE,MANAGEABLE,AVAILABLE,ACTIVE";
const RESTING = new Set(["MANAGEABLE", "AVAILABLE", "ACTIVE", "DECOMMISSIONED"]);

/** Of at most two machines. */
export async function live(lab: Lab, machines: readonly LabMachine[]): Promise<void> {
  for (const machine of machines) await giveAgent(lab.api, machine, WHOLE);
  await install(lab, machines);
  for (const machine of machines) await lookInside(lab, machine);
  await removeSystems(lab, machines);
}

async function install(lab: Lab, machines: readonly LabMachine[]): Promise<void> {
  const { api, report, key, transitions } = lab;
  const names = machines.map(({ name }) => name);
  const before = new Map(names.map((name) => [name, transitions.statesOf(name).length]));
  const began = performance.now();
  const uuid = await api.work("commissionNodes", {
    nodes: { names },
    image: { name: "good" },
    variables: { ssh_keys: [key.publicKey] },
    onFailure: "LEAVE",
  });
  const ended = await api.end(uuid, INSTALL_MS);
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  const isDone = ended.state === "SUCCEEDED";
  report.check(
    `${names.join(" and ")} are inspected, cleaned and installed`,
    isDone,
    isDone ? `${seconds} s` : describeEnd(ended),
  );
  if (!isDone) throw new Error("The next checks need an installed system.");
  for (const name of names) {
    const states = transitions.statesOf(name).slice(before.get(name));
    const rests = states.filter((state) => RESTING.has(state)).join();
    report.check(
      `the subscription has seen ${name} become ${COMMISSION_PATH}`,
      rests === COMMISSION_PATH,
      states.join(),
    );
  }
}

/** The inventory, and the installed system, as its user finds it. */
async function lookInside({ api, report, key }: Lab, machine: LabMachine): Promise<void> {
  const { name, address, serial, firmware, mac } = machine;
  const { inventory, powerState } = await api.node(name);
  const text = JSON.stringify(inventory?.data ?? {});
  report.check(
    `the inventory of ${name} was taken from within: serial number, MAC, boot mode`,
    [serial, mac, firmware].every((part) => text.includes(part)),
    `${serial} ${mac} ${firmware}`,
  );
  report.check(`${name} is on`, powerState === "ON", powerState);
  const began = performance.now();
  const command = "hostname; test -d /sys/firmware/efi && echo UEFI || echo BIOS; df --output=size -BM / | tail -1";
  const [hostName, mode, size] = (await overSsh(key, address, command)).trim().split("\n");
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  report.check(`the key that was given logs in to ${name} over SSH`, hostName === name, `${hostName}, ${seconds} s`);
  report.check(`${name} has started its system by ${firmware}`, mode === firmware, mode);
  report.check(
    `the file system of ${name} has grown to its disk`,
    Number.parseInt(size ?? "0", 10) > 1500,
    size?.trim(),
  );
}

async function removeSystems(lab: Lab, machines: readonly LabMachine[]): Promise<void> {
  const { api, report } = lab;
  const names = machines.map(({ name }) => name);
  const end = async (verb: string) => {
    const began = performance.now();
    const ended = await api.end(await api.work(verb, { nodes: { names } }), ERASE_MS);
    return { ended, seconds: ((performance.now() - began) / 1000).toFixed(1) };
  };
  const undeployed = await end("undeployNodes");
  for (const machine of machines) {
    const { state } = await api.node(machine.name);
    report.check(
      `${machine.name} is undeployed`,
      state === "AVAILABLE",
      state === "AVAILABLE" ? `${undeployed.seconds} s` : describeEnd(undeployed.ended),
    );
    await checkEmptyDisk(lab, machine);
  }
  await refusesLargeImage(lab, machines);
  const decommissioned = await end("decommissionNodes");
  for (const { name, vm } of machines) {
    const { state } = await api.node(name);
    // The agent switches its machine off within seconds of the end of its operation.
    await eventually(`${name} is off`, () => vm.pid() === null, OFF_MS);
    report.check(
      `${name} is decommissioned, and off`,
      state === "DECOMMISSIONED",
      state === "DECOMMISSIONED" ? `${decommissioned.seconds} s` : describeEnd(decommissioned.ended),
    );
  }
}

/** The disks are known from the inventory, so nothing is started. */
async function refusesLargeImage({ api, report }: Lab, machines: readonly LabMachine[]): Promise<void> {
  const input = { nodes: { names: machines.map(({ name }) => name) }, image: { name: "known-large" } };
  const answer = await api.work("deployNodes", input).catch((error: unknown) => String(error));
  report.check(
    "an image that is larger than the disks is refused before anything starts",
    /IMAGE_TOO_LARGE/.test(answer),
    answer,
  );
}

export async function checkEmptyDisk({ report }: Lab, { name, vm }: LabMachine): Promise<void> {
  const { firstData, storedBytes } = await readDisk(vm.files.disk);
  report.check(
    `the disk of ${name} is empty, read from outside`,
    firstData === null,
    firstData === null ? `${(storedBytes / 2 ** 20).toFixed(1)} MiB are stored` : `data at byte ${firstData}`,
  );
}
