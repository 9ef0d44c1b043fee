/** Calls of steps that use only their machine. */
import type { Call, StepCall } from "../../src/drivers/driver.ts";
import { noAgent } from "../../src/drivers/no-agent.ts";

/** The first call of a step, which must not touch the power, the media or an agent. */
export function stepCallOf<Settings>(call: Call<Settings>, name: string): StepCall<Settings> {
  const unused = () => Promise.reject(new Error("The step must not touch the power or the media."));
  return {
    ...call,
    args: {},
    memo: null,
    callback: null,
    callbackPath: "/callback/1",
    attemptKey: name,
    fence: 1,
    variables: {},
    power: { read: unused, set: unused, setBootDevice: unused },
    media: { offered: false, insert: unused, eject: unused },
    agent: noAgent("there is no agent"),
    image: null,
    userData: null,
    progress: () => undefined,
  };
}
