/**
 * The driver contract, version 1: what a plugin module has to export so that Ostler can drive a kind of machine.
 * Types only, no code: a plugin imports it with `import type` and depends on nothing else of Ostler.
 *
 * A plugin module default-exports a `DriverFactory`. What a driver lacks (`inspect`, `deploy`, `clean`) it cannot do;
 * a node may take that one interface from another driver. Drivers keep no state that matters: what must survive a
 * restart of the service goes into a step's `memo`.
 *
 * How to write one: docs/drivers.md. A driver is fit to ship when it passes `src/drivers/conformance`.
 */
import type { StandardJSONSchemaV1, StandardSchemaV1 } from "@standard-schema/spec";

/** Anything that survives `JSON.parse(JSON.stringify(x))`. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

/** Raised by one when a change of this file breaks existing plugins. */
export type ContractVersion = 1;

/**
 * A schema of any library that speaks Standard Schema and Standard JSON Schema (Zod 4.2 and later, for one).
 * It must accept its own output again, and describe an object.
 */
export type Schema<Value> = StandardSchemaV1<unknown, Value> & StandardJSONSchemaV1<unknown, Value>;

/** Power of a machine, as its BMC tells it. `UNKNOWN` where it tells nothing. */
export type PowerState = "ON" | "OFF" | "UNKNOWN";

/** `SOFT_OFF` asks the operating system to shut down and is done when the machine is off. */
export type PowerAction = "ON" | "OFF" | "SOFT_OFF" | "REBOOT";

/** What the machine starts from next: network, its own disk, a virtual medium, or firmware set-up. */
export type BootDevice = "PXE" | "DISK" | "CDROM" | "BIOS";

/** The phases whose steps a driver declares. The engine itself verifies, through `power`. */
export type DriverPhase = "inspect" | "clean" | "deploy" | "undeploy";

/**
 * Whether a running step may be cut.
 * `ALWAYS`: its signal fires and it ends. `AT_BOUNDARY`: an abort waits until it has ended.
 * `NEVER`: an abort is refused while it runs (firmware is being written, say).
 */
export type Interruptible = "ALWAYS" | "AT_BOUNDARY" | "NEVER";

/**
 * What a step changes on a machine: what is on its disks, its firmware, the networks it is attached to. From the first step
 * that touches disks or firmware on, there is no way back to what was before; an abort tells what was touched.
 */
export type Touch = "DISKS" | "FIRMWARE" | "NETWORK";

/** Told apart so that the operator knows whom to ask: the login, the wire, the time, or the machine itself. */
export type DriverErrorKind = "AUTHENTICATION" | "UNREACHABLE" | "TIMEOUT" | "REFUSED" | "OTHER";

/**
 * What a driver function may throw, besides plain errors. `retryable` says that the same call may well succeed later.
 * A plain object check is enough (`name === "DriverError"`): plugins do not import a class from here.
 */
export interface DriverError extends Error {
  readonly name: "DriverError";
  readonly kind: DriverErrorKind;
  readonly retryable: boolean;
}

/** How a step ended, or that it has not ended yet. Anything else a step returns counts as a failure. */
export type StepResult =
  /** Finished. `output` is kept with the step; of an `inspect` step it is merged into the inventory. */
  | { readonly kind: "done"; readonly output?: Json }
  /**
   * Not finished: entered again with `memo` after `seconds`, or, with `callback`, when the machine calls back or after
   * `seconds` of silence, 1800 if absent (`StepCall.callback` then is null). Nothing of this process need live until then. A memo is
   * stored as it is and comes back as it was, so it must hold no secret; the settings are there again.
   */
  | { readonly kind: "wait"; readonly seconds?: number; readonly callback?: true; readonly memo: Json }
  /** Failed. A retryable failure is tried again as often as `Step.retries` allows. */
  | { readonly kind: "failed"; readonly reason: string; readonly retryable: boolean };

/** The node as a driver sees it. */
export interface NodeView {
  /** UUID; stable for the life of the node. */
  readonly id: string;
  /** Name, unique among nodes. It can change. */
  readonly name: string;
  /** Power as last read, by whatever driver. */
  readonly powerState: PowerState;
  readonly labels: Readonly<Record<string, string>>;
}

