/**
 * How one kind of BMC differs from another. Each trait is a behaviour that was seen in recordings of real machines; a
 * preset bundles the traits of one of them. Clients are expected to follow what the BMC reports about itself.
 */
import type { LatencyName } from "./latency.ts";

export type ResetType =
  | "On"
  | "ForceOn"
  | "ForceOff"
  | "GracefulShutdown"
  | "GracefulRestart"
  | "ForceRestart"
  | "PowerCycle"
  | "PushPowerButton"
  | "Nmi";

export interface MediaSlot {
  readonly id: string;
  readonly types: readonly ("CD" | "DVD" | "Floppy" | "USBStick")[];
}

/** Behaviours beside the specification, described in quirks.ts. */
export type QuirkName =
  | "media-needs-parameters"
  | "media-takes-image-only"
  | "media-refused-in-text"
  | "media-by-patch-only"
  | "media-first-refuses"
  | "media-never-inserted"
  | "media-image-stays"
  | "refused-during-post"
  | "too-early"
  | "mode-required"
  | "boot-at-settings"
  | "refuses-own-etags"
  | "strong-etags-only"
  | "conditions-required"
  | "refuses-same-values"
  | "mode-resets"
  | "first-boot-change-lost"
  | "bios-side-effect"
  | "reset-behind-gateway"
  | "tasks-wait-for-reset"
  | "not-ready"
  | "reset-type-refused"
  | "first-reset-lost"
  | "post-moves"
  | "starts-usb-cd-only"
  | "http-boot-uri"
  | "settings-without-http"
  | "gpu-board"
  | "two-systems"
  | "other-manager-first"
  | "fillers"
  | "drive-fails"
  | "drive-is-error"
  | "expand-is-empty"
  | "expand-is-short"
  | "expand-is-status"
  | "page-again"
  | "pages-without-end"
  | "memory-is-empty"
  | "memory-sum-is-zero"
  | "macs-missing"
  | "macs-of-all-kinds"
  | "numbers-as-texts"
  | "controller-is-empty"
  | "drives-are-null"
  | "drives-without-serial"
  | "drive-without-size"
  | "texts-with-escapes"
  | "gpu-board-fails"
  | "virtual-cd-by-attributes"
  | "virtual-cd-by-import"
  | "tasks-stay-running"
  | "tasks-without-state"
  | "task-states-in-words"
  | "tasks-vanish"
  | "boot-fails-while-off"
  | "boot-fails-twice"
  | "boot-fails-and-holds"
  | "media-stays-shown"
  | "answers-elsewhere"
  | "once-is-kept"
  | "bios-as-texts"
  | "bios-without-apply-time"
  | "bios-job-waits"
  | "system-is-empty"
  | "message-is-no-list";

