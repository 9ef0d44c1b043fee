/**
 * The driver `chaos`: it does nothing on its own. Every call goes over a Unix socket to the machines' server, which is a
 * process apart, decides what happens, and writes it down. So what it saw is the truth, whatever becomes of the process that
 * this driver runs in.
 *
 * CHAOS_SOCKET: the server's socket. CHAOS_REPLICA: what the server calls the process.
 */
import { connect } from "node:net";
import * as z from "zod";

const settings = z
  .strictObject({
    controller: z
      .string()
      .max(64)
      .optional()
      .meta({ description: "What its management controller is reached by; absent: one of its own." }),
    password: z
      .string()
      .min(1)
      .max(64)
      .optional()
      .meta({ writeOnly: true, description: "A secret, to see that it never comes back." }),
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

/** Read at once: who has lost its parent is given another. */
const PARENT = process.ppid;

/** The wire to the machines' server: a line of JSON each way. What was asked when it breaks is refused, as retryable. */
function wire() {
  const waiting = new Map();
  let socket;
  let last = 0;
  const lost = () => {
    socket = undefined;
    for (const { refuse } of waiting.values()) refuse(new MachineError("The machine's wire is cut.", true));
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
        waiting.get(id)?.give(order);
        waiting.delete(id);
      }
    });
    made.on("error", () => {});
    made.on("close", lost);
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
    /** Asks, and gives the order that comes back; tells the server when the signal fires first. */
    ask(message, signal) {
      const id = (last += 1);
      return new Promise((give, refuse) => {
        const cut = () => {
          if (!waiting.delete(id)) return;
          send({ say: "cut", id });
          refuse(new MachineError("The call was cut.", true));
        };
        waiting.set(id, {
          give(order) {
            signal?.removeEventListener("abort", cut);
            give(order);
          },
          refuse,
        });
        send({ ...message, id });
        if (signal?.aborted) cut();
        else signal?.addEventListener("abort", cut, { once: true });
      });
    },
    close: () => socket?.destroy(),
  };
}

const forever = () => new Promise(() => {});

function block(milliseconds) {
  for (const end = performance.now() + milliseconds; performance.now() < end;);
}

/** Does as the machine says. */
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
  const machines = wire();

  function step(declaration) {
    const part = (name) => async (call) => {
      const message = {
        say: "enter",
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
      { say: "power", node: call.node.name, what, attemptKey: call.attemptKey ?? null },
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
    contract: 1,
    name: "chaos",
    version: "0.1.0",
    description: "Machines of the chaos arena.",
    settings,
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
