import { createSocket } from "node:dgram";
import type { Socket } from "node:dgram";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile, readdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { devicesOf } from "../../plugins/ipmi/abilities.ts";
import { parseBootFlags } from "../../plugins/ipmi/boot.ts";
import { parseEventLog, parseLogState } from "../../plugins/ipmi/event-log.ts";
import { IpmiError, classifyFailure } from "../../plugins/ipmi/failure.ts";
import factory from "../../plugins/ipmi/index.ts";
import { parseBmcInfo, parseFru, parseSensors } from "../../plugins/ipmi/inventory.ts";
import { bmcAnswers } from "../../plugins/ipmi/presence.ts";
import { bmcName } from "../../plugins/bmc-settings.ts";
import { ipmiSettings, silentSeconds } from "../../plugins/ipmi/settings.ts";
import type { IpmiSettings } from "../../plugins/ipmi/settings.ts";
import { conformance } from "../../packages/driver/src/conformance/conformance.ts";
import type { Call, Driver } from "../../src/drivers/driver.ts";
import { stepCallOf } from "../support/step-call.ts";

const PASSWORD = "Tr0ub4dor&3";
const EXAMPLE = { address: "127.0.0.1", username: "admin", password: PASSWORD };

describe("IPMI settings", () => {
  test("IPMI settings require an address, a user name and a password", () => {
    expect(ipmiSettings.parse(EXAMPLE)).toEqual({
      ...EXAMPLE,
      port: 623,
      cipherSuite: 17,
      privilege: "ADMINISTRATOR",
      bootMode: "UEFI",
      replySeconds: 2,
      sessionTries: 3,
    });
  });

  test.each([
    ["an address that ipmitool would take for an option", { address: "-Hevil" }],
    ["an address with a blank in it", { address: "bmc one" }],
    ["an empty address", { address: "" }],
    ["a port out of range", { port: 65536 }],
    ["a password of 21 bytes", { password: "x".repeat(21) }],
    ["a password of 11 letters that are 22 bytes", { password: "é".repeat(11) }],
    ["a password with a NUL in it", { password: "a\0b" }],
    ["an empty password, for which ipmitool would ask at the terminal", { password: "" }],
    ["a user name of 17 bytes", { username: "x".repeat(17) }],
    ["cipher suite 0, which accepts any login", { cipherSuite: 0 }],
    ["an unknown privilege", { privilege: "ROOT" }],
    ["a reply time of zero", { replySeconds: 0 }],
    ["zero attempts, which ipmitool replaces with its default", { sessionTries: 0 }],
    ["a misspelt field", { adress: "10.0.0.1" }],
  ])("IPMI settings refuse %s", (_what, change) => {
    expect(ipmiSettings.safeParse({ ...EXAMPLE, ...change }).success).toBe(false);
  });

  test.each(["10.0.0.7", "bmc-3.rack1.example", "fe80::1%eth0", "::1"])(
    "IPMI settings accept the address %s",
    (address) => {
      expect(ipmiSettings.safeParse({ ...EXAMPLE, address }).success).toBe(true);
    },
  );

  test("IPMI name of a BMC has its port, and brackets around an IPv6 address", () => {
    expect(bmcName({ address: "10.0.0.7", port: 623 })).toBe("10.0.0.7:623");
    expect(bmcName({ address: "fe80::1", port: 623 })).toBe("[fe80::1]:623");
  });

  test.each([
    // Measured at a silent address with ipmitool 1.8.19.
    { replySeconds: 1, sessionTries: 1, seconds: 2 },
    { replySeconds: 1, sessionTries: 2, seconds: 6 },
    { replySeconds: 1, sessionTries: 3, seconds: 12 },
    { replySeconds: 2, sessionTries: 1, seconds: 4 },
    { replySeconds: 2, sessionTries: 2, seconds: 10 },
  ])(
    "IPMI call to a silent BMC takes $seconds s with $sessionTries attempts of $replySeconds s",
    ({ seconds, ...settings }) => {
      expect(silentSeconds(settings)).toBe(seconds);
    },
  );
});