/** All that a driver function is given. No database, no engine. */
export interface Call<Settings> {
  readonly node: NodeView;
  /** Validated by `Driver.settings`, secrets included. */
  readonly settings: Settings;
  /** Fires when the call should end: an abort, or the deadline. */
  readonly signal: AbortSignal;
  /** When the engine gives up on this call. */
  readonly deadline: Date;
  /** A line for the service's log and, within a step, for the step's own, which clients read; secrets of the settings are masked. */
  log(message: string): void;
  /**
   * Makes a call to the machine, so that traces and metrics know it and how long it took: wrap each in it. `name` is one of few
   * ("ipmi chassis power on"), with no address, no node's name and no secret in it. Answers, or throws, what `work` does.
   */
  timed<T>(name: string, work: () => Promise<T>): Promise<T>;
}

/** What a step is given besides. */
export interface StepCall<Settings> extends Call<Settings> {
  /** Checked against `Step.args`; `{}` where the step takes none. */
  readonly args: Readonly<Record<string, Json>>;
  /** What the last `wait` of this step asked to be kept; null on the first entry. */
  readonly memo: Json;
  /** Body of the call-back that ended the wait; null when time ended it or there was no wait. */
  readonly callback: Json;
  /** Where the machine may call back, once per wait: an opaque path below the service's address. */
  readonly callbackPath: string;
  /** The same in every entry of the same attempt: hand it to a back end that can detect repeats. */
  readonly attemptKey: string;
  /** Effective variables of the operation: cluster settings overlaid with the request's. */
  readonly variables: Readonly<Record<string, Json>>;
  /** Power of the node, through whatever driver the node takes `power` from. */
  readonly power: NodePower;
  /** Progress for people, 0 to 100. Cheap: the engine throttles. */
  progress(percent: number, message?: string): void;
}

/** The node's power interface, bound to the node. */
export interface NodePower {
  read(): Promise<PowerState>;
  /** Done when the machine is in the state asked for; no call when it is there already (a reboot always acts). */
  set(action: PowerAction): Promise<void>;
  /** Rejects when the driver that gives power cannot set it. */
  setBootDevice(device: BootDevice, options?: { readonly persistent?: boolean }): Promise<void>;
}

/** Power. Every function may be called again after a crash: it must come to the same end. */
export interface PowerInterface<Settings> {
  /** Reads the power; throws when the machine does not answer or refuses the login. Also how a node is verified. */
  read(call: Call<Settings>): Promise<PowerState>;
  /** Returns when the machine is in that state, or throws. */
  set(call: Call<Settings>, action: PowerAction): Promise<void>;
  /** Absent: cannot. */
  setBootDevice?(call: Call<Settings>, device: BootDevice, options: { readonly persistent: boolean }): Promise<void>;
}

/** The smallest thing that is executed, timed, retried, interrupted and recorded. */
export interface Step<Settings> {
  /** Lower-case words joined by underscores, unique in its interface and phase. */
  readonly name: string;
  /** For people: what it does. */
  readonly title: string;
  readonly phase: DriverPhase;
  /** Higher runs first. 0: only when asked for by name. */
  readonly priority: number;
  readonly interruptible: Interruptible;
  /** Longest time from its beginning to its end, waits included. */
  readonly timeoutSeconds: number;
  /**
   * Whether it may be entered again after a crash without a memo. A step that says no fails with INTERRUPTED
   * when the process dies under it.
   */
  readonly idempotent: boolean;
  /** How often a retryable failure is tried again, and how long after. Absent: never. */
  readonly retries?: { readonly times: number; readonly backoffSeconds: number };
  /** With this step's success the operating system stands; a restart that keeps the stage begins after it. */
  readonly reaches?: "PROVISIONED";
  /** What it changes. Absent: a clean, deploy or undeploy step is taken to touch the disks, an inspect step nothing. `[]`: nothing. */
  readonly touches?: readonly Touch[];
  /** Schema of the arguments. Absent: takes none. */
  readonly args?: Schema<Readonly<Record<string, Json>>>;
  /** Does the work. May be entered twice with the same `attemptKey`, and must find its own earlier work. */
  run(call: StepCall<Settings>): Promise<StepResult>;
  /**
   * Looks whether the work of `run` has taken effect, when that has ended well. The step succeeds when this does; it may
   * wait (its memo is its own), and its failure is the step's. What `run` put out stays the output.
   */
  verify?(call: StepCall<Settings>): Promise<StepResult>;
  /** Undoes what is under way, so that the node can be left alone. Called when the step was aborted, with its memo. */
  abort?(call: StepCall<Settings>): Promise<void>;
}

