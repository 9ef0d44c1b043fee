/** Decides the answer to a poll of an agent. */
import { cancels } from "../../lifecycle/interrupts.ts";
import type { AgentSessionView } from "../../store/runs/agent-sessions.ts";
import type { StoredTask } from "../../store/records.ts";
import type { AgentOrder, AgentReport } from "./agents.ts";

export const IDLE_SECONDS = 2;
const POWER_OFF: AgentOrder = { do: "power_off" };

/** The task of a session whose attempt still waits for it; null if there is none. */
export function currentTask({ session: { task }, run, attempt, isOver }: AgentSessionView): StoredTask | null {
  if (isOver || task === null || attempt === null) return null;
  const isUnderWay = attempt.state === "RUNNING" || attempt.state === "WAITING";
  const isAborted =
    attempt.part === "ABORT" ||
    run.interruptFailure !== null ||
    (run.interrupt === "ABORT" && cancels(run.interruptMode, task.interruptible));
  return isUnderWay && !isAborted && run.position === task.step ? task : null;
}

export function orderFor(view: AgentSessionView, { task: reported }: Pick<AgentReport, "task">): AgentOrder {
  const { leftAs } = view.run;
  const failure = view.run.interruptFailure ?? view.attempt?.failure;
  // A machine that is left alone, or may be about to be: drives that erase themselves are not cut off.
  const isLeftAlone = view.isOver ? leftAs?.mayBeWorking === true : failure && failure.atRest !== true;
  if (reported && isLeftAlone) return { do: "continue" };
  if (view.isOver) return POWER_OFF;
  const task = currentTask(view);
  if (reported) return { do: reported.id === task?.id ? "continue" : "cancel" };
  if (!task) return { do: "wait", seconds: IDLE_SECONDS };
  const { id, kind, args } = task;
  return { do: "task", task: { id, kind, args } };
}
