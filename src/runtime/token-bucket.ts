/** A rate limit: a burst, then `perSecond` tokens each second. */
export interface TokenBucket {
  /** Takes a token; false if there is none. */
  take(): boolean;
  /** Whether there is none to take. */
  isEmpty(): boolean;
}

export function createTokenBucket(burst: number, perSecond: number): TokenBucket {
  let tokens = burst;
  let filledAt = performance.now();
  const isEmpty = () => {
    const now = performance.now();
    tokens = Math.min(burst, tokens + ((now - filledAt) / 1000) * perSecond);
    filledAt = now;
    return tokens < 1;
  };
  return {
    isEmpty,
    take() {
      if (isEmpty()) return false;
      tokens -= 1;
      return true;
    },
  };
}
