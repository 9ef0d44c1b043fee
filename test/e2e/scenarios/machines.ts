/** The lab alone, without the service: each BMC starts its virtual machine, which boots the image from its disk. */
import { copyFile, readFile, truncate } from "node:fs/promises";
import { eventually } from "../../support/eventually.ts";
import { run } from "../lab/commands.ts";
import type { LabMachine } from "../lab/machines.ts";
import type { Report } from "../lab/report.ts";

const BOOT_MS = 240_000;
const OFF_MS = 60_000;
const DISK_BYTES = 2 ** 31;

export async function bootsTheImage(machine: LabMachine, rawImage: string, report: Report): Promise<void> {
  const { name, bmc, firmware, vm } = machine;
  await copyFile(rawImage, vm.files.disk);
  await truncate(vm.files.disk, DISK_BYTES);
  await setPower(machine, "ON");
  const began = performance.now();
  await eventually(
    `${name} shows a login prompt`,
    async () => (await readFile(vm.files.console, "utf8").catch(() => "")).includes(" login:"),
    BOOT_MS,
  );
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  report.check(`${name} (${bmc}, ${firmware}) boots the image from its disk`, true, `${seconds} s`);
  await setPower(machine, "SOFT_OFF");
  await eventually(`${name} shuts down`, () => vm.pid() === null, OFF_MS);
  report.check(`${name} shuts down when its BMC asks for it`, true);
  await truncate(vm.files.disk, 0);
  await truncate(vm.files.disk, DISK_BYTES);
}

async function setPower(machine: LabMachine, action: "ON" | "SOFT_OFF"): Promise<void> {
  const { login } = machine;
  if (machine.bmc === "IPMI") {
    const words = ["-I", "lanplus", "-C", "3", "-H", login.address, "-U", login.username, "-P", login.password];
    await run("ipmitool", [...words, "power", action === "ON" ? "on" : "soft"]);
    return;
  }
  const system = await systemPath(machine);
  const type = action === "ON" ? "On" : "GracefulShutdown";
  await redfish(machine, `${system}/Actions/ComputerSystem.Reset`, JSON.stringify({ ResetType: type }));
}

async function systemPath(machine: LabMachine): Promise<string> {
  const { Members } = JSON.parse(await redfish(machine, "/redfish/v1/Systems")) as {
    readonly Members: readonly { readonly "@odata.id": string }[];
  };
  const [first] = Members;
  if (first === undefined) throw new Error(`${machine.name} has no system.`);
  return first["@odata.id"];
}

function redfish({ login }: LabMachine, path: string, body?: string): Promise<string> {
  const content = body === undefined ? [] : ["-H", "content-type: application/json", "-d", body];
  const words = ["-skf", "-u", `${login.username}:${login.password}`, ...content, `https://${login.address}${path}`];
  return run("curl", words);
}
