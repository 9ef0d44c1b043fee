/**
 * One run of ansible-playbook on one node, from the files that it needs to its outcome. A node has one folder on a
 * machine, in which its newest run holds: an earlier one, whose worker was killed or paused, is ended first.
 */
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Json, StepCall } from "../../src/drivers/driver.ts";
import { bmcName } from "../bmc-settings.ts";
import { AnsibleError, lastLine, loginFailure } from "./failure.ts";
import { KEY_REFUSED, SUPERSEDED, endRun, runGuarded } from "./guarded-program.ts";
import type { ProgramEnd } from "./guarded-program.ts";
import type { AnsibleSettings } from "./settings.ts";
import { CONNECT_SECONDS, addressOf, driverFolder, firstUseFile, keyRefused, sshOptions } from "./ssh.ts";

const OWN = dirname(fileURLToPath(import.meta.url));
const HOST_GROUP = "host_group";

export interface PlayRequest {
  /** Absolute path. */
  readonly playbook: string;
  /** Working folder, whose ansible.cfg counts. */
  readonly folder: string;
  /** Limit of the data that `set_stats` returns, in characters of JSON. */
  readonly outputMax: number;
}

/** A line that the callback reports (callback/ostler_events.py). */
type PlayEvent =
  | { readonly event: "play" | "task"; readonly name: string }
  | {
      readonly event: "result";
      readonly status: "ok" | "changed" | "skipped" | "ignored" | "failed" | "unreachable";
      readonly host: string;
      readonly task: string;
      readonly reason?: Readonly<Record<string, string>>;
    }
  | { readonly event: "skipped" }
  /** `plays`: those that were for the node. */
  | { readonly event: "end"; readonly plays: number; readonly size: number; readonly output: Json };

type ResultEvent = Extract<PlayEvent, { event: "result" }>;

/** The events that decide the outcome of a run. */
interface Report {
  failed?: ResultEvent;
  unreachable?: ResultEvent;
  end?: Extract<PlayEvent, { event: "end" }>;
}

/**
 * Runs the playbook for the node. Returns the data of `set_stats`. Throws an `AnsibleError`, or the signal's reason.
 */
