/**
 * A driver whose functions run in worker processes. It implements the same contract, so the difference is invisible to
 * callers: declarations come from the plugin in this process, and functions run in a worker.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { INTERFACE_OF_PHASE } from "../interfaces.ts";
import { secretsOf } from "../registry.ts";
import type { AnyDriver, AnyStep } from "../interfaces.ts";
import type {
  Call,
  Ability,
  DiscoverCall,
  DiscoverInterface,
  InspectInterface,
  Json,
  MachineCall,
  MediaInterface,
  PowerInterface,
  Schema,
  StepCall,
  StepInterface,
} from "../driver.ts";
import { userDataSecrets } from "../secret-masking.ts";
import { parseStepResult } from "../step-result.ts";
import { dispatchOf } from "./dispatch.ts";
import type { Job, JobListener } from "./worker-call.ts";
import type { Plugin } from "./worker-handle.ts";
import type { Pool } from "./pool.ts";
import type { Given, NodeQuestion, Target } from "./protocol.ts";

/** `driver`: the plugin's driver in this process. Closing the isolated driver closes it and the workers. */
export function isolate(driver: AnyDriver, plugin: Plugin, pool: Pool): AnyDriver {
  const { contract, name, version, description, settings, variables, usesAgent } = driver;
  const { power, inspect, deploy, clean, media, firmware, bios, discover } = driver;
  const call = (request: CallRequest): Promise<unknown> =>
    pool.run(plugin, dispatchOf(request.given).lane, jobOf(request, settings));
  return {
    contract,
    name,
    version,
    description,
    settings,
    ...(variables && { variables }),
    ...(usesAgent && { usesAgent }),
    power: isolatedPower(power, call),
    ...(inspect && { inspect: isolatedSteps<InspectInterface<unknown>>(inspect, call) }),
    ...(deploy && { deploy: isolatedSteps(deploy, call) }),
    ...(clean && { clean: isolatedSteps(clean, call) }),
    ...(media && { media: isolatedMedia(call) }),
    ...(firmware && { firmware: { read: reading("firmware", call) as (typeof firmware)["read"] } }),
    ...(bios && { bios: { read: reading("bios", call) as (typeof bios)["read"] } }),
    ...(driver.console && {
      console: { serialUrl: reading("console", call) as (given: Call<unknown>) => Promise<string> },
    }),
    ...(driver.abilities && {
      abilities: reading("abilities", call) as (given: MachineCall<unknown>) => Promise<readonly Ability[]>,
    }),
    ...(discover && { discover: isolatedDiscover(discover, call) }),
    ...(driver.controllerOf && { controllerOf: (of: unknown) => driver.controllerOf?.(of) ?? "" }),
    ...(driver.systemOf && { systemOf: (of: unknown) => driver.systemOf?.(of) ?? "" }),
    async close() {
      await Promise.all([pool.close(plugin), driver.close?.()]);
    },
  };
}

/** A call of a driver's function, before it becomes a job of a worker. */
interface CallRequest {
  readonly target: Target;
  /** The function's name for messages. */
  readonly what: string;
  readonly given: Call<unknown> | MachineCall<unknown> | DiscoverCall;
  /** Arguments other than settings, node and address. */
  readonly data?: Partial<Given>;
  /** Default: true. */
  readonly repeatable?: boolean;
  /** Schema that marks the secrets; default: the driver's settings. */
  readonly schema?: Schema<unknown>;
  /** Secrets other than those of the settings. */
  readonly secrets?: readonly string[];
  readonly listener?: Pick<JobListener, "progress" | "question">;
}

type IsolatedCall = (request: CallRequest) => Promise<unknown>;

function jobOf(
  { target, what, given, data, repeatable, schema, secrets = [], listener }: CallRequest,
  settings: Schema<unknown>,
): Job {
  const { progress, question } = listener ?? {};
  // Keeps the tracing context of the caller for reports that arrive during the call.
  const inCallerContext = AsyncLocalStorage.snapshot();
  const { confirm, kill, imageServers } = dispatchOf(given);
  return {
    target,
    what,
    given: {
      settings: given.settings,
      ...("node" in given && { node: given.node }),
      ...("address" in given && { address: given.address }),
      ...(imageServers && { imageServers }),
      ...data,
    },
    signal: given.signal,
    deadline: given.deadline,
    confirm,
    kill,
    repeatable: repeatable ?? true,
    secrets: [...secretsOf(schema ?? settings, given.settings), ...secrets],
    listener: {
      log: (text) => inCallerContext(() => given.log(text)),
      timed: (name, work) => inCallerContext(() => given.timed(name, work)),
      ...(progress && { progress: (percent, message) => inCallerContext(() => progress(percent, message)) }),
      ...(question && { question: (about) => inCallerContext(() => question(about)) }),
    },
  };
}

