/** Storage with drives and volumes, network ports, PCIe devices. */
import type { Bmc, Volume } from "../bmc.ts";
import { ADAPTER, CONTROLLERS, driveSerial } from "../hardware.ts";
import type { Drive } from "../hardware.ts";
import { record } from "../journal.ts";
import {
  ENABLED,
  action,
  collection,
  done,
  link,
  linkIf,
  links,
  notFound,
  objectAt,
  placesOf,
  refuse,
  resource,
  textAt,
} from "../resource.ts";
import type { Answer, Body, Call, Route } from "../resource.ts";
import type { Traits } from "../traits.ts";
import { taskAnswer } from "./tasks.ts";
import { currentVersion } from "./update.ts";

const S = "/Systems/{system}";
const STORAGE = `${S}/Storage/*`;
const ADAPTERS = "/Chassis/{chassis}/NetworkAdapters";

const hasSimpleStorage = ({ storage: { alsoIn } }: Traits) => alsoIn === "simple-storage";

export const DEVICE_ROUTES: readonly Route[] = [
  {
    path: `${S}/Storage`,
    offered: ({ storage: { collection: listed } }) => listed !== "missing",
    get: ({ bmc, path }) =>
      collection("Storage", path, bmc.traits.storage.collection === undefined ? CONTROLLERS.map(({ id }) => id) : []),
  },
  {
    path: `${S}/SimpleStorage`,
    offered: hasSimpleStorage,
    get: ({ path }) => collection("SimpleStorage", path, ["1"]),
  },
  { path: `${S}/SimpleStorage/1`, offered: hasSimpleStorage, get: simpleStorage },
  { path: STORAGE, get: storage },
  {
    path: `${STORAGE}/Actions/Storage.ResetToDefaults`,
    offered: (traits) => traits.storage.reset,
    post: resetStorage,
  },
  { path: `${STORAGE}/Drives/*`, get: drive },
  {
    path: `${STORAGE}/Drives/*/Actions/Drive.SecureErase`,
    offered: (traits) => traits.storage.secureErase,
    post: secureErase,
  },
  {
    path: `${STORAGE}/Volumes`,
    offered: (traits) => traits.storage.volumes,
    get: ({ bmc, params, path }) =>
      collection(
        "Volume",
        path,
        bmc.state.volumes.filter((one) => one.controller === params[0]).map(({ id }) => id),
      ),
    post: createVolume,
  },
  { path: `${STORAGE}/Volumes/*`, offered: (traits) => traits.storage.volumes, get: volume, delete: deleteVolume },
  {
    path: `${S}/EthernetInterfaces`,
    offered: ({ nics }) => nics !== "network-adapters",
    get: ({ bmc, path }) =>
      collection(
        "EthernetInterface",
        path,
        bmc.identity.macs.map((_, index) => `NIC.1-${index + 1}`),
      ),
  },
  { path: `${S}/EthernetInterfaces/*`, offered: ({ nics }) => nics !== "network-adapters", get: ethernetInterface },
  {
    path: ADAPTERS,
    offered: ({ nics }) => nics !== "ethernet-interfaces",
    get: ({ path }) => collection("NetworkAdapter", path, [ADAPTER.id]),
  },
  { path: `${ADAPTERS}/${ADAPTER.id}`, offered: ({ nics }) => nics !== "ethernet-interfaces", get: adapter },
  {
    path: `${ADAPTERS}/${ADAPTER.id}/NetworkDeviceFunctions`,
    offered: ({ nics }) => nics !== "ethernet-interfaces",
    get: ({ bmc, path }) =>
      collection(
        "NetworkDeviceFunction",
        path,
        bmc.identity.macs.map((_, index) => `${index + 1}`),
      ),
  },
  {
    path: `${ADAPTERS}/${ADAPTER.id}/NetworkDeviceFunctions/*`,
    offered: ({ nics }) => nics !== "ethernet-interfaces",
    get: deviceFunction,
  },
  ...["/Systems/{system}", "/Chassis/{chassis}"].flatMap((owner): readonly Route[] => [
    {
      path: `${owner}/PCIeDevices`,
      get: ({ path }) =>
        collection(
          "PCIeDevice",
          path,
          PCIE_DEVICES.map(({ id }) => id),
        ),
    },
    { path: `${owner}/PCIeDevices/*`, get: pcieDevice },
  ]),
];

