/**
 * A limited number of places that networks, and the addresses in them, share. When all are taken, a newcomer takes the
 * newest place of the network that has most, or else of the address in its own that has most, as long as that has more
 * than the newcomer would: no address can shut out another one. Of what is over in a moment, the oldest is what hangs:
 * then it takes the oldest place, also its own.
 */
import { isIPv6 } from "node:net";
import type { Socket } from "node:net";
import { addressOf, valueOfIPv6 } from "./ip-addresses.ts";

export interface FairPlaces {
  /**
   * Takes a place. Returns the function that gives it back, or null if there is none. `end` is called when another
   * address takes it.
   */
  take(address: string, end: () => void): (() => void) | null;
}

interface Network {
  count: number;
  /** The places of each address, the newest last. */
  readonly addresses: Map<string, Set<() => void>>;
}

interface FairPlacesOptions {
  /** Places of one address; by default all. */
  readonly perAddress?: number;
  /** The place of an address that a newcomer takes. */
  readonly taken?: "NEWEST" | "OLDEST";
}

/** `most`: places in all. */
export function createFairPlaces(
  most: number,
  { perAddress = Infinity, taken = "NEWEST" }: FairPlacesOptions = {},
): FairPlaces {
  const networks = new Map<string, Network>();
  let count = 0;

  function giveBack(address: string, place: () => void): void {
    const name = networkOf(address);
    const network = networks.get(name);
    const places = network?.addresses.get(address);
    if (!network || !places?.delete(place)) return;
    count -= 1;
    network.count -= 1;
    if (places.size === 0) network.addresses.delete(address);
    if (network.count === 0) networks.delete(name);
  }

  /** Frees a place for an address of a network that has `mine` places; false if no other has enough more. */
  function makeRoom(network: Network, mine: number): boolean {
    const isOldest = taken === "OLDEST";
    const fullest = [...networks.values()].reduce((one, other) => (other.count > one.count ? other : one));
    const from = fullest.count > network.count + (isOldest ? 0 : 1) ? fullest : network;
    const [address, places] = [...from.addresses].reduce(
      (one, other) => (other[1].size > one[1].size ? other : one),
      ["", new Set<() => void>()],
    );
    const place = [...places].at(isOldest ? 0 : -1);
    if (place === undefined || (from === network && !isOldest && places.size <= mine + 1)) return false;
    giveBack(address, place);
    place();
    return true;
  }

  return {
    take(address, end) {
      const name = networkOf(address);
      const network: Network = networks.get(name) ?? { count: 0, addresses: new Map() };
      const mine = network.addresses.get(address) ?? new Set();
      if (mine.size >= perAddress || (count >= most && !makeRoom(network, mine.size))) return null;
      // Each place is a function of its own.
      const place = () => end();
      networks.set(name, network);
      network.addresses.set(address, mine.add(place));
      network.count += 1;
      count += 1;
      return () => giveBack(address, place);
    },
  };
}

/** Gives a connection a place until it is closed, or until the result is called; ends it if there is none. */
export function admit(places: FairPlaces, socket: Socket): () => void {
  const leave = places.take(addressOf(socket), () => socket.destroy());
  if (leave) socket.once("close", leave);
  else socket.destroy();
  return leave ?? (() => {});
}

/** One host can have every IPv6 address of a network of 64 bits. An IPv4 address is its own network. */
function networkOf(address: string): string {
  const [plain = ""] = address.split("%");
  return isIPv6(plain) ? `${valueOfIPv6(plain) >> 64n}` : address;
}