describe("output of ipmitool", () => {
  test("output of ipmitool: FRU data gives the product and the board", () => {
    const text = [
      " Chassis Type          : Rack Mount Chassis",
      " Chassis Serial        : C-77",
      " Board Mfg Date        : Mon Jan  1 00:00:00 2024",
      " Board Mfg             : Boardmaker",
      " Board Product         : BM-9",
      " Board Serial          : B-1234",
      " Board Part Number     : 99-B",
      " Product Manufacturer  : Acme",
      " Product Name          : Anvil: heavy",
      " Product Part Number   : A-100",
      " Product Serial        : S-1",
      " Product Asset Tag     : row 3",
    ].join("\n");
    expect(parseFru(text)).toEqual({
      manufacturer: "Acme",
      model: "Anvil: heavy",
      serial: "S-1",
      partNumber: "A-100",
      assetTag: "row 3",
      chassis: [{ type: "Rack Mount Chassis", serial: "C-77" }],
      board: { manufacturer: "Boardmaker", model: "BM-9", serial: "B-1234", partNumber: "99-B" },
    });
  });

  test("output of ipmitool: board and chassis replace an empty product area", () => {
    const text = " Chassis Serial : C-77\n Chassis Part Number : C-P\n Board Mfg : Boardmaker\n Board Product : BM-9\n";
    expect(parseFru(text)).toMatchObject({
      manufacturer: "Boardmaker",
      model: "BM-9",
      serial: "C-77",
      partNumber: "C-P",
    });
  });

  test.each([
    "To be filled by O.E.M.",
    "Default string",
    "N/A",
    "None",
    "0000000000",
    "........",
    "Unspecified",
    "0123456789",
  ])("output of ipmitool: %s counts as an empty field", (filler) => {
    expect(parseFru(` Product Manufacturer  : Acme\n Product Serial        : ${filler}\n`)).toEqual({
      manufacturer: "Acme",
    });
  });

  test.each(["7", "AA", "111", "No1-77"])("output of ipmitool: %s is a value", (serial) => {
    expect(parseFru(` Product Serial        : ${serial}\n`)).toEqual({ serial });
  });

  test("output of ipmitool: the first of several FRU devices is the machine", () => {
    const text = [
      "FRU Device Description : Builtin FRU Device (ID 0)",
      " Product Serial        : first",
      "",
      "FRU Device Description : PSU1 (ID 1)",
      " Product Serial        : second",
      " Product Asset Tag     : of the supply",
    ].join("\n");
    expect(parseFru(text)).toEqual({ serial: "first" });
  });

  test("output of ipmitool: the version of the BMC", () => {
    const text =
      "Device ID                 : 32\nFirmware Revision         : 1.74\nIPMI Version              : 2.0\nManufacturer ID           : 10876\nManufacturer Name         : Unknown\nProduct ID                : 6929 (0x1b11)\nAux Firmware Rev Info     : \n    0x06\n";
    expect(parseBmcInfo(text)).toEqual({
      firmwareVersion: "1.74",
      ipmiVersion: "2.0",
      manufacturerId: 10876,
      productId: 6929,
    });
  });

  test.each([
    [
      "Inlet,23,degrees C,ok,7.1,System Board,Temperature,,,,42.000",
      { name: "Inlet", kind: "Temperature", value: 23, unit: "degrees C", status: "OK" },
    ],
    ["Inlet,23,degrees C,ok", { name: "Inlet", value: 23, unit: "degrees C", status: "OK" }],
    [
      "Old one,12.120,% Volts,ok,7.1,System Board,Voltage,,",
      { name: "Old one", kind: "Voltage", value: 12.12, unit: "Volts", status: "OK" },
    ],
    [
      "Below zero,-5,degrees C,lnc,7.1,Air Inlet,Temperature",
      { name: "Below zero", kind: "Temperature", value: -5, unit: "degrees C", status: "WARNING" },
    ],
    [
      "Hot,99,degrees C,cr,3.1,Processor,Temperature",
      { name: "Hot", kind: "Temperature", value: 99, unit: "degrees C", status: "CRITICAL" },
    ],
    [
      "With limits,12.060,Volts,ok,10.1,Power Supply,Voltage,12.000,,,13.000,12.600,12.500,,11.400,11.500,0.000,15.300",
      {
        name: "With limits",
        kind: "Voltage",
        value: 12.06,
        unit: "Volts",
        status: "OK",
        critical: { lower: 11.4, upper: 12.6 },
      },
    ],
    [
      "Burning,120,degrees C,unr,3.1,Processor,Temperature",
      { name: "Burning", kind: "Temperature", value: 120, unit: "degrees C", status: "CRITICAL" },
    ],
    [
      "Disk 0,,,ns,7.16,System Board,Temperature,,,",
      { name: "Disk 0", kind: "Temperature", value: null, unit: null, status: "UNKNOWN" },
    ],
    [
      "Fan, rear,4800,RPM,ok,29.1,Fan Device,Fan",
      { name: "Fan, rear", kind: "Fan", value: 4800, unit: "RPM", status: "OK" },
    ],
    ["Supply 1,04h,ok,10.1,Present", { name: "Supply 1", value: null, unit: null, status: "OK", state: "Present" }],
    [
      "Supply 2,05h,ok,10.2,Failure detected, Config Error",
      { name: "Supply 2", value: null, unit: null, status: "OK", state: "Failure detected, Config Error" },
    ],
    ["Watchdog,E7h,ok,6.2,", { name: "Watchdog", value: null, unit: null, status: "OK" }],
    [
      "Slot 9,4Eh,ns,26.9,No Reading",
      { name: "Slot 9", value: null, unit: null, status: "UNKNOWN", state: "No Reading" },
    ],
  ])("output of ipmitool: sensor line %s [R-450]", (line, sensor) => {
    expect(parseSensors(line)).toEqual([sensor]);
  });

  test("output of ipmitool: unknown lines between the sensors are ignored", () => {
    const text = [
      "Running Get PICMG Properties my_addr 0x20, transit 0, target 0x20",
      "",
      "Error Response 0xc1",
      "No,such,line",
      "\u0000\u0001",
      "A,1,Volts,ok",
      ",,,,",
      "Get SDR record failed",
    ].join("\r\n");
    expect(parseSensors(text)).toEqual([{ name: "A", value: 1, unit: "Volts", status: "OK" }]);
    expect(parseFru("\u0000\u0001 : \n : \n no colon")).toEqual({});
    expect(parseBmcInfo("")).toEqual({});
  });
});

