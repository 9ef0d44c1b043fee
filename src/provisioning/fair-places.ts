/**
 * A limited number of places that addresses share. When all are taken, a newcomer takes the newest place of the address
 * that has most, as long as that has more than the newcomer would: no address can shut out another one.
 */
export interface FairPlaces {
  /**
   * Takes a place. Returns the function that gives it back, or null if there is none. `end` is called when another
   * address takes it.
   */
  take(address: string, end: () => void): (() => void) | null;
}

/** `most`: places in all; `perAddress`: of one address. */
export function createFairPlaces(most: number, perAddress = most): FairPlaces {
  /** The places of each address, the newest last. */
  const taken = new Map<string, Set<() => void>>();
  let count = 0;

  function giveBack(address: string, place: () => void): void {
    const places = taken.get(address);
    if (!places?.delete(place)) return;
    count -= 1;
    if (places.size === 0) taken.delete(address);
  }

  return {
    take(address, end) {
      const mine = taken.get(address) ?? new Set();
      if (mine.size >= perAddress) return null;
      if (count >= most) {
        const [crowded, places] = [...taken].reduce((one, other) => (other[1].size > one[1].size ? other : one));
        const newest = [...places].at(-1);
        if (newest === undefined || places.size <= mine.size + 1) return null;
        giveBack(crowded, newest);
        newest();
      }
      // Each place is a function of its own.
      const place = () => end();
      taken.set(address, mine.add(place));
      count += 1;
      return () => giveBack(address, place);
    },
  };
}
