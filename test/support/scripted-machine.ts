/**
 * Machines for tests of the driver `agent` in an engine: a BMC that tests play, what a machine starts from, and an
 * agent that talks to the engine as the provisioning listener lets it. Answers to tasks are scripts.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import * as z from "zod";
import type {
  AgentResult,
  Driver,
  Json,
  MediaInterface,
  PowerInterface,
  PowerState,
} from "../../src/drivers/driver.ts";
import type { Bearer } from "../../src/engine/agents/agents.ts";
import type { Engine } from "../../src/engine/engine.ts";

const POLL_MS = 20;

/** The work of the agent on a task. The signal fires when the agent is ordered to cancel it. */
export type Work = (args: Json, signal: AbortSignal) => Promise<Json>;

export class ScriptedMachine {
  power: PowerState = "OFF";
  medium: string | null = null;
  device = "NONE";
  running: "NOTHING" | "AGENT" | "SYSTEM" = "NOTHING";
  readonly journal: string[] = [];
  /** Tasks that were cancelled. */
  readonly cancelled: string[] = [];
  readonly works: Record<string, Work> = {};
  /** False: an installed system stays silent. */
  callsHome = true;
  /** Holds the BMC back before it switches the machine on from its disk. */
  beforeDisk: () => Promise<void> = async () => {};
  #seed: Readonly<Record<string, string>> = {};
  #life = new AbortController();
  #agent: Promise<void> = Promise.resolve();
  readonly #engine: () => Engine;

  constructor(engine: () => Engine) {
    this.#engine = engine;
  }

  turn(power: "ON" | "OFF"): void {
    this.journal.push(power);
    this.#life.abort();
    this.#life = new AbortController();
    this.power = power;
    this.running = "NOTHING";
    if (power === "OFF") return;
    const from = this.device;
    this.device = "NONE";
    if (from === "CDROM" && this.medium !== null) this.#agent = this.#runAgent(this.medium, this.#life.signal);
    if (from === "DISK") this.#agent = this.#runSystem();
  }

  /** The program that ran last has ended. */
  async ended(): Promise<void> {
    await this.#agent;
  }

  /** The installed system calls home now. True: the report was taken. */
  async callHome(): Promise<boolean> {
    const text = (this.#seed["vendorData"] ?? "").replace("#cloud-config\n", "");
    const url = z.object({ phone_home: z.object({ url: z.string() }) }).parse(JSON.parse(text)).phone_home.url;
    const body = { hostname: "installed", fqdn: "N/A", pub_key_ed25519: "ssh-ed25519 AAAA root@installed" };
    return this.#engine().agents.callHome(url.slice(url.lastIndexOf("/") + 1), body);
  }

  async #runSystem(): Promise<void> {
    this.running = "SYSTEM";
    if (this.callsHome) await this.callHome();
  }

  async #runAgent(url: string, life: AbortSignal): Promise<void> {
    const [, session = "", secret = ""] = /\/media\/([^.]+)\.([^/]+)\/agent\.iso$/.exec(url) ?? [];
    const bearer = { session, secret };
    if (!(await this.#engine().agents.medium(bearer))) return;
    this.running = "AGENT";
    const instance = randomUUID();
    let work: RunningTask | null = null;
    while (!life.aborted) {
      const order = await this.#engine().agents.poll(bearer, {
        instance,
        version: "0.1.0",
        protocol: 2,
        architecture: "X64",
        bootMode: "UEFI",
        address: "10.0.0.9",
        macs: ["52:54:00:00:00:0a"],
        ...(work && { task: { id: work.id, percent: 10, message: "working" } }),
      });
      if (typeof order === "string" || order.do === "power_off") {
        work?.cancel();
        if (!life.aborted) this.turn("OFF");
        return;
      }
      if (order.do === "task" && work === null) work = this.#begin(order.task);
      if (order.do === "cancel" && work) {
        this.cancelled.push(work.kind);
        work.cancel();
      }
      const result: AgentResult | null = work?.result ?? null;
      if (result && (await this.#report(bearer, instance, result))) work = null;
      await delay(POLL_MS);
    }
    work?.cancel();
  }

  #begin({ id, kind, args }: { readonly id: string; readonly kind: string; readonly args: Json }): RunningTask {
    this.journal.push(`task ${kind}`);
    const end = new AbortController();
    const task: RunningTask = { id, kind, result: null, cancel: () => end.abort(new Error("CANCELLED")) };
    const wrong = (message: string): AgentResult => ({
      task: id,
      ok: false,
      error: { code: message, message, retryable: false },
    });
    const script = this.works[kind];
    const working = script ? script(args, end.signal) : Promise.reject(new Error("UNSUPPORTED"));
    void working.then(
      (output) => {
        if (kind === "configure") this.#seed = z.object({ seed: z.record(z.string(), z.any()) }).parse(args).seed;
        task.result = { task: id, ok: true, output };
      },
      (error: unknown) => {
        task.result = wrong(error instanceof Error ? error.message : "INTERNAL");
      },
    );
    return task;
  }

  async #report(bearer: Bearer, instance: string, result: AgentResult): Promise<boolean> {
    return (await this.#engine().agents.result(bearer, instance, result)) !== "RETRY";
  }
}

interface RunningTask {
  readonly id: string;
  readonly kind: string;
  result: AgentResult | null;
  cancel(): void;
}

/** The driver `bench`: BMCs of scripted machines, by the names of their nodes. */
export function benchDriver(machineOf: (node: string) => ScriptedMachine): Driver<never> {
  const power: PowerInterface<never> = {
    read: async ({ node }) => machineOf(node.name).power,
    async set({ node }, action) {
      const machine = machineOf(node.name);
      if (action === "ON" && machine.device === "DISK") await machine.beforeDisk();
      if (action === "REBOOT") machine.turn("OFF");
      machine.turn(action === "ON" || action === "REBOOT" ? "ON" : "OFF");
    },
    async setBootDevice({ node }, device) {
      machineOf(node.name).device = device;
    },
  };
  const media: MediaInterface<never> = {
    async insert({ node }, url) {
      machineOf(node.name).medium = url;
    },
    async eject({ node }) {
      machineOf(node.name).medium = null;
    },
  };
  return {
    contract: 2,
    name: "bench",
    version: "0.0.1",
    description: "BMCs that a test plays.",
    settings: z.strictObject({}) as never,
    power,
    media,
  };
}
