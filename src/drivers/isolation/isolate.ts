/**
 * A driver whose functions run in worker processes. It implements the same contract, so the difference is invisible to
 * callers: declarations come from the plugin in this process, and functions run in a worker.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { wrapFunctions } from "../driver-functions.ts";
import type { AnyCall, FunctionName } from "../driver-functions.ts";
import { INTERFACE_OF_PHASE } from "../interfaces.ts";
import { secretsOf } from "../registry.ts";
import type { AnyDriver, AnyStep } from "../interfaces.ts";
import type { Json, StepCall } from "../driver.ts";
import { userDataSecrets } from "../secret-masking.ts";
import { parseStepResult } from "../step-result.ts";
import { dispatchOf } from "./dispatch.ts";
import type { Job } from "./worker-call.ts";
import type { Plugin } from "./worker-handle.ts";
import type { Pool } from "./pool.ts";
import { NODE_FUNCTIONS } from "./protocol.ts";
import type { NodeQuestion } from "./protocol.ts";

/** `driver`: the plugin's driver in this process. Closing the isolated driver closes it and the workers. */
export function isolate(driver: AnyDriver, plugin: Plugin, pool: Pool): AnyDriver {
  const { permissions: _, ...isolated } = wrapFunctions(driver, (target, _work, step) => async (call, ...args) => {
    const result = await pool.run(plugin, jobOf(driver, { target, step, call, args }));
    if (!step) return result;
    return target.function === "abort" ? undefined : parseStepResult(result);
  });
  return {
    ...isolated,
    async close() {
      await Promise.all([pool.close(plugin), driver.close?.()]);
    },
  };
}

interface CallRequest {
  readonly target: FunctionName;
  /** Whose function it is. */
  readonly step: AnyStep | undefined;
  readonly call: AnyCall | StepCall<unknown>;
  /** The arguments after the call. */
  readonly args: readonly unknown[];
}

function jobOf({ settings, discover, variables }: AnyDriver, { target, step, call, args }: CallRequest): Job {
  // Keeps the tracing context of the caller for reports that arrive during the call.
  const inCallerContext = AsyncLocalStorage.snapshot();
  const ofStep = "memo" in call ? call : null;
  const dispatch = dispatchOf(call);
  const { imageServers } = dispatch;
  const schema = target.on === "discover" && discover ? discover.settings : settings;
  return {
    target,
    what: nameOf(target),
    given: {
      settings: call.settings,
      ...("node" in call && { node: call.node }),
      ...("address" in call && { address: call.address }),
      ...(imageServers && { imageServers }),
      ...(ofStep && { step: stepDataOf(ofStep) }),
      args,
    },
    signal: call.signal,
    deadline: call.deadline,
    dispatch,
    repeatable: step?.idempotent ?? true,
    secrets: [
      ...secretsOf(schema, call.settings),
      ...(variables ? secretsOf(variables, ofStep?.variables) : []),
      ...userDataSecrets(ofStep?.userData ?? null),
    ],
    listener: {
      log: (text) => inCallerContext(() => call.log(text)),
      timed: (name, work) => inCallerContext(() => call.timed(name, work)),
      ...(ofStep && {
        progress: (percent, message) => inCallerContext(() => ofStep.progress(percent, message)),
        question: (about) => inCallerContext(() => answerQuestion(ofStep, about)),
      }),
    },
  };
}

/** The function's name for messages, such as `clean.erase_disks`. */
function nameOf(target: FunctionName): string {
  if (target.on === "driver") return target.function;
  if (target.on !== "step") return `${target.on}.${target.function}`;
  const label = `${INTERFACE_OF_PHASE[target.phase]}.${target.name}`;
  return target.function === "run" ? label : `${target.function} of ${label}`;
}

function stepDataOf(call: StepCall<unknown>) {
  const { args, memo, callback, callbackPath, attemptKey, fence, variables, image, userData } = call;
  const mediaOffered = call.media.offered;
  return { args, memo, callback, callbackPath, attemptKey, fence, variables, mediaOffered, image, userData };
}

/** The question comes from a process that is not trusted. */
async function answerQuestion(
  call: Pick<StepCall<unknown>, "power" | "media" | "agent">,
  { on, function: name, args }: NodeQuestion,
): Promise<Json | undefined> {
  if (!(NODE_FUNCTIONS[on] as readonly string[]).includes(name)) throw new Error(`A node has no ${on}.${name}.`);
  const work: unknown = Reflect.get(call[on], name);
  // JSON has null in place of an argument that is undefined.
  const given = args.map((one) => one ?? undefined);
  return typeof work === "function" ? (Reflect.apply(work, call[on], given) as Promise<Json | undefined>) : undefined;
}
