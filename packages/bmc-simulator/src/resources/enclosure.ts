/** Chassis and manager: sensors, power supplies, logs, virtual media, the BMC itself. */
import { shownPower } from "../bmc.ts";
import type { Bmc } from "../bmc.ts";
import { FANS, POWER_SUPPLIES } from "../hardware.ts";
import { record } from "../journal.ts";
import { restartBmc } from "../power.ts";
import {
  ENABLED,
  action,
  collection,
  done,
  link,
  linkIf,
  links,
  notFound,
  placesOf,
  refuse,
  resource,
  textAt,
} from "../resource.ts";
import type { Answer, Body, Call, Route } from "../resource.ts";
import type { MediaSlot, Traits } from "../traits.ts";
import { drivePaths } from "./devices.ts";
import { indicator } from "./system.ts";
import { currentVersion } from "./update.ts";

const C = "/Chassis/{chassis}";
const M = "/Managers/{manager}";
const LOG = "Log1";

const hasSubsystems = ({ sensors }: Traits) => sensors === "subsystems";
const hasOldSensors = ({ sensors }: Traits) => sensors === "thermal-and-power";

export const ENCLOSURE_ROUTES: readonly Route[] = [
  { path: "/Chassis", get: ({ bmc, path }) => collection("Chassis", path, [bmc.traits.ids.chassis]) },
  { path: C, get: chassis },
  { path: `${C}/Thermal`, offered: hasOldSensors, get: thermal },
  { path: `${C}/Power`, offered: hasOldSensors, get: power },
  {
    path: `${C}/PowerSubsystem`,
    offered: hasSubsystems,
    get: ({ path }) =>
      resource("PowerSubsystem.v1_1_0", path, {
        Id: "PowerSubsystem",
        Name: "Power Subsystem",
        PowerSupplies: link(`${path}/PowerSupplies`),
        Status: ENABLED,
      }),
  },
  {
    path: `${C}/PowerSubsystem/PowerSupplies`,
    offered: hasSubsystems,
    get: ({ path }) => collection("PowerSupply", path, POWER_SUPPLIES),
  },
  { path: `${C}/PowerSubsystem/PowerSupplies/*`, offered: hasSubsystems, get: powerSupply },
  {
    path: `${C}/ThermalSubsystem`,
    offered: hasSubsystems,
    get: ({ path }) =>
      resource("ThermalSubsystem.v1_0_0", path, {
        Id: "ThermalSubsystem",
        Name: "Thermal Subsystem",
        Fans: link(`${path}/Fans`),
        Status: ENABLED,
      }),
  },
  { path: `${C}/ThermalSubsystem/Fans`, offered: hasSubsystems, get: ({ path }) => collection("Fan", path, FANS) },
  { path: `${C}/ThermalSubsystem/Fans/*`, offered: hasSubsystems, get: fan },
  { path: "/Managers", get: ({ bmc, path }) => collection("Manager", path, [bmc.traits.ids.manager]) },
  { path: M, get: manager },
  {
    path: `${M}/Actions/Manager.Reset`,
    post: ({ bmc }) => {
      restartBmc(bmc);
      return done(bmc);
    },
  },
  ...logRoutes("/Systems/{system}", ({ logsOn }) => logsOn !== "manager"),
  ...logRoutes(M, ({ logsOn }) => logsOn !== "system"),
  ...mediaRoutes("/Systems/{system}", (traits) => traits.media.onSystem),
  ...mediaRoutes(M, (traits) => traits.media.onManager),
];

function chassis({ bmc, path }: Call): Body {
  const { traits, identity } = bmc;
  const { system, manager: managerPath } = placesOf(traits);
  return resource("Chassis.v1_19_0", path, {
    Id: traits.ids.chassis,
    Name: "Chassis",
    ChassisType: "RackMount",
    Manufacturer: traits.manufacturer,
    Model: traits.model,
    SerialNumber: identity.serialNumber,
    PowerState: shownPower(bmc),
    Status: ENABLED,
    ...indicator(bmc),
    Location: {
      Placement: { Rack: identity.location.rack, RackOffset: identity.location.unit, RackOffsetUnits: "EIA_310" },
    },
    ...(hasSubsystems(traits)
      ? { ThermalSubsystem: link(`${path}/ThermalSubsystem`), PowerSubsystem: link(`${path}/PowerSubsystem`) }
      : { Thermal: link(`${path}/Thermal`), Power: link(`${path}/Power`) }),
    ...linkIf(traits.nics !== "ethernet-interfaces", "NetworkAdapters", `${path}/NetworkAdapters`),
    ...linkIf(traits.pcieDevicesOn === "chassis", "PCIeDevices", `${path}/PCIeDevices`),
    Links: {
      ComputerSystems: [link(system)],
      ManagedBy: [link(managerPath)],
      ...(traits.storage.alsoIn === "chassis" ? { Drives: links(drivePaths(bmc)) } : {}),
    },
  });
}

