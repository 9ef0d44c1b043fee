/** Calls of a driver by the conformance suite, made as the engine makes them. */
import type {
  Call,
  Json,
  NodeMedia,
  NodePower,
  PowerAction,
  PowerState,
  Step,
  StepCall,
  StepResult,
} from "../../../../src/drivers/driver.ts";
import { noAgent } from "../../../../src/drivers/no-agent.ts";
import { ensure } from "./proof.ts";
import { accept, isJson } from "./schemas.ts";
import type { Subject } from "./subject.ts";

const POWER_STATES: readonly unknown[] = ["ON", "OFF", "UNKNOWN"];
const NO_POWER = "The driver changes no power.";

/** Parts of a call that differ from the subject's. */
export interface CallChanges {
  readonly signal?: AbortSignal;
  readonly settings?: Readonly<Record<string, Json>>;
}

export async function makeCall(subject: Subject, changes: CallChanges = {}): Promise<Call<unknown>> {
  const { driver, options } = subject;
  return {
    node: { id: "00000000-0000-4000-8000-000000000001", name: "conformance", powerState: "UNKNOWN", labels: {} },
    settings: await accept(driver.settings, changes.settings ?? options.settings, "the settings"),
    ...commonParts(subject, changes.signal),
  };
}

export async function read(subject: Subject): Promise<PowerState> {
  const state = await subject.driver.power.read(await makeCall(subject));
  ensure(POWER_STATES.includes(state), `The driver reads the power as ${state}; return ON, OFF or UNKNOWN.`);
  return state;
}

export async function switchPower(subject: Subject, action: PowerAction, state: PowerState): Promise<void> {
  const { driver, unsupported } = subject;
  if (driver.power.set === undefined) {
    if (!unsupported.includes(NO_POWER)) unsupported.push(NO_POWER);
    return;
  }
  await driver.power.set(await makeCall(subject), action);
  const now = await read(subject);
  ensure(now === state, `After ${action} the machine is ${now}.`);
}

/**
 * Runs a step to its end as the engine does, waits included: `run`, then `verify`, if any, twice, as after a crash in
 * it. Returns the result of `run`, or the failure of `verify`.
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

/** Calls the step's `abort`, if any, as the engine does after a failure: here of an entry that had begun nothing. */
export async function abortStep(
  subject: Subject,
  step: Step<unknown>,
  args: Readonly<Record<string, Json>>,
): Promise<void> {
  if (step.abort === undefined) return;
  const base = { ...(await makeCall(subject)), args };
  await enter(subject, step, base, async (call) => {
    await step.abort?.(call);
    return { kind: "done" };
  });
}

type Ended = Exclude<StepResult, { kind: "wait" }>;

/** Enters one part of a step until it no longer waits, each time with its last memo. */
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
      fence: 1,
      variables: {},
      power: boundPower(subject, base),
      media: boundMedia(subject, base),
      agent: noAgent("The conformance suite has no agent."),
      image: null,
      userData: null,
      progress(percent) {
        ensure(
          percent >= 0 && percent <= 100,
          `Step ${step.name} reports a progress of ${percent} percent; report 0 to 100.`,
        );
      },
    });
    ensure(
      result?.kind === "done" || result?.kind === "wait" || result?.kind === "failed",
      `Step ${step.name} returns ${JSON.stringify(result)}, which is not a step result.`,
    );
    if (result.kind !== "wait") return result;
    ensure(isJson(result.memo), `The memo of step ${step.name} is not plain JSON.`);
    memo = JSON.parse(JSON.stringify(result.memo)) as Json;
    callback = null;
    if (result.callback === true && subject.options.sendCallback !== undefined) {
      callback = await subject.options.sendCallback({ step: step.name, callbackPath, memo });
    } else {
      const { seconds } = result;
      ensure(
        seconds !== undefined,
        `Step ${step.name} waits for a callback of the machine; pass the option \`sendCallback\`, which sends it.`,
      );
      ensure(
        Date.now() + seconds * 1000 < base.deadline.getTime(),
        `Step ${step.name} waits ${seconds} s, beyond its deadline; raise the option \`liveSeconds\`.`,
      );
      await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
    }
  }
}

export async function probe(subject: Subject, address: string, changes: CallChanges = {}): Promise<unknown> {
  const { driver, options } = subject;
  ensure(driver.discover !== undefined, "The driver has no `discover`; remove the option `discovery`.");
  const settings = await accept(
    driver.discover.settings,
    changes.settings ?? options.discovery?.settings,
    "the settings of the discovery",
  );
  return driver.discover.probe({
    address,
    settings: settings as Readonly<Record<string, Json>>,
    ...commonParts(subject, changes.signal),
  });
}

/** The parts of every call: signal, deadline, log and timing. */
function commonParts(
  { options, logged, callNames }: Subject,
  signal?: AbortSignal,
): Pick<Call<unknown>, "signal" | "deadline" | "log" | "timed"> {
  const milliseconds = (options.liveSeconds ?? 60) * 1000;
  return {
    signal: signal ?? AbortSignal.timeout(milliseconds),
    deadline: new Date(Date.now() + milliseconds),
    log: (message) => logged.push(message),
    timed(name, work) {
      callNames.push(name);
      return work();
    },
  };
}

function boundPower({ driver }: Subject, call: Call<unknown>): NodePower {
  return {
    read: () => driver.power.read(call),
    async set(action) {
      if (driver.power.set === undefined) throw new Error(NO_POWER);
      await driver.power.set(call, action);
    },
    async setBootDevice(device, options) {
      if (driver.power.setBootDevice === undefined) throw new Error("The driver cannot set a boot device.");
      await driver.power.setBootDevice(call, device, { persistent: false, ...options });
    },
  };
}

function boundMedia({ driver: { media } }: Subject, call: Call<unknown>): NodeMedia {
  const lacking = async () => {
    throw new Error("The driver has no media interface.");
  };
  return {
    offered: media !== undefined,
    insert: async (url, options) => (media ? media.insert(call, url, { writeProtected: true, ...options }) : lacking()),
    eject: async () => (media ? media.eject(call) : lacking()),
  };
}
