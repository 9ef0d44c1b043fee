/** Parsing of a discovery's addresses: names, addresses and ranges of both families, each address once. */
import { describe, expect, test } from "vitest";
import { ADDRESSES_MAX, parseAddresses } from "../../src/engine/discovery/addresses.ts";

const PATH = ["input", "addresses"];
const addressesOf = (...given: string[]) => {
  const { addresses, refusals } = parseAddresses(given, PATH);
  expect(refusals).toEqual([]);
  return addresses;
};

describe("discovery address", () => {
  test.each([
    ["a host name, in lower case", "BMC-7.Rack_1.Example", ["bmc-7.rack_1.example"]],
    ["an IPv4 address", "10.0.0.7", ["10.0.0.7"]],
    ["an IPv6 address, as RFC 5952 writes it", "2001:DB8:0:0:0:0:0:7", ["2001:db8::7"]],
    ["an IPv6 address with a zone", "fe80::1%eth0", ["fe80::1%eth0"]],
    [
      "an IPv4 range, without network and broadcast",
      "10.0.0.0/29",
      ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"],
    ],
    ["a range given by an address inside it", "10.0.0.7/30", ["10.0.0.5", "10.0.0.6"]],
    ["a /31 pair, without network and broadcast", "10.0.0.254/31", ["10.0.0.254", "10.0.0.255"]],
    ["a range of one", "10.0.0.7/32", ["10.0.0.7"]],
    [
      "an IPv6 range, complete",
      "2001:db8::ff:fffe/126",
      ["2001:db8::ff:fffc", "2001:db8::ff:fffd", "2001:db8::ff:fffe", "2001:db8::ff:ffff"],
    ],
    ["an IPv6 range of one", "2001:db8::/128", ["2001:db8::"]],
    ["the last IPv4 addresses", "255.255.255.255/30", ["255.255.255.253", "255.255.255.254"]],
  ])("discovery address may be %s", (_what, entry, addresses) => {
    expect(addressesOf(entry)).toEqual(addresses);
  });

  test.each([
    "",
    " ",
    "10.0.0",
    "10.0.0.256",
    "010.0.0.1",
    "10.0.0.1:623",
    "[::1]",
    "http://10.0.0.1",
    "a..b",
    "-a",
    "a-",
    "ä.example",
    "bmc one",
    "x".repeat(64),
    ":::",
    "10.0.0.0/24/8",
    "bmc/24",
    "/24",
    "fe80::%eth0/120",
  ])("discovery address %j is refused as malformed", (entry) => {
    expect(parseAddresses([entry], PATH)).toMatchObject({
      addresses: [],
      refusals: [
        {
          code: "INVALID_INPUT",
          path: [...PATH, "0"],
          message: expect.stringContaining("is not a host name, IP address or CIDR range"),
        },
      ],
    });
  });

  test.each([
    ["10.0.0.0/33", "from 0 to 32"],
    ["10.0.0.0/", "from 0 to 32"],
    ["10.0.0.0/-1", "from 0 to 32"],
    ["::/129", "from 0 to 128"],
    ["10.0.0.0/19", "has 8190 addresses"],
    ["0.0.0.0/0", "has 4294967294 addresses"],
    ["2001:db8::/64", "has 18446744073709551616 addresses"],
  ])("discovery range %s is refused with the reason", (entry, why) => {
    expect(parseAddresses([entry], PATH).refusals).toMatchObject([
      { path: [...PATH, "0"], message: expect.stringContaining(why) },
    ]);
  });
});

describe("discovery addresses", () => {
  test("discovery addresses are unique, in the order of the request, whatever their spelling [R-016]", () => {
    expect(addressesOf("10.0.0.3", "10.0.0.0/29", "10.0.0.3/32", "::1", "0:0:0:0:0:0:0:1", "Bmc", "bmc")).toEqual([
      "10.0.0.3",
      "10.0.0.1",
      "10.0.0.2",
      "10.0.0.4",
      "10.0.0.5",
      "10.0.0.6",
      "::1",
      "bmc",
    ]);
  });

  test("discovery addresses are refused with the position of every malformed entry", () => {
    const { addresses, refusals } = parseAddresses(["10.0.0.1", "10.0.0.300", "bmc", "10.0.0.0/8", "a b"], PATH);
    expect(addresses).toEqual([]);
    expect(refusals.map(({ path }) => path?.at(-1))).toEqual(["1", "3", "4"]);
  });

  test("discovery addresses are limited to 4096", () => {
    expect(addressesOf("2001:db8::/116")).toHaveLength(ADDRESSES_MAX);
    expect(addressesOf("10.0.0.0/20", "10.0.16.1", "10.0.16.2", "10.0.0.1")).toHaveLength(ADDRESSES_MAX);
    for (const tooMany of [
      ["10.0.0.0/20", "10.0.16.1", "10.0.16.2", "10.0.16.3"],
      Array.from({ length: ADDRESSES_MAX + 1 }, () => "bmc"),
    ]) {
      expect(parseAddresses(tooMany, PATH)).toMatchObject({
        addresses: [],
        refusals: [{ code: "INVALID_INPUT", path: PATH, message: expect.stringContaining("at most 4096") }],
      });
    }
  });

  test("discovery addresses must not be empty", () => {
    expect(parseAddresses([], PATH).refusals).toMatchObject([{ code: "INVALID_INPUT", path: PATH }]);
  });
});
