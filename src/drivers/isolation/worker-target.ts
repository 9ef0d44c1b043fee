/**
 * In a worker: calls the function of the driver that a message of the service names, with the arguments of the
 * contract.
 */
import type { Call, DiscoverCall, Json, MachineCall, NodeAgent, NodeMedia, NodePower, StepCall } from "../driver.ts";
import { functionOf } from "../driver-functions.ts";
import type { AnyCall, FunctionName } from "../driver-functions.ts";
import type { AnyDriver } from "../interfaces.ts";
import type { Dispatched } from "./dispatch.ts";
import { NODE_FUNCTIONS } from "./protocol.ts";
import type { Given, NodeQuestion, StepData } from "./protocol.ts";

/** The members of a call that reach the service. */
interface CallParts {
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
    power: nodePart("power", question) as NodePower,
    media: { ...(nodePart("media", question) as NodeMedia), offered: mediaOffered },
    agent: nodePart("agent", question) as NodeAgent,
    progress,
  };
}

/** A part of the node, whose functions ask the service. */
function nodePart(on: NodeQuestion["on"], question: Question): object {
  return Object.fromEntries(
    NODE_FUNCTIONS[on].map((name) => [name, (...args: readonly unknown[]) => question({ on, function: name, args })]),
  );
}
