/**
 * The boot media of the agent: one folder for each architecture with kernel, ramdisk and ISO, described by its
 * agent.json. The description is read again when it changes, so that new media need no restart.
 */
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import type { Architecture } from "../drivers/driver.ts";
import { messageOf } from "../errors.ts";
import type { Log } from "../log.ts";

/** Version of the protocol between agent and service. */
export const PROTOCOL = 2;
/** Names of the architectures in folders and paths. */
export const ARCHITECTURE_FOLDERS: Readonly<Record<Architecture, string>> = { X64: "x64", ARM64: "arm64" };

export type MediaFile = "vmlinuz" | "initrd" | "agent.iso";

interface MediaFileFacts {
  readonly sizeBytes: number;
  readonly sha256: string;
}

/** Bytes of the ISO that are different for each session. */
export interface MediaSlot {
  readonly offset: number;
  readonly length: number;
}

export interface AgentMedium {
  readonly version: string;
  readonly protocol: number;
  readonly architecture: Architecture;
  readonly folder: string;
  /** Kernel arguments that the agent needs on this architecture. */
  readonly kernelArguments: readonly string[];
  readonly files: Readonly<Record<MediaFile, MediaFileFacts>>;
  /** Slot of the session document. */
  readonly slot: MediaSlot;
  /** Slots of further kernel arguments, one for each boot loader of the ISO. */
  readonly argumentSlots: readonly MediaSlot[];
}

export interface AgentMedia {
  /** The medium of an architecture; null if it is missing or invalid, which is logged once. */
  mediaFor(architecture: Architecture): AgentMedium | null;
}

interface Read {
  /** Changes whenever the description changes. */
  readonly stamp: string;
  readonly medium: AgentMedium | null;
}

export function createAgentMedia(folder: string, log: Log): AgentMedia {
  const read = new Map<Architecture, Read>();

  function readMedium(architecture: Architecture, file: string): AgentMedium | null {
    try {
      const medium = mediumOf(JSON.parse(readFileSync(file, "utf8")), architecture, file);
      log.info({ architecture, version: medium.version, folder: medium.folder }, "the agent's boot media were read");
      return medium;
    } catch (error) {
      log.warn({ file, why: messageOf(error) }, "the description of the agent's boot media cannot be used");
      return null;
    }
  }

  return {
    mediaFor(architecture) {
      const file = join(folder, ARCHITECTURE_FOLDERS[architecture], "agent.json");
      const stamp = stampOf(file);
      const known = read.get(architecture);
      if (known?.stamp === stamp) return known.medium;
      const medium = stamp === MISSING ? null : readMedium(architecture, file);
      if (stamp === MISSING && known?.medium) log.warn({ file }, "the agent's boot media were removed");
      read.set(architecture, { stamp, medium });
      return medium;
    },
  };
}

const MISSING = "missing";

function stampOf(file: string): string {
  const found = statSync(file, { throwIfNoEntry: false, bigint: true });
  return found ? `${found.ino} ${found.size} ${found.mtimeNs}` : MISSING;
}

function mediumOf(value: unknown, architecture: Architecture, file: string): AgentMedium {
  const found = recordOf(value, "agent.json");
  if (found["protocol"] !== PROTOCOL)
    throw new Error(`The media have protocol ${String(found["protocol"])}, not ${PROTOCOL}. Build them again.`);
  if (found["architecture"] !== architecture)
    throw new Error(`The media are for ${String(found["architecture"])}, not for ${architecture}.`);
  if (typeof found["version"] !== "string") throw new Error("agent.json has no version.");
  const sizes = recordOf(found["sizes"], "sizes");
  const checksums = recordOf(found["sha256s"], "sha256s");
  const factsOf = (name: MediaFile): MediaFileFacts => ({
    sizeBytes: sizeOf(sizes[name], `sizes["${name}"]`),
    sha256: checksumOf(checksums[name], `sha256s["${name}"]`),
  });
  const iso = factsOf("agent.iso");
  return {
    version: found["version"],
    protocol: PROTOCOL,
    architecture,
    folder: join(file, ".."),
    kernelArguments: wordsOf(found["kernelArguments"] ?? ""),
    files: { vmlinuz: factsOf("vmlinuz"), initrd: factsOf("initrd"), "agent.iso": iso },
    slot: slotOf(found["slot"], "slot", iso.sizeBytes),
    argumentSlots: listOf(found["argumentSlots"] ?? []).map((slot) => slotOf(slot, "argumentSlots", iso.sizeBytes)),
  };
}

function slotOf(value: unknown, name: string, isoBytes: number): MediaSlot {
  const found = recordOf(value, name);
  const slot = { offset: sizeOf(found["offset"], `${name}.offset`), length: sizeOf(found["length"], `${name}.length`) };
  if (slot.offset + slot.length > isoBytes) throw new Error(`${name} ends behind the end of the ISO.`);
  return slot;
}

function recordOf(value: unknown, name: string): Readonly<Record<string, unknown>> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Error(`${name} is not an object.`);
  return value as Record<string, unknown>;
}

function listOf(value: unknown): readonly unknown[] {
  if (!Array.isArray(value)) throw new Error("argumentSlots is not a list.");
  return value;
}

function sizeOf(value: unknown, name: string): number {
  if (!Number.isSafeInteger(value) || Number(value) < 0) throw new Error(`${name} is not a number of bytes.`);
  return Number(value);
}

function wordsOf(value: unknown): readonly string[] {
  if (typeof value !== "string") throw new Error("kernelArguments is not a text.");
  return value.split(/\s+/).filter((word) => word !== "");
}

function checksumOf(value: unknown, name: string): string {
  if (typeof value !== "string" || !/^[0-9a-f]{64}$/.test(value)) throw new Error(`${name} is not a SHA-256 sum.`);
  return value;
}