export interface Traits {
  /** `Vendor` in the service root, null if it is missing. */
  readonly vendor: string | null;
  readonly product: string;
  readonly manufacturer: string;
  readonly model: string;
  readonly redfishVersion: string;
  /** IDs of the only members of Systems, Managers and Chassis. */
  readonly ids: { readonly system: string; readonly manager: string; readonly chassis: string };
  readonly login: {
    readonly basic: boolean;
    readonly sessionsMax: number;
    /** Idle time after which a session ends. */
    readonly timeoutSeconds: number;
    /** Body of an answer with status 401. */
    readonly refusal: "general-error" | "extended-info" | "text" | "empty";
    readonly passwordLengthMin: number;
    readonly passwordLengthMax: number;
    /** A new password ends the sessions of the account. */
    readonly passwordEndsSessions: boolean;
  };
  /** Prefix of message IDs. */
  readonly messageRegistry: string;
  readonly power: {
    readonly resetTypes: readonly ResetType[];
    readonly resetTypesListed: "allowable-values" | "action-info" | "nowhere";
    /** Shows PoweringOn and PoweringOff. */
    readonly transitions: boolean;
    /** Status for "On" while on and the like. `accepted`: success without effect. */
    readonly illegalReset: 400 | 409 | "accepted";
    readonly answer: 200 | 204;
  };
  readonly boot: {
    readonly targets: readonly string[];
    readonly targetsListed: boolean;
    /** Offers BootSourceOverrideMode. */
    readonly mode: boolean;
    /** Offers BootOptions, BootOrder, and by name BootNext or UefiTargetBootSourceOverride. */
    readonly options: boolean;
    readonly next: "uefi-target" | "boot-next" | "none";
    readonly progress: boolean;
  };
  readonly bios: {
    /** Last part of the path of the pending settings. */
    readonly settings: string;
    readonly applyTimes: readonly string[];
    /** A change of settings answers with a task, which ends when the settings are applied. */
    readonly task: boolean;
  };
  readonly links: {
    readonly lowerCase: "never" | "bios" | "always";
    readonly trailingSlash: "never" | "bios-settings" | "always";
    readonly absolute: boolean;
  };
  /** `offered`: If-Match is checked if it is sent. `required`: a change without it is refused. */
  readonly etags: "none" | "offered" | "weak" | "required";
  readonly media: {
    readonly onManager: readonly MediaSlot[];
    readonly onSystem: readonly MediaSlot[];
    readonly by: "action" | "patch";
    /** `inserted`: the action EjectMedia is listed only while an image is inserted. */
    readonly ejectListed: "always" | "inserted";
  };
  readonly update: {
    /** Offers the action SimpleUpdate. */
    readonly simple: boolean;
    readonly start: boolean;
    readonly multipart: boolean;
    /** Path of HttpPushUri, null without one. */
    readonly push: string | null;
    /** How the answer to an update names its task. */
    readonly taskIn:
      | "location-of-task"
      | "location-of-monitor"
      | "location-of-job"
      | "body"
      | "body-of-200"
      | "message";
    /** A new BIOS version runs only after the next reset of the system. */
    readonly biosAtReset: boolean;
  };
  readonly events: { readonly stream: string | null; readonly push: boolean };
  readonly expand: {
    readonly levelsMax: number;
    readonly all: boolean;
    readonly links: boolean;
    readonly noLinks: boolean;
  } | null;
  readonly unsupportedQuery: "ignored" | "refused";
  /** Members per page of a collection, null without paging. */
  readonly pageSize: number | null;
  readonly nics: "ethernet-interfaces" | "network-adapters" | "both";
  readonly storage: {
    readonly secureErase: boolean;
    readonly volumes: boolean;
    readonly reset: boolean;
    /** A volume is removed by a task. */
    readonly deletionTask: boolean;
    /** The storage of the system: without a link, without members, or linked and answering 404. Absent: listed. */
    readonly collection?: "unlinked" | "empty" | "missing";
    /** Where else the drives are listed: links of the chassis, or devices of SimpleStorage, which have no resource. */
    readonly alsoIn?: "chassis" | "simple-storage";
    /** IDs of drives that offer no secure erase. */
    readonly withoutErase?: readonly string[];
    /** IDs of drives that are linked and answer 404. */
    readonly missingDrives?: readonly string[];
  };
  readonly jobs: boolean;
  readonly sensors: "thermal-and-power" | "subsystems";
  readonly indicator: "IndicatorLED" | "LocationIndicatorActive";
  readonly pcieDevicesOn: "system" | "chassis";
  readonly logsOn: "system" | "manager" | "both";
  readonly secureBoot: boolean;
  /** Optional members that are missing, as `ComputerSystem.MemorySummary`. */
  readonly omits: readonly string[];
  /** Behaviours beside the specification. */
  readonly quirks: readonly QuirkName[];
  readonly latency: LatencyName;
}

const CD: readonly MediaSlot["types"][number][] = ["CD", "DVD"];

/** Everything offered, by the words of the specification. The other presets are described by how they differ. */
const REFERENCE: Traits = {
  vendor: "Ostler",
  product: "Simulated BMC",
  manufacturer: "Lab Works",
  model: "LW-1000",
  redfishVersion: "1.18.0",
  ids: { system: "1", manager: "bmc", chassis: "1" },
  login: {
    basic: true,
    sessionsMax: 16,
    timeoutSeconds: 600,
    refusal: "general-error",
    passwordLengthMin: 8,
    passwordLengthMax: 40,
    passwordEndsSessions: false,
  },
  messageRegistry: "Base.1.18",
  power: {
    resetTypes: ["On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart", "PowerCycle", "Nmi"],
    resetTypesListed: "allowable-values",
    transitions: true,
    illegalReset: 409,
    answer: 204,
  },
  boot: {
    targets: ["None", "Pxe", "Cd", "Usb", "Hdd", "BiosSetup", "UefiHttp"],
    targetsListed: true,
    mode: true,
    options: true,
    next: "boot-next",
    progress: true,
  },
  bios: { settings: "Settings", applyTimes: ["Immediate", "OnReset"], task: false },
  links: { lowerCase: "never", trailingSlash: "never", absolute: false },
  etags: "offered",
  media: { onManager: [{ id: "Cd", types: CD }], onSystem: [], by: "action", ejectListed: "always" },
  update: { simple: true, start: true, multipart: true, push: null, taskIn: "location-of-monitor", biosAtReset: true },
  events: { stream: "/EventService/SSE", push: true },
  expand: { levelsMax: 3, all: true, links: true, noLinks: true },
  unsupportedQuery: "refused",
  pageSize: null,
  nics: "both",
  storage: { secureErase: true, volumes: true, reset: true, deletionTask: false },
  jobs: false,
  sensors: "subsystems",
  indicator: "LocationIndicatorActive",
  pcieDevicesOn: "system",
  logsOn: "both",
  secureBoot: true,
  omits: [],
  quirks: [],
  latency: "openbmc",
};

