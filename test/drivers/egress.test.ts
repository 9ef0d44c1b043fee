/** Egress: to which addresses callers can make a driver connect. */
import { describe, expect, test } from "vitest";
import * as z from "zod";
import { Deadline } from "../../src/drivers/deadline.ts";
import type { Call, DiscoverCall } from "../../src/drivers/driver.ts";
import { egressLimits } from "../../src/drivers/address-settings.ts";
import { limitEgress } from "../../src/drivers/egress.ts";
import { createPool } from "../../src/drivers/isolation/pool.ts";
import { loadPlugins } from "../../src/drivers/load.ts";
import { createRegistry } from "../../src/drivers/registry.ts";
import type { AnyDriver } from "../../src/drivers/interfaces.ts";
import { parseAddresses } from "../../src/engine/discovery/addresses.ts";
import { readConfig } from "../../src/config/config.ts";
import { createLog } from "../../src/log.ts";
import { embeddedIPv4 } from "../../src/runtime/ip-addresses.ts";
import { ipNetworks, isNetwork } from "../../src/runtime/ip-networks.ts";

const FORBIDDEN = [
  "127.0.0.1",
  "127.9.9.9",
  "0.0.0.0",
  "169.254.169.254",
  "100.100.100.200",
  "fd00:ec2::254",
  "::ffff:100.100.100.200",
  "224.0.0.1",
  "255.255.255.255",
  "::",
  "::1",
  "::ffff:127.0.0.1",
  "::ffff:a9fe:a9fe",
  "::127.0.0.1",
  "::ffff:0:127.0.0.1",
  "64:ff9b::127.0.0.1",
  "64:ff9b::a9fe:a9fe",
  "64:ff9b:1::169.254.169.254",
  "2002:7f00:1::1",
  "2002:a9fe:a9fe::",
  "2001:0:a00:1::80ff:fffe",
  "2001:0:7f00:1::f5ff:fffe",
  "fe80::1",
  "fe80::1%eth0",
  "ff02::1",
];

const connected: string[] = [];
const driver = {
  contract: 2,
  name: "dialer",
  version: "1.0.0",
  description: "Connects.",
  settings: z.object({
    address: z.string().meta({ address: true, description: "An address." }),
    note: z.string().default("").meta({ description: "Not an address." }),
  }),
  power: {
    read: async ({ settings }: Call<unknown>) => {
      connected.push((settings as { address: string }).address);
      return "ON";
    },
    set: async () => {},
  },
  discover: {
    settings: z.object({}).meta({ description: "None." }),
    probe: async ({ address }: DiscoverCall) => {
      connected.push(address);
      return { settings: { address } };
    },
  },
} as unknown as AnyDriver;

const callWith = (address: string) =>
  ({
    node: { id: "n", name: "n", powerState: "OFF", labels: {} },
    settings: { address, note: "127.0.0.1" },
    address,
    signal: new AbortController().signal,
    deadline: new Deadline(10_000),
    log() {},
    timed: async (_: string, work: () => Promise<unknown>) => work(),
  }) as unknown as Call<unknown> & DiscoverCall;

test.each(FORBIDDEN)("discovery of %s, where no machine can be, is refused by default [R-212]", (address) => {
  const { addresses, refusals } = parseAddresses(["10.0.0.7", address], ["input", "addresses"], ipNetworks(null));
  expect(addresses).toEqual([]);
  expect(refusals).toMatchObject([{ code: "INVALID_INPUT", message: expect.stringContaining("OSTLER_BMC_NETWORKS") }]);
});

const IN_SETTINGS = FORBIDDEN.filter((address) => !address.includes("%")).flatMap((address) => [
  address,
  `http://${address.includes(":") ? `[${address}]` : address}:8090/path`,
]);

test.each(IN_SETTINGS)(
  "setting with address %s is refused by default, before a driver can send a secret there [R-212]",
  async (address) => {
    const registry = createRegistry([driver], ipNetworks(null));
    expect(await registry.checkSettings(driver, { address, note: "127.0.0.1" })).toMatchObject({
      ok: false,
      issues: [{ path: ["address"], message: expect.stringContaining("OSTLER_BMC_NETWORKS") }],
    });
  },
);

test.each(["10.0.0.7", "2001:db8::7", "bmc-7.example", "https://10.0.0.7"])(
  "setting with address %s is accepted [R-212]",
  async (address) => {
    const registry = createRegistry([driver], ipNetworks(null));
    expect(await registry.checkSettings(driver, { address })).toMatchObject({ ok: true });
  },
);

