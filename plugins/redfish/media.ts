/** Virtual media, on the system or on its manager, whichever has it (DSP0268, VirtualMedia). */
import type { MediaOptions } from "../../src/drivers/driver.ts";
import type { RedfishCall } from "./connection.ts";
import { RedfishError, unsupported } from "./error.ts";
import { waitUntil } from "./poll.ts";
import { at, boolean, link, text, texts } from "./resource.ts";
import type { Resource } from "./resource.ts";
import type { Outcome, RedfishService } from "./service.ts";
import type { RedfishSettings } from "./settings.ts";
import { action, findSystem, managersOf } from "./system.ts";
import type { Located } from "./system.ts";
import { readTask, taskFailure } from "./task.ts";

type MediaCall = RedfishCall<RedfishSettings>;

const INSERT_SECONDS = 180;
const OPTICAL: readonly string[] = ["CD", "DVD"];

export async function insertMedium(
  service: RedfishService,
  call: MediaCall,
  url: string,
  options: MediaOptions,
): Promise<void> {
  let refusal: RedfishError | undefined;
  // Some BMCs list drives that take no image from a URL, such as those for images that they store.
  for (const path of await opticalDrives(service, call.settings)) {
    try {
      await insertInto(service, call, { path, resource: await service.get(path, "virtual medium"), url, ...options });
      return await service.remember(takerOf(call), { path });
    } catch (error) {
      const isRefused = error instanceof RedfishError && error.effect === "NONE" && !error.retryable;
      if (!isRefused || error.kind === "AUTHENTICATION") throw error;
      refusal ??= error;
    }
  }
  throw refusal;
}

/** Name in the driver's memory for the drive that has taken the medium. */
function takerOf({ settings: { system = "" } }: MediaCall): string {
  return `drive with the medium of system ${system}`;
}

interface Insertion extends Located, MediaOptions {
  readonly url: string;
}

async function insertInto(service: RedfishService, call: MediaCall, drive: Insertion): Promise<void> {
  const { url, writeProtected } = drive;
  if (boolean(drive.resource, "Inserted") === true) {
    if (text(drive.resource, "Image") === url && !isEmpty(drive.resource)) return;
    await ejectFrom(service, call, drive);
  }
  const offered = action(drive.resource, "VirtualMedia.InsertMedia");
  const task = "insert a virtual medium";
  const whole = { Image: url, Inserted: true, WriteProtected: writeProtected };
  const { protocol, username, password } = new URL(url);
  /** As the action spells it, if it lists its values. */
  const spelt = (name: string, ...values: string[]) =>
    texts(offered?.info ?? {}, `${name}@Redfish.AllowableValues`)?.find((one) => values.includes(one.toUpperCase())) ??
    values[0];
  const refused = {
    seconds: INSERT_SECONDS,
    optional: ["Inserted", "WriteProtected"],
    spare: {
      TransferProtocolType: spelt("TransferProtocolType", protocol.slice(0, -1).toUpperCase()),
      MediaType:
        texts(drive.resource, "MediaTypes")?.find((type) => OPTICAL.includes(type)) ?? spelt("MediaType", ...OPTICAL),
      TransferMethod: "Stream",
      UserName: username,
      Password: password,
    },
    isDone: async () => {
      const now = await service.get(drive.path, "virtual medium");
      return isInserted(now, url) && !isEmpty(now) && text(now, "Image") === url;
    },
  };
  const change = async () => service.patch(drive.path, whole, task, refused);
  const outcome = offered
    ? await service.post(offered.target, whole, task, refused).catch((error: unknown) => {
        // Some BMCs list the action, and take the change of the drive only.
        const isLacking = error instanceof RedfishError && (error.kind === "UNSUPPORTED" || error.status === 404);
        if (!isLacking) throw error;
        return change().catch(() => {
          call.signal.throwIfAborted();
          throw error;
        });
      })
    : await change();
  await finishTask(service, call, outcome, { what: task, seconds: INSERT_SECONDS });
  await waitUntil(call, {
    seconds: INSERT_SECONDS,
    read: () => service.get(drive.path, "virtual medium"),
    isReached: (now) => isInserted(now, url),
    describe: () =>
      `BMC ${service.bmc} accepted a virtual medium, but does not report it as inserted; check that the BMC can reach the image.`,
  });
}