const IDRAC_LIKE: Traits = {
  ...REFERENCE,
  vendor: "Dell",
  product: "Integrated Dell Remote Access Controller",
  manufacturer: "Dell Inc.",
  model: "PowerEdge R750",
  redfishVersion: "1.13.1",
  ids: { system: "System.Embedded.1", manager: "iDRAC.Embedded.1", chassis: "System.Embedded.1" },
  login: { ...REFERENCE.login, sessionsMax: 8, timeoutSeconds: 1800, passwordLengthMin: 1, passwordLengthMax: 127 },
  messageRegistry: "Base.1.12",
  power: {
    ...REFERENCE.power,
    resetTypes: [
      "On",
      "ForceOff",
      "ForceRestart",
      "GracefulRestart",
      "GracefulShutdown",
      "PushPowerButton",
      "Nmi",
      "PowerCycle",
    ],
    transitions: false,
  },
  boot: {
    ...REFERENCE.boot,
    targets: ["None", "Pxe", "Floppy", "Cd", "Hdd", "BiosSetup", "Utilities", "UefiTarget", "SDCard", "UefiHttp"],
    next: "uefi-target",
    progress: false,
  },
  bios: { settings: "Settings", applyTimes: ["Immediate", "OnReset", "AtMaintenanceWindowStart"], task: true },
  etags: "none",
  media: {
    ...REFERENCE.media,
    onManager: [
      { id: "RemovableDisk", types: ["USBStick"] },
      { id: "CD", types: CD },
    ],
    onSystem: [
      { id: "1", types: ["CD", "DVD", "USBStick"] },
      { id: "2", types: ["CD", "DVD", "USBStick"] },
    ],
  },
  update: {
    simple: true,
    start: true,
    multipart: true,
    push: "/redfish/v1/UpdateService/FirmwareInventory",
    taskIn: "location-of-job",
    biosAtReset: true,
  },
  events: { stream: "/SSE", push: true },
  expand: { levelsMax: 1, all: true, links: true, noLinks: true },
  unsupportedQuery: "refused",
  pageSize: 50,
  nics: "both",
  storage: { ...REFERENCE.storage, deletionTask: true },
  jobs: true,
  sensors: "thermal-and-power",
  indicator: "IndicatorLED",
  logsOn: "manager",
  latency: "idrac-9",
};

const ILO_LIKE: Traits = {
  ...REFERENCE,
  vendor: "HPE",
  product: "ProLiant DL385 Gen10 Plus v2",
  manufacturer: "HPE",
  model: "ProLiant DL385 Gen10 Plus v2",
  redfishVersion: "1.6.0",
  ids: { system: "1", manager: "1", chassis: "1" },
  login: { ...REFERENCE.login, refusal: "extended-info", passwordLengthMax: 39, timeoutSeconds: 1800 },
  messageRegistry: "Base.1.4",
  power: {
    resetTypes: ["On", "ForceOff", "GracefulShutdown", "ForceRestart", "Nmi", "PushPowerButton", "GracefulRestart"],
    resetTypesListed: "allowable-values",
    transitions: false,
    illegalReset: 400,
    answer: 200,
  },
  boot: {
    ...REFERENCE.boot,
    targets: ["None", "Cd", "Hdd", "Usb", "SDCard", "Utilities", "Diags", "BiosSetup", "Pxe", "UefiHttp", "UefiTarget"],
    next: "uefi-target",
    progress: false,
  },
  bios: { settings: "Settings", applyTimes: [], task: false },
  links: { lowerCase: "bios", trailingSlash: "bios-settings", absolute: false },
  etags: "weak",
  media: {
    ...REFERENCE.media,
    onManager: [
      { id: "1", types: ["Floppy", "USBStick"] },
      { id: "2", types: CD },
    ],
  },
  update: {
    simple: true,
    start: false,
    multipart: false,
    push: "/cgi-bin/uploadFile",
    taskIn: "location-of-task",
    biosAtReset: true,
  },
  events: { stream: null, push: true },
  expand: { levelsMax: 1, all: false, links: false, noLinks: true },
  unsupportedQuery: "ignored",
  nics: "both",
  storage: { secureErase: true, volumes: true, reset: false, deletionTask: false },
  sensors: "thermal-and-power",
  indicator: "IndicatorLED",
  pcieDevicesOn: "chassis",
  latency: "ilo-5",
};

