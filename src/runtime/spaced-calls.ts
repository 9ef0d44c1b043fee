/** Calls of a function that are a minimum time apart; several requests in between lead to one call. */
interface SpacedCalls {
  /** Calls at once, or as soon as the time has passed. */
  request(): void;
  /** Makes the call that is due, if there is one. */
  flush(): void;
  cancel(): void;
}

export function createSpacedCalls(everyMs: number, call: () => void): SpacedCalls {
  let calledAt = Number.NEGATIVE_INFINITY;
  let timer: NodeJS.Timeout | undefined;
  const callNow = () => {
    timer = undefined;
    calledAt = performance.now();
    call();
  };
  return {
    request() {
      if (timer) return;
      const early = calledAt + everyMs - performance.now();
      if (early > 0) timer = setTimeout(callNow, early).unref();
      else callNow();
    },
    flush() {
      if (!timer) return;
      clearTimeout(timer);
      callNow();
    },
    cancel() {
      clearTimeout(timer);
      timer = undefined;
    },
  };
}
