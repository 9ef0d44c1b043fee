/** The computer that a BMC switches: nothing but its power by default, or a virtual machine (qemu.ts). */

export interface BootChoice {
  /** Value of BootSourceOverrideTarget, `Hdd` without an override. */
  readonly target: string;
  readonly mode: string;
  /** Image in the virtual CD drive. */
  readonly image: string | null;
}

export interface Machine {
  /** Switches on. Rejects if the machine cannot start. */
  start(boot: BootChoice): Promise<void>;
  /** Cuts the power. */
  stop(): Promise<void>;
  /** Asks the operating system to shut down. True when it has, false if it did not in its time. */
  shutdown(): Promise<boolean>;
  /** Changes the image in the virtual CD drive. Rejects if it cannot be read. */
  insert(image: string | null): Promise<void>;
  /** Calls back when the machine goes off without being asked to. */
  onExit(listener: () => void): void;
  close(): Promise<void>;
}

/** A machine that does what it is asked to, at once. */
export const SIMULATED_MACHINE: Machine = {
  start: () => Promise.resolve(),
  stop: () => Promise.resolve(),
  shutdown: () => Promise.resolve(true),
  insert: () => Promise.resolve(),
  onExit: () => undefined,
  close: () => Promise.resolve(),
};
