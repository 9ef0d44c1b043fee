/** Starts simulated BMCs: one for a test, or a fleet. */
import { TIMING, newState } from "./bmc.ts";
import type { Bmc, BmcState, Timing } from "./bmc.ts";
import { createEventHub } from "./event-hub.ts";
import { createFaults } from "./faults.ts";
import type { Fault, Faults } from "./faults.ts";
import { createFront } from "./front.ts";
import type { Front, Listener } from "./front.ts";
import { identityOf } from "./hardware.ts";
import type { SystemIdentity } from "./hardware.ts";
import { record } from "./journal.ts";
import type { Latency } from "./latency.ts";
import { SIMULATED_MACHINE } from "./machine.ts";
import type { Machine } from "./machine.ts";
import { noticeExit } from "./power.ts";
import { withLinks } from "./render.ts";
import { createSessions } from "./sessions.ts";
import { createTasks, hasEnded } from "./tasks.ts";
import { createTimers } from "./timers.ts";
import { traitsOf } from "./traits.ts";
import type { PresetName, Traits } from "./traits.ts";

export interface Credentials {
  readonly userName: string;
  readonly password: string;
}

export interface BmcSettings {
  /** A preset, or traits that replace those of `reference`. */
  readonly traits?: PresetName | Partial<Traits>;
  readonly faults?: readonly Fault[];
  readonly latency?: Latency;
  readonly timing?: Partial<Timing>;
  readonly credentials?: Credentials;
  /** Values of this machine: serial number, MAC addresses, drives. */
  readonly system?: Partial<SystemIdentity>;
  /** The computer that the BMC switches; by default one that only has a power state. */
  readonly machine?: (number: number, identity: SystemIdentity) => Machine;
  readonly host?: string;
  /** 0 is any free port. */
  readonly port?: number;
  readonly tls?: boolean;
}

export interface FleetSettings extends Omit<BmcSettings, "traits" | "system" | "host" | "port"> {
  readonly count: number;
  /** Used in turn. */
  readonly traits?: readonly (PresetName | Partial<Traits>)[];
  /** Values of the machine with this number, from 1. */
  readonly systems?: (number: number) => Partial<SystemIdentity>;
  /** Address of one BMC by its number, from 1. */
  readonly address?: (number: number) => { readonly host: string; readonly port: number };
}

export interface SimulatedBmc {
  readonly name: string;
  /** Origin, such as `https://127.0.0.1:8001`. */
  readonly url: string;
  readonly credentials: Credentials;
  readonly traits: Traits;
  readonly system: SystemIdentity;
  /** Live: what tests look at, and may change. */
  readonly state: BmcState;
  readonly faults: Faults;
  readonly sessions: () => number;
  /** Restarts the BMC itself: connections are refused for a time, sessions end. Its tasks go on. */
  restart(how: { readonly ms: number; readonly tasks: "kept" | "forgotten" | "moved" }): Promise<void>;
  /** Null without TLS. The certificate is its own CA. */
  readonly tls: { readonly ca: string; readonly fingerprint256: string } | null;
  /** Closes the listening socket and all connections. */
  close(): Promise<void>;
}

export interface Fleet extends AsyncDisposable {
  readonly bmcs: readonly SimulatedBmc[];
  close(): Promise<void>;
}

export const CREDENTIALS: Credentials = { userName: "admin", password: "simulated" };

export async function startBmc(settings: BmcSettings = {}): Promise<SimulatedBmc> {
  const host = settings.host ?? "127.0.0.1";
  const front = createFront({ tls: settings.tls ?? false, hosts: [host] });
  const listener = await front.listen(host, settings.port ?? 0);
  return assemble({ front, listener, number: 1 }, { ...settings, traits: traitsOf(settings.traits ?? "reference") });
}

export async function startFleet({
  count,
  traits = ["reference"],
  address,
  systems,
  ...rest
}: FleetSettings): Promise<Fleet> {
  const kinds = traits.map(traitsOf);
  const places = Array.from({ length: count }, (_, index) => address?.(index + 1) ?? { host: "127.0.0.1", port: 0 });
  const front = createFront({ tls: rest.tls ?? false, hosts: places.map(({ host }) => host) });
  const bmcs: SimulatedBmc[] = [];
  const close = async () => {
    await Promise.all(bmcs.map((bmc) => bmc.close()));
  };
  try {
    for (const [index, { host, port }] of places.entries()) {
      const kind = kinds[index % kinds.length];
      if (kind === undefined) throw new Error("A fleet needs at least one preset.");
      const listener = await front.listen(host, port);
      const system = systems?.(index + 1) ?? {};
      bmcs.push(assemble({ front, listener, number: index + 1 }, { ...rest, system, traits: kind }));
    }
  } catch (error) {
    await close();
    throw error;
  }
  return { bmcs, close, [Symbol.asyncDispose]: close };
}

interface Place {
  readonly front: Front;
  readonly listener: Listener;
  readonly number: number;
}

function assemble(place: Place, settings: BmcSettings & { readonly traits: Traits }): SimulatedBmc {
  const { front, listener } = place;
  const credentials = settings.credentials ?? CREDENTIALS;
  const bmc = createBmc(place, settings);
  listener.attach(bmc);
  bmc.machine.onExit(() => noticeExit(bmc));
  return {
    name: bmc.name,
    url: bmc.url,
    credentials,
    traits: bmc.traits,
    system: bmc.identity,
    state: bmc.state,
    faults: bmc.faults,
    sessions: () => bmc.sessions.list().length,
    tls: front.certificate && { ca: front.certificate.certificate, fingerprint256: front.certificate.fingerprint256 },
    async restart({ ms, tasks }) {
      bmc.sessions.endAll();
      if (tasks === "forgotten") bmc.tasks.forgetAll();
      if (tasks === "moved") bmc.state.tasksMoved = true;
      await listener.pause(ms);
    },
    async close() {
      bmc.timers.close();
      await listener.close();
      await bmc.machine.close();
    },
  };
}

function createBmc({ listener, number }: Place, settings: BmcSettings & { readonly traits: Traits }): Bmc {
  const { traits } = settings;
  const identity = identityOf(number, settings.system);
  const timing = { ...TIMING, ...settings.timing };
  const timers = createTimers();
  const faults = createFaults();
  faults.set(settings.faults ?? []);
  const { url } = listener;
  const events = createEventHub((body) => withLinks({ traits, url }, body));
  const tasks = createTasks({
    timers,
    taskMs: timing.taskMs,
    jobs: traits.jobs,
    isStuck: () => faults.find("stuck-task") !== undefined,
    onChange: (task) => {
      const severity = task.state === "Exception" ? "Warning" : "OK";
      const origin = `/TaskService/Tasks/${task.id}`;
      if (task.state === "Running" || hasEnded(task))
        record(bmc, { message: `${task.name} is ${task.state}.`, severity, origin });
    },
  });
  const bmc: Bmc = {
    name: `bmc${number}`,
    url,
    traits,
    identity,
    timing,
    latency: settings.latency ?? "none",
    state: newState(settings.credentials ?? CREDENTIALS),
    faults,
    machine: settings.machine?.(number, identity) ?? SIMULATED_MACHINE,
    timers,
    sessions: createSessions(traits.login),
    tasks,
    events,
  };
  return bmc;
}
