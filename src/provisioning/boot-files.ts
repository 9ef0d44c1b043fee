/** The files that machines boot: iPXE scripts, kernel and ramdisk of the agent, the ISO of a session, images. */
import { createHash } from "node:crypto";
import { statSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { join } from "node:path";
import type { Architecture } from "../drivers/driver.ts";
import type { Agents, BootTicket } from "../engine/agents/agents.ts";
import { messageOf } from "../errors.ts";
import { sendText } from "../http/graphql/respond.ts";
import type { Log } from "../log.ts";
import type { MachineFile, Observer } from "../observer.ts";
import { ARCHITECTURE_FOLDERS } from "./agent-media.ts";
import type { AgentMedia, AgentMedium, MediaFile, MediaSlot } from "./agent-media.ts";
import { macOf } from "../runtime/mac-address.ts";
import { isUuid } from "../runtime/uuid.ts";
import { bearerFrom, bearerOf } from "./agent-messages.ts";
import type { DhcpLeases } from "./dhcp-leases.ts";
import { agentScript, firstScript, localBootScript } from "./boot-script.ts";
import { sendFile } from "./file-response.ts";
import type { Patch, Sent, ServedFile } from "./file-response.ts";
import { refuse, refuseBearer, refuseUnknown } from "./guard.ts";
import { addressOf } from "../runtime/ip-addresses.ts";
import type { Guard } from "./guard.ts";
import { createTickets } from "./tickets.ts";

/** Maximum number of MACs of one machine that are looked up. */
const MACS_MAX = 16;
const BYTES = "application/octet-stream";
/** How much longer than others a BMC may read nothing of its medium: its host may wait at a boot menu. */
const MEDIUM_PATIENCE = 20;

interface StoredFile {
  readonly path: string;
  readonly sizeBytes: number;
}

export interface BootFilesOptions {
  readonly agents: Agents;
  readonly media: AgentMedia;
  /** The file of a stored image; null for any other ID. */
  readonly storedImage: (id: string) => Promise<StoredFile | null>;
  /** iPXE's program for UEFI HTTP boot, for each architecture the places to look for it. */
  readonly firmware: Readonly<Record<Architecture, readonly string[]>>;
  /** Absent: boot scripts are sent to any address. */
  readonly leases?: DhcpLeases;
  /** How machines reach the listener, without a slash at its end. */
  readonly url: string;
  readonly contact: AgentContact;
  readonly guard: Guard;
  readonly log: Log;
  readonly observer: Pick<Observer, "fileBytesSent">;
  /** Time that a client has to read more of its response, in milliseconds; for a boot medium longer. */
  readonly stallMs: number;
}

interface BootFiles {
  script(request: IncomingMessage, response: ServerResponse, query: URLSearchParams): Promise<void>;
  /** Kernel, ramdisk, or iPXE for UEFI HTTP boot. */
  file(request: IncomingMessage, response: ServerResponse, name: BootFileName): Promise<void>;
  /** `key`: the part of the path that names the session and its secret. */
  iso(request: IncomingMessage, response: ServerResponse, key: string): Promise<void>;
  image(request: IncomingMessage, response: ServerResponse, id: string): Promise<void>;
}

export interface BootFileName {
  readonly architecture: Architecture;
  readonly file: "vmlinuz" | "initrd" | "ipxe.efi";
  /** Session that boots, if it was named. */
  readonly session: string | null;
}

export function createBootFiles(options: BootFilesOptions): BootFiles {
  const { agents, media, storedImage, firmware, leases, url, contact, guard } = options;
  const tickets = createTickets((bearer) => agents.medium(bearer), guard);
  const sessions = createTickets(async (bearer) => (await agents.isOpen(bearer)) || null, guard);

  function mediumFile(architecture: Architecture, name: MediaFile): ServedFile | null {
    const medium = media.mediaFor(architecture);
    if (!medium) return null;
    const { sizeBytes, sha256 } = medium.files[name];
    return { path: join(medium.folder, name), sizeBytes, type: BYTES, tag: sha256 };
  }

  return {
    async script(request, response, query) {
      const macs = [...new Set(query.getAll("mac").map(macOf))].filter((mac) => mac !== null).slice(0, MACS_MAX);
      if (macs.length === 0) return sendScript(response, firstScript(url));
      if (!guard.mayAsk(request, response)) return;
      const address = addressOf(request.socket);
      const known = leases ? await leases.macsAt(address, macs) : macs;
      // The same answer for every MAC: it must not reveal which machines exist.
      if (known.length === 0) return sendScript(response, localBootScript(`${address} is not leased to this machine`));
      const machine = { macs: known, address, isLeased: leases !== undefined };
      const answer = await guard.ask(request, response, () => agents.networkBoot(machine));
      if (answer === null) return;
      const refusal = refusalOf(answer.found, query.get("arch"));
      if (!answer.found || refusal) return sendScript(response, localBootScript(refusal ?? `no agent for ${macs[0]}`));
      sendScript(response, scriptFor(options, answer.found, { macs, address }));
    },

    async file(request, response, { architecture, file, session }) {
      const found = file === "ipxe.efi" ? firmwareFile(firmware[architecture]) : mediumFile(architecture, file);
      if (!found) return refuseUnknown(request, response);
      const sent = await send({ request, response, ...options }, "boot_file", found);
      const isWhole = sent?.outcome === "SENT" && sent.end === found.sizeBytes;
      if (!isWhole || file !== "vmlinuz" || session === null || !isUuid(session)) return;
      await agents.reached(session, "KERNEL");
    },

    async iso(request, response, key) {
      const ticket = await tickets.take(request, response, bearerFrom(key), refuseUnknown);
      if (!ticket) return;
      const file = mediumFile(ticket.architecture, "agent.iso");
      const medium = media.mediaFor(ticket.architecture);
      if (!file || !medium) return refuse(request, response, 503, "The agent's boot media are missing");
      const patches = isoPatches(medium, ticket, contact);
      const tag = createHash("sha256").update(file.tag);
      for (const { bytes } of patches) tag.update(bytes);
      const patched = { ...file, type: "application/x-iso9660-image", tag: tag.digest("hex"), patches };
      await send({ request, response, ...options }, "boot_medium", patched);
    },

    async image(request, response, id) {
      const bearer = bearerOf(request.headers.authorization);
      if (!(await sessions.take(request, response, bearer, refuseBearer))) return;
      const found = isUuid(id) ? await guard.ask(request, response, () => storedImage(id)) : { found: null };
      if (found === null) return;
      if (!found.found) return refuseUnknown(request, response);
      await send({ request, response, ...options }, "image", { ...found.found, type: BYTES, tag: id, isPlain: true });
    },
  };
}

interface Transfer extends Pick<BootFilesOptions, "guard" | "log" | "observer" | "stallMs"> {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

/** Null if there are too many transfers. */
async function send(
  { request, response, guard, log, observer, stallMs }: Transfer,
  kind: MachineFile,
  file: ServedFile,
): Promise<Sent | null> {
  const endDownload = guard.startDownload(request, response);
  if (!endDownload) return null;
  try {
    const onBytes = (bytes: number) => observer.fileBytesSent(kind, bytes);
    const patience = kind === "boot_medium" ? MEDIUM_PATIENCE * stallMs : stallMs;
    // Until the end of this response; Node sets the server's own timeout again for the next one.
    request.socket.setTimeout(patience);
    const sent = await sendFile(request, response, file, { stallMs: patience, onBytes });
    if (sent.outcome === "MISSING") {
      log.warn({ path: file.path, sizeBytes: file.sizeBytes }, "a file to serve is missing or has another size");
      refuse(request, response, 503, "The file is being replaced");
    }
    return sent;
  } finally {
    endDownload();
  }
}

/** Why a machine does not boot the agent; null if it does. An idle machine and an unknown one get the same answer. */
function refusalOf(ticket: BootTicket | null, builtFor: string | null): string | null {
  if (!ticket) return "this machine is not expected to boot the agent now";
  // iPXE for the BIOS is a program of 32 bits, on processors of 64 bits too.
  const isArm = builtFor === "arm64" || builtFor === "arm32";
  if (builtFor === null || builtFor === "" || isArm === (ticket.architecture === "ARM64")) return null;
  return `the node is registered as ${ticket.architecture}, but this machine is ${builtFor}`;
}

interface Fetch {
  readonly macs: readonly string[];
  /** Where the request came from. */
  readonly address: string;
}

function scriptFor(
  { media, url, contact, log }: BootFilesOptions,
  ticket: BootTicket,
  { macs, address }: Fetch,
): string {
  const { session, architecture } = ticket;
  const medium = media.mediaFor(architecture);
  if (!medium) {
    log.warn({ session, architecture }, "a machine cannot boot the agent: its boot media are missing");
    return localBootScript(`the service has no boot media of the agent for ${architecture}`);
  }
  try {
    const kernelArguments = networkBootArguments(medium, ticket, contact);
    log.info({ session, architecture, macs, address }, "a machine fetched the boot script of the agent");
    return agentScript(url, { architecture, session, kernelArguments }, macs);
  } catch (error) {
    log.warn({ session, why: messageOf(error) }, "a machine cannot boot the agent");
    return localBootScript(messageOf(error));
  }
}

function firmwareFile(places: readonly string[]): ServedFile | null {
  for (const path of places) {
    const found = statSync(path, { throwIfNoEntry: false });
    if (found?.isFile())
      return { path, sizeBytes: found.size, type: "application/efi", tag: `${found.size}-${found.mtimeMs}` };
  }
  return null;
}

function sendScript(response: ServerResponse, text: string): void {
  response.setHeader("cache-control", "no-store");
  sendText(response, 200, text);
}

/** Where iPXE's program for UEFI is looked up: beside the agent's boot media, then where Debian's package has it. */
export function firmwarePlaces(agentFolder: string): BootFilesOptions["firmware"] {
  const own = (architecture: Architecture) => join(agentFolder, ARCHITECTURE_FOLDERS[architecture], "ipxe.efi");
  return { X64: [own("X64"), "/usr/lib/ipxe/snponly.efi"], ARM64: [own("ARM64"), "/usr/lib/ipxe/snponly-arm64.efi"] };
}

// ---- how a machine learns its session: from the slots of the ISO, or the kernel arguments of a network boot

/** Maximum total length of kernel arguments; the kernel of x64 takes 2048 bytes. */
const ARGUMENTS_LENGTH_MAX = 2_000;

/** Where the agent reaches the service. */
interface AgentContact {
  /** An address of TLS, without a slash at its end. */
  readonly url: string;
  /** SHA-256 of the only certificate that the agent accepts, in hexadecimal. */
  readonly fingerprint: string;
}

/** The bytes of the ISO for one session. Throws if a slot is too short. */
function isoPatches(medium: AgentMedium, ticket: BootTicket, contact: AgentContact): readonly Patch[] {
  const { session, secret, network, kernelArguments } = ticket;
  const unusable = kernelArguments.find((argument) => !isArgument(argument));
  if (unusable !== undefined) throw new Error(`The kernel argument ${JSON.stringify(unusable)} cannot be passed on.`);
  const text = kernelArguments.join(" ");
  return [
    filled(medium.slot, JSON.stringify({ ...contact, session, secret, network }), "session document"),
    ...medium.argumentSlots.map((slot) => filled(slot, text, "kernel arguments")),
  ];
}

function filled({ offset, length }: MediaSlot, text: string, what: string): Patch {
  const bytes = Buffer.alloc(length, " ");
  if (Buffer.byteLength(text) > length) throw new Error(`The ${what} of a session take more than ${length} bytes.`);
  bytes.write(text);
  return { offset, bytes };
}

/**
 * Kernel arguments of a network boot; throws if one cannot be passed on. The console is the first serial port, unless
 * the arguments name another one.
 */
function networkBootArguments(medium: AgentMedium, ticket: BootTicket, contact: AgentContact): readonly string[] {
  const { session, secret, network } = ticket;
  const given = [...medium.kernelArguments, ...ticket.kernelArguments];
  const hasConsole = given.some((argument) => argument.startsWith("console="));
  const all = [
    ...(hasConsole ? [] : ["console=tty0", `console=${SERIAL_CONSOLES[ticket.architecture]}`]),
    ...given,
    `ostler.url=${contact.url}`,
    `ostler.fingerprint=${contact.fingerprint}`,
    `ostler.session=${session}`,
    `ostler.secret=${secret}`,
    ...(network ? [`ostler.network=${Buffer.from(JSON.stringify(network)).toString("base64url")}`] : []),
  ];
  const unusable = all.find((argument) => !isArgument(argument));
  if (unusable !== undefined) throw new Error(`The kernel argument ${JSON.stringify(unusable)} cannot be passed on.`);
  if (all.join(" ").length > ARGUMENTS_LENGTH_MAX)
    throw new Error(`The kernel arguments have more than ${ARGUMENTS_LENGTH_MAX} characters.`);
  return all;
}

const SERIAL_CONSOLES = { X64: "ttyS0,115200", ARM64: "ttyAMA0,115200" } as const;

/** One word that neither iPXE nor a boot loader changes: no blanks, quotes, expansions or operators. */
function isArgument(argument: string): boolean {
  return /^[\w!%*+,./:=?@^~[\]()<>-]+$/.test(argument);
}
