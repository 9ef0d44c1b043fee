/**
 * The driver ipmi with the real ipmitool and simulated BMCs (ipmi_sim). Needs the Debian packages openipmi and
 * ipmitool, and fails with their names if they are missing. Takes about half a minute.
 */
import { createSocket } from "node:dgram";
import type { RemoteInfo } from "node:dgram";
import { once } from "node:events";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import factory from "../../plugins/ipmi/index.ts";
import { ipmiSettings } from "../../plugins/ipmi/settings.ts";
import type { IpmiSettings } from "../../plugins/ipmi/settings.ts";
import { conformance } from "../../packages/driver/src/conformance/conformance.ts";
import type { ConformanceOptions } from "../../packages/driver/src/conformance/conformance.ts";
import type { Call, Driver, Json, PowerAction } from "../../src/drivers/driver.ts";
import { demandIpmiPrograms, startIpmiLab } from "../support/ipmi-lab.ts";
import type { IpmiLab, SimulatedBmc } from "../support/ipmi-lab.ts";
import { stepCallOf } from "../support/step-call.ts";

let lab: IpmiLab;
let driver: Driver<IpmiSettings>;
const set = async (to: Call<IpmiSettings>, action: PowerAction) => driver.power.set?.(to, action);
/** `first` is for the conformance suite, `second` for power and logins, `third` for slow and dead BMCs. */
let first: SimulatedBmc, second: SimulatedBmc, third: SimulatedBmc;

beforeAll(async () => {
  demandIpmiPrograms();
  lab = await startIpmiLab({ count: 3 });
  [first, second, third] = lab.bmcs as [SimulatedBmc, SimulatedBmc, SimulatedBmc];
  driver = await factory({ log: () => undefined });
}, 30_000);

afterAll(async () => {
  await driver?.close?.();
  await lab?.stop();
});

function settingsOf(bmc: SimulatedBmc, changes: Partial<IpmiSettings> = {}): IpmiSettings {
  const { address, port, username, password, cipherSuite } = bmc;
  return ipmiSettings.parse({ address, port, username, password, cipherSuite, ...changes });
}

function call(bmc: SimulatedBmc, changes: Partial<IpmiSettings> = {}, seconds = 30): Call<IpmiSettings> {
  return {
    node: { id: "00000000-0000-4000-8000-000000000001", name: bmc.name, powerState: "UNKNOWN", labels: {} },
    settings: settingsOf(bmc, changes),
    signal: AbortSignal.timeout(seconds * 1000),
    deadline: new Date(Date.now() + seconds * 1000),
    log: () => undefined,
    timed: (_name, work) => work(),
  };
}

async function timed(work: Promise<unknown>): Promise<{ readonly milliseconds: number; readonly failure: unknown }> {
  const began = performance.now();
  const failure: unknown = await work.then(
    () => undefined,
    (error: unknown) => error,
  );
  return { milliseconds: performance.now() - began, failure };
}

async function eventsSince(bmc: SimulatedBmc, before: number): Promise<string[]> {
  return (await bmc.journal()).slice(before).map((line) => line.event);
}

/** A relay in front of a BMC that drops the first message of every login. */
async function ignoringLogins(bmc: SimulatedBmc): Promise<{ address: string; port: number } & AsyncDisposable> {
  const RMCP_PLUS = 0x06,
    FIRST_LOGIN_MESSAGE = 0x12;
  const front = createSocket("udp4"),
    back = createSocket("udp4");
  let client: RemoteInfo | undefined;
  front.on("message", (message, from) => {
    client = from;
    if (message[4] === RMCP_PLUS && ((message[5] ?? 0) & 0x3f) === FIRST_LOGIN_MESSAGE) return;
    back.send(message, bmc.port, bmc.address);
  });
  back.on("message", (message) => client !== undefined && front.send(message, client.port, client.address));
  front.bind(0, "127.0.0.1");
  await once(front, "listening");
  return {
    address: "127.0.0.1",
    port: front.address().port,
    async [Symbol.asyncDispose]() {
      front.close();
      back.close();
    },
  };
}

