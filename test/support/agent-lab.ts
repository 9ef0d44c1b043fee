/**
 * A machine for the driver `agent`, in memory: its BMC, what it starts from, the agent or the installed system on it,
 * and the session that the service keeps. Its clock stands still while a step works, and moves on while it waits.
 */
import { isDeepStrictEqual } from "node:util";
import { vi } from "vitest";
import createAgent from "../../plugins/agent/index.ts";
import { agentSettings } from "../../plugins/agent/settings.ts";
import type { AgentSettings } from "../../plugins/agent/settings.ts";
import type {
  AgentBootOptions,
  AgentStatus,
  AgentTask,
  BootDevice,
  Driver,
  DriverError,
  DriverErrorKind,
  DriverPhase,
  ImageView,
  Json,
  NodeAgent,
  NodeMedia,
  NodePower,
  PowerAction,
  PowerState,
  StepCall,
  StepResult,
} from "../../src/drivers/driver.ts";

export const IMAGE: ImageView = {
  id: "11111111-0000-4000-8000-000000000001",
  name: "debian-12",
  url: "http://images.example/debian.zst?key=canary-image-key",
  format: "RAW_ZST",
  sizeBytes: 100,
  diskBytes: 1000,
  checksum: { algorithm: "SHA256", value: "ab".repeat(32) },
  architecture: "X64",
  bootMode: null,
  callsHome: true,
};

export const USER_DATA = "#cloud-config\npassword: canary-user-data\n";
/** Parts of secrets: nothing that is stored or shown may contain one. */
export const SECRETS = ["canary-medium", "canary-home", "canary-user-data", "canary-image-key"];

/** The agent's result of a task; a function is asked each time. */
type Answer = Json | ((task: AgentTask) => Json);
export const ok = (output: Json): Json => ({ task: "t", ok: true, output });
export const wrong = (code: string, message = "it failed", retryable = false): Json => ({
  task: "t",
  ok: false,
  error: { code, message, retryable },
});

export function driverError(kind: DriverErrorKind, message: string, retryable = false): DriverError {
  return Object.assign(new Error(message), { name: "DriverError" as const, kind, retryable });
}

export interface LabOptions {
  readonly settings?: Readonly<Record<string, unknown>>;
  /** False: no driver of the node has virtual media. */
  readonly media?: boolean;
  readonly power?: PowerState;
  /** Errors by call: "insert", "device CDROM". */
  readonly refuses?: Readonly<Record<string, DriverError>>;
  /** Null: the service has no medium. */
  readonly mediumUrl?: string | null;
  /** How far a machine comes that was started for the agent; default: to the agent. */
  readonly reaches?: "NOTHING" | "LEASE" | "SCRIPT" | "KERNEL" | "CONTACT";
  readonly answers?: Readonly<Record<string, Answer>>;
  readonly image?: ImageView | null;
  readonly variables?: Readonly<Record<string, Json>>;
  readonly bootMode?: "UEFI" | "BIOS";
  readonly disks?: number | null;
  /** False: the installed system does not call home. */
  readonly callsHome?: boolean;
}

type Session = { -readonly [Key in keyof AgentStatus]: AgentStatus[Key] };

const ANSWERS: Readonly<Record<string, Answer>> = {
  inventory: ok({ serial: "S1", model: "M", location: null, disks: [{ id: "sda", wwn: null }] }),
  erase: ok({ disks: [{ path: "/dev/sda", serial: "D1", bytes: 1000, means: "discard", seconds: 1 }] }),
  burn_in: (task) => ok({ ...(task.args as Record<string, Json>), checked: 1 }),
  write_image: ok({ disk: { path: "/dev/sda", serial: "D1", wwn: null, bytes: 9000 }, bytes: 1000, seconds: 1 }),
  configure: ok({ partitions: 3, bootEntry: "0001", seed: "canary-user-data" }),
};

const MACHINE = { version: "0.1.0", architecture: "X64", address: "10.0.0.9" } as const;

export class AgentLab {
  readonly driver = createAgent({ log: () => {} }) as Driver<AgentSettings>;
  /** Every call that changes something, in order. */
  readonly journal: string[] = [];
  /** Everything that was stored or shown: memos, outputs, reasons, log lines, progress. */
  readonly shown: string[] = [];
  readonly tasks: AgentTask[] = [];
  readonly options: LabOptions;
  power: PowerState;
  medium: string | null = null;
  device: BootDevice | null = null;
  running: "NOTHING" | "AGENT" | "SYSTEM" = "NOTHING";
  session: Session | null = null;
  task: AgentTask | null = null;
  opened = 0;
  /** The newest: a report to an earlier one is refused. */
  homeUrl = "none";
  /** Set by `configure`. */
  seed: Readonly<Record<string, string | null>> | null = null;
  /** Called before (false) and after each call to the outside, with its number. */
  disturb: (call: number, isAfter: boolean) => void = () => {};
  #calls = 0;
  #hasCrashed = false;
  #homes = 0;

