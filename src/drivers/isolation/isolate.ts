/**
 * A driver whose functions run in worker processes. It implements the same contract, so callers cannot tell the difference:
 * declarations come from the plugin in this process, and functions run in a worker.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { INTERFACE_OF_PHASE, secretsOf } from "../registry.ts";
import type { AnyDriver, AnyStep } from "../registry.ts";
import type {
  Call,
  DiscoverCall,
  DiscoverInterface,
  InspectInterface,
  Json,
  NodePower,
  PowerInterface,
  Schema,
  StepCall,
  StepInterface,
} from "../driver.ts";
import { parseStepResult } from "../step-result.ts";
import { dispatchOf } from "./dispatch.ts";
import type { Job, JobListener } from "./worker-call.ts";
import type { Plugin } from "./worker-handle.ts";
import type { Pool } from "./pool.ts";
import type { Given, PowerQuestion, Target } from "./protocol.ts";

/** `driver`: the plugin's driver in this process. Closing the isolated driver closes it and the workers. */
export function isolate(driver: AnyDriver, plugin: Plugin, pool: Pool): AnyDriver {
  const { contract, name, version, description, settings, power, inspect, deploy, clean, discover } = driver;

  const call = (
    target: Target,
    what: string,
    given: Call<unknown> | DiscoverCall,
    more: Partial<Pick<Job, "repeatable">> & {
      readonly data?: Partial<Given>;
      readonly schema?: Schema<unknown>;
      readonly listener?: Partial<JobListener>;
    } = {},
  ) => {
    const { settings: value, signal, deadline } = given;
    // Keeps the tracing context of the caller for reports that arrive during the call.
    const here = AsyncLocalStorage.snapshot();
    const { lane, confirm } = dispatchOf(given);
    return pool.run(plugin, lane, {
      target,
      what,
      given: {
        settings: value,
        ...("node" in given ? { node: given.node } : { address: given.address }),
        ...more.data,
      },
      signal,
      deadline,
      confirm,
      repeatable: more.repeatable ?? true,
      secrets: secretsOf(more.schema ?? settings, value),
      listener: {
        log: (text) => here(() => given.log(text)),
        timed: (about, work) => here(() => given.timed(about, work)),
        ...(more.listener?.progress && {
          progress: (percent, message) => here(() => more.listener?.progress?.(percent, message)),
        }),
        ...(more.listener?.power && {
          power: (question) => here(async () => more.listener?.power?.(question) ?? null),
        }),
      },
    });
  };

  function stepCall(step: AnyStep, of: "run" | "verify" | "abort", given: StepCall<unknown>): Promise<unknown> {
    const { args, memo, callback, callbackPath, attemptKey, variables } = given;
    const label = `${INTERFACE_OF_PHASE[step.phase]}.${step.name}`;
    return call(
      { on: "step", phase: step.phase, name: step.name, function: of },
      of === "run" ? label : `${of} of ${label}`,
      given,
      {
        data: { step: { args, memo, callback, callbackPath, attemptKey, variables } },
        repeatable: step.idempotent,
        listener: {
          progress: (percent, message) => given.progress(percent, message),
          power: (question) => askPower(given.power, question),
        },
      },
    );
  }

  const isolatedStep = (step: AnyStep): AnyStep => ({
    ...step,
    run: async (given) => parseStepResult(await stepCall(step, "run", given)),
    ...(step.verify && { verify: async (given) => parseStepResult(await stepCall(step, "verify", given)) }),
    ...(step.abort && {
      abort: async (given) => {
        await stepCall(step, "abort", given);
      },
    }),
  });
  const isolatedSteps = <Kind extends StepInterface<unknown>>(kind: Kind): Kind => ({
    ...kind,
    steps: kind.steps.map(isolatedStep),
  });

  const isolatedPower: PowerInterface<unknown> = {
    read: async (given) =>
      (await call({ on: "power", function: "read" }, "power.read", given)) as Awaited<ReturnType<typeof power.read>>,
    async set(given, action) {
      await call({ on: "power", function: "set" }, "power.set", given, { data: { action } });
    },
    ...(power.setBootDevice && {
      async setBootDevice(given, device, { persistent }) {
        await call({ on: "power", function: "setBootDevice" }, "power.setBootDevice", given, {
          data: { device, persistent },
        });
      },
    }),
  };

  const isolatedDiscover = (kind: DiscoverInterface<unknown>): DiscoverInterface<unknown> => ({
    settings: kind.settings,
    probe: async (given) =>
      (await call({ on: "discover" }, "discover.probe", given, { schema: kind.settings })) as Awaited<
        ReturnType<typeof kind.probe>
      >,
  });

  return {
    contract,
    name,
    version,
    description,
    settings,
    power: isolatedPower,
    ...(inspect && { inspect: isolatedSteps<InspectInterface<unknown>>(inspect) }),
    ...(deploy && { deploy: isolatedSteps(deploy) }),
    ...(clean && { clean: isolatedSteps(clean) }),
    ...(discover && { discover: isolatedDiscover(discover) }),
    ...(driver.controllerOf && { controllerOf: (of: unknown) => driver.controllerOf?.(of) ?? "" }),
    async close() {
      await Promise.all([pool.close(plugin), driver.close?.()]);
    },
  };
}

async function askPower(power: NodePower, question: PowerQuestion): Promise<Json> {
  switch (question.function) {
    case "read":
      return power.read();
    case "set":
      await power.set(question.action);
      return null;
    case "setBootDevice":
      await power.setBootDevice(question.device, { persistent: question.persistent });
      return null;
  }
}
