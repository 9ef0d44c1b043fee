/**
 * Whether a step that declares `erases` has proven its erasure, when it is done: its account of the disks is compared
 * with the disks that the newest inspections of the node have reported.
 */
import type { DiskAccount } from "../../../drivers/driver.ts";
import { parseDiskAccount } from "../../../drivers/step-result.ts";
import { erasureGaps } from "../../../lifecycle/erasure.ts";
import type { AccountedDisk, ErasureGap, InspectedDisks, KnownDisk } from "../../../lifecycle/erasure.ts";
import { bytesText, cutTo, sentence } from "../../../runtime/text.ts";
import { inspectedDisks } from "../../../store/nodes/nodes.ts";
import type { JsonObject, StoredJson } from "../../../store/records.ts";
import { isJsonObject } from "../../input/variables.ts";
import type { StepContext } from "../claim/claimed-run.ts";
import type { Fault } from "./driver-result.ts";

/** Disks that a message names, and characters of each text of a driver in it. */
const NAMED_MAX = 100;
const TEXT_LENGTH_MAX = 200;

/** The fault of an erasure that is not proven; null if it is, and for a step that does not erase. */
export async function erasureFault(context: StepContext, output: StoredJson): Promise<Fault | null> {
  const { ledger, step, claimed } = context;
  if (!step.erases) return null;
  const account = parseDiskAccount(output);
  const { note } = isJsonObject(output) ? output : {};
  if ("flaw" in account) return refusal(`${account.flaw}. Repair the driver ${step.driver}`);
  if (ledger.run.mayLeaveDisks) return null;
  const gaps = erasureGaps({
    account: account.map(accounted),
    inspected: await newestDisks(context),
    isDiskless: claimed.node.diskless ?? false,
    leaveOut: leaveOutOf(step.args),
  });
  return gaps.length === 0 ? null : refusal(explain(gaps, typeof note === "string" ? note : null));
}

/** The step has ended, and the machine with it. */
function refusal(reason: string): Fault {
  return { code: "BACKEND_FAILED", reason, retryable: false, atRest: true };
}

/** The disks that the arguments let keep their data: seen by the step, or not. */
function leaveOutOf({ leaveOut, unseen }: JsonObject): string[] {
  return [leaveOut, unseen]
    .flatMap((list) => (Array.isArray(list) ? list : []))
    .filter((one) => typeof one === "string");
}

/**
 * The newest disks that each driver has reported: a BMC and an agent see different ones. Those of a driver that the
 * node no longer has, or that is not known any more, count only if no other inspection came after.
 */
async function newestDisks({ ledger, claimed }: StepContext): Promise<InspectedDisks[]> {
  const found = await inspectedDisks(ledger.transaction.tx, claimed.node.id);
  const present = claimed.machine.composition.drivers.map(({ name }) => name);
  return found
    .filter(({ driver }, index) => index === 0 || (driver !== null && present.includes(driver)))
    .map(({ driver, takenAt, disks }) => ({
      inspection: `the inspection${driver === null ? "" : ` by ${driver}`} of ${takenAt.toISOString()}`,
      disks: (Array.isArray(disks) ? disks : []).filter(isJsonObject).filter(isDisk).map(known),
    }));
}

const MEDIUM = /\bvirtual[ _-]?(cd|dvd|floppy|media|hdisk|usb)|\b(cd|dvd)[ _-]?rom\b/i;

/** Whether a disk of an inventory is one of the machine, and no medium of the BMC or drive without one. */
function isDisk(disk: JsonObject): boolean {
  const { medium, sizeBytes, name, model } = disk;
  const isNamedMedium = [name, model].some((text) => typeof text === "string" && MEDIUM.test(text));
  return medium !== true && sizeBytes !== 0 && !isNamedMedium;
}

function known(disk: Readonly<Partial<Record<string, unknown>>>): KnownDisk {
  const text = (name: string) => (typeof disk[name] === "string" && disk[name] !== "" ? disk[name] : null);
  const { sizeBytes } = disk;
  return {
    names: ["path", "id", "name"].flatMap((name) => text(name) ?? []),
    serial: text("serial"),
    wwn: text("wwn"),
    sizeBytes: typeof sizeBytes === "number" ? sizeBytes : null,
  };
}

function accounted(disk: DiskAccount): AccountedDisk {
  return { ...known({ ...disk }), erased: disk.erased, reason: disk.reason ?? "", medium: disk.medium === true };
}

/** `note`: of the step, on what it saw. */
function explain(gaps: readonly ErasureGap[], note: string | null): string {
  const named = gaps.slice(0, NAMED_MAX).map(explainGap);
  const more = gaps.length > NAMED_MAX ? [`and ${gaps.length - NAMED_MAX} more`] : [];
  return [
    `not every disk is proven to be erased: ${[...named, ...more].join("; ")}.`,
    ...(note === null ? [] : [sentence(cutTo(note, 10 * TEXT_LENGTH_MAX))]),
    ...remedyOf(gaps),
  ].join(" ");
}

function explainGap(gap: ErasureGap): string {
  switch (gap.kind) {
    case "NO_DISK":
      return "the step found no disk";
    case "LEFT_OUT":
      return `${described(gap.disk)} was left out: ${cutTo(gap.disk.reason, TEXT_LENGTH_MAX).replace(/\.$/, "")}`;
    case "UNSEEN":
      return `${described(gap.disk)}, which ${gap.inspection} reported, was not seen`;
  }
}

function described({ names, serial, wwn, sizeBytes }: KnownDisk): string {
  const facts = [
    ...(serial === null ? [] : [`serial ${cutTo(serial, TEXT_LENGTH_MAX)}`]),
    ...(wwn === null ? [] : [`WWN ${cutTo(wwn, TEXT_LENGTH_MAX)}`]),
    ...(sizeBytes === null ? [] : [bytesText(sizeBytes)]),
  ];
  return `disk ${cutTo(names[0] ?? "without a name", TEXT_LENGTH_MAX)}${facts.length === 0 ? "" : ` (${facts.join(", ")})`}`;
}

function remedyOf(gaps: readonly ErasureGap[]): string[] {
  const kinds = new Set(gaps.map(({ kind }) => kind));
  return [
    ...(kinds.has("NO_DISK")
      ? [
          "Check the storage controller, and whether the driver that cleans the node supports it; if the machine has no disk, set diskless with updateNodes.",
        ]
      : []),
    ...(kinds.has("UNSEEN")
      ? ["If the disks of the machine have changed, inspect it again: manageNodes, then inspectNodes."]
      : []),
    ...(kinds.has("LEFT_OUT") || kinds.has("UNSEEN")
      ? [
          "Erase these disks by other means or remove them; if they may keep their data, name them in the arguments leaveOut and unseen of the step, or set unerasedDisks to ALLOW with updateSite.",
        ]
      : []),
  ];
}
