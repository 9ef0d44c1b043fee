/** TaskService and JobService, and answers that name a task. */
import type { Bmc } from "../bmc.ts";
import { ENABLED, ROOT, collection, link, messageBody, notFound, resource } from "../resource.ts";
import type { Answer, Body, Call, Route } from "../resource.ts";
import { hasEnded } from "../tasks.ts";
import type { Task, TaskState } from "../tasks.ts";
import type { Traits } from "../traits.ts";

const TASKS = "/TaskService/Tasks";
const MONITORS = "/TaskService/TaskMonitors";
const JOBS = "/JobService/Jobs";

const taskIds = ({ bmc }: Call) => bmc.tasks.list().flatMap(({ id }) => (taskAt(bmc, id) === undefined ? [] : [id]));

/** Some BMCs forget a task when it ends. */
function taskAt({ tasks, traits }: Bmc, id: string | undefined): Task | undefined {
  const found = tasks.find(id);
  return found && hasEnded(found) && traits.quirks.includes("tasks-vanish") ? undefined : found;
}

export const TASK_ROUTES: readonly Route[] = [
  {
    path: "/TaskService",
    get: ({ path }) =>
      resource("TaskService.v1_2_0", path, {
        Id: "TaskService",
        Name: "Task Service",
        ServiceEnabled: true,
        Status: ENABLED,
        Tasks: link(TASKS),
      }),
  },
  { path: TASKS, get: (call) => collection("Task", TASKS, taskIds(call)) },
  {
    path: `${TASKS}/*`,
    get: ({ bmc, params }) => taskBody(bmc, taskAt(bmc, params[0])),
    delete: ({ bmc, params, path }) => (bmc.tasks.cancel(params[0] ?? "") ? { status: 204 } : notFound(path)),
  },
  {
    path: "/JobService",
    offered: ({ jobs }) => jobs,
    get: ({ path }) =>
      resource("JobService.v1_0_4", path, {
        Id: "JobService",
        Name: "Job Service",
        ServiceEnabled: true,
        Status: ENABLED,
        Jobs: link(JOBS),
      }),
  },
  {
    path: JOBS,
    offered: ({ jobs }) => jobs,
    get: (call) => collection("Job", JOBS, call.bmc.state.tasksMoved ? [] : taskIds(call)),
  },
  {
    path: `${JOBS}/*`,
    offered: ({ jobs }) => jobs,
    get: ({ bmc, params }) => (bmc.state.tasksMoved ? null : jobBody(taskAt(bmc, params[0]))),
    delete: ({ bmc, params, path }) => (bmc.tasks.cancel(params[0] ?? "") ? { status: 204 } : notFound(path)),
  },
];

/** The answer 202 to a change that goes on as a task. */
export function taskAnswer(bmc: Bmc, id: string): Answer {
  const body = taskBody(bmc, bmc.tasks.find(id)) ?? {};
  if (bmc.traits.quirks.includes("answers-elsewhere"))
    return { status: 303, headers: { Location: `${ROOT}${TASKS}/${id}` } };
  switch (bmc.traits.update.taskIn) {
    case "location-of-task":
      return { status: 202, body, headers: { Location: `${ROOT}${TASKS}/${id}` } };
    case "location-of-monitor":
      return { status: 202, body, headers: { Location: `${ROOT}${MONITORS}/${id}` } };
    case "location-of-job":
      return { status: 202, headers: { Location: `${ROOT}${JOBS}/${id}` } };
    case "body":
      return { status: 202, body };
    case "body-of-200":
      return { status: 200, body };
    case "message": {
      const message = `The request is accepted. See ${ROOT}${TASKS}/${id} for its progress.`;
      return { status: 200, body: messageBody(bmc.traits, { messageId: "Success", message }) };
    }
  }
}

/** A monitor answers 202 while the task runs, and 200 or 500 after it. Null if the path is not one of a monitor. */
export function monitorAnswer(bmc: Bmc, path: string): Answer | null {
  if (!path.startsWith(`${MONITORS}/`)) return null;
  const task = taskAt(bmc, path.slice(MONITORS.length + 1));
  if (task === undefined || bmc.state.tasksMoved) return notFound(path);
  const body = taskBody(bmc, task) ?? {};
  const isShown = hasEnded(task) && !bmc.traits.quirks.includes("tasks-stay-running");
  if (!isShown) return { status: 202, body, headers: { "Retry-After": "1" } };
  return { status: task.state === "Completed" ? 200 : 500, body };
}

function taskBody({ traits }: Bmc, task: Task | undefined): Body | null {
  if (task === undefined) return null;
  return resource("Task.v1_7_0", `${TASKS}/${task.id}`, {
    Id: task.id,
    Name: task.name,
    TaskState: shownState(traits, task),
    TaskStatus: task.state === "Exception" ? "Critical" : "OK",
    PercentComplete: task.percent,
    StartTime: task.startedAt.toISOString(),
    ...(task.endedAt && !traits.quirks.includes("tasks-stay-running") ? { EndTime: task.endedAt.toISOString() } : {}),
    ...(traits.update.taskIn === "location-of-monitor" ? { TaskMonitor: `${ROOT}${MONITORS}/${task.id}` } : {}),
    Messages: task.messages.map(({ id, message, severity }) => ({
      MessageId: `TaskEvent.1.0.${id}`,
      Message: message,
      MessageSeverity: severity,
    })),
  });
}

/** The state as the quirks of the BMC show it. */
function shownState({ quirks }: Traits, { state }: Task): string | null {
  if (quirks.includes("tasks-without-state")) return null;
  if (quirks.includes("tasks-stay-running") && state === "Completed") return "Running";
  const words = quirks.includes("task-states-in-words") && WORDS[state];
  return words === undefined || words === false ? state : words;
}

const WORDS: Partial<Record<TaskState, string>> = {
  Completed: "Completed Successfully",
  Exception: "Completed with Errors",
};

function jobBody(task: Task | undefined): Body | null {
  if (task === undefined) return null;
  return resource("Job.v1_2_0", `${JOBS}/${task.id}`, {
    Id: task.id,
    Name: task.name,
    JobState: task.state === "Pending" ? "Scheduled" : task.state,
    JobStatus: task.state === "Exception" ? "Critical" : "OK",
    PercentComplete: task.percent,
    StartTime: task.startedAt.toISOString(),
    EndTime: task.endedAt?.toISOString() ?? null,
    Messages: task.messages.map(({ id, message }) => ({ MessageId: id, Message: message })),
  });
}
