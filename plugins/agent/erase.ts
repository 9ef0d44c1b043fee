/** Erases disks, in a cleaning and in a tear-down. */
import * as z from "zod";
import type { DiskAccount, Json } from "../../src/drivers/driver.ts";
import type { AgentCall, AgentStep } from "./call.ts";
import { abandon } from "./abandon.ts";
import { limitWithBoot, throughAgent } from "./task-step.ts";
import type { AgentWork } from "./task-step.ts";

const names = z.array(z.string().trim().min(1).max(128)).max(200).optional();
const args = z.strictObject({
  leaveOut: names.meta({
    description:
      "Disks that keep their data, each by its path, serial number or WWN. Nothing is erased if the agent does not see one of them.",
  }),
  unseen: names.meta({
    description:
      "Disks that the agent cannot see and that may keep their data, such as drives behind a RAID controller, each by its serial number or WWN.",
  }),
});

type EraseArgs = z.output<typeof args>;

function erasure(mode: "METADATA" | "ALL", limitSeconds: number): AgentWork<EraseArgs> {
  return {
    limitSeconds,
    ...(mode === "ALL" && { worksAlone: true }),
    what: ({ node }) => `The disks of node ${node.name} could not be erased`,
    task: async ({ args: { leaveOut = [] } }) => ({
      kind: "erase",
      args: { mode, ...(leaveOut.length > 0 && { keep: leaveOut }) },
    }),
    output: accountOf,
  };
}

const report = z.looseObject({
  disks: z.array(
    z.looseObject({
      path: z.string(),
      bytes: z.number().optional(),
      /** Why it was left out. */
      leftOut: z.string().optional(),
    }),
  ),
});

/** The report of the agent as the account that the engine checks; another one as it is, which the engine refuses. */
function accountOf(output: Json): Json {
  const parsed = report.safeParse(output);
  if (!parsed.success) return output;
  const disks = parsed.data.disks.map(({ bytes, leftOut, ...disk }): DiskAccount => ({
    ...disk,
    ...(bytes !== undefined && { sizeBytes: bytes }),
    erased: leftOut === undefined,
    ...(leftOut !== undefined && { reason: leftOut }),
  }));
  return { ...(parsed.data as Readonly<Record<string, Json>>), disks };
}

const metadata = erasure("METADATA", 900);
/** A large hard disk without an erasure of its own is overwritten, which takes days. */
const everything = erasure("ALL", 72 * 3600);

export const eraseMetadata: AgentStep<EraseArgs> = {
  name: "erase_disk_metadata",
  title: "Erase the partition tables and signatures of all disks",
  phase: "clean",
  priority: 50,
  group: "storage",
  interruptible: "ALWAYS",
  timeoutSeconds: limitWithBoot(metadata),
  idempotent: true,
  retries: { times: 1, backoffSeconds: 30 },
  touches: ["DISKS"],
  erases: true,
  args,
  run: (call) => throughAgent(call, metadata),
  abort,
};

/** A disk whose own erasure is cut off can stay locked, so an abort waits for the end. */
export function eraseDisks(phase: "clean" | "undeploy"): AgentStep<EraseArgs> {
  return {
    name: "erase_disks",
    title: "Erase all disks by the best means of each",
    phase,
    priority: phase === "clean" ? 10 : 50,
    group: "storage",
    interruptible: "AT_BOUNDARY",
    timeoutSeconds: limitWithBoot(everything),
    idempotent: true,
    retries: { times: 1, backoffSeconds: 30 },
    touches: ["DISKS"],
    worksAlone: true,
    erases: true,
    args,
    run: (call) => throughAgent(call, everything),
    abort,
  };
}

function abort(call: AgentCall): Promise<void> {
  return abandon(call, { powerOff: false });
}
