/**
 * What the service tells whoever watches it: metrics and traces are made of it, in src/telemetry. Who does the work calls
 * these and knows nothing of either. Watching changes nothing: what wraps work answers, or throws, what the work does, and
 * nothing here throws by itself or waits. `NOBODY` watches, where nobody does, and costs a call of an empty function.
 */

/** A call of a driver to its machine, as the driver itself (`Call.timed`) or the engine (`power read`) names it. */
export interface CallAbout {
  readonly driver: string;
  readonly name: string;
  readonly node: string;
}

export interface Observer {
  /** Wraps a call of a driver to its machine. */
  call<T>(about: CallAbout, work: () => Promise<T>): Promise<T>;
}

export const NOBODY: Observer = {
  call: (_about, work) => work(),
};