describe("driver ipmi on a simulated BMC: conformance", () => {
  // The lab starts after the checks are listed, so the options are read when a check runs.
  const options: ConformanceOptions = {
    factory,
    live: true,
    liveSeconds: 30,
    get settings() {
      return first === undefined ? {} : settingsOf(first);
    },
    get refused() {
      return first === undefined ? {} : settingsOf(first, { password: "not-the-password" });
    },
    get discovery() {
      const { address, password, username, port } = first ?? {
        address: "",
        password: "",
        username: "admin",
        port: 623,
      };
      // Without a cipher suite the driver must find the one that the simulator supports.
      return {
        address,
        settings: { username, password, port },
        refused: { username, port, password: "not-the-password" },
        dead: "127.9.9.9",
      };
    },
  };
  for (const check of conformance(options))
    test(`driver ipmi on a simulated BMC ${check.title}`, check.run, check.timeoutSeconds * 1000);
});

describe("driver ipmi on a simulated BMC: power and inspection", () => {
  test("driver ipmi on a simulated BMC reaches the state of on, off, soft off and reboot, and sends no command twice", async () => {
    const before = (await second.journal()).length;
    await set(call(second), "ON");
    expect(await second.power()).toBe("ON");
    await set(call(second), "ON");
    await set(call(second), "REBOOT");
    expect(await second.power()).toBe("ON");
    await set(call(second), "SOFT_OFF");
    expect(await second.power()).toBe("OFF");
    await set(call(second), "OFF");
    expect(await eventsSince(second, before)).toEqual(["power on", "power off", "power on", "soft off"]);
  });

  test("driver ipmi on a simulated BMC reads power that was changed by another client", async () => {
    await second.setPower("ON");
    expect(await driver.power.read(call(second))).toBe("ON");
    await second.setPower("OFF");
    expect(await driver.power.read(call(second))).toBe("OFF");
  });

  test.each([
    ["PXE", "pxe"],
    ["DISK", "default"],
    ["CDROM", "cdrom"],
    ["BIOS", "bios"],
  ] as const)("driver ipmi on a simulated BMC sets boot device %s as %s", async (device, arrived) => {
    const before = (await second.journal()).length;
    await driver.power.setBootDevice?.(call(second), device, { persistent: true });
    expect(await eventsSince(second, before)).toEqual([`boot ${arrived}`]);
  });

  test("driver ipmi on a simulated BMC fails with TIMEOUT if the operating system ignores a shutdown, and the machine stays on", async () => {
    await second.setPower("ON");
    await second.setDeaf(true);
    try {
      const { failure, milliseconds } = await timed(set(call(second, {}, 2), "SOFT_OFF"));
      expect(failure).toMatchObject({ name: "DriverError", kind: "TIMEOUT", retryable: true });
      expect(milliseconds).toBeLessThan(3500);
      expect(await second.power()).toBe("ON");
    } finally {
      await second.setDeaf(false);
      await second.setPower("OFF");
    }
  });

  test("driver ipmi on a simulated BMC that refuses a command fails with REFUSED", async () => {
    await second.setRefusing(true);
    try {
      await expect(set(call(second), "ON")).rejects.toMatchObject({
        kind: "REFUSED",
        message: expect.stringContaining(second.address),
      });
      await expect(driver.power.setBootDevice?.(call(second), "PXE", { persistent: false })).rejects.toMatchObject({
        kind: "REFUSED",
      });
    } finally {
      await second.setRefusing(false);
    }
  });

  test("driver ipmi on a simulated BMC fails with REFUSED for insufficient privilege, and names the setting", async () => {
    await expect(set(call(second, { privilege: "USER" }), "ON")).rejects.toMatchObject({
      kind: "REFUSED",
      message: expect.stringContaining("`privilege`"),
    });
  });

  test("driver ipmi on a simulated BMC inspects identity, BMC and sensors without a command that changes the machine", async () => {
    const before = (await second.journal()).length;
    const inventory: Record<string, Json> = {};
    for (const step of driver.inspect?.steps ?? []) {
      const result = await step.run(stepCallOf(call(second), step.name));
      expect(result.kind).toBe("done");
      if (result.kind === "done") Object.assign(inventory, result.output);
    }
    // ipmi_sim gives every record its own time, and its clock is not set.
    const event = { time: null, sensor: "Temperature Cpu1 temp", description: "Upper Critical going high" };
    expect(inventory).toEqual({
      manufacturer: "Ostler Lab",
      model: "OL-1",
      serial: second.serial,
      partNumber: "OL1-P",
      assetTag: `asset-${second.serial}`,
      board: { manufacturer: "Ostler Lab", model: "OL-1 board", serial: `${second.serial}-B`, partNumber: "OL1-B" },
      bmc: { firmwareVersion: "2.32", ipmiVersion: "2.0", manufacturerId: 0, productId: 4097 },
      health: "OK",
      sensors: [
        { name: "Inlet temp", kind: "Temperature", value: 23, unit: "degrees C", status: "OK" },
        { name: "Cpu1 temp", kind: "Temperature", value: 51, unit: "degrees C", status: "OK", critical: { upper: 90 } },
        { name: "Sys fan 1", kind: "Fan", value: 4800, unit: "RPM", status: "OK" },
        {
          name: "Supply 12v",
          kind: "Voltage",
          value: 12.06,
          unit: "Volts",
          status: "OK",
          critical: { lower: 11.4, upper: 12.6 },
        },
        { name: "Supply present", value: null, unit: null, status: "OK", state: "Present" },
      ],
      eventLog: {
        total: 3,
        percentUsed: 2,
        overflow: false,
        entries: [
          { id: "1", time: null, sensor: "Entity Presence Supply present", description: "Present", asserted: true },
          { ...event, id: "2", asserted: true, reading: "Reading 91 > Threshold 90 degrees C" },
          { ...event, id: "3", asserted: false, reading: "Reading 91 < Threshold 90 degrees C" },
        ],
      },
    });
    expect(await eventsSince(second, before)).toEqual([]);
  });
});

