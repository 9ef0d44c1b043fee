/**
 * One BMC as data: what it is (traits, identity) and what changes (state). Resources are made from both when they are
 * read; only what differs from a new machine is stored, so that a thousand BMCs fit into one process.
 */
import type { BiosValue } from "./bios-attributes.ts";
import type { EventHub } from "./event-hub.ts";
import type { FaultSwitch } from "./faults.ts";
import type { SystemIdentity } from "./hardware.ts";
import type { Latency } from "./latency.ts";
import type { Machine } from "./machine.ts";
import type { SessionStore } from "./sessions.ts";
import type { TaskStore } from "./tasks.ts";
import type { Timers } from "./timers.ts";
import type { Traits } from "./traits.ts";

/** Milliseconds that changes take. */
export interface Timing {
  readonly powerOnMs: number;
  readonly powerOffMs: number;
  /** From a graceful shutdown to power off. */
  readonly shutdownMs: number;
  /** From power on to the running operating system, in steps of BootProgress. */
  readonly bootMs: number;
  readonly taskMs: number;
  /** For a reset of the BMC itself, in which it answers 503. */
  readonly restartMs: number;
}

export const TIMING: Timing = {
  powerOnMs: 300,
  powerOffMs: 200,
  shutdownMs: 600,
  bootMs: 1000,
  taskMs: 1500,
  restartMs: 1000,
};

export type Power = "Off" | "PoweringOn" | "On" | "PoweringOff" | "Restarting";

export interface BootOverride {
  enabled: "Disabled" | "Once" | "Continuous";
  target: string;
  mode: "UEFI" | "Legacy";
  uefiTarget: string | null;
  next: string | null;
  httpUri: string | null;
}

export interface Volume {
  readonly id: string;
  readonly name: string;
  readonly controller: string;
  readonly raidType: string;
  readonly drives: readonly string[];
  readonly capacityBytes: number;
}

export interface LogEntry {
  readonly id: string;
  readonly created: string;
  readonly severity: "OK" | "Warning" | "Critical";
  readonly messageId: string;
  readonly message: string;
}

export interface BmcState {
  power: Power;
  /** Raised by each change of power, so that a timer of an earlier one has no effect. */
  powerTurn: number;
  /** Boot target of the last start, null before the first. */
  bootedFrom: string | null;
  bootProgress: string;
  boot: BootOverride;
  /** Whether the next start is from the virtual CD, by a setting of the manager. */
  virtualCd: boolean;
  /** IDs of boot options, first to last; null as delivered. */
  bootOrder: readonly string[] | null;
  indicator: "Off" | "Lit" | "Blinking";
  assetTag: string | null;
  /** BIOS attributes that differ from their defaults. */
  bios: Readonly<Record<string, BiosValue>>;
  biosPending: {
    readonly attributes: Readonly<Record<string, BiosValue>>;
    readonly applyTime: string;
    readonly task: string | null;
  } | null;
  secureBoot: { enabled: boolean; atNextBoot: boolean };
  /** By path of the slot. */
  media: Record<string, { readonly image: string; readonly writeProtected: boolean }>;
  volumes: readonly Volume[];
  volumesMade: number;
  /** Time of the last secure erase by drive. */
  erased: Readonly<Record<string, string>>;
  /** Firmware versions by component that differ from those delivered. */
  versions: Readonly<Record<string, string>>;
  /** Versions that run after the next reset of the system. */
  staged: Readonly<Record<string, string>>;
  /** Updates that wait for StartUpdate, and tasks that wait for a reset. */
  waitingTasks: readonly (() => void)[];
  log: readonly LogEntry[];
  logMade: number;
  account: { userName: string; password: string };
  /** Drives that are being erased. */
  erasing: readonly string[];
  /** Tasks are at their own place only: there are no monitors and no jobs. */
  tasksMoved: boolean;
  /** How often quirks have acted that act a number of times. */
  quirkCounts: Record<string, number>;
  /** Time (ms) until which the BMC restarts. */
  restartingUntil: number;
}

export interface Bmc {
  readonly name: string;
  /** Origin, without a path. */
  readonly url: string;
  readonly traits: Traits;
  readonly identity: SystemIdentity;
  readonly timing: Timing;
  readonly latency: Latency;
  readonly state: BmcState;
  readonly faults: FaultSwitch;
  readonly machine: Machine;
  readonly timers: Timers;
  readonly sessions: SessionStore;
  readonly tasks: TaskStore;
  readonly events: EventHub;
}

export function newState(account: { readonly userName: string; readonly password: string }): BmcState {
  return {
    power: "Off",
    powerTurn: 0,
    bootedFrom: null,
    bootProgress: "None",
    boot: { enabled: "Disabled", target: "None", mode: "UEFI", uefiTarget: null, next: null, httpUri: null },
    virtualCd: false,
    bootOrder: null,
    indicator: "Off",
    assetTag: null,
    bios: {},
    biosPending: null,
    secureBoot: { enabled: false, atNextBoot: false },
    media: {},
    volumes: [],
    volumesMade: 0,
    erased: {},
    versions: {},
    staged: {},
    waitingTasks: [],
    log: [],
    logMade: 0,
    account: { ...account },
    erasing: [],
    tasksMoved: false,
    quirkCounts: {},
    restartingUntil: 0,
  };
}

/** The power state as the BMC shows it. A BMC without transitions shows the state that is being left. */
export function shownPower({ state, traits }: Bmc): "On" | "Off" | "PoweringOn" | "PoweringOff" {
  switch (state.power) {
    case "On":
    case "Off":
      return state.power;
    case "Restarting":
      return "On";
    case "PoweringOn":
      return traits.power.transitions ? "PoweringOn" : "Off";
    case "PoweringOff":
      return traits.power.transitions ? "PoweringOff" : "On";
  }
}
