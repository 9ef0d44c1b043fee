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
import { functionOf } from "../driver-functions.ts";
import type { AnyCall, FunctionName } from "../driver-functions.ts";
import type { AnyDriver } from "../interfaces.ts";
import type { Dispatched } from "./dispatch.ts";
import type { Given, NodeQuestion, StepData } from "./protocol.ts";

/** The members of a call that reach the service. */
export interface CallParts {
  readonly common: CommonParts;
  readonly question: Question;
  readonly progress: StepCall<unknown>["progress"];
}

export type CommonParts = Pick<Call<unknown>, "signal" | "deadline" | "log" | "timed">;

/** Asks the service about the node of a step. */
export type Question = (about: NodeQuestion) => Promise<Json | undefined>;

export function callTarget(driver: AnyDriver, target: FunctionName, given: Given, parts: CallParts): Promise<unknown> {
  const work = functionOf(driver, target);
  // The service calls only what the driver has declared, so the plugin has changed since.
  if (!work) throw new Error(`Driver "${driver.name}" no longer has ${Object.values(target).join(" ")}.`);
  return work(callOf(given, parts), ...given.args);
}

function callOf({ settings, imageServers, node, address, step }: Given, parts: CallParts): AnyCall {
  const call: MachineCall<unknown> & Partial<Dispatched> = {
    ...parts.common,
    settings,
    ...(imageServers && { dispatch: { lane: "STEP", imageServers } }),
  };
  if (node) {
    const ofNode: Call<unknown> = { ...call, node };
    return step ? stepCallOf(ofNode, step, parts) : ofNode;
  }
  return address === undefined ? call : { ...call, settings: settings as DiscoverCall["settings"], address };
}

function stepCallOf(
  call: Call<unknown>,
  { mediaOffered, ...data }: StepData,
  { question, progress }: CallParts,
): StepCall<unknown> {
  return {
    ...call,
    ...(data as Pick<StepCall<unknown>, keyof typeof data>),
    power: powerOf(question),
    media: mediaOf(question, mediaOffered),
    agent: agentOf(question),
    progress,
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
