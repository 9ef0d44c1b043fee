/**
 * The driver contract, version 1: the default export of a plugin module, and the objects passed to it and returned by
 * it. This file contains types only. A plugin imports it with `import type` and depends on nothing else in Ostler.
 *
 * A plugin module exports a `DriverFactory` as its default. The interfaces `inspect`, `clean`, `deploy` and `discover`
 * are optional; a node can take one that its driver lacks from another driver. Drivers keep no essential state: data
 * that must survive a restart of the service belongs in the `memo` of a step.
 *
 * Guide for driver authors: docs/drivers.md. A driver must pass `src/drivers/conformance` before it is released.
 */
import type { StandardJSONSchemaV1, StandardSchemaV1 } from "@standard-schema/spec";

/** A value that `JSON.parse(JSON.stringify(value))` returns unchanged. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

/** Incremented when a change of this file breaks existing plugins. */
export type ContractVersion = 1;

/**
 * A schema of any library that implements Standard Schema and Standard JSON Schema, such as Zod 4.2 and later.
 * It describes an object and accepts its own output.
 */
export type Schema<Value> = StandardSchemaV1<unknown, Value> & StandardJSONSchemaV1<unknown, Value>;

/** Power of a machine, as its BMC reports it. `UNKNOWN` if the BMC reports no power state. */
export type PowerState = "ON" | "OFF" | "UNKNOWN";

/** `SOFT_OFF` asks the operating system to shut down and ends when the machine is off. */
export type PowerAction = "ON" | "OFF" | "SOFT_OFF" | "REBOOT";

/** Boot source of the next start: the network, the machine's own disk, a virtual medium, or the firmware setup. */
export type BootDevice = "PXE" | "DISK" | "CDROM" | "BIOS";

/** Phases whose steps a driver declares. The phase `verify` belongs to the engine, which uses `power`. */
export type DriverPhase = "inspect" | "clean" | "deploy" | "undeploy";

/**
 * The effect of an abort on the running step.
 * `ALWAYS`: the step's signal fires, and the step ends. `AT_BOUNDARY`: the abort waits until the step has ended, parked
 * or not, unless it is requested to cut it.
 * `NEVER`: an abort is refused while the step runs, for example while it writes firmware.
 */
export type Interruptible = "ALWAYS" | "AT_BOUNDARY" | "NEVER";

/**
 * A part of the machine that a step changes: the content of its disks, its firmware, or the networks it is attached to.
 * The first step that touches disks or firmware is the point of no return. The result of an abort lists what was
 * touched.
 */
export type Touch = "DISKS" | "FIRMWARE" | "NETWORK";

/** Points the operator to the cause: the login, the network, the time limit, or a refusal by the machine. */
export type DriverErrorKind = "AUTHENTICATION" | "UNREACHABLE" | "TIMEOUT" | "REFUSED" | "OTHER";

/**
 * An error that a driver function can throw; plain errors are allowed too. `retryable` means that the same call may
 * succeed later. The engine checks `name === "DriverError"`, so there is no class to import.
 */
export interface DriverError extends Error {
  readonly name: "DriverError";
  readonly kind: DriverErrorKind;
  readonly retryable: boolean;
}

/** Result of one entry of a step. Any other value counts as a failure. */
export type StepResult =
  /** Finished. `output` is stored with the step; outputs of `inspect` steps are merged into the inventory. */
  | { readonly kind: "done"; readonly output?: Json }
  /**
   * Not finished. The step is entered again with `memo` after `seconds`. With `callback` it is entered when the machine
   * sends a callback, or after `seconds` (default 1800) without one; `StepCall.callback` is then null. No process holds
   * the step until then. The memo is stored as it is, so it must not contain secrets; the settings are passed again.
   */
  | { readonly kind: "wait"; readonly seconds?: number; readonly callback?: true; readonly memo: Json }
  /** Failed. A retryable failure is retried at most `Step.retries.times` times. */
  | { readonly kind: "failed"; readonly reason: string; readonly retryable: boolean };

/** The node as a driver sees it. */
export interface NodeView {
  /** UUID; never changes. */
  readonly id: string;
  /** Unique among nodes; can change. */
  readonly name: string;
  /** Power as last read, by the driver that gives the node its power interface. */
  readonly powerState: PowerState;
  readonly labels: Readonly<Record<string, string>>;
}