const SUPERMICRO_LIKE: Traits = {
  ...REFERENCE,
  vendor: null,
  product: "SYS-821GE-TNHR",
  manufacturer: "Supermicro",
  model: "SYS-821GE-TNHR",
  redfishVersion: "1.11.0",
  ids: { system: "1", manager: "1", chassis: "1" },
  login: { ...REFERENCE.login, timeoutSeconds: 300, passwordLengthMax: 20, passwordEndsSessions: true },
  messageRegistry: "Base.1.4",
  power: {
    resetTypes: [
      "On",
      "ForceOff",
      "GracefulShutdown",
      "GracefulRestart",
      "ForceRestart",
      "Nmi",
      "ForceOn",
      "PowerCycle",
    ],
    resetTypesListed: "action-info",
    transitions: false,
    illegalReset: "accepted",
    answer: 200,
  },
  boot: {
    ...REFERENCE.boot,
    targets: ["None", "Pxe", "Floppy", "Cd", "Usb", "Hdd", "BiosSetup", "UsbCd", "UefiBootNext", "UefiHttp"],
    next: "boot-next",
    progress: true,
  },
  bios: { settings: "SD", applyTimes: [], task: false },
  etags: "offered",
  media: {
    ...REFERENCE.media,
    onManager: [
      { id: "VirtualMedia1", types: CD },
      { id: "VirtualMedia2", types: ["USBStick"] },
    ],
    ejectListed: "inserted",
  },
  update: { simple: true, start: true, multipart: true, push: null, taskIn: "body", biosAtReset: true },
  events: { stream: null, push: true },
  expand: { levelsMax: 2, all: true, links: true, noLinks: true },
  unsupportedQuery: "ignored",
  nics: "both",
  sensors: "thermal-and-power",
  indicator: "IndicatorLED",
  logsOn: "system",
  omits: ["UpdateService.ServiceEnabled"],
  latency: "supermicro",
};

const XCC_LIKE: Traits = {
  ...REFERENCE,
  vendor: "Lenovo",
  product: "ThinkSystem SR670 V2",
  manufacturer: "Lenovo",
  model: "ThinkSystem SR670 V2",
  redfishVersion: "1.15.0",
  ids: { system: "1", manager: "1", chassis: "1" },
  login: { ...REFERENCE.login, timeoutSeconds: 900, passwordLengthMax: 32 },
  messageRegistry: "Base.1.12",
  power: { ...REFERENCE.power, resetTypesListed: "action-info", transitions: false, answer: 204 },
  boot: { ...REFERENCE.boot, next: "boot-next" },
  bios: { settings: "Pending", applyTimes: ["OnReset"], task: false },
  media: {
    onManager: [],
    onSystem: [
      { id: "EXT1", types: CD },
      { id: "EXT2", types: ["USBStick"] },
    ],
    by: "patch",
    ejectListed: "always",
  },
  update: {
    simple: true,
    start: false,
    multipart: true,
    push: "/fwupdate",
    taskIn: "location-of-task",
    biosAtReset: true,
  },
  events: { stream: "/EventService/SSE", push: true },
  expand: { levelsMax: 1, all: true, links: false, noLinks: false },
  nics: "network-adapters",
  jobs: true,
  pageSize: 3,
  logsOn: "system",
  latency: "xcc",
};

