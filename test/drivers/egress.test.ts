/** Egress: to which addresses callers can make a driver connect. */
import { expect, test } from "vitest";
import * as z from "zod";
import { Deadline } from "../../src/drivers/deadline.ts";
import type { Call, DiscoverCall } from "../../src/drivers/driver.ts";
import { limitEgress } from "../../src/drivers/egress.ts";
import { createRegistry } from "../../src/drivers/registry.ts";
import type { AnyDriver } from "../../src/drivers/registry.ts";
import { parseAddresses } from "../../src/engine/discovery/addresses.ts";
import { ipNetworks, isNetwork } from "../../src/runtime/ip-networks.ts";

const FORBIDDEN = [
  "127.0.0.1",
  "127.9.9.9",
  "0.0.0.0",
  "169.254.169.254",
  "224.0.0.1",
  "255.255.255.255",
  "::",
  "::1",
  "::ffff:127.0.0.1",
  "::ffff:a9fe:a9fe",
  "fe80::1",
  "fe80::1%eth0",
  "ff02::1",
];

const connected: string[] = [];
const driver = {
  contract: 1,
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
    const limited = limitEgress(driver, ipNetworks(null));
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
  const limited = limitEgress(driver, ipNetworks(["127.0.0.0/8", "fd00:7::/64"]));
  expect(await limited.power.read(callWith("127.0.0.1"))).toBe("ON");
  expect(await limited.power.read(callWith("[fd00:7::1]:623"))).toBe("ON");
  await expect(limited.power.read(callWith("10.0.0.7"))).rejects.toThrow(
    "Address 10.0.0.7 is outside the networks of OSTLER_BMC_NETWORKS (127.0.0.0/8, fd00:7::/64).",
  );
});

test.each(["10.0.0.0", "10.0.0.0/33", "x/8", "fe80::%1/64", "::/129", "10.0.0.0/8/9"])(
  "%s is not a network",
  (text) => {
    expect(isNetwork(text)).toBe(false);
  },
);