export async function ejectMedium(service: RedfishService, call: MediaCall): Promise<void> {
  const taker = text(at({ taker: await service.recall(takerOf(call)) }, "taker"), "path");
  const paths = await opticalDrives(service, call.settings);
  for (const path of taker !== undefined && paths.includes(taker) ? [taker] : paths) {
    const resource = await service.get(path, "virtual medium");
    if (showsMedium(resource)) return ejectFrom(service, call, { path, resource });
  }
}

async function ejectFrom(service: RedfishService, call: MediaCall, { path }: Located): Promise<void> {
  // The action may be offered only while a medium is inserted, so the resource is read again.
  const eject = action(await service.get(path, "virtual medium"), "VirtualMedia.EjectMedia");
  const task = "eject the virtual medium";
  const refused = { isDone: async () => isEmpty(await service.get(path, "virtual medium")) };
  const outcome = eject
    ? await service.post(eject.target, {}, task, refused)
    : await service.patch(path, { Image: null, Inserted: false }, task, refused);
  await finishTask(service, call, outcome, { what: task, seconds: INSERT_SECONDS });
  await waitUntil(call, {
    seconds: INSERT_SECONDS,
    read: () => service.get(path, "virtual medium"),
    isReached: isEmpty,
    describe: () => `BMC ${service.bmc} was asked to eject the virtual medium, and still reports it; eject it by hand.`,
  });
}

/** Some BMCs name an image that is ejected, or that they cannot read, and some report nothing but the name. */
function isInserted(medium: Resource, url: string): boolean {
  return boolean(medium, "Inserted") ?? text(medium, "Image") === url;
}

function showsMedium(medium: Resource): boolean {
  return boolean(medium, "Inserted") ?? text(medium, "Image") !== undefined;
}

/** Some BMCs go on showing a medium that is ejected, and report only that nothing is connected. */
function isEmpty(medium: Resource): boolean {
  return !showsMedium(medium) || text(medium, "ConnectedVia") === "NotConnected";
}

/** Whether a drive of the BMC has a medium. */
export async function hasMedium(service: RedfishService, settings: RedfishSettings): Promise<boolean> {
  for (const path of await opticalDrives(service, settings))
    if (!isEmpty(await service.get(path, "virtual medium"))) return true;
  return false;
}

/** Waits for the end of a task; what became of one that the BMC has no more, the changed resource reports. */
export async function finishTask(
  service: RedfishService,
  call: MediaCall,
  { tasks }: Outcome,
  { what, seconds }: { readonly what: string; readonly seconds: number },
): Promise<void> {
  if (tasks.length === 0) return;
  const ended = await waitUntil(call, {
    seconds,
    read: () => readTask(service, tasks),
    isReached: (now) => (now.kind === "RUNNING" ? now.isFull : now.kind !== "UNKNOWN"),
    describe: () => `BMC ${service.bmc} did not ${what} in time; try again.`,
  });
  if (ended.kind === "FAILED") throw taskFailure(service, what, ended.reason);
}

/** The paths of the drives for CD and DVD images, of the system and then of its managers. */
export async function opticalDrives(service: RedfishService, settings: RedfishSettings): Promise<readonly string[]> {
  const system = await findSystem(service, settings);
  const owners = [system, ...(await managersOf(service, system))];
  const collections = new Set(owners.flatMap(({ resource }) => link(resource, "VirtualMedia") ?? []));
  const drives: Resource[] = [];
  for (const collection of collections) drives.push(...(await service.members(collection, "virtual media")));
  const paths = drives.filter(isOptical).flatMap((drive) => text(drive, "@odata.id") ?? []);
  if (paths.length > 0) return paths;
  throw unsupported(service.bmc, "offers no virtual CD or DVD drive; it may need a license.");
}

function isOptical(drive: Resource): boolean {
  const types = texts(drive, "MediaTypes");
  return types === undefined || types.some((type) => OPTICAL.includes(type));
}
