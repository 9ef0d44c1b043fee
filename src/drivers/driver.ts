/**
 * The driver contract, version 2: the default export of a plugin module, and the objects passed to it and returned by
 * it. This file contains types only. A plugin imports it with `import type` and depends on nothing else in Ostler.
 *
 * A plugin module exports a `DriverFactory` as its default. All interfaces except `power` are optional; a node can take
 * one that its driver lacks from another driver. Drivers keep no essential state: data that must survive a restart of
 * the service belongs in the `memo` of a step.
 *
 * Guide for driver authors: docs/drivers.md. A driver must pass the suite of `packages/driver` before it is released.
 */
import type { StandardJSONSchemaV1, StandardSchemaV1 } from "@standard-schema/spec";

/** A value that `JSON.parse(JSON.stringify(value))` returns unchanged. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

/** Incremented when a change of this file breaks existing plugins. */
type ContractVersion = 2;

/**
 * A schema of any library that implements Standard Schema and Standard JSON Schema, such as Zod 4.2 and later.
 * It describes an object and accepts its own output.
 */
export type Schema<Value> = StandardSchemaV1<unknown, Value> & StandardJSONSchemaV1<unknown, Value>;

/** Power of a machine, as its BMC reports it. `UNKNOWN` if the BMC reports no power state. */
export type PowerState = "ON" | "OFF" | "UNKNOWN";

/** `SOFT_OFF` asks the operating system to shut down and ends when the machine is off. */
export type PowerAction = "ON" | "OFF" | "SOFT_OFF" | "REBOOT";

/** Boot source: the network, the machine's own disk, a virtual medium, the firmware setup, or HTTP boot of UEFI. */
export type BootDevice = "PXE" | "DISK" | "CDROM" | "BIOS" | "HTTP";

/** Firmware mode in which a machine starts. */
export type BootMode = "UEFI" | "BIOS";

export interface BootOptions {
  /** True: every later start uses the device. False: only the next one. */
  readonly persistent: boolean;
  /** Absent: as the driver's settings or the machine decide. */
  readonly mode?: BootMode;
  /** Another boot source for the same device, if the machine has two: with the first it did not start from it. */
  readonly other?: true;
  /** For HTTP: the address of the program to start, for a machine that takes it from its BMC and not by DHCP. */
  readonly url?: string;
}

/** The boot source that a machine reports. */
export interface BootOverride extends Pick<BootOptions, "persistent" | "mode"> {
  /** Null: none is set, and the machine follows its own boot order. */
  readonly device: BootDevice | null;
}

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

/**
 * The part of a machine's setup that a step works on. Steps of equal priority run in the order `vendor`, `management`,
 * `firmware`, `bios`, `raid`, `storage`. One without a group has the place of its interface: a deploy step after
 * `firmware`, others last.
 */
export type StepGroup = "raid" | "bios" | "firmware" | "management" | "storage" | "vendor";

/**
 * Points the operator to the cause, and decides whether another driver of the node is tried.
 * `AUTHENTICATION`: the login was refused. `UNREACHABLE`: no connection, so the machine has received nothing of the
 * request. `TIMEOUT`: it answers, but not in time. `REFUSED`: it refused the request. `UNSUPPORTED`: it lacks the
 * ability, and nothing has changed. Another driver is tried after UNREACHABLE and UNSUPPORTED, and after a TIMEOUT of a
 * read or with `withoutEffect`.
 */
export type DriverErrorKind = "AUTHENTICATION" | "UNREACHABLE" | "TIMEOUT" | "REFUSED" | "UNSUPPORTED" | "OTHER";

/**
 * An error that a driver function can throw; plain errors are allowed too. `retryable` means that the same call may
 * succeed later. The engine checks `name === "DriverError"`, so there is no class to import.
 */