test.each(["localhost", "127.1", "2130706433", "http://0x7f.1/"])(
  "name %s that leads to loopback is refused before the call of the driver [R-212]",
  async (address) => {
    const limited = limitEgress(driver, egressLimits(driver, ipNetworks(null)));
    connected.length = 0;
    await expect(limited.power.read(callWith(address))).rejects.toMatchObject({
      name: "DriverError",
      kind: "REFUSED",
      message: expect.stringContaining("OSTLER_BMC_NETWORKS"),
    });
    await expect(limited.discover?.probe(callWith(address.replaceAll(/http:|\//g, "")))).rejects.toThrow(
      "OSTLER_BMC_NETWORKS",
    );
    expect(connected).toEqual([]);
  },
);

test("listed networks are the only ones, and may include loopback [R-212]", async () => {
  const limited = limitEgress(driver, egressLimits(driver, ipNetworks(["127.0.0.0/8", "fd00:7::/64"])));
  expect(await limited.power.read(callWith("127.0.0.1"))).toBe("ON");
  expect(await limited.power.read(callWith("[fd00:7::1]:623"))).toBe("ON");
  await expect(limited.power.read(callWith("10.0.0.7"))).rejects.toThrow(
    "Address 10.0.0.7 is outside the networks of OSTLER_BMC_NETWORKS (127.0.0.0/8, fd00:7::/64).",
  );
});

describe("IPv4 addresses in IPv6 addresses", () => {
  test.each([
    ["::10.0.0.7", ["10.0.0.7"]],
    ["::ffff:10.0.0.7", ["10.0.0.7"]],
    ["::ffff:0:10.0.0.7", ["10.0.0.7"]],
    ["64:ff9b::10.0.0.7", ["10.0.0.7"]],
    ["64:ff9b:1::a00:7", ["10.0.0.7"]],
    ["2002:a00:7::1", ["10.0.0.7"]],
    ["2001:0:4136:e378:8000:63bf:3fff:fdd2", ["65.54.227.120", "192.0.2.45"]],
    ["::", []],
    ["::1", []],
    ["2001:db8::7", []],
    ["64:ff9b:2::a00:7", []],
    ["2003:a00:7::1", []],
    ["fd00:7::a00:7", []],
    ["10.0.0.7", []],
    ["bmc-7.example", []],
  ])("%s embeds %j [R-212]", (address, embedded) => {
    expect(embeddedIPv4(address)).toEqual(embedded);
  });

  test("IPv6 address that embeds IPv4 addresses is allowed if these are in the listed networks [R-212]", () => {
    const networks = ipNetworks(["10.0.0.0/8", "::/0"]);
    expect(networks.has("64:ff9b::10.0.0.7")).toBe(true);
    expect(networks.has("2002:a00:7::1")).toBe(true);
    expect(networks.has("2001:db8::7")).toBe(true);
    expect(networks.has("64:ff9b::192.168.0.7")).toBe(false);
    expect(networks.has("::ffff:192.168.0.7")).toBe(false);
    expect(networks.has("2001:0:a00:1::80ff:fffe")).toBe(false);
  });

  test.each(["64:ff9b::/96", "::ffff:10.0.0.0/104", "2002::/16", "2001:0:a00::/48"])(
    "listed network %s, whose addresses count as IPv4 addresses, is refused",
    (network) => {
      expect(() => readConfig({ OSTLER_BMC_NETWORKS: `10.0.0.0/8,${network}` }, [])).toThrow("List the IPv4 networks");
    },
  );

  test.each(["::/0", "2000::/3", "::1/128", "64:ff9b::/32"])("listed network %s is accepted", (network) => {
    expect(readConfig({ OSTLER_BMC_NETWORKS: network }, []).bmcNetworks).toEqual([network]);
  });
});

describe("host names", () => {
  const NOTHING = () => {};

  test("host name is resolved once for a call, and the driver gets the checked address [R-312]", async () => {
    const answers = [
      [
        { address: "10.0.0.7", family: 4 },
        { address: "2001:db8::7", family: 6 },
      ],
      [{ address: "127.0.0.1", family: 4 }],
    ];
    const names: unknown[] = [];
    let asked = 0;
    const calls: Call<unknown>[] = [];
    const recording: AnyDriver = {
      ...driver,
      power: {
        ...driver.power,
        async read(call) {
          calls.push(call);
          return "ON";
        },
      },
    };
    const limited = limitEgress(
      recording,
      egressLimits(recording, ipNetworks(null)),
      (found) => names.push(Object.fromEntries(found)),
      async () => answers[asked++] ?? [],
    );
    await limited.power.read(callWith("https://BMC-7.example:8443/redfish"));
    expect(asked).toBe(1);
    expect(calls[0]?.addresses).toEqual({
      "bmc-7.example": "10.0.0.7",
      "https://BMC-7.example:8443/redfish": "10.0.0.7",
    });
    expect(calls[0]?.settings).toMatchObject({ address: "https://BMC-7.example:8443/redfish" });
    expect(names).toEqual([{ "bmc-7.example": answers[0] }]);
    await expect(limited.power.read(callWith("bmc-7.example"))).rejects.toMatchObject({ kind: "REFUSED" });
    expect([asked, calls.length]).toEqual([2, 1]);
  });

  test("host name with one address outside the networks is refused, whatever the others are [R-312]", async () => {
    const both = [
      { address: "10.0.0.7", family: 4 },
      { address: "64:ff9b::127.0.0.1", family: 6 },
    ];
    const limited = limitEgress(driver, egressLimits(driver, ipNetworks(null)), NOTHING, async () => both);
    await expect(limited.discover?.probe(callWith("bmc-7.example"))).rejects.toThrow(
      "bmc-7.example (64:ff9b::127.0.0.1)",
    );
  });

  test("host name that does not resolve fails the call, so that the driver cannot resolve it to another answer [R-312]", async () => {
    const limited = limitEgress(driver, egressLimits(driver, ipNetworks(null)), NOTHING, async () => {
      throw Object.assign(new Error("no"), { code: "ENOTFOUND" });
    });
    connected.length = 0;
    await expect(limited.power.read(callWith("bmc-7.example"))).rejects.toMatchObject({
      name: "DriverError",
      kind: "UNREACHABLE",
      retryable: true,
      message: expect.stringMatching(/^Host name bmc-7\.example does not resolve \(ENOTFOUND\)\./),
    });
    expect(connected).toEqual([]);
  });

  test("lookup that hangs ends with the signal of its call [R-312]", async () => {
    const limited = limitEgress(driver, egressLimits(driver, ipNetworks(null)), NOTHING, () => new Promise(NOTHING));
    const controller = new AbortController();
    const reading = limited.power.read({ ...callWith("bmc-7.example"), signal: controller.signal });
    controller.abort(new Error("the call was aborted"));
    await expect(reading).rejects.toThrow("the call was aborted");
  });

  test.each([
    "http:127.0.0.1",
    "http:/127.0.0.1/",
    "http:\\\\127.0.0.1",
    " 127.0.0.1",
    "127.0.0.1:623",
    "１２７.0.0.1",
  ])(
    "setting %j, which leads to loopback in an unusual spelling, is refused when it is written [R-212]",
    async (address) => {
      const registry = createRegistry([driver], ipNetworks(null));
      expect(await registry.checkSettings(driver, { address })).toMatchObject({ ok: false });
    },
  );
});

test.each(["10.0.0.0", "10.0.0.0/33", "x/8", "fe80::%1/64", "::/129", "10.0.0.0/8/9"])(
  "%s is not a network",
  (text) => {
    expect(isNetwork(text)).toBe(false);
  },
);

test.each([
  [null, "OSTLER_BMC_NETWORKS"],
  [["10.0.0.0/8"], "10.0.0.0/8"],
])("driver in a process of its own refuses addresses outside of the networks %s [R-212]", async (listed, says) => {
  const log = createLog("silent");
  await using pool = createPool({ workers: 1, log });
  await using registry = await loadPlugins(["redfish"], log, { pool, networks: ipNetworks(listed) });
  const redfish = registry.get("redfish");
  const call = { ...callWith("127.0.0.1"), settings: { address: "127.0.0.1", port: 1, scheme: "HTTP" } };
  const refusal = { kind: "REFUSED", message: expect.stringContaining(says) };
  await expect(redfish?.power.read(call)).rejects.toMatchObject(refusal);
  await expect(redfish?.discover?.probe(callWith("127.0.0.1"))).rejects.toMatchObject(refusal);
});
