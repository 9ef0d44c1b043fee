/**
 * Work of machines that must not be cut: an engine performs each step of the driver `redfish` that begins some, on
 * simulated BMCs, while something else than the task answers at one of its polls, or at all of them.
 */
import { PRESETS, startBmc } from "../../packages/bmc-simulator/src/index.ts";
import type { Fault, SimulatedBmc, Traits } from "../../packages/bmc-simulator/src/index.ts";
import createRedfish from "../../plugins/redfish/index.ts";
import type { RedfishSettings } from "../../plugins/redfish/settings.ts";
import type { Driver, Json } from "../../src/drivers/driver.ts";
import { engineUnderTest } from "./builders.ts";
import { eventually } from "./eventually.ts";
import { driverMemory, serveImages } from "./redfish.ts";

const TASK_MS = 450;
const POLL_SECONDS = 0.05;
/** Timeout of the steps whose task is never reported. Their work must have begun by then, on a busy machine too. */
const BRIEF_SECONDS = 4;

/** Called before each entry of a step, by the name of the node; returns what ends its effect. */
const hooks = new Map<string, (entry: number) => Promise<() => void>>();
const entries = new Map<string, number>();

/** The driver with short waits. `timeoutSeconds`: of each step, in place of its own. */
function brisk(driver: Driver<RedfishSettings>, name: string, timeoutSeconds?: number): Driver<never> {
  const steps = driver.clean?.steps.map((step) => ({
    ...step,
    ...(timeoutSeconds !== undefined && { timeoutSeconds }),
    async run(call: Parameters<typeof step.run>[0]) {
      const entry = entries.get(call.node.name) ?? 0;
      entries.set(call.node.name, entry + 1);
      const end = await hooks.get(call.node.name)?.(entry);
      const result = await step.run(call);
      end?.();
      return result.kind === "wait" ? { ...result, seconds: POLL_SECONDS } : result;
    },
  }));
  return { ...driver, name, clean: { supportsAbort: true, steps: steps ?? [] } } as unknown as Driver<never>;
}

const redfish = await createRedfish({ log: () => {}, memory: driverMemory() });
const ostler = await engineUnderTest({
  concurrency: 64,
  drivers: [brisk(redfish, "redfish"), brisk(redfish, "brief", BRIEF_SECONDS)],
});
const images = await serveImages();
const bmcs: SimulatedBmc[] = [];

export async function closeCutLab(): Promise<void> {
  await ostler[Symbol.asyncDispose]();
  await images[Symbol.asyncDispose]();
  await Promise.all(bmcs.map((bmc) => bmc.close()));
}

export interface Work {
  readonly step: string;
  readonly traits: Partial<Traits>;
  readonly args?: Readonly<Record<string, Json>>;
  /** Where the BMC reports the task. */
  readonly at: string;
  /** Changes of the power that belong to the work, and begin its task. */
  readonly own?: readonly string[];
  /** Whether the work is done. */
  readonly isDone: (bmc: SimulatedBmc) => boolean;
}

const bios = { components: [{ id: "BIOS", url: `${images.url}/BIOS/2.0.0`, version: "2.0.0" }] };
const idrac = PRESETS["idrac-like"];
const isUpdated = ({ state }: SimulatedBmc) => state.versions["BIOS"] === "2.0.0";
const volume = { controller: "RAID.1", raidType: "RAID1", drives: ["Disk.0", "Disk.1"], capacityBytes: 1 };

export const WORKS: Readonly<Record<string, Work>> = {
  "update_firmware by SimpleUpdate": {
    step: "update_firmware",
    traits: idrac,
    args: bios,
    at: "/Jobs/",
    isDone: isUpdated,
  },
  "update_firmware by multipart push": {
    step: "update_firmware",
    traits: { update: { ...PRESETS.reference.update, simple: false } },
    args: bios,
    at: "/TaskMonitors/",
    isDone: isUpdated,
  },
  apply_bios_settings: {
    step: "apply_bios_settings",
    traits: idrac,
    args: { settings: { SriovGlobalEnable: "Enabled" } },
    own: ["The power of the system is Off.", "The system boots from Hdd."],
    at: "/Jobs/",
    isDone: ({ state }) => state.bios["SriovGlobalEnable"] === "Enabled",
  },
  secure_erase: {
    step: "secure_erase",
    traits: {},
    at: "/TaskMonitors/",
    isDone: ({ state, system }) => Object.keys(state.erased).length === system.drives.length,
  },
  reset_raid: { step: "reset_raid", traits: idrac, at: "/Jobs/", isDone: ({ state }) => state.volumes.length === 0 },
};

/** Answers in place of the task. */
export const ANSWERS: Readonly<Record<string, Fault>> = {
  "a gateway's 502": { kind: "answer", status: 502, body: "page" },
  "a gateway's 503": { kind: "answer", status: 503, body: "page" },
  "a gateway's 504": { kind: "answer", status: 504, body: "page" },
  "an internal error": { kind: "answer", status: 500, body: "error" },
  "a page with status 500": { kind: "answer", status: 500, body: "page" },
  "a page with status 400": { kind: "answer", status: 400, body: "page" },
  "a refused login": { kind: "answer", status: 401, body: "none" },
  "a lost session": { kind: "lost-session" },
  "a lack of rights": { kind: "answer", status: 403, body: "error" },
  "status 404": { kind: "answer", status: 404, body: "page" },
  "status 410": { kind: "answer", status: 410, body: "none" },
  "status 429": { kind: "answer", status: 429, body: "none" },
  "a page with status 200": { kind: "answer", status: 200, body: "page" },
  "an empty answer": { kind: "answer", status: 200, body: "none" },
  "JSON that is not of Redfish": { kind: "answer", status: 200, body: "object" },
  "a list": { kind: "answer", status: 200, body: "list" },
  "JSON that is cut": { kind: "malformed" },
  "a redirect to another host": { kind: "redirect", to: "http://127.0.0.9:80" },
  "a redirect to a login page": { kind: "login-page" },
  "a reset of the connection": { kind: "reset" },
};

