/**
 * UpdateService. An image is a text whose first line is `{"component":"BIOS","version":"2.0.0"}`; everything after it
 * is ignored. Any other file fails the task, as a wrong image does on a real BMC.
 */
import type { Bmc } from "../bmc.ts";
import { record } from "../journal.ts";
import { releaseTasks, restartBmc } from "../power.ts";
import { ENABLED, ROOT, action, collection, done, isBody, link, refuse, resource, textAt } from "../resource.ts";
import type { Answer, Body, Call, Route } from "../resource.ts";
import type { TaskFailure } from "../tasks.ts";
import { taskAnswer } from "./tasks.ts";

const U = "/UpdateService";
const INVENTORY = `${U}/FirmwareInventory`;
const MULTIPART = `${U}/upload`;

const DOWNLOAD_TIMEOUT_MS = 30_000;
const IMAGE_BYTES_MAX = 64 * 2 ** 20;

export type Component = "BIOS" | "BMC" | "NIC" | "RAID" | "CPLD";

const COMPONENTS: readonly { readonly id: Component; readonly name: string; readonly version: string | null }[] = [
  { id: "BIOS", name: "BIOS", version: null },
  { id: "BMC", name: "Baseboard Management Controller", version: null },
  { id: "NIC", name: "Network Adapter", version: "22.31.6" },
  { id: "RAID", name: "Storage Controller", version: "52.26.0-5179" },
  { id: "CPLD", name: "System CPLD", version: "1.0.9" },
];

export const UPDATE_ROUTES: readonly Route[] = [
  { path: U, get: updateService },
  {
    path: INVENTORY,
    get: ({ path }) =>
      collection(
        "SoftwareInventory",
        path,
        COMPONENTS.map(({ id }) => id),
      ),
  },
  { path: `${INVENTORY}/*`, get: software },
  { path: `${U}/Actions/UpdateService.SimpleUpdate`, post: simpleUpdate },
  { path: `${U}/Actions/UpdateService.StartUpdate`, offered: ({ update }) => update.start, post: startUpdate },
  { path: MULTIPART, offered: ({ update }) => update.multipart, post: multipartUpdate },
];

export function currentVersion({ state, identity }: Bmc, id: Component): string {
  const changed = state.versions[id];
  if (changed !== undefined) return changed;
  if (id === "BIOS") return identity.biosVersion;
  if (id === "BMC") return identity.bmcVersion;
  return COMPONENTS.find((one) => one.id === id)?.version ?? "";
}

function updateService({ bmc: { traits }, path }: Call): Body {
  const { simple, start, multipart, push } = traits.update;
  return resource("UpdateService.v1_9_0", path, {
    Id: "UpdateService",
    Name: "Update Service",
    Status: ENABLED,
    ServiceEnabled: true,
    ...(push === null ? {} : { HttpPushUri: push }),
    ...(multipart ? { MultipartHttpPushUri: ROOT + MULTIPART } : {}),
    FirmwareInventory: link(INVENTORY),
    Actions: {
      ...(simple ? { "#UpdateService.SimpleUpdate": simpleUpdateAction(path, start) } : {}),
      ...(start ? { "#UpdateService.StartUpdate": action(path, "UpdateService.StartUpdate") } : {}),
    },
  });
}

function simpleUpdateAction(path: string, start: boolean) {
  return {
    ...action(path, "UpdateService.SimpleUpdate"),
    "TransferProtocol@Redfish.AllowableValues": ["HTTP", "HTTPS"],
    ...(start
      ? {
          "@Redfish.OperationApplyTimeSupport": {
            "@odata.type": "#Settings.v1_3_3.OperationApplyTimeSupport",
            SupportedValues: ["Immediate", "OnStartUpdateRequest"],
          },
        }
      : {}),
  };
}

function software({ bmc, params, path }: Call): Body | null {
  const component = COMPONENTS.find(({ id }) => id === params[0]);
  if (component === undefined) return null;
  const { id, name } = component;
  return resource("SoftwareInventory.v1_5_0", path, {
    Id: id,
    Name: name,
    SoftwareId: `LW-${id}`,
    Version: currentVersion(bmc, id),
    Updateable: id !== "CPLD",
    Status: ENABLED,
  });
}

function simpleUpdate({ bmc, body }: Call): Answer {
  const uri = textAt(body, "ImageURI");
  if (uri === null) return refuse(400, "ActionParameterMissing", "ImageURI is missing.", "ImageURI");
  if (!URL.canParse(uri) || !/^https?:$/.test(new URL(uri).protocol))
    return refuse(
      400,
      "ActionParameterValueFormatError",
      `ImageURI ${uri} is not an HTTP or HTTPS address.`,
      uri,
      "ImageURI",
    );
  const applyTime = textAt(body, "@Redfish.OperationApplyTime") ?? "Immediate";
  const isHeld = applyTime === "OnStartUpdateRequest";
  if (applyTime !== "Immediate" && !(isHeld && bmc.traits.update.start))
    return refuse(400, "PropertyValueNotInList", `OperationApplyTime ${applyTime} is not supported.`, applyTime);
  return beginUpdate(bmc, { image: () => download(uri), targets: targetsOf(body), isHeld });
}