describe("output of ipmitool: event log, boot device, abilities", () => {
  test("output of ipmitool: the entries of the event log [R-451]", () => {
    const text = [
      "1, Pre-Init ,0000006685,Entity Presence Supply present,Present,Asserted",
      "4,11/23/26,02:30:01 UTC,Temperature Cpu1 temp,Upper Critical going high,Deasserted,Reading 91 > Threshold 90 degrees C",
      "a,11/23/2026,02:30:01,Fan Fan, rear,Lower Critical going low ,Asserted",
      "5,,,OEM record e0,0102030405060708090a0b0c0d",
      "6,11/23/26,02:30:01 UTC,OEM record c0,070605,08090a0b0c0d",
      "Get SEL Entry 7 command failed",
    ].join("\r\n");
    expect(parseEventLog(text)).toEqual([
      { id: "1", time: null, sensor: "Entity Presence Supply present", description: "Present", asserted: true },
      {
        id: "4",
        time: "2026-11-23T02:30:01Z",
        sensor: "Temperature Cpu1 temp",
        description: "Upper Critical going high",
        asserted: false,
        reading: "Reading 91 > Threshold 90 degrees C",
      },
      {
        id: "a",
        time: "2026-11-23T02:30:01Z",
        sensor: "Fan Fan, rear",
        description: "Lower Critical going low",
        asserted: true,
      },
      { id: "5", time: null, sensor: null, description: "OEM record e0, 0102030405060708090a0b0c0d" },
      {
        id: "6",
        time: "2026-11-23T02:30:01Z",
        sensor: null,
        description: "OEM record c0, 070605, 08090a0b0c0d",
      },
    ]);
  });

  test("output of ipmitool: the state of the event log", () => {
    const info = "SEL Information\nEntries          : 512\nPercent Used     : 100%\nOverflow         : true\n";
    expect(parseLogState(info)).toEqual({ total: 512, percentUsed: 100, overflow: true });
    expect(parseLogState("Entries : 3\nPercent Used     : unknown\n")).toEqual({
      total: 3,
      percentUsed: null,
      overflow: false,
    });
  });

  test.each([
    ["8004000000", { device: "PXE", persistent: false, mode: "BIOS" }],
    ["e008000000", { device: "DISK", persistent: true, mode: "UEFI" }],
    ["a014000000", { device: "CDROM", persistent: false, mode: "UEFI" }],
    ["8020000000", { device: "CDROM", persistent: false, mode: "BIOS" }],
    ["8018000000", { device: "BIOS", persistent: false, mode: "BIOS" }],
    ["c000000000", { device: null, persistent: true, mode: "BIOS" }],
    ["0004000000", { device: null, persistent: false, mode: "BIOS" }],
    ["803c000000", undefined],
  ])("output of ipmitool: boot flags %s [R-453]", (data, flags) => {
    expect(parseBootFlags(`Boot parameter 5 is valid/unlocked\nBoot parameter data: ${data}\n`)).toEqual(flags);
  });

  test("output of ipmitool: a BMC without a device lacks the abilities that need it, and says which device [R-452]", () => {
    const info = (provides: string) =>
      `Provides Device SDRs      : ${provides}\nAdditional Device Support :\n    Sensor Device\n    Chassis Device\nAux Firmware Rev Info     : \n    0x06\n`;
    const lacking = (text: string) =>
      devicesOf(text, "10.0.0.7:623")
        .filter(({ works }) => !works)
        .map(({ name }) => name);
    expect(lacking(info("no"))).toEqual(["inspect.read_event_log", "clean.clear_logs", "inspect.read_sensors"]);
    expect(lacking(info("yes"))).toEqual(["inspect.read_event_log", "clean.clear_logs"]);
    expect(devicesOf(info("yes"), "10.0.0.7:623")).toContainEqual({
      name: "clean.clear_logs",
      works: false,
      reason: "BMC 10.0.0.7:623 reports that it has no SEL Device.",
    });
  });
});

