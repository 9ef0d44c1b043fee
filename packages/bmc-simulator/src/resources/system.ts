/** The system: power, boot, BIOS, Secure Boot, and the hardware that it reports. */
import { BIOS_DEFAULTS, biosFlaws, isBiosValue } from "../bios-attributes.ts";
import type { BiosValue } from "../bios-attributes.ts";
import { shownPower } from "../bmc.ts";
import type { Bmc } from "../bmc.ts";
import { CPU, DIMMS } from "../hardware.ts";
import { applyBiosSettings, resetSystem } from "../power.ts";
import {
  ENABLED,
  action,
  collection,
  done,
  link,
  linkIf,
  links,
  objectAt,
  placesOf,
  refuse,
  resource,
  textAt,
} from "../resource.ts";
import type { Answer, Body, Call, Route } from "../resource.ts";
import { BIOS_REGISTRY } from "./service.ts";
import { currentVersion } from "./update.ts";
import { taskAnswer } from "./tasks.ts";

const S = "/Systems/{system}";

const BOOT_OPTIONS = [
  { id: "Boot0000", name: "Hard disk", alias: "Hdd", path: "HD(1,GPT)/\\EFI\\BOOT\\BOOTX64.EFI" },
  { id: "Boot0001", name: "PXE port 1", alias: "Pxe", path: "PciRoot(0x0)/Pci(0x1,0x0)/MAC()/IPv4(0.0.0.0)" },
  {
    id: "Boot0002",
    name: "HTTP port 1",
    alias: "UefiHttp",
    path: "PciRoot(0x0)/Pci(0x1,0x0)/MAC()/IPv4(0.0.0.0)/Uri()",
  },
  { id: "Boot0003", name: "Virtual CD", alias: "Cd", path: "PciRoot(0x0)/Pci(0x14,0x0)/USB(0x1,0x0)" },
] as const;

const BOOT_ORDER = BOOT_OPTIONS.map(({ id }) => id);

/** Path of the pending BIOS settings in routes. All presets' names, so that one table serves them. */
const SETTINGS = `${S}/Bios/{bios-settings}`;

export const SYSTEM_ROUTES: readonly Route[] = [
  { path: "/Systems", get: ({ bmc, path }) => collection("ComputerSystem", path, [bmc.traits.ids.system]) },
  { path: S, get: system, patch: changeSystem },
  { path: `${S}/Actions/ComputerSystem.Reset`, post: ({ bmc, body }) => reset(bmc, body) },
  {
    path: `${S}/ResetActionInfo`,
    offered: ({ power }) => power.resetTypesListed === "action-info",
    get: ({ bmc, path }) =>
      resource("ActionInfo.v1_1_2", path, {
        Id: "ResetActionInfo",
        Name: "Reset Action Info",
        Parameters: [
          { Name: "ResetType", Required: true, DataType: "String", AllowableValues: bmc.traits.power.resetTypes },
        ],
      }),
  },
  {
    path: `${S}/BootOptions`,
    offered: ({ boot }) => boot.options,
    get: ({ path }) => collection("BootOption", path, BOOT_ORDER),
  },
  { path: `${S}/BootOptions/*`, offered: ({ boot }) => boot.options, get: bootOption },
  { path: `${S}/Bios`, get: bios },
  { path: SETTINGS, get: pendingBios, patch: changeBios },
  {
    path: `${S}/Bios/Actions/Bios.ResetBios`,
    post: ({ bmc }) => {
      bmc.state.biosPending = { attributes: { ...BIOS_DEFAULTS }, applyTime: "OnReset", task: null };
      return done(bmc);
    },
  },
  { path: `${S}/SecureBoot`, offered: (traits) => traits.secureBoot, get: secureBoot, patch: changeSecureBoot },
  { path: `${S}/Processors`, get: ({ path }) => collection("Processor", path, numbered("CPU.", CPU.count)) },
  { path: `${S}/Processors/*`, get: processor },
  { path: `${S}/Memory`, get: ({ path }) => collection("Memory", path, numbered("DIMM.", DIMMS.slots)) },
  { path: `${S}/Memory/*`, get: memory },
];

const numbered = (prefix: string, count: number) =>
  Array.from({ length: count }, (_, index) => `${prefix}${index + 1}`);