const PCIE_DEVICES = [
  { id: "1-0", name: "Network Adapter", manufacturer: ADAPTER.manufacturer, model: ADAPTER.model, component: "NIC" },
  { id: "2-0", name: "Storage Controller", manufacturer: "Broadcom", model: CONTROLLERS[0].model, component: "RAID" },
] as const;

const drivesOf = ({ identity }: Bmc, controller: string | undefined) =>
  identity.drives.filter((one) => one.controller === controller);

function storage({ bmc, params, path }: Call): Body | null {
  const controller = CONTROLLERS.find(({ id }) => id === params[0]);
  if (controller === undefined) return null;
  const { traits, identity } = bmc;
  return resource("Storage.v1_13_0", path, {
    Id: controller.id,
    Name: controller.model,
    Status: ENABLED,
    StorageControllers: [
      {
        "@odata.id": `/redfish/v1${path}#/StorageControllers/0`,
        MemberId: "0",
        Name: controller.model,
        Manufacturer: "Broadcom",
        Model: controller.model,
        SerialNumber: `${identity.serialNumber}-${controller.id}`,
        FirmwareVersion: currentVersion(bmc, "RAID"),
        SupportedDeviceProtocols: controller.protocols,
        SupportedRAIDTypes: controller.raidTypes,
        Status: ENABLED,
      },
    ],
    Drives: links(drivesOf(bmc, controller.id).map(({ id }) => `${path}/Drives/${id}`)),
    ...linkIf(traits.storage.volumes, "Volumes", `${path}/Volumes`),
    ...(traits.storage.reset && controller.raidTypes.length > 0
      ? {
          Actions: {
            "#Storage.ResetToDefaults": {
              ...action(path, "Storage.ResetToDefaults"),
              "ResetType@Redfish.AllowableValues": ["ResetAll", "PreserveVolumes"],
            },
          },
        }
      : {}),
  });
}

function simpleStorage({ bmc, path }: Call): Body {
  const devices = bmc.identity.drives.map((one) => ({
    Name: one.id,
    Manufacturer: "Micron",
    Model: one.model,
    CapacityBytes: one.capacityBytes,
    Status: ENABLED,
  }));
  const bays = [{ Name: "Empty bay", Status: { State: "Absent" } }];
  return resource("SimpleStorage.v1_3_1", path, { Id: "1", Name: "Simple Storage", Devices: [...devices, ...bays] });
}

/** The paths of all drives, for the links of the chassis. */
export function drivePaths({ identity, traits }: Bmc): string[] {
  const { system } = placesOf(traits);
  return identity.drives.map(({ id, controller }) => `${system}/Storage/${controller}/Drives/${id}`);
}

const driveAt = (bmc: Bmc, [controller, id]: readonly string[]): Drive | undefined =>
  drivesOf(bmc, controller).find((one) => one.id === id);

function drive({ bmc, params, path }: Call): Body | null {
  const { secureErase: offersErase, withoutErase = [], missingDrives = [] } = bmc.traits.storage;
  const found = driveAt(bmc, params);
  if (found === undefined || missingDrives.includes(found.id)) return null;
  const canErase = offersErase && !withoutErase.includes(found.id);
  return resource("Drive.v1_15_0", path, {
    Id: found.id,
    Name: found.id,
    Manufacturer: "Micron",
    Model: found.model,
    SerialNumber: driveSerial(bmc.identity, found),
    Revision: "D1MU020",
    CapacityBytes: found.capacityBytes,
    MediaType: found.mediaType,
    Protocol: found.protocol,
    PredictedMediaLifeLeftPercent: found.mediaType === "SSD" ? 97 : null,
    FailurePredicted: false,
    Status: ENABLED,
    ...(bmc.state.erasing.includes(found.id) ? { Operations: [{ OperationName: "Erasing" }] } : {}),
    ...(canErase ? { Actions: { "#Drive.SecureErase": action(path, "Drive.SecureErase") } } : {}),
  });
}

