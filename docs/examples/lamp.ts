/**
 * A small, complete example of a driver, for machines with an HTTP controller; see docs/drivers.md. The controller:
 *
 *     GET  /power              -> { "on": true }
 *     PUT  /power              <- { "on": true }
 *     GET  /about              -> { "model": "…", "cpus": 8 }
 *     PUT  /images/<key>       <- { "image": "…", "reportTo": "http://…/callback/…" }
 *                              -> { "state": "WRITING" | "WRITTEN" | "BROKEN", "percent": 40 }
 *                              starts or finds the job <key>, and from now on reports its end there
 *     DELETE /images/<key>     cancels the job
 *     DELETE /disk             wipes the disk
 */
import * as z from "zod";
import type {
  Call,
  Driver,
  DriverError,
  DriverErrorKind,
  Json,
  PluginHost,
  StepCall,
  StepResult,
} from "../../src/drivers/driver.ts";

const settings = z.strictObject({
  url: z
    .url({ protocol: /^https?$/ })
    .meta({ address: true, bindsSecret: true, description: "Address of the controller, such as http://10.0.0.7." }),
  token: z
    .string()
    .min(8, { abort: true })
    .max(200, { abort: true })
    .meta({ writeOnly: true, description: "Access token of the controller." }),
  serviceUrl: z
    .url({ protocol: /^https?$/ })
    .meta({ description: "Address at which the machine reaches this service, for its callbacks." }),
});

type Settings = z.infer<typeof settings>;

/** Its kind points the operator to the cause: the login, the network, the time, or the machine. */
class LampError extends Error implements DriverError {
  override readonly name = "DriverError";
  readonly kind: DriverErrorKind;
  readonly retryable: boolean;
  constructor(
    message: string,
    kind: DriverErrorKind,
    options: { readonly retryable: boolean; readonly cause?: unknown },
  ) {
    super(message, { cause: options.cause });
    this.kind = kind;
    this.retryable = options.retryable;
  }
}

/** One request to the controller, canceled by the call's signal after an abort or at the deadline. */
async function ask(call: Call<Settings>, method: string, path: string, body?: Json): Promise<Record<string, Json>> {
  const { url, token } = call.settings;
  let response: Response;
  try {
    response = await fetch(new URL(path, url), {
      method,
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      signal: call.signal,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
  } catch (cause) {
    if (call.signal.aborted) throw cause;
    throw new LampError(
      `The controller of ${call.node.name} at ${url} does not answer; check its power and its cable.`,
      "UNREACHABLE",
      { retryable: true, cause },
    );
  }
  // A response that is not read keeps its connection open, and blocks this worker from its next call.
  if (!response.ok) await response.body?.cancel();
  if (response.status === 401)
    throw new LampError(
      `The controller of ${call.node.name} refuses the token; set it with updateNodes.`,
      "AUTHENTICATION",
      { retryable: false },
    );
  if (!response.ok)
    throw new LampError(
      `The controller of ${call.node.name} answers ${method} ${path} with ${response.status}.`,
      "REFUSED",
      { retryable: response.status >= 500 },
    );
  return (await response.json()) as Record<string, Json>;
}

/**
 * Entered to start the job, after the machine's callback, and after each minute without one. The key is the same in
 * every entry of an attempt: entered again after a crash, the step finds the job that it started.
 */
async function writeImage(call: StepCall<Settings>): Promise<StepResult> {
  const image = call.variables["image"] ?? "default";
  // Each entry has its own callback path, so send the latest. A callback is a hint: the controller reports the state.
  const reportTo = new URL(call.callbackPath, call.settings.serviceUrl).href;
  const { state, percent } = await ask(call, "PUT", `images/${encodeURIComponent(call.attemptKey)}`, {
    image,
    reportTo,
  });
  switch (state) {
    case "WRITTEN":
      return { kind: "done", output: { image } };
    case "BROKEN":
      return { kind: "failed", reason: "the controller could not write the image", retryable: true };
    default:
      call.progress(Number(percent), "writing");
      return { kind: "wait", callback: true, seconds: 60, memo: { percent: percent ?? 0 } };
  }
}

export default function createLamp(_host: PluginHost): Driver<Settings> {
  return {
    contract: 2,
    name: "lamp",
    version: "1.0.0",
    description: "Machines with an HTTP controller; the example of docs/drivers.md.",
    settings,
    power: {
      async read(call) {
        return (await ask(call, "GET", "power"))["on"] === true ? "ON" : "OFF";
      },
      async set(call, action) {
        if (action === "REBOOT") await ask(call, "PUT", "power", { on: false });
        await ask(call, "PUT", "power", { on: action === "ON" || action === "REBOOT" });
      },
    },
    inspect: {
      supportsAbort: true,
      withoutReboot: true,
      steps: [
        {
          name: "read_about",
          title: "Read the model and the number of CPUs",
          phase: "inspect",
          priority: 10,
          interruptible: "ALWAYS",
          timeoutSeconds: 60,
          idempotent: true,
          run: async (call) => ({ kind: "done", output: await ask(call, "GET", "about") }),
        },
      ],
    },
    clean: {
      supportsAbort: true,
      steps: [
        {
          name: "wipe_disk",
          title: "Wipe the disk",
          phase: "clean",
          priority: 10,
          interruptible: "AT_BOUNDARY",
          timeoutSeconds: 600,
          idempotent: true,
          retries: { times: 2, backoffSeconds: 5 },
          erases: true,
          async run(call) {
            await ask(call, "DELETE", "disk");
            // Every disk of the machine; these machines have one, and report nothing that identifies it.
            return { kind: "done", output: { disks: [{ name: "disk", erased: true }] } };
          },
        },
      ],
    },
    deploy: {
      supportsAbort: true,
      steps: [
        {
          name: "write_image",
          title: "Write the operating system to disk",
          phase: "deploy",
          priority: 20,
          interruptible: "ALWAYS",
          timeoutSeconds: 1800,
          idempotent: true,
          retries: { times: 1, backoffSeconds: 10 },
          reaches: "PROVISIONED",
          run: writeImage,
          async abort(call) {
            await ask(call, "DELETE", `images/${encodeURIComponent(call.attemptKey)}`);
          },
        },
        {
          name: "boot_system",
          title: "Start the installed system",
          phase: "deploy",
          priority: 10,
          interruptible: "ALWAYS",
          timeoutSeconds: 120,
          idempotent: true,
          async run(call) {
            // The node may take its power from another driver.
            await call.power.set("ON");
            return { kind: "done" };
          },
        },
        {
          name: "remove_system",
          title: "Switch the machine off",
          phase: "undeploy",
          priority: 10,
          interruptible: "ALWAYS",
          timeoutSeconds: 60,
          idempotent: true,
          async run(call) {
            await call.power.set("OFF");
            return { kind: "done" };
          },
        },
      ],
    },
  };
}