  constructor(options: LabOptions = {}) {
    this.options = options;
    this.power = options.power ?? "OFF";
    vi.useFakeTimers({ toFake: ["Date"], now: new Date("2026-11-23T10:00:00Z") });
  }

  [Symbol.dispose](): void {
    vi.useRealTimers();
  }

  get calls(): number {
    return this.#calls;
  }

  /** Forgets what was called, as for the next step. */
  reset(): void {
    this.#calls = 0;
    this.journal.length = 0;
  }

  /** The process of the entry dies: nothing that it still does has an effect. */
  crash(): never {
    this.#hasCrashed = true;
    throw new Error("The process died.");
  }

  // ---- the world

  /** Time passes: the agent is seen, and carries out what it was ordered; the installed system starts. */
  pass(seconds: number): void {
    vi.setSystemTime(Date.now() + seconds * 1000);
    const { session } = this;
    const now = new Date().toISOString();
    if (this.power !== "ON" || !session) return;
    if (this.running === "AGENT") {
      if (session.endedAt !== null) {
        this.power = "OFF";
        this.running = "NOTHING";
        this.journal.push("agent: power off");
      } else session.seenAt = now;
    }
    if (
      this.running === "SYSTEM" &&
      (this.options.callsHome ?? true) &&
      this.seed?.["vendorData"]?.includes(this.homeUrl)
    ) {
      session.homeAt ??= now;
      session.home = { hostname: "n1", fqdn: "N/A", instance_id: "i-1", pub_key_ed25519: "ssh-ed25519 AAAA root@n1" };
    }
  }

