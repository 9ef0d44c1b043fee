/** The simulated Redfish BMC, as a client sees it. Other clients judge it with `npm run tool -- bmc-check`. */
import { readFileSync } from "node:fs";
import { connect } from "node:tls";
import { createServer } from "node:http";
import { once } from "node:events";
import { describe, expect, onTestFinished, test } from "vitest";
import { PRESET_NAMES, QUIRKS, startBmc, startFleet } from "../../packages/bmc-simulator/src/index.ts";
import type { BmcSettings, SimulatedBmc } from "../../packages/bmc-simulator/src/index.ts";
import { eventually } from "../support/eventually.ts";

const ROOT = "/redfish/v1";
const TIMING = { powerOnMs: 20, powerOffMs: 20, shutdownMs: 20, bootMs: 20, taskMs: 50, restartMs: 50 };

test("README of the simulated BMC describes every quirk", () => {
  const readme = readFileSync(new URL("../../packages/bmc-simulator/README.md", import.meta.url), "utf8");
  const [, table = ""] = readme.split("| quirk | behaves as |");
  const described = [...(table.split("\n\n")[0] ?? "").matchAll(/^\| `([a-z-]+)` \| \S/gm)].map(([, name]) => name);
  expect(new Set(described)).toEqual(new Set(Object.keys(QUIRKS)));
});

