/** Answers of a BMC that the driver `redfish` takes for the end of a task, of its monitor and of the task itself. */
import { createServer } from "node:http";
import { afterAll, expect, test } from "vitest";
import { RedfishService } from "../../plugins/redfish/service.ts";
import { redfishSettings } from "../../plugins/redfish/settings.ts";
import { readTask } from "../../plugins/redfish/task.ts";

type Answer = readonly [status: number, body: unknown];

/** Answers by path; a path that is not named is missing. */
let answers: Readonly<Record<string, Answer>> = {};
const server = createServer((request, response) => {
  const [status, body] = answers[(request.url ?? "").toLowerCase()] ?? [404, "<html>Not found</html>"];
  response.writeHead(status).end(typeof body === "string" ? body : JSON.stringify(body));
});
await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
afterAll(() => server.close());

const MONITOR = "/redfish/v1/taskservice/taskmonitors/jid_7";
const TASK = "/redfish/v1/taskservice/tasks/jid_7";
const LOGIN = { "/redfish/v1/": [200, {}] } as const;

async function read(given: Readonly<Record<string, Answer>>, named = [MONITOR]): Promise<string> {
  answers = { ...LOGIN, ...given };
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  const service = new RedfishService(
    {
      settings: redfishSettings.parse({ address: "127.0.0.1", port, scheme: "HTTP", username: "u", password: "p" }),
      signal: new AbortController().signal,
      deadline: new Date(Date.now() + 10_000),
      log: () => {},
      timed: (_name, work) => work(),
    },
    undefined,
  );
  try {
    return (await readTask(service, named)).kind;
  } finally {
    await service.close();
  }
}

const message = (key: string, more = {}) => ({
  error: {
    code: `Base.1.8.${key}`,
    message: key,
    "@Message.ExtendedInfo": [{ MessageId: `Base.1.8.${key}`, ...more }],
  },
});
const task = (TaskState: string, more = {}) => ({ "@odata.type": "#Task.v1_7_0.Task", TaskState, ...more });
const of = (type: string) => ({ "@odata.type": `#${type}.v1_0_0.${type}`, "@odata.id": "/redfish/v1/x" });

test.each<[string, Answer, string]>([
  ["202 without a body", [202, ""], "RUNNING"],
  ["a state of a vendor", [200, task("Frobnicating")], "RUNNING"],
  ["a job that waits", [200, { JobState: "Scheduled" }], "RUNNING"],
  ["a completed task", [200, task("Completed")], "SUCCEEDED"],
  ["a completed task in lower case", [200, task("completed")], "SUCCEEDED"],
  ["a task that completed with a critical status", [200, task("Completed", { TaskStatus: "Critical" })], "FAILED"],
  ["a task that failed, with status 500", [500, task("Exception")], "FAILED"],
  ["a job that completed with errors", [200, { JobState: "CompletedWithErrors" }], "FAILED"],
  ["a job whose restart failed", [200, { JobState: "RebootFailed" }], "FAILED"],
  ["a job that has restarted the machine", [200, { JobState: "RebootCompleted" }], "SUCCEEDED"],
  ["a task that was aborted", [200, task("Aborted")], "FAILED"],
  ["204 without a body", [204, ""], "SUCCEEDED"],
  ["a message of success", [200, message("Success")], "SUCCEEDED"],
  ["the changed resource", [200, of("Bios")], "SUCCEEDED"],
  ["a message about the operation", [400, message("PropertyValueNotInList")], "FAILED"],
  ["an error about the operation with status 500", [500, message("ImageTransferFailed")], "FAILED"],
  ["a critical message with status 200", [200, message("ApplyFailed", { Severity: "Critical" })], "FAILED"],
  ["an internal error", [500, message("InternalError")], "UNKNOWN"],
  ["a general error without a reason", [400, message("GeneralError")], "UNKNOWN"],
  ["a lost session with status 400", [400, message("NoValidSession")], "UNKNOWN"],
  ["a lost session with status 200", [200, message("NoValidSession")], "UNKNOWN"],
  ["a lack of rights", [403, message("InsufficientPrivilege")], "UNKNOWN"],
  ["a refusal in a restart", [503, message("ServiceTemporarilyUnavailable")], "UNKNOWN"],
  ["a gateway with an error of Redfish", [502, message("PropertyValueNotInList")], "UNKNOWN"],
  ["a page", [200, "<html></html>"], "UNKNOWN"],
  ["an empty answer", [200, ""], "UNKNOWN"],
  ["JSON that is cut", [200, '{"TaskState":"Compl'], "UNKNOWN"],
  ["a list", [200, [task("Completed")]], "UNKNOWN"],
  ["the service root", [200, of("ServiceRoot")], "UNKNOWN"],
  ["a collection", [200, { "@odata.type": "#TaskCollection.TaskCollection", "@odata.id": "/x" }], "UNKNOWN"],
  ["a task without a state", [200, of("Task")], "UNKNOWN"],
  ["nothing", [404, ""], "GONE"],
  ["a missing resource", [410, message("ResourceMissingAtURI")], "GONE"],
])("monitor of a task that answers with %s was taken for another state of it [R-770]", async (_what, answer, kind) => {
  expect(await read({ [MONITOR]: answer })).toBe(kind);
});

test.each([
  ["at its own place", TASK],
  ["among the jobs", "/redfish/v1/jobservice/jobs/jid_7"],
  ["among the jobs of a manager", "/redfish/v1/managers/bmc/jobs/jid_7"],
])("task that the BMC has %s only was taken for forgotten [R-770]", async (_where, path) => {
  const managers = { Members: [{ "@odata.id": "/redfish/v1/managers/bmc" }] };
  const given = { "/redfish/v1/managers": [200, managers], [path]: [200, task("Running")] } as const;
  expect(await read(given)).toBe("RUNNING");
  expect(await read({ ...given, [MONITOR]: [500, "<html></html>"] })).toBe("RUNNING");
});

test("another task with the same number, of another service, was taken for the task [R-770]", async () => {
  const given = { "/redfish/v1/jobservice/jobs/7": [200, { JobState: "Completed" }] } as const;
  expect(await read(given, ["/redfish/v1/TaskService/Tasks/7"])).toBe("GONE");
});

test("an error at a place where the BMC does not have the task was taken for its end [R-770]", async () => {
  expect(await read({ [TASK]: [400, message("PropertyValueNotInList")] })).toBe("UNKNOWN");
});