function secureErase({ bmc, params, path }: Call): Answer {
  const found = driveAt(bmc, params);
  if (found === undefined) return notFound(path);
  bmc.state.erasing = [...bmc.state.erasing, found.id];
  const task = bmc.tasks.start({
    name: `Secure erase: ${found.id}`,
    finish() {
      bmc.state.erasing = bmc.state.erasing.filter((id) => id !== found.id);
      bmc.state.erased = { ...bmc.state.erased, [found.id]: new Date().toISOString() };
      bmc.state.volumes = bmc.state.volumes.filter(({ drives }) => !drives.includes(found.id));
      record(bmc, {
        message: `${found.id} was erased.`,
        origin: `${placesOf(bmc.traits).system}/Storage/${found.controller}`,
      });
      return null;
    },
  });
  return taskAnswer(bmc, task.id);
}

function resetStorage({ bmc, params, body, path }: Call): Answer {
  const [controller] = params;
  if (!CONTROLLERS.some(({ id, raidTypes }) => id === controller && raidTypes.length > 0)) return notFound(path);
  const type = textAt(body, "ResetType") ?? "ResetAll";
  if (type !== "ResetAll" && type !== "PreserveVolumes")
    return refuse(400, "ActionParameterValueNotInList", `ResetType ${type} is not supported.`, type, "ResetType");
  if (type === "ResetAll") bmc.state.volumes = bmc.state.volumes.filter((one) => one.controller !== controller);
  return done(bmc);
}

/** Number of drives that each RAID type needs at least, and the share of their capacity that remains. */
const RAID: Readonly<Record<string, { readonly min: number; readonly usable: (drives: number) => number }>> = {
  RAID0: { min: 1, usable: (drives) => drives },
  RAID1: { min: 2, usable: () => 1 },
  RAID5: { min: 3, usable: (drives) => drives - 1 },
  RAID10: { min: 4, usable: (drives) => drives / 2 },
};

function createVolume({ bmc, params, body, path }: Call): Answer {
  const [controller = ""] = params;
  const type = textAt(body, "RAIDType") ?? "";
  const raid = RAID[type];
  if (raid === undefined || !CONTROLLERS.some(({ id, raidTypes }) => id === controller && raidTypes.length > 0))
    return refuse(400, "PropertyValueNotInList", `RAIDType ${type} is not supported.`, type, "RAIDType");
  const asked = objectAt(body, "Links")["Drives"];
  const ids = (Array.isArray(asked) ? asked : []).map((one) =>
    String(one?.["@odata.id"] ?? "")
      .replace(/\/$/, "")
      .split("/")
      .at(-1),
  );
  const drives = drivesOf(bmc, controller).filter(({ id }) =>
    ids.some((one) => one?.toLowerCase() === id.toLowerCase()),
  );
  if (drives.length !== ids.length || drives.length < raid.min)
    return refuse(
      400,
      "PropertyValueError",
      `${type} needs ${raid.min} or more drives of ${controller}.`,
      "Links/Drives",
    );
  const used = drives.find(({ id }) => bmc.state.volumes.some((one) => one.drives.includes(id)));
  if (used) return refuse(409, "ResourceInUse", `${used.id} belongs to a volume.`);
  bmc.state.volumesMade += 1;
  const made: Volume = {
    id: String(bmc.state.volumesMade),
    name: textAt(body, "Name") ?? `Volume ${bmc.state.volumesMade}`,
    controller,
    raidType: type,
    drives: drives.map(({ id }) => id),
    capacityBytes: Math.min(...drives.map((one) => one.capacityBytes)) * raid.usable(drives.length),
  };
  bmc.state.volumes = [...bmc.state.volumes, made];
  const place = `${path}/${made.id}`;
  return { status: 201, body: volumeBody(made, place), headers: { Location: `/redfish/v1${place}` } };
}

