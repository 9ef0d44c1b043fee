/**
 * Behaviours beside the specification that operators have reported of real BMCs, each with a name for the trait
 * `quirks`. A quirk answers in place of the BMC, or changes what a resource shows.
 */
import type { Bmc } from "./bmc.ts";
import { resetSystem } from "./power.ts";
import { ROOT, action, collection, isBody, link, messageBody, objectAt, refuse, resource, textAt } from "./resource.ts";
import type { Answer, Body } from "./resource.ts";
import type { QuirkName } from "./traits.ts";

export interface QuirkRequest {
  readonly bmc: Bmc;
  readonly method: string;
  /** Without the prefix /redfish/v1, as requested. */
  readonly path: string;
  /** Path and query, with a trailing slash if it has one. */
  readonly url: string;
  readonly body: Body;
  readonly ifMatch: string | undefined;
}

interface Quirk {
  /** Answers in place of the BMC; a path serves another resource under this one. */
  readonly before?: (request: QuirkRequest) => Answer | { readonly path: string } | undefined;
  /** Changes what a GET shows. */
  readonly after?: (request: QuirkRequest, shown: Body) => Body;
}

const isSystem = ({ path, bmc }: QuirkRequest) => path === `/Systems/${bmc.traits.ids.system}`;
const settingsOf = ({ bmc }: QuirkRequest) => `/Systems/${bmc.traits.ids.system}/SD`;
const TARGET = "BootSourceOverrideTarget";
const changesBoot = (request: QuirkRequest) =>
  request.method === "PATCH" && isSystem(request) && "Boot" in request.body;
const NIC = /\/EthernetInterfaces\//;
const INFINIBAND = "00:00:11:e7:fe:80:00:00:00:00:00:00:02:00:00:03:00:18:00:01";
const MEDIUM = /\/VirtualMedia\/[^/]+$/;
const MODE = "BootSourceOverrideMode";
const resets = ({ method, path }: QuirkRequest) => method === "POST" && path.endsWith("/ComputerSystem.Reset");
const inserts = ({ method, path }: QuirkRequest) => method === "POST" && path.endsWith("/VirtualMedia.InsertMedia");

/** How often a quirk has acted on this BMC before. */
function countOf({ bmc: { state } }: QuirkRequest, quirk: string): number {
  const count = state.quirkCounts[quirk] ?? 0;
  state.quirkCounts[quirk] = count + 1;
  return count;
}

