/**
 * The driver `redfish` at recordings of real BMCs, which are beside the repository where they are available. They are
 * replayed by their own rules. The recordings are subsets: what they link to and lack has to be reported.
 */
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import createRedfish from "../../plugins/redfish/index.ts";
import { redfishSettings } from "../../plugins/redfish/settings.ts";
import { certifyDriver } from "../../packages/driver/src/certify.ts";
import { driverMemory } from "../support/redfish.ts";
import { LOGIN, replay } from "../support/redfish-recording.ts";
import type { Replay } from "../support/redfish-recording.ts";
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
    await using recording = await replay(`${FOLDER}${tree}`);
    const driver = await createRedfish({ log: () => {}, memory: driverMemory() });
    const call = {
      ...callOf(recording),
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

  test(`${tree}: the driver passes the conformance suite by the rules of the recording [R-806]`, async () => {
    await using recording = await replay(`${FOLDER}${tree}`);
    const login = { ...LOGIN, port: recording.port, scheme: "HTTP" };
    const refused = { ...login, password: "wrong-canary-password" };
    const certificate = await certifyDriver({
      factory: createRedfish,
      settings: { ...login, address: "127.0.0.1", nextPassword: "another-password" },
      live: true,
      refused: { ...refused, address: "127.0.0.1" },
      discovery: { address: "127.0.0.1", settings: login, refused },
    });
    // Without its tasks or drives a recording does not show that the machine is at rest.
    const isOfSubset = (problem: string) => problem.startsWith("`power.readActivity` fails");
    const problems = certificate.checks.flatMap(({ problem }) => problem ?? []);
    expect(problems.filter((problem) => !isOfSubset(problem))).toEqual([]);
    // The driver has asked for nothing that the machine says that it does not take.
    expect(recording.refused()).toEqual([]);
  }, 120_000);
});

test.runIf(isThere)("replay of a recording refuses what the recording does not take [R-806]", async () => {
  await using recording = await replay(`${FOLDER}mockups/supermicro-sys-821ge-tnhr`);
  const send = async (method: string, path: string, body: unknown, token = "") => {
    const headers = { "content-type": "application/json", "x-auth-token": token };
    const url = `http://127.0.0.1:${recording.port}/redfish/v1${path}`;
    return fetch(url, { method, headers, body: JSON.stringify(body) });
  };
  const { username: UserName, password: Password } = LOGIN;
  const session = await send("POST", "/SessionService/Sessions", { UserName, Password });
  const token = session.headers.get("x-auth-token") ?? "";
  const boot = (change: object) => send("PATCH", "/Systems/1", { Boot: change }, token);
  const reset = (body: object) => send("POST", "/Systems/1/Actions/ComputerSystem.Reset", body, token);
  const statuses = [
    await send("PATCH", "/Systems/1", { Boot: {} }),
    await boot({ BootSourceOverrideTarget: "Pxe" }),
    await boot({ BootSourceOverrideTarget: "Floppy2" }),
    await boot({ BootSourceOverrideMoon: "Full" }),
    await reset({ ResetType: "Sometimes" }),
    await reset({ ResetType: "ForceOff" }),
  ].map(({ status }) => status);
  expect(statuses).toEqual([401, 204, 400, 400, 400, 204]);
  expect(recording.resource("/redfish/v1/Systems/1")).toMatchObject({ PowerState: "Off" });
  expect(recording.refused()).toHaveLength(3);
});

function callOf({ port }: Replay) {
  return {
    settings: redfishSettings.parse({ ...LOGIN, address: "127.0.0.1", port, scheme: "HTTP" }),
    signal: new AbortController().signal,
    deadline: new Date(Date.now() + 30_000),
    log: () => {},
    timed: <Result>(_name: string, work: () => Promise<Result>) => work(),
  };
}

const STEP = {
  args: {},
  memo: null,
  callback: null,
  callbackPath: "/callback/test",
  attemptKey: "test",
  fence: 1,
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