describe("simulated BMC", () => {
  test.each(PRESET_NAMES)("every link of a %s BMC leads to a resource [R-350]", async (traits) => {
    const { bmc, headers } = await aBmc({ traits });
    const seen = new Set<string>();
    const queue = [ROOT];
    const broken: string[] = [];
    for (let path = queue.pop(); path !== undefined; path = queue.pop()) {
      if (seen.has(path)) continue;
      seen.add(path);
      const response = await fetch(new URL(path, bmc.url), { headers });
      if (response.ok) queue.push(...linksIn(await response.json()));
      else broken.push(`${response.status} ${path}`);
    }
    expect(broken).toEqual([]);
    expect(seen.size).toBeGreaterThan(70);
  });

  test("links are spelled as the traits say, and work as they are given", async () => {
    const lower = await aBmc({ traits: "ilo-like" });
    const bios = await lower.ask("GET", `${ROOT}/systems/1/bios`);
    const settings = `${ROOT}/systems/1/bios/settings/`;
    expect(bios.body["@Redfish.Settings"]).toMatchObject({ SettingsObject: { "@odata.id": settings } });
    expect((await lower.ask("PATCH", settings, { Attributes: { LogicalProc: "Disabled" } })).status).toBe(200);
    const absolute = await aBmc({ traits: "minimal" });
    expect((await absolute.ask("GET", ROOT)).body["Systems"]).toEqual({
      "@odata.id": `${absolute.bmc.url}${ROOT}/systems/`,
    });
  });

  test("only the service root is readable without a login", async () => {
    const { bmc } = await aBmc();
    expect((await fetch(bmc.url + ROOT)).status).toBe(200);
    expect((await fetch(`${bmc.url}${ROOT}/Systems`)).status).toBe(401);
  });

  test("a session ends by logout and by idle time, and the limit refuses one more [R-354]", async () => {
    const { bmc, logIn } = await aBmc({ traits: { login: { ...LOGIN, sessionsMax: 2, timeoutSeconds: 1 } } });
    const first = await logIn();
    expect((await logIn()).status).toBe(503);
    const location = first.headers.get("Location") ?? "";
    const headers = { "X-Auth-Token": first.headers.get("X-Auth-Token") ?? "" };
    expect((await fetch(bmc.url + location, { method: "DELETE", headers })).status).toBe(204);
    expect((await fetch(`${bmc.url}${ROOT}/Systems`, { headers })).status).toBe(401);
    await eventually("idle sessions to expire", () => bmc.sessions() === 0);
  });

  test("power passes through PoweringOn, boots once from the override, and refuses what is illegal [R-351]", async () => {
    const { bmc, ask } = await aBmc({ timing: { ...TIMING, powerOnMs: 200 } });
    const reset = (type: string) => ask("POST", `${SYSTEM}/Actions/ComputerSystem.Reset`, { ResetType: type });
    await ask("PATCH", SYSTEM, { Boot: { BootSourceOverrideTarget: "Pxe", BootSourceOverrideEnabled: "Once" } });
    expect((await reset("On")).status).toBe(204);
    expect((await ask("GET", SYSTEM)).body).toMatchObject({ PowerState: "PoweringOn" });
    await eventually("the system to boot", () => bmc.state.bootProgress === "OSRunning");
    expect(bmc.state.bootedFrom).toBe("Pxe");
    expect((await ask("GET", SYSTEM)).body).toMatchObject({
      PowerState: "On",
      Boot: { BootSourceOverrideEnabled: "Disabled" },
    });
    expect((await reset("On")).status).toBe(409);
    expect((await reset("Sideways")).status).toBe(400);
    expect((await reset("GracefulShutdown")).status).toBe(204);
    await eventually("the system to go off", () => bmc.state.power === "Off");
    expect((await reset("ForceRestart")).status).toBe(409);
  });

  test("BIOS settings are checked against the registry and applied by the next reset [R-352]", async () => {
    const { bmc, ask } = await aBmc();
    const set = (attributes: object) => ask("PATCH", `${SYSTEM}/Bios/Settings`, { Attributes: attributes });
    expect((await set({ LogicalProc: "Sideways" })).status).toBe(400);
    expect((await set({ ProcTurboMode: "Disabled" })).status).toBe(400);
    expect((await set({ SystemCpldVersion: "2" })).status).toBe(400);
    expect((await set({ SysProfile: "Custom", ProcTurboMode: "Disabled", SetupPassword: "hunter2" })).status).toBe(204);
    const current = () => ask("GET", `${SYSTEM}/Bios`);
    expect((await current()).body).toMatchObject({ Attributes: { ProcTurboMode: "Enabled" } });
    await ask("POST", `${SYSTEM}/Actions/ComputerSystem.Reset`, { ResetType: "On" });
    await eventually("the system to be on", () => bmc.state.power === "On");
    expect((await current()).body).toMatchObject({ Attributes: { ProcTurboMode: "Disabled", SetupPassword: null } });
  });

  test("virtual media is inserted once and ejected", async () => {
    const { bmc, ask } = await aBmc();
    const slot = `${ROOT}/Managers/bmc/VirtualMedia/Cd`;
    const insert = () => ask("POST", `${slot}/Actions/VirtualMedia.InsertMedia`, { Image: "http://127.0.0.1/a.iso" });
    expect((await insert()).status).toBe(204);
    expect((await insert()).status).toBe(409);
    expect((await ask("GET", slot)).body).toMatchObject({ Inserted: true, Image: "http://127.0.0.1/a.iso" });
    await ask("POST", `${slot}/Actions/VirtualMedia.EjectMedia`, {});
    expect(bmc.state.media).toEqual({});
  });

  test("a firmware update fetches the image and runs a task; the BIOS changes with the next reset [R-353]", async () => {
    const { bmc, ask } = await aBmc();
    const url = await served('{"component":"BIOS","version":"9.9.9"}\nrest');
    await ask("POST", `${SYSTEM}/Actions/ComputerSystem.Reset`, { ResetType: "On" });
    await eventually("the system to be on", () => bmc.state.power === "On");
    const start = await ask("POST", `${ROOT}/UpdateService/Actions/UpdateService.SimpleUpdate`, { ImageURI: url });
    expect(start.status).toBe(202);
    const monitor = start.headers.get("Location") ?? "";
    await eventually("the task to end", async () => (await ask("GET", monitor)).status === 200);
    const version = async () => (await ask("GET", `${ROOT}/UpdateService/FirmwareInventory/BIOS`)).body["Version"];
    expect(await version()).toBe("1.8.2");
    await ask("POST", `${SYSTEM}/Actions/ComputerSystem.Reset`, { ResetType: "ForceRestart" });
    await eventually("the new BIOS to run", async () => (await version()) === "9.9.9");
  });

  test("an image that cannot be read fails the task with the reason", async () => {
    const { ask } = await aBmc();
    const url = await served("not firmware");
    const start = await ask("POST", `${ROOT}/UpdateService/Actions/UpdateService.SimpleUpdate`, { ImageURI: url });
    const task = await eventually("the task to fail", async () => {
      const { body } = await ask("GET", String(start.body["@odata.id"]));
      return body["TaskState"] === "Exception" && body;
    });
    expect(JSON.stringify(task["Messages"])).toContain("not a firmware image");
  });

  test("a change with an old ETag is refused with 412, and without one where the BMC requires it with 428", async () => {
    const { bmc, ask, headers } = await aBmc({ traits: "strict" });
    const path = `${bmc.url}${SYSTEM}`;
    const etag = (await fetch(path, { headers })).headers.get("ETag") ?? "";
    const patch = (match: Record<string, string>) =>
      fetch(path, { method: "PATCH", headers: { ...headers, ...match }, body: '{"AssetTag":"a"}' });
    expect((await ask("PATCH", SYSTEM, { AssetTag: "a" })).status).toBe(428);
    expect((await patch({ "If-Match": etag })).status).toBe(204);
    expect((await patch({ "If-Match": etag })).status).toBe(412);
  });

  test("a new password works at once, and the old one no longer", async () => {
    const { bmc, ask, logIn } = await aBmc();
    const account = `${ROOT}/AccountService/Accounts/2`;
    expect((await ask("PATCH", account, { Password: "short" })).status).toBe(400);
    expect((await ask("PATCH", account, { Password: "long-enough-1" })).status).toBe(204);
    expect((await logIn()).status).toBe(401);
    expect(bmc.state.account.password).toBe("long-enough-1");
    expect(JSON.stringify((await ask("GET", account)).body)).not.toContain("long-enough-1");
  });

  test("collections have pages, and $expand fills in members", async () => {
    const { ask } = await aBmc({ traits: { pageSize: 3 } });
    const page = (await ask("GET", `${SYSTEM}/Memory?$expand=.`)).body;
    expect(page).toMatchObject({ "Members@odata.count": 16, "Members@odata.nextLink": `${SYSTEM}/Memory?$skip=3` });
    expect(page["Members"]).toHaveLength(3);
    expect(page["Members"]).toContainEqual(expect.objectContaining({ Id: "DIMM.1", CapacityMiB: 32768 }));
  });

  test("a change of power is an event of the stream and of a subscriber", async () => {
    const { bmc, ask, headers } = await aBmc();
    const received: string[] = [];
    const destination = await served("", (body) => received.push(body));
    await ask("POST", `${ROOT}/EventService/Subscriptions`, { Destination: destination, Context: "mine" });
    const end = new AbortController();
    const stream = await fetch(`${bmc.url}${ROOT}/EventService/SSE`, { headers, signal: end.signal });
    const reader = stream.body?.pipeThrough(new TextDecoderStream()).getReader();
    await reader?.read();
    await ask("POST", `${SYSTEM}/Actions/ComputerSystem.Reset`, { ResetType: "On" });
    expect((await reader?.read())?.value).toContain('"OriginOfCondition":{"@odata.id":"/redfish/v1/Systems/1"}');
    await eventually("the subscriber to receive it", () => received.some((text) => text.includes('"Context":"mine"')));
    end.abort();
  });
});

