/**
 * The driver `chaos`: forwards every call over a Unix socket to the machines' server. The server runs in a separate
 * process, decides the result and records it. Its record is complete whatever happens to the process of this driver.
 *
 * CHAOS_SOCKET: the server's socket. CHAOS_REPLICA: name of the replica in the server's records.
 */
import { connect } from "node:net";
import * as z from "zod";

const settings = z
  .strictObject({
    controller: z
      .string()
      .max(64)
      .optional()
      .meta({ description: "Address of the management controller; absent: the node has its own." }),
    password: z
      .string()
      .min(1)
      .max(64)
      .optional()
      .meta({ writeOnly: true, description: "A secret that the API must never return." }),
  })
  .meta({ description: "A machine of the chaos arena." });

class MachineError extends Error {
  name = "DriverError";
  constructor(message, retryable) {
    super(message);
    this.kind = "OTHER";
    this.retryable = retryable;
  }
}

/** Read at start: an orphaned process gets another parent. */
const PARENT = process.ppid;

/**
 * Connection to the machines' server, one line of JSON for each message. Open calls are rejected as retryable when the
 * connection breaks.
 */
function connectMachines() {
  const waiting = new Map();
  let socket;
  let last = 0;
  const disconnected = () => {
    socket = undefined;
    for (const { reject } of waiting.values()) reject(new MachineError("The connection to the machine broke.", true));
    waiting.clear();
  };
  const open = () => {
    if (socket) return socket;
    let rest = "";
    const made = connect(process.env.CHAOS_SOCKET ?? "").setEncoding("utf8");
    made.on("data", (text) => {
      const lines = (rest + text).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        const { id, ...order } = JSON.parse(line);
        waiting.get(id)?.resolve(order);
        waiting.delete(id);
      }
    });
    made.on("error", () => {});
    made.on("close", disconnected);
    made.unref();
    socket = made;
    return made;
  };
  const send = (message) =>
    open().write(
      `${JSON.stringify({ ...message, replica: process.env.CHAOS_REPLICA ?? "?", pid: process.pid, parent: PARENT })}\n`,
    );
  return {
    send,
    /** Resolves with the server's instruction. Notifies the server if the signal fires first. */
    ask(message, signal) {
      const id = (last += 1);
      return new Promise((resolve, reject) => {
        const cancel = () => {
          if (!waiting.delete(id)) return;
          send({ kind: "cut", id });
          reject(new MachineError("The call was canceled.", true));
        };
        waiting.set(id, {
          resolve(order) {
            signal?.removeEventListener("abort", cancel);
            resolve(order);
          },
          reject,
        });
        send({ ...message, id });
        if (signal?.aborted) cancel();
        else signal?.addEventListener("abort", cancel, { once: true });
      });
    },
    close: () => socket?.destroy(),
  };
}

const forever = () => new Promise(() => {});

function block(milliseconds) {
  for (const end = performance.now() + milliseconds; performance.now() < end;);
}

/** Carries out the machine's instruction. */
async function obey(order, call) {
  switch (order.kind) {
    case "done":
      if (order.powers) await call.power.set(order.powers);
      call.log(`entry ${order.entry} is done`);
      return { kind: "done", output: { entry: order.entry } };
    case "wait":
      return {
        kind: "wait",
        seconds: order.seconds,
        memo: { entry: order.entry },
        ...(order.callback && { callback: true }),
      };
    case "failed":
      return { kind: "failed", reason: order.reason, retryable: order.retryable };
    case "throw":
      throw new Error(order.reason);
    case "junk":
      return { kind: "perhaps", memo: () => {} };
    case "hang":
      return forever();
    case "block":
      block(order.ms);
      return { kind: "done", output: { entry: order.entry } };
    case "exit":
      process.exit(3);
  }
}