function system({ bmc, path }: Call): Body {
  const { traits, identity, state } = bmc;
  const { manager, chassis } = placesOf(traits);
  const { nics, media, logsOn, pcieDevicesOn } = traits;
  return resource("ComputerSystem.v1_16_0", path, {
    Id: traits.ids.system,
    Name: "System",
    SystemType: "Physical",
    Manufacturer: traits.manufacturer,
    Model: traits.model,
    SerialNumber: identity.serialNumber,
    SKU: identity.serialNumber.slice(-7),
    PartNumber: "LW-1000-01",
    UUID: identity.uuid,
    AssetTag: state.assetTag ?? identity.assetTag,
    HostName: identity.hostName,
    BiosVersion: currentVersion(bmc, "BIOS"),
    PowerState: shownPower(bmc),
    Status: { ...ENABLED, HealthRollup: "OK" },
    ...indicator(bmc),
    ProcessorSummary: {
      Count: CPU.count,
      CoreCount: CPU.count * CPU.cores,
      LogicalProcessorCount: CPU.count * CPU.threads,
      Model: CPU.model,
      Status: ENABLED,
    },
    MemorySummary: { TotalSystemMemoryGiB: identity.memoryGiB, Status: ENABLED },
    Boot: bootMember(bmc, path),
    ...(traits.boot.progress ? { BootProgress: { LastState: state.bootProgress } } : {}),
    SerialConsole: { MaxConcurrentSessions: 1, SSH: { ServiceEnabled: true, Port: 22 } },
    Bios: link(`${path}/Bios`),
    Processors: link(`${path}/Processors`),
    Memory: link(`${path}/Memory`),
    ...linkIf(traits.storage.collection !== "unlinked", "Storage", `${path}/Storage`),
    ...linkIf(traits.storage.alsoIn === "simple-storage", "SimpleStorage", `${path}/SimpleStorage`),
    ...linkIf(nics !== "network-adapters", "EthernetInterfaces", `${path}/EthernetInterfaces`),
    ...linkIf(traits.secureBoot, "SecureBoot", `${path}/SecureBoot`),
    ...linkIf(logsOn !== "manager", "LogServices", `${path}/LogServices`),
    ...linkIf(media.onSystem.length > 0, "VirtualMedia", `${path}/VirtualMedia`),
    ...(pcieDevicesOn === "system"
      ? { PCIeDevices: links([`${path}/PCIeDevices/1-0`, `${path}/PCIeDevices/2-0`]) }
      : {}),
    Links: { Chassis: [link(chassis)], ManagedBy: [link(manager)] },
    Actions: { "#ComputerSystem.Reset": resetAction(bmc, path) },
  });
}

export function indicator({ traits, state }: Bmc): Body {
  if (traits.indicator === "IndicatorLED") return { IndicatorLED: state.indicator };
  return { LocationIndicatorActive: state.indicator !== "Off" };
}

function resetAction({ traits: { power } }: Bmc, path: string): Body {
  const target = action(path, "ComputerSystem.Reset");
  switch (power.resetTypesListed) {
    case "allowable-values":
      return { ...target, "ResetType@Redfish.AllowableValues": power.resetTypes };
    case "action-info":
      return { ...target, "@Redfish.ActionInfo": `/redfish/v1${path}/ResetActionInfo` };
    case "nowhere":
      return target;
  }
}

function reset(bmc: Bmc, body: Body): Answer {
  const type = textAt(body, "ResetType");
  if (type === null) return refuse(400, "ActionParameterMissing", "ResetType is missing.", "ResetType");
  return resetSystem(bmc, type);
}

function bootMember({ traits, state }: Bmc, path: string): Body {
  const { boot } = state;
  return {
    BootSourceOverrideEnabled: boot.enabled,
    BootSourceOverrideTarget: boot.target,
    ...(traits.boot.mode ? { BootSourceOverrideMode: boot.mode } : {}),
    ...(traits.boot.targetsListed ? { "BootSourceOverrideTarget@Redfish.AllowableValues": traits.boot.targets } : {}),
    ...(traits.boot.next === "uefi-target"
      ? {
          UefiTargetBootSourceOverride: boot.uefiTarget,
          "UefiTargetBootSourceOverride@Redfish.AllowableValues": BOOT_OPTIONS.map((option) => option.path),
        }
      : {}),
    ...(traits.boot.next === "boot-next" ? { BootNext: boot.next } : {}),
    ...(traits.quirks.includes("http-boot-uri") ? { HttpBootUri: boot.httpUri } : {}),
    ...(traits.boot.options
      ? { BootOptions: link(`${path}/BootOptions`), BootOrder: state.bootOrder ?? BOOT_ORDER }
      : {}),
  };
}

function bootOption({ params, path }: Call): Body | null {
  const option = BOOT_OPTIONS.find(({ id }) => id === params[0]);
  if (option === undefined) return null;
  return resource("BootOption.v1_0_4", path, {
    Id: option.id,
    Name: option.name,
    DisplayName: option.name,
    BootOptionReference: option.id,
    BootOptionEnabled: true,
    Alias: option.alias,
    UefiDevicePath: option.path,
  });
}

const INDICATORS = ["Off", "Lit", "Blinking"] as const;

