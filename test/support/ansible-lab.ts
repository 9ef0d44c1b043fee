/**
 * The driver `ansible` with stand-ins of Ansible and SSH, for tests: a project, and a server that greets as SSH does.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { once } from "node:events";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import factory from "../../plugins/ansible/index.ts";
import { ansibleSettings } from "../../plugins/ansible/settings.ts";
import type { AnsibleSettings } from "../../plugins/ansible/settings.ts";
import type { Driver, StepCall } from "../../src/drivers/driver.ts";
import { stepCallOf } from "./step-call.ts";

const PROGRAMS = fileURLToPath(new URL("ansible-programs", import.meta.url));
export const PRIVATE_KEY = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0LWtleS1vZi10aGUtbGFi\n-----END PRIVATE KEY-----\n";

export interface AnsibleLab extends AsyncDisposable {
  readonly folder: string;
  readonly project: string;
  readonly port: number;
  /** Lines of the step log. */
  readonly lines: string[];
  /** Writes a playbook of the stand-in, a shell script. */
  play(name: string, script: string): void;
  driver(): Promise<Driver<AnsibleSettings>>;
  settings(change?: object): AnsibleSettings;
  /** The first call of a step, for a node of its own. */
  call(change?: Partial<StepCall<AnsibleSettings>>): StepCall<AnsibleSettings>;
  /** Enters a step. */
  run(step: string, call?: StepCall<AnsibleSettings>): ReturnType<ReturnType<typeof stepOf>["run"]>;
}

export async function ansibleLab(): Promise<AnsibleLab> {
  // Sockets of ssh need a short path.
  const folder = mkdtempSync("/tmp/ostler-play-");
  const project = join(folder, "project");
  mkdirSync(project);
  const before = {
    PATH: process.env["PATH"],
    project: process.env["ANSIBLE_DRIVER_PROJECT"],
    tmp: process.env["TMPDIR"],
  };
  process.env["PATH"] = `${PROGRAMS}${delimiter}${before.PATH}`;
  process.env["ANSIBLE_DRIVER_PROJECT"] = project;
  // The folder of the driver is below it.
  process.env["TMPDIR"] = folder;
  const server = createServer((socket) => socket.on("error", () => {}).end("SSH-2.0-stand-in\r\n")).listen(
    0,
    "127.0.0.1",
  );
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const lines: string[] = [];
  const play = (name: string, script: string) => writeFileSync(join(project, `${name}.yml`), script);
  for (const name of ["configure", "unconfigure", "reset"]) play(name, "ended");
  let calls = 0;
  const settings = (change: object = {}) =>
    ansibleSettings.parse({ address: "127.0.0.1", port, privateKey: PRIVATE_KEY, ...change });
  const call = (change: Partial<StepCall<AnsibleSettings>> = {}): StepCall<AnsibleSettings> => {
    calls += 1;
    const id = `00000000-0000-4000-8000-${String(process.pid).padStart(8, "0")}${String(calls).padStart(4, "0")}`;
    return {
      ...stepCallOf<AnsibleSettings>(
        {
          node: { id, name: `n${calls}`, powerState: "UNKNOWN", labels: {} },
          settings: settings(),
          signal: AbortSignal.timeout(30_000),
          deadline: new Date(Date.now() + 30_000),
          log: (line) => void lines.push(line),
          timed: (_name, work) => work(),
        },
        `run:${calls}`,
      ),
      ...change,
    };
  };
  return {
    folder,
    project,
    port,
    lines,
    play,
    settings,
    call,
    driver: async () => factory({ log: () => {} }),
    run: async (step, made = call()) => stepOf(await factory({ log: () => {} }), step).run(made),
    async [Symbol.asyncDispose]() {
      restore("PATH", before.PATH);
      restore("ANSIBLE_DRIVER_PROJECT", before.project);
      restore("TMPDIR", before.tmp);
      server.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** The options of the conformance suite, without the factory. `port`: of the lab. */
export function ansibleMachine(port: number) {
  const login = { privateKey: PRIVATE_KEY, hostKey: "FIRST_USE", port };
  const refused = { ...login, username: "refused" };
  return {
    settings: { ...login, address: "127.0.0.1" },
    live: true,
    liveSeconds: 20,
    steps: (["check_system", "configure"] as const).map((step) => ({ interface: "deploy" as const, step })),
    refused: { ...refused, address: "127.0.0.1" },
    discovery: { settings: login, address: "127.0.0.1", refused, dead: "127.0.0.2" },
  };
}

export function stepOf({ inspect, clean, deploy }: Driver<AnsibleSettings>, name: string) {
  const all = [inspect, clean, deploy].flatMap((one) => one?.steps ?? []);
  const found = all.find((step) => step.name === name);
  if (!found) throw new Error(`The driver ansible has no step ${name}.`);
  return found;
}

function restore(name: string, value: string | undefined): void {
  if (value === undefined) delete process.env[name];
  else process.env[name] = value;
}
