/** The identities of a machine: notations of one value, and values that identify nothing. */
import { describe, expect, test } from "vitest";
import { controllerKey, isMeaningfulMac, serialKey, uuidKey } from "../../src/lifecycle/identity.ts";

describe("controllers", () => {
  test.each([
    ["BMC-3.Example:443", "bmc-3.example"],
    ["bmc-3.example.:443", "bmc-3.example"],
    ["bmc-3.example:623", "bmc-3.example"],
    ["bmc-3.example:80", "bmc-3.example"],
    ["bmc-3.example:8443", "bmc-3.example:8443"],
    ["[fe80::1]:443", "fe80::1"],
    ["FE80:0:0::1", "fe80::1"],
    ["[fe80::1]:8000", "[fe80::1]:8000"],
    [" bmc-1 ", "bmc-1"],
    ["127.0.77.05:4121", "127.0.77.5:4121"],
    ["127.0.19717", "127.0.77.5"],
    ["2130726149:623", "127.0.77.5"],
    ["0x7f004d05", "127.0.77.5"],
    ["::ffff:127.0.77.5", "127.0.77.5"],
    ["[::FFFF:7f00:4d05]:4121", "127.0.77.5:4121"],
    ["fe80::1%eth0", "fe80::1%eth0"],
  ])("controller %j is %j", (text, key) => {
    expect(controllerKey(text)).toBe(key);
  });
});

describe("serial numbers", () => {
  test.each([
    ["S1", "S1"],
    [" 7ab  c\t", "7AB C"],
    ["CN7475162I0123", "CN7475162I0123"],
    ["1234", "1234"],
    ["0123456788", "0123456788"],
  ])("serial number %j identifies a machine", (text, key) => {
    expect(serialKey(text)).toBe(key);
  });

  test.each([
    "",
    "  ",
    ".",
    "...",
    "-",
    "NA",
    "n/a",
    "N.A.",
    "None",
    "null",
    "(null)",
    "unknown",
    "Not Specified",
    "Not Available",
    "Default string",
    "To Be Filled By O.E.M.",
    "To be filled by O.E.M",
    "System Serial Number",
    "Chassis Serial Number",
    "0123456789",
    "123456789",
    "1234567890",
    "01234567890123456789",
    "0123456789ABCDEF",
    "123456789abcdef",
    "0",
    "00000000",
    "FFFFFFFF",
    "xxxxxxx",
    "X",
  ])("serial number %j identifies nothing", (text) => {
    expect(serialKey(text)).toBeNull();
  });
});

describe("UUIDs", () => {
  const UUID = "4c4c4544-0043-5310-8052-b4c04f4e3233";

  test.each([
    UUID.toUpperCase(),
    ` {${UUID}} `,
    UUID.replaceAll("-", ""),
    `urn:uuid:${UUID}`,
    // As SMBIOS stores it: the first three fields in the other order of bytes.
    "44454c4c-4300-1053-8052-b4c04f4e3233",
  ])("UUID %j is another notation of the same one", (text) => {
    expect(uuidKey(text)).toBe(uuidKey(UUID));
    expect(uuidKey(text)).not.toBeNull();
  });

  test("UUIDs that differ in one digit are two", () => {
    expect(uuidKey(UUID.replace(/3$/, "4"))).not.toBe(uuidKey(UUID));
  });

  test.each([
    "",
    "Not Settable",
    "00000000-0000-0000-0000-000000000000",
    "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF",
    "11111111-1111-1111-1111-111111111111",
    "03000200-0400-0500-0006-000700080009",
    "00020003-0004-0005-0006-000700080009",
    "12345678-1234-5678-90AB-CDDEEFAABBCC",
    "78563412-3412-7856-90ab-cddeefaabbcc",
  ])("UUID %j identifies nothing", (text) => {
    expect(uuidKey(text)).toBeNull();
  });
});

describe("MACs", () => {
  test.each([
    ["a0:36:9f:00:00:01", "eth0", true],
    ["00:00:00:00:00:00", "eth0", false],
    ["ff:ff:ff:ff:ff:ff", "eth0", false],
    ["01:00:5e:00:00:01", "eth0", false],
    ["00:11:22:33:44:55", "eth0", false],
    // Of virtual machines, links to BMCs, bridges of containers, bonds.
    ["52:54:00:12:34:57", "eth0", false],
    ["be:3a:f2:b6:05:9f", "eth4", false],
    ["02:42:ac:11:00:02", "docker0", false],
    ["fe:00:00:00:00:01", "bond0", false],
    ["a0:36:9f:00:00:01", "usb0", false],
    ["a0:36:9f:00:00:01", "Host Interface", false],
    ["a0:36:9f:00:00:01", "Virtual NIC 1", false],
    ["a0:36:9f:00:00:01", "NIC.Usb rndis_host", false],
    ["a0:36:9f:00:00:01", "eth1 cdc_ether", false],
  ])("MAC %s of the interface %j identifies the machine: %j", (mac, name, isMeaningful) => {
    expect(isMeaningfulMac(mac, name)).toBe(isMeaningful);
  });
});