describe("failure of ipmitool", () => {
  const classify = (text: string, killedAfterSeconds?: number) =>
    classifyFailure({
      bmc: "10.0.0.7:623",
      task: "read its power",
      username: "admin",
      cipherSuite: 17,
      privilege: "OPERATOR",
      text,
      ...(killedAfterSeconds !== undefined && { killedAfterSeconds }),
    });
  const NO_SESSION = "Error: Unable to establish IPMI v2 / RMCP+ session";
  const CHATTER =
    "Running Get VSO Capabilities my_addr 0x20, transit 0, target 0x20\nInvalid completion code received: Insufficient privilege level\nDiscovered IPMB address 0x0";

  test.each([
    [`> RAKP 2 HMAC is invalid\n${NO_SESSION}`, "AUTHENTICATION", false, /password/],
    [`RAKP 2 message indicates an error : unauthorized name\n${NO_SESSION}`, "AUTHENTICATION", false, /user "admin"/],
    [
      `RAKP 2 message indicates an error : unauthorized role requested\n${NO_SESSION}`,
      "AUTHENTICATION",
      false,
      /`privilege`/,
    ],
    [`Error in open session response message : invalid role\n${NO_SESSION}`, "AUTHENTICATION", false, /`privilege`/],
    [
      `Error in open session response message : insufficient resources for session\n${NO_SESSION}`,
      "REFUSED",
      true,
      /no free session/,
    ],
    [
      `Error in open session response message : no matching cipher suite\n${NO_SESSION}`,
      "REFUSED",
      false,
      /`cipherSuite` to 3/,
    ],
    [
      `Error in open session response message : invalid authentication algorithm\n${NO_SESSION}`,
      "REFUSED",
      false,
      /`cipherSuite` to 3/,
    ],
    [`This BMC does not support IPMI v2 / RMCP+\n${NO_SESSION}`, "REFUSED", false, /IPMI 2\.0/],
    [
      `Get Auth Capabilities error\nError issuing Get Channel Authentication Capabilities request\n${NO_SESSION}`,
      "UNREACHABLE",
      true,
      /does not answer/,
    ],
    [
      `Address lookup for bmc.example failed\nCould not open socket!\n${NO_SESSION}`,
      "UNREACHABLE",
      true,
      /does not resolve/,
    ],
    [
      `${CHATTER}\nSet Chassis Power Control to Up/On failed: Insufficient privilege level`,
      "REFUSED",
      false,
      /raise `privilege`/,
    ],
    [`${CHATTER}\nSet Chassis Power Control to Up/On failed: Node busy`, "REFUSED", true, /Node busy/],
    [
      `${CHATTER}\nSet Chassis Power Control to Diag failed: Invalid data field in request`,
      "UNSUPPORTED",
      false,
      /Invalid data field/,
    ],
    [
      ` Device not present (Requested sensor, data, or record not found)\n${CHATTER}`,
      "REFUSED",
      false,
      /record not found/,
    ],
    [`${CHATTER}\nUnable to get Chassis Power Status\nClose Session command failed`, "TIMEOUT", true, /`replySeconds`/],
    [
      `${CHATTER}\nError setting Chassis Boot Parameter 4\nClose Session command failed`,
      "TIMEOUT",
      true,
      /did not answer/,
    ],
    [`${CHATTER}\nan unknown message`, "OTHER", true, /an unknown message/],
    [CHATTER, "OTHER", true, /gave no reason/],
  ])("failure of ipmitool: %j", (text, kind, retryable, sentence) => {
    const classification = classify(text);
    expect(classification).toMatchObject({ failure: { kind, retryable, message: expect.stringMatching(sentence) } });
    expect(classification).toMatchObject({ failure: { message: expect.stringContaining("10.0.0.7:623") } });
  });

  test("a BMC that does not answer may be restarting; one whose name does not resolve is not waited for [R-801]", () => {
    const isAway = (text: string) => {
      const classification = classify(text);
      return new IpmiError("failure" in classification ? classification.failure : classification.silent).away;
    };
    expect(isAway(NO_SESSION)).toBe(true);
    expect(isAway(`Address lookup for bmc.example failed\n${NO_SESSION}`)).toBe(false);
  });

  test("failure of ipmitool without a reason is a login error if the BMC is present, and a network error if not", () => {
    expect(classify(NO_SESSION)).toMatchObject({
      present: { kind: "AUTHENTICATION", retryable: true },
      silent: { kind: "UNREACHABLE", retryable: true },
    });
  });

  test("failure of ipmitool during the login is the same whether it was killed or not", () => {
    const expected = { present: { kind: "AUTHENTICATION" }, silent: { kind: "UNREACHABLE" } };
    expect(classify("> Error: no response from RAKP 1 message", 30)).toMatchObject(expected);
    expect(
      classify(
        `> Error: no response from RAKP 3 message\nSet Session Privilege Level to OPERATOR failed\n${NO_SESSION}`,
      ),
    ).toMatchObject(expected);
  });

  test("failure of ipmitool that was killed after the login is a timeout, because the BMC may have received the request", () => {
    expect(classify(CHATTER, 30)).toMatchObject({ failure: { kind: "TIMEOUT", retryable: true } });
  });

  test("failure of ipmitool that was killed is a timeout if the BMC is present, and unreachable if not", () => {
    expect(classify("", 30)).toMatchObject({
      present: { kind: "TIMEOUT", message: expect.stringContaining("30 s") },
      silent: { kind: "UNREACHABLE" },
    });
  });
});

describe("IPMI presence check", () => {
  const ask = (port: number, { milliseconds = 60_000, signal = new AbortController().signal } = {}) =>
    bmcAnswers({ address: "127.0.0.1", port, milliseconds, signal });

  test("IPMI presence check finds a BMC that answers", async () => {
    await using bmc = await listener(Buffer.from("0600ff0700000000000000000010811c63200038000184040300", "hex"));
    expect(await ask(bmc.port)).toBe(true);
  });

  test("IPMI presence check rejects another service on the port", async () => {
    await using other = await listener(Buffer.from("HTTP/1.1 400 Bad Request"));
    expect(await ask(other.port)).toBe(false);
  });

  test("IPMI presence check of a silent BMC ends after the given time and two requests", async () => {
    await using mute = await listener(undefined);
    const began = Date.now();
    expect(await ask(mute.port, { milliseconds: 950 })).toBe(false);
    expect(Date.now() - began).toBeGreaterThanOrEqual(900);
    expect(mute.questions()).toBe(2);
  });

  test("IPMI presence check of a closed port ends at once", async () => {
    const closed = await listener(undefined);
    await closed[Symbol.asyncDispose]();
    expect(await ask(closed.port)).toBe(false);
  });

  test("IPMI presence check ends with the signal", async () => {
    await using mute = await listener(undefined);
    expect(await ask(mute.port, { signal: AbortSignal.timeout(50) })).toBe(false);
  });
});

