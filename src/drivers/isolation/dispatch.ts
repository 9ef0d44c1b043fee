/**
 * How the service makes a call of a driver: the lane, the last check, the signal that kills the process, and which
 * servers of its files are those of images. The engine adds it to the call beside the members of the contract, for an
 * isolated driver and the limits of its addresses.
 *
 * The check comes last because a call may wait for a slot, or for a process to start, while the service is paused.
 * Another replica may have claimed the run in the meantime.
 */
import type { Lane } from "./lanes.ts";

/** Resolves when the call may be made, rejects when it must not. */
type Confirm = () => Promise<void>;

export interface Dispatch {
  readonly lane: Lane;
  /** Runs when the call has a process and before it is made. Undefined: the call needs no check. */
  readonly confirm?: Confirm | undefined;
  /** Kills the call's process at once: nothing waits for the call any more. */
  readonly kill?: AbortSignal | undefined;
  /** Servers of registered images among those of the files that the call names. */
  readonly imageServers?: readonly string[] | undefined;
}

/** A call as the engine makes it. The driver does not get the dispatch. */
export interface Dispatched {
  readonly dispatch: Dispatch;
}

/** The dispatch of a call; in the lane of steps, without a check, if it has none. */
export function dispatchOf({ dispatch = { lane: "STEP" } }: object & Partial<Dispatched>): Dispatch {
  return dispatch;
}
