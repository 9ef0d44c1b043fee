/**
 * The machines of the lab: QEMU virtual machines behind simulated BMCs. Redfish BMCs run in this process, IPMI BMCs are
 * processes of `ipmi_sim` whose commands reach the virtual machine through a Unix socket.
 */
import { randomBytes } from "node:crypto";
import { createServer } from "node:http";
import type { Server } from "node:http";
import { once } from "node:events";
import { join } from "node:path";
import { identityOf, qemuDrive, qemuMachine, startFleet } from "../../../packages/bmc-simulator/src/index.ts";
import type { PresetName, QemuMachine, QemuSettings } from "../../../packages/bmc-simulator/src/index.ts";
import { startIpmiLab } from "../../support/ipmi-lab.ts";
import type { SimulatedBmc } from "../../support/ipmi-lab.ts";
import { machineAddress } from "./network.ts";

export type Firmware = "UEFI" | "BIOS";

export interface MachineSpec {
  readonly name: string;
  readonly bmc: "REDFISH" | "IPMI";
  readonly firmware: Firmware;
  /** Kind of Redfish BMC. */
  readonly preset?: PresetName;
}

export interface LabMachine extends MachineSpec {
  readonly number: number;
  readonly mac: string;
  readonly serial: string;
  /** On the provisioning network. */
  readonly address: string;
  readonly vm: QemuMachine;
  /** Of the BMC, for the driver that `bmc` names. */
  readonly login: BmcLogin;
  /** Devices that the machine was started from, in order. */
  readonly starts: readonly string[];
  /** Addresses of the virtual media that its BMC was given, in order. */
  readonly media: readonly string[];
  /** Replaces the disk by one with these errors, from the next start on; null: a disk without errors. */
  setDiskErrors(rules: string | null): void;
  /** Further arguments of QEMU from the next start on, in place of earlier ones. */
  setExtra(args: readonly string[]): void;
}

export interface BmcLogin {
  readonly address: string;
  readonly port: number;
  readonly username: string;
  readonly password: string;
  /** SHA-256 of the certificate of a Redfish BMC. */
  readonly fingerprint?: string;
}

/** The small kernels need less; cloud-init and the page cache of the agent's ramdisk do not. */
const MEMORY_MIB = 1024;
export const DISK_MIB = 2048;
/** Of the Redfish BMCs; unlike any other text, so that a copy of it can be found. */
const REDFISH_LOGIN = { userName: "admin", password: `bmc-${randomBytes(9).toString("hex")}` };

export async function startMachines(
  specs: readonly MachineSpec[],
  folder: string,
  parts: AsyncDisposableStack,
): Promise<readonly LabMachine[]> {
  const machines = specs.map((spec, index) => prepare(spec, index + 1, folder));
  const redfish = await startRedfish(
    machines.filter(({ spec }) => spec.bmc === "REDFISH"),
    parts,
  );
  const ipmi = await startIpmi(
    machines.filter(({ spec }) => spec.bmc === "IPMI"),
    parts,
  );
  return machines.map((machine) => {
    const login = [...redfish, ...ipmi].find(({ number }) => number === machine.number)?.login;
    if (login === undefined) throw new Error(`${machine.spec.name} has no BMC.`);
    const { spec, number, identity, vm, starts, media, setDiskErrors, setExtra } = machine;
    return {
      ...spec,
      number,
      mac: identity.macs[0] ?? "",
      serial: identity.serialNumber,
      address: machineAddress(number),
      vm,
      login,
      starts,
      media,
      setDiskErrors,
      setExtra,
    };
  });
}

type Prepared = ReturnType<typeof prepare>;

interface Reached {
  readonly number: number;
  readonly login: BmcLogin;
}

