/**
 * The machines: a process without faults. The driver `chaos` asks it over a Unix socket how each entry of a step and
 * each change of power ends. The seed, the node and the attempt key determine the result, so a repeated entry ends in
 * the same way. Calls and results are recorded. Machines send callbacks through the replicas' proxies: once, twice, too
 * late, and with forged paths.
 */
import { createHash, randomUUID } from "node:crypto";
import { chmodSync } from "node:fs";
import { createServer } from "node:net";
import type { Socket } from "node:net";
import { dirname } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import { chance } from "../durability/lab.ts";
import type { Chance } from "../durability/lab.ts";
import { START, obey } from "./control.ts";
import { clock, record } from "./records.ts";
import type { Callback, Enter, Leave } from "./records.ts";

/**
 * `hang`: never returns and ignores its signal. `block`: blocks the event loop for up to 30 s. `exit`: ends its
 * process.
 */
const MISBEHAVIOURS = ["throw", "junk", "hang", "block", "exit"] as const;
export type Misbehaviour = (typeof MISBEHAVIOURS)[number];

const COMMAND = z.discriminatedUnion("do", [
  START.extend({ socket: z.string() }),
  // From now on the drivers of these nodes misbehave at every third entry. An empty list ends the misbehaviour.
  z.object({ do: z.literal("misbehave"), nodes: z.array(z.string()).readonly(), how: z.enum(MISBEHAVIOURS) }),
]);
export type MachinesCommand = z.infer<typeof COMMAND>;

/** A message of the driver. `id` is the driver's own number for the call. */
type DriverMessage = {
  readonly id: number;
  readonly replica: string;
  readonly pid: number;
  readonly parent: number;
} & (
  | (Omit<Enter, "t" | "k" | "entry" | "callback" | "replica" | "pid" | "parent"> & {
      readonly kind: "enter";
      readonly called: boolean;
    })
  | { readonly kind: "power"; readonly node: string; readonly what: string; readonly attemptKey: string | null }
  | { readonly kind: "cut" }
);
type Entered = Extract<DriverMessage, { kind: "enter" }>;

/** Instruction to the driver. */
type Order =
  | { readonly kind: "done"; readonly powers?: "ON" | "OFF" }
  | { readonly kind: "wait"; readonly seconds: number; readonly callback: boolean }
  | { readonly kind: "failed"; readonly reason: string; readonly retryable: boolean }
  | { readonly kind: "throw"; readonly reason: string }
  | { readonly kind: "junk" | "hang" | "exit" }
  | { readonly kind: "block"; readonly ms: number };

const BLOCK_MS_MAX = 30_000;
/** Time during which a machine repeats a callback that got no answer. */
const CALLBACK_MS = 30_000;
const ANSWER_MS = 5_000;
/** Earlier paths kept for each run, for late callbacks. */
const PATHS_MAX = 4;

let misbehaving: { readonly nodes: ReadonlySet<string>; readonly how: Misbehaviour } = {
  nodes: new Set(),
  how: "throw",
};
let end: () => Promise<void> = () => Promise.resolve();