  #start(): void {
    this.power = "ON";
    const device = this.device;
    this.device = null;
    const { session } = this;
    const isForAgent = device === "CDROM" ? this.medium !== null : device === "PXE" || device === "HTTP";
    const startsEntry = device === null && this.seed !== null && (this.options.disks ?? 1) > 1;
    this.running = device === "DISK" || startsEntry ? "SYSTEM" : "NOTHING";
    if (!isForAgent || !session || session.endedAt !== null) return;
    const order = ["NOTHING", "LEASE", "SCRIPT", "KERNEL", "CONTACT"];
    const reached = order.indexOf(this.options.reaches ?? "CONTACT");
    const now = new Date().toISOString();
    if (reached >= 1 && device !== "CDROM") session.dhcpAt = now;
    if (reached >= 2) session.scriptAt = now;
    if (reached >= 3 && device !== "CDROM") session.kernelAt = now;
    if (reached < 4) return;
    this.running = "AGENT";
    Object.assign(session, {
      contactAt: now,
      seenAt: now,
      ...MACHINE,
      bootMode: this.options.bootMode ?? "UEFI",
      disks: this.options.disks ?? 1,
    });
  }

  async #does<Result>(what: string | null, work: () => Result): Promise<Result> {
    if (this.#hasCrashed) throw new Error("The process is dead.");
    const number = (this.#calls += 1);
    this.disturb(number, false);
    const refusal = what === null ? undefined : this.options.refuses?.[what];
    if (refusal) throw refusal;
    const result = work();
    if (what !== null) this.journal.push(what);
    this.disturb(number, true);
    return result;
  }

  readonly #power: NodePower = {
    read: () => this.#does(null, () => this.power),
    // Not called by the engine if the machine is in the state already.
    set: (action: PowerAction) =>
      this.#does(this.power === action ? null : action, () => {
        if (action === this.power) return;
        if (action === "ON") this.#start();
        else {
          this.power = "OFF";
          this.running = "NOTHING";
        }
      }),
    setBootDevice: (device, { mode, persistent, other, url } = {}) => {
      const words = ["device", device, mode, persistent && "persistent", other && "other", url && "url"];
      return this.#does(words.filter(Boolean).join(" "), () => {
        this.device = device;
      });
    },
  };

  get #media(): NodeMedia {
    return {
      offered: this.options.media ?? true,
      insert: (url) =>
        this.#does("insert", () => {
          this.medium = url;
        }),
      eject: () =>
        this.#does("eject", () => {
          this.medium = null;
        }),
    };
  }

  readonly #agent: NodeAgent = {
    status: () => this.#does(null, () => (this.session ? { ...this.session } : null)),
    open: (options: AgentBootOptions) => this.#does(`open ${options.medium}`, () => this.#open(options)),
    assign: (task) =>
      this.#does(isDeepStrictEqual(this.task, task) ? null : `assign ${task.kind}`, () => {
        if (isDeepStrictEqual(this.task, task)) return;
        this.task = task;
        this.tasks.push(task);
      }),
    close: () =>
      this.#does(this.session?.endedAt === null ? "close" : null, () => {
        this.task = null;
        if (this.session) this.session.endedAt ??= new Date().toISOString();
      }),
    homeUrl: () =>
      this.#does(null, () => (this.homeUrl = `http://ostler.example/home/canary-home-${(this.#homes += 1)}`)),
  };

  #open(options: AgentBootOptions): { mediumUrl: string | null; loaderUrl: string } {
    this.opened += 1;
    this.task = null;
    // An agent of the earlier session is ordered to stop, and is not the one of the new session.
    if (this.running === "AGENT") this.running = "NOTHING";
    const none = { endedAt: null, dhcpAt: null, scriptAt: null, kernelAt: null, contactAt: null, seenAt: null };
    const unknown = { version: null, architecture: null, bootMode: null, address: null, disks: null };
    const openedAt = new Date().toISOString();
    this.session = { ...none, ...unknown, openedAt, homeAt: null, home: null, strangers: 0 };
    const { mediumUrl = `http://ostler.example/media/s${this.opened}.canary-medium-secret/agent.iso` } = this.options;
    return { mediumUrl: options.medium === "ISO" ? mediumUrl : null, loaderUrl: "http://ostler.example/ipxe.efi" };
  }

  // ---- steps

  step(phase: DriverPhase, name: string) {
    const { inspect, clean, deploy } = this.driver;
    const steps = [inspect, clean, deploy].flatMap((one) => one?.steps ?? []);
    const found = steps.find((one) => one.phase === phase && one.name === name);
    if (!found) throw new Error(`There is no step ${phase}.${name}.`);
    return found;
  }

  call(given: Partial<StepCall<AgentSettings>> = {}): StepCall<AgentSettings> {
    const { options } = this;
    return {
      node: { id: "n", name: "rack1_u7", powerState: this.power, labels: {} },
      settings: agentSettings.parse(options.settings ?? {}),
      signal: new AbortController().signal,
      deadline: new Date(Date.now() + 3_600_000),
      log: (line) => void this.shown.push(line),
      timed: (_name, work) => work(),
      args: {},
      memo: null,
      callback: null,
      callbackPath: "/callback/x",
      attemptKey: "run:1:1",
      fence: 1,
      variables: options.variables ?? {},
      power: this.#power,
      media: this.#media,
      agent: this.#agent,
      image: options.image === undefined ? IMAGE : options.image,
      userData: USER_DATA,
      progress: (_percent, message) => void this.shown.push(message ?? ""),
      ...given,
    };
  }

  /** The callback that the agent's result makes. */
  #answer(): Json {
    const { task } = this;
    if (task === null || this.running !== "AGENT") return null;
    const answers = { ...ANSWERS, ...this.options.answers };
    const answer = answers[task.kind] ?? null;
    const result = typeof answer === "function" ? answer(task) : answer;
    if (result === null) return null;
    if (task.kind === "configure" && (result as { ok?: boolean }).ok === true)
      this.seed = (task.args as { seed: Record<string, string | null> }).seed;
    this.task = null;
    return result;
  }

  /** Enters a step until it ends, as the engine does: a throw ends it, and after a crash it is entered again. */
  async perform(phase: DriverPhase, name: string, given: Partial<StepCall<AgentSettings>> = {}): Promise<Ended> {
    const step = this.step(phase, name);
    let memo: Json = null;
    let callback: Json = null;
    for (let entries = 0; entries < 500; entries += 1) {
      const result: StepResult = await step.run(this.call({ ...given, memo, callback })).catch(failureOf);
      if (this.#hasCrashed) {
        this.#hasCrashed = false;
        continue;
      }
      this.shown.push(JSON.stringify(result));
      if (result.kind !== "wait") return { result, memo, entries };
      memo = structuredClone(result.memo);
      callback = result.callback === true ? this.#answer() : null;
      // A result ends the wait at once.
      this.pass(callback === null ? (result.seconds ?? 1800) : 1);
    }
    throw new Error(`Step ${name} does not end.`);
  }

  /** The abort of a step with its last memo, as the engine calls it. */
  async abort(phase: DriverPhase, name: string, memo: Json): Promise<void> {
    await this.step(phase, name).abort?.(this.call({ memo }));
  }
}

export interface Ended {
  readonly result: StepResult;
  readonly memo: Json;
  readonly entries: number;
}

function failureOf(error: unknown): StepResult {
  const { message, kind = "OTHER", retryable = false } = error as Partial<DriverError> & Error;
  return { kind: "failed", reason: message, retryable, errorKind: kind };
}