function prepare(spec: MachineSpec, number: number, folder: string) {
  const starts: string[] = [];
  const media: string[] = [];
  let rules: string | null = null;
  const extra: string[] = [];
  const settings: QemuSettings = {
    directory: folder,
    firmware: spec.firmware,
    memoryMiB: MEMORY_MIB,
    diskMiB: DISK_MIB,
    netdev: "tap,ifname=tap%n,script=no,downscript=no",
    // Read at each start.
    extra,
    diskName: (file) => (rules === null ? file : `blkdebug:${rules}:${file}`),
  };
  const identity = identityOf(number, { drives: [qemuDrive(settings)] });
  const vm = qemuMachine(settings, number, identity);
  const recorded: QemuMachine = {
    ...vm,
    async start(boot) {
      starts.push(boot.target);
      if (boot.image !== null) media.push(boot.image);
      await vm.start(boot);
    },
  };
  const setDiskErrors = (file: string | null) => {
    rules = file;
  };
  const setExtra = (args: readonly string[]) => {
    extra.splice(0, extra.length, ...args);
  };
  return { spec, number, identity, starts, media, vm: recorded, setDiskErrors, setExtra };
}

async function startRedfish(machines: readonly Prepared[], parts: AsyncDisposableStack): Promise<Reached[]> {
  if (machines.length === 0) return [];
  const at = (number: number) => {
    const machine = machines[number - 1];
    if (machine === undefined) throw new Error(`There is no Redfish machine ${number}.`);
    return machine;
  };
  const place = (number: number) => ({ host: `127.0.30.${at(number).number}`, port: 443 });
  const fleet = await startFleet({
    count: machines.length,
    traits: machines.map(({ spec }) => spec.preset ?? "reference"),
    tls: true,
    credentials: REDFISH_LOGIN,
    address: place,
    systems: (number) => at(number).identity,
    machine: (number) => at(number).vm,
  });
  parts.use(fleet);
  return machines.map(({ number }, index) => {
    const { host, port } = place(index + 1);
    const fingerprint = fleet.bmcs[index]?.tls?.fingerprint256;
    if (fingerprint === undefined) throw new Error(`BMC ${number} has no certificate.`);
    const { userName: username, password } = REDFISH_LOGIN;
    return { number, login: { address: host, port, username, password, fingerprint } };
  });
}

async function startIpmi(machines: readonly Prepared[], parts: AsyncDisposableStack): Promise<Reached[]> {
  if (machines.length === 0) return [];
  const lab = parts.use(await startIpmiLab({ count: machines.length }));
  return Promise.all(
    machines.map(async ({ number, vm }, index) => {
      const bmc = lab.bmcs[index];
      if (bmc === undefined) throw new Error(`There is no IPMI BMC ${index + 1}.`);
      // The power file then follows the virtual machine, not the request to shut down.
      await bmc.setDeaf(true);
      vm.onExit(() => void bmc.setPower("OFF"));
      const socket = join(vm.folder, "power");
      await serveCommands(socket, (event) => perform(event, bmc, vm), parts);
      await bmc.setHook(`curl -sf -m 20 --unix-socket ${socket} http://machine/ -d`);
      parts.defer(() => vm.close());
      const { address, port, username, password } = bmc;
      return { number, login: { address, port, username, password } };
    }),
  );
}

async function perform(event: string, bmc: SimulatedBmc, vm: QemuMachine): Promise<void> {
  switch (event) {
    case "power on": {
      if (vm.pid() !== null) return;
      return start(bmc, vm);
    }
    case "power off":
      return vm.stop();
    case "reset": {
      await vm.stop();
      return start(bmc, vm);
    }
    case "soft off":
      // The BMC answers at once; the machine goes off when its operating system has shut down.
      void vm.shutdown().catch(() => false);
      return;
  }
}

async function start(bmc: SimulatedBmc, vm: QemuMachine): Promise<void> {
  const device = await bmc.takeBootDevice();
  const target = device === "pxe" ? "Pxe" : device === "cdrom" ? "Cd" : "Hdd";
  await vm.start({ target, mode: "UEFI", image: null });
}

/** One event in each request body. */
async function serveCommands(
  socket: string,
  handle: (event: string) => Promise<void>,
  parts: AsyncDisposableStack,
): Promise<void> {
  const server: Server = createServer((request, response) => {
    let event = "";
    request.setEncoding("utf8").on("data", (text: string) => (event += text));
    request.on("end", () => {
      handle(event).then(
        () => response.end(),
        () => response.writeHead(500).end(),
      );
    });
  });
  server.listen(socket);
  await once(server, "listening");
  parts.defer(() => void server.close());
}
