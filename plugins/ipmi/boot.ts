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
  // Else the BMC forgets the boot device of a machine that is not switched within 60 seconds.
  await optional(ipmitool.run(call, { task: "keep its boot device", words: KEEP_FLAGS, expect: /^/ }));
  for (let tries = 1; ; tries += 1) {
    await ipmitool.run(call, {
      task: `set the boot device to ${word}`,
      words: ["chassis", "bootdev", word, ...(options.length > 0 ? [`options=${options.join(",")}`] : [])],
      expect: /^Set Boot Device to /m,
    });
    // What a BMC does not report cannot be compared.
    const text = await optional(readFlags(ipmitool, call));
    if (text === undefined) return;
    const { flags, device: kept } = flagsOf(text);
    // Some BMCs never mark the flags as valid, which then say nothing but the device.
    const isMarked = (flags & VALID) !== 0;
    const isSet = kept === device && (!isMarked || !persistent || (flags & PERSISTENT) !== 0);
    const isMode = !isMarked || ((flags & UEFI) !== 0) === isUefi;
    if (isSet && !isMode)
      call.log(`BMC ${bmcName(call.settings)} does not keep the boot mode; the machine starts in its own.`);
    if (isSet && (isMode || mode === undefined)) return;
    if (tries === TRIES) throw notKept(call, [word, ...options], text);
  }
}

const TRIES = 2;
/** Set System Boot Options, parameter 3: the boot flags stay valid after 60 seconds (IPMI 2.0, table 28-14). */
const KEEP_FLAGS = ["raw", "0x00", "0x08", "0x03", "0x08"];

/** Undefined if the BMC answers, but not with what was asked for. */
async function optional(asked: Promise<string>): Promise<string | undefined> {
  return asked.catch((error: unknown) => {
    const isAnswer = error instanceof IpmiError && ["UNSUPPORTED", "REFUSED", "OTHER"].includes(error.kind);
    if (!isAnswer) throw error;
    return undefined;
  });
}

function notKept({ settings }: Call<IpmiSettings>, wanted: readonly string[], text: string): IpmiError {
  const { flags, device = "none" } = flagsOf(text);
  const found = [device, (flags & UEFI) === 0 ? "BIOS" : "UEFI", (flags & PERSISTENT) === 0 ? "once" : "persistent"];
  const message = `BMC ${bmcName(settings)} accepted the boot device ${wanted.join(", ")}, but reports ${found.join(", ")}; set it again, or restart the BMC.`;
  return new IpmiError({ kind: "REFUSED", retryable: true, message });
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

const [VALID, PERSISTENT, UEFI] = [0x80, 0x40, 0x20];

/** The first two bytes of `chassis bootparam get 5`; `device`: undefined for one without a name. */
function flagsOf(text: string) {
  const [flags = 0, devices = 0] = Buffer.from(/Boot parameter data: ([0-9a-f]+)/.exec(text)?.[1] ?? "", "hex");
  const selector = (devices >> 2) & 0x0f;
  return { flags, selector, device: SELECTORS[selector] };
}

/** Parses `chassis bootparam get 5`. Undefined: a device without a name. */
export function parseBootFlags(text: string): BootOverride | undefined {
  const { flags, selector, device } = flagsOf(text);
  const options: BootOptions = { persistent: (flags & PERSISTENT) !== 0, mode: (flags & UEFI) === 0 ? "BIOS" : "UEFI" };
  // The flags are invalid: the machine has used them, or nothing has been set.
  if ((flags & VALID) === 0 || selector === 0) return { ...options, device: null };
  return device && { ...options, device };
}

function unsupported({ settings }: Call<IpmiSettings>, reason: string): IpmiError {
  return new IpmiError({ kind: "UNSUPPORTED", retryable: false, message: `BMC ${bmcName(settings)}: ${reason}` });
}
