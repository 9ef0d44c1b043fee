/** Waiting for a machine to reach a state, within one call of the driver. */
import { setTimeout as sleep } from "node:timers/promises";
import type { MachineCall } from "../../src/drivers/driver.ts";
import { RedfishError } from "./error.ts";

const FIRST_MILLISECONDS = 250;
const LONGEST_MILLISECONDS = 3000;

type Waiting = Pick<MachineCall<unknown>, "deadline" | "signal">;

export interface Awaited<Value> {
  readonly read: () => Promise<Value>;
  readonly isReached: (value: Value) => boolean;
  /** For the message of a timeout: what the BMC did not do, and what it last reported. */
  readonly describe: (last: Value | undefined) => string;
  /** Limit in addition to the deadline of the call. */
  readonly seconds?: number;
}

/**
 * Reads until the value is reached. BMCs stop answering while power changes, so a retryable failure does not end it.
 */
export async function waitUntil<Value>(
  call: Waiting,
  { read, isReached, describe, seconds }: Awaited<Value>,
): Promise<Value> {
  const end = Math.min(call.deadline.getTime(), Date.now() + (seconds ?? Infinity) * 1000);
  let last: Value | undefined;
  let failure: unknown;
  for (let milliseconds = FIRST_MILLISECONDS; ; milliseconds = Math.min(milliseconds * 2, LONGEST_MILLISECONDS)) {
    try {
      last = await read();
      if (isReached(last)) return last;
      failure = undefined;
    } catch (error) {
      if (!(error instanceof RedfishError && error.retryable)) throw error;
      failure = error;
    }
    if (Date.now() + milliseconds >= end)
      throw new RedfishError({ kind: "TIMEOUT", retryable: true, message: describe(last) }, { cause: failure });
    await pause(milliseconds / 1000, call.signal);
  }
}

/** A person may wait for the change, which the engine does not park. */
const AWAY_SECONDS = 60;

/** Makes a change that can be made twice, from its beginning again while the BMC answers that it does not serve. */
export async function whenServed(call: Waiting, change: () => Promise<void>): Promise<void> {
  const end = Math.min(call.deadline.getTime(), Date.now() + AWAY_SECONDS * 1000);
  for (let milliseconds = FIRST_MILLISECONDS; ; milliseconds = Math.min(milliseconds * 2, LONGEST_MILLISECONDS)) {
    try {
      return await change();
    } catch (error) {
      const isAnswered = error instanceof RedfishError && error.away && error.status !== undefined;
      if (!isAnswered || Date.now() + milliseconds >= end) throw error;
    }
    await pause(milliseconds / 1000, call.signal);
  }
}

/** Waits; throws the reason of the signal when it fires. */
export async function pause(seconds: number, signal: AbortSignal): Promise<void> {
  await sleep(seconds * 1000, undefined, { signal }).catch(() => undefined);
  signal.throwIfAborted();
}