/** The argument of every driver function. A driver has no access to the database or the engine. */
export interface Call<Settings> {
  readonly node: NodeView;
  /** Validated by `Driver.settings`, secrets included. */
  readonly settings: Settings;
  /**
   * The checked IP addresses of the settings that are marked `address`, by the setting's value and by the host in it.
   * Each name is resolved once for a call. Connect to the address where the protocol needs no name, and give it to
   * programs; Node's own lookups of the name during the call return the same address. Absent if addresses are not
   * limited.
   */
  readonly addresses?: Readonly<Record<string, string>>;
  /** Fires when the call must end: after an abort, or at the deadline. */
  readonly signal: AbortSignal;
  /** The time at which the engine gives up on this call. */
  readonly deadline: Date;
  /**
   * Writes a line to the service's log and, within a step, to the step log, which clients read. Secrets of the settings
   * are masked.
   */
  log(message: string): void;
  /**
   * Makes one call to the machine and records its name and duration in traces and metrics. Wrap every call in it.
   * `name` is one of a small fixed set ("ipmi chassis power on"), without addresses, node names and secrets. Returns or
   * throws what `work` returns or throws.
   */
  timed<T>(name: string, work: () => Promise<T>): Promise<T>;
}

/** The argument of a step's functions. */
export interface StepCall<Settings> extends Call<Settings> {
  /** Validated by `Step.args`; `{}` if the step takes no arguments. */
  readonly args: Readonly<Record<string, Json>>;
  /** The memo of the last `wait` of this step; null on the first entry. */
  readonly memo: Json;
  /** Body of the callback that ended the wait; null if its time ended, or if there was no wait. */
  readonly callback: Json;
  /** Opaque path, below the service's address, to which the machine can send a callback once per wait. */
  readonly callbackPath: string;
  /** The same in every entry of one attempt. Pass it to a back end that detects repeated requests. */
  readonly attemptKey: string;
  /** Effective variables of the operation: the cluster's settings overlaid with the request's. */
  readonly variables: Readonly<Record<string, Json>>;
  /** Power of the node, through the driver that gives the node its power interface. */
  readonly power: NodePower;
  /** Reports progress for people, 0 to 100. Call it as often as you like: the engine throttles. */
  progress(percent: number, message?: string): void;
}

/** The node's power interface, bound to the node. */
export interface NodePower {
  read(): Promise<PowerState>;
  /**
   * Resolves when the machine is in the requested state. The driver is not called if the machine is in it already,
   * except for a reboot.
   */
  set(action: PowerAction): Promise<void>;
  /** Rejects if the driver of the power interface has no `setBootDevice`. */
  setBootDevice(device: BootDevice, options?: { readonly persistent?: boolean }): Promise<void>;
}

/** Power. Every function must be idempotent: it can be called again after a crash. */
export interface PowerInterface<Settings> {
  /** Reads the power; throws if the machine does not answer or refuses the login. Also used to verify a node. */
  read(call: Call<Settings>): Promise<PowerState>;
  /** Returns when the machine is in the requested state; otherwise throws. */
  set(call: Call<Settings>, action: PowerAction): Promise<void>;
  /** Absent if the driver cannot set a boot device. */
  setBootDevice?(call: Call<Settings>, device: BootDevice, options: { readonly persistent: boolean }): Promise<void>;
}

/** The smallest unit that the engine executes, times, retries, interrupts and records. */
export interface Step<Settings> {
  /** Lower-case words joined by underscores, unique in its interface and phase. */
  readonly name: string;
  /** For people: what the step does. */
  readonly title: string;
  readonly phase: DriverPhase;
  /** Higher runs first. A step with 0 runs only if it is requested by name. */
  readonly priority: number;
  readonly interruptible: Interruptible;
  /** Limit from the beginning of an attempt to its end, waits included. */
  readonly timeoutSeconds: number;
  /**
   * True if the step can be entered again after a crash without a memo. Otherwise it fails with INTERRUPTED when its
   * process ends.
   */
  readonly idempotent: boolean;
  /** Number of retries after a retryable failure, and the delay before each. Absent: no retries. */
  readonly retries?: { readonly times: number; readonly backoffSeconds: number };
  /**
   * After this step the operating system is installed; a restart that keeps the stage continues after it.
   */
  readonly reaches?: "PROVISIONED";
  /**
   * Parts of the machine that the step changes; `[]` for none. Absent: a clean, deploy or undeploy step is assumed to
   * touch the disks, and an inspect step nothing.
   */
  readonly touches?: readonly Touch[];
  /**
   * For a clean step that touches disks: a restart repeats it although it succeeded. Absent or false: a restart that
   * repeats the unfinished stage keeps the erasure and does not run the step again.
   */
  readonly repeatOnRestart?: boolean;
  /** Schema of the arguments. Absent if the step takes none. */
  readonly args?: Schema<Readonly<Record<string, Json>>>;
  /** Performs the step. It can be entered twice with the same `attemptKey`, and must find its own earlier work. */
  run(call: StepCall<Settings>): Promise<StepResult>;
  /**
   * Checks, after `run` is done, whether its work has taken effect. The step succeeds or fails with it; the output of
   * `run` is kept. It can wait, with a memo of its own.
   */
  verify?(call: StepCall<Settings>): Promise<StepResult>;
  /**
   * Undoes unfinished work so that the node can be left alone. Called with the step's memo after the step was aborted,
   * and after it failed for good or ran out of time. May be called twice, and when there is nothing to undo.
   */
  abort?(call: StepCall<Settings>): Promise<void>;
}