async function start(command: Extract<MachinesCommand, { do: "start" }>): Promise<void> {
  const { seed, folder } = command;
  const calls = record(folder, "driver");
  const callbackRecords = record(folder, "callbacks");
  const paths = new Map<string, string[]>();
  let entries = 0;

  /** Random source that depends only on the seed and these values. */
  const chanceFor = (...words: readonly unknown[]): Chance =>
    chance(
      createHash("sha256")
        .update(JSON.stringify([seed, ...words]))
        .digest()
        .readUInt32LE(),
    );

  function serve(socket: Socket): void {
    /** Open entries, by the driver's number. */
    const inside = new Map<number, { readonly entry: string; readonly timer: NodeJS.Timeout }>();
    const leave = (entry: string, how: Leave["how"], detail: string | null) =>
      calls.write({ t: clock(), k: "leave", entry, how, detail });
    const answer = (id: number, order: object) =>
      void (socket.writable && socket.write(`${JSON.stringify({ id, ...order })}\n`));

    function enter(message: Entered): void {
      entries += 1;
      const entry = `e${entries}`;
      const {
        replica,
        pid,
        parent,
        node,
        attemptKey,
        phase,
        step,
        part,
        memo,
        called,
        idempotent,
        interruptible,
        deadline,
        timeoutSeconds,
        path,
      } = message;
      calls.write({
        t: clock(),
        k: "enter",
        entry,
        replica,
        pid,
        parent,
        node,
        attemptKey,
        phase,
        step,
        part,
        memo,
        callback: called,
        idempotent,
        interruptible,
        deadline,
        timeoutSeconds,
        path,
      });
      const runId = attemptKey.split(":")[0] ?? "";
      const known = paths.get(runId) ?? [];
      paths.set(runId, [...known, path].slice(-PATHS_MAX));
      const { after, order } = decide(message, chanceFor);
      if (order.kind === "wait" && order.callback)
        void sendCallback({ entry, node, attemptKey, runId, path, earlier: known }, after).catch((error: unknown) =>
          console.error("a machine could not send its callback:", error),
        );
      const timer = setTimeout(() => {
        inside.delete(message.id);
        const [how, detail] = leaveOf(order);
        leave(entry, how, detail);
        answer(message.id, { ...order, entry });
      }, after);
      inside.set(message.id, { entry, timer });
    }

    function power({
      id,
      replica,
      pid,
      parent,
      node,
      what,
      attemptKey,
    }: Extract<DriverMessage, { kind: "power" }>): void {
      const random = chanceFor(node, what, Math.floor(clock() / 1_000));
      const failure = random.often(0.01) ? `The BMC of ${node} is busy.` : null;
      calls.write({ t: clock(), k: "power", entry: null, replica, pid, parent, node, what, attemptKey, failure });
      if (!failure && what.startsWith("set "))
        powers.set(node, what === "set ON" || what === "set REBOOT" ? "ON" : "OFF");
      const state = powers.get(node) ?? "OFF";
      const after =
        what === "read"
          ? random.weighed([
              [8, 0],
              [1, random.whole(50, 300)],
            ])
          : random.weighed([
              [6, random.whole(5, 50)],
              [1, random.whole(300, 1_500)],
            ]);
      setTimeout(() => answer(id, failure ? { failure } : { state }), after);
    }

    let rest = "";
    socket.setEncoding("utf8").on("data", (text: string) => {
      const lines = (rest + text).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        const message = JSON.parse(line) as DriverMessage;
        if (message.kind === "enter") enter(message);
        else if (message.kind === "power") power(message);
        else {
          const one = inside.get(message.id);
          if (!one) continue;
          inside.delete(message.id);
          clearTimeout(one.timer);
          leave(one.entry, "cut", null);
        }
      }
    });
    socket.on("error", () => {});
    socket.on("close", () => {
      for (const { entry, timer } of inside.values()) {
        clearTimeout(timer);
        leave(entry, "lost", null);
      }
      inside.clear();
    });
  }

  const powers = new Map<string, "ON" | "OFF">();
  const replicas = Object.keys(command.urls);

  interface Waiting {
    readonly entry: string;
    readonly node: string;
    readonly attemptKey: string;
    readonly runId: string;
    readonly path: string;
    readonly earlier: readonly string[];
  }

  /**
   * Sends the callbacks of a machine that a step waits for. `orderAfter`: milliseconds until the driver receives the
   * instruction to wait.
   */
  async function sendCallback(waiting: Waiting, orderAfter: number): Promise<void> {
    const random = chanceFor("callback", waiting.attemptKey, waiting.entry);
    const { path, runId, earlier } = waiting;
    const when = random.weighed([
      [15, "early"],
      [5, "never"],
      [80, "in time"],
    ] as const);
    if (random.often(0.05)) await send(waiting, "forged", `${path.slice(0, -6)}AAAAAA`, random);
    if (random.often(0.03))
      await send(waiting, "forged", `/callback/${randomUUID()}.${path.split(".")[1] ?? ""}`, random);
    if (when === "never") return;
    await delay(when === "early" ? orderAfter / 2 : orderAfter + random.whole(20, 3_000));
    for (const until = clock() + CALLBACK_MS; clock() < until; await delay(300))
      if ((await send(waiting, "good", path, random)) !== null) break;
    if (random.often(0.25)) {
      await delay(random.whole(0, 800));
      await send(waiting, "duplicate", path, random);
    }
    const old = earlier.filter((one) => one !== path);
    if (old.length > 0 && random.often(0.3)) await send({ ...waiting, runId }, "late", random.one(old), random);
  }

  async function send(
    { entry, node, attemptKey, runId }: Waiting,
    kind: Callback["kind"],
    path: string,
    random: Chance,
  ): Promise<number | null> {
    const replica = random.one(replicas);
    const sent = clock();
    let status: number | null = null;
    try {
      const response = await fetch(`${command.urls[replica]}${path}`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ entry }),
        signal: AbortSignal.timeout(ANSWER_MS),
      });
      await response.arrayBuffer();
      ({ status } = response);
    } catch {
      // The record has no status if there was no answer.
    }
    callbackRecords.write({
      t: clock(),
      k: "callback",
      id: `c${randomUUID()}`,
      replica,
      node,
      attemptKey,
      runId,
      kind,
      sent,
      path,
      status,
    });
    return status;
  }

  const server = createServer(serve);
  await new Promise<void>((listening, reject) => void server.once("error", reject).listen(command.socket, listening));
  // The replicas of root run drivers as another user.
  chmodSync(command.socket, 0o666);
  chmodSync(dirname(command.socket), 0o711);
  end = async () => {
    server.close();
    await Promise.all([calls.close(), callbackRecords.close()]);
  };
}

