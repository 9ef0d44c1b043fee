/** Turns the errors of tasks into results of steps, with the remedy. Pure. */
import type { DriverErrorKind, StepResult } from "../../src/drivers/driver.ts";

export interface TaskError {
  readonly code: string;
  readonly message: string;
  readonly retryable: boolean;
  /** The agent has already tried again. Agents of earlier releases do not say so. */
  readonly retried?: true | undefined;
}

interface Meaning {
  readonly kind: DriverErrorKind;
  /** Absent: as the agent says. */
  readonly retryable?: boolean;
  readonly remedy: string;
}

const SELECT_DISK = "Name one disk, such as by its serial number, in the variable root_disk or the setting rootDisk.";

/** The agent's message names the disk and the reason. */
const MEANINGS: Readonly<Record<string, Meaning>> = {
  DISK_NOT_FOUND: {
    kind: "REFUSED",
    retryable: false,
    remedy: `${SELECT_DISK} In an erasure, name disks in leaveOut as the agent sees them, and others in unseen.`,
  },
  DISK_AMBIGUOUS: { kind: "REFUSED", retryable: false, remedy: SELECT_DISK },
  DISK_NOT_ERASED: {
    kind: "REFUSED",
    remedy: "Replace the disk, or erase it yourself, and restart. A disk that is frozen needs a power cycle.",
  },
  IMAGE_TOO_LARGE: { kind: "REFUSED", retryable: false, remedy: "Choose a smaller image or a larger disk." },
  CHECKSUM_MISMATCH: {
    kind: "OTHER",
    remedy: "The image at its address is not the one that was registered: register it again, with its checksum.",
  },
  IMAGE_UNREACHABLE: {
    kind: "UNREACHABLE",
    retryable: true,
    remedy: "Check that the machine reaches the server of the image, and that the image is there.",
  },
  IMAGE_STALLED: { kind: "TIMEOUT", retryable: true, remedy: "Check the server of the image and the network." },
  IMAGE_CUT: { kind: "OTHER", retryable: true, remedy: "Check the server of the image and the size of the file." },
  IMAGE_CORRUPT: {
    kind: "OTHER",
    retryable: false,
    remedy: "The image cannot be unpacked: check its format, and register it again.",
  },
  WRITE_FAILED: { kind: "OTHER", remedy: "Look at the disk's health, and replace it or choose another." },
  PARTITIONS_UNUSABLE: { kind: "REFUSED", retryable: false, remedy: "Check the partition table of the image." },
  BOOT_ENTRY_FAILED: {
    kind: "OTHER",
    remedy: "Remove boot entries in the firmware setup: its memory may be full.",
  },
  BURN_IN_FAILED: { kind: "OTHER", retryable: false, remedy: "Replace the part that the message names." },
  CANCELLED: { kind: "OTHER", retryable: true, remedy: "Restart the operation." },
  UNSUPPORTED: {
    kind: "UNSUPPORTED",
    retryable: false,
    remedy: "The agent does not know this task: install the agent that belongs to this version of the service.",
  },
};

const UNKNOWN: Meaning = { kind: "OTHER", remedy: "Look at the log of the step and at the machine's console." };

/** `what`: the task in words, as "image debian-12 could not be written to node n1". */
export function taskFailure(what: string, error: TaskError): StepResult {
  const { kind, retryable, remedy } = MEANINGS[error.code] ?? UNKNOWN;
  const message = error.message.trim().replace(/\.$/, "");
  return {
    kind: "failed",
    reason: `${what}: ${message} (${error.code}). ${remedy}`,
    retryable: retryable ?? error.retryable,
    ...(error.retried === true && { retried: true }),
    errorKind: kind,
    atRest: true,
  };
}
