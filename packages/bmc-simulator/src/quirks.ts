/**
 * Behaviours beside the specification that operators have reported of real BMCs, each with a name for the trait
 * `quirks`. A quirk answers in place of the BMC, or changes what a resource shows.
 */
import type { Bmc } from "./bmc.ts";
import { ROOT, isBody, objectAt, refuse } from "./resource.ts";
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
  /** How the BMC behaves, for the table of the README. */
  readonly about: string;
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
const inserts = ({ method, path }: QuirkRequest) => method === "POST" && path.endsWith("/VirtualMedia.InsertMedia");

/** How often a quirk has acted on this BMC before. */
function countOf({ bmc: { state } }: QuirkRequest, quirk: string): number {
  const count = state.quirkCounts[quirk] ?? 0;
  state.quirkCounts[quirk] = count + 1;
  return count;
}

export const QUIRKS: Readonly<Record<QuirkName, Quirk>> = {
  "media-needs-parameters": {
    about: "InsertMedia is refused without TransferProtocolType, then without MediaType; the message names it",
    before: (request) => {
      const lacking = ["TransferProtocolType", "MediaType"].find((name) => !(name in request.body));
      if (!inserts(request) || lacking === undefined) return undefined;
      return refuse(400, "ActionParameterMissing", `The action requires the parameter ${lacking}.`, lacking);
    },
  },
  "media-takes-image-only": {
    about: "InsertMedia is refused with any parameter but Image; the message names none",
    before: (request) =>
      inserts(request) && Object.keys(request.body).length > 1
        ? refuse(400, "GeneralError", "The request is invalid.")
        : undefined,
  },
  "refused-during-post": {
    about: "the first two changes of the boot source are refused, as the machine is in its self-test",
    before: (request) =>
      changesBoot(request) && countOf(request, "refused") < 2
        ? refuse(400, "UnableToModifyDuringSystemPOST", "Unable to modify while the system is in POST.")
        : undefined,
  },
  "boot-at-settings": {
    about: "the boot source is changed at the settings of the system; the refusal names their path",
    before: (request) => {
      const settings = settingsOf(request);
      if (request.path === settings) return { path: settings.slice(0, -"/SD".length) };
      const text = `The property Boot is read only here and must be set at ${ROOT}${settings}.`;
      return changesBoot(request) ? refuse(400, "PropertyNotWritable", text, "Boot") : undefined;
    },
  },
  "refuses-own-etags": {
    about: "only If-Match: * is accepted",
    before: ({ method, ifMatch }) =>
      method === "PATCH" && ifMatch !== "*" ? refuse(412, "PreconditionFailed", "The ETag does not match.") : undefined,
  },
  "strong-etags-only": {
    about: "weak ETags are shown, and accepted without their W/ only",
    before: ({ method, ifMatch }) =>
      method === "PATCH" && !(ifMatch?.startsWith('"') ?? false)
        ? refuse(412, "PreconditionFailed", "The ETag does not match.")
        : undefined,
  },
  "refuses-same-values": {
    about: "a boot source that is set already is refused",
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
  "mode-resets": {
    about: "a change of the boot source that names no mode sets it to Legacy",
    before: (request) => {
      if (changesBoot(request) && !("BootSourceOverrideMode" in objectAt(request.body, "Boot")))
        request.bmc.state.boot.mode = "Legacy";
      return undefined;
    },
  },
  "first-boot-change-lost": {
    about: "the first change of the boot source is accepted, and not made",
    before: (request) => (changesBoot(request) && countOf(request, "lost") === 0 ? { status: 204 } : undefined),
  },
  "bios-side-effect": {
    about: "a change of the BIOS settings that does not name LogicalProc disables it",
    before: ({ bmc, method, path, body }) => {
      const isSideEffect =
        method === "PATCH" && path.includes("/Bios") && !("LogicalProc" in objectAt(body, "Attributes"));
      if (isSideEffect) bmc.state.bios = { ...bmc.state.bios, LogicalProc: "Disabled" };
      return undefined;
    },
  },
  "post-moves": {
    about: "a POST is redirected to the same path with a slash at its end",
    before: ({ method, url }) =>
      method === "POST" && !url.endsWith("/") ? { status: 308, headers: { Location: `${url}/` } } : undefined,
  },
  "starts-usb-cd-only": {
    about: "with the boot source Cd the system starts from its disk; it starts a medium from UsbCd",
  },
  "http-boot-uri": { about: "the system starts by HTTP from HttpBootUri only" },
  "settings-without-http": {
    about: "the boot source is changed at the settings of the system, which do not accept UefiHttp",
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
  "gpu-board": {
    about: "the first system is a board of GPUs: it has a reset, and neither boot sources nor a BIOS",
    before: ({ path }) =>
      path === GPU_BOARD
        ? { status: 200, body: { "@odata.id": ROOT + GPU_BOARD, Id: "HGX", Name: "GPUs", PowerState: "On", Boot: {} } }
        : undefined,
    after: (request, shown) => withSystem(request, shown, GPU_BOARD),
  },
  "two-systems": {
    about: "a second system, Node.2, can be started too",
    before: ({ bmc, path }) =>
      path.startsWith(NODE_2) ? { path: path.replace(NODE_2, `/Systems/${bmc.traits.ids.system}`) } : undefined,
    after: (request, shown) =>
      request.path === NODE_2
        ? { ...shown, "@odata.id": ROOT + NODE_2, Id: "Node.2", SerialNumber: "NODE-2", UUID: null }
        : withSystem(request, shown, NODE_2),
  },
  "drive-fails": {
    about: "one drive answers 500",
    before: ({ method, path }) =>
      method === "GET" && /\/Drives\/[^/]*\.1$/.test(path)
        ? refuse(500, "InternalError", "Internal error.")
        : undefined,
  },
  "expand-is-empty": {
    about: "the members that $expand returns have null in place of every value",
    after: ({ url }, shown) =>
      url.includes("$expand") && Array.isArray(shown["Members"])
        ? { ...shown, Members: shown["Members"].map((one: unknown) => (isBody(one) ? emptied(one) : one)) }
        : shown,
  },
  "pages-without-end": {
    about: "the collection of memory modules has empty pages without end, each with a link to a new one",
    after: (request, shown) => {
      if (!request.path.endsWith("/Memory")) return shown;
      const next = `${ROOT}${request.path}?$skip=${countOf(request, "pages") + 1}`;
      return { ...shown, Members: [], "Members@odata.nextLink": next };
    },
  },
  "memory-is-empty": {
    about: "the first memory module has null in place of every value",
    after: ({ path }, shown) => {
      const isFirst = (one: Body) => /\/Memory\/[^/]*\.1$/.test(String(one["@odata.id"]));
      const members = shown["Members"];
      if (Array.isArray(members))
        return { ...shown, Members: members.map((one: unknown) => (isBody(one) && isFirst(one) ? emptied(one) : one)) };
      return path.includes("/Memory/") && isFirst(shown) ? emptied(shown) : shown;
    },
  },
};

const GPU_BOARD = "/Systems/HGX";
const NODE_2 = "/Systems/Node.2";

function withSystem({ path }: QuirkRequest, shown: Body, system: string): Body {
  if (path !== "/Systems" || !Array.isArray(shown["Members"])) return shown;
  return { ...shown, Members: [{ "@odata.id": ROOT + system }, ...(shown["Members"] as readonly Body[])] };
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
