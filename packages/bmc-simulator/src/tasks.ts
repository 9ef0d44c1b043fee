/**
 * Tasks of one BMC.
 *
 * New → Starting → Running, in steps of a fifth of the duration, then Completed or Exception. A held task stays
 * Starting or Pending until it is released, and a stuck one stays Running.
 */
import type { Timers } from "./timers.ts";

export type TaskState = "New" | "Starting" | "Pending" | "Running" | "Completed" | "Exception" | "Cancelled";

export interface TaskMessage {
  readonly id: string;
  readonly message: string;
  readonly severity: "OK" | "Warning" | "Critical";
}

export interface Task {
  readonly id: string;
  readonly name: string;
  readonly startedAt: Date;
  state: TaskState;
  percent: number;
  endedAt: Date | null;
  messages: readonly TaskMessage[];
}

/** Null after success, otherwise why the task failed. */
export type TaskFailure = string | null;

export interface TaskWork {
  readonly name: string;
  /** Before the first step, such as the download of an image. */
  readonly prepare?: () => Promise<TaskFailure>;
  /** After the last step. */
  readonly finish?: () => TaskFailure;
  /** The task waits for `release`; it is Starting, or Pending until a reset of the system. */
  readonly held?: boolean | "Pending";
}

export interface TaskStore {
  start(work: TaskWork): Task;
  /** Lets a held task run. */
  release(id: string): void;
  find(id: string | undefined): Task | undefined;
  cancel(id: string): boolean;
  list(): readonly Task[];
  /** Their work goes on. */
  forgetAll(): void;
}

export interface TaskSettings {
  readonly timers: Timers;
  readonly taskMs: number;
  /** IDs as job IDs, such as JID_000000000001. */
  readonly jobs: boolean;
  readonly isStuck: () => boolean;
  readonly onChange: (task: Task) => void;
}

const KEPT_MAX = 50;
const STEPS = 5;
const STUCK_AT_STEP = 2;

const ENDED: readonly TaskState[] = ["Completed", "Exception", "Cancelled"];

export const hasEnded = ({ state }: Task): boolean => ENDED.includes(state);

export function createTasks(settings: TaskSettings): TaskStore {
  let tasks: readonly Task[] = [];
  let made = 0;
  const held = new Map<string, () => void>();
  const change = (task: Task, state: TaskState, message?: TaskMessage) => {
    task.state = state;
    if (message) task.messages = [...task.messages, message];
    if (hasEnded(task)) task.endedAt = new Date();
    settings.onChange(task);
  };
  const end = (task: Task, failure: TaskFailure) => {
    if (hasEnded(task)) return;
    if (failure !== null)
      return change(task, "Exception", { id: "TaskAborted", message: failure, severity: "Critical" });
    task.percent = 100;
    change(task, "Completed", { id: "TaskCompletedOK", message: `${task.name} has completed.`, severity: "OK" });
  };
  const step = (task: Task, work: TaskWork, number: number) => {
    if (hasEnded(task)) return;
    if (number === STEPS) return end(task, work.finish?.() ?? null);
    task.percent = (number * 100) / STEPS;
    if (number === 0)
      change(task, "Running", { id: "TaskStarted", message: `${task.name} has started.`, severity: "OK" });
    if (number === STUCK_AT_STEP && settings.isStuck()) return;
    settings.timers.after(settings.taskMs / STEPS, () => step(task, work, number + 1));
  };
  const run = async (task: Task, work: TaskWork) => {
    const failure = (await work.prepare?.()) ?? null;
    if (failure === null) step(task, work, 0);
    else end(task, failure);
  };
  return {
    start(work) {
      made += 1;
      const id = settings.jobs ? `JID_${String(made).padStart(12, "0")}` : String(made);
      const task: Task = {
        id,
        name: work.name,
        startedAt: new Date(),
        state: "New",
        percent: 0,
        endedAt: null,
        messages: [],
      };
      tasks = [...tasks.slice(1 - KEPT_MAX), task];
      const isHeld = work.held === true || work.held === "Pending";
      change(task, isHeld ? (work.held === true ? "Starting" : "Pending") : "New");
      if (isHeld) held.set(id, () => void run(task, work));
      else void run(task, work);
      return task;
    },
    release(id) {
      held.get(id)?.();
      held.delete(id);
    },
    find: (id) => tasks.find((task) => task.id === id),
    cancel(id) {
      const task = tasks.find((one) => one.id === id);
      if (task === undefined) return false;
      held.delete(id);
      if (!hasEnded(task)) change(task, "Cancelled");
      tasks = tasks.filter((one) => one !== task);
      return true;
    },
    list: () => tasks,
    forgetAll() {
      tasks = [];
    },
  };
}
