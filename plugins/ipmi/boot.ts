/** The boot device: set, and read back from the boot flags of the BMC (IPMI 2.0, table 28-14). */
import type { BootDevice, BootOptions, BootOverride, Call } from "../../src/drivers/driver.ts";
import { IpmiError } from "./failure.ts";
import type { Ipmitool } from "./ipmitool.ts";
import { bmcName } from "../bmc-settings.ts";
import type { IpmiSettings } from "./settings.ts";

const WORDS: Readonly<Record<Exclude<BootDevice, "HTTP">, string>> = {
  PXE: "pxe",
  DISK: "disk",
  CDROM: "cdrom",
  BIOS: "bios",
};

/** Bits 5 to 2 of the second byte: local and remote media count as the same device. */
const SELECTORS: Readonly<Record<number, BootDevice>> = {
  1: "PXE",
  2: "DISK",
  3: "DISK",
  5: "CDROM",
  6: "BIOS",
  8: "CDROM",
  11: "DISK",
};

export async function setBootDevice(
  ipmitool: Ipmitool,
  call: Call<IpmiSettings>,
  device: BootDevice,
  { persistent, mode, other }: BootOptions,
): Promise<void> {
  if (other) throw unsupported(call, "IPMI has one boot source for each device.");
  if (device === "HTTP") throw unsupported(call, "IPMI has no boot device for HTTP; use PXE.");
  const word = WORDS[device];
  const isUefi = (mode ?? call.settings.bootMode) === "UEFI";
  const options = [...(isUefi ? ["efiboot"] : []), ...(persistent ? ["persistent"] : [])];
  await ipmitool.run(call, {
    task: `set the boot device to ${word}`,
    words: ["chassis", "bootdev", word, ...(options.length > 0 ? [`options=${options.join(",")}`] : [])],
    expect: /^Set Boot Device to /m,
  });
}

export async function readBootDevice(ipmitool: Ipmitool, call: Call<IpmiSettings>): Promise<BootOverride> {
  const flags = parseBootFlags(await readFlags(ipmitool, call));
  if (flags === undefined)
    throw unsupported(call, "the BMC reports a boot device that this driver has no name for; set another one.");
  return flags;
}

/** Asks for the boot flags. */
export function readFlags(
  ipmitool: Ipmitool,
  call: Pick<Call<IpmiSettings>, "settings" | "signal" | "deadline" | "timed">,
) {
  return ipmitool.run(call, {
    task: "report its boot device",
    words: ["chassis", "bootparam", "get", "5"],
    expect: /Boot parameter data: [0-9a-f]{4}/,
  });
}

/** Parses `chassis bootparam get 5`. Undefined: a device without a name. */
export function parseBootFlags(text: string): BootOverride | undefined {
  const bytes = Buffer.from(/Boot parameter data: ([0-9a-f]+)/.exec(text)?.[1] ?? "", "hex");
  const [flags = 0, devices = 0] = bytes;
  const options: BootOptions = { persistent: (flags & 0x40) !== 0, mode: (flags & 0x20) === 0 ? "BIOS" : "UEFI" };
  const selector = (devices >> 2) & 0x0f;
  // Without the first bit the flags are invalid: the machine has used them, or nothing has been set.
  if ((flags & 0x80) === 0 || selector === 0) return { ...options, device: null };
  const device = SELECTORS[selector];
  return device && { ...options, device };
}

function unsupported({ settings }: Call<IpmiSettings>, reason: string): IpmiError {
  return new IpmiError({ kind: "UNSUPPORTED", retryable: false, message: `BMC ${bmcName(settings)}: ${reason}` });
}
