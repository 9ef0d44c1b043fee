/**
 * In a worker: calls the function of the driver that a message of the service names, with the arguments of the
 * contract.
 */
import type {
  AgentStatus,
  Call,
  DiscoverCall,
  Json,
  MachineCall,
  NodeAgent,
  NodeMedia,
  NodePower,
  PowerState,
  StepCall,
} from "../driver.ts";
import { findStep } from "../interfaces.ts";
import type { AnyDriver } from "../interfaces.ts";
import { dispatched } from "./dispatch.ts";
import type { Given, NodeQuestion, Target } from "./protocol.ts";

/** The members of a call that reach the service. */
export interface CallParts {
  readonly common: CommonParts;
  readonly question: Question;
  readonly progress: StepCall<unknown>["progress"];
}

export type CommonParts = Pick<Call<unknown>, "signal" | "deadline" | "log" | "timed">;

/** Asks the service about the node of a step. */
export type Question = (about: NodeQuestion) => Promise<Json | undefined>;

export function callTarget(driver: AnyDriver, target: Target, given: Given, parts: CallParts): Promise<unknown> {
  switch (target.on) {
    case "power":
      return callPower(driver, target.function, given, parts);
    case "media": {
      const { media } = driver;
      if (!media) throw lacking(driver, "media");
      const { url = "", writeProtected = true } = given.medium ?? {};
      return target.function === "insert"
        ? media.insert(callOf(given, parts), url, { writeProtected })
        : media.eject(callOf(given, parts));
    }
    case "firmware":
    case "bios": {
      const offered = driver[target.on];
      if (!offered) throw lacking(driver, target.on);
      return offered.read(callOf(given, parts));
    }
    case "console":
      if (!driver.console) throw lacking(driver, "console");
      return driver.console.serialUrl(callOf(given, parts));
    case "abilities":
      if (!driver.abilities) throw lacking(driver, "abilities");
      return driver.abilities(machineCallOf(given, parts));
    case "discover": {
      if (!driver.discover) throw new Error(`Driver "${driver.name}" cannot discover nodes.`);
      return driver.discover.probe(probeOf(given, parts));
    }
    case "step": {
      const step = findStep(driver, target.phase, target.name);
      const work = step?.[target.function];
      if (!step || !work)
        throw new Error(
          `Driver "${driver.name}" no longer has the ${target.function} of a step ${target.phase}.${target.name}.`,
        );
      return (work as (call: StepCall<unknown>) => Promise<unknown>).call(step, stepCallOf(given, parts));
    }
  }
}

function callPower(
  driver: AnyDriver,
  what: Extract<Target, { on: "power" }>["function"],
  given: Given,
  parts: CallParts,
): Promise<unknown> {
  const { power } = driver;
  const call = callOf(given, parts);
  switch (what) {
    case "read":
      return power.read(call);
    case "set":
      return power.set(call, given.action ?? "OFF");
    case "setBootDevice":
      if (!power.setBootDevice) throw lacking(driver, "power.setBootDevice");
      return power.setBootDevice(call, given.device ?? "DISK", given.boot ?? { persistent: false });
    case "readBootDevice":
      if (!power.readBootDevice) throw lacking(driver, "power.readBootDevice");
      return power.readBootDevice(call);
    case "readActivity":
      if (!power.readActivity) throw lacking(driver, "power.readActivity");
      return power.readActivity(call);
  }
}

/** The service calls only what the driver has declared, so the plugin has changed since. */
function lacking(driver: AnyDriver, what: string): Error {
  return new Error(`Driver "${driver.name}" no longer has ${what}.`);
}

function callOf(given: Given, parts: CallParts): Call<unknown> {
  if (!given.node) throw new Error("The call names no node.");
  return { ...machineCallOf(given, parts), node: given.node };
}

function machineCallOf(given: Given, parts: CallParts): MachineCall<unknown> {
  const { settings, imageServers } = given;
  return dispatched({ ...parts.common, settings }, { lane: "STEP", imageServers });
}

function probeOf(given: Given, parts: CallParts): DiscoverCall {
  return { ...parts.common, address: given.address ?? "", settings: given.settings as DiscoverCall["settings"] };
}

function stepCallOf(given: Given, parts: CallParts): StepCall<unknown> {
  if (!given.step) throw new Error("The call is not a call of a step.");
  const { mediaOffered, ...data } = given.step;
  return {
    ...callOf(given, parts),
    ...(data as Pick<StepCall<unknown>, keyof typeof data>),
    power: powerOf(parts.question),
    media: mediaOf(parts.question, mediaOffered),
    agent: agentOf(parts.question),
    progress: parts.progress,
  };
}

function mediaOf(question: Question, offered: boolean): NodeMedia {
  return {
    offered,
    async insert(url, options) {
      await question({ function: "insertMedium", url, medium: { ...options } });
    },
    async eject() {
      await question({ function: "ejectMedium" });
    },
  };
}

function agentOf(question: Question): NodeAgent {
  return {
    status: async () => (await question({ function: "agentStatus" })) as AgentStatus | null,
    open: async (boot) => (await question({ function: "openAgent", boot })) as Awaited<ReturnType<NodeAgent["open"]>>,
    async assign(task) {
      await question({ function: "assignTask", task });
    },
    async close() {
      await question({ function: "closeAgent" });
    },
    homeUrl: async () => (await question({ function: "homeUrl" })) as string,
  };
}

function powerOf(question: Question): NodePower {
  return {
    read: async () => (await question({ function: "read" })) as PowerState,
    async set(action) {
      await question({ function: "set", action });
    },
    async setBootDevice(device, options) {
      await question({ function: "setBootDevice", device, boot: { ...options } });
    },
  };
}