describe("driver ipmi with a simulated ipmitool", () => {
  const path = process.env["PATH"] ?? "";
  let tool: FakeIpmitool;
  let driver: Driver<IpmiSettings>;

  beforeAll(async () => {
    tool = await fakeIpmitool();
    process.env["PATH"] = `${tool.folder}${delimiter}${path}`;
  });
  beforeEach(async () => {
    await tool.reset();
    driver = await factory({ log: () => undefined });
  });
  afterAll(async () => {
    process.env["PATH"] = path;
    await rm(tool.folder, { recursive: true, force: true });
  });

  for (const check of conformance({
    factory,
    settings: EXAMPLE,
    live: true,
    refused: { ...EXAMPLE, password: "wrong-password" },
    liveSeconds: 10,
  })) {
    test(`driver ipmi ${check.title}`, check.run, check.timeoutSeconds * 1000);
  }

  test("driver ipmi passes the password in the environment only, not in the arguments", async () => {
    await driver.power.read(call());
    const [argv, environment] = [await tool.file("argv"), await tool.file("environment")];
    expect(argv).not.toContain(PASSWORD);
    expect(argv.split("\n")).toContain("-E");
    expect(argv.split("\n")).not.toContain("-P");
    expect(environment).toContain(`IPMI_PASSWORD=${PASSWORD}`);
  });

  test("driver ipmi passes nothing else of the service's environment to ipmitool", async () => {
    process.env["OSTLER_TEST_DATABASE_PASSWORD"] = "not for ipmitool";
    try {
      await driver.power.read(call());
    } finally {
      delete process.env["OSTLER_TEST_DATABASE_PASSWORD"];
    }
    expect(await tool.file("environment")).not.toContain("not for ipmitool");
  });

  test("driver ipmi passes the settings as arguments of the session", async () => {
    await driver.power.read(
      call({ port: 6230, cipherSuite: 3, privilege: "OPERATOR", replySeconds: 4, sessionTries: 2 }),
    );
    expect((await tool.file("argv")).trim().split("\n").join(" ")).toBe(
      "-I lanplus -H 127.0.0.1 -p 6230 -U admin -E -C 3 -L OPERATOR -N 4 -R 2 -v chassis power status",
    );
  });

  test("driver ipmi shares one home folder with a short list of vendors among processes, so that a killed one leaves none behind", async () => {
    const homeOf = async (one: Driver<IpmiSettings>) => {
      await one.power.read(call());
      return /^HOME=(.*)$/m.exec(await tool.file("environment"))?.[1] ?? "";
    };
    const home = await homeOf(driver);
    expect(existsSync(join(home, ".local/usr/share/misc/enterprise-numbers.txt"))).toBe(true);
    expect(await homeOf(await factory({ log: () => undefined }))).toBe(home);
  });

  test.each([
    ["UEFI", false, "options=efiboot"],
    ["UEFI", true, "options=efiboot,persistent"],
    ["BIOS", true, "options=persistent"],
    ["BIOS", false, "pxe"],
  ] as const)(
    "driver ipmi sets the boot device of a %s machine, persistent %s, with %s",
    async (bootMode, persistent, last) => {
      await driver.power.setBootDevice?.(call({ bootMode }), "PXE", { persistent });
      const command = (await tool.commands()).find((each) => each.includes("bootdev"));
      expect(command?.split(" ").at(-1)).toBe(last);
    },
  );

  test("driver ipmi has the BMC keep a boot device for more than 60 seconds, before it sets it [R-1301]", async () => {
    await driver.power.setBootDevice?.(call(), "PXE", { persistent: false });
    expect(await tool.commands()).toEqual([
      "raw 0x00 0x08 0x03 0x08",
      "chassis bootdev pxe options=efiboot",
      "chassis bootparam get 5",
    ]);
  });

  test("driver ipmi sets a boot device once more that the BMC did not keep [R-1301]", async () => {
    await tool.put("forgets-once", "");
    await driver.power.setBootDevice?.(call(), "PXE", { persistent: false });
    expect(await driver.power.readBootDevice?.(call())).toMatchObject({ device: "PXE" });
  });

  test.each([
    ["forgets", { persistent: false }, /pxe, efiboot, but reports none/],
    ["once-only", { persistent: true }, /pxe, efiboot, persistent, but reports PXE, UEFI, once/],
    ["legacy-only", { persistent: false, mode: "UEFI" }, /pxe, efiboot, but reports PXE, BIOS, once/],
  ] as const)("driver ipmi reports a boot device as it is, of a BMC that %s [R-1301]", async (what, options, says) => {
    await tool.put(what, "");
    await expect(driver.power.setBootDevice?.(call(), "PXE", options)).rejects.toThrow(says);
  });

  test("driver ipmi accepts a boot device where the BMC keeps no mode, and none was requested [R-1301]", async () => {
    await tool.put("legacy-only", "");
    await driver.power.setBootDevice?.(call(), "PXE", { persistent: false });
  });

  test.each(["flagless", "unmarked"])(
    "driver ipmi accepts a boot device of a BMC that is %s [R-1301]",
    async (what) => {
      await tool.put(what, "");
      await driver.power.setBootDevice?.(call(), "PXE", { persistent: false });
    },
  );

  test("driver ipmi reports a refused boot device, although ipmitool exits with code 0", async () => {
    await tool.put("stderr", "Set Chassis Boot Parameter 5 failed: Unspecified error\n");
    await tool.put("code", "0");
    await expect(driver.power.setBootDevice?.(call(), "PXE", { persistent: false })).rejects.toMatchObject({
      name: "DriverError",
      kind: "REFUSED",
      message: expect.stringContaining("set the boot device to pxe"),
    });
  });

  test("driver ipmi sends no power change to a machine that is in the state already", async () => {
    await driver.power.set?.(call(), "OFF");
    expect(await tool.commands()).toEqual(["chassis power status"]);
  });

  test("driver ipmi reboots with off and on, never with a cycle", async () => {
    await tool.put("power", "on");
    await driver.power.set?.(call(), "REBOOT");
    expect((await tool.commands()).filter((each) => !each.endsWith("status"))).toEqual([
      "chassis power off",
      "chassis power on",
    ]);
  });

  test("driver ipmi continues a reboot that was interrupted after its first half", async () => {
    await driver.power.set?.(call(), "REBOOT");
    expect((await tool.commands()).filter((each) => !each.endsWith("status"))).toEqual(["chassis power on"]);
  });

  test.each([
    ["lost", ""],
    ["early", "Set Chassis Power Control to Up/On failed: Command not supported in present state"],
  ])("driver ipmi requests a change again that the BMC has %s [R-1300]", async (what, text) => {
    await tool.put(what, text);
    await driver.power.set?.(call({}, { milliseconds: 3000 }), "ON");
    expect((await tool.commands()).filter((each) => each.endsWith("on"))).toHaveLength(2);
    expect(await driver.power.read(call())).toBe("ON");
  });

  test("driver ipmi reports the refusal of a change that the BMC refuses until the end [R-1300]", async () => {
    await tool.put("late", "Set Chassis Power Control to Up/On failed: Command not supported in present state");
    await expect(driver.power.set?.(call({}, { milliseconds: 2000 }), "ON")).rejects.toMatchObject({
      kind: "REFUSED",
      message: expect.stringContaining("present state"),
    });
  });

  test("driver ipmi fails with TIMEOUT at the deadline if a machine ignores the request to shut down", async () => {
    await tool.put("power", "on");
    await tool.put("deaf", "");
    await expect(driver.power.set?.(call({}, { milliseconds: 700 }), "SOFT_OFF")).rejects.toMatchObject({
      kind: "TIMEOUT",
      retryable: true,
      message: expect.stringMatching(/127\.0\.0\.1:623.*shut down.*deadline/),
    });
    expect((await tool.commands()).filter((each) => each.endsWith("soft"))).toHaveLength(1);
  });

  test("driver ipmi ends a wait for the machine with the signal, and its reason", async () => {
    await tool.put("power", "on");
    await tool.put("deaf", "");
    const controller = new AbortController();
    const reason = new Error("the operator aborted");
    const waiting = driver.power.set?.(call({}, { signal: controller.signal }), "SOFT_OFF");
    setTimeout(() => controller.abort(reason), 150);
    await expect(waiting).rejects.toBe(reason);
  });

  test("driver ipmi kills a hanging call when the signal fires", async () => {
    await tool.put("hang", "");
    const began = Date.now();
    await expect(driver.power.read(call({}, { signal: AbortSignal.timeout(200) }))).rejects.toMatchObject({
      name: "TimeoutError",
    });
    expect(Date.now() - began).toBeLessThan(2000);
  });

  test("driver ipmi kills a hanging call at the deadline, and reports an absent BMC as UNREACHABLE", async () => {
    await tool.put("hang", "");
    const closed = await listener(undefined);
    await closed[Symbol.asyncDispose]();
    await expect(driver.power.read(call({ port: closed.port }, { milliseconds: 300 }))).rejects.toMatchObject({
      kind: "UNREACHABLE",
    });
  });

  test("driver ipmi reports a BMC that answers without finishing the login as AUTHENTICATION", async () => {
    await tool.put("stderr", "Error: Unable to establish IPMI v2 / RMCP+ session\n");
    await using bmc = await listener(Buffer.from("0600ff0700000000000000000010811c63", "hex"));
    await expect(driver.power.read(call({ port: bmc.port }))).rejects.toMatchObject({
      kind: "AUTHENTICATION",
      retryable: true,
    });
  });

  test("driver ipmi marks a TIMEOUT before a power change as without effect, and one after it not [R-455]", async () => {
    await tool.put("hang", "");
    await using bmc = await listener(Buffer.from("0600ff0700000000000000000010811c63200038000184040300", "hex"));
    const early = driver.power.set?.(call({ port: bmc.port }, { milliseconds: 300 }), "REBOOT");
    await expect(early).rejects.toMatchObject({ kind: "TIMEOUT", withoutEffect: true });
    await tool.reset();
    await tool.put("power", "on");
    await tool.put("deaf", "");
    const late = driver.power.set?.(call({}, { milliseconds: 700 }), "SOFT_OFF");
    await expect(late).rejects.toMatchObject({ kind: "TIMEOUT", withoutEffect: false });
  });

  test("driver ipmi does not repeat a password that ipmitool prints", async () => {
    await tool.put("stderr", `bad password ${PASSWORD}\n`);
    const failure: unknown = await driver.power.read(call()).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(IpmiError);
    expect(String((failure as Error).stack)).not.toContain(PASSWORD);
    expect((failure as Error).message).toContain("bad password ***");
  });

  test("driver ipmi reports power that the BMC does not report as UNKNOWN", async () => {
    await tool.put("power", "somewhere in between");
    expect(await driver.power.read(call())).toBe("UNKNOWN");
  });

  test("driver ipmi inspects a machine without FRU data and without sensors", async () => {
    await tool.put("bare", "");
    const outputs = [];
    for (const step of driver.inspect?.steps ?? []) outputs.push(await step.run(stepCallOf(call(), step.name)));
    expect(outputs).toEqual([
      { kind: "done", output: { bmc: { firmwareVersion: "1.74", ipmiVersion: "2.0", manufacturerId: 10876 } } },
      { kind: "done", output: { sensors: [] } },
      { kind: "done", output: {} },
    ]);
  });

  test("driver ipmi reports why an inspection failed, and whether it is retryable", async () => {
    await tool.put("stderr", "> RAKP 2 HMAC is invalid\nError: Unable to establish IPMI v2 / RMCP+ session\n");
    for (const step of driver.inspect?.steps ?? []) {
      expect(await step.run(stepCallOf(call(), step.name))).toMatchObject({
        kind: "failed",
        retryable: false,
        reason: expect.stringContaining("127.0.0.1:623"),
      });
    }
  });

  describe("discovery with the driver ipmi", () => {
    const ANSWER = Buffer.from("0600ff0700000000000000000010811c63200038000184040300", "hex");
    const LOGIN = { username: EXAMPLE.username, password: PASSWORD };
    const probe = async (settings: Record<string, unknown>, address = "127.0.0.1") => {
      const checked = await driver.discover?.settings["~standard"].validate(settings);
      if (!checked || checked.issues)
        throw new Error(`refused: ${checked?.issues?.map(({ message }) => message).join("; ")}`);
      return driver.discover?.probe({
        address,
        settings: checked.value,
        signal: new AbortController().signal,
        deadline: new Date(Date.now() + 10_000),
        log: () => undefined,
        timed: (_name, work) => work(),
      });
    };

    test("driver ipmi: a discovery returns the settings of a node at the address after a successful login", async () => {
      await using bmc = await listener(ANSWER);
      const found = await probe({ ...LOGIN, port: bmc.port, privilege: "OPERATOR" });
      expect(found).toEqual({ settings: ipmiSettings.parse({ ...EXAMPLE, port: bmc.port, privilege: "OPERATOR" }) });
      expect(await tool.commands()).toEqual(["chassis power status"]);
    });

    test("driver ipmi: a discovery does not log in if nothing answers in IPMI", async () => {
      const closed = await listener(undefined);
      await closed[Symbol.asyncDispose]();
      await expect(probe({ ...LOGIN, port: closed.port })).rejects.toMatchObject({
        name: "DriverError",
        kind: "UNREACHABLE",
        message: expect.stringContaining(`127.0.0.1:${closed.port}`),
      });
      await expect(tool.commands()).rejects.toThrow("ENOENT");
    });

    test("driver ipmi: a discovery tries the older cipher suite if the newer one is refused, unless one is set", async () => {
      await using bmc = await listener(ANSWER);
      await tool.put(
        "stderr",
        "Error in open session response message : no matching cipher suite\nError: Unable to establish IPMI v2 / RMCP+ session\n",
      );
      await expect(probe({ ...LOGIN, port: bmc.port })).rejects.toMatchObject({ kind: "REFUSED" });
      expect(await tool.file("argv")).toContain("-C\n3\n");
      expect(await tool.commands()).toHaveLength(2);
      await expect(probe({ ...LOGIN, port: bmc.port, cipherSuite: 17 })).rejects.toMatchObject({ kind: "REFUSED" });
      expect(await tool.commands()).toHaveLength(3);
    });

    test("driver ipmi: a discovery distinguishes a wrong password from a dead BMC", async () => {
      await using bmc = await listener(ANSWER);
      await expect(probe({ ...LOGIN, password: "wrong-password", port: bmc.port })).rejects.toMatchObject({
        kind: "AUTHENTICATION",
      });
    });

    test("driver ipmi: a discovery refuses settings with an address", async () => {
      await expect(probe({ ...LOGIN, address: "10.0.0.7" })).rejects.toThrow("refused");
    });
  });

  test.each([
    ["10.0.0.7", "10.0.0.7:623"],
    ["BMC-3.Rack1.example", "bmc-3.rack1.example:623"],
    ["2001:DB8:0:0::7", "[2001:db8::7]:623"],
    ["fe80::1%eth0", "[fe80::1%eth0]:623"],
  ])("driver ipmi: the controller of a BMC at %s is %s", (address, controller) => {
    expect(driver.controllerOf?.(ipmiSettings.parse({ ...EXAMPLE, address }))).toBe(controller);
  });

  test("driver ipmi without ipmitool names the package to install", async () => {
    process.env["PATH"] = "/nowhere";
    try {
      expect(() => factory({ log: () => undefined })).toThrow(/not on the PATH.*apt-get install ipmitool/);
    } finally {
      process.env["PATH"] = `${tool.folder}${delimiter}${path}`;
    }
  });
});

