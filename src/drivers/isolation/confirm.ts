/**
 * Who is asked last before a driver is called. A call may wait for its place, or for a process to start, and its service may
 * be paused meanwhile: then others may have taken over the run that it is made for.
 */
import { AsyncLocalStorage } from "node:async_hooks";

/** Resolves when a call may be made, rejects when it must not. */
export type Confirm = () => Promise<void>;

const confirms = new AsyncLocalStorage<Confirm>();

/** Calls to drivers that `work` makes are each confirmed when nothing but the call itself is left to do. */
export function confirmedBy<T>(confirm: Confirm, work: () => T): T {
  return confirms.run(confirm, work);
}

/** Who confirms calls that are made from here; undefined: they need none. */
export function confirmHere(): Confirm | undefined {
  return confirms.getStore();
}
