/**
 * Facts that drivers read of machines, through the API: values, failures, the driver that answered, circuits, groups.
 */
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import * as z from "zod";
import type { BiosInterface, DriverErrorKind, PowerInterface } from "../../src/drivers/driver.ts";
import { aGate } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";
import type { AnySettings } from "../support/driver.ts";
import { serviceUnderTest } from "../support/service.ts";

const SECRET = "Plover-77-xyzzy";

/** Answers of the driver `first`; null: as a machine in order. */
const answers: { failure: DriverErrorKind | null; bios: unknown; console: unknown } = {
  failure: null,
  bios: null,
  console: null,
};
beforeEach(() => Object.assign(answers, { failure: null, bios: null, console: null }));
const boots: unknown[] = [];

function answering<Value>(value: Value): Value {
  if (answers.failure === null) return value;
  const message = `The BMC reports ${answers.failure} for ${SECRET}.`;
  throw Object.assign(new Error(message), { name: "DriverError", kind: answers.failure, retryable: false });
}

const BIOS = [
  { name: "BootMode", title: null, type: "ENUMERATION", value: "Uefi", allowedValues: ["Uefi"], readOnly: false },
  { name: "Cores", title: "Cores", type: "INTEGER", value: 16, pending: 8, minimum: 1, maximum: 64, readOnly: false },
  { name: "AdminPassword", title: null, type: "PASSWORD", value: SECRET, pending: SECRET, readOnly: false },
];

function twoDrivers() {
  const first = aDriver("first", {
    secret: true,
    variables: z.strictObject({ image: z.string().optional() }),
    deploy: stepsOf(
      aStep("install", "deploy", async () => ({ kind: "done" }), { group: "firmware" }),
      aStep("remove", "undeploy", async () => ({ kind: "done" })),
    ),
  });
  const own = first.power as unknown as PowerInterface<AnySettings>;
  const power: PowerInterface<AnySettings> = {
    set: async (call, action) => own.set?.(call, action),
    read: async (call) => answering(await own.read(call)),
    setBootDevice: async (_call, device, options) => void boots.push({ device, ...options }),
    readBootDevice: async () => answering({ device: "PXE" as const, persistent: false, mode: "UEFI" as const }),
  };
  const bios = { read: async () => answering((answers.bios ?? BIOS) as []) } satisfies BiosInterface<AnySettings>;
  const console = { serialUrl: async () => answering((answers.console ?? "wss://10.0.0.7/console") as string) };
  const second = Object.assign(aDriver("second"), { bios: { read: async () => [] } });
  return [Object.assign(first, { power, bios, console }), second];
}

const ostler = await serviceUnderTest({ drivers: twoDrivers() });
afterAll(() => ostler[Symbol.asyncDispose]());

let count = 0;
async function aNode(interfaces: readonly object[] = []): Promise<string> {
  count += 1;
  const name = `read-${count}`;
  const { registerNodes } = await ostler.query<{ registerNodes: { errors: object[] } }>(
    "mutation Register($nodes: [RegisterNodeInput!]!) { registerNodes(input: { nodes: $nodes }) { errors { message } } }",
    { nodes: [{ name, driver: { first: { password: SECRET } }, interfaces }] },
  );
  expect(registerNodes.errors).toEqual([]);
  return name;
}

const READ = `mutation Read($input: ReadNodesInput!) { readNodes(input: $input) {
  results {
    ref firmware { component name version updateable }
    bios { name title type value pending allowedValues minimum maximum readOnly }
    bootDevice { device persistent mode } consoleUrl
    readings { what driver kind driverCalls { call driver kind } error { code message } }
    error { code message }
  }
  errors { code message path }
} }`;
const readNodes = async (names: readonly string[], what = ["FIRMWARE", "BIOS", "BOOT_DEVICE", "CONSOLE"]) =>
  (
    await ostler.query<{ readNodes: { results: object[]; errors: object[] } }>(READ, {
      input: { nodes: { names }, what },
    })
  ).readNodes;

