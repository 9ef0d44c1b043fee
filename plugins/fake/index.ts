/**
 * The driver `fake`: machines that are not there, for demonstrations, tests and benchmarks. Each node's settings script
 * what its machine does: delays, waits, failures at a step, silence, deafness to the signal. Ten thousand cost nothing.
 *
 * Power is kept in the driver's memory; after a restart of the service a machine is as its node was last seen. With
 * FAKE_DRIVER_JOURNAL in the environment every entry of a step appends a line of JSON to that file.
 */
import { createHash } from "node:crypto";
import { appendFileSync } from "node:fs";
import * as z from "zod";
import type {
  Call,
  Driver,
  DriverError,
  DriverErrorKind,
  DriverMemory,
  Json,
  PluginHost,
  PowerAction,
  PowerState,
  Step,
  StepCall,
  StepResult,
} from "../../src/drivers/driver.ts";
import { fakeDiscovery } from "./discover.ts";
import { passGate, pause, untilOrAborted } from "./gates.ts";
import { fakeSettings } from "./settings.ts";
import type { FakeSettings, Script } from "./settings.ts";

class FakeError extends Error implements DriverError {
  override readonly name = "DriverError";
  readonly kind: DriverErrorKind;
  readonly retryable: boolean;
  constructor(message: string, kind: DriverErrorKind, retryable: boolean) {
    super(message);
    this.kind = kind;
    this.retryable = retryable;
  }
}

const STUCK_SECONDS = 0.5;

type Declaration = Omit<Step<FakeSettings>, "run" | "abort">;
type Playing = Call<FakeSettings> & Partial<Pick<StepCall<FakeSettings>, "progress">>;
type Work = (call: StepCall<FakeSettings>) => Promise<Json | undefined>;

