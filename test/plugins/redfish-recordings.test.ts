/**
 * Reads of the driver `redfish` at recordings of real BMCs, which are beside the repository where they are available.
 * The recordings are subsets: what they link to and lack has to be reported.
 */
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import createRedfish from "../../plugins/redfish/index.ts";
import { redfishSettings } from "../../plugins/redfish/settings.ts";
import { driverMemory } from "../support/redfish.ts";
import { noAgent } from "../../src/drivers/no-agent.ts";

const FOLDER = fileURLToPath(new URL("../../../shared/fixtures/redfish/", import.meta.url));

const RECORDINGS = [
  { tree: "mockups/dell-poweredge-r750-idrac9", manufacturer: "Dell Inc.", processors: 2, power: "ON" },
  { tree: "mockups/hpe-dl385-gen10plus-v2-ilo5", manufacturer: "HPE", processors: 2, power: "ON" },
  { tree: "mockups/supermicro-sys-821ge-tnhr", manufacturer: "Supermicro", processors: 2, power: "ON" },
  { tree: "dmtf/public-rackmount1", manufacturer: "Contoso", processors: 1, power: "ON" },
] as const;

const isThere = existsSync(FOLDER);

test.runIf(!isThere)("recordings of real BMCs: skipped, because there is no folder ../shared/fixtures/redfish", () => {
  expect(isThere).toBe(false);
});

describe.runIf(isThere).each(RECORDINGS)("recording $tree", ({ tree, manufacturer, processors, power }) => {
  test(`${tree}: every read succeeds, and what could not be read is reported [R-405]`, async () => {
    await using recording = await serveRecording(`${FOLDER}${tree}`);
    const driver = await createRedfish({ log: () => {}, memory: driverMemory() });
    const call = {
      ...recording.call(),
      node: { id: "1", name: "recording", powerState: "UNKNOWN" as const, labels: {} },
    };
    expect(await driver.power.read(call)).toBe(power);
    await expect(driver.power.readBootDevice?.(call)).resolves.toBeDefined();
    const step = driver.inspect?.steps.find(({ name }) => name === "read_inventory");
    const result = await step?.run({ ...call, ...STEP });
    if (result?.kind !== "done") throw new Error(JSON.stringify(result));
    const inventory = result.output as Readonly<Record<string, unknown>>;
    expect(inventory).toMatchObject({ manufacturer, model: expect.any(String), serial: expect.any(String) });
    expect(inventory["processors"]).toHaveLength(processors);
    expect(inventory).toHaveProperty("memoryBytes");
    // Every resource of an inspection that the recording lacks, and nothing else.
    const unread = (inventory["unread"] ?? []) as readonly { readonly path: string }[];
    expect(recording.lacking()).toEqual(expect.arrayContaining(unread.map(({ path }) => path)));
    await expect(driver.abilities?.(call)).resolves.toContainEqual({ name: "power.ON", works: true });
    for (const read of [driver.firmware?.read, driver.bios?.read]) {
      const outcome = await read?.(call).catch((error: { kind: string; message: string }) => error);
      // A recording without the resource is a machine without the ability.
      if (outcome instanceof Error) expect(outcome).toMatchObject({ kind: "UNSUPPORTED" });
    }
  });
});

const STEP = {
  args: {},
  memo: null,
  callback: null,
  callbackPath: "/callback/test",
  attemptKey: "test",
  variables: {},
  progress: () => {},
  power: { read: unused, set: unused, setBootDevice: unused },
  media: { offered: false, insert: unused, eject: unused },
  agent: noAgent("there is no agent"),
  image: null,
  userData: null,
};

async function unused(): Promise<never> {
  throw new Error("A read does not change the machine.");
}

/** Serves the files of a recording as the BMC did: `/redfish/v1/X` is `X/index.json`. */
async function serveRecording(folder: string) {
  const lacking = new Set<string>();
  const server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url ?? "/", "http://bmc").pathname);
    const plain = path.replace(/\/+$/, "");
    const file = [plain, plain.replace(/^\/redfish\/v1/, "")]
      .map((one) => `${folder}${one}/index.json`)
      .find((one) => existsSync(one));
    if (request.method === "POST" && plain.endsWith("/Sessions"))
      return response.writeHead(201, { "x-auth-token": "token", location: `${plain}/1` }).end("{}");
    if (file === undefined) lacking.add(path);
    const body = file === undefined ? "{}" : readFileSync(file);
    return response.writeHead(file === undefined ? 404 : 200, { "content-type": "application/json" }).end(body);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  const settings = redfishSettings.parse({
    address: "127.0.0.1",
    port,
    scheme: "HTTP",
    username: "reader",
    password: "recorded",
  });
  return {
    lacking: () => [...lacking],
    call: () => ({
      settings,
      signal: new AbortController().signal,
      deadline: new Date(Date.now() + 30_000),
      log: () => {},
      timed: <Result>(_name: string, work: () => Promise<Result>) => work(),
    }),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
