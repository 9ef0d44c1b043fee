/** Driver of machines with an HTTP controller: GET and PUT /power with {"on": true}, GET /about. */
import type { Call, Driver, DriverError, DriverErrorKind, Json, PowerAction } from "ostler-driver";
import * as z from "zod";

const settings = z.strictObject({
  address: z
    .string()
    .min(1)
    .meta({ address: true, bindsSecret: true, description: "Host name or IP address of the controller." }),
  port: z.int().min(1).max(65535).default(80).meta({ bindsSecret: true, description: "TCP port of the controller." }),
  token: z.string().min(1).meta({ writeOnly: true, description: "Token that the controller accepts." }),
});

type Settings = z.output<typeof settings>;

/** Thrown by functions of this driver. Ostler recognizes it by its name. */
class MachineError extends Error implements DriverError {
  override readonly name = "DriverError";
  readonly kind: DriverErrorKind;
  readonly retryable: boolean;

  constructor(kind: DriverErrorKind, message: string, retryable = false) {
    super(message);
    this.kind = kind;
    this.retryable = retryable;
  }
}

const ANSWER_LENGTH_MAX = 1_000_000;

/** Sends one request to the controller. Errors name the machine and never contain the token. */
async function send(call: Call<Settings>, method: string, path: string, body?: Json): Promise<Record<string, Json>> {
  const { address, port, token } = call.settings;
  const where = `The controller at ${address}:${port}`;
  return call.timed(`machine ${method.toLowerCase()} ${path}`, async () => {
    let response: Response;
    let text = "";
    try {
      response = await fetch(`http://${address}:${port}${path}`, {
        method,
        redirect: "error",
        signal: call.signal,
        headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      const decoder = new TextDecoder();
      for await (const part of response.body ?? []) {
        text += decoder.decode(part, { stream: true });
        if (text.length > ANSWER_LENGTH_MAX) throw new MachineError("OTHER", `${where} sends too large an answer.`);
      }
    } catch (error) {
      if (error instanceof MachineError || call.signal.aborted) throw error;
      throw new MachineError("UNREACHABLE", `${where} does not answer; check its address and power.`, true);
    }
    if (response.status === 401) throw new MachineError("AUTHENTICATION", `${where} refuses the token; check it.`);
    if (!response.ok) throw new MachineError("REFUSED", `${where} answers ${response.status}.`, response.status >= 500);
    try {
      return text === "" ? {} : (JSON.parse(text) as Record<string, Json>);
    } catch {
      throw new MachineError("OTHER", `${where} sends an answer that is not JSON.`, true);
    }
  });
}

async function setPower(call: Call<Settings>, action: PowerAction): Promise<void> {
  if (action !== "ON") await send(call, "PUT", "/power", { on: false });
  if (action === "ON" || action === "REBOOT") await send(call, "PUT", "/power", { on: true });
}

export default function createDriver(): Driver<Settings> {
  return {
    contract: 2,
    name: "DRIVER_NAME",
    version: "0.1.0",
    description: "Machines with an HTTP controller.",
    settings,
    power: {
      read: async (call) => ((await send(call, "GET", "/power"))["on"] === true ? "ON" : "OFF"),
      set: setPower,
    },
    inspect: {
      supportsAbort: true,
      withoutReboot: true,
      steps: [
        {
          name: "read_about",
          title: "Read the model and the serial number",
          phase: "inspect",
          priority: 10,
          interruptible: "ALWAYS",
          timeoutSeconds: 60,
          idempotent: true,
          run: async (call) => ({ kind: "done", output: await send(call, "GET", "/about") }),
        },
      ],
    },
    controllerOf: ({ address, port }) => `${address.toLowerCase()}:${port}`,
  };
}
