/** Virtual media, firmware, BIOS settings, console and abilities of fake machines. */
import type {
  Ability,
  BiosInterface,
  Call,
  ConsoleInterface,
  FirmwareInterface,
  MachineCall,
  MediaInterface,
} from "../../src/drivers/driver.ts";
import { FakeError } from "./error.ts";
import type { PowerParts } from "./power.ts";
import { requireAnswer } from "./power.ts";
import type { FakeSettings } from "./settings.ts";

export function fakeMedia({ journal }: Pick<PowerParts, "journal">): MediaInterface<FakeSettings> {
  const requireMedia = (call: Call<FakeSettings>) => {
    requireAnswer(call, call.node.name);
    if (call.settings.lacks.includes("media"))
      throw new FakeError(`The BMC of ${call.node.name} has no virtual media.`, "UNSUPPORTED", false);
  };
  return {
    async insert(call, _url, { writeProtected }) {
      requireMedia(call);
      journal({ node: call.node.name, medium: "inserted", writeProtected });
    },
    async eject(call) {
      requireMedia(call);
      journal({ node: call.node.name, medium: "ejected" });
    },
  };
}

export const fakeFirmware: FirmwareInterface<FakeSettings> = {
  async read(call) {
    requireAnswer(call, call.node.name);
    return [
      { id: "bmc", name: "BMC", version: "2.1", updateable: true },
      { id: "bios", name: "BIOS", version: "1.4", updateable: true },
    ];
  },
};

export const fakeBios: BiosInterface<FakeSettings> = {
  async read(call) {
    requireAnswer(call, call.node.name);
    return [
      {
        name: "BootMode",
        title: "Boot mode",
        type: "ENUMERATION",
        value: "Uefi",
        allowedValues: ["Uefi", "Legacy"],
        readOnly: false,
      },
      { name: "NumCores", title: null, type: "INTEGER", value: 16, minimum: 1, maximum: 64, readOnly: false },
      { name: "AdminPassword", title: "Administrator password", type: "PASSWORD", value: null, readOnly: false },
    ];
  },
};

export const fakeConsole: ConsoleInterface<FakeSettings> = {
  async serialUrl(call) {
    requireAnswer(call, call.node.name);
    return `ssh://${call.node.name}.invalid:2200`;
  },
};

/** Everything works except what the settings name. */
export async function fakeAbilities(call: MachineCall<FakeSettings>): Promise<readonly Ability[]> {
  requireAnswer(call, "the machine");
  return call.settings.lacks.map((name) => ({ name, works: false, reason: "The settings say so." }));
}