export async function runPlay(call: StepCall<AnsibleSettings>, request: PlayRequest): Promise<Json> {
  const { node, settings, signal } = call;
  const files = driverFolder();
  const folder = join(files, node.id.replaceAll("-", ""));
  const holder = await takeOver(call, join(files, `${node.id}.holder`));
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(join(folder, "tmp"), { recursive: true });
  const pipe = join(folder, "variables");
  const report: Report = {};
  try {
    const ended = await call.timed("ansible-playbook", () =>
      runGuarded({
        words: [
          "ansible-playbook",
          `--inventory=${join(OWN, "inventory.sh")}`,
          `--limit=${node.name}`,
          `--extra-vars=@${pipe}`,
          "--",
          request.playbook,
        ],
        environment: environmentOf(folder, request),
        folder: request.folder,
        run: node.id,
        holder,
        input: JSON.stringify(inventoryOf(call, folder)),
        secondInput: { text: JSON.stringify(asData(call.variables)), pipe },
        ...(settings.privateKey !== undefined && {
          identity: { privateKey: settings.privateKey, socket: join(folder, "agent") },
        }),
        onEvent: (line) => note(call, report, line),
        signal,
      }),
    );
    return outcomeOf(call, request, { ended, report });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * Makes this run the one that holds the node on this machine, and ends what is left of earlier ones. A run that was
 * paused before it began finds the token of the newer one, and does not begin (guard.sh).
 */
async function takeOver({ node, attemptKey, fence }: StepCall<AnsibleSettings>, file: string) {
  const token = `${attemptKey} ${fence}`;
  const [otherKey, otherFence] = existsSync(file) ? readFileSync(file, "utf8").split(" ") : [];
  if (otherKey === attemptKey && Number(otherFence) > fence) throw superseded(node.name);
  writeFileSync(`${file}.${process.pid}`, token);
  renameSync(`${file}.${process.pid}`, file);
  if (!(await endRun(node.id)))
    throw new AnsibleError(
      "OTHER",
      `An earlier run of ansible-playbook on node ${node.name} could not be ended. Look for processes of the service's machine with OSTLER_ANSIBLE_RUN=${node.id} in their environment.`,
      { retryable: true },
    );
  return { file, token };
}

function superseded(name: string): AnsibleError {
  return new AnsibleError("OTHER", `Another process has begun this step on node ${name}.`, { retryable: true });
}

/** Nothing of the service's environment, and of the settings of Ansible only what the driver depends on. */
function environmentOf(folder: string, { folder: project, outputMax }: PlayRequest): Readonly<Record<string, string>> {
  return {
    HOME: folder,
    ANSIBLE_LOCAL_TEMP: join(folder, "tmp"),
    ANSIBLE_SSH_CONTROL_PATH_DIR: folder,
    // Otherwise its own limit of 10 seconds counts.
    ...(!decides(project, "timeout") && { ANSIBLE_TIMEOUT: String(CONNECT_SECONDS) }),
    ANSIBLE_CALLBACK_PLUGINS: join(OWN, "callback"),
    ANSIBLE_STDOUT_CALLBACK: "ostler_events",
    ANSIBLE_INVENTORY_ENABLED: "script",
    ANSIBLE_HOST_KEY_CHECKING: "True",
    ANSIBLE_RETRY_FILES_ENABLED: "False",
    ANSIBLE_NOCOLOR: "True",
    // Modules and their arguments reach the node by the connection, and are in no file on either machine.
    ...(!decides(project, "pipelining") && { ANSIBLE_PIPELINING: "True" }),
    // Neither this folder nor the project is changed by a run.
    PYTHONDONTWRITEBYTECODE: "1",
    OSTLER_ANSIBLE_OUTPUT_MAX: String(outputMax),
  };
}

/** Whether the settings of Ansible for a folder decide on something; it skips a file that it cannot read. */
function decides(folder: string, name: string): boolean {
  for (const file of [join(folder, "ansible.cfg"), "/etc/ansible/ansible.cfg"]) {
    try {
      return new RegExp(`^\\s*${name}\\s*[=:]`, "m").test(readFileSync(file, "utf8"));
    } catch {
      // The next one counts.
    }
  }
  return false;
}

/** The node alone, in its host group. */
function inventoryOf(call: StepCall<AnsibleSettings>, folder: string): Json {
  const { node, settings, variables } = call;
  const { password, becomePassword } = settings;
  const group = variables[HOST_GROUP];
  const options = sshOptions(settings, folder, firstUseFile(node.id)).map((word) => `'${word}'`);
  const host = {
    ansible_connection: "ssh",
    ansible_host: addressOf(call),
    ansible_port: settings.port,
    ansible_user: settings.username,
    ansible_ssh_common_args: options.join(" "),
    ...(password !== undefined && { ansible_password: text(password) }),
    ...(becomePassword !== undefined && { ansible_become_password: text(becomePassword) }),
  };
  return {
    all: { hosts: [node.name] },
    ...(typeof group === "string" && { [group]: { hosts: [node.name] } }),
    _meta: { hostvars: { [node.name]: host } },
  };
}

/** Ansible would evaluate templates in variables, which callers of the API write. */
function asData(variables: Readonly<Record<string, Json>>): Json {
  return Object.fromEntries(Object.entries(variables).map(([name, value]) => [name, text(value)]));
}

function text(value: Json): Json {
  return { __ansible_unsafe: value };
}

/** Takes an event: its line in the step log, and what decides the outcome. */
function note(call: StepCall<AnsibleSettings>, report: Report, line: string): void {
  const event = parseEvent(line);
  switch (event?.event) {
    case "play":
      return call.log(`PLAY ${event.name}`);
    case "task":
      call.progress(0, event.name);
      return call.log(`TASK ${event.name}`);
    case "result": {
      const reason = event.reason === undefined ? "" : `: ${reasonIn(event)}`;
      const where = event.host === call.node.name ? "" : ` on ${event.host}`;
      call.log(`${event.status}${where}${reason}`);
      if (event.status === "failed") report.failed ??= event;
      if (event.status === "unreachable") report.unreachable ??= event;
      return;
    }
    case "end":
      report.end = event;
      return;
    case "skipped":
      return call.log("skipped: it is for other host groups");
    case undefined:
      return;
  }
}

function parseEvent(line: string): PlayEvent | null {
  try {
    return JSON.parse(line) as PlayEvent;
  } catch {
    return null;
  }
}

function reasonIn({ reason = {} }: ResultEvent): string {
  return Object.values(reason)
    .map((one) => one.trim())
    .join("\n")
    .slice(0, 2_000);
}

/** The data of `set_stats`, or the failure that the end of the program stands for. */
function outcomeOf(
  { node, settings, variables }: StepCall<AnsibleSettings>,
  { playbook, outputMax }: PlayRequest,
  { ended, report }: { readonly ended: ProgramEnd; readonly report: Report },
): Json {
  const host = bmcName(settings);
  if (ended.code === KEY_REFUSED) throw keyRefused(host, ended.stderr);
  if (ended.code === SUPERSEDED) throw superseded(node.name);
  if (report.unreachable) throw loginFailure(host, reasonIn(report.unreachable));
  if (report.failed) throw taskFailure(node.name, report.failed);
  if (ended.code === null)
    throw new AnsibleError("OTHER", `ansible-playbook was killed while it ran for node ${node.name}.`, {
      retryable: true,
    });
  if (ended.code !== 0) throw new AnsibleError("OTHER", `${playbook} cannot be run: ${errorIn(ended)}`);
  const { end } = report;
  if (!end || end.plays === 0) {
    const group = variables[HOST_GROUP];
    const place = typeof group === "string" ? `in host group ${group}` : "without a host group";
    throw new AnsibleError(
      "REFUSED",
      `No play of ${playbook} is for node ${node.name} ${place}. Let a play have its group, or all, as hosts.`,
    );
  }
  if (end.size > outputMax)
    throw new AnsibleError(
      "REFUSED",
      `The data of set_stats in ${playbook} has ${end.size} characters, and at most ${outputMax} are kept. Return less.`,
    );
  return end.output;
}

const NO_PYTHON =
  /interpreter \S+ was not found|python[0-9.]*: (command not found|not found|Permission denied)|No such file.*python/i;

function taskFailure(name: string, failed: ResultEvent): AnsibleError {
  const reason = reasonIn(failed);
  if (NO_PYTHON.test(reason))
    return new AnsibleError(
      "REFUSED",
      `Node ${name} has no Python, which the task "${failed.task}" needs. Install it with the image, or in a task with the module raw and gather_facts: false.`,
    );
  return new AnsibleError("OTHER", `Task "${failed.task}" failed on node ${name}: ${reason || "it gave no reason"}`);
}

/** Ansible prints warnings before the error, and the place in the file after it. */
function errorIn({ stderr, code }: ProgramEnd): string {
  const at = stderr.lastIndexOf("ERROR!");
  if (at < 0) return `exit code ${code}${lastLine(stderr) && `, "${lastLine(stderr)}"`}.`;
  return stderr
    .slice(at + "ERROR!".length)
    .trim()
    .slice(0, 1_500);
}
