/**
 * A step that gives the agent one task and waits for its result. If no agent is alive, it boots one first: a restart
 * can begin with this step, and a list of clean steps need not contain `boot_agent`.
 *
 * The wait ends with the result. Without one the step is entered each minute, to notice a machine that was lost. The
 * loss of an agent says nothing about the disks: drives go on with their own erasure. Such a step is not
 * retried, as that would begin with a power off.
 */
import * as z from "zod";
import type { AgentStatus, AgentTask, Json, StepArgs, StepResult } from "../../src/drivers/driver.ts";
import { bootAgent } from "./boot.ts";
import { BOOT_LIMIT_SECONDS } from "./boot-step.ts";
import type { AgentCall } from "./call.ts";
import { isOver, openSessionOf, secondsFromNow, silentSeconds } from "./call.ts";
import { refused, unbooted } from "./error.ts";
import { taskFailure } from "./task-failure.ts";

const LOOK_SECONDS = 60;
/** An agent that was not seen for so long, twice in a row, is lost. */
const LOST_SECONDS = 45;

export interface AgentWork<Args extends StepArgs> {
  /** The longest time that the task may take, without the boot. */
  readonly limitSeconds: number;
  /** Limit with the arguments of the call, if it depends on them. */
  limitOf?(call: AgentCall<Args>): number;
  /** The disks go on with the work without the agent. */
  readonly worksAlone?: true;
  /** The beginning of a failure, as "node n1 could not be erased". */
  what(call: AgentCall<Args>): string;
  /** The task, or why it cannot be done on this machine. Made once, or again if a process dies before it has a memo. */
  task(call: AgentCall<Args>, agent: AgentStatus): Promise<AgentTask | { readonly problem: string }>;
  /** The output of the step. */
  output(output: Json, call: AgentCall<Args>): Json;
  /** Whether the cause of a failure with this code is over, although the agent has tried for long. */
  hasPassed?(code: string, call: AgentCall<Args>): boolean;
  /** Texts in the messages of the agent that are not to be shown. */
  hidden?(call: AgentCall<Args>): readonly { readonly text: string; readonly by: string }[];
}

const taskMemo = z.object({
  task: z.object({
    until: z.string(),
    /** The last contact, if it was long ago. */ silentSince: z.string().nullable(),
  }),
});

const resultSchema = z.union([
  z.object({ ok: z.literal(true), output: z.json().default(null) }),
  z.object({
    ok: z.literal(false),
    error: z.object({
      code: z.string(),
      message: z.string(),
      retryable: z.boolean().default(false),
      retried: z.literal(true).optional(),
    }),
  }),
]);

/** Limit of a step, with a boot of the agent. */
export function limitWithBoot({ limitSeconds }: { readonly limitSeconds: number }): number {
  return limitSeconds + BOOT_LIMIT_SECONDS;
}

function limitOf<Args extends StepArgs>(call: AgentCall<Args>, work: AgentWork<Args>): number {
  return work.limitOf?.(call) ?? work.limitSeconds;
}

export async function throughAgent<Args extends StepArgs>(
  call: AgentCall<Args>,
  work: AgentWork<Args>,
): Promise<StepResult> {
  const memo = taskMemo.safeParse(call.memo).data?.task;
  if (!memo) return begin(call, work);
  const result = resultSchema.safeParse(call.callback).data;
  if (result) return ended(call, work, result);
  const agent = await openSessionOf(call);
  const lost = (reason: string): StepResult => ({
    kind: "failed",
    reason: `${work.what(call)}: ${reason}`,
    retryable: true,
    ...(work.worksAlone && { retried: true }),
    errorKind: "UNREACHABLE",
  });
  if (agent === null) return lost("the agent's session has ended.");
  const isSilent = silentSeconds(agent) > LOST_SECONDS;
  if (isSilent && memo.silentSince !== null && memo.silentSince === agent.seenAt)
    return lost(
      `the agent was last seen at ${agent.seenAt}. Look at the console: the machine may be off, restarted, or without network.`,
    );
  if (isOver(memo.until))
    return {
      kind: "failed",
      reason: `${work.what(call)}: the agent did not end within ${limitOf(call, work)} s.`,
      retryable: false,
      errorKind: "TIMEOUT",
    };
  return waitFor({ until: memo.until, silentSince: isSilent ? agent.seenAt : null });
}

async function begin<Args extends StepArgs>(call: AgentCall<Args>, work: AgentWork<Args>): Promise<StepResult> {
  const booted = await bootAgent(call).catch((error: unknown) => ({ result: unbooted(error) }));
  if ("result" in booted) return booted.result;
  const made = await work.task(call, booted.agent);
  if ("problem" in made) return refused(made.problem);
  await call.agent.assign(made);
  return waitFor({ until: secondsFromNow(limitOf(call, work)), silentSince: null });
}

function waitFor(task: z.output<typeof taskMemo>["task"]): StepResult {
  return { kind: "wait", callback: true, seconds: LOOK_SECONDS, memo: { task } };
}

function ended<Args extends StepArgs>(
  call: AgentCall<Args>,
  work: AgentWork<Args>,
  result: z.output<typeof resultSchema>,
): StepResult {
  if (result.ok) return { kind: "done", output: work.output(result.output, call) };
  let { message, retried } = result.error;
  if (work.hasPassed?.(result.error.code, call) === true) retried = undefined;
  for (const { text, by } of work.hidden?.(call) ?? []) if (text !== "") message = message.replaceAll(text, by);
  return taskFailure(work.what(call), { ...result.error, message, retried });
}