function changeSystem({ bmc, body }: Call): Answer {
  const { state, traits } = bmc;
  const writable = ["Boot", "AssetTag", traits.indicator];
  const wrong = Object.keys(body).find((name) => !writable.includes(name));
  if (wrong !== undefined) return refuse(400, "PropertyNotWritable", `${wrong} cannot be changed.`, wrong);
  const led = body["LocationIndicatorActive"] === true ? "Lit" : (textAt(body, "IndicatorLED") ?? "Off");
  const indicatorAsked = INDICATORS.find((one) => one === led);
  if (indicatorAsked === undefined)
    return refuse(400, "PropertyValueNotInList", `IndicatorLED ${led} is not supported.`);
  const boot = objectAt(body, "Boot");
  const flaw = bootFlaw(bmc, boot);
  if (flaw) return flaw;
  if (traits.indicator in body) state.indicator = indicatorAsked;
  if ("AssetTag" in body) state.assetTag = textAt(body, "AssetTag");
  if (Array.isArray(boot["BootOrder"])) state.bootOrder = boot["BootOrder"].map(String);
  changeBoot(bmc, boot);
  return done(bmc);
}

function changeBoot({ state }: Bmc, boot: Body): void {
  const enabled = (["Disabled", "Once", "Continuous"] as const).find(
    (one) => one === boot["BootSourceOverrideEnabled"],
  );
  const mode = (["UEFI", "Legacy"] as const).find((one) => one === boot["BootSourceOverrideMode"]);
  const target = textAt(boot, "BootSourceOverrideTarget");
  state.boot = {
    enabled: enabled ?? state.boot.enabled,
    target: target ?? state.boot.target,
    mode: mode ?? state.boot.mode,
    uefiTarget: textAt(boot, "UefiTargetBootSourceOverride") ?? state.boot.uefiTarget,
    next: textAt(boot, "BootNext") ?? state.boot.next,
    httpUri: textAt(boot, "HttpBootUri") ?? state.boot.httpUri,
  };
  if (state.boot.enabled === "Disabled") state.boot.target = "None";
}

function bootFlaw({ traits, state }: Bmc, boot: Body): Answer | null {
  const { targets, mode, next, options } = traits.boot;
  const allowed: Readonly<Record<string, readonly unknown[] | null>> = {
    BootSourceOverrideEnabled: ["Disabled", "Once", "Continuous"],
    BootSourceOverrideTarget: targets,
    ...(mode ? { BootSourceOverrideMode: ["UEFI", "Legacy"] } : {}),
    ...(next === "uefi-target" ? { UefiTargetBootSourceOverride: BOOT_OPTIONS.map(({ path }) => path) } : {}),
    ...(next === "boot-next" ? { BootNext: BOOT_ORDER } : {}),
    ...(options ? { BootOrder: null } : {}),
    ...(traits.quirks.includes("http-boot-uri") ? { HttpBootUri: null } : {}),
  };
  for (const [name, value] of Object.entries(boot)) {
    const values = allowed[name];
    if (values === undefined) return refuse(400, "PropertyUnknown", `Boot has no member ${name}.`, name);
    if (values !== null && !values.includes(value))
      return refuse(400, "PropertyValueNotInList", `${name} ${String(value)} is not supported.`, String(value), name);
  }
  const order = boot["BootOrder"];
  if (order !== undefined && !isPermutation(order))
    return refuse(400, "PropertyValueNotInList", "BootOrder takes every boot option once.", "BootOrder");
  const target = boot["BootSourceOverrideTarget"] ?? state.boot.target;
  if (target === "UefiTarget" && (boot["UefiTargetBootSourceOverride"] ?? state.boot.uefiTarget) === null)
    return refuse(400, "PropertyMissing", "UefiTargetBootSourceOverride is missing.", "UefiTargetBootSourceOverride");
  return null;
}

const isPermutation = (order: unknown) =>
  Array.isArray(order) && order.length === BOOT_ORDER.length && BOOT_ORDER.every((id) => order.includes(id));

/** Current values; a password is never shown. */
const biosValues = ({ state }: Bmc) => ({ ...BIOS_DEFAULTS, ...state.bios, SetupPassword: null });

function bios({ bmc, path }: Call): Body {
  const { settings, applyTimes } = bmc.traits.bios;
  return resource("Bios.v1_1_1", path, {
    Id: "Bios",
    Name: "BIOS Configuration Current Settings",
    AttributeRegistry: BIOS_REGISTRY,
    Attributes: biosValues(bmc),
    "@Redfish.Settings": {
      "@odata.type": "#Settings.v1_3_0.Settings",
      SettingsObject: link(`${path}/${settings}`),
      ...(applyTimes.length > 0 ? { SupportedApplyTimes: applyTimes } : {}),
    },
    Actions: { "#Bios.ResetBios": action(path, "Bios.ResetBios") },
  });
}