const OPENBMC_LIKE: Traits = {
  ...REFERENCE,
  vendor: "OpenBMC",
  product: "OpenBMC",
  manufacturer: "Lab Works",
  model: "Open-1",
  redfishVersion: "1.17.0",
  ids: { system: "system", manager: "bmc", chassis: "chassis" },
  login: { ...REFERENCE.login, refusal: "text", sessionsMax: 64, passwordLengthMax: 20, timeoutSeconds: 1800 },
  messageRegistry: "Base.1.13",
  power: { ...REFERENCE.power, resetTypesListed: "action-info", transitions: true },
  boot: { ...REFERENCE.boot, options: false, next: "none" },
  bios: { settings: "Settings", applyTimes: [], task: false },
  media: {
    onManager: [{ id: "Slot_0", types: ["CD", "USBStick"] }],
    onSystem: [],
    by: "action",
    ejectListed: "always",
  },
  update: {
    simple: true,
    start: false,
    multipart: true,
    push: "/redfish/v1/UpdateService/update",
    taskIn: "body",
    biosAtReset: false,
  },
  events: { stream: "/EventService/SSE", push: true },
  expand: null,
  unsupportedQuery: "ignored",
  nics: "ethernet-interfaces",
  storage: { secureErase: false, volumes: false, reset: false, deletionTask: false },
  pcieDevicesOn: "system",
  logsOn: "system",
  secureBoot: false,
  omits: ["ComputerSystem.SerialNumber", "Processor.MaxSpeedMHz", "Drive.SerialNumber"],
  latency: "openbmc",
};

/** The least that a client has to cope with: absolute links, trailing slashes, nothing listed, little offered. */
const MINIMAL: Traits = {
  ...REFERENCE,
  vendor: null,
  redfishVersion: "1.0.2",
  ids: { system: "437XR1138R2", manager: "BMC", chassis: "1U" },
  login: { ...REFERENCE.login, basic: false, sessionsMax: 4, refusal: "empty" },
  messageRegistry: "Base.1.0",
  power: {
    ...REFERENCE.power,
    resetTypesListed: "nowhere",
    transitions: false,
    resetTypes: ["On", "ForceOff", "ForceRestart"],
  },
  boot: { ...REFERENCE.boot, targetsListed: false, mode: false, options: false, next: "none", progress: false },
  bios: { settings: "Settings", applyTimes: [], task: false },
  links: { lowerCase: "always", trailingSlash: "always", absolute: true },
  etags: "none",
  update: { simple: true, start: false, multipart: false, push: null, taskIn: "location-of-task", biosAtReset: false },
  events: { stream: null, push: false },
  expand: null,
  unsupportedQuery: "ignored",
  pageSize: 2,
  nics: "ethernet-interfaces",
  storage: { secureErase: false, volumes: false, reset: false, deletionTask: false },
  sensors: "thermal-and-power",
  indicator: "IndicatorLED",
  pcieDevicesOn: "chassis",
  secureBoot: false,
  omits: [
    "ComputerSystem.MemorySummary",
    "ComputerSystem.ProcessorSummary",
    "ComputerSystem.UUID",
    "ComputerSystem.Links",
    "Manager.FirmwareVersion",
    "Memory.SerialNumber",
    "Drive.Protocol",
  ],
  latency: "openbmc",
};

/** Refuses what others tolerate, and offers few sessions. */
const STRICT: Traits = {
  ...REFERENCE,
  ids: { system: "1", manager: "1", chassis: "1" },
  login: { ...REFERENCE.login, basic: false, sessionsMax: 3, timeoutSeconds: 60, passwordEndsSessions: true },
  power: { ...REFERENCE.power, resetTypesListed: "action-info", illegalReset: 409 },
  bios: { settings: "Settings", applyTimes: ["OnReset"], task: true },
  etags: "required",
};

export const PRESETS = {
  reference: REFERENCE,
  "idrac-like": IDRAC_LIKE,
  "ilo-like": ILO_LIKE,
  "supermicro-like": SUPERMICRO_LIKE,
  "xcc-like": XCC_LIKE,
  "openbmc-like": OPENBMC_LIKE,
  minimal: MINIMAL,
  strict: STRICT,
} as const satisfies Record<string, Traits>;

export type PresetName = keyof typeof PRESETS;

export const PRESET_NAMES = Object.keys(PRESETS).filter((name): name is PresetName => name in PRESETS);

/** Traits of a preset by name, or the given ones with the rest of `reference`. */
export function traitsOf(given: string | Partial<Traits>): Traits {
  if (typeof given !== "string") return { ...REFERENCE, ...given };
  const name = PRESET_NAMES.find((one) => one === given);
  if (name === undefined) throw new Error(`Unknown preset "${given}": use one of ${PRESET_NAMES.join(", ")}.`);
  return PRESETS[name];
}