describe("faults of a simulated BMC", () => {
  test("a lost session answers 401 once, and the next login works", async () => {
    const { bmc, ask, logIn } = await aBmc();
    bmc.faults.add({ kind: "lost-session", times: 1 });
    expect((await ask("GET", SYSTEM)).status).toBe(401);
    expect((await ask("GET", SYSTEM)).status).toBe(401);
    expect((await logIn()).status).toBe(201);
  });

  test.each(["silent", "half", "deaf"] as const)("a %s BMC leaves the client waiting", async (kind) => {
    const bmc = await startBmc({ faults: [{ kind }] });
    onTestFinished(() => bmc.close());
    const request = fetch(bmc.url + ROOT, { signal: AbortSignal.timeout(300) }).then((response) => response.text());
    await expect(request).rejects.toThrow("aborted due to timeout");
  });

  test("other faults answer as named, and only on their path [R-355]", async () => {
    const { bmc, headers } = await aBmc();
    const get = (path = SYSTEM) => fetch(bmc.url + path, { headers, redirect: "manual" });
    bmc.faults.set([{ kind: "unavailable", retryAfterSeconds: 7, path: "/Systems" }]);
    expect((await get()).headers.get("Retry-After")).toBe("7");
    expect((await get(`${ROOT}/Chassis`)).status).toBe(200);
    bmc.faults.set([{ kind: "redirect", to: "http://127.0.0.9:1" }]);
    expect((await get()).headers.get("Location")).toBe(`http://127.0.0.9:1${SYSTEM}`);
    bmc.faults.set([{ kind: "malformed" }]);
    await expect((await get()).json()).rejects.toThrow("JSON");
    bmc.faults.set([{ kind: "huge", bytes: 3_000_000 }]);
    expect((await (await get()).text()).length).toBe(3_000_000);
    bmc.faults.set([{ kind: "reset" }]);
    await expect(get()).rejects.toThrow("fetch failed");
    bmc.faults.clear();
    expect((await get()).status).toBe(200);
  });

  test("a stuck task stays Running", async () => {
    const { bmc, ask } = await aBmc();
    bmc.faults.add({ kind: "stuck-task" });
    const drive = `${SYSTEM}/Storage/NVMe.1/Drives/NVMe.0/Actions/Drive.SecureErase`;
    const start = await ask("POST", drive, {});
    const task = async () => (await ask("GET", String(start.body["@odata.id"]))).body;
    await eventually("the task to be stuck", async () => (await task())["PercentComplete"] === 40);
    expect(await task()).toMatchObject({ TaskState: "Running" });
    expect(bmc.state.erased).toEqual({});
  });

  test.each([
    ["good", null, null],
    ["expired", "expired", "CERT_HAS_EXPIRED"],
    ["of another name", "wrong-name", "ERR_TLS_CERT_ALTNAME_INVALID"],
  ] as const)("a TLS certificate that is %s is seen as such", async (_, problem, code) => {
    const bmc = await startBmc({ tls: true });
    onTestFinished(() => bmc.close());
    if (problem) bmc.faults.add({ kind: "certificate", problem });
    const { hostname, port } = new URL(bmc.url);
    const socket = connect({ host: hostname, port: Number(port), ca: bmc.tls?.ca ?? "" });
    const seen = await new Promise((resolve) => {
      socket.once("secureConnect", () => resolve(null));
      socket.once("error", (error) => resolve("code" in error ? error.code : error.message));
    });
    socket.destroy();
    expect(seen).toBe(code);
  });

  test("an unknown fault is refused with the known ones", async () => {
    const { bmc } = await aBmc();
    expect(() => bmc.faults.set(JSON.parse('[{"kind":"slwo"}]'))).toThrow('Unknown fault "slwo": use one of slow');
    expect(() => bmc.faults.set(JSON.parse('[{"kind":"slow"}]'))).toThrow('Fault "slow" needs ms as a number.');
  });
});

