/**
 * Canaries on each disk of a machine with a second, a removable and a read-only one: a cleaning that succeeds has left
 * none, and one that cannot erase a disk names it.
 */
import { closeSync, openSync, statSync, truncateSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { describeEnd } from "../lab/api.ts";
import { readDisk } from "../lab/disk.ts";
import type { Lab } from "../lab/lab.ts";
import type { LabMachine } from "../lab/machines.ts";
import { WHOLE, giveAgent, makeUnused, switchOff } from "../lab/nodes.ts";

const CLEAN_MS = 900_000;
const EXTRA_BYTES = 256 * 2 ** 20;
const CANARY = "canary ";
/** Beyond both ends, which the erasure of metadata empties. */
const CANARY_EVERY = 16 * 2 ** 20;

export async function erasesEveryDisk(lab: Lab): Promise<void> {
  const machine = lab.machine("e2e-redfish-1");
  const files = { second: newDisk(machine, "second"), removable: newDisk(machine, "removable") };
  const attached = [...virtio("second", files.second), ...removable("removable", files.removable)];
  try {
    machine.setExtra(attached);
    await erasesAll(lab, machine, [machine.vm.files.disk, ...Object.values(files)]);
    const readOnly = newDisk(machine, "readonly");
    machine.setExtra([...attached, ...virtio("readonly", readOnly, ",readonly=on")]);
    await namesTheReadOnly(lab, machine, readOnly);
  } finally {
    await switchOff(lab.api, [machine]);
    machine.setExtra([]);
  }
  await inspectsAgain(lab, machine);
}

/** The remedy for removed disks; otherwise the next work would miss them. */
async function inspectsAgain({ api, report }: Lab, { name }: LabMachine): Promise<void> {
  for (const verb of ["manageNodes", "inspectNodes"]) {
    const ended = await api.end(await api.work(verb, { nodes: { names: [name] } }), CLEAN_MS);
    report.check(`${verb} after the disks were removed`, ended.state === "SUCCEEDED", describeEnd(ended));
  }
}

async function erasesAll(lab: Lab, machine: LabMachine, files: readonly string[]): Promise<void> {
  const { state, end } = await clean(lab, machine, files);
  lab.report.check(`${machine.name} with a second and a removable disk is cleaned`, state === "AVAILABLE", end);
  for (const file of files) {
    const { firstData } = await readDisk(file);
    lab.report.check(
      `no canary is left on ${file}`,
      firstData === null,
      firstData === null ? "" : `data at byte ${firstData}`,
    );
  }
}

async function namesTheReadOnly(lab: Lab, machine: LabMachine, file: string): Promise<void> {
  const { state, end } = await clean(lab, machine, [file]);
  const { lastError } = await lab.api.node(machine.name);
  const isNamed = /serial readonly.* was left out: it is read-only/.test(lastError?.message ?? "");
  lab.report.check("a read-only disk fails the cleaning, by name", state === "CLEAN_FAILED" && isNamed, end);
  lab.report.check("the canaries on the read-only disk are whole", (await readDisk(file)).firstData === 0);
}

/** Writes canaries to the files while the machine is off, then commissions it. */
async function clean(lab: Lab, machine: LabMachine, files: readonly string[]) {
  const { api } = lab;
  await makeUnused(api, machine);
  await giveAgent(api, machine, WHOLE);
  await switchOff(api, [machine]);
  for (const file of files) fill(file);
  const nodes = { names: [machine.name] };
  const uuid = await api.work("commissionNodes", {
    nodes,
    until: "AVAILABLE",
    onFailure: "LEAVE",
  });
  const ended = await api.end(uuid, CLEAN_MS);
  return { state: (await api.node(machine.name)).state, end: describeEnd(ended) };
}

function fill(file: string): void {
  const { size } = statSync(file);
  const disk = openSync(file, "r+");
  for (let at = 0; at < size; at += CANARY_EVERY) writeSync(disk, CANARY.repeat(512), at);
  closeSync(disk);
}

export function newDisk({ vm }: LabMachine, name: string): string {
  const file = join(vm.folder, `${name}.img`);
  writeFileSync(file, "");
  truncateSync(file, EXTRA_BYTES);
  return file;
}

const drive = (id: string, file: string, more = "") => [
  "-drive",
  `file=${file},format=raw,if=none,id=${id},cache=unsafe,discard=unmap,detect-zeroes=unmap${more}`,
];

/** The name is the serial number too. */
export function virtio(name: string, file: string, more?: string, place = ""): string[] {
  return [...drive(name, file, more), "-device", `virtio-blk-pci,drive=${name},serial=${name}${place}`];
}

/** A disk that the kernel calls removable, as those at external ports. */
function removable(name: string, file: string): string[] {
  const device = `scsi-hd,bus=scsi0.0,drive=${name},serial=${name},removable=on`;
  return [...drive(name, file), "-device", "virtio-scsi-pci,id=scsi0", "-device", device];
}
