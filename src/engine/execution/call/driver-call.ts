/**
 * Builds the call that a driver is given: node, settings, signal, log, timing, and, within a step, what the step knows.
 */
import type { Call, ImageView, NodeAgent, NodeMedia, NodePower, StepCall } from "../../../drivers/driver.ts";
import type { Dispatch, Dispatched } from "../../../drivers/isolation/dispatch.ts";
import { fileUrlsOf } from "../../../drivers/address-settings.ts";
import { findStep } from "../../../drivers/interfaces.ts";
import { variablesFor } from "../../../drivers/variables.ts";
import type { AnyDriver, AnyStep } from "../../../drivers/interfaces.ts";
import type { Log } from "../../../log.ts";
import type { StepAbout } from "../../../observer.ts";
import type { AttemptRow } from "../../../store/runs/attempts.ts";
import type { DriverTry, JsonObject, PlannedStep, StoredJson } from "../../../store/records.ts";
import { cutTo } from "../../../runtime/text.ts";
import type { Redactor } from "../../input/secret-redactor.ts";
import { isReserved } from "../../plans/reserved-steps.ts";
import { observeCall } from "./machine.ts";
import type { Machine } from "./machine.ts";
import type { Patience } from "./patience.ts";

/** Takes the lines and the progress of a step, with secrets masked. */
export interface StepOutput {
  line(text: string): void;
  /** 0 to 100; the newest replaces the one before. */
  progress(percent: number, message: string | null): void;
}

/** The parts of every call of a machine. */
export interface CallBasis extends Dispatch {
  readonly machine: Machine;
  readonly deadline: Date;
  readonly log: Log;
  /** Within a step: the entry of the run, for observers. */
  readonly about?: Pick<StepAbout, "operationId" | "runId" | "attempt">;
  /** Within a step. */
  readonly stepLog?: StepOutput;
  /** Within a step: the servers of registered images among those of the URLs, as far as they decide a call. */
  readonly imageServersOf?: (urls: readonly string[]) => Promise<readonly string[]>;
  /** Collects the calls of interfaces for which the node names several drivers. */
  readonly tries?: DriverTry[];
  /** Within a step that waits for a controller that is away. */
  readonly isAwaited?: boolean;
  /** Limits short reads, so that a machine that gives no answer does not hold a slot for long. */
  readonly patience?: Patience;
}

/** The interfaces of its node that a step can use. */
interface NodeAccess {
  readonly power: NodePower;
  readonly media: NodeMedia;
  readonly agent: NodeAgent;
}

/** The image that a run installs, and its user data. */
export interface Installation {
  readonly image: ImageView | null;
  readonly userData: string | null;
}

/** Binds the agent of a node to an entry of a step, for as long as the signal does not fire. */
export type BindAgent = (entry: AgentEntry) => (signal: AbortSignal) => NodeAgent;

/** The entry of a step for which the agent of its node is used. */
export interface AgentEntry {
  readonly node: Pick<Machine["node"], "id" | "name">;
  readonly runId: string;
  readonly fence: number;
  readonly step: PlannedStep;
  readonly attempt: AttemptRow;
}

/** The parts of the call of a step. */
export interface StepBasis extends Omit<CallBasis, "lane"> {
  readonly step: PlannedStep;
  /** The part of the step that is entered. */
  readonly part: AttemptRow["part"];
  readonly memo: StoredJson;
  readonly callback: StoredJson;
  readonly callbackPath: string;
  readonly attemptKey: string;
  readonly fence: number;
  readonly variables: JsonObject;
  readonly installation: Installation;
  readonly agent: ReturnType<BindAgent>;
  readonly stepLog: StepOutput;
  readonly imageServersOf: (urls: readonly string[]) => Promise<readonly string[]>;
  /**
   * Rejects if this process does not hold the run any more. Runs before the call is made, and again when it has a
   * process.
   */
  confirm(): Promise<void>;
}

const CALL_NAME_LENGTH_MAX = 60;
const PROGRESS_LENGTH_MAX = 1_000;

export function driverCall(basis: CallBasis, driver: AnyDriver, signal: AbortSignal): Call<unknown> & Dispatched {
  const { machine, deadline, log, stepLog, about, lane, confirm, kill, imageServers } = basis;
  const { id, name, powerState, labels, diskless } = machine.node;
  return {
    node: { id, name, powerState, labels, ...(diskless && { diskless }) },
    settings: machine.settingsOf(driver),
    signal,
    deadline,
    log: (message: unknown) => {
      const text = machine.redactor.text(String(message));
      log.debug({ ...about, node: name, driver: driver.name }, text);
      stepLog?.line(text);
    },
    timed: async (what: unknown, work) => observeCall(machine, driver, callName(what, machine.redactor), work),
    dispatch: { lane, confirm, kill, imageServers },
  };
}

export async function stepCall(
  basis: StepBasis & CallBasis,
  { driver, step: declared }: DeclaredStep,
  signal: AbortSignal,
  { power, media, agent }: NodeAccess,
): Promise<StepCall<unknown>> {
  const { machine, step, memo, callback, callbackPath, attemptKey, fence, installation, stepLog } = basis;
  const { args } = step;
  const variables = variablesFor(driver, basis.variables);
  const imageServers = await basis.imageServersOf(fileUrlsOf(driver, declared, { args, variables }));
  return {
    ...driverCall({ ...basis, imageServers }, driver, signal),
    args,
    memo,
    callback,
    callbackPath,
    attemptKey,
    fence,
    variables,
    power,
    media,
    agent,
    image: installation.image,
    userData: installation.userData,
    progress(percent, message) {
      const rounded = Math.round(Math.min(100, Math.max(0, Number.isFinite(percent) ? percent : 0)));
      const text = typeof message === "string" ? cutTo(machine.redactor.text(message), PROGRESS_LENGTH_MAX) : null;
      stepLog.progress(rounded, text);
    },
  };
}

/** The name that a driver gives its call to the machine, masked and shortened. */
export function callName(given: unknown, redactor: Redactor): string {
  return cutTo(redactor.text(String(given)), CALL_NAME_LENGTH_MAX);
}

interface DeclaredStep {
  readonly driver: AnyDriver;
  readonly step: AnyStep;
}

/** A step as its driver declares it; undefined for the engine's own steps, and if the driver no longer has it. */
export function declaredStep({ machine, step }: Pick<StepBasis, "machine" | "step">): DeclaredStep | undefined {
  if (isReserved(step) || step.phase === "verify" || step.phase === "power") return undefined;
  const driver = machine.composition.drivers.find(({ name }) => name === step.driver);
  const declared = driver && findStep(driver, step.phase, step.name);
  return driver && declared && { driver, step: declared };
}