const volumeAt = ({ state }: Bmc, [controller, id]: readonly string[]) =>
  state.volumes.find((one) => one.controller === controller && one.id === id);

function volume({ bmc, params, path }: Call): Body | null {
  const found = volumeAt(bmc, params);
  return found === undefined ? null : volumeBody(found, path);
}

function volumeBody({ id, name, raidType, capacityBytes, drives }: Volume, path: string): Body {
  const owner = path.split("/Volumes/")[0] ?? "";
  return resource("Volume.v1_8_0", path, {
    Id: id,
    Name: name,
    RAIDType: raidType,
    CapacityBytes: capacityBytes,
    Status: ENABLED,
    Links: { Drives: links(drives.map((one) => `${owner}/Drives/${one}`)) },
  });
}

function deleteVolume({ bmc, params, path }: Call): Answer {
  const found = volumeAt(bmc, params);
  if (found === undefined) return notFound(path);
  const remove = () => {
    bmc.state.volumes = bmc.state.volumes.filter((one) => one !== found);
    return null;
  };
  if (bmc.traits.storage.deletionTask) {
    const held = bmc.traits.quirks.includes("tasks-wait-for-reset") && "Pending";
    const { id } = bmc.tasks.start({ name: `Remove volume: ${found.id}`, finish: remove, held });
    if (held) bmc.state.waitingTasks = [...bmc.state.waitingTasks, () => bmc.tasks.release(id)];
    return taskAnswer(bmc, id);
  }
  remove();
  return { status: 204 };
}

function ethernetInterface({ bmc, params, path }: Call): Body | null {
  const index = bmc.identity.macs.findIndex((_, number) => `NIC.1-${number + 1}` === params[0]);
  const mac = bmc.identity.macs[index];
  if (mac === undefined) return null;
  return resource("EthernetInterface.v1_8_0", path, {
    Id: params[0],
    Name: `Port ${index + 1}`,
    MACAddress: mac,
    PermanentMACAddress: mac,
    SpeedMbps: 25000,
    LinkStatus: index === 0 ? "LinkUp" : "LinkDown",
    InterfaceEnabled: true,
    Status: ENABLED,
  });
}

function adapter({ bmc, path }: Call): Body {
  return resource("NetworkAdapter.v1_8_0", path, {
    Id: ADAPTER.id,
    Name: "Network Adapter",
    Manufacturer: ADAPTER.manufacturer,
    Model: ADAPTER.model,
    PartNumber: ADAPTER.partNumber,
    SerialNumber: `${bmc.identity.serialNumber}-N1`,
    Controllers: [{ FirmwarePackageVersion: currentVersion(bmc, "NIC") }],
    NetworkDeviceFunctions: link(`${path}/NetworkDeviceFunctions`),
    Status: ENABLED,
  });
}

function deviceFunction({ bmc, params, path }: Call): Body | null {
  const mac = bmc.identity.macs[Number(params[0]) - 1];
  if (mac === undefined) return null;
  return resource("NetworkDeviceFunction.v1_8_0", path, {
    Id: params[0],
    Name: `Port ${params[0]}`,
    NetDevFuncType: "Ethernet",
    Ethernet: { MACAddress: mac, PermanentMACAddress: mac },
    Status: ENABLED,
  });
}

function pcieDevice({ bmc, params, path }: Call): Body | null {
  const device = PCIE_DEVICES.find(({ id }) => id === params[0]);
  if (device === undefined) return null;
  return resource("PCIeDevice.v1_9_0", path, {
    Id: device.id,
    Name: device.name,
    Manufacturer: device.manufacturer,
    Model: device.model,
    DeviceType: "SingleFunction",
    FirmwareVersion: currentVersion(bmc, device.component),
    Status: ENABLED,
  });
}