function call(
  settings: Partial<IpmiSettings> = {},
  bounds: { readonly signal?: AbortSignal; readonly milliseconds?: number } = {},
): Call<IpmiSettings> {
  return {
    node: { id: "00000000-0000-4000-8000-000000000001", name: "rack3-u12", powerState: "UNKNOWN", labels: {} },
    settings: ipmiSettings.parse({ ...EXAMPLE, ...settings }),
    signal: bounds.signal ?? new AbortController().signal,
    deadline: new Date(Date.now() + (bounds.milliseconds ?? 10_000)),
    log: () => undefined,
    timed: (_name, work) => work(),
  };
}

interface Listener extends AsyncDisposable {
  readonly port: number;
  questions(): number;
}

/** A UDP port that answers every request with `reply`, or none. */
async function listener(reply: Buffer | undefined): Promise<Listener> {
  const socket: Socket = createSocket("udp4");
  let questions = 0;
  socket.on("message", (_question, from) => {
    questions += 1;
    if (reply !== undefined) socket.send(reply, from.port, from.address);
  });
  socket.bind(0, "127.0.0.1");
  await once(socket, "listening");
  return {
    port: socket.address().port,
    questions: () => questions,
    async [Symbol.asyncDispose]() {
      socket.close();
      await once(socket, "close");
    },
  };
}