const FURTHER = [{ fallbackFor: ["BIOS", "POWER"], driver: { second: {} } }];

describe("readNodes", () => {
  test("readNodes returns what the machine reports with the driver that answered; a failure leaves the others [R-435]", async () => {
    const name = await aNode();
    const { results, errors } = await readNodes([name]);
    expect(errors).toEqual([]);
    const read = (what: string) => ({ what, driver: "first", kind: null, driverCalls: [], error: null });
    expect(results).toEqual([
      {
        ref: name,
        firmware: null,
        bios: [
          {
            name: "BootMode",
            title: null,
            type: "ENUMERATION",
            value: "Uefi",
            pending: null,
            allowedValues: ["Uefi"],
            minimum: null,
            maximum: null,
            readOnly: false,
          },
          {
            name: "Cores",
            title: "Cores",
            type: "INTEGER",
            value: 16,
            pending: 8,
            allowedValues: [],
            minimum: 1,
            maximum: 64,
            readOnly: false,
          },
          {
            name: "AdminPassword",
            title: null,
            type: "PASSWORD",
            value: null,
            pending: null,
            allowedValues: [],
            minimum: null,
            maximum: null,
            readOnly: false,
          },
        ],
        bootDevice: { device: "NETWORK", persistent: false, mode: "UEFI" },
        consoleUrl: "wss://10.0.0.7/console",
        readings: [
          {
            what: "FIRMWARE",
            driver: null,
            kind: "UNSUPPORTED",
            driverCalls: [],
            error: {
              code: "UNSUPPORTED_BY_DRIVER",
              message: `Node ${name}: No driver of node ${name} has a firmware interface.`,
            },
          },
          read("BIOS"),
          read("BOOT_DEVICE"),
          read("CONSOLE"),
        ],
        error: null,
      },
    ]);
  });

  test("readNodes goes by the second driver if the first is unreachable, and says so without a secret [R-435]", async () => {
    const name = await aNode(FURTHER);
    answers.failure = "UNREACHABLE";
    const { results } = await readNodes([name], ["BIOS", "CONSOLE"]);
    expect(results).toMatchObject([
      {
        bios: [],
        consoleUrl: null,
        readings: [
          {
            driver: "second",
            driverCalls: [
              { call: "bios read", driver: "first", kind: "UNREACHABLE" },
              { call: "bios read", driver: "second", kind: null },
            ],
          },
          { driver: null, kind: "UNREACHABLE", error: { code: "BACKEND_FAILED" } },
        ],
      },
    ]);
    expect(JSON.stringify(results)).not.toContain(SECRET);
  });

  test.each([
    ["console", "https://root:calvin@10.0.0.7/", "CONSOLE", "contains credentials"],
    ["console", "no address", "CONSOLE", "the address of the console"],
    ["bios", [{ name: "Cores", type: "WHOLE", value: 1 }], "BIOS", "the type of the BIOS attribute Cores"],
    ["bios", "nothing", "BIOS", "the list of BIOS attributes"],
  ])("readNodes does not return a %s of %j [R-436]", async (what, value, fact, says) => {
    const name = await aNode();
    Object.assign(answers, { [what]: value });
    const { results } = await readNodes([name], [fact]);
    const error = { code: "BACKEND_FAILED", message: expect.stringContaining(says) };
    expect(results).toMatchObject([{ bios: null, consoleUrl: null, readings: [{ driver: null, error }] }]);
    expect(JSON.stringify(results)).not.toContain("calvin");
  });

  test("readNodes of a busy node is BUSY, and of nothing or too many nodes is refused", async () => {
    const gate = aGate();
    const [busy = ""] = await ostler.register(["read-busy"], { steps: { "power.read": { gate: gate.name } } });
    const uuid = await ostler.begin("manageNodes", [busy]);
    await gate.arrivals();
    expect((await readNodes([busy])).results).toMatchObject([{ readings: [], error: { code: "BUSY" } }]);
    gate.open();
    await ostler.operationEnds(uuid);
    expect((await readNodes([busy], [])).errors).toMatchObject([{ code: "INVALID_INPUT", path: ["input", "what"] }]);
    const many = await ostler.register(101);
    expect((await readNodes(many)).errors).toMatchObject([{ code: "INVALID_INPUT", path: ["input", "nodes"] }]);
  });
});