function pendingBios({ bmc, path }: Call): Body {
  const { state, traits } = bmc;
  const pending = state.biosPending?.attributes ?? {};
  const shown = "SetupPassword" in pending ? { ...pending, SetupPassword: null } : pending;
  return resource("Bios.v1_1_1", path, {
    Id: traits.bios.settings,
    Name: "BIOS Configuration Pending Settings",
    AttributeRegistry: BIOS_REGISTRY,
    Attributes: shown,
    ...(state.biosPending && traits.bios.applyTimes.length > 0
      ? { "@Redfish.SettingsApplyTime": { ApplyTime: state.biosPending.applyTime } }
      : {}),
  });
}

function changeBios(call: Call): Answer {
  const { bmc, body } = call;
  const { state, traits, tasks } = bmc;
  const changes = objectAt(body, "Attributes");
  const applyTime = textAt(objectAt(body, "@Redfish.SettingsApplyTime"), "ApplyTime");
  if (applyTime !== null && !traits.bios.applyTimes.includes(applyTime))
    return refuse(400, "PropertyValueNotInList", `ApplyTime ${applyTime} is not supported.`, applyTime, "ApplyTime");
  const attributes = { ...state.biosPending?.attributes, ...onlyValues(changes) };
  const [flaw] = biosFlaws(changes, { ...biosValues(bmc), ...attributes });
  if (flaw) return refuse(400, flaw.messageId, flaw.message, flaw.attribute);
  const before = state.biosPending?.task ?? null;
  const task =
    !traits.bios.task || before !== null
      ? before
      : tasks.start({ name: "Configure: BIOS", held: applyTime !== "Immediate" }).id;
  state.biosPending = { attributes, applyTime: applyTime ?? "OnReset", task };
  if (applyTime === "Immediate") applyBiosSettings(bmc);
  return task === null ? done(bmc) : taskAnswer(bmc, task);
}

function onlyValues(changes: Body): Record<string, BiosValue> {
  return Object.fromEntries(
    Object.entries(changes).filter((entry): entry is [string, BiosValue] => isBiosValue(entry[1])),
  );
}

function secureBoot({ bmc: { state }, path }: Call): Body {
  return resource("SecureBoot.v1_1_0", path, {
    Id: "SecureBoot",
    Name: "UEFI Secure Boot",
    SecureBootEnable: state.secureBoot.atNextBoot,
    SecureBootCurrentBoot: state.secureBoot.enabled ? "Enabled" : "Disabled",
    SecureBootMode: "UserMode",
  });
}

function changeSecureBoot({ bmc, body }: Call): Answer {
  const value = body["SecureBootEnable"];
  if (typeof value !== "boolean")
    return refuse(400, "PropertyValueTypeError", "SecureBootEnable takes a boolean.", "SecureBootEnable");
  bmc.state.secureBoot.atNextBoot = value;
  return done(bmc);
}

function processor({ params, path, bmc }: Call): Body | null {
  const number = numbered("CPU.", CPU.count).indexOf(params[0] ?? "");
  if (number < 0) return null;
  return resource("Processor.v1_13_0", path, {
    Id: params[0],
    Name: `CPU ${number + 1}`,
    Socket: `CPU ${number + 1}`,
    ProcessorType: "CPU",
    ProcessorArchitecture: "x86",
    InstructionSet: "x86-64",
    Manufacturer: CPU.manufacturer,
    Model: CPU.model,
    MaxSpeedMHz: CPU.maxSpeedMHz,
    TotalCores: CPU.cores,
    TotalThreads: CPU.threads,
    SerialNumber: `${bmc.identity.serialNumber}-C${number + 1}`,
    Status: ENABLED,
  });
}

/** Empty slots are members too, with the state Absent. */
function memory({ params, path, bmc }: Call): Body | null {
  const number = numbered("DIMM.", DIMMS.slots).indexOf(params[0] ?? "");
  if (number < 0) return null;
  const place = { Id: params[0], Name: `DIMM ${number + 1}`, DeviceLocator: `DIMM ${number + 1}` };
  if (number >= DIMMS.populated) return resource("Memory.v1_14_0", path, { ...place, Status: { State: "Absent" } });
  return resource("Memory.v1_14_0", path, {
    ...place,
    MemoryType: "DRAM",
    MemoryDeviceType: "DDR4",
    CapacityMiB: (bmc.identity.memoryGiB * 1024) / DIMMS.populated,
    OperatingSpeedMhz: 3200,
    Manufacturer: "Micron Technology",
    PartNumber: "36ASF4G72PZ-3G2E2",
    SerialNumber: `${bmc.identity.serialNumber}-M${number + 1}`,
    Status: ENABLED,
  });
}
