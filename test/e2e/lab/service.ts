/** The service under test, as `npm start` runs it, with all its files in a folder. */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { closeSync, mkdirSync, openSync, readFileSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { eventually } from "../../support/eventually.ts";
import { HOST } from "./network.ts";

export interface Service extends AsyncDisposable {
  /** Address of the API. */
  readonly url: string;
  /** Of its first process; throws if it has not been started. */
  readonly pid: number;
  start(): Promise<void>;
  /** Shuts it down with SIGTERM; returns its exit code. */
  end(): Promise<number | null>;
  /** SIGKILL. */
  kill(): Promise<void>;
  /** Output and log of all its processes so far. */
  output(): string;
}

export interface ServiceSettings {
  readonly folder: string;
  /** With `src`, and its Node in `node_modules`. */
  readonly program: string;
  readonly agentFolder: string;
  /** 0 is any free port. */
  readonly port: number;
  /** Whether it has the driver `ansible`, with a project. */
  readonly withPlays: boolean;
}

const PROVISION_PORT = 4010;
export const PROVISION_URL = `http://${HOST}:${PROVISION_PORT}`;
const START_MS = 120_000;
const END_MS = 60_000;

const hasEnded = ({ exitCode, signalCode }: ChildProcess) => exitCode !== null || signalCode !== null;

export function createService(settings: ServiceSettings): Service {
  const log = join(settings.folder, "service.log");
  mkdirSync(join(settings.folder, "tmp"), { recursive: true });
  let child: ChildProcess | undefined;
  let url = "";
  const output = () => readFileSync(log, "utf8");
  const ended = async () => {
    const current = child;
    if (current === undefined) return null;
    await eventually("the service has ended", () => hasEnded(current), END_MS);
    return current.exitCode;
  };
  const service: Service = {
    get url() {
      return url;
    },
    get pid() {
      if (child?.pid === undefined) throw new Error("The service has not been started.");
      return child.pid;
    },
    async start() {
      const file = openSync(log, "a");
      const words = ["src/main.ts", "--plugins", `redfish,ipmi,agent,fake${settings.withPlays ? ",ansible" : ""}`];
      const started = spawn("node_modules/.bin/node", words, {
        cwd: settings.program,
        env: { ...environment(settings), ...(settings.withPlays && withProject(settings)) },
        stdio: ["ignore", "pipe", file],
      });
      child = started;
      let printed = "";
      started.stdout?.setEncoding("utf8").on("data", (text: string) => {
        printed += text;
        writeSync(file, text);
      });
      started.once("close", () => closeSync(file));
      const ready = () => {
        if (hasEnded(started)) throw new Error(`The service ended before it was ready: ${output().trim().slice(-800)}`);
        return /ready: (\S+)/.exec(printed)?.[1];
      };
      url = await eventually("the service is ready", ready, START_MS);
    },
    end() {
      child?.kill("SIGTERM");
      return ended();
    },
    async kill() {
      child?.kill("SIGKILL");
      await ended();
    },
    output,
    async [Symbol.asyncDispose]() {
      await service.end().catch(() => service.kill());
    },
  };
  return service;
}

/** A project that writes a variable to a file, and removes it. Its driver needs a user with a name, as SSH does. */
function withProject({ folder }: ServiceSettings): NodeJS.ProcessEnv {
  const project = join(folder, "project");
  mkdirSync(project, { recursive: true });
  const play = (name: string, task: object) =>
    writeFileSync(join(project, `${name}.yml`), JSON.stringify([{ hosts: "all", tasks: [task] }]));
  play("configure", { copy: { dest: "greeting", content: "{{ greeting }}" } });
  play("unconfigure", { file: { path: "greeting", state: "absent" } });
  return {
    ANSIBLE_DRIVER_PROJECT: project,
    OSTLER_DRIVER_USER: "service",
    OSTLER_BMC_NETWORKS: `127.0.0.0/8,${HOST}/24`,
  };
}

/** A minimal environment: variables of the caller have no effect on the service. */
function environment({ folder, agentFolder, port }: ServiceSettings): NodeJS.ProcessEnv {
  return {
    PATH: process.env["PATH"],
    TMPDIR: join(folder, "tmp"),
    OSTLER_BMC_NETWORKS: "127.0.0.0/8",
    OSTLER_DATA: join(folder, "data"),
    OSTLER_PORT: String(port),
    OSTLER_LOG: "debug",
    OSTLER_PROVISION_HOST: HOST,
    OSTLER_PROVISION_PORT: String(PROVISION_PORT),
    OSTLER_PROVISION_URL: PROVISION_URL,
    OSTLER_AGENT_DIR: agentFolder,
  };
}