describe("driver ipmi on a simulated BMC: abilities and event log", () => {
  test("driver ipmi on a simulated BMC reports the abilities that its list of devices implies [R-452]", async () => {
    const abilities = (await driver.abilities?.(call(second))) ?? [];
    expect(abilities.map(({ name }) => name)).toEqual([
      "power.ON",
      "power.OFF",
      "power.SOFT_OFF",
      "power.REBOOT",
      "inspect.read_event_log",
      "clean.clear_logs",
      "inspect.read_sensors",
      "power.setBootDevice",
    ]);
    expect(abilities.every(({ works }) => works)).toBe(true);
  });

  test("driver ipmi on a simulated BMC reads no boot device, because ipmi_sim never marks the boot flags as valid", async () => {
    await driver.power.setBootDevice?.(call(second), "PXE", { persistent: false });
    expect(await driver.power.readBootDevice?.(call(second))).toEqual({
      device: null,
      persistent: false,
      mode: "BIOS",
    });
  });

  test("driver ipmi on a simulated BMC clears the event log, twice too [R-451]", async () => {
    const [clear] = driver.clean?.steps ?? [];
    const readLog = driver.inspect?.steps.find(({ name }) => name === "read_event_log");
    const output = async (step: typeof clear) =>
      (await step?.run(stepCallOf(call(second), step.name))) as { output: Json };
    expect(clear).toMatchObject({ name: "clear_logs", group: "management", priority: 0, touches: [] });
    expect((await output(clear)).output).toEqual({ clearedLogs: ["SEL"], clearedEntries: 3 });
    expect((await output(clear)).output).toEqual({ clearedLogs: ["SEL"], clearedEntries: 0 });
    expect((await output(readLog)).output).toEqual({
      eventLog: { total: 0, percentUsed: 0, overflow: false, entries: [] },
    });
  });
});