test("a fleet has one address for each BMC, and each has a state of its own [R-356]", async () => {
  await using fleet = await startFleet({
    count: 3,
    traits: ["ilo-like", "openbmc-like"],
    timing: TIMING,
    address: (number) => ({ host: `127.0.41.${number}`, port: 0 }),
  });
  const [first, second, third] = fleet.bmcs;
  expect(fleet.bmcs.map(({ traits }) => traits.vendor)).toEqual(["HPE", "OpenBMC", "HPE"]);
  expect(new Set(fleet.bmcs.map(({ system }) => system.uuid)).size).toBe(3);
  const headers = { Authorization: `Basic ${btoa("admin:simulated")}` };
  await fetch(`${third?.url}${SYSTEM}/Actions/ComputerSystem.Reset`, {
    method: "POST",
    headers,
    body: '{"ResetType":"On"}',
  });
  await eventually("the third to be on", () => third?.state.power === "On");
  expect([first?.state.power, second?.state.power]).toEqual(["Off", "Off"]);
});

const SYSTEM = `${ROOT}/Systems/1`;

const LOGIN = {
  basic: true,
  refusal: "general-error",
  passwordLengthMin: 8,
  passwordLengthMax: 20,
  passwordEndsSessions: false,
} as const;

interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Record<string, unknown>;
}

/** A BMC with a session, which ends with the test. */
async function aBmc(settings: BmcSettings = {}) {
  const bmc: SimulatedBmc = await startBmc({ timing: TIMING, ...settings });
  onTestFinished(() => bmc.close());
  const { userName, password } = bmc.credentials;
  const logIn = () =>
    fetch(`${bmc.url}${ROOT}/SessionService/Sessions`, {
      method: "POST",
      body: JSON.stringify({ UserName: userName, Password: password }),
    });
  const headers = { "X-Auth-Token": (await logIn()).headers.get("X-Auth-Token") ?? "" };
  const ask = async (method: string, path: string, body?: object): Promise<Reply> => {
    const init = { method, headers, ...(body ? { body: JSON.stringify(body) } : {}) };
    const response = await fetch(new URL(path, bmc.url), init);
    const text = await response.text();
    return { status: response.status, headers: response.headers, body: text === "" ? {} : JSON.parse(text) };
  };
  return { bmc, headers, logIn, ask };
}

/** Address of a server that answers every request with the text. */
async function served(text: string, onBody: (body: string) => void = () => undefined): Promise<string> {
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (data) => (body += String(data)));
    request.on("end", () => {
      onBody(body);
      response.end(text);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  return `http://127.0.0.1:${typeof address === "object" ? address?.port : 0}/image.bin`;
}

function linksIn(value: unknown): readonly string[] {
  if (Array.isArray(value)) return value.flatMap(linksIn);
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, member]) =>
    LINKS.includes(name) && typeof member === "string" ? [member.split("#")[0] ?? ""] : linksIn(member),
  );
}

const LINKS = ["@odata.id", "Members@odata.nextLink", "@Redfish.ActionInfo", "Uri"];