export interface DriverError extends Error {
  readonly name: "DriverError";
  readonly kind: DriverErrorKind;
  readonly retryable: boolean;
  /** True if the call certainly has not changed the machine. A TIMEOUT is then tried with the next driver. */
  readonly withoutEffect?: boolean;
  /**
   * True if the controller does not serve now, as while it restarts, and the call may be made again as a whole. The
   * engine enters a step again for five minutes.
   */
  readonly away?: boolean;
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
  /**
   * Failed. A retryable failure is retried at most `Step.retries.times` times, unless the driver or the machine has
   * already tried again for as long as makes sense (`retried`): then only a restart tries again. `errorKind`: default
   * `OTHER`. `away`: as in `DriverError`. `atRest`: the machine does nothing for this step, because it was asked for
   * nothing or has reported its end. Without it a machine that must not be cut is left as it is, and the step is not
   * retried unless it is idempotent (`Step.worksAlone`).
   */
  | {
      readonly kind: "failed";
      readonly reason: string;
      readonly retryable: boolean;
      readonly retried?: true;
      readonly away?: boolean;
      readonly errorKind?: DriverErrorKind;
      readonly atRest?: true;
    };

/**
 * One disk in the account of an erasure: the list `disks` in the output of a step that declares `erases`, with every
 * disk that the step saw. Further members are allowed, such as how a disk was erased.
 */
export type DiskAccount = {
  /** The name of the disk for people: at least one of the three. */
  readonly path?: string;
  readonly id?: string;
  readonly name?: string;
  /** As the disk reports them: the engine looks for the disks of inspections by them, or else by the size. */
  readonly serial?: string | null;
  readonly wwn?: string | null;
  readonly sizeBytes?: number;
  readonly erased: boolean;
  /** Why it was left out. Required if it was not erased. */
  readonly reason?: string;
  /** A medium of the BMC, such as a virtual CD drive: the only disk that may be left out without being allowed to. */
  readonly medium?: boolean;
};

/** The node as a driver sees it. */
export interface NodeView {
  /** UUID; never changes. */
  readonly id: string;
  /** Unique among nodes; can change. */
  readonly name: string;
  /** Power as last read, by the driver that gives the node its power interface. */
  readonly powerState: PowerState;
  readonly labels: Readonly<Record<string, string>>;
  /** According to operators, the machine has no disk of its own. */
  readonly diskless?: true;
}

/** The part of a call that exists before a machine is a node. A driver has no access to the database or the engine. */
export interface MachineCall<Settings> {
  /** Validated by `Driver.settings`, secrets included. */
  readonly settings: Settings;
  /**
   * The checked IP addresses of the values that are marked `address`, by the value and by the host in it, and of those
   * that are marked `fileUrl`, by the value: a file without one must not be used. In place of an address it is the
   * host's name if the service cannot resolve that; another machine may.
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

/** The argument of every driver function except `abilities` and `probe`. */
export interface Call<Settings> extends MachineCall<Settings> {
  readonly node: NodeView;
}

/** Arguments of a step. An optional one is absent. */
export type StepArgs = Readonly<Record<string, Json | undefined>>;

/** The argument of a step's functions. */
export interface StepCall<Settings, Args extends StepArgs = StepArgs> extends Call<Settings> {
  /** Validated by `Step.args`; `{}` if the step takes no arguments. */
  readonly args: Args;
  /** The memo of the last `wait` of this step; null on the first entry. */
  readonly memo: Json;
  /** Body of the callback that ended the wait; null if its time ended, or if there was no wait. */
  readonly callback: Json;
  /** Opaque path, below the service's address, to which the machine can send a callback once per wait. */
  readonly callbackPath: string;
  /** The same in every entry of one attempt. Pass it to a back end that detects repeated requests. */
  readonly attemptKey: string;
  /**
   * Raised whenever a process takes over the run: of two calls of one attempt, the one with the lower fence is stale.
   */
  readonly fence: number;
  /**
   * The variables that `Driver.variables` declares, as far as they have a value: the cluster's settings overlaid with
   * the request's.
   */
  readonly variables: Readonly<Record<string, Json>>;
  /** Power of the node, through the driver that gives the node its power interface. */
  readonly power: NodePower;
  /** Virtual media of the node, through the driver that gives the node its media interface. */
  readonly media: NodeMedia;
  /** The agent: a program that the machine runs from a ramdisk. */
  readonly agent: NodeAgent;
  /** The image that the request installs; null if it names none. */
  readonly image: ImageView | null;
  /** cloud-init user data of the request or of the image. A secret: it is masked in logs and results. */
  readonly userData: string | null;
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
  /** Rejects with kind UNSUPPORTED if no driver of the power interface can set it. */
  setBootDevice(device: BootDevice, options?: Partial<BootOptions>): Promise<void>;
}

/** The node's media interface, bound to the node. */
export interface NodeMedia {
  /** Whether a driver of the node has a media interface. */
  readonly offered: boolean;
  /** Rejects with kind UNSUPPORTED if no driver of the node can insert a medium. Default: write-protected. */
  insert(url: string, options?: Partial<MediaOptions>): Promise<void>;
  eject(): Promise<void>;
}

/**
 * The agent of the node, a program that the machine runs from a ramdisk, bound to the run. `open`, `assign` and
 * `homeUrl` reject with kind UNSUPPORTED if the service has no provisioning listener.
 */
export interface NodeAgent {
  /**
   * The newest session of this run, also after it was closed. If the run has opened none: the newest of the node, as
   * ended, with the report of the system that it has installed. Null: the node never had one.
   */
  status(): Promise<AgentStatus | null>;
  /**
   * Opens a session with a new secret and ends the earlier one of the node. `mediumUrl` contains the secret; it is null
   * for a network boot. `loaderUrl`: for HTTP boot of UEFI. The first contact of the agent ends a wait with
   * `callback: true`; `StepCall.callback` is then `{ contact: true }`.
   */
  open(options: AgentBootOptions): Promise<{ readonly mediumUrl: string | null; readonly loaderUrl: string }>;
  /**
   * Gives the agent a task, in place of an earlier one. The same task in a later entry of the attempt goes on. The step
   * then returns `wait` with `callback: true`, and `StepCall.callback` is the `AgentResult`. A task ends with its
   * result, its attempt or its session.
   */
  assign(task: AgentTask): Promise<void>;
  /** Ends the session: the agent stops what it does and powers the machine off. Does nothing if none is open. */
  close(): Promise<void>;
  /**
   * An address to which the installed system can report (by GET or POST) until the agent is booted on the node again.
   * It contains a secret, and replaces the one that was created before. A report ends a wait with `callback: true` of a
   * step without a task; `StepCall.callback` is then `{ home: <body> }`, and `AgentStatus` has it too. The run must
   * have opened a session.
   */
  homeUrl(): Promise<string>;
}

/** Processor architecture of a machine or an image. */
export type Architecture = "X64" | "ARM64";

export interface AgentBootOptions {
  /** ISO: the machine boots a virtual medium. NETWORK: it boots over the network, and is known by a MAC of its node. */
  readonly medium: "ISO" | "NETWORK";
  readonly architecture: Architecture;
  /** Only for a network boot: a medium has its arguments built in. */
  readonly kernelArguments?: readonly string[];
  /** Absent: DHCP. */
  readonly network?: AgentNetwork;
}

/** A static network configuration. */
export interface AgentNetwork {
  /** The MAC address of the interface to configure. */
  readonly mac: string;
  /** With its prefix length: `10.0.0.7/24`. */
  readonly address: string;
  readonly gateway?: string;
  readonly dns?: readonly string[];
}

/** A session of the agent. Times are ISO 8601; null: not yet. */
export interface AgentStatus {
  readonly openedAt: string;
  /** The machine got an address by DHCP; known only if the DHCP server reports it. */
  readonly dhcpAt: string | null;
  /** The machine fetched its boot script, or its BMC the medium. */
  readonly scriptAt: string | null;
  /** The machine fetched the kernel of a network boot. */
  readonly kernelAt: string | null;
  /** First and last contact of the agent. The last one is exact to 5 s. */
  readonly contactAt: string | null;
  readonly seenAt: string | null;
  /** The session was closed, or a later one replaced it. */
  readonly endedAt: string | null;
  /** The installed system has reported. */
  readonly homeAt: string | null;
  /** Body of that report. */
  readonly home: Json;
  /** Of the agent, as it reports them. */
  readonly version: string | null;
  readonly architecture: Architecture | null;
  readonly bootMode: BootMode | null;
  readonly address: string | null;
  /** Number of disks that are parts of the machine. */
  readonly disks: number | null;
  /** Number of requests of a second agent with the same secret. They were refused. */
  readonly strangers: number;
}

/** Work for the agent. `args` can contain secrets: they are in no log, plan or answer of the API. */
export interface AgentTask {
  readonly kind: string;
  readonly args: Json;
}

/** The end of a task. `task` is its id. */
export type AgentResult =
  | { readonly task: string; readonly ok: true; readonly output: Json }
  | {
      readonly task: string;
      readonly ok: false;
      readonly error: {
        readonly code: string;
        readonly message: string;
        readonly retryable: boolean;
        /** The agent has already tried again, for as long as makes sense. */
        readonly retried?: true;
      };
    };

/** An image of an operating system. */
export interface ImageView {
  readonly id: string;
  readonly name: string;
  /** Absolute, or a path below the address of the provisioning listener. */
  readonly url: string;
  readonly format: "RAW" | "RAW_GZ" | "RAW_XZ" | "RAW_ZST";
  /** Size of the file. */
  readonly sizeBytes: number;
  /** Size of the disk that it unpacks to; null if it is not known. */
  readonly diskBytes: number | null;
  /** Of the file; in hexadecimal. */
  readonly checksum: { readonly algorithm: "SHA256" | "SHA512"; readonly value: string };
  readonly architecture: Architecture;
  /** Null: it starts from both. */
  readonly bootMode: BootMode | null;
  /** Whether the installed system reports to `NodeAgent.homeUrl`. */
  readonly callsHome: boolean;
}

/** Power. Every function must be idempotent: it can be called again after a crash. */
export interface PowerInterface<Settings> {
  /** Reads the power; throws if the machine does not answer or refuses the login. Also used to verify a node. */
  read(call: Call<Settings>): Promise<PowerState>;
  /**
   * Returns when the machine is in the requested state; otherwise throws. Absent if the driver has no power, as where
   * it logs in to the system of the machine: `read` then checks the login and returns UNKNOWN, and is not called in the
   * background.
   */
  set?(call: Call<Settings>, action: PowerAction): Promise<void>;
  /** Absent if the driver cannot set a boot device. Throws UNSUPPORTED for a device or mode that the machine lacks. */
  setBootDevice?(call: Call<Settings>, device: BootDevice, options: BootOptions): Promise<void>;
  /** Absent if the driver cannot read it. */
  readBootDevice?(call: Call<Settings>): Promise<BootOverride>;
  /**
   * Reads the work of the machine that must not be cut, such as "writes the firmware of BIOS"; null if the machine
   * reports none. Throws if the machine does not report its work. Absent if the driver cannot read it.
   */
  readActivity?(call: Call<Settings>): Promise<string | null>;
}

export interface MediaOptions {
  readonly writeProtected: boolean;
}

/** Virtual media. Both functions must be idempotent. */
export interface MediaInterface<Settings> {
  /**
   * Makes the machine see the image at the URL as a medium, in place of an earlier one. The URL can contain a secret:
   * it must not be logged.
   */
  insert(call: Call<Settings>, url: string, options: MediaOptions): Promise<void>;
  /** Returns when no medium is inserted, also if none was. */
  eject(call: Call<Settings>): Promise<void>;
}

/** One component of a machine that has firmware. */
export interface FirmwareComponent {
  /** Identifies the component on this machine, also after an update. */
  readonly id: string;
  readonly name: string;
  /** As the machine reports it; null if it reports none. */
  readonly version: string | null;
  /** Whether the machine accepts an update; null if it does not report that. */
  readonly updateable: boolean | null;
}

export interface FirmwareInterface<Settings> {
  read(call: Call<Settings>): Promise<readonly FirmwareComponent[]>;
}

/** A value of a BIOS attribute. */
export type BiosValue = string | number | boolean | null;

/** One BIOS attribute. A PASSWORD has no value. */
export interface BiosAttribute {
  readonly name: string;
  /** For people; null if the machine reports none. */
  readonly title: string | null;
  readonly type: "STRING" | "INTEGER" | "BOOLEAN" | "ENUMERATION" | "PASSWORD";
  readonly value: BiosValue;
  /** The value after the next start, if it differs. */
  readonly pending?: BiosValue;
  /** For an ENUMERATION, if the machine reports them. */
  readonly allowedValues?: readonly string[];
  /** Of an INTEGER. */
  readonly minimum?: number;
  readonly maximum?: number;
  readonly readOnly: boolean;
}

export interface BiosInterface<Settings> {
  read(call: Call<Settings>): Promise<readonly BiosAttribute[]>;
}

/** Access to the serial console of a machine. */
export interface ConsoleInterface<Settings> {
  /** The address to open, such as `ssh://10.0.0.7:2200` or a `wss:` URL, without credentials. */
  serialUrl(call: Call<Settings>): Promise<string>;
}

/** Whether something that the driver declares works on a machine. */
export interface Ability {
  /**
   * An interface (`media`), a function (`power.setBootDevice`), a power action (`power.SOFT_OFF`) or a step
   * (`clean.secure_erase`).
   */
  readonly name: string;
  readonly works: boolean;
  /** Why it does not work. */
  readonly reason?: string;
}

/** The smallest unit that the engine executes, times, retries, interrupts and records. */
export interface Step<Settings, Args extends StepArgs = StepArgs> {
  /** Lower-case words joined by underscores, unique in its interface and phase. */
  readonly name: string;
  /** For people: what the step does. */
  readonly title: string;
  readonly phase: DriverPhase;
  /** Higher runs first. A step with 0 runs only if it is requested by name. */
  readonly priority: number;
  /** Decides the order among steps of the same priority. */
  readonly group?: StepGroup;
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
   * The machine continues the work on its disks on its own, whether or not the step waits for it, as in a secure erase.
   * After a failure of such a step, of one that touches firmware, and of one that is never interruptible, the power
   * stays as it is and `abort` is not called, unless the result says `atRest`.
   */
  readonly worksAlone?: true;
  /**
   * For a clean step that touches disks: a restart repeats it although it succeeded. Absent or false: a restart that
   * repeats the unfinished stage keeps the erasure and does not run the step again.
   */
  readonly repeatOnRestart?: boolean;
  /**
   * For a clean or undeploy step that erases the disks of the machine: its output is an object with the list `disks`
   * (`DiskAccount`). The step fails without this account, and if the account leaves out a disk that may have kept data
   * (docs/cleaning.md). Texts in the lists `leaveOut` and `unseen` of its arguments name disks that may keep their
   * data, whether the step sees them or not: by path, serial number or WWN.
   */
  readonly erases?: true;
  /**
   * For a deploy step: the members of its output that nodes of later host groups can take as variables. A text that is
   * marked `writeOnly` is secret: it is stored encrypted, and masked in the output.
   */
  readonly outputs?: Schema<object>;
  /** Schema of the arguments. Absent if the step takes none. */
  readonly args?: Schema<Args>;
  /** Performs the step. It can be entered twice with the same `attemptKey`, and must find its own earlier work. */
  run(call: StepCall<Settings, Args>): Promise<StepResult>;
  /**
   * Checks, after `run` is done, whether its work has taken effect. The step succeeds or fails with it; the output of
   * `run` is kept. It can wait, with a memo of its own.
   */
  verify?(call: StepCall<Settings, Args>): Promise<StepResult>;
  /**
   * Undoes unfinished work so that the node can be left alone. Called with the step's memo after the step was aborted,
   * and after it failed for good or ran out of time. May be called twice, and when there is nothing to undo.
   */
  abort?(call: StepCall<Settings, Args>): Promise<void>;
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

/** Settings of a probe, such as the login. */
type ProbeSettings = Readonly<Record<string, Json | undefined>>;

/** Finds machines. `Probe`: the type of the settings of a probe. */
export interface DiscoverInterface<Settings, Probe extends ProbeSettings = ProbeSettings> {
  /**
   * Schema of the settings for a probe: a node's settings without the part that the probe finds, mainly the
   * credentials. Secrets are marked as in `Driver.settings`.
   */
  readonly settings: Schema<Probe>;
  /**
   * Checks whether a machine that this driver supports answers at a host name or IP address. Returns the settings of a
   * node at that address, and what the machine reports of its name, serial number and UUID: by these two a machine is
   * recognized that is registered at another address. A list if the controller there has several machines. Throws if
   * nothing answers or the login is refused.
   */
  probe(call: DiscoverCall<Probe>): Promise<FoundAt<Settings> | readonly FoundAt<Settings>[]>;
}

/** A machine that a probe has found. */
interface FoundAt<Settings> {
  readonly settings: Settings;
  readonly name?: string;
  readonly serial?: string;
  readonly uuid?: string;
}

/** The argument of a probe. */
export interface DiscoverCall<Probe extends ProbeSettings = ProbeSettings> {
  readonly address: string;
  /** As in `Call`, with `address` too. */
  readonly addresses?: Readonly<Record<string, string>>;
  /** Validated by `DiscoverInterface.settings`, secrets included. */
  readonly settings: Probe;
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
  /**
   * Schema of an object with the variables that the steps read, none of them required. A step receives only these. A
   * request whose variables do not match it is refused, and a variable that no driver reads is reported in the plan. A
   * schema that accepts any field passes all variables. A text that is marked `writeOnly` is secret for all drivers.
   * Absent: the driver reads none.
   */
  readonly variables?: Schema<object>;
  /** Absent: the network only. */
  readonly permissions?: readonly DriverPermission[];
  /**
   * Its steps use `StepCall.agent`. A request with such a step is refused while the service has no provisioning
   * listener, or no agent for the architecture of the node: the setting `architecture` of this driver, by default X64.
   */
  readonly usesAgent?: true;
  /**
   * Revision of the files outside of the plugin that its steps run, such as a hash of their contents. It is fixed in
   * the plan, and a step whose revision is another one by then is refused with STALE_REVISION. Called in the service,
   * often: it must be fast. Absent: the steps depend on the plugin alone.
   */
  revision?(): string;
  readonly power: PowerInterface<Settings>;
  readonly inspect?: InspectInterface<Settings>;
  /** Steps of the phases `deploy` and `undeploy`. */
  readonly deploy?: StepInterface<Settings>;
  readonly clean?: StepInterface<Settings>;
  readonly media?: MediaInterface<Settings>;
  readonly firmware?: FirmwareInterface<Settings>;
  readonly bios?: BiosInterface<Settings>;
  readonly console?: ConsoleInterface<Settings>;
  readonly discover?: DiscoverInterface<Settings>;
  /**
   * Asks a machine which of the declared abilities work on it, such as whether it offers secure erase. What the answer
   * does not name works as declared. Changes nothing. Absent: everything works as declared.
   */
  abilities?(call: MachineCall<Settings>): Promise<readonly Ability[]>;
  /**
   * Identity of the node's management controller, such as host and port, without secrets. Nodes with the same result
   * share that controller and the site's limit per controller; a discovery recognizes registered nodes by it. If it is
   * absent or returns an empty text, the node has a controller of its own.
   */
  controllerOf?(settings: Settings): string;
  /**
   * Identity of the machine behind the controller, for controllers that have several, without secrets. Two nodes with
   * one controller are the same machine if the results are equal or one is empty. Absent: a controller has one machine.
   */
  systemOf?(settings: Settings): string;
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
