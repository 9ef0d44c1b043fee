/** Waiting for a machine to reach a state, within one call of the driver. */
import { setTimeout as sleep } from "node:timers/promises";
import type { RedfishCall } from "./connection.ts";
import { RedfishError } from "./error.ts";

const FIRST_MILLISECONDS = 250;
const LONGEST_MILLISECONDS = 3000;

export interface Awaited<Value> {
  readonly read: () => Promise<Value>;
  readonly isReached: (value: Value) => boolean;
  /** For the message of a timeout: what the BMC did not do, and what it last reported. */
  readonly describe: (last: Value | undefined) => string;
  /** Limit besides the deadline of the call. */
  readonly seconds?: number;
}

/** Reads until the value is reached. BMCs stop answering while power changes, so a retryable failure does not end it. */
export async function waitUntil<Value>(
  call: RedfishCall,
  { read, isReached, describe, seconds }: Awaited<Value>,
): Promise<Value> {
  const end = Math.min(call.deadline.getTime(), Date.now() + (seconds ?? Infinity) * 1000);
  let last: Value | undefined;
  let failure: unknown;
  for (let pause = FIRST_MILLISECONDS; ; pause = Math.min(pause * 2, LONGEST_MILLISECONDS)) {
    try {
      last = await read();
      if (isReached(last)) return last;
      failure = undefined;
    } catch (error) {
      if (!(error instanceof RedfishError && error.retryable)) throw error;
      failure = error;
    }
    if (Date.now() + pause >= end)
      throw new RedfishError({ kind: "TIMEOUT", retryable: true, message: describe(last) }, { cause: failure });
    await sleep(pause, undefined, { signal: call.signal }).catch(() => undefined);
    call.signal.throwIfAborted();
  }
}