interface FakeIpmitool {
  readonly folder: string;
  file(name: string): Promise<string>;
  put(name: string, text: string): Promise<void>;
  /** Its calls, without the arguments of the session. */
  commands(): Promise<string[]>;
  reset(): Promise<void>;
}

/** Simulates a machine in files of its folder, and records its calls. */
const FAKE = `#!/bin/sh
here=$(dirname "$0")
printf '%s\\n' "$@" >"$here/argv"
env >"$here/environment"
while [ "$1" != -v ]; do shift; done
shift
echo "$*" >>"$here/commands"
if [ -e "$here/hang" ]; then exec sleep 30; fi
if [ "$IPMI_PASSWORD" != '${PASSWORD}' ]; then
  echo '> RAKP 2 HMAC is invalid' >&2
  echo 'Error: Unable to establish IPMI v2 / RMCP+ session' >&2
  exit 1
fi
if [ -e "$here/stderr" ]; then cat "$here/stderr" >&2; exit "$(cat "$here/code" 2>/dev/null || echo 1)"; fi
case "$*" in
  'chassis power on')
    if [ -e "$here/lost" ]; then rm "$here/lost"; echo 'Chassis Power Control: Up/On'; exit 0; fi
    if [ -e "$here/early" ]; then cat "$here/early" >&2; rm "$here/early"; exit 1; fi
    if [ -e "$here/late" ]; then cat "$here/late" >&2; exit 1; fi ;;
esac
case "$*" in
  'chassis power status') echo "Chassis Power is $(cat "$here/power")" ;;
  'chassis power on') echo on >"$here/power"; echo 'Chassis Power Control: Up/On' ;;
  'chassis power off') echo off >"$here/power"; echo 'Chassis Power Control: Down/Off' ;;
  'chassis power soft') [ -e "$here/deaf" ] || echo off >"$here/power"; echo 'Chassis Power Control: Soft' ;;
  'chassis bootdev '*)
    case "$3" in pxe) device=04 ;; disk) device=08 ;; cdrom) device=14 ;; *) device=18 ;; esac
    case "$4" in *efiboot,persistent) flags=e0 ;; *efiboot) flags=a0 ;; *persistent) flags=c0 ;; *) flags=80 ;; esac
    if [ -e "$here/once-only" ]; then flags=a0; fi
    if [ -e "$here/legacy-only" ]; then flags=80; fi
    if [ -e "$here/unmarked" ]; then flags=00; fi
    if [ -e "$here/forgets" ] || rm "$here/forgets-once" 2>/dev/null; then flags=00; device=00; fi
    echo "$flags$device" > "$here/boot"; echo "Set Boot Device to $3" ;;
  'raw 0x00 0x08 0x03 0x08') echo 'Unable to send RAW command (channel=0x0 netfn=0x0 lun=0x0 cmd=0x8 rsp=0x80): Unknown (0x80)' >&2; exit 1 ;;
  'chassis bootparam get 5')
    if [ -e "$here/flagless" ]; then echo 'Get Chassis Boot Parameter 5 failed: Parameter not supported' >&2; exit 1; fi
    echo "Boot parameter data: $(cat "$here/boot" 2>/dev/null || echo 8004)000000" ;;
  'mc info') printf 'Firmware Revision         : 1.74\\nIPMI Version              : 2.0\\nManufacturer ID           : 10876\\nAdditional Device Support :\\n    Sensor Device\\n    Chassis Device\\n' ;;
  'fru print 0')
    if [ -e "$here/bare" ]; then echo ' Device not present (Requested sensor, data, or record not found)'; exit 1; fi
    printf ' Product Manufacturer  : Acme\\n Product Serial        : S-1\\n' ;;
  '-c sdr elist') [ -e "$here/bare" ] || echo 'Inlet,23,degrees C,ok,7.1,System Board,Temperature,,' ;;
  *) echo "Invalid command: $*" >&2; exit 1 ;;
esac
`;

async function fakeIpmitool(): Promise<FakeIpmitool> {
  const folder = await mkdtemp(join(tmpdir(), "ostler-fake-ipmitool-"));
  await writeFile(join(folder, "ipmitool"), FAKE, { mode: 0o755 });
  const file = (name: string) => readFile(join(folder, name), "utf8");
  const put = (name: string, text: string) => writeFile(join(folder, name), text);
  return {
    folder,
    file,
    put,
    commands: async () => (await file("commands")).trim().split("\n"),
    async reset() {
      for (const name of await readdir(folder))
        if (name !== "ipmitool") await rm(join(folder, name), { recursive: true, force: true });
      await put("power", "off");
    },
  };
}
