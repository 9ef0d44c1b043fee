/**
 * Driver `redfish`: machines whose BMC has a Redfish service (DMTF DSP0266). It relies on what a machine reports about
 * itself, never on the name of its vendor.
 */
import type { Driver, DriverFactory, MachineCall } from "../../src/drivers/driver.ts";
import { abilitiesOf } from "./abilities.ts";
import { readActivity } from "./activity.ts";
import { readBios } from "./bios.ts";
import { readBootDevice, setBootDevice } from "./boot.ts";
import { applyBiosSettings } from "./clean/bios-settings.ts";
import { resetRaid, secureErase } from "./clean/drives.ts";
import { updateFirmware } from "./clean/firmware-update.ts";
import { clearLogs } from "./clean/logs.ts";
import { rotatePassword } from "./clean/password.ts";
import { serialUrl } from "./console.ts";
import { redfishDiscovery } from "./discover.ts";
import { readFirmware } from "./firmware.ts";
import { redfishInspect } from "./inspect.ts";
import { ejectMedium, insertMedium } from "./media.ts";
import { whenServed } from "./poll.ts";
import { readPower, setPower } from "./power.ts";
import { withService } from "./service.ts";
import type { RedfishService } from "./service.ts";
import { controllerOf } from "../bmc-settings.ts";
import { redfishSettings } from "./settings.ts";
import type { RedfishSettings } from "./settings.ts";

const factory: DriverFactory<RedfishSettings> = ({ memory }): Driver<RedfishSettings> => {
  const on = <Result>(call: MachineCall<RedfishSettings>, work: (service: RedfishService) => Promise<Result>) =>
    withService(call, memory, work);
  return {
    contract: 2,
    name: "redfish",
    version: "0.1.0",
    description: "Machines whose BMC has a Redfish service.",
    settings: redfishSettings,
    power: {
      read: (call) => on(call, (service) => readPower(service, call.settings)),
      set: (call, action) => on(call, (service) => setPower(service, call, action)),
      setBootDevice: (call, device, options) =>
        on(call, (service) => whenServed(call, () => setBootDevice(service, call, device, options))),
      readBootDevice: (call) => on(call, (service) => readBootDevice(service, call.settings)),
      readActivity: (call) => on(call, (service) => readActivity(service, call.settings)),
    },
    media: {
      insert: (call, url, options) => on(call, (service) => insertMedium(service, call, url, options)),
      eject: (call) => on(call, (service) => ejectMedium(service, call)),
    },
    firmware: { read: (call) => on(call, readFirmware) },
    bios: { read: (call) => on(call, (service) => readBios(service, call.settings)) },
    console: { serialUrl: (call) => on(call, (service) => serialUrl(service, call.settings)) },
    inspect: redfishInspect(memory),
    clean: {
      supportsAbort: true,
      steps: [
        secureErase(memory),
        resetRaid(memory),
        updateFirmware(memory),
        applyBiosSettings(memory),
        rotatePassword(memory),
        clearLogs(memory),
      ],
    },
    discover: redfishDiscovery(memory),
    abilities: (call) => on(call, (service) => abilitiesOf(service, call.settings)),
    controllerOf,
    systemOf: ({ system = "" }) => system,
  };
};

export default factory;
