/** The calls that the conformance suite makes of a driver, as the engine makes them. */
import type { Call, Json, NodePower, PowerAction, PowerState, Step, StepCall, StepResult } from "../driver.ts";
import { hold } from "./proof.ts";
import { accept, isJson } from "./schemas.ts";
import type { Subject } from "./subject.ts";

const POWER_STATES: readonly unknown[] = ["ON", "OFF", "UNKNOWN"];

/** What a call has beside what the subject says. */
export interface Changes {
  readonly signal?: AbortSignal;
  readonly settings?: Readonly<Record<string, Json>>;
}

export async function makeCall(subject: Subject, changes: Changes = {}): Promise<Call<unknown>> {
  const { driver, options } = subject;
  return {
    node: { id: "00000000-0000-4000-8000-000000000001", name: "conformance", powerState: "UNKNOWN", labels: {} },
    settings: await accept(driver.settings, changes.settings ?? options.settings, "the settings"),
    ...surroundings(subject, changes.signal),
  };
}

export async function read(subject: Subject): Promise<PowerState> {
  const state = await subject.driver.power.read(await makeCall(subject));
  hold(POWER_STATES.includes(state), `The driver reads the power as ${state}.`);
  return state;
}

export async function switchPower(subject: Subject, action: PowerAction, state: PowerState): Promise<void> {
  await subject.driver.power.set(await makeCall(subject), action);
  const now = await read(subject);
  hold(now === state, `After ${action} the machine is ${now}.`);
}

/**
 * Takes a step to its end as the engine does, waits included: `run`, then `verify` where there is one, and that once more,
 * as after a crash in it. Answers what `run` ended with, or what failed.
 */
export async function performStep(
  subject: Subject,
  step: Step<unknown>,
  args: Readonly<Record<string, Json>> = {},
): Promise<Ended> {
  const base = { ...(await makeCall(subject)), args };
  const ran = await enter(subject, step, base, (call) => step.run(call));
  if (ran.kind !== "done" || step.verify === undefined) return ran;
  for (const entry of ["first", "second"]) {
    const verified = await enter(subject, step, base, (call) => step.verify?.(call));
    if (verified.kind === "failed")
      return { ...verified, reason: `\`verify\`, entered the ${entry} time: ${verified.reason}` };
  }
  return ran;
}

type Ended = Exclude<StepResult, { kind: "wait" }>;

/** Enters one part of a step as often as it waits, with the memo that it left. */
async function enter(
  subject: Subject,
  step: Step<unknown>,
  base: Call<unknown> & Pick<StepCall<unknown>, "args">,
  work: (call: StepCall<unknown>) => Promise<StepResult> | undefined,
): Promise<Ended> {
  const callbackPath = "/callback/conformance";
  let memo: Json = null;
  let callback: Json = null;
  for (;;) {
    const result = await work({
      ...base,
      memo,
      callback,
      callbackPath,
      attemptKey: `conformance-${step.name}`,
      variables: {},
      power: boundPower(subject, base),
      progress(percent) {
        hold(percent >= 0 && percent <= 100, `Step ${step.name} reports ${percent} percent.`);
      },
    });
    hold(
      result?.kind === "done" || result?.kind === "wait" || result?.kind === "failed",
      `Step ${step.name} ends as ${JSON.stringify(result)}, which is no result of a step.`,
    );
    if (result.kind !== "wait") return result;
    hold(isJson(result.memo), `The memo of step ${step.name} does not survive JSON.`);
    memo = JSON.parse(JSON.stringify(result.memo)) as Json;
    callback = null;
    if (result.callback === true && subject.options.callBack !== undefined) {
      callback = await subject.options.callBack({ step: step.name, callbackPath, memo });
    } else {
      const { seconds } = result;
      hold(
        seconds !== undefined,
        `Step ${step.name} waits for a call from the machine; pass \`callBack\`, which makes it.`,
      );
      hold(
        Date.now() + seconds * 1000 < base.deadline.getTime(),
        `Step ${step.name} waits ${seconds} s, past the end of its time.`,
      );
      await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
    }
  }
}

export async function probe(subject: Subject, address: string, changes: Changes = {}): Promise<unknown> {
  const { driver, options } = subject;
  hold(
    driver.discover !== undefined,
    "The driver has no `discover`, but the option `discovery` says that it finds machines.",
  );
  const settings = await accept(
    driver.discover.settings,
    changes.settings ?? options.discovery?.settings,
    "the settings of the discovery",
  );
  return driver.discover.probe({
    address,
    settings: settings as Readonly<Record<string, Json>>,
    ...surroundings(subject, changes.signal),
  });
}

/** What every call has: its time, and whom it tells. */
function surroundings(
  { options, logged, named }: Subject,
  signal?: AbortSignal,
): Pick<Call<unknown>, "signal" | "deadline" | "log" | "timed"> {
  const milliseconds = (options.liveSeconds ?? 60) * 1000;
  return {
    signal: signal ?? AbortSignal.timeout(milliseconds),
    deadline: new Date(Date.now() + milliseconds),
    log: (message) => logged.push(message),
    timed(name, work) {
      named.push(name);
      return work();
    },
  };
}

function boundPower({ driver }: Subject, call: Call<unknown>): NodePower {
  return {
    read: () => driver.power.read(call),
    set: (action) => driver.power.set(call, action),
    async setBootDevice(device, options) {
      if (driver.power.setBootDevice === undefined) throw new Error("The driver cannot set a boot device.");
      await driver.power.setBootDevice(call, device, { persistent: options?.persistent ?? false });
    },
  };
}
