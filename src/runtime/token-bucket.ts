/** A rate limit: a burst, then `perSecond` tokens each second. */
export interface TokenBucket {
  /** Takes a token; false if there is none. */
  take(): boolean;
  /** Puts a token that was taken back. */
  giveBack(): void;
}

export function createTokenBucket(burst: number, perSecond: number): TokenBucket {
  let tokens = burst;
  let filledAt = performance.now();
  return {
    take() {
      const now = performance.now();
      tokens = Math.min(burst, tokens + ((now - filledAt) / 1000) * perSecond);
      filledAt = now;
      if (tokens < 1) return false;
      tokens -= 1;
      return true;
    },
    giveBack() {
      tokens = Math.min(burst, tokens + 1);
    },
  };
}
