/** Servers of files: from where a driver, or a BMC at its request, may fetch what a caller names. */
import { describe, expect, test } from "vitest";
import * as z from "zod";
import { readConfig } from "../../src/config/config.ts";
import { addressProblems, egressLimits } from "../../src/drivers/address-settings.ts";
import { Deadline } from "../../src/drivers/deadline.ts";
import type { Json, StepCall } from "../../src/drivers/driver.ts";
import { limitEgress } from "../../src/drivers/egress.ts";
import type { ResolvedNames } from "../../src/drivers/egress.ts";
import type { AnyDriver } from "../../src/drivers/interfaces.ts";
import type { Dispatched } from "../../src/drivers/isolation/dispatch.ts";
import { createPool } from "../../src/drivers/isolation/pool.ts";
import { loadPlugins } from "../../src/drivers/load.ts";
import { createLog } from "../../src/log.ts";
import { fileServers } from "../../src/runtime/file-servers.ts";
import { ipNetworks } from "../../src/runtime/ip-networks.ts";
import { serveImages } from "../support/redfish.ts";

const OWN = "http://10.0.0.1:4010";
const IMAGES = ["images.example:443", "127.0.0.1:8080", "[::1]:8080", "169.254.7.7:80", "10.0.0.9:80"];

describe("a URL is judged before its name is looked up", () => {
  const LISTED = [
    "Files.Example",
    "mirror.example.:8080",
    "10.1.0.0/16",
    "192.0.2.7:8080",
    "[fd00:7::1]:8080",
    "bücher.example",
  ];
  test.each([
    ["http://files.example/x", null],
    ["https://FILES.EXAMPLE.:8443/x", null],
    ["http://mirror.example:8080/x", null],
    ["http://xn--bcher-kva.example/x", null],
    ["http://10.1.2.3:99/x", null],
    ["http://192.0.2.7:8080/x", null],
    ["http://[fd00:7:0::1]:8080/x", null],
    [`${OWN}/media/1.secret/agent.iso`, null],
    ["https://images.example/x", null],
    ["http://10.0.0.9/x", null],
    // A network is listed for every port, so a lookup decides about names.
    ["http://other.example/x", null],
    ["http://192.0.2.7/x", "not on the list"],
    ["http://[fd00:7::1]/x", "not on the list"],
    ["http://10.0.0.1:5432/x", "not on the list"],
    ["http://10.0.0.9:5432/x", "not on the list"],
    ["http://203.0.113.7/x", "not on the list"],
    ["http://127.0.0.1:8080/x", "loopback"],
    ["http://[::1]:8080/x", "loopback"],
    ["http://2130706433/x", "loopback"],
    ["http://0177.0.0.1/x", "loopback"],
    ["http://0.0.0.0/x", "loopback"],
    ["http://[::]/x", "loopback"],
    ["http://[::ffff:a9fe:a9fe]/x", "metadata"],
    ["http://a.localhost/x", "loopback"],
    ["http://169.254.7.7/x", "link-local"],
    ["http://100.100.100.200/x", "metadata"],
    ["http://[fd00:ec2::254]/x", "metadata"],
    ["http://[fe80::1]/x", "link-local"],
    ["http://224.0.0.1/x", "multicast"],
    ["http://255.255.255.255/x", "broadcast"],
    ["http://user@files.example/x", "a user or a password"],
    ["http://files.example\\@127.0.0.1/x", "not the URL of a file"],
    ["http://files.example/\n@127.0.0.1/x", "not the URL of a file"],
    ["http://:canary@files.example/x", "a user or a password"],
    ["file:///etc/passwd", "not the URL"],
    ["/etc/passwd", "not the URL"],
    ["nfs://169.254.169.254/x", "metadata"],
  ])("file at %s: %s [R-760]", (url, problem) => {
    const found = fileServers(LISTED, OWN).problem(url, IMAGES);
    expect(found).toEqual(problem === null ? null : expect.stringContaining(problem));
    expect(found ?? "").not.toContain("canary");
  });

  test("a name is refused if neither it nor any network is listed [R-760]", () => {
    expect(fileServers(["192.0.2.0/24:80"].slice(1), OWN).problem("http://other.example/x", IMAGES)).toBe(
      "File server other.example:80 is not on the list of file servers. Add it to OSTLER_FILE_SERVERS, or register the image that it serves",
    );
  });
});

test.each([
  ["listed name that leads to loopback", "http://files.example/x", ["127.0.0.1"], null],
  ["listed name that leads to metadata", "http://files.example/x", ["169.254.169.254"], "metadata"],
  ["listed name with one link-local address", "http://files.example/x", ["10.0.0.7", "fe80::1"], "link-local"],
  ["name of an image that leads to loopback", "https://images.example/x", ["127.0.0.1"], "loopback"],
  ["name of an image that leads elsewhere", "https://images.example/x", ["203.0.113.7"], null],
  ["other name that leads into a listed network", "http://other.example/x", ["10.1.0.7"], null],
  ["other name of which one address is outside", "http://other.example/x", ["10.1.0.7", "10.2.0.7"], "not on the list"],
  ["listed metadata address", "http://169.254.0.7/x", ["169.254.0.7"], null],
])("%s is judged by its addresses [R-760]", (_what, url, addresses, problem) => {
  const servers = fileServers(["files.example", "10.1.0.0/16", "169.254.0.7"], OWN);
  const found = servers.problem(url, IMAGES, addresses);
  expect(found).toEqual(problem === null ? null : expect.stringContaining(problem));
});