describe("driver ipmi on a simulated BMC: failed logins", () => {
  test.each([
    ["a wrong password", { password: "not-the-password" }],
    ["an unknown user", { username: "unknown" }],
  ])("driver ipmi on a simulated BMC fails with AUTHENTICATION within a second for %s", async (_what, changes) => {
    const { failure, milliseconds } = await timed(driver.power.read(call(second, changes)));
    expect(failure).toMatchObject({ name: "DriverError", kind: "AUTHENTICATION", retryable: false });
    expect(milliseconds).toBeLessThan(1000);
  });

  test("driver ipmi on a simulated BMC fails with REFUSED for an unsupported cipher suite, and names the setting", async () => {
    const { failure, milliseconds } = await timed(driver.power.read(call(second, { cipherSuite: 17 })));
    expect(failure).toMatchObject({
      kind: "REFUSED",
      retryable: false,
      message: expect.stringContaining("`cipherSuite` to 3"),
    });
    expect(milliseconds).toBeLessThan(1000);
  });

  test("driver ipmi on a simulated BMC that ignores the login of a locked user fails with AUTHENTICATION", async () => {
    await using locked = await ignoringLogins(second);
    const { address, port } = locked;
    const { failure, milliseconds } = await timed(
      driver.power.read(call(second, { address, port, replySeconds: 1, sessionTries: 1 })),
    );
    expect(failure).toMatchObject({
      kind: "AUTHENTICATION",
      retryable: true,
      message: expect.stringContaining("locked"),
    });
    expect(milliseconds).toBeLessThan(10_000);
  }, 20_000);
});

describe("driver ipmi on a slow or dead BMC", () => {
  test("driver ipmi on a frozen BMC fails with UNREACHABLE after the time in the settings, and works when the BMC thaws", async () => {
    third.freeze();
    try {
      const { failure, milliseconds } = await timed(
        driver.power.read(call(third, { replySeconds: 1, sessionTries: 1 })),
      );
      expect(failure).toMatchObject({ name: "DriverError", kind: "UNREACHABLE", retryable: true });
      expect(milliseconds).toBeLessThan(4000);
    } finally {
      third.thaw();
    }
    expect(await driver.power.read(call(third))).toBe("OFF");
  }, 20_000);

  test("driver ipmi on a BMC that freezes during a power change continues to wait", async () => {
    await third.setPower("ON");
    await third.setDeaf(true);
    const waiting = set(call(third, { replySeconds: 1, sessionTries: 1 }, 25), "SOFT_OFF");
    await expect.poll(async () => (await third.journal()).at(-1)?.event).toBe("soft off");
    third.freeze();
    await third.setPower("OFF");
    setTimeout(() => third.thaw(), 3000);
    await waiting;
    await third.setDeaf(false);
    expect(await driver.power.read(call(third))).toBe("OFF");
  }, 30_000);

  test("driver ipmi on a slow BMC that executes a command more than once reaches the requested state", async () => {
    await third.setDelay(1.5);
    try {
      const before = (await third.journal()).length;
      await set(call(third, { replySeconds: 1, sessionTries: 3 }, 60), "ON");
      expect(await third.power()).toBe("ON");
      const events = await eventsSince(third, before);
      expect(events.length).toBeGreaterThan(1);
      expect(new Set(events)).toEqual(new Set(["power on"]));
    } finally {
      await third.setDelay(0);
    }
  }, 70_000);

  test("driver ipmi on a BMC that accepts the login but is too slow for the settings fails with TIMEOUT", async () => {
    await expect.poll(() => driver.power.read(call(third)).catch(() => "SLOW"), { timeout: 30_000 }).not.toBe("SLOW");
    await third.setDelay(6);
    try {
      const { failure, milliseconds } = await timed(
        driver.power.read(call(third, { replySeconds: 1, sessionTries: 1 })),
      );
      expect(failure).toMatchObject({ name: "DriverError", kind: "TIMEOUT", retryable: true });
      expect(milliseconds).toBeLessThan(6000);
    } finally {
      await third.setDelay(0);
    }
  }, 70_000);

  test("driver ipmi on a stopped BMC fails with UNREACHABLE", async () => {
    await third.stop();
    const { failure, milliseconds } = await timed(driver.power.read(call(third, { replySeconds: 1, sessionTries: 1 })));
    expect(failure).toMatchObject({ kind: "UNREACHABLE", message: expect.stringContaining(third.address) });
    expect(milliseconds).toBeLessThan(4000);
  }, 20_000);
});
