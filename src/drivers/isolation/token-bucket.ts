/** A measure of how much is let through: a burst, and then so much a second. */
export interface Bucket {
  /** Whether one more goes through. */
  take(): boolean;
}

export function createBucket(burst: number, perSecond: number): Bucket {
  let left = burst;
  let at = performance.now();
  return {
    take() {
      const now = performance.now();
      left = Math.min(burst, left + ((now - at) / 1000) * perSecond);
      at = now;
      if (left < 1) return false;
      left -= 1;
      return true;
    },
  };
}