describe("OSTLER_FILE_SERVERS", () => {
  test.each([
    "http://files.example",
    "files.example/path",
    "user@files.example",
    "10.0.0.0/33",
    "::ffff:10.0.0.1",
    "64:ff9b::/96",
    "files.example:port",
    "files.example:70000",
  ])("%s is refused at the start", (text) => {
    expect(() => readConfig({ OSTLER_FILE_SERVERS: `ok.example,${text}` }, [])).toThrow(
      `OSTLER_FILE_SERVERS has ${JSON.stringify(text)}. Use a host`,
    );
  });
});

const args = z.object({
  files: z.array(z.union([z.object({ url: z.string().meta({ fileUrl: true }) }), z.number()])).default([]),
  byName: z.record(z.string(), z.string().meta({ fileUrl: true })).default({}),
  peer: z.string().meta({ address: true }).default("10.0.0.7"),
  note: z.string().default(""),
});

const entered: StepCall<unknown>[] = [];
const inserted: string[] = [];
const run = async (call: StepCall<unknown>) => {
  entered.push(call);
  return { kind: "done" } as const;
};
const driver = {
  contract: 2,
  name: "fetcher",
  version: "1.0.0",
  description: "Fetches.",
  settings: z.object({ address: z.string().meta({ address: true, description: "An address." }) }),
  variables: z.object({ seed: z.string().meta({ fileUrl: true }).optional() }),
  power: { read: async () => "ON", set: async () => {} },
  media: { insert: async (_call: unknown, url: string) => void inserted.push(url), eject: async () => {} },
  clean: {
    supportsAbort: true,
    steps: [
      {
        name: "fetch",
        title: "Fetch",
        phase: "clean",
        priority: 0,
        interruptible: "ALWAYS",
        timeoutSeconds: 60,
        idempotent: true,
        args,
        run,
        abort: run,
      },
    ],
  },
} as unknown as AnyDriver;

/** Answers of the name server; names that it was asked for. */
function nameServer(answers: Readonly<Record<string, string>>) {
  const asked: string[] = [];
  const resolve = async (host: string) => {
    asked.push(host);
    const address = answers[host];
    if (address === undefined) throw Object.assign(new Error("no"), { code: "ENOTFOUND" });
    return [{ address, family: 4 }];
  };
  return { asked, resolve };
}

function callOf(given: Json, more: { readonly memo?: Json; readonly variables?: object } = {}) {
  return {
    node: { id: "n", name: "n", powerState: "OFF", labels: {} },
    settings: { address: "10.0.0.7" },
    args: args.parse(given),
    memo: null,
    variables: {},
    signal: new AbortController().signal,
    deadline: new Deadline(10_000),
    log() {},
    ...more,
  } as unknown as StepCall<unknown>;
}

function limited(answers: Readonly<Record<string, string>> = {}) {
  entered.length = 0;
  const names: ResolvedNames[] = [];
  const { asked, resolve } = nameServer(answers);
  const limits = egressLimits(driver, ipNetworks(null), fileServers(["files.example"], OWN));
  const made = limitEgress(driver, limits, (found) => void names.push(found), resolve);
  const [step] = made.clean?.steps ?? [];
  if (!step) throw new Error("The driver has no step.");
  return { asked, names, made, step };
}

const REFUSED = { name: "DriverError", kind: "REFUSED", retryable: false };

