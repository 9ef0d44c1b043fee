/** A simulated BMC, and calls of the driver `redfish` to it, made as the engine makes them. */
import { createServer } from "node:http";
import factory from "../../plugins/redfish/index.ts";
import { redfishSettings } from "../../plugins/redfish/settings.ts";
import type { RedfishSettings } from "../../plugins/redfish/settings.ts";
import type {
  BootOptions,
  Driver,
  DriverMemory,
  Json,
  NodeMedia,
  NodePower,
  StepCall,
  StepResult,
} from "../../src/drivers/driver.ts";
import { startBmc } from "../../packages/bmc-simulator/src/index.ts";
import type { BmcSettings, SimulatedBmc } from "../../packages/bmc-simulator/src/index.ts";
import { noAgent } from "../../src/drivers/no-agent.ts";

/** Milliseconds, so that tests are quick. */
const TIMING = { powerOnMs: 20, powerOffMs: 20, shutdownMs: 30, bootMs: 20, taskMs: 50, restartMs: 200 };

export interface RedfishLab extends AsyncDisposable {
  readonly bmc: SimulatedBmc;
  readonly driver: Driver<RedfishSettings>;
  /** Settings of the node as an operator writes them. */
  readonly settings: Readonly<Record<string, Json>>;
  /** Lines that the driver has logged. */
  readonly logged: string[];
  /** A call with other settings, signal or deadline. */
  call(changes?: CallChanges): StepCall<RedfishSettings>;
  /** Runs a step to its end; waits are 20 ms. */
  step(name: string, args?: Readonly<Record<string, Json>>, changes?: CallChanges): Promise<StepResult>;
  /** Enters a step once. */
  enter(name: string, args?: Readonly<Record<string, Json>>, changes?: CallChanges): Promise<StepResult>;
}

export interface CallChanges {
  readonly settings?: Readonly<Record<string, Json | undefined>>;
  readonly signal?: AbortSignal;
  readonly seconds?: number;
  readonly memo?: Json;
  readonly diskless?: true;
}

export async function redfishLab(given: BmcSettings = {}, memory?: DriverMemory): Promise<RedfishLab> {
  const bmc = await startBmc({ ...given, timing: { ...TIMING, ...given.timing } });
  const driver = await factory({ log: () => {}, memory: memory ?? driverMemory() });
  const { hostname, port, protocol } = new URL(bmc.url);
  const settings: Readonly<Record<string, Json>> = {
    address: hostname,
    port: Number(port),
    scheme: protocol === "https:" ? "HTTPS" : "HTTP",
    username: bmc.credentials.userName,
    password: bmc.credentials.password,
    ...(bmc.tls && { certificateAuthority: bmc.tls.ca }),
  };
  const logged: string[] = [];
  const call = (changes: CallChanges = {}): StepCall<RedfishSettings> => {
    const base = {
      node: {
        id: "00000000-0000-4000-8000-000000000001",
        name: "n1",
        powerState: "UNKNOWN" as const,
        labels: {},
        ...(changes.diskless && { diskless: changes.diskless }),
      },
      settings: redfishSettings.parse({ ...settings, ...changes.settings }),
      signal: changes.signal ?? new AbortController().signal,
      deadline: new Date(Date.now() + (changes.seconds ?? 20) * 1000),
      log: (line: string) => logged.push(line),
      timed: <Result>(_name: string, work: () => Promise<Result>) => work(),
      args: {},
      memo: changes.memo ?? null,
      callback: null,
      callbackPath: "/callback/test",
      attemptKey: "test",
      fence: 1,
      variables: {},
      agent: noAgent("there is no agent"),
      image: null,
      userData: null,
      progress: () => {},
    };
    const power: NodePower = {
      read: () => driver.power.read({ ...base }),
      set: async (action) => driver.power.set?.({ ...base }, action),
      setBootDevice: async (device, options) =>
        driver.power.setBootDevice?.({ ...base }, device, { persistent: false, ...options } satisfies BootOptions),
    };
    const media: NodeMedia = {
      offered: true,
      insert: async (url, options) => driver.media?.insert({ ...base }, url, { writeProtected: true, ...options }),
      eject: async () => driver.media?.eject({ ...base }),
    };
    return { ...base, power, media };
  };
  const enter: RedfishLab["enter"] = async (name, args = {}, changes = {}) => {
    const step = [...(driver.clean?.steps ?? []), ...(driver.inspect?.steps ?? [])].find((one) => one.name === name);
    if (!step) throw new Error(`There is no step ${name}.`);
    const checked = await step.args?.["~standard"].validate(args);
    if (checked?.issues) throw new Error(checked.issues.map(({ message }) => message).join("; "));
    return step.run({ ...call(changes), args: checked?.value ?? {} });
  };
  const step: RedfishLab["step"] = async (name, args, changes) => {
    let memo: Json = null;
    for (let entries = 0; entries < 400; entries += 1) {
      const result = await enter(name, args, { ...changes, memo });
      if (result.kind !== "wait") return result;
      // As the engine stores it.
      memo = JSON.parse(JSON.stringify(result.memo)) as Json;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    throw new Error(`Step ${name} does not end.`);
  };
  return {
    bmc,
    driver,
    settings,
    logged,
    call,
    step,
    enter,
    async [Symbol.asyncDispose]() {
      await driver.close?.();
      await bmc.close();
    },
  };
}

export function driverMemory(): DriverMemory {
  const values = new Map<string, Json>();
  return {
    get: async (key) => values.get(key),
    async set(key, value) {
      if (value === undefined) values.delete(key);
      else values.set(key, value);
    },
  };
}

export interface Files extends AsyncDisposable {
  readonly url: string;
}

/** Serves firmware images for the simulated BMC: `/BIOS/2.0.0` is the image of that version. */
export async function serveImages(): Promise<Files> {
  const server = createServer((request, response) => {
    const [, component, version] = (request.url ?? "").split("/");
    const image = Buffer.from(`${JSON.stringify({ component, version })}\nimage`);
    response.writeHead(component === "missing" ? 404 : 200, { "content-length": image.length }).end(image);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  return {
    url: `http://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
