/** Discovery: the service root, which needs no login, recognizes a Redfish service; then the login is tried. */
import { lazySchema } from "../lazy-schema.ts";
import type { Output } from "../lazy-schema.ts";
import type { DiscoverInterface, DriverMemory } from "../../src/drivers/driver.ts";
import { RedfishError } from "./error.ts";
import { ownText, present, text } from "./resource.ts";
import { withService } from "./service.ts";
import { bmcName } from "../bmc-settings.ts";
import { redfishSettings } from "./settings.ts";
import type { RedfishSettings } from "./settings.ts";
import { findSystems, lastPart } from "./system.ts";

const discoverSettings = lazySchema((z) =>
  z
    .strictObject(redfishSettings.zod.omit({ address: true, nextPassword: true }).shape)
    .meta({ description: "Login at BMCs: the settings of a node without the address." }),
);

type Login = Output<typeof discoverSettings>;

export function redfishDiscovery(memory: DriverMemory | undefined): DiscoverInterface<RedfishSettings, Login> {
  return {
    settings: discoverSettings,
    async probe(call) {
      const settings: RedfishSettings = { ...call.settings, address: call.address };
      const systems = await withService({ ...call, settings }, memory, async (service) => {
        const root = await service.root();
        if (text(root, "RedfishVersion") === undefined)
          throw new RedfishError({
            kind: "OTHER",
            message: `What answers at ${bmcName(settings)} is not a Redfish service.`,
          });
        return findSystems(service, settings);
      });
      return systems.map(({ path, resource }) => {
        const serial = ownText(resource, "SerialNumber");
        const reported = { name: ownText(resource, "HostName") ?? serial, serial, uuid: ownText(resource, "UUID") };
        const isOne = systems.length === 1;
        return { settings: isOne ? settings : { ...settings, system: lastPart(path) }, ...present(reported) };
      });
    },
  };
}
