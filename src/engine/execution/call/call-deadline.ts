/** A call of a driver with a deadline, which holds even if the driver ignores its signal. */
import { leftUntil, whenOver } from "../../../drivers/deadline.ts";

/**
 * The deadline of a call has passed. Drivers know the error by the name that `AbortSignal.timeout` gives its reason.
 */
export class CallTimeoutError extends Error {
  override readonly name = "TimeoutError";
}

/** Makes a call that ends with the reason of `cancel`, or with a `CallTimeoutError` at the deadline. */
export async function withDeadline<T>(
  deadline: Date,
  cancel: AbortSignal,
  call: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const clock = new AbortController();
  const stopClock = whenOver(deadline, () => clock.abort(new CallTimeoutError("it did not answer in time")));
  const signal = AbortSignal.any([cancel, clock.signal]);
  const over = Promise.withResolvers<never>();
  const onAbort = () => over.reject(signal.reason);
  over.promise.catch(() => {});
  if (signal.aborted) onAbort();
  else signal.addEventListener("abort", onAbort, { once: true });
  try {
    // A driver that fails at the deadline may have seen it pass before this process did.
    const done = call(signal).catch((error: unknown) =>
      leftUntil(deadline) > 0 ? Promise.reject(error) : over.promise,
    );
    done.catch(() => {});
    return await Promise.race([done, over.promise]);
  } finally {
    stopClock();
    // A composite signal is not collected while it has a listener, even if nothing else refers to it.
    signal.removeEventListener("abort", onAbort);
  }
}