export default function createFake(host: PluginHost): Driver<FakeSettings> {
  const memory = host.memory ?? ownMemory();
  const journal = process.env["FAKE_DRIVER_JOURNAL"];

  function note(entry: Record<string, unknown>): void {
    if (journal) appendFileSync(journal, `${JSON.stringify({ at: Date.now(), ...entry })}\n`);
  }

  async function powerOf({ node }: Call<FakeSettings>): Promise<PowerState> {
    const kept = await memory.get(`power ${node.id}`);
    return (kept ?? node.powerState) === "ON" ? "ON" : "OFF";
  }

  function answer({ settings, node, signal }: Call<FakeSettings>): void {
    signal.throwIfAborted();
    if (settings.dead)
      throw new FakeError(
        `The BMC of ${node.name} does not answer; look at its power and its cable.`,
        "UNREACHABLE",
        true,
      );
    if (settings.refusesLogin)
      throw new FakeError(
        `The BMC of ${node.name} refuses the login; set its credentials with updateNode.`,
        "AUTHENTICATION",
        false,
      );
  }

  /** What a script does before the real work, and instead of it. */
  function play(label: string, script: Script, call: Playing): Promise<StepResult | null> {
    return call.timed(`fake ${label}`, () => playNow(label, script, call));
  }

  async function playNow(label: string, script: Script, call: Playing): Promise<StepResult | null> {
    const signal = script.ignoreSignal ? null : call.signal;
    for (const line of script.says ?? []) call.log(line);
    if (script.gate !== undefined) await passGate(script.gate, call.node.name, signal);
    if (script.silent) await untilOrAborted(new Promise<void>(() => {}), signal);
    const milliseconds = script.delayMs ?? call.settings.delayMs;
    const parts = script.progress && call.progress ? 10 : 1;
    for (let part = 1; part <= parts && milliseconds > 0; part += 1) {
      await pause(milliseconds / parts, signal);
      if (parts > 1) call.progress?.((part / parts) * 100, `${part} of ${parts}`);
    }
    if (script.throws !== undefined) throw new Error(script.throws);
    if (script.fail !== undefined) return { kind: "failed", reason: script.fail, retryable: script.retryable ?? false };
    return script.failures === undefined
      ? null
      : failOnceMore(`failures ${call.node.id} ${label}`, script.failures, script.retryable ?? true);
  }

  /** A failure, as long as there were fewer than so many. */
  async function failOnceMore(key: string, times: number, retryable: boolean): Promise<StepResult | null> {
    const failed = Number(await memory.get(key)) || 0;
    if (failed >= times) return null;
    await memory.set(key, failed + 1);
    return { kind: "failed", reason: `failure ${failed + 1} of ${times}`, retryable };
  }

  /** The waits that a script asks for, then what it plays; null: the real work is to be done. */
  async function follow(label: string, call: StepCall<FakeSettings>): Promise<StepResult | null> {
    const script = call.settings.steps[label] ?? {};
    if (script.stuck) return { kind: "wait", seconds: STUCK_SECONDS, memo: "stuck" };
    const waitSeconds = script.waitSeconds ?? (label === "deploy.boot_system" ? call.settings.waitSeconds : 0);
    if (script.callback && call.memo !== "called") {
      if (call.callback === null) {
        call.log(`waits for a call-back at ${call.callbackPath}`);
        return { kind: "wait", callback: true, seconds: waitSeconds > 0 ? waitSeconds : 1800, memo: "waiting" };
      }
    } else if (waitSeconds > 0 && call.memo !== "waited") {
      return { kind: "wait", seconds: waitSeconds, memo: "waited" };
    }
    if (script.junk) return { kind: "perhaps" } as unknown as StepResult;
    return play(label, script, call);
  }

  function step(interfaceName: string, declaration: Declaration, work: Work): Step<FakeSettings> {
    const label = `${interfaceName}.${declaration.name}`;
    return {
      ...declaration,
      async run(call) {
        note({ node: call.node.name, step: label, attempt: call.attemptKey, memo: call.memo });
        const played = await follow(label, call);
        if (played) return played;
        const output = await work(call);
        note({ node: call.node.name, step: label, attempt: call.attemptKey, done: true });
        return output === undefined ? { kind: "done" } : { kind: "done", output };
      },
      async abort(call) {
        note({ node: call.node.name, step: label, attempt: call.attemptKey, abort: true });
        const script = call.settings.steps["driver.abort"];
        const played = script && (await play("driver.abort", script, call));
        if (played?.kind === "failed") throw new Error(played.reason);
      },
    };
  }

  /** The step, with a verify part: it does what the script of that label says, and is content otherwise. */
  function verified(made: Step<FakeSettings>, label: string): Step<FakeSettings> {
    return {
      ...made,
      async verify(call) {
        note({ node: call.node.name, verify: label, attempt: call.attemptKey, memo: call.memo });
        return (await follow(label, call)) ?? { kind: "done" };
      },
    };
  }

  async function setPower(call: Call<FakeSettings>, action: PowerAction): Promise<void> {
    answer(call);
    note({ node: call.node.name, power: action });
    const played = await play(
      "power.set",
      call.settings.steps["power.set"] ?? { delayMs: call.settings.powerDelayMs },
      call,
    );
    if (played?.kind === "failed") throw new FakeError(played.reason, "REFUSED", played.retryable);
    await memory.set(`power ${call.node.id}`, action === "ON" || action === "REBOOT" ? "ON" : "OFF");
  }

  const usual = { timeoutSeconds: 600, idempotent: true } as const;

  return {
    contract: 1,
    name: "fake",
    version: "0.1.0",
    description: "Machines that are not there, scripted node by node; for demonstrations and tests.",
    settings: fakeSettings,
    power: {
      async read(call) {
        answer(call);
        const played = await play("power.read", call.settings.steps["power.read"] ?? { delayMs: 0 }, call);
        if (played?.kind === "failed") throw new FakeError(played.reason, "OTHER", played.retryable);
        return powerOf(call);
      },
      set: setPower,
      async setBootDevice(call) {
        answer(call);
      },
    },
    inspect: {
      supportsAbort: true,
      withoutReboot: true,
      steps: [
        step(
          "inspect",
          {
            ...usual,
            name: "collect_inventory",
            title: "Collect the inventory",
            phase: "inspect",
            priority: 10,
            interruptible: "ALWAYS",
            touches: [],
          },
          async (call) => inventory(call),
        ),
      ],
    },
    clean: {
      supportsAbort: true,
      steps: [
        step(
          "clean",
          {
            ...usual,
            name: "erase_metadata",
            title: "Erase partition tables",
            phase: "clean",
            priority: 20,
            interruptible: "AT_BOUNDARY",
            touches: ["DISKS"],
          },
          async () => undefined,
        ),
        step(
          "clean",
          {
            ...usual,
            name: "erase_disks",
            title: "Erase the disks",
            phase: "clean",
            priority: 10,
            interruptible: "ALWAYS",
            timeoutSeconds: 6 * 3600,
            touches: ["DISKS"],
          },
          async () => ({ erased: 2 }),
        ),
        verified(
          step(
            "clean",
            {
              ...usual,
              name: "update_firmware",
              title: "Write the firmware",
              phase: "clean",
              priority: 0,
              interruptible: "NEVER",
              idempotent: false,
              touches: ["FIRMWARE"],
              args: z.strictObject({
                version: z
                  .string()
                  .regex(/^\d+\.\d+$/)
                  .meta({ description: "Version to write, as in 2.1." }),
              }),
            },
            async (call) => {
              call.log(`Firmware ${JSON.stringify(call.args["version"])} is written.`);
              return { version: call.args["version"] ?? null };
            },
          ),
          "clean.update_firmware.verify",
        ),
      ],
    },
    deploy: {
      supportsAbort: true,
      steps: [
        step(
          "deploy",
          {
            ...usual,
            name: "prepare",
            title: "Set the boot device and reserve the image",
            phase: "deploy",
            priority: 40,
            interruptible: "ALWAYS",
            touches: ["NETWORK"],
          },
          async (call) => {
            await call.power.setBootDevice("PXE");
            return { image: call.variables["image"] ?? "default" };
          },
        ),
        step(
          "deploy",
          {
            ...usual,
            name: "write_image",
            title: "Write the operating system to disk",
            phase: "deploy",
            priority: 30,
            interruptible: "ALWAYS",
            reaches: "PROVISIONED",
            touches: ["DISKS"],
            retries: { times: 2, backoffSeconds: 1 },
          },
          async (call) => {
            const image = call.variables["image"] ?? "default";
            call.log(`Image ${JSON.stringify(image)} is written.`);
            return { image };
          },
        ),
        step(
          "deploy",
          {
            ...usual,
            name: "boot_system",
            title: "Start the installed system",
            phase: "deploy",
            priority: 20,
            interruptible: "ALWAYS",
            touches: [],
          },
          async (call) => {
            await call.power.set("ON");
            return undefined;
          },
        ),
        step(
          "deploy",
          {
            ...usual,
            name: "configure",
            title: "Configure the system",
            phase: "deploy",
            priority: 10,
            interruptible: "AT_BOUNDARY",
            touches: [],
          },
          async (call) => ({ variables: { ...call.variables } }),
        ),
        step(
          "deploy",
          {
            ...usual,
            name: "remove_system",
            title: "Take the system out of service",
            phase: "undeploy",
            priority: 10,
            interruptible: "ALWAYS",
            touches: [],
          },
          async (call) => {
            await call.power.set("OFF");
            return undefined;
          },
        ),
      ],
    },
    discover: fakeDiscovery({ note, failure: (message, kind, retryable) => new FakeError(message, kind, retryable) }),
    controllerOf: ({ controller }) => controller ?? "",
  };
}

/** Where the driver is tried outside of a service there is this process alone. */
function ownMemory(): DriverMemory {
  const values = new Map<string, Json>();
  return {
    get: async (key) => values.get(key),
    async set(key, value) {
      if (value === undefined) values.delete(key);
      else values.set(key, value);
    },
  };
}

/** Hardware that is always the same for the same node. */
function inventory({ node, settings }: StepCall<FakeSettings>): Json {
  const digest = createHash("sha256").update(node.id).digest();
  const [cpus = 0, memory = 0, disks = 0] = digest;
  return {
    manufacturer: "Ostler",
    model: "Fake 1000",
    serial: settings.serial ?? digest.subarray(0, 6).toString("hex").toUpperCase(),
    cpus: 8 << (cpus % 3),
    memoryGiB: 64 << (memory % 4),
    disks: Array.from({ length: 1 + (disks % 4) }, (_, index) => ({ name: `disk${index}`, sizeGB: 960 })),
  };
}