/** Steps of one kind. */
export interface StepInterface<Settings> {
  /** If false, every abort is refused during the steps of this interface. */
  readonly supportsAbort: boolean;
  readonly steps: readonly Step<Settings>[];
}

/** Inspection. The outputs of its steps, merged in order, are the inventory snapshot. */
export interface InspectInterface<Settings> extends StepInterface<Settings> {
  /** True if inspection does not affect a running system. AVAILABLE and ACTIVE nodes can then be inspected too. */
  readonly withoutReboot: boolean;
}

/** Finds machines. */
export interface DiscoverInterface<Settings> {
  /**
   * Schema of the settings for a probe: a node's settings without the part that the probe finds, mainly the
   * credentials. Secrets are marked as in `Driver.settings`.
   */
  readonly settings: Schema<Readonly<Record<string, Json | undefined>>>;
  /**
   * Checks whether a machine that this driver supports answers at a host name or IP address. Returns the settings of a
   * node at that address, and a name if the machine reports one. Throws if nothing answers or the login is refused.
   */
  probe(call: DiscoverCall): Promise<{ readonly settings: Settings; readonly name?: string }>;
}

/** The argument of a probe. */
export interface DiscoverCall {
  readonly address: string;
  /** As in `Call`, with `address` too. */
  readonly addresses?: Readonly<Record<string, string>>;
  /** Validated by `DiscoverInterface.settings`, secrets included. */
  readonly settings: Readonly<Record<string, Json | undefined>>;
  readonly signal: AbortSignal;
  readonly deadline: Date;
  log(message: string): void;
  /** As in `Call`. */
  timed<T>(name: string, work: () => Promise<T>): Promise<T>;
}

/**
 * Permissions that a driver needs in addition to the network and reading its own folder and packages. FILES: to read
 * and write any file. PROGRAMS: to start programs, which includes everything else.
 */
export type DriverPermission = "FILES" | "PROGRAMS";

/** Controls one kind of machine. */
export interface Driver<Settings> {
  readonly contract: ContractVersion;
  /** Lower-case, unique among the loaded plugins. Nodes refer to it. */
  readonly name: string;
  /** Version of the plugin. */
  readonly version: string;
  /** One sentence: which machines the driver supports, and how it reaches them. */
  readonly description: string;
  /** Settings of a node. Secrets are strings marked `writeOnly` in the JSON Schema; the API never returns them. */
  readonly settings: Schema<Settings>;
  /** Absent: the network only. */
  readonly permissions?: readonly DriverPermission[];
  readonly power: PowerInterface<Settings>;
  readonly inspect?: InspectInterface<Settings>;
  /** Steps of the phases `deploy` and `undeploy`. */
  readonly deploy?: StepInterface<Settings>;
  readonly clean?: StepInterface<Settings>;
  readonly discover?: DiscoverInterface<Settings>;
  /**
   * Identity of the node's management controller, such as host and port, without secrets. Nodes with the same result
   * share that controller and the site's limit per controller; a discovery recognizes registered nodes by it. If it is
   * absent or returns an empty text, the node has a controller of its own.
   */
  controllerOf?(settings: Settings): string;
  /** Closes the driver's resources when the service shuts down. */
  close?(): Promise<void>;
}

/** The argument of a `DriverFactory`. */
export interface PluginHost {
  /** Writes a line to the service's log. */
  log(message: string): void;
  /**
   * Set if only the declarations of the driver are read and none of its functions is called. Programs and files that
   * the driver needs can then be missing.
   */
  readonly describing?: true;
  /** Memory shared by all processes that run this driver for the service. Absent outside a service, as in a test. */
  readonly memory?: DriverMemory;
}

/**
 * A small key-value cache of a driver, for example for a BMC session that the next call continues in another process.
 * It is lost when the service ends and evicts the least recently used values when it is full, so nothing may depend on
 * it.
 */
export interface DriverMemory {
  get(key: string): Promise<Json | undefined>;
  /** `undefined` deletes the key. Key and value together are limited to 64 Ki characters of JSON. */
  set(key: string, value: Json | undefined): Promise<void>;
}

/** The default export of a plugin module. Can throw an error that names what is missing, such as a program. */
export type DriverFactory<Settings> = (host: PluginHost) => Driver<Settings> | Promise<Driver<Settings>>;