/** Temperatures follow the power. */
function thermal({ bmc, path }: Call): Body {
  const isOn = bmc.state.power === "On";
  const temperature = (id: string, name: string, value: number, critical: number) => ({
    "@odata.id": `/redfish/v1${path}#/Temperatures/${id}`,
    MemberId: id,
    Name: name,
    ReadingCelsius: value,
    UpperThresholdCritical: critical,
    Status: ENABLED,
  });
  return resource("Thermal.v1_7_0", path, {
    Id: "Thermal",
    Name: "Thermal",
    Temperatures: [
      temperature("0", "Inlet Temp", 23, 47),
      ...(isOn ? [temperature("1", "CPU1 Temp", 51, 96), temperature("2", "CPU2 Temp", 49, 96)] : []),
    ],
    Fans: FANS.map((name, index) => ({
      "@odata.id": `/redfish/v1${path}#/Fans/${index}`,
      MemberId: String(index),
      Name: name,
      Reading: isOn ? 4800 : 0,
      ReadingUnits: "RPM",
      Status: ENABLED,
    })),
  });
}

function power({ bmc, path }: Call): Body {
  const isOn = bmc.state.power === "On";
  return resource("Power.v1_7_0", path, {
    Id: "Power",
    Name: "Power",
    PowerControl: [
      {
        "@odata.id": `/redfish/v1${path}#/PowerControl/0`,
        MemberId: "0",
        Name: "System Power Control",
        PowerConsumedWatts: isOn ? 312 : 9,
        PowerCapacityWatts: 2800,
      },
    ],
    PowerSupplies: POWER_SUPPLIES.map((id, index) => ({
      "@odata.id": `/redfish/v1${path}#/PowerSupplies/${index}`,
      MemberId: String(index),
      ...supply(bmc, id),
    })),
  });
}

const supply = ({ identity }: Bmc, id: string) => ({
  Name: id,
  Model: "PWR SPLY,1400W,RDNT",
  SerialNumber: `${identity.serialNumber}-${id}`,
  PowerCapacityWatts: 1400,
  FirmwareVersion: "00.17.1E",
  Status: ENABLED,
});

function powerSupply({ bmc, params, path }: Call): Body | null {
  const id = POWER_SUPPLIES.find((one) => one === params[0]);
  return id === undefined ? null : resource("PowerSupply.v1_5_0", path, { Id: id, ...supply(bmc, id) });
}

function fan({ bmc, params, path }: Call): Body | null {
  const id = FANS.find((one) => one === params[0]);
  if (id === undefined) return null;
  const reading = bmc.state.power === "On" ? 42 : 0;
  return resource("Fan.v1_3_0", path, { Id: id, Name: id, SpeedPercent: { Reading: reading }, Status: ENABLED });
}

function manager({ bmc, path }: Call): Body {
  const { traits, identity } = bmc;
  const { system, chassis: chassisPath } = placesOf(traits);
  return resource("Manager.v1_15_0", path, {
    Id: traits.ids.manager,
    Name: "Manager",
    ManagerType: "BMC",
    Model: traits.product,
    FirmwareVersion: currentVersion(bmc, "BMC"),
    UUID: identity.uuid,
    DateTime: new Date().toISOString().replace(/\.\d+/, ""),
    PowerState: "On",
    Status: ENABLED,
    ...linkIf(traits.media.onManager.length > 0, "VirtualMedia", `${path}/VirtualMedia`),
    ...linkIf(traits.logsOn !== "system", "LogServices", `${path}/LogServices`),
    Links: { ManagerForServers: [link(system)], ManagerForChassis: [link(chassisPath)] },
    Actions: {
      "#Manager.Reset": {
        ...action(path, "Manager.Reset"),
        "ResetType@Redfish.AllowableValues": ["GracefulRestart", "ForceRestart"],
      },
    },
  });
}

function logRoutes(owner: string, offered: (traits: Traits) => boolean): readonly Route[] {
  const log = `${owner}/LogServices/${LOG}`;
  return [
    { path: `${owner}/LogServices`, offered, get: ({ path }) => collection("LogService", path, [LOG]) },
    {
      path: log,
      offered,
      get: ({ path }) =>
        resource("LogService.v1_3_0", path, {
          Id: LOG,
          Name: "Event Log",
          ServiceEnabled: true,
          LogEntryType: "Event",
          OverWritePolicy: "WrapsWhenFull",
          Entries: link(`${path}/Entries`),
          Actions: { "#LogService.ClearLog": action(path, "LogService.ClearLog") },
        }),
    },
    {
      path: `${log}/Actions/LogService.ClearLog`,
      offered,
      post({ bmc }) {
        bmc.state.log = [];
        return done(bmc);
      },
    },
    { path: `${log}/Entries`, offered, get: logEntries },
    {
      path: `${log}/Entries/*`,
      offered,
      get: ({ bmc, params, path }) => {
        const entry = bmc.state.log.find(({ id }) => id === params[0]);
        return entry === undefined ? null : logEntry(path, entry);
      },
    },
  ];
}

/** Newest first, with the whole entries as members. */
function logEntries({ bmc: { state }, path }: Call): Body {
  return {
    ...collection("LogEntry", path, []),
    "Members@odata.count": state.log.length,
    Members: state.log.toReversed().map((entry) => logEntry(`${path}/${entry.id}`, entry)),
  };
}

