/**
 * The vendor's own boot source for a virtual CD. Some BMCs start `Cd` from the drive in the machine; they know the
 * virtual one only as a setting of the manager, which is changed directly, or by the import of a part of its
 * configuration.
 */
import type { RedfishCall } from "./connection.ts";
import { RedfishError, onlyFailed } from "./error.ts";
import { finishTask, hasMedium } from "./media.ts";
import { at, items, link, text } from "./resource.ts";
import type { RedfishService } from "./service.ts";
import type { RedfishSettings } from "./settings.ts";
import { managersOf } from "./system.ts";
import type { Located } from "./system.ts";

const IMPORT_SECONDS = 180;
const [DEVICE, ONCE, VIRTUAL_CD] = ["FirstBootDevice", "BootOnce", "VCD-DVD"];

/** Sets it for the next start; undefined if the BMC has none, or no medium in its drive. */
export async function virtualCd(
  service: RedfishService,
  call: RedfishCall<RedfishSettings>,
  system: Located,
): Promise<(() => Promise<void>) | undefined> {
  for (const manager of await managersOf(service, system)) {
    const actions = at(manager.resource, "Actions", "Oem");
    const name = Object.keys(actions).find((one) => one.endsWith(".ImportSystemConfiguration"));
    const target = name === undefined ? undefined : text(at(actions, name), "target");
    if (target === undefined || !(await hasMedium(service, call.settings))) continue;
    return async () => {
      if (await isSetDirectly(service, manager)) return;
      const settings = { [ONCE]: "Enabled", [DEVICE]: VIRTUAL_CD };
      const attributes = Object.entries(settings).map(
        ([one, value]) => `<Attribute Name="ServerBoot.1#${one}">${value}</Attribute>`,
      );
      const component = `<Component FQDD="${text(manager.resource, "Id")}">${attributes.join("")}</Component>`;
      const body = {
        ShareParameters: { Target: "ALL" },
        ImportBuffer: `<SystemConfiguration>${component}</SystemConfiguration>`,
      };
      const task = "set the boot device to the virtual CD";
      await finishTask(service, call, await service.post(target, body, task), { what: task, seconds: IMPORT_SECONDS });
    };
  }
  return undefined;
}

/** Whether the manager has taken the change of its settings. */
async function isSetDirectly(service: RedfishService, { path, resource }: Located): Promise<boolean> {
  const vendors = Object.values(at(resource, "Links", "Oem"));
  const listed = vendors.flatMap((one) => items(at({ one }, "one"), "DellAttributes"));
  const paths = listed.flatMap((one) => text(one, "@odata.id") ?? []);
  const own = paths.find((one) => one.endsWith(text(resource, "Id") ?? "")) ?? link(resource, "Attributes");
  const found = own ?? `${path.replace(/\/$/, "")}/Attributes`;
  const read = async () => at(await service.find(found, "settings of the manager"), "Attributes");
  const wanted = { [`ServerBoot.1.${ONCE}`]: "Enabled", [`ServerBoot.1.${DEVICE}`]: VIRTUAL_CD };
  try {
    if (text(await read(), `ServerBoot.1.${DEVICE}`) === undefined) return false;
    await service.patch(found, { Attributes: wanted }, "set the boot device to the virtual CD");
    const now = await read();
    return Object.entries(wanted).every(([name, value]) => text(now, name) === value);
  } catch (error) {
    onlyFailed(error);
    if (error instanceof RedfishError && error.kind === "AUTHENTICATION") throw error;
    return false;
  }
}
