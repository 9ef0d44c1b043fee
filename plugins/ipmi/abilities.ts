/**
 * Which of the driver's abilities a BMC has, by what it reports about itself. IPMI does not report whether a machine
 * can be asked to shut down: a BMC that cannot refuses the request, and nothing changes.
 */
import type { Ability, MachineCall } from "../../src/drivers/driver.ts";
import { readFlags } from "./boot.ts";
import { IpmiError } from "./failure.ts";
import type { Ipmitool } from "./ipmitool.ts";
import { bmcName } from "../bmc-settings.ts";
import type { IpmiSettings } from "./settings.ts";

/** Devices of `mc info` (IPMI 2.0, Get Device ID), and the abilities that need them. */
const DEVICES: readonly (readonly [device: string, ...abilities: string[]])[] = [
  ["Chassis Device", "power.ON", "power.OFF", "power.SOFT_OFF", "power.REBOOT"],
  ["SEL Device", "inspect.read_event_log", "clean.clear_logs"],
  ["SDR Repository Device", "inspect.read_sensors"],
];

export async function abilitiesOf(ipmitool: Ipmitool, call: MachineCall<IpmiSettings>): Promise<Ability[]> {
  const info = await ipmitool.run(call, {
    task: "report its abilities",
    words: ["mc", "info"],
    expect: /^Additional Device Support/m,
  });
  const bmc = bmcName(call.settings);
  const boot = await readFlags(ipmitool, call).then(
    () => ({ works: true }),
    (error: unknown) => {
      // A BMC that does not answer, or refuses the login, has reported nothing about its abilities.
      const isAnswer = error instanceof IpmiError && (error.kind === "UNSUPPORTED" || error.kind === "REFUSED");
      if (!isAnswer) throw error;
      return { works: false, reason: error.message };
    },
  );
  return [...devicesOf(info, bmc), { name: "power.setBootDevice", ...boot }];
}

/** Pure. The list of devices in `mc info` decides. */
export function devicesOf(info: string, bmc: string): Ability[] {
  const list = /^Additional Device Support[^\n]*\n((?:[ \t]+[^\n]*\n?)*)/m.exec(info)?.[1] ?? "";
  const devices = new Set(list.split("\n").map((line) => line.trim()));
  // A Provides Device SDRs line of "yes" means that the BMC itself holds the records of its sensors.
  if (/^Provides Device SDRs +: yes/m.test(info)) devices.add("SDR Repository Device");
  return DEVICES.flatMap(([device, ...names]) =>
    names.map((name) =>
      devices.has(device)
        ? { name, works: true }
        : { name, works: false, reason: `BMC ${bmc} reports that it has no ${device}.` },
    ),
  );
}