test("readPower says which driver answered, and each call if there are several [R-435]", async () => {
  const name = await aNode(FURTHER);
  const read = async () =>
    (
      await ostler.query<{ readPower: { results: object[] } }>(
        `mutation { readPower(input: { nodes: { names: ["${name}"] } }) { results { powerState driver driverCalls { interface driver kind error } } } }`,
      )
    ).readPower.results;
  const called = { interface: "POWER", driver: "first", kind: null, error: null };
  expect(await read()).toEqual([{ powerState: "OFF", driver: "first", driverCalls: [called] }]);
  answers.failure = "UNREACHABLE";
  expect(await read()).toMatchObject([
    { driver: "second", driverCalls: [{ kind: "UNREACHABLE" }, { driver: "second" }] },
  ]);
});

test("setBootDevice passes the mode and the device HTTP to the driver, as a verb and as a step [R-437]", async () => {
  const name = await aNode();
  boots.length = 0;
  await ostler.operationEnds(await ostler.begin("setBootDevice", [name], { device: "HTTP", mode: "UEFI" }));
  await ostler.operationEnds(await ostler.begin("setBootDevice", [name], { device: "NETWORK", persistent: true }));
  expect(boots).toEqual([
    { device: "HTTP", persistent: false, mode: "UEFI" },
    { device: "PXE", persistent: true },
  ]);
  const { plan } = await ostler.query<{ plan: object }>(
    `{ plan(input: { setBootDevice: { nodes: { names: ["${name}"] }, device: CDROM, mode: BIOS } }) { results { steps { args } } errors { message } } }`,
  );
  expect(plan).toEqual({
    results: [{ steps: [{ args: { device: "CDROM", persistent: false, mode: "BIOS" } }] }],
    errors: [],
  });
});

test("Node.drivers shows fallbackFor and the open circuit, and the catalogue the group of a step", async () => {
  const name = await aNode(FURTHER);
  const look = async () =>
    (
      await ostler.query<{ node: { drivers: object[]; stepCatalogue: object[] } }>(
        `{ node(by: { name: "${name}" }) { drivers { name fallbackFor circuit { state failures kind } } stepCatalogue(phase: DEPLOY) { name definition { group } } } }`,
      )
    ).node;
  expect(await look()).toEqual({
    drivers: [
      { name: "first", fallbackFor: [], circuit: null },
      { name: "second", fallbackFor: ["POWER", "BIOS"], circuit: null },
    ],
    stepCatalogue: [{ name: "install", definition: { group: "FIRMWARE" } }],
  });
  answers.failure = "UNREACHABLE";
  for (let tried = 0; tried < 5; tried += 1) await readNodes([name], ["BIOS"]);
  expect(await look()).toMatchObject({
    drivers: [{ circuit: { state: "OPEN", failures: 5, kind: "UNREACHABLE" } }, { circuit: null }],
  });
});

test("plan has a warning for a variable that no driver reads", async () => {
  const name = await aNode();
  const { plan } = await ostler.query<{ plan: { results: object[] } }>(
    `{ plan(input: { setPower: { action: ON, nodes: { names: ["${name}"] }, variables: { ntp: "10.0.0.1" } } }) { results { warnings { name source nearest message } } } }`,
  );
  expect(plan.results).toEqual([
    {
      warnings: [
        {
          name: "ntp",
          source: "REQUEST",
          nearest: null,
          message: "No driver of the node (first) declares the variable ntp.",
        },
      ],
    },
  ]);
});