/** Steps of one kind. */
export interface StepInterface<Settings> {
  /** Whether work of this interface can be aborted at all. */
  readonly supportsAbort: boolean;
  readonly steps: readonly Step<Settings>[];
}

/** Inspection. Its steps' outputs, merged in order, are the inventory snapshot. */
export interface InspectInterface<Settings> extends StepInterface<Settings> {
  /** Whether it works without touching a running system; then AVAILABLE and ACTIVE nodes may be inspected as well. */
  readonly withoutReboot: boolean;
}

/** Finds machines. */
export interface DiscoverInterface<Settings> {
  /** Settings of a node at that address, without what is to be found: the credentials mostly. Secrets are marked as in `Driver.settings`. */
  readonly settings: Schema<Readonly<Record<string, Json | undefined>>>;
  /**
   * Looks whether a machine that this driver can drive answers at a host name or IP address. Answers the settings that a node
   * there has, and a name for it if the machine tells one; throws where nothing answers or the login is refused.
   */
  probe(call: DiscoverCall): Promise<{ readonly settings: Settings; readonly name?: string }>;
}

/** What a probe is given. */
export interface DiscoverCall {
  readonly address: string;
  /** Validated by `DiscoverInterface.settings`, secrets included. */
  readonly settings: Readonly<Record<string, Json | undefined>>;
  readonly signal: AbortSignal;
  readonly deadline: Date;
  log(message: string): void;
  /** As in `Call`. */
  timed<T>(name: string, work: () => Promise<T>): Promise<T>;
}

/** A driver: what talks to a kind of machine. */
export interface Driver<Settings> {
  readonly contract: ContractVersion;
  /** Lower-case, unique among the loaded plugins: what a node names. */
  readonly name: string;
  /** Version of the plugin. */
  readonly version: string;
  /** One sentence: which machines it drives and through what. */
  readonly description: string;
  /** Settings of a node. Secret fields are strings marked `writeOnly` in the JSON Schema and never come back out. */
  readonly settings: Schema<Settings>;
  readonly power: PowerInterface<Settings>;
  readonly inspect?: InspectInterface<Settings>;
  /** Steps of the phases `deploy` and `undeploy`. */
  readonly deploy?: StepInterface<Settings>;
  readonly clean?: StepInterface<Settings>;
  readonly discover?: DiscoverInterface<Settings>;
  /**
   * What the node's management controller is reached by (host and port, say). Nodes for which it answers the same share that
   * controller, and the site's limit for one; a discovery knows by it the nodes that are registered already. Absent, or an
   * empty text: a controller of the node's own. Holds no secret.
   */
  controllerOf?(settings: Settings): string;
  /** Ends what the driver holds open, when the service ends. */
  close?(): Promise<void>;
}

/** What a plugin is given when it is loaded. */
export interface PluginHost {
  /** A line for the service's log. */
  log(message: string): void;
  /** Set where the driver is only asked what it declares, and none of its functions is called: what it needs of its surroundings may then be missing. */
  readonly describing?: true;
  /** What all processes that run this driver for the service have in common. Absent outside of a service, as in a test of the driver. */
  readonly memory?: DriverMemory;
}

/**
 * A small memory of a driver, by key: a session with a BMC, say, that the next call may go on with in another process. It is
 * gone when the service ends, and forgets what was not touched for longest when it is full, so nothing may depend on it.
 */
export interface DriverMemory {
  get(key: string): Promise<Json | undefined>;
  /** Undefined takes the key away. A value and its key may be 64 Ki characters of JSON. */
  set(key: string, value: Json | undefined): Promise<void>;
}

/** The default export of a plugin module. It may throw, with a sentence that says what is missing. */
export type DriverFactory<Settings> = (host: PluginHost) => Driver<Settings> | Promise<Driver<Settings>>;
