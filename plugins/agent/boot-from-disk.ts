/**
 * The deploy step after which the machine runs the installed system. Stages, kept in the memo, so that a machine that
 * runs it is not switched off again:
 * - none: the session is ended, and the agent switches the machine off. Left at once.
 * - STOPPING: left when the machine is off, or after 30 s, when its power is cut.
 * - OFF: the medium is ejected, the boot device set, and the machine switched on.
 */
import * as z from "zod";
import type { StepResult } from "../../src/drivers/driver.ts";
import { abandon } from "./abandon.ts";
import { ejectMedium, setBootDevice } from "./boot.ts";
import type { AgentCall, AgentStep } from "./call.ts";
import { isOver, secondsFromNow } from "./call.ts";
import { isUnsupported, messageOf } from "./error.ts";

const STOP_SECONDS = 30;
const STOP_POLL_SECONDS = 2;

const memoSchema = z.discriminatedUnion("stage", [
  z.object({ stage: z.literal("STOPPING"), until: z.string() }),
  z.object({ stage: z.literal("OFF") }),
]);

export const bootFromDisk: AgentStep = {
  name: "boot_from_disk",
  title: "Start the installed system",
  phase: "deploy",
  priority: 40,
  interruptible: "ALWAYS",
  timeoutSeconds: 900,
  idempotent: true,
  retries: { times: 2, backoffSeconds: 15 },
  reaches: "PROVISIONED",
  touches: [],
  run,
  abort: (call) => abandon(call, { powerOff: false }),
};

type Memo = z.output<typeof memoSchema>;

async function run(call: AgentCall): Promise<StepResult> {
  const memo = memoSchema.safeParse(call.memo).data;
  if (memo?.stage === "OFF") {
    await startFromDisk(call);
    return { kind: "done" };
  }
  if (memo) return stop(call, memo);
  await call.agent.close();
  return waitFor({ stage: "STOPPING", until: secondsFromNow(STOP_SECONDS) }, STOP_POLL_SECONDS);
}

function waitFor(memo: Memo, seconds: number): StepResult {
  return { kind: "wait", seconds, memo };
}

async function stop(call: AgentCall, memo: Extract<Memo, { stage: "STOPPING" }>): Promise<StepResult> {
  if ((await call.power.read()) === "OFF") return waitFor({ stage: "OFF" }, 0);
  if (!isOver(memo.until)) return waitFor(memo, STOP_POLL_SECONDS);
  call.log("The agent did not switch the machine off in time; its power is cut.");
  await call.power.set("OFF");
  return waitFor({ stage: "OFF" }, 0);
}

/** Switches a machine on from its disk. Does not restart one that is on. */
export async function startFromDisk(call: AgentCall): Promise<void> {
  await ejectMedium(call);
  const agent = await call.agent.status();
  if (agent?.bootMode === "UEFI" && (agent.disks ?? 1) > 1)
    // To the firmware the boot device is its first disk, which may be another one.
    call.log("The machine has several disks, so its firmware starts the boot entry of the installed system.");
  else
    await setBootDevice(call, "DISK").catch((error: unknown) => {
      if (!isUnsupported(error)) throw error;
      call.log(`The boot device cannot be set, so the machine's own boot order decides: ${messageOf(error)}`);
    });
  call.signal.throwIfAborted();
  await call.power.set("ON");
}