function startUpdate({ bmc }: Call): Answer {
  const waiting = bmc.state.waitingTasks;
  if (waiting.length === 0) return refuse(400, "NoOperation", "No update waits for StartUpdate.");
  releaseTasks(bmc);
  return done(bmc);
}

async function multipartUpdate({ bmc, raw, contentType }: Call): Promise<Answer> {
  if (!contentType.startsWith("multipart/form-data"))
    return refuse(415, "GeneralError", "The body must be multipart/form-data.");
  const form = await new Response(Uint8Array.from(raw), { headers: { "Content-Type": contentType } })
    .formData()
    .catch(() => null);
  const file = form?.get("UpdateFile");
  if (!form || file === null || file === undefined)
    return refuse(400, "PropertyMissing", "The part UpdateFile is missing.", "UpdateFile");
  const text = typeof file === "string" ? file : await file.text();
  const parameters = await partText(form.get("UpdateParameters"));
  return beginUpdate(bmc, {
    image: () => Promise.resolve(text),
    targets: targetsOf(parsed(parameters)),
    isHeld: false,
  });
}

async function partText(part: Blob | string | null): Promise<string> {
  if (part === null) return "{}";
  return typeof part === "string" ? part : part.text();
}

/** HttpPushUri: the body is the image. */
export function pushUpdate({ bmc, raw }: Pick<Call, "bmc" | "raw">): Answer {
  return beginUpdate(bmc, { image: () => Promise.resolve(raw.toString("utf8")), targets: [], isHeld: false });
}

function parsed(text: string): Body {
  try {
    const value: unknown = JSON.parse(text);
    return isBody(value) ? value : {};
  } catch {
    return {};
  }
}

function targetsOf(body: Body): readonly string[] {
  const targets = body["Targets"];
  return Array.isArray(targets) ? targets.map(String) : [];
}

interface Update {
  readonly image: () => Promise<string>;
  readonly targets: readonly string[];
  readonly isHeld: boolean;
}

function beginUpdate(bmc: Bmc, { image, targets, ...update }: Update): Answer {
  const atReset = bmc.traits.quirks.includes("tasks-wait-for-reset");
  const isHeld = update.isHeld || atReset;
  let found: ImageHead | null = null;
  const task = bmc.tasks.start({
    name: "Update: firmware",
    held: atReset ? "Pending" : isHeld,
    async prepare(): Promise<TaskFailure> {
      try {
        found = headOf(await image());
      } catch (error) {
        return `The image could not be read: ${error instanceof Error ? error.message : String(error)}`;
      }
      if (found === null) return "The file is not a firmware image of this machine.";
      const { component } = found;
      if (
        targets.length === 0 ||
        targets.some((target) => target.toLowerCase().replace(/\/$/, "").endsWith(`/${component.toLowerCase()}`))
      )
        return null;
      return `The image is for ${component}, which is not among the targets.`;
    },
    finish(): TaskFailure {
      if (found !== null) apply(bmc, found);
      return null;
    },
  });
  if (isHeld) bmc.state.waitingTasks = [...bmc.state.waitingTasks, () => bmc.tasks.release(task.id)];
  return taskAnswer(bmc, task.id);
}

interface ImageHead {
  readonly component: Component;
  readonly version: string;
}

function headOf(image: string): ImageHead | null {
  const head = parsed(image.split("\n", 1)[0] ?? "");
  const component = COMPONENTS.find(({ id }) => id === head["component"]);
  const version = textAt(head, "version");
  return component === undefined || version === null ? null : { component: component.id, version };
}

function apply(bmc: Bmc, { component, version }: ImageHead): void {
  const { state, traits } = bmc;
  const waitsForReset = component === "BIOS" && traits.update.biosAtReset && state.power !== "Off";
  if (waitsForReset) state.staged = { ...state.staged, [component]: version };
  else state.versions = { ...state.versions, [component]: version };
  const when = waitsForReset ? " It runs after the next reset." : "";
  record(bmc, { message: `${component} ${version} was installed.${when}`, origin: `${INVENTORY}/${component}` });
  if (component === "BMC") restartBmc(bmc);
}

async function download(uri: string): Promise<string> {
  const response = await fetch(uri, { signal: AbortSignal.timeout(DOWNLOAD_TIMEOUT_MS) });
  if (!response.ok) throw new Error(`${uri} answers with status ${response.status}.`);
  if (Number(response.headers.get("Content-Length") ?? 0) > IMAGE_BYTES_MAX) throw new Error(`${uri} is too large.`);
  return response.text();
}