export default function createChaos() {
  const machines = connectMachines();

  function step(declaration) {
    const part = (name) => async (call) => {
      const message = {
        kind: "enter",
        node: call.node.name,
        attemptKey: call.attemptKey,
        phase: declaration.phase,
        step: declaration.name,
        part: name,
        memo: call.memo !== null,
        called: call.callback !== null,
        idempotent: declaration.idempotent,
        interruptible: declaration.interruptible,
        timeoutSeconds: declaration.timeoutSeconds,
        deadline: call.deadline.toISOString(),
        path: call.callbackPath,
      };
      const ask = () => machines.ask(message, call.signal);
      return obey(await (call.timed ? call.timed(`machine ${declaration.name}`, ask) : ask()), call);
    };
    const { verified, ...declared } = declaration;
    return {
      ...declared,
      title: declaration.name.replaceAll("_", " "),
      run: part("run"),
      ...(verified && { verify: part("verify") }),
      async abort(call) {
        await part("abort")(call);
      },
    };
  }

  const power = async (call, what) => {
    const { failure, state } = await machines.ask(
      { kind: "power", node: call.node.name, what, attemptKey: call.attemptKey ?? null },
      call.signal,
    );
    if (failure) throw new MachineError(failure, true);
    return state;
  };

  const clean = { phase: "clean", timeoutSeconds: 20, idempotent: true };
  const deploy = { phase: "deploy", timeoutSeconds: 20, idempotent: true };
  const undeploy = { phase: "undeploy", timeoutSeconds: 20, idempotent: true, interruptible: "ALWAYS", touches: [] };
  const retries = { times: 6, backoffSeconds: 0.5 };

  return {
    contract: 2,
    name: "chaos",
    version: "0.1.0",
    description: "Machines of the chaos arena.",
    settings,
    variables: z.looseObject({}),
    power: {
      read: (call) => power(call, "read"),
      set: (call, action) => power(call, `set ${action}`),
      setBootDevice: (call, device) => power(call, `boot ${device}`),
    },
    inspect: {
      supportsAbort: true,
      withoutReboot: true,
      steps: [
        step({
          name: "collect",
          phase: "inspect",
          priority: 10,
          timeoutSeconds: 20,
          idempotent: true,
          interruptible: "ALWAYS",
          retries,
          touches: [],
        }),
      ],
    },
    clean: {
      supportsAbort: true,
      steps: [
        step({ ...clean, name: "erase_metadata", priority: 20, interruptible: "AT_BOUNDARY", retries }),
        step({ ...clean, name: "erase_disks", priority: 10, interruptible: "ALWAYS", retries }),
        step({
          ...clean,
          name: "flash",
          priority: 0,
          interruptible: "NEVER",
          idempotent: false,
          verified: true,
          touches: ["FIRMWARE"],
        }),
        step({
          ...clean,
          name: "burn_in",
          priority: 0,
          interruptible: "ALWAYS",
          timeoutSeconds: 5,
          retries: { times: 2, backoffSeconds: 0.5 },
          touches: [],
        }),
      ],
    },
    deploy: {
      supportsAbort: true,
      steps: [
        step({ ...deploy, name: "prepare", priority: 50, interruptible: "ALWAYS", touches: ["NETWORK"] }),
        step({
          ...deploy,
          name: "write_image",
          priority: 40,
          interruptible: "ALWAYS",
          reaches: "PROVISIONED",
          verified: true,
          retries,
        }),
        step({ ...deploy, name: "boot", priority: 30, interruptible: "ALWAYS", touches: [], retries }),
        step({ ...deploy, name: "settle", priority: 20, interruptible: "AT_BOUNDARY", touches: [] }),
        step({ ...deploy, name: "enlist", priority: 10, interruptible: "NEVER", touches: [] }),
        step({ ...undeploy, name: "drain", priority: 20 }),
        step({ ...undeploy, name: "remove", priority: 10, retries }),
      ],
    },
    controllerOf: ({ controller }) => controller ?? "",
    async close() {
      machines.close();
    },
  };
}