function isolatedSteps<Kind extends StepInterface<unknown>>(kind: Kind, call: IsolatedCall): Kind {
  return { ...kind, steps: kind.steps.map((step) => isolatedStep(step, call)) };
}

function isolatedStep(step: AnyStep, call: IsolatedCall): AnyStep {
  const callStep = (of: "run" | "verify" | "abort", given: StepCall<unknown>) => {
    const { args, memo, callback, callbackPath, attemptKey, variables, image, userData } = given;
    const mediaOffered = given.media.offered;
    const label = `${INTERFACE_OF_PHASE[step.phase]}.${step.name}`;
    return call({
      target: { on: "step", phase: step.phase, name: step.name, function: of },
      what: of === "run" ? label : `${of} of ${label}`,
      given,
      data: {
        step: { args, memo, callback, callbackPath, attemptKey, variables, mediaOffered, image, userData },
      },
      secrets: userDataSecrets(userData),
      repeatable: step.idempotent,
      listener: {
        progress: (percent, message) => given.progress(percent, message),
        question: (about) => answerQuestion(given, about),
      },
    });
  };
  return {
    ...step,
    run: async (given) => parseStepResult(await callStep("run", given)),
    ...(step.verify && { verify: async (given) => parseStepResult(await callStep("verify", given)) }),
    ...(step.abort && {
      abort: async (given) => {
        await callStep("abort", given);
      },
    }),
  };
}

function isolatedPower(power: PowerInterface<unknown>, call: IsolatedCall): PowerInterface<unknown> {
  return {
    read: async (given) =>
      (await call({ target: { on: "power", function: "read" }, what: "power.read", given })) as Awaited<
        ReturnType<typeof power.read>
      >,
    async set(given, action) {
      await call({ target: { on: "power", function: "set" }, what: "power.set", given, data: { action } });
    },
    ...(power.setBootDevice && {
      async setBootDevice(given, device, boot) {
        const target = { on: "power", function: "setBootDevice" } as const;
        await call({ target, what: "power.setBootDevice", given, data: { device, boot } });
      },
    }),
    ...(power.readBootDevice && {
      async readBootDevice(given) {
        const target = { on: "power", function: "readBootDevice" } as const;
        return (await call({ target, what: "power.readBootDevice", given })) as Awaited<
          ReturnType<NonNullable<typeof power.readBootDevice>>
        >;
      },
    }),
    ...(power.readActivity && {
      async readActivity(given) {
        const target = { on: "power", function: "readActivity" } as const;
        return (await call({ target, what: "power.readActivity", given })) as string | null;
      },
    }),
  };
}

function isolatedMedia(call: IsolatedCall): MediaInterface<unknown> {
  return {
    async insert(given, url, options) {
      const target = { on: "media", function: "insert" } as const;
      await call({ target, what: "media.insert", given, data: { medium: { ...options, url } } });
    },
    async eject(given) {
      await call({ target: { on: "media", function: "eject" }, what: "media.eject", given });
    },
  };
}

/** A function that reads something and has no further argument. */
function reading(
  on: "firmware" | "bios" | "console" | "abilities",
  call: IsolatedCall,
): (given: Call<unknown> | MachineCall<unknown>) => Promise<unknown> {
  return (given) => call({ target: { on }, what: on, given });
}

function isolatedDiscover(kind: DiscoverInterface<unknown>, call: IsolatedCall): DiscoverInterface<unknown> {
  return {
    settings: kind.settings,
    probe: async (given) =>
      (await call({ target: { on: "discover" }, what: "discover.probe", given, schema: kind.settings })) as Awaited<
        ReturnType<typeof kind.probe>
      >,
  };
}

async function answerQuestion(
  { power, media, agent }: Pick<StepCall<unknown>, "power" | "media" | "agent">,
  question: NodeQuestion,
): Promise<Json> {
  switch (question.function) {
    case "read":
      return power.read();
    case "set":
      await power.set(question.action);
      return null;
    case "setBootDevice":
      await power.setBootDevice(question.device, question.boot);
      return null;
    case "insertMedium":
      await media.insert(question.url, question.medium);
      return null;
    case "ejectMedium":
      await media.eject();
      return null;
    case "agentStatus":
      return agent.status() as Promise<Json>;
    case "openAgent":
      return agent.open(question.boot);
    case "assignTask":
      await agent.assign(question.task);
      return null;
    case "closeAgent":
      await agent.close();
      return null;
    case "homeUrl":
      return agent.homeUrl();
  }
}