function logEntry(path: string, { id, created, severity, messageId, message }: Bmc["state"]["log"][number]): Body {
  return resource("LogEntry.v1_13_0", path, {
    Id: id,
    Name: `Log Entry ${id}`,
    EntryType: "Event",
    Created: created,
    Severity: severity,
    MessageId: messageId,
    Message: message,
  });
}

function mediaRoutes(owner: string, slots: (traits: Traits) => readonly MediaSlot[]): readonly Route[] {
  const offered = (traits: Traits) => slots(traits).length > 0;
  const byAction = (traits: Traits) => offered(traits) && traits.media.by === "action";
  const slotOf = ({ bmc, params }: Call) => slots(bmc.traits).find(({ id }) => id === params[0]);
  const slot = `${owner}/VirtualMedia/*`;
  return [
    {
      path: `${owner}/VirtualMedia`,
      offered,
      get: ({ bmc, path }) =>
        collection(
          "VirtualMedia",
          path,
          slots(bmc.traits).map(({ id }) => id),
        ),
    },
    {
      path: slot,
      offered,
      get: (call) => {
        const found = slotOf(call);
        return found === undefined ? null : mediaBody(call, found);
      },
      patch: (call) => (call.bmc.traits.media.by === "patch" ? patchMedia(call, slotOf(call)) : notPatched(call)),
    },
    { path: `${slot}/Actions/VirtualMedia.InsertMedia`, offered: byAction, post: (call) => insert(call, slotOf(call)) },
    { path: `${slot}/Actions/VirtualMedia.EjectMedia`, offered: byAction, post: (call) => eject(call, slotOf(call)) },
  ];
}

const notPatched = ({ path }: Call) => refuse(405, "OperationNotAllowed", `PATCH is not allowed for ${path}.`);

/** Path of the slot, for the resource and its actions. */
const slotPath = (path: string) => path.split("/Actions/")[0] ?? path;

function mediaBody({ bmc: { state, traits }, path }: Call, slot: MediaSlot): Body {
  const inserted = state.media[path];
  const canEject = traits.media.ejectListed === "always" || inserted !== undefined;
  return resource("VirtualMedia.v1_4_0", path, {
    Id: slot.id,
    Name: "Virtual Media",
    MediaTypes: slot.types,
    Image: inserted?.image ?? null,
    ImageName: inserted?.image.split("/").at(-1) ?? null,
    Inserted: inserted !== undefined,
    WriteProtected: inserted?.writeProtected ?? true,
    ConnectedVia: inserted ? "URI" : "NotConnected",
    TransferMethod: inserted ? "Stream" : null,
    ...(traits.media.by === "action"
      ? {
          Actions: {
            "#VirtualMedia.InsertMedia": action(path, "VirtualMedia.InsertMedia"),
            ...(canEject ? { "#VirtualMedia.EjectMedia": action(path, "VirtualMedia.EjectMedia") } : {}),
          },
        }
      : {}),
  });
}

async function insert(call: Call, slot: MediaSlot | undefined): Promise<Answer> {
  const { bmc, body } = call;
  const path = slotPath(call.path);
  if (slot === undefined) return notFound(path);
  const image = textAt(body, "Image");
  if (image === null) return refuse(400, "ActionParameterMissing", "Image is missing.", "Image");
  if (!URL.canParse(image) || !/^(https?|nfs|cifs):$/.test(new URL(image).protocol))
    return refuse(400, "ActionParameterValueFormatError", `Image ${image} is not an address.`, image, "Image");
  if (bmc.state.media[path]) return refuse(409, "ResourceInUse", `${slot.id} has an image. Eject it first.`);
  return change(bmc, slot, path, { image, writeProtected: body["WriteProtected"] !== false });
}

async function eject(call: Call, slot: MediaSlot | undefined): Promise<Answer> {
  const path = slotPath(call.path);
  if (slot === undefined) return notFound(path);
  return change(call.bmc, slot, path, null);
}

/** Without actions: an address inserts, null ejects. */
function patchMedia(call: Call, slot: MediaSlot | undefined): Answer | Promise<Answer> {
  const { body } = call;
  if (!("Image" in body) && body["Inserted"] !== false)
    return refuse(400, "PropertyMissing", "Image is missing.", "Image");
  const ejects = body["Inserted"] === false || textAt(body, "Image") === null || textAt(body, "Image") === "";
  return ejects ? eject(call, slot) : insert(call, slot);
}

async function change(
  bmc: Bmc,
  slot: MediaSlot,
  path: string,
  media: { readonly image: string; readonly writeProtected: boolean } | null,
): Promise<Answer> {
  if (slot.types.includes("CD")) {
    try {
      await bmc.machine.insert(media?.image ?? null);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      return refuse(400, "SourceDoesNotSupportProtocol", `The image cannot be read: ${reason}`);
    }
  }
  const { [path]: _before, ...others } = bmc.state.media;
  bmc.state.media = media === null ? others : { ...others, [path]: media };
  const what = media === null ? "ejected" : "inserted";
  record(bmc, { message: `Virtual media ${slot.id} was ${what}.`, origin: path });
  return done(bmc);
}
