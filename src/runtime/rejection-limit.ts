/** A limit on rejected requests of each address, for ports that anything can reach. */
import { LruMap } from "./lru-map.ts";
import { createTokenBucket } from "./token-bucket.ts";
import type { TokenBucket } from "./token-bucket.ts";

/** Addresses with a count of their own; the least recent is forgotten. */
const ADDRESSES_MAX = 10_000;

interface RejectionLimit {
  /** Whether a request of the address may be tried. */
  mayTry(address: string): boolean;
  /** Counts a rejected request. */
  count(address: string): void;
}

/** Each address may send `burst` rejected requests, then `perSecond`. */
export function createRejectionLimit(burst: number, perSecond: number): RejectionLimit {
  const rejections = new LruMap<string, { readonly bucket: TokenBucket; isEmpty: boolean }>(ADDRESSES_MAX);
  return {
    mayTry(address) {
      const known = rejections.get(address);
      if (!known?.isEmpty) return true;
      known.isEmpty = !known.bucket.take();
      return !known.isEmpty;
    },
    count(address) {
      const bucket = rejections.get(address)?.bucket ?? createTokenBucket(burst, perSecond);
      rejections.set(address, { bucket, isEmpty: !bucket.take() });
    },
  };
}