/** A machine that is on, and has something to remove. */
async function aMachine(work: Work, driver: string, taskMs = TASK_MS) {
  const timing = { powerOnMs: 20, powerOffMs: 20, bootMs: 20, restartMs: 200, taskMs };
  const bmc = await startBmc({ traits: work.traits, timing });
  bmcs.push(bmc);
  bmc.state.power = "On";
  bmc.state.volumes = [{ id: "1", name: "one", ...volume }];
  const { hostname, port } = new URL(bmc.url);
  const { userName: username, password } = bmc.credentials;
  const settings = { address: hostname, port: Number(port), scheme: "HTTP", username, password };
  const node = await ostler.aNode().in("AVAILABLE").with(driver, settings).made();
  await ostler.test.sql`update nodes set power_state = 'ON' where id = ${node.id}`;
  return { bmc, node };
}

type Machine = Awaited<ReturnType<typeof aMachine>>;

const begin = ({ node }: Machine, { step: name, args = {} }: Work) =>
  ostler.begin("CLEAN", [node], { options: { steps: [{ interface: "clean", name, args }] } });

/** Changes of the power before the last task had ended, but for the one that belongs to the work. */
function cutsOf({ bmc }: Machine, { own = [] }: Work): string[] {
  const lines = bmc.state.log.map(({ message }) => message);
  const before = lines.slice(0, lines.findLastIndex((line) => line.endsWith(" is Completed.")) + 1);
  const changes = before.filter((line) => /is Off\.|boots from/.test(line));
  return changes.slice(0, own.length).join() === own.join() ? changes.slice(own.length) : changes;
}

const hasEnded = ({ bmc }: Machine) => bmc.state.log.some(({ message }) => message.endsWith("is Completed."));

/** Which entries of the step meet the fault; entry 0 begins the work. */
export const MOMENTS: Readonly<Record<string, (machine: Machine, entry: number) => boolean>> = {
  "at the first poll": (_, entry) => entry === 1,
  "in the middle": (_, entry) => entry >= 3 && entry <= 5,
  "after the end": (machine, entry) => entry >= 1 && hasEnded(machine),
};

/** Work with pauses of seconds, for 16 machines at a time. */
export const WORK_MS = 120_000;

/** Performs the work, and returns the result. */
async function outcome(machine: Machine, work: Work) {
  const id = await begin(machine, work);
  const { state } = await ostler.operationEnds(id, WORK_MS);
  const { failure, leftAs } = await ostler.run(id, machine.node);
  return { state, failure, leftAs, isDone: work.isDone(machine.bmc), cuts: cutsOf(machine, work) };
}

/** The work is done, and the machine was not cut. */
export const DONE = { state: "SUCCEEDED", failure: null, isDone: true, cuts: [] };

export interface Meeting {
  readonly fault: Fault;
  readonly moment: string;
  /** False: all that is read of the BMC is answered like the task. */
  readonly isTaskOnly: boolean;
}

/** Performs the work, which meets a fault at one moment. */
export async function meets(work: Work, { fault, moment, isTaskOnly }: Meeting) {
  const machine = await aMachine(work, "redfish");
  let isOver = false;
  hooks.set(machine.node.name, async (entry) => {
    if (isOver || MOMENTS[moment]?.(machine, entry) !== true) return () => {};
    const end = machine.bmc.faults.add({ ...fault, method: "GET", ...(isTaskOnly && { path: work.at }) });
    return () => {
      isOver = moment !== "in the middle";
      end();
    };
  });
  const { leftAs: _, ...rest } = await outcome(machine, work);
  return rest;
}

/** Performs the work, while the BMC itself restarts. */
export async function meetsRestart(work: Work, tasks: "kept" | "forgotten" | "moved") {
  const machine = await aMachine(work, "redfish");
  let restart: Promise<void> | undefined;
  hooks.set(machine.node.name, async (entry) => {
    if (entry === 3) restart = machine.bmc.restart({ ms: 200, tasks });
    return () => {};
  });
  const { leftAs: _, ...rest } = await outcome(machine, work);
  await restart;
  return rest;
}

/** The step fails at its timeout, and the machine is marked until it reports that it has ended. */
export const LEFT_ALONE = { code: "TIMEOUT", mayBeWorking: true, whileItWorks: [true, true], cuts: [] };

/** Performs the work with a short timeout; the fault begins at the first poll, and does not end. */
export async function neverReports(work: Work, fault: Fault) {
  const machine = await aMachine(work, "brief", 2000 * BRIEF_SECONDS);
  const { bmc, node } = machine;
  hooks.set(node.name, async (entry) => {
    if (entry === 1) bmc.faults.add({ ...fault, path: work.at });
    return () => {};
  });
  const { failure, leftAs } = await outcome(machine, work);
  const isMarked = async () => (await ostler.node(node)).faultKind === "MACHINE_BUSY";
  const atTheEnd = await isMarked();
  bmc.faults.clear();
  await ostler.engine.readPower({ ids: [node.id] });
  const whileItWorks = [atTheEnd, await isMarked()];
  await eventually("the task has ended", () => hasEnded(machine));
  await eventually("the mark has ended", async () => {
    await ostler.engine.readPower({ ids: [node.id] });
    return !(await isMarked());
  });
  const cuts = cutsOf(machine, work);
  return { code: failure?.code, mayBeWorking: leftAs?.mayBeWorking, whileItWorks, cuts };
}