describe("calls of steps", () => {
  test.each([
    ["in a list", { files: [{ url: "http://127.0.0.1/x" }] }, {}],
    ["in a record", { byName: { a: "http://127.0.0.1/x" } }, {}],
    ["in a variable", {}, { variables: { seed: "http://127.0.0.1/x" } }],
    ["that is the address of a machine", { peer: "169.254.169.254" }, {}],
  ])("marked value %s is refused before the step is entered [R-760]", async (_what, given, more) => {
    const { step } = limited();
    await expect(step.run(callOf(given, more))).rejects.toMatchObject(REFUSED);
    expect(entered).toEqual([]);
  });

  test("a server that is not listed is refused without a lookup of its name [R-760]", async () => {
    const { step, asked } = limited({ "canary.example": "10.0.0.8" });
    await expect(step.run(callOf({ files: [{ url: "http://canary.example/x" }] }))).rejects.toMatchObject(REFUSED);
    expect(asked).toEqual([]);
  });

  test("a listed name that leads to metadata is refused, and one that does not is looked up once for the call [R-760]", async () => {
    const given = {
      files: [{ url: "http://files.example/a" }, 7, { url: "http://files.example/b" }],
      note: "http://127.0.0.1/",
    };
    await expect(limited({ "files.example": "169.254.169.254" }).step.run(callOf(given))).rejects.toThrow(
      "File server files.example:80 (169.254.169.254) has a loopback, link-local, metadata",
    );
    const { step, asked, names } = limited({ "files.example": "10.0.0.8" });
    await step.run(callOf(given));
    expect(asked).toEqual(["files.example"]);
    expect(entered[0]?.addresses).toMatchObject({
      "http://files.example/a": "10.0.0.8",
      "http://files.example/b": "10.0.0.8",
    });
    expect(names[0]?.get("files.example")).toEqual([{ address: "10.0.0.8", family: 4 }]);
  });

  test("a step that has begun goes on when its file server is not allowed any more, and cannot use it [R-760]", async () => {
    const { step, names } = limited({ "files.example": "10.0.0.8" });
    await step.run(
      callOf({ files: [{ url: "http://10.0.0.9/a" }, { url: "http://gone.example/b" }] }, { memo: { task: 1 } }),
    );
    await step.abort?.(callOf({ files: [{ url: "http://gone.example/b" }] }));
    expect(entered.map(({ addresses }) => Object.keys(addresses ?? {}))).toEqual([["10.0.0.7"], ["10.0.0.7"]]);
    expect(names[0]?.get("gone.example")).toEqual([]);
  });

  test("a listed name that only the machine can resolve is handed on, and leads nowhere in the driver [R-760]", async () => {
    const { step, names } = limited({});
    await step.run(callOf({ files: [{ url: "http://files.example/a" }] }));
    expect(entered[0]?.addresses).toMatchObject({ "http://files.example/a": "files.example" });
    expect(names[0]?.get("files.example")).toEqual([]);
  });

  test("servers of registered images come with the call [R-760]", async () => {
    const { step } = limited({ "images.example": "10.0.0.8" });
    const call = callOf({ files: [{ url: "https://images.example/x" }] });
    await expect(step.run(call)).rejects.toMatchObject(REFUSED);
    const withImages: typeof call & Dispatched = { ...call, dispatch: { lane: "STEP", imageServers: IMAGES } };
    expect(await step.run(withImages)).toEqual({ kind: "done" });
  });

  test("a medium on a server that is not listed is refused before it is inserted [R-760]", async () => {
    const { made } = limited();
    await expect(
      made.media?.insert(callOf({}), "http://127.0.0.1/agent.iso", { writeProtected: true }),
    ).rejects.toMatchObject(REFUSED);
    await made.media?.insert(callOf({}), `${OWN}/media/1.secret/agent.iso`, { writeProtected: true });
    expect(inserted).toEqual([`${OWN}/media/1.secret/agent.iso`]);
  });
});

test("every marked value has its path in a refusal [R-760]", async () => {
  const rules = { networks: ipNetworks(null), files: fileServers([], OWN), images: async () => IMAGES };
  const given = args.parse({
    files: [{ url: "https://images.example/x" }, { url: "http://127.0.0.1/x" }],
    byName: { a: "http://other.example/x" },
    peer: "127.0.0.1:623",
  });
  const paths = (await addressProblems(args, given, rules)).map(({ path }) => path.join("."));
  expect(paths.toSorted()).toEqual(["byName.a", "files.1.url", "peer"]);
});

test("a mark that would not hold is refused when the driver is loaded", () => {
  const limits = (changes: object) => () => egressLimits({ ...driver, ...changes }, ipNetworks(null));
  expect(limits({ settings: z.object({ iso: z.string().meta({ fileUrl: true }) }) })).toThrow(
    "marks a setting with `fileUrl`",
  );
  const tree = z.object({
    url: z.string().meta({ fileUrl: true }),
    get more() {
      return z.array(tree);
    },
  });
  expect(limits({ variables: z.object({ tree }) })).toThrow("in a schema that refers to itself");
  expect(limits({ variables: z.object({ any: z.json(), url: z.string().meta({ fileUrl: true }) }) })).not.toThrow();
});

test("the driver redfish in a process of its own fetches no firmware from loopback, and reaches no BMC for it [R-760]", async () => {
  const log = createLog("silent");
  await using images = await serveImages();
  await using pool = createPool({ workers: 1, log });
  await using registry = await loadPlugins(["redfish"], log, { pool, networks: ipNetworks(["127.0.0.0/8"]) });
  const step = registry.get("redfish")?.clean?.steps.find(({ name }) => name === "update_firmware");
  const call = {
    ...callOf({}),
    settings: { address: "127.0.0.1", port: 1, scheme: "HTTP" },
    args: { components: [{ id: "NIC", url: `${images.url}/NIC/23.0`, version: null }] },
    media: { offered: false },
    userData: null,
    image: null,
  } as unknown as StepCall<unknown>;
  await expect(step?.run(call)).rejects.toMatchObject({
    ...REFUSED,
    message: expect.stringContaining("OSTLER_FILE_SERVERS"),
  });
});