export const QUIRKS: Readonly<Record<QuirkName, Quirk>> = {
  /** InsertMedia is refused without TransferProtocolType, then without MediaType; the message names it. */
  "media-needs-parameters": {
    before: (request) => {
      const lacking = ["TransferProtocolType", "MediaType"].find((name) => !(name in request.body));
      if (!inserts(request) || lacking === undefined) return undefined;
      return refuse(400, "ActionParameterMissing", `The action requires the parameter ${lacking}.`, lacking);
    },
  },
  /** InsertMedia is refused with any parameter but Image; the message names none. */
  "media-takes-image-only": {
    before: (request) =>
      inserts(request) && Object.keys(request.body).length > 1
        ? refuse(400, "GeneralError", "The request is invalid.")
        : undefined,
  },
  /** InsertMedia is refused without TransferProtocolType, in a text that is not JSON. */
  "media-refused-in-text": {
    before: (request) =>
      inserts(request) && !("TransferProtocolType" in request.body)
        ? { status: 400, body: "missing mandatory field: TransferProtocolType" }
        : undefined,
  },
  /** InsertMedia is listed and refused; a change of the drive inserts a medium. */
  "media-by-patch-only": {
    before: (request) =>
      inserts(request) ? refuse(400, "ActionNotSupported", "The action is not supported by the resource.") : undefined,
    after: ({ path }, shown) =>
      MEDIUM.test(path)
        ? { ...shown, Actions: { "#VirtualMedia.InsertMedia": action(path, "VirtualMedia.InsertMedia") } }
        : shown,
  },
  /** A drive for stored images is listed first; it has InsertMedia, and refuses it. */
  "media-first-refuses": {
    before: (request) => {
      const { method, path } = request;
      if (!/\/VirtualMedia\/Stored\b/.test(path)) return undefined;
      if (method === "GET") return { status: 200, body: cdDrive(path) };
      return refuse(400, "ActionNotSupported", "The drive takes stored images only.");
    },
    after: listedFirst(/\/VirtualMedia$/, "Stored"),
  },
  /** InsertMedia is accepted, and the drive names the image without Inserted. */
  "media-never-inserted": {
    after: changing(MEDIUM, (one) => ({ ...one, Inserted: false })),
  },
  /** An ejected drive still names the image. */
  "media-image-stays": {
    after: changing(MEDIUM, (one) => (one["Inserted"] === true ? one : { ...one, Image: "http://10.0.0.1/a.iso" })),
  },
  /** The first two changes of the boot source are refused, as the machine is in its self-test. */
  "refused-during-post": {
    before: (request) =>
      changesBoot(request) && countOf(request, "refused") < 2
        ? refuse(400, "UnableToModifyDuringSystemPOST", "Unable to modify while the system is in POST.")
        : undefined,
  },
  /** The first two changes of the boot source, and the first two resets, are answered with 425 and nothing else. */
  "too-early": {
    before: (request) =>
      (changesBoot(request) && countOf(request, "boot") < 2) || (resets(request) && countOf(request, "reset") < 2)
        ? { status: 425 }
        : undefined,
  },
  /** A change of the boot source without a mode is refused; an argument of the message names it. */
  "mode-required": {
    before: (request) =>
      changesBoot(request) && !(MODE in objectAt(request.body, "Boot"))
        ? refuse(400, "PropertyMissing", "A required property is missing.", MODE)
        : undefined,
  },
  /** The boot source is changed at the settings of the system; the refusal names their path. */
  "boot-at-settings": {
    before: (request) => {
      const settings = settingsOf(request);
      if (request.path === settings) return { path: settings.slice(0, -"/SD".length) };
      const text = `The property Boot is read only here and must be set at ${ROOT}${settings}.`;
      return changesBoot(request) ? refuse(400, "PropertyNotWritable", text, "Boot") : undefined;
    },
  },
  /** Only If-Match: * is accepted. */
  "refuses-own-etags": {
    before: ({ method, ifMatch }) =>
      method === "PATCH" && ifMatch !== "*" ? refuse(412, "PreconditionFailed", "The ETag does not match.") : undefined,
  },
  /** Weak ETags are shown, and accepted without their W/ only. */
  "strong-etags-only": {
    before: ({ method, ifMatch }) =>
      method === "PATCH" && !(ifMatch?.startsWith('"') ?? false)
        ? refuse(412, "PreconditionFailed", "The ETag does not match.")
        : undefined,
  },
  /** Changes and resets need If-Match: *; the refusal is a 400 whose message says so. */
  "conditions-required": {
    before: (request) =>
      (request.method === "PATCH" || resets(request)) && request.ifMatch !== "*"
        ? refuse(400, "PreconditionRequired", "A precondition header is required to change this resource.")
        : undefined,
  },
  /** A boot source that is set already is refused. */
  "refuses-same-values": {
    before: (request) => {
      const { boot } = request.bmc.state;
      const wanted = objectAt(request.body, "Boot");
      const isSame =
        wanted["BootSourceOverrideTarget"] === boot.target && wanted["BootSourceOverrideEnabled"] === boot.enabled;
      return changesBoot(request) && isSame
        ? refuse(400, "PropertyValueConflict", "The value is the present one.")
        : undefined;
    },
  },
  /** A change of the boot source that names no mode sets it to Legacy. */
  "mode-resets": {
    before: (request) => {
      if (changesBoot(request) && !(MODE in objectAt(request.body, "Boot"))) request.bmc.state.boot.mode = "Legacy";
      return undefined;
    },
  },
  /** The first change of the boot source is accepted, and not made. */
  "first-boot-change-lost": {
    before: (request) => (changesBoot(request) && countOf(request, "lost") === 0 ? { status: 204 } : undefined),
  },
  /** A change of the BIOS settings that does not name LogicalProc disables it. */
  "bios-side-effect": {
    before: ({ bmc, method, path, body }) => {
      const isSideEffect =
        method === "PATCH" && path.includes("/Bios") && !("LogicalProc" in objectAt(body, "Attributes"));
      if (isSideEffect) bmc.state.bios = { ...bmc.state.bios, LogicalProc: "Disabled" };
      return undefined;
    },
  },
  /** An update, or the removal of a volume by a task, waits for the next start of the system. */
  "tasks-wait-for-reset": {},
  /** The first two reads of a system are refused; the message says that the BMC is not ready. */
  "not-ready": {
    before: (request) =>
      isSystem(request) && countOf(request, "not-ready") < 2
        ? refuse(400, "SWC0700", "The BMC is not ready. Please retry after a few minutes.")
        : undefined,
  },
  /** Resets are made, and a gateway answers 502. */
  "reset-behind-gateway": {
    before: (request) => {
      if (!resets(request)) return undefined;
      resetSystem(request.bmc, textAt(request.body, "ResetType") ?? "");
      return { status: 502, body: "<html><title>502 Bad Gateway</title></html>" };
    },
  },
  /** The reset type On is listed and refused; ForceOn is accepted. */
  "reset-type-refused": {
    before: (request) =>
      resets(request) && request.body["ResetType"] === "On"
        ? refuse(400, "ActionParameterValueNotInList", "The value On for ResetType is not supported.", "On")
        : undefined,
  },
  /** The first reset is accepted, and not made. */
  "first-reset-lost": {
    before: (request) => (resets(request) && countOf(request, "reset-lost") === 0 ? { status: 204 } : undefined),
  },
  /** A POST is redirected to the same path with a slash at its end. */
  "post-moves": {
    before: ({ method, url }) =>
      method === "POST" && !url.endsWith("/") ? { status: 308, headers: { Location: `${url}/` } } : undefined,
  },
  /** With the boot source Cd the system starts from its disk; it starts a medium from UsbCd. */
  "starts-usb-cd-only": {},
  /** The system starts by HTTP from HttpBootUri only. */
  "http-boot-uri": {},
  /** The boot source is changed at the settings of the system, which do not accept UefiHttp. */
  "settings-without-http": {
    before: (request) => {
      if (request.path !== settingsOf(request)) return undefined;
      const isHttp = objectAt(request.body, "Boot")["BootSourceOverrideTarget"] === "UefiHttp";
      if (isHttp) return refuse(400, "PropertyValueNotInList", "UefiHttp is not supported.", "UefiHttp");
      return { path: `/Systems/${request.bmc.traits.ids.system}` };
    },
    after: (request, shown) => {
      if (isSystem(request))
        return { ...shown, "@Redfish.Settings": { SettingsObject: { "@odata.id": ROOT + settingsOf(request) } } };
      if (request.path !== settingsOf(request)) return shown;
      const targets = request.bmc.traits.boot.targets.filter((target) => target !== "UefiHttp");
      return { ...shown, Boot: { ...objectAt(shown, "Boot"), [`${TARGET}@Redfish.AllowableValues`]: targets } };
    },
  },
  /** The first system is a board of GPUs: it has a reset, and neither boot sources nor a BIOS. */
  "gpu-board": {
    before: ({ path }) =>
      path === GPU_BOARD
        ? { status: 200, body: { "@odata.id": ROOT + GPU_BOARD, Id: "HGX", Name: "GPUs", PowerState: "On", Boot: {} } }
        : undefined,
    after: (request, shown) => withSystem(request, shown, GPU_BOARD),
  },
  /** A second system, Node.2, can be started too. */
  "two-systems": {
    before: ({ bmc, path }) =>
      path.startsWith(NODE_2) ? { path: path.replace(NODE_2, `/Systems/${bmc.traits.ids.system}`) } : undefined,
    after: (request, shown) =>
      request.path === NODE_2
        ? { ...shown, "@odata.id": ROOT + NODE_2, Id: "Node.2", SerialNumber: "NODE-2", UUID: null }
        : withSystem(request, shown, NODE_2),
  },
  /** The system names no manager; the first of the list manages another system, with a drive of its own. */
  "other-manager-first": {
    before: ({ bmc, method, path }) => {
      if (!path.startsWith("/Managers/Other")) return undefined;
      if (method === "POST") bmc.state.media = { ...bmc.state.media, [path]: { image: "", writeProtected: true } };
      if (method === "POST") return { status: 204 };
      if (path.endsWith("/VirtualMedia")) return { status: 200, body: collection("VirtualMedia", path, ["Cd"]) };
      const media = {
        VirtualMedia: link(`${path}/VirtualMedia`),
        Links: { ManagerForServers: [link("/Systems/Other")] },
      };
      return { status: 200, body: path.endsWith("/Cd") ? cdDrive(path) : resource("Manager.v1_15_0", path, media) };
    },
    after: (request, shown) =>
      isSystem(request)
        ? { ...shown, Links: { ...objectAt(shown, "Links"), ManagedBy: [] } }
        : listedFirst(/^\/Managers$/, "Other")(request, shown),
  },
  /** The serial number is To be filled by O.E.M., the UUID has only zeros, the asset tag is N/A. */
  fillers: {
    after: (request, shown) => (isSystem(request) ? { ...shown, ...FILLERS } : shown),
  },
  /** One drive answers 500. */
  "drive-fails": {
    before: ({ method, path }) =>
      method === "GET" && /\/Drives\/[^/]*\.1$/.test(path)
        ? refuse(500, "InternalError", "Internal error.")
        : undefined,
  },
  /** One drive answers 200 with an error. */
  "drive-is-error": {
    before: ({ bmc: { traits }, method, path }) =>
      method === "GET" && /\/Drives\/[^/]*\.1$/.test(path)
        ? { status: 200, body: messageBody(traits, { messageId: "InternalError", message: "Internal error." }) }
        : undefined,
  },
  /** $expand returns the first member only, and counts all. */
  "expand-is-short": { after: expanded((members) => members.slice(0, 1)) },
  /** The members that $expand returns have a status and no other value. */
  "expand-is-status": {
    after: expanded((members) => members.map((one) => ({ ...emptied(one), Status: one["Status"] }))),
  },
  /** Each page links to itself as the next one, by another address. */
  "page-again": {
    after: (request, shown) =>
      Array.isArray(shown["Members"])
        ? { ...shown, "Members@odata.nextLink": `${ROOT}${request.path}?again=${countOf(request, "again")}` }
        : shown,
  },
  /** The members that $expand returns have null in place of every value. */
  "expand-is-empty": { after: expanded((members) => members.map(emptied)) },
  /** The collection of memory modules has empty pages without end, each with a link to a new one. */
  "pages-without-end": {
    after: (request, shown) => {
      if (!request.path.endsWith("/Memory")) return shown;
      const next = `${ROOT}${request.path}?$skip=${countOf(request, "pages") + 1}`;
      return { ...shown, Members: [], "Members@odata.nextLink": next };
    },
  },
  /** The first memory module has null in place of every value. */
  "memory-is-empty": { after: changing(/\/Memory\/[^/]*\.1$/, emptied) },
  /** The system reports 0 GiB of memory. */
  "memory-sum-is-zero": {
    after: (request, shown) =>
      isSystem(request)
        ? { ...shown, MemorySummary: { TotalSystemMemoryGiB: 0, Status: { State: "Disabled" } } }
        : shown,
  },
  /** The Ethernet interfaces have no MAC addresses. */
  "macs-missing": { after: changing(NIC, (one) => ({ ...one, MACAddress: "", PermanentMACAddress: "" })) },
  /** The MAC addresses are one without colons, one of zeros, and one of InfiniBand. */
  "macs-of-all-kinds": {
    after: changing(NIC, (one) => {
      const number = Number(String(one["@odata.id"]).at(-1));
      const mac = [String(one["MACAddress"]).replaceAll(":", ""), "00:00:00:00:00:00"][number - 1] ?? INFINIBAND;
      return { ...one, MACAddress: mac, PermanentMACAddress: null };
    }),
  },
  /** Sizes, counts and speeds are texts, and IDs of power supplies are numbers. */
  "numbers-as-texts": {
    after: (_request, shown) => JSON.parse(JSON.stringify(shown), asOtherType) as Body,
  },
  /** The first storage controller has null in place of every value. */
  "controller-is-empty": { after: changing(/\/Storage\/RAID\.1$/, emptied) },
  /** The first storage controller has null in place of its drives. */
  "drives-are-null": { after: changing(/\/Storage\/RAID\.1$/, (one) => ({ ...one, Drives: null })) },
  /** All drives have the serial number None, no WWN, and one ID. */
  "drives-without-serial": {
    after: changing(/\/Drives\//, (one) => ({ ...one, Id: "0", SerialNumber: "None", Identifiers: [] })),
  },
  /** One drive reports a capacity of 0, as a broken one does. */
  "drive-without-size": { after: changing(/\/Drives\/[^/]*\.1$/, (one) => ({ ...one, CapacityBytes: 0 })) },
  /** Names, models and serial numbers have terminal sequences, and marks that are not visible. */
  "texts-with-escapes": {
    after: (_request, shown) => {
      const marked = ["Name", "Model", "SerialNumber", "Manufacturer", "HostName"].flatMap((name) => {
        const text = textAt(shown, name);
        return text ? [[name, `\u001B[31m${text}\u202E\u200B`] as const] : [];
      });
      return { ...shown, ...Object.fromEntries(marked) };
    },
  },
  /** The first system, HGX_Baseboard_0, is a board of GPUs that answers 503. */
  "gpu-board-fails": {
    before: ({ path }) =>
      path.startsWith(FAILING_BOARD)
        ? refuse(503, "ServiceTemporarilyUnavailable", "The board is not ready.")
        : undefined,
    after: (request, shown) => withSystem(request, shown, FAILING_BOARD),
  },
  /** Cd is the drive in the machine; a change of settings of the manager starts the virtual one. */
  "virtual-cd-by-attributes": {
    before: (request) => attributesAnswer(request) ?? importAnswer(request, false),
    after: showsImport,
  },
  /** The same, by an import of the configuration; the settings of the manager cannot be changed. */
  "virtual-cd-by-import": {
    before: (request) =>
      request.method === "PATCH" && isAttributes(request)
        ? refuse(400, "PropertyNotWritable", "The attribute cannot be changed.")
        : (attributesAnswer(request) ?? importAnswer(request, true)),
    after: showsImport,
  },
  /** Tasks that have completed stay Running at 100 %. */
  "tasks-stay-running": {},
  /** Tasks have null in place of a state. */
  "tasks-without-state": {},
  /** Tasks end as Completed Successfully and Completed with Errors. */
  "task-states-in-words": {},
  /** Tasks that have ended answer 404. */
  "tasks-vanish": {},
  /** A change of the boot source is answered with 500 while the system is off. */
  "boot-fails-while-off": {
    before: (request) => (changesBoot(request) && request.bmc.state.power !== "On" ? INTERNAL_ERROR : undefined),
  },
  /** The first two changes of the boot source are answered with 500. */
  "boot-fails-twice": {
    before: (request) => (changesBoot(request) && countOf(request, "fails") < 2 ? INTERNAL_ERROR : undefined),
  },
  /** A change of the boot source is made, and answered with 200 and an internal error. */
  "boot-fails-and-holds": {
    before: (request) => {
      if (!changesBoot(request)) return undefined;
      const [target, enabled] = [TARGET, "BootSourceOverrideEnabled"].map((name) =>
        textAt(objectAt(request.body, "Boot"), name),
      );
      const { boot } = request.bmc.state;
      boot.target = target ?? boot.target;
      if (enabled === "Once" || enabled === "Continuous") boot.enabled = enabled;
      return { status: 200, body: CRITICAL_ERROR };
    },
  },
  /** A boot source for one start becomes one for every start. */
  "once-is-kept": {
    after: (request, shown) => {
      const boot = objectAt(shown, "Boot");
      const isOnce = isSystem(request) && boot["BootSourceOverrideEnabled"] === "Once";
      return isOnce ? { ...shown, Boot: { ...boot, BootSourceOverrideEnabled: "Continuous" } } : shown;
    },
  },
  /** A drive shows an image and Inserted without end; ConnectedVia says whether a medium is inserted. */
  "media-stays-shown": {
    after: changing(MEDIUM, (one) =>
      one["Inserted"] === true ? one : { ...one, Inserted: true, Image: "http://10.0.0.1/old.iso" },
    ),
  },
  /** A request that becomes a task is answered with 303 and the path of the task. */
  "answers-elsewhere": {},
  /** Numbers and truth values of BIOS attributes are texts. */
  "bios-as-texts": {
    after: ({ path }, shown) => {
      if (!path.includes("/Bios")) return shown;
      const spelt = Object.entries(objectAt(shown, "Attributes")).map(([name, value]) => {
        const isText = typeof value === "number" || typeof value === "boolean";
        return [name, isText ? String(value) : value] as const;
      });
      return { ...shown, Attributes: Object.fromEntries(spelt) };
    },
  },
  /** The time at which BIOS settings apply is offered, and refused. */
  "bios-without-apply-time": {
    before: ({ method, path, body }) =>
      method === "PATCH" && path.includes("/Bios") && "@Redfish.SettingsApplyTime" in body
        ? refuse(400, "PropertyUnknown", "The property is not known.")
        : undefined,
  },
  /** Changes of BIOS settings are refused until the first start, as another one waits for it. */
  "bios-job-waits": {
    before: ({ bmc, method, path }) =>
      method === "PATCH" && path.includes("/Bios") && bmc.state.bootedFrom === null
        ? refuse(
            400,
            "SYS011",
            "Pending configuration values are already committed, unable to perform another set operation.",
          )
        : undefined,
  },
  /** The first two reads of the system show nothing but its name. */
  "system-is-empty": {
    after: (request, shown) =>
      isSystem(request) && countOf(request, "empty") < 2 ? { "@odata.id": shown["@odata.id"], Id: shown["Id"] } : shown,
  },
  /** InsertMedia is refused without TransferProtocolType; the error has one message in place of a list. */
  "message-is-no-list": {
    before: (request) =>
      inserts(request) && !("TransferProtocolType" in request.body)
        ? {
            status: 400,
            body: {
              error: {
                "@Message.ExtendedInfo": {
                  MessageId: "Base.1.0.ActionParameterMissing",
                  Message: "It is missing.",
                  MessageArgs: ["TransferProtocolType"],
                },
              },
            },
          }
        : undefined,
  },
};

const FAILING_BOARD = "/Systems/HGX_Baseboard_0";
const INTERNAL_ERROR = refuse(500, "InternalError", "The request failed due to an internal service error.");
const CRITICAL_ERROR = {
  error: {
    code: "Base.1.4.InternalError",
    message: "Internal error.",
    "@Message.ExtendedInfo": [
      { MessageId: "Base.1.4.InternalError", Message: "Internal error.", Severity: "Critical" },
    ],
  },
};

const managerOf = ({ bmc }: QuirkRequest) => `/Managers/${bmc.traits.ids.manager}`;
const isAttributes = (request: QuirkRequest) => request.path === `${managerOf(request)}/Attributes`;
const IMPORT = "ImportSystemConfiguration";
const [BOOT_ONCE, FIRST_DEVICE] = ["ServerBoot.1.BootOnce", "ServerBoot.1.FirstBootDevice"];

/** Settings of the manager, which decide the next start. */
function attributesAnswer(request: QuirkRequest): Answer | undefined {
  if (!isAttributes(request)) return undefined;
  const { [BOOT_ONCE]: once, [FIRST_DEVICE]: device } = objectAt(request.body, "Attributes");
  if (request.method === "PATCH") request.bmc.state.virtualCd = once === "Enabled" && device === "VCD-DVD";
  const [shownOnce, shown] = request.bmc.state.virtualCd ? ["Enabled", "VCD-DVD"] : ["Disabled", "Normal"];
  const Attributes = { [BOOT_ONCE]: shownOnce, [FIRST_DEVICE]: shown };
  return { status: 200, body: resource("DellAttributes.v1_0_0", request.path, { Id: "Attributes", Attributes }) };
}

/** The import of a configuration, as a task. */
function importAnswer({ bmc, method, path, body }: QuirkRequest, isTaken: boolean): Answer | undefined {
  if (method !== "POST" || !path.endsWith(IMPORT)) return undefined;
  const text = textAt(body, "ImportBuffer") ?? "";
  if (!isTaken || !text.includes(">VCD-DVD<")) return refuse(400, "ActionNotSupported", "The import is not supported.");
  const finish = () => {
    bmc.state.virtualCd = true;
    return null;
  };
  return {
    status: 202,
    headers: { Location: `${ROOT}/TaskService/Tasks/${bmc.tasks.start({ name: "Import", finish }).id}` },
  };
}

function showsImport(request: QuirkRequest, shown: Body): Body {
  if (request.path !== managerOf(request)) return shown;
  const Oem = { [`OemManager.v1_0_0#OemManager.${IMPORT}`]: action(request.path, `Oem/EID_674_Manager.${IMPORT}`) };
  return { ...shown, Actions: { ...objectAt(shown, "Actions"), Oem } };
}

const GPU_BOARD = "/Systems/HGX";
const NODE_2 = "/Systems/Node.2";

function withSystem(request: QuirkRequest, shown: Body, system: string): Body {
  return listedFirst(/^\/Systems$/, system.slice("/Systems/".length))(request, shown);
}

/** Lists a further member before those of a collection. */
function listedFirst(where: RegExp, id: string): NonNullable<Quirk["after"]> {
  return ({ path }, shown) =>
    where.test(path) && Array.isArray(shown["Members"])
      ? { ...shown, Members: [link(`${path}/${id}`), ...(shown["Members"] as readonly Body[])] }
      : shown;
}

function asOtherType(name: string, value: unknown): unknown {
  if (name === "MemberId") return Number(value);
  return typeof value === "number" && /(Bytes|MiB|GiB|Watts|Cores|Threads|M[Hh]z)$/.test(name) ? String(value) : value;
}

function cdDrive(path: string): Body {
  const Actions = { "#VirtualMedia.InsertMedia": action(path, "VirtualMedia.InsertMedia") };
  return resource("VirtualMedia.v1_4_0", path, { Id: path, MediaTypes: ["CD"], Image: null, Inserted: false, Actions });
}

const FILLERS = {
  SerialNumber: "To be filled by O.E.M.",
  UUID: "00000000-0000-0000-0000-000000000000",
  AssetTag: "N/A",
};

/** Changes resources, also where they are members of a collection. */
function changing(where: RegExp, change: (resource: Body) => Body): NonNullable<Quirk["after"]> {
  const changed = (one: Body) =>
    where.test(String(one["@odata.id"])) && Object.keys(one).length > 1 ? change(one) : one;
  return (_request, shown) => {
    const members = shown["Members"];
    return Array.isArray(members) ? { ...shown, Members: members.filter(isBody).map(changed) } : changed(shown);
  };
}

/** Changes the members that $expand returns. */
function expanded(change: (members: readonly Body[]) => readonly Body[]): NonNullable<Quirk["after"]> {
  return ({ url }, shown) => {
    const members = shown["Members"];
    return url.includes("$expand") && Array.isArray(members)
      ? { ...shown, Members: change(members.filter(isBody)) }
      : shown;
  };
}

function emptied(body: Body): Body {
  const keeps = (name: string) => name.startsWith("@odata.") || name === "Id" || name === "Name";
  return Object.fromEntries(Object.entries(body).map(([name, value]) => [name, keeps(name) ? value : null]));
}

/** The answer of the first quirk that has one; else the path to serve. */
export function quirkAnswer(request: QuirkRequest): Answer | { readonly path: string } {
  for (const name of request.bmc.traits.quirks) {
    const answer = QUIRKS[name].before?.(request);
    if (answer !== undefined) return answer;
  }
  return { path: request.path };
}

export function shownByQuirks(request: QuirkRequest, shown: Body): Body {
  return request.bmc.traits.quirks.reduce((body, name) => QUIRKS[name].after?.(request, body) ?? body, shown);
}
