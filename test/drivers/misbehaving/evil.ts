/**
 * A driver that misbehaves towards its process; `does` in the settings of a node selects how. With `sound` it behaves,
 * and returns the id of its process.
 */
import { execSync, spawn } from "node:child_process";
import { appendFileSync, closeSync, existsSync, openSync, readFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type {
  Call,
  Driver,
  Json,
  PluginHost,
  Schema,
  Step,
  StepCall,
  StepResult,
} from "../../../src/drivers/driver.ts";

/** A text field of settings, as JSON Schema has it. */
interface Field {
  readonly description: string;
  readonly default: string;
  readonly writeOnly?: true;
}

/** Without a library: each of the many processes that a test starts would load it. */
function schemaOf<Name extends string>(
  description: string,
  fields: Readonly<Record<Name, Field>>,
): Schema<Readonly<Record<Name, string>>> {
  const entries = Object.entries<Field>(fields);
  const defaults = Object.fromEntries(entries.map(([name, field]) => [name, field.default]));
  const shape = {
    type: "object",
    description,
    properties: Object.fromEntries(entries.map(([name, field]) => [name, { type: "string", ...field }])),
    additionalProperties: false,
  };
  return {
    "~standard": {
      version: 1,
      vendor: "none",
      validate(value) {
        const given = Object.entries(value as object);
        const unknown = given.filter(([name, text]) => !Object.hasOwn(fields, name) || typeof text !== "string");
        if (unknown.length > 0)
          return { issues: unknown.map(([name]) => ({ message: `Unknown or not a text: ${name}.`, path: [name] })) };
        return { value: { ...defaults, ...(value as object) } as Record<Name, string> };
      },
      jsonSchema: { input: () => shape, output: () => ({ ...shape, required: Object.keys(fields) }) },
    },
  };
}

interface Settings {
  readonly does: string;
  readonly file: string;
  readonly password: string;
}
const settings: Schema<Settings> = schemaOf("A driver that misbehaves.", {
  does: { default: "sound", description: "The behavior." },
  file: { default: "", description: "The file that it writes, or the URL that it requests." },
  password: { default: "correct-horse", writeOnly: true, description: "A secret." },
});

const never = () => new Promise<never>(() => {});
const junk = (value: unknown) => value as StepResult;
const kept: unknown[] = [];
/** The log of the host, for lines outside of a call. */
let logOutside: PluginHost["log"] = () => {};
let nextCall = Promise.withResolvers<void>();

/** Runs `work` in the middle of the next call. */
function inTheNextCall(work: () => void): void {
  void nextCall.promise.then(() => setTimeout(work, 20).unref());
}

/** Starts a program that writes endlessly. */
function writeFromOutside(file: string): void {
  spawn("sh", ["-c", `while true; do printf . >> '${file}'; sleep 0.01; done`], { stdio: "ignore" });
}

const BEHAVIORS: Readonly<Record<string, (call: StepCall<Settings>) => StepResult | Promise<StepResult>>> = {
  sound: () => ({ kind: "done", output: { pid: process.pid } }),
  "asks by HTTP": async ({ settings: { file } }) => {
    await (await fetch(file)).text();
    return { kind: "done", output: { pid: process.pid } };
  },
  prints: () => {
    console.log("one line");
    console.error("and one more");
    return { kind: "done", output: { pid: process.pid } };
  },
  throws: () => {
    throw new Error("it broke");
  },
  "throws a failure": () => {
    throw Object.assign(new Error("the wire is broken"), { name: "DriverError", kind: "UNREACHABLE", retryable: true });
  },
  "throws a value that is not an error": () => {
    throw "a word";
  },
  "throws a value that cannot be read": () => {
    throw new Proxy(new Error("no"), {
      get: () => {
        throw new Error("nor this");
      },
    });
  },
  "returns nothing": () => junk(undefined),
  "returns a function": () => junk(() => {}),
  "returns a circular value": () => {
    const circle: Record<string, unknown> = { kind: "done" };
    circle["output"] = circle;
    return junk(circle);
  },
  "returns too much": () => ({ kind: "done", output: "x".repeat(50_000_000) }),
  "returns a value that throws when it is read": () =>
    junk({
      get kind() {
        throw new Error("do not look");
      },
    }),
  hangs: never,
  "spins forever": () => {
    for (;;);
  },
  "sleeps in a system call": () => {
    execSync("sleep 600");
    return { kind: "done" };
  },
  "waits on a lock forever": () => {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
    return { kind: "done" };
  },
  "ends its process": () => process.exit(0),
  "ends its process with a code": () => process.exit(7),
  "kills its process": async () => {
    process.kill(process.pid, "SIGKILL");
    return never();
  },
  "aborts its process": () => process.abort(),
  "fills its heap": () => {
    const all = new Map<number, number>();
    for (let index = 0; ; index += 1) all.set(index, index);
  },
  "allocates too much at once": () => {
    for (;;) kept.push(Array.from({ length: 30_000_000 }));
  },
  "throws in a timer": () => {
    setTimeout(() => {
      throw new Error("out of a timer");
    }, 1);
    return never();
  },
  "rejects without a handler": () => {
    void Promise.reject(new Error("no handler"));
    return never();
  },
  "emits an error without a listener": async () => {
    const { EventEmitter } = await import("node:events");
    setImmediate(() => new EventEmitter().emit("error", new Error("no listener")));
    return never();
  },
  "writes into the channel": () => {
    writeSync(3, "this is not a message\n");
    return never();
  },
  "closes the channel": () => {
    closeSync(3);
    return never();
  },
  "logs too much": ({ log }) => {
    for (let line = 0; line < 200_000; line += 1) log(`line ${line}`);
    return { kind: "done" };
  },
  "prints endlessly": () => {
    for (;;) console.log("the same line again and again ".repeat(20));
  },
  "logs much after its end, in parts": () => {
    let lines = 0;
    const next = () => {
      lines += 1;
      logOutside(`${lines} ${"x".repeat(10_000)}`);
      if (lines < 15) setTimeout(next, 1).unref();
    };
    setTimeout(next, 1).unref();
    return { kind: "done" };
  },
  "reports progress endlessly": ({ progress }) => {
    for (let times = 0; times < 200_000; times += 1) progress(times / 2_000, "on its way");
    return { kind: "done" };
  },
  "reads the power endlessly": async ({ power }) => {
    await Promise.race(Array.from({ length: 100_000 }, () => power.read()));
    return { kind: "done" };
  },
  "prints its secret": ({ settings: { password }, log }) => {
    console.log(`the password is ${password}`);
    process.stderr.write(`once more: ${password}\n`);
    log("printed");
    return { kind: "done" };
  },
  "logs its secret at the end of a long text": ({ settings: { password }, log }) => {
    // Halves of it are within the bounds of a message and of a printed line.
    console.log(`printed ${"x".repeat(3_984)}${password}`);
    log(`${"x".repeat(15_993)}${password}`);
    throw new Error(`${"x".repeat(15_993)}${password}`);
  },
  "ends with an incomplete line": ({ settings: { password } }) => {
    process.stderr.write(`the last word was ${password}`);
    return process.exit(1);
  },
  // Effects that happen after the end of the call.
  "leaves a timer that throws": () => {
    inTheNextCall(() => {
      throw new Error("left behind");
    });
    return { kind: "done", output: { pid: process.pid } };
  },
  "leaves a timer that ends the process": () => {
    inTheNextCall(() => process.exit(1));
    return { kind: "done", output: { pid: process.pid } };
  },
  "leaves a promise that rejects": () => {
    inTheNextCall(() => void Promise.reject(new Error("left behind")));
    return { kind: "done", output: { pid: process.pid } };
  },
  "leaves a timer that throws between two calls": () => {
    setTimeout(() => {
      throw new Error("left behind");
    }, 20).unref();
    return { kind: "done", output: { pid: process.pid } };
  },
  "leaves a timer that repeats": ({ settings: { file } }) => {
    setInterval(() => appendFileSync(file, "."), 5);
    return { kind: "done", output: { pid: process.pid } };
  },
  "leaves a timer for a moment": () => {
    setTimeout(() => {}, 100);
    return { kind: "done", output: { pid: process.pid } };
  },
  "leaves a timer for long": () => {
    setTimeout(() => {}, 1_000);
    return { kind: "done", output: { pid: process.pid } };
  },
  "leaves descriptors open": () => {
    for (let count = 0; count < 40; count += 1) openSync("/dev/null", "r");
    return { kind: "done", output: { pid: process.pid } };
  },
  "changes a prototype": () => {
    Object.assign(Array.prototype, { map: () => [] });
    return { kind: "done", output: { pid: process.pid } };
  },
  "adds to a prototype": () => {
    Object.assign(Object.prototype, { extra: 1 });
    return { kind: "done", output: { pid: process.pid } };
  },
  "replaces a global function": () => {
    globalThis.fetch = () => Promise.reject(new Error("replaced"));
    return { kind: "done", output: { pid: process.pid } };
  },
  "uses headers": () => ({ kind: "done", output: { pid: process.pid, names: [...new Headers({ a: "b" }).keys()] } }),
  "replaces headers": () => {
    globalThis.Headers = class extends Headers {};
    return { kind: "done", output: { pid: process.pid } };
  },
  "adds a global variable": () => {
    Object.assign(globalThis, { leaked: 1 });
    return { kind: "done", output: { pid: process.pid } };
  },
  "changes the environment": () => {
    process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = "0";
    return { kind: "done", output: { pid: process.pid } };
  },
  "changes the folder": () => {
    process.chdir("/");
    return { kind: "done", output: { pid: process.pid } };
  },
  "keeps much memory": () => {
    kept.push(Buffer.alloc(300_000_000, 1));
    return { kind: "done", output: { pid: process.pid } };
  },
  "fails without descriptors": () => ({ kind: "failed", reason: `spawn EMFILE in ${process.pid}`, retryable: false }),
  "throws without descriptors": () => {
    throw new TypeError("fetch failed", { cause: Object.assign(new Error(""), { code: "EMFILE" }) });
  },
  "leaves a process that continues": ({ settings: { file } }) => {
    writeFromOutside(file);
    return never();
  },
  "leaves a process that continues, and ends its own": async ({ settings: { file } }) => {
    writeFromOutside(file);
    while (!existsSync(file)) await delay(5);
    return process.exit(1);
  },
  "keeps writing": ({ settings: { file } }) => {
    setInterval(() => appendFileSync(file, "."), 5);
    return never();
  },
  "writes in a loop": ({ settings: { file } }) => {
    const pause = new Int32Array(new SharedArrayBuffer(4));
    for (;;) {
      appendFileSync(file, ".");
      Atomics.wait(pause, 0, 0, 5);
    }
  },
  "reports its times": async ({ timed, log, progress }) => {
    log("one");
    await timed("evil look", () => delay(1));
    await timed("evil break", () => Promise.reject(new Error("broken"))).catch(() => {});
    progress(40, "in progress");
    log("two");
    progress(90, "nearly there");
    return { kind: "done" };
  },
  obeys: ({ signal }) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
  "fails when it is cancelled": ({ signal }) => {
    signal.addEventListener("abort", () => {
      throw new Error("in the listener");
    });
    return never();
  },
  "runs for a while": async () => {
    nextCall.resolve();
    nextCall = Promise.withResolvers<void>();
    await delay(200);
    return { kind: "done", output: { pid: process.pid } };
  },
  "uses the power": async ({ power }) => {
    await power.set("ON");
    await power.setBootDevice("PXE", { persistent: true });
    return { kind: "done", output: { power: await power.read(), pid: process.pid } };
  },
  "uses the media": async ({ media }) => {
    await media.insert("http://10.0.0.1/agent.iso", { writeProtected: false });
    const error: unknown = await media.eject().catch((thrown: unknown) => thrown);
    const { name, kind, withoutEffect } = error as Error & { kind: string; withoutEffect: boolean };
    return { kind: "done", output: { offered: media.offered, name, kind, withoutEffect } };
  },
  "uses the agent": async ({ agent }) => {
    const before = await agent.status();
    const opened = await agent.open({ medium: "ISO", architecture: "X64" });
    await agent.assign({ kind: "inventory", args: { lldpSeconds: 0 } });
    const home = await agent.homeUrl();
    const error: unknown = await agent.close().catch((thrown: unknown) => thrown);
    const { name, kind } = error as { readonly name: string; readonly kind: string };
    return { kind: "done", output: { before: before?.version ?? null, ...opened, home, name, kind } };
  },
  "uses power that fails": async ({ power }) => {
    const error: unknown = await power.set("OFF").catch((thrown: unknown) => thrown);
    const { name, kind, retryable, message } = error as Error & { kind: string; retryable: boolean };
    return { kind: "done", output: { name, kind, retryable, message } };
  },
  "returns its call": ({
    signal,
    deadline,
    log: _log,
    timed: _timed,
    progress: _progress,
    power: _power,
    ...data
  }) => ({
    kind: "done",
    output: { ...(data as unknown as Record<string, Json>), deadline: deadline.getTime(), isAborted: signal.aborted },
  }),
  // What a hostile plugin would try; `file` is the folder of the database.
  "looks for secrets": async ({ settings: { file } }) => {
    const outcomes: Record<string, string> = {};
    const attempt = async (name: string, work: () => unknown) => {
      try {
        outcomes[name] = JSON.stringify((await work()) ?? "done");
      } catch (error) {
        outcomes[name] = (error as NodeJS.ErrnoException).code ?? (error as Error).name;
      }
    };
    await attempt("environment", () => readFileSync(`/proc/${process.ppid}/environ`, "latin1"));
    await attempt("memory", () => openSync(`/proc/${process.ppid}/mem`, "r"));
    await attempt("password", () => readFileSync(join(file, "pgpass"), "utf8"));
    await attempt("program", () => execSync("true"));
    await attempt("write", () => appendFileSync(join(file, "traces"), "."));
    const { default: postgres } = await import("postgres");
    await attempt("database", async () => {
      const sql = postgres({
        host: file,
        port: 5432,
        user: "ostler",
        database: "postgres",
        max: 1,
        connect_timeout: 5,
      });
      try {
        return (await sql`select 1`).length;
      } finally {
        await sql.end();
      }
    });
    return { kind: "done", output: outcomes };
  },
  "returns its environment": () => ({ kind: "done", output: { ...process.env } as Record<string, string> }),
};

function behave(call: StepCall<Settings>): StepResult | Promise<StepResult> {
  const behavior = BEHAVIORS[call.settings.does];
  if (!behavior) throw new Error(`Unknown behavior ${JSON.stringify(call.settings.does)}.`);
  return behavior(call);
}

const step = (more: Partial<Step<Settings>>): Step<Settings> => ({
  name: "erase",
  title: "Does what its settings say",
  phase: "clean",
  priority: 10,
  interruptible: "ALWAYS",
  timeoutSeconds: 600,
  idempotent: true,
  touches: [],
  run: async (call) => behave(call),
  ...more,
});

export default function createEvil({ memory, log }: PluginHost): Driver<Settings> {
  log("evil is created");
  logOutside = log;
  const powerOf = async ({ node }: Call<Settings>) => ((await memory?.get(node.id)) === "ON" ? "ON" : "OFF");
  return {
    contract: 2,
    name: "evil",
    version: "1.0.0",
    permissions: process.env["EVIL_PERMISSIONS"] === "none" ? [] : ["FILES", "PROGRAMS"],
    description: "Misbehaves.",
    settings,
    power: {
      read: powerOf,
      async set({ node, settings: { does } }, action) {
        if (does.endsWith("that fails"))
          throw Object.assign(new Error("the plug is stuck"), {
            name: "DriverError",
            kind: "REFUSED",
            retryable: true,
          });
        await memory?.set(node.id, action === "ON" || action === "REBOOT" ? "ON" : "OFF");
      },
      async setBootDevice() {},
    },
    clean: {
      supportsAbort: true,
      steps: [
        step({
          abort: async ({ settings: { file } }) => void (file && appendFileSync(file, "undone")),
          verify: async ({ memo }) => (memo === "look again" ? { kind: "wait", seconds: 1, memo } : { kind: "done" }),
        }),
        step({
          name: "flash",
          title: "Does what its settings say, not idempotent",
          idempotent: false,
          interruptible: "NEVER",
          priority: 0,
        }),
      ],
    },
    discover: {
      settings: schemaOf("Settings of a discovery.", {
        does: { default: "sound", description: "The behavior of a probe." },
      }),
      async probe({ address, settings: { does } }) {
        if (does === "ends its process") process.exit(3);
        return { settings: { does: "sound", file: "", password: "correct-horse" }, name: `at-${address}` };
      },
    },
    controllerOf: () => "",
    close: async () =>
      void (process.env["EVIL_CLOSED"] && appendFileSync(process.env["EVIL_CLOSED"], `${process.pid}\n`)),
  };
}
