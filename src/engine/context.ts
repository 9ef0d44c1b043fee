/** The parts that the engine's functions share. `createEngine` makes them once; every request gets the same. */
import type { Registry } from "../drivers/registry.ts";
import type { Log } from "../log.ts";
import type { Observer } from "../observer.ts";
import type { Provisioning } from "./input/agent-media.ts";
import type { KnownPlans } from "./plans/known-plans.ts";
import type { Database } from "../store/postgres/database.ts";
import type { Notifier } from "../store/postgres/notifier.ts";
import type { Keyring } from "../store/secrets/keyring.ts";
import type { Transact } from "./transaction.ts";

/** Principals of the configuration. */
export interface Principals {
  /** Always administrators. */
  readonly admins: readonly string[];
  /** Names of issuers, whose users and groups may have roles. */
  readonly issuers: readonly string[];
}

/** The parts of the process that the work of the engine uses. */
export interface EngineParts {
  readonly database: Database;
  readonly transact: Transact;
  readonly registry: Registry;
  /** Encrypts and decrypts secrets. */
  readonly keyring: Keyring;
  readonly notifier: Notifier;
  readonly observer: Observer;
  readonly log: Log;
}

export interface EngineContext extends Omit<EngineParts, "database" | "notifier"> {
  /** Null: the service has no provisioning listener. */
  readonly provisioning: Provisioning | null;
  /** Folder with the files of stored images; null: this service stores none. */
  readonly imageFolder: string | null;
  readonly principals: Principals;
  readonly knownPlans: KnownPlans;
  /**
   * Makes the slot scheduler look soon for waiting runs that can start. Called after a commit that may have freed a
   * slot.
   */
  readonly nudge: () => void;
  /** Makes the runner of this replica look for interrupts now instead of at its next poll. */
  readonly checkInterrupts: () => void;
}