/** Result of an entry, and its delay in milliseconds. */
function decide(
  message: Entered,
  chanceFor: (...words: readonly unknown[]) => Chance,
): { readonly after: number; readonly order: Order } {
  const { node, attemptKey, phase, step, part, memo, called } = message;
  const random = chanceFor(node, attemptKey, phase, step, part, memo, called);
  const after = random.weighed([
    [4, 0],
    [5, random.whole(50, 500)],
    [1, random.whole(500, 2_000)],
  ]);
  if (part === "abort") return { after: Math.min(after, 300), order: { kind: "done" } };
  if (misbehaving.nodes.has(node) && random.often(1 / 3)) return { after, order: misbehave(misbehaving.how, random) };
  if (step === "burn_in" && random.often(0.2)) return { after, order: { kind: "hang" } };
  const fault = random.weighed<Order | null>([
    [900, null],
    [60, { kind: "failed", reason: "The machine is busy.", retryable: true }],
    [6, { kind: "failed", reason: "The machine is broken.", retryable: false }],
    [2, { kind: "throw", reason: "The machine sent an unknown answer." }],
    [1, { kind: "junk" }],
    [1, { kind: "hang" }],
  ]);
  if (fault) return { after, order: fault };
  if (!memo && part === "run") {
    if (step === "boot") return { after, order: { kind: "wait", seconds: random.whole(4, 12), callback: true } };
    if (step === "settle" || step === "drain" || (step === "erase_disks" && random.often(0.5)))
      return { after, order: { kind: "wait", seconds: random.whole(1, 25) / 10, callback: false } };
  }
  if (part === "verify" && !memo && random.often(0.3))
    return { after, order: { kind: "wait", seconds: 0.5, callback: false } };
  const powers = step === "boot" ? "ON" : step === "remove" ? "OFF" : undefined;
  return { after, order: { kind: "done", ...(powers && { powers }) } };
}

function misbehave(how: Misbehaviour, random: Chance): Order {
  switch (how) {
    case "throw":
      return { kind: "throw", reason: "The driver throws as ordered." };
    case "block":
      return { kind: "block", ms: random.whole(2_000, BLOCK_MS_MAX) };
    case "junk":
    case "hang":
    case "exit":
      return { kind: how };
  }
}

/** Result and detail for the record of an entry's end. */
function leaveOf(order: Order): readonly [Leave["how"], string | null] {
  switch (order.kind) {
    case "wait":
      return ["wait", order.callback ? `callback or ${order.seconds} s` : `${order.seconds} s`];
    case "failed":
      return [order.retryable ? "retry" : "fail", order.reason];
    case "throw":
      return ["throw", order.reason];
    case "block":
      return ["block", `${order.ms} ms`];
    case "done":
    case "junk":
    case "hang":
    case "exit":
      return [order.kind, null];
  }
}

obey(
  (message) => COMMAND.parse(message),
  async (command) => {
    if (command.do === "start") await start(command);
    else misbehaving = { nodes: new Set(command.nodes), how: command.how };
  },
  () => end(),
);
