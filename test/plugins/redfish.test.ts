/** Driver `redfish` against simulated BMCs of different kinds: settings, power, boot, media, reads, discovery. */
import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { describe, expect, test } from "vitest";
import { controllerOf } from "../../plugins/bmc-settings.ts";
import { redfishSettings } from "../../plugins/redfish/settings.ts";
import { PRESETS, PRESET_NAMES } from "../../packages/bmc-simulator/src/index.ts";
import type { Fault, Traits } from "../../packages/bmc-simulator/src/index.ts";
import { redfishLab } from "../support/redfish.ts";
import type { RedfishLab } from "../support/redfish.ts";

const EXAMPLE = { address: "bmc-3.example", username: "admin", password: "Tr0ub4dor&3" };

describe("Redfish settings", () => {
  test("Redfish settings require an address, a user name and a password", () => {
    expect(redfishSettings.parse(EXAMPLE)).toEqual({
      ...EXAMPLE,
      port: 443,
      scheme: "HTTPS",
      verifyCertificate: true,
    });
  });

  test.each([
    ["an address that is a URL", { address: "https://bmc" }],
    ["an address with a path", { address: "bmc/redfish" }],
    ["an address with a port", { address: "10.0.0.1:22" }],
    ["an IPv6 address with a port", { address: "[fd00::7]:443" }],
    ["an IPv6 address with a zone, which URLs cannot name", { address: "fe80::1%eth0" }],
    ["a number out of range in an IP address", { address: "10.0.0.300" }],
    ["an IP address that lacks a number", { address: "10.0.1" }],
    ["a broken IPv6 address", { address: "fd00::7::1" }],
    ["an address with an empty label", { address: "bmc..example" }],
    ["a certificate that cannot be read", { certificateAuthority: "-----BEGIN CERTIFICATE-----\nMIIB\n" }],
    ["an empty address", { address: "" }],
    ["a port out of range", { port: 65536 }],
    ["a user name with a colon", { username: "a:b" }],
    ["an empty password", { password: "" }],
    ["a password with a line break, which would end a header", { password: "a\nb" }],
    ["a certificate that is not PEM", { certificateAuthority: "MIIB" }],
    ["a fingerprint of SHA-1", { fingerprint: "AB".repeat(20) }],
    ["a misspelt field", { adress: "10.0.0.1" }],
  ])("Redfish settings refuse %s", (_what, change) => {
    expect(redfishSettings.safeParse({ ...EXAMPLE, ...change }).success).toBe(false);
  });

  test("Redfish settings say how to give an address that has more than a host [R-834]", () => {
    const messageFor = (address: string) =>
      redfishSettings.safeParse({ ...EXAMPLE, address }).error?.issues.map(({ message }) => message);
    const remedy = ["is not a host name or IP address; give it without a scheme, a port and a path"];
    for (const address of ["10.0.0.1:22", "https://bmc-7.example/", "[fd00::7]:443"])
      expect(messageFor(address)).toEqual(remedy);
    expect(messageFor("10.0.0.300")).toEqual(["is not a host name or IP address"]);
  });

  test("Redfish identifies a BMC by its address and port, whatever the notation", () => {
    expect(controllerOf({ address: "FE80:0:0::1", port: 443 })).toBe("[fe80::1]:443");
    expect(controllerOf({ address: "BMC-3.Example", port: 443 })).toBe("bmc-3.example:443");
  });
});

describe.each(PRESET_NAMES)("Redfish driver and a BMC of the kind %s", (preset) => {
  test(`${preset}: power goes on, off and on again, and a repeated request changes nothing [R-390]`, async () => {
    await using lab = await redfishLab({ traits: preset });
    const { driver, call } = lab;
    expect(await driver.power.read(call())).toBe("OFF");
    for (const [action, state] of [
      ["ON", "ON"],
      ["ON", "ON"],
      ["REBOOT", "ON"],
      ["OFF", "OFF"],
      ["OFF", "OFF"],
      ["REBOOT", "ON"],
    ] as const) {
      await driver.power.set?.(call(), action);
      expect(await driver.power.read(call())).toBe(state);
    }
    expect(lab.logged.filter((line) => line.includes("reset type"))).not.toHaveLength(0);
  });

  test(`${preset}: the boot device for the next start is used once, and a persistent one stays [R-391]`, async () => {
    await using lab = await redfishLab({ traits: preset });
    const { driver, call, bmc } = lab;
    await driver.power.setBootDevice?.(call(), "PXE", { persistent: false });
    expect(await driver.power.readBootDevice?.(call())).toMatchObject({ device: "PXE", persistent: false });
    await driver.power.set?.(call(), "ON");
    expect(bmc.state.bootedFrom).toBe("Pxe");
    expect(await driver.power.readBootDevice?.(call())).toMatchObject({ device: null });
    await driver.power.setBootDevice?.(call(), "DISK", { persistent: true });
    await driver.power.set?.(call(), "REBOOT");
    expect(await driver.power.readBootDevice?.(call())).toMatchObject({ device: "DISK", persistent: true });
  });

  test(`${preset}: a medium is inserted, replaced and ejected, and each request can be repeated`, async () => {
    await using lab = await redfishLab({ traits: preset });
    const { driver, call, bmc } = lab;
    await driver.media?.eject(call());
    const images = () => Object.values(bmc.state.media).map(({ image }) => image);
    for (const url of ["http://10.0.0.1/a.iso", "http://10.0.0.1/a.iso", "http://10.0.0.1/b.iso"]) {
      await driver.media?.insert(call(), url, { writeProtected: true });
      expect(images()).toEqual([url]);
    }
    for (let times = 0; times < 2; times += 1) {
      await driver.media?.eject(call());
      expect(images()).toEqual([]);
    }
  });

  test(`${preset}: inspection reads the machine, and reports what could not be read [R-392]`, async () => {
    await using lab = await redfishLab({ traits: preset });
    const result = await lab.step("read_inventory");
    expect(result.kind).toBe("done");
    const { output } = result as { output: Record<string, unknown> };
    expect(output).toMatchObject({
      manufacturer: PRESETS[preset].manufacturer,
      model: PRESETS[preset].model,
      memoryBytes: 256 * 1024 ** 3,
      health: "OK",
    });
    expect(output["processors"]).toHaveLength(2);
    expect(output["memoryModules"]).toHaveLength(8);
    expect(output["disks"]).toHaveLength(4);
    expect((output["networkInterfaces"] as { mac: string }[]).map(({ mac }) => mac)).toEqual([...lab.bmc.system.macs]);
    expect(output["pciDevices"]).toHaveLength(2);
    expect(output["powerSupplies"]).toHaveLength(2);
    expect(output["firmware"]).toHaveLength(5);
    expect(output["unread"]).toBeUndefined();
  });

  test(`${preset}: firmware and BIOS settings are read, with types and allowed values of the registry`, async () => {
    await using lab = await redfishLab({ traits: preset });
    const { driver, call } = lab;
    const firmware = await driver.firmware?.read(call());
    expect(firmware?.find(({ id }) => id === "BIOS")).toMatchObject({ version: "1.8.2", updateable: true });
    const bios = await driver.bios?.read(call());
    const attribute = (name: string) => bios?.find((one) => one.name === name);
    expect(attribute("BootMode")).toEqual({
      name: "BootMode",
      title: "Boot mode",
      type: "ENUMERATION",
      value: "Uefi",
      allowedValues: ["Uefi", "Bios"],
      readOnly: false,
    });
    expect(attribute("NumaNodesPerSocket")).toMatchObject({ type: "INTEGER", minimum: 1, maximum: 4 });
    expect(attribute("WatchdogEnabled")).toMatchObject({ type: "BOOLEAN", value: false });
    expect(attribute("SetupPassword")).toMatchObject({ type: "PASSWORD", value: null });
    expect(attribute("SystemCpldVersion")).toMatchObject({ readOnly: true });
  });

  test(`${preset}: abilities and discovery report what the BMC says about itself`, async () => {
    await using lab = await redfishLab({ traits: preset });
    const { driver, call, settings } = lab;
    const abilities = new Map((await driver.abilities?.(call()))?.map(({ name, works }) => [name, works]));
    const { storage } = PRESETS[preset];
    expect(abilities.get("power.ON")).toBe(true);
    expect(abilities.get("media")).toBe(true);
    expect(abilities.get("clean.secure_erase")).toBe(storage.secureErase);
    const { address: _, ...login } = settings;
    const found = await driver.discover?.probe({ ...call(), address: "127.0.0.1", settings: login });
    expect(found).toMatchObject([{ settings }]);
  });
});

describe("Redfish power by the reset types that a machine offers", () => {
  const power = (resetTypes: Traits["power"]["resetTypes"]): Partial<Traits> => ({
    power: { ...PRESETS.reference.power, resetTypes, resetTypesListed: "allowable-values" },
  });

  test.each<[string, Traits["power"]["resetTypes"], "ON" | "OFF" | "SOFT_OFF" | "REBOOT", string]>([
    ["On", ["On", "PushPowerButton"], "ON", "On"],
    ["ForceOn, without On", ["ForceOn", "ForceOff"], "ON", "ForceOn"],
    ["the power button, without On and ForceOn", ["PushPowerButton", "ForceOff"], "ON", "PushPowerButton"],
    ["GracefulShutdown", ["GracefulShutdown", "PushPowerButton"], "SOFT_OFF", "GracefulShutdown"],
    ["the power button, without GracefulShutdown", ["PushPowerButton", "ForceOff"], "SOFT_OFF", "PushPowerButton"],
    ["PowerCycle, where it cannot be forced off", ["On", "PowerCycle", "ForceRestart"], "REBOOT", "PowerCycle"],
    ["ForceRestart, where that is all", ["On", "ForceRestart"], "REBOOT", "ForceRestart"],
  ])("Redfish uses %s [R-390]", async (_what, offered, action, type) => {
    await using lab = await redfishLab({ traits: power(offered) });
    const { driver, call, logged } = lab;
    if (action !== "ON") lab.bmc.state.power = "On";
    await driver.power.set?.(call(), action);
    expect(logged.join("\n")).toContain(`reset type ${type}.`);
  });

  test("Redfish waits until a machine that it cannot force off was off, and is on again [R-805]", async () => {
    const traits = { power: { ...PRESETS["idrac-like"].power, resetTypes: ["On", "PowerCycle"] as const } };
    await using lab = await redfishLab({ traits, timing: { powerOffMs: 1500, powerOnMs: 500 } });
    lab.bmc.state.power = "On";
    await lab.driver.power.set?.(lab.call({ seconds: 30 }), "REBOOT");
    expect(lab.bmc.state).toMatchObject({ power: "On", bootedFrom: "Hdd" });
  });

  test.each<["ON" | "REBOOT", Fault, RegExp]>([
    ["REBOOT", { kind: "reset" }, /connection broke/],
    ["REBOOT", { kind: "answer", status: 200, body: "page" }, /is a page/],
    ["ON", { kind: "answer", status: 200, body: "page" }, /is a page/],
  ])(
    "Redfish does not take %s for done after a request that was not answered: $kind [R-805]",
    async (action, fault, says) => {
      await using lab = await redfishLab({ traits: power(["On", "ForceRestart"]) });
      if (action === "REBOOT") lab.bmc.state.power = "On";
      lab.bmc.faults.set([{ ...fault, path: "ComputerSystem.Reset" }]);
      await expect(lab.driver.power.set?.(lab.call({ seconds: 5 }), action)).rejects.toThrow(says);
    },
  );

  test("Redfish ends a graceful shutdown when the machine is off", async () => {
    await using lab = await redfishLab();
    lab.bmc.state.power = "On";
    await lab.driver.power.set?.(lab.call(), "SOFT_OFF");
    expect(await lab.driver.power.read(lab.call())).toBe("OFF");
  });

  test("Redfish asks a machine that lists no reset types, and reports its refusal [R-393]", async () => {
    await using lab = await redfishLab({ traits: "minimal" });
    lab.bmc.state.power = "On";
    await expect(lab.driver.power.set?.(lab.call(), "SOFT_OFF")).rejects.toMatchObject({
      kind: "REFUSED",
      message: expect.stringContaining("ResetType GracefulShutdown is not supported"),
    });
  });

  test("Redfish reports UNSUPPORTED, with the offered types, when none of them fits [R-393]", async () => {
    await using lab = await redfishLab({ traits: power(["On", "Nmi"]) });
    lab.bmc.state.power = "On";
    await expect(lab.driver.power.set?.(lab.call(), "OFF")).rejects.toMatchObject({
      kind: "UNSUPPORTED",
      message: expect.stringContaining("it offers: On, Nmi"),
    });
  });

  test("Redfish switches a machine on that cannot be forced off, for a reboot while it is off", async () => {
    await using lab = await redfishLab({ traits: power(["On", "ForceRestart"]) });
    await lab.driver.power.set?.(lab.call(), "REBOOT");
    expect(lab.bmc.state.power).toBe("On");
  });

  test("Redfish continues a reboot that was cut off between off and on", async () => {
    await using lab = await redfishLab();
    const { driver, call, bmc } = lab;
    await driver.power.set?.(call(), "ON");
    const cut = new AbortController();
    const rebooting = driver.power.set?.(call({ signal: cut.signal }), "REBOOT");
    while (bmc.state.power === "On") await new Promise((resolve) => setTimeout(resolve, 5));
    cut.abort(new Error("killed"));
    await expect(rebooting).rejects.toThrow("killed");
    await driver.power.set?.(call(), "REBOOT");
    expect(bmc.state.power).toBe("On");
  });

  test.each(["ON", "OFF"] as const)(
    "request %s that a BMC accepted and lost is made again [R-1300]",
    async (wanted) => {
      await using lab = await redfishLab({ traits: { quirks: ["first-reset-lost"] } });
      lab.bmc.state.power = wanted === "ON" ? "Off" : "On";
      await lab.driver.power.set?.(lab.call({ seconds: 4 }), wanted);
      expect(lab.bmc.state.power).toBe(wanted === "ON" ? "On" : "Off");
    },
  );

  test("push of the button that a BMC accepted and lost is not made again [R-1300]", async () => {
    await using lab = await redfishLab({
      traits: { ...power(["PushPowerButton", "ForceOff"]), quirks: ["first-reset-lost"] },
    });
    await expect(lab.driver.power.set?.(lab.call({ seconds: 2 }), "ON")).rejects.toMatchObject({ kind: "TIMEOUT" });
    expect(lab.bmc.state.power).toBe("Off");
  });

  test("machine that shows PoweringOn without end is asked again [R-1300]", async () => {
    await using lab = await redfishLab();
    lab.bmc.state.power = "PoweringOn";
    const changed = lab.driver.power.set?.(lab.call({ seconds: 4 }), "ON");
    await expect(changed).rejects.toMatchObject({ kind: "TIMEOUT" });
    expect(lab.logged.filter((line) => line.endsWith("reset type On."))).not.toHaveLength(0);
  });

  test("Redfish does not fail when a BMC refuses what it is doing already, and shows the old state", async () => {
    const traits = { power: { ...PRESETS["idrac-like"].power, illegalReset: 409 as const } };
    await using lab = await redfishLab({ traits, timing: { powerOnMs: 600 } });
    const { driver, call, bmc } = lab;
    await Promise.all([driver.power.set?.(call(), "ON"), driver.power.set?.(call(), "ON")]);
    expect(bmc.state.power).toBe("On");
  });
});

describe("Redfish driver and a refusal that says what to do", () => {
  const BOOT = { device: "PXE", persistent: false } as const;

  test.each([
    ["refused-during-post", "reference"],
    ["boot-at-settings", "reference"],
    ["refuses-own-etags", "reference"],
    ["strong-etags-only", "ilo-like"],
    ["refuses-same-values", "reference"],
    ["first-boot-change-lost", "reference"],
    ["post-moves", "reference"],
    ["mode-required", "reference"],
    ["conditions-required", "reference"],
    ["too-early", "reference"],
    ["reset-behind-gateway", "reference"],
    ["reset-type-refused", "supermicro-like"],
  ] as const)("BMC with the quirk %s takes a boot device, also a second time [R-780]", async (quirk, preset) => {
    await using lab = await redfishLab({ traits: { ...PRESETS[preset], quirks: [quirk] } });
    const { driver, call, bmc } = lab;
    for (let times = 0; times < 2; times += 1) {
      await driver.power.setBootDevice?.(call({ seconds: 6 }), BOOT.device, BOOT);
      expect(bmc.state.boot).toMatchObject({ target: "Pxe", enabled: "Once" });
    }
    await driver.power.set?.(call(), "ON");
    expect(bmc.state.bootedFrom).toBe("Pxe");
  });

  test.each([
    ["media-needs-parameters", "reference"],
    ["media-takes-image-only", "reference"],
    ["media-refused-in-text", "reference"],
    ["media-by-patch-only", "xcc-like"],
  ] as const)("BMC with the quirk %s takes a medium [R-780]", async (quirk, preset) => {
    await using lab = await redfishLab({ traits: { ...PRESETS[preset], quirks: [quirk] } });
    await lab.driver.media?.insert(lab.call(), "http://10.0.0.1/a.iso", { writeProtected: true });
    expect(Object.values(lab.bmc.state.media).map(({ image }) => image)).toEqual(["http://10.0.0.1/a.iso"]);
  });

  const images = (lab: RedfishLab) => Object.values(lab.bmc.state.media).map(({ image }) => image);

  test.each(["media-first-refuses", "media-image-stays", "other-manager-first"] as const)(
    "BMC with the quirk %s takes a medium and gives it back, each also a second time [R-1302]",
    async (quirk) => {
      await using lab = await redfishLab({ traits: { quirks: [quirk] } });
      const { driver, call } = lab;
      for (const url of ["http://10.0.0.1/a.iso", "http://10.0.0.1/b.iso"]) {
        for (let times = 0; times < 2; times += 1) {
          await driver.media?.insert(call(), url, { writeProtected: true });
          expect(images(lab)).toEqual([url]);
        }
        for (let times = 0; times < 2; times += 1) await driver.media?.eject(call());
        expect(images(lab)).toEqual([]);
      }
    },
  );

  test("medium that the BMC names and does not insert is not reported as inserted [R-1302]", async () => {
    await using lab = await redfishLab({ traits: { quirks: ["media-never-inserted"] } });
    const inserted = lab.driver.media?.insert(lab.call({ seconds: 2 }), "http://10.0.0.1/a.iso", {
      writeProtected: true,
    });
    await expect(inserted).rejects.toMatchObject({ kind: "TIMEOUT", message: expect.stringContaining("not report") });
  });

  test("BMC that never leaves its self-test is reported with its own words, before the deadline [R-780]", async () => {
    await using lab = await redfishLab({ traits: { quirks: ["refused-during-post"] } });
    lab.bmc.state.quirkCounts["refused-during-post"] = -1_000;
    await expect(lab.driver.power.setBootDevice?.(lab.call({ seconds: 2 }), "PXE", BOOT)).rejects.toMatchObject({
      kind: "REFUSED",
      message: expect.stringContaining("Unable to modify while the system is in POST"),
    });
  });

  test("BMC whose boot mode changes without a request is asked once more, with the mode [R-391]", async () => {
    await using lab = await redfishLab({ traits: { quirks: ["mode-resets"] } });
    await lab.driver.power.setBootDevice?.(lab.call(), "PXE", { persistent: false, mode: "UEFI" });
    expect(lab.bmc.state.boot).toMatchObject({ target: "Pxe", mode: "UEFI" });
    expect(lab.logged.at(-1)).toContain("Pxe, Once, UEFI");
  });
});

describe("Redfish inspection of a machine with parts that cannot be read", () => {
  const inspected = async (traits: Partial<Traits>) => {
    await using lab = await redfishLab({ traits });
    const result = await lab.step("read_inventory");
    if (result.kind !== "done") throw new Error(JSON.stringify(result));
    return result.output as Readonly<Record<string, readonly Readonly<Record<string, unknown>>[]>>;
  };

  test("BMC that answers 400 because it is not ready is reported as away, and then inspected [R-1311]", async () => {
    await using lab = await redfishLab({ traits: { quirks: ["not-ready"] } });
    await expect(lab.driver.power.read(lab.call())).rejects.toMatchObject({ retryable: true, away: true });
    expect(await lab.step("read_inventory")).toMatchObject({ kind: "failed", retryable: true, away: true });
    expect(await lab.step("read_inventory")).toMatchObject({ kind: "done" });
  });

  test("numbers that are texts, and texts that are numbers, are read as what they are [R-1308]", async () => {
    const traits = { ...PRESETS["idrac-like"] };
    expect(await inspected({ ...traits, quirks: ["numbers-as-texts"] })).toMatchObject(await inspected(traits));
  });

  test("memory of 0 GiB is the sum of the modules [R-1308]", async () => {
    expect(await inspected({ quirks: ["memory-sum-is-zero"] })).toMatchObject({ memoryBytes: 256 * 1024 ** 3 });
  });

  test("MAC addresses have one notation, and those of other networks are left out [R-1309]", async () => {
    const { networkInterfaces = [] } = await inspected({ quirks: ["macs-of-all-kinds"] });
    const macs = networkInterfaces.map(({ mac }) => mac);
    expect(macs[0]).toMatch(/^([0-9a-f]{2}:){5}[0-9a-f]{2}$/);
    expect(macs.slice(1).every((mac) => mac === undefined)).toBe(true);
  });

  test("MAC addresses that the Ethernet interfaces lack are those of the adapters [R-1309]", async () => {
    const { networkInterfaces } = await inspected({ quirks: ["macs-missing"] });
    const { networkInterfaces: all = [] } = await inspected({});
    expect(networkInterfaces?.map(({ mac }) => mac)).toEqual(all.map(({ mac }) => mac));
  });

  test("texts that stand for no value are left out [R-1304]", async () => {
    const output = await inspected({ quirks: ["fillers"] });
    for (const name of ["serial", "uuid", "assetTag"]) expect(output[name]).toBeUndefined();
  });

  test("a drive that fails stands in unread with the reason, and the others are read [R-392]", async () => {
    const { disks, unread, incomplete } = await inspected({ quirks: ["drive-fails"] });
    expect([disks?.length, incomplete]).toEqual([3, ["disks"]]);
    expect(unread).toEqual([
      {
        path: expect.stringMatching(/\/Drives\/Disk\.1$/),
        reason: expect.stringContaining("refused (500): Internal error."),
        health: "UNKNOWN",
      },
    ]);
  });

  test("a drive that answers 200 with an error stands in unread with the reason [R-850]", async () => {
    const { disks, unread } = await inspected({ quirks: ["drive-is-error"] });
    expect(disks).toHaveLength(3);
    expect(unread).toMatchObject([
      { path: expect.stringMatching(/Disk\.1$/), reason: expect.stringMatching(/Internal/) },
    ]);
  });

  test.each(["expand-is-empty", "expand-is-status", "expand-is-short", "page-again"] as const)(
    "BMC with the quirk %s shows each member once, with its values [R-850]",
    async (quirk) => {
      const seen = await inspected({ quirks: [quirk], unsupportedQuery: "ignored" });
      const { disks, memoryModules, networkInterfaces, unread } = seen;
      expect([disks, memoryModules, unread].map((list) => list?.length)).toEqual([4, 8, undefined]);
      expect(networkInterfaces?.every(({ mac }) => typeof mac === "string")).toBe(true);
      expect(disks?.every(({ sizeBytes }) => typeof sizeBytes === "number")).toBe(true);
    },
  );

  test("a part without any value stands in unread", async () => {
    const { memoryModules, unread, incomplete } = await inspected({ quirks: ["memory-is-empty"] });
    expect([memoryModules?.length, incomplete]).toEqual([7, undefined]);
    expect(unread).toMatchObject([{ reason: "The BMC reports no value of it." }]);
  });

  test("a collection whose pages have no end was read until the timeout: it stands in unread after 200 pages [R-833]", async () => {
    await using lab = await redfishLab({ traits: { quirks: ["pages-without-end"] } });
    const result = await lab.step("read_inventory");
    expect(result).toMatchObject({
      kind: "done",
      output: { unread: [{ path: expect.stringMatching(/\/Memory$/), reason: expect.stringContaining("200 pages") }] },
    });
    expect(lab.bmc.state.quirkCounts["pages"]).toBeLessThan(210);
  });

  test("a system that cannot be read, or a BMC that stops answering, fails the inspection [R-392]", async () => {
    await using lab = await redfishLab();
    lab.bmc.faults.set([{ kind: "answer", status: 500, body: "error", path: "/Systems/1", method: "GET" }]);
    expect(await lab.step("read_inventory")).toMatchObject({ kind: "failed" });
    lab.bmc.faults.set([
      { kind: "reset", path: "/Systems/1/" },
      { kind: "reset", path: "/Chassis/" },
    ]);
    expect(await lab.step("read_inventory")).toMatchObject({ kind: "failed" });
  });
});

describe("Redfish boot devices", () => {
  test.each([
    ["UEFI", "UEFI"],
    ["BIOS", "Legacy"],
  ] as const)("Redfish requests the boot mode %s [R-391]", async (mode, redfish) => {
    await using lab = await redfishLab();
    const { driver, call, bmc } = lab;
    bmc.state.boot.mode = mode === "UEFI" ? "Legacy" : "UEFI";
    await driver.power.setBootDevice?.(call(), "PXE", { persistent: false, mode });
    expect(bmc.state.boot.mode).toBe(redfish);
    expect(await driver.power.readBootDevice?.(call())).toEqual({ device: "PXE", persistent: false, mode });
  });

  test("Redfish takes the boot mode of the node's settings where the call names none", async () => {
    await using lab = await redfishLab();
    await lab.driver.power.setBootDevice?.(lab.call({ settings: { bootMode: "BIOS" } }), "PXE", {
      persistent: false,
    });
    expect(lab.bmc.state.boot.mode).toBe("Legacy");
  });

  test("Redfish reports UNSUPPORTED for a boot device that the machine lacks [R-393]", async () => {
    const boot = { ...PRESETS.reference.boot, targets: ["None", "Pxe"] };
    await using lab = await redfishLab({ traits: { boot } });
    await expect(lab.driver.power.setBootDevice?.(lab.call(), "HTTP", { persistent: false })).rejects.toMatchObject({
      kind: "UNSUPPORTED",
      message: expect.stringContaining("it accepts: None, Pxe"),
    });
  });

  test.each<Traits["etags"]>(["none", "offered", "weak", "required"])(
    "Redfish changes the boot device at a BMC with ETags: %s",
    async (etags) => {
      await using lab = await redfishLab({ traits: { etags } });
      await lab.driver.power.setBootDevice?.(lab.call(), "CDROM", { persistent: false });
      expect(lab.bmc.state.boot.target).toBe("Cd");
    },
  );
});

describe("Redfish boot sources beside the first", () => {
  const once = { persistent: false } as const;

  test("a medium that the system starts from UsbCd only is started by the other boot source [R-802]", async () => {
    const traits = { ...PRESETS["supermicro-like"], quirks: ["starts-usb-cd-only"] as const };
    await using lab = await redfishLab({ traits });
    const { driver, call, bmc } = lab;
    await driver.media?.insert(call(), "http://10.0.0.1/a.iso", { writeProtected: true });
    for (const [options, bootedFrom] of [
      [once, "Hdd"],
      [{ ...once, other: true }, "UsbCd"],
    ] as const) {
      await driver.power.setBootDevice?.(call(), "CDROM", options);
      await driver.power.set?.(call(), "REBOOT");
      expect(bmc.state.bootedFrom).toBe(bootedFrom);
    }
  });

  test("a device with one boot source, and a system that lists none, has no other [R-802]", async () => {
    for (const traits of ["reference", "minimal"] as const) {
      await using lab = await redfishLab({ traits });
      const set = lab.driver.power.setBootDevice?.(lab.call(), "CDROM", { ...once, other: true });
      await expect(set).rejects.toMatchObject({
        kind: "UNSUPPORTED",
        message: expect.stringContaining("in place of Cd"),
      });
    }
  });

  test("HttpBootUri is set beside UefiHttp where the system has it, and nowhere else [R-803]", async () => {
    const url = "http://10.0.0.1:4010/boot/agent/x64/ipxe.efi";
    await using lab = await redfishLab({ traits: { quirks: ["http-boot-uri"] } });
    await lab.driver.power.setBootDevice?.(lab.call(), "HTTP", { ...once, url });
    await lab.driver.power.set?.(lab.call(), "ON");
    expect(lab.bmc.state).toMatchObject({ bootedFrom: "UefiHttp", boot: { httpUri: url } });
    await using plain = await redfishLab();
    await plain.driver.power.setBootDevice?.(plain.call(), "HTTP", { ...once, url });
    expect(plain.bmc.state.boot).toMatchObject({ target: "UefiHttp", httpUri: null });
  });

  test("the allowed boot sources are those of the resource that is written [R-803]", async () => {
    await using lab = await redfishLab({ traits: { quirks: ["settings-without-http"] } });
    const { driver, call } = lab;
    await expect(driver.power.setBootDevice?.(call(), "HTTP", once)).rejects.toMatchObject({ kind: "UNSUPPORTED" });
    await driver.power.setBootDevice?.(call(), "PXE", once);
    expect(lab.bmc.state.boot.target).toBe("Pxe");
  });
});

const ROOT = "/redfish/v1";
type Resource = Readonly<Record<string, unknown>>;
type Systems = Record<string, Resource>;

/** A BMC with nothing but these systems, which it reads at each request; a PATCH is kept, and replaces `Boot`. */
async function listing(systems: Systems, listed?: readonly string[]) {
  const changes: unknown[] = [];
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const path = (request.url ?? "").slice(ROOT.length);
    const one = path.replace("/Systems/", "");
    const members = (listed ?? Object.keys(systems)).map((name) => ({ "@odata.id": `${ROOT}/Systems/${name}` }));
    const found = path === "/Systems" ? { Members: members } : path === "/" ? {} : systems[one];
    if (found && request.method === "PATCH") {
      const change = (await json(request)) as { readonly Boot: Resource };
      changes.push(change);
      systems[one] = { ...found, Boot: change.Boot };
    }
    response.writeHead(found ? 200 : 404, { "content-type": "application/json" }).end(JSON.stringify(found ?? {}));
  };
  const server = createServer((request, response) => void answer(request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    settings: { port, scheme: "HTTP" },
    changes,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

describe("Redfish systems of a BMC", () => {
  const probe = async ({ driver, call, settings }: RedfishLab) => {
    const { address: _, ...login } = settings;
    return driver.discover?.probe({ ...call(), address: "127.0.0.1", settings: login });
  };

  test("of several systems the only one that can boot is the node's, also in a discovery [R-800]", async () => {
    await using lab = await redfishLab({ traits: { quirks: ["gpu-board"] } });
    lab.bmc.state.power = "Off";
    expect(await lab.driver.power.read(lab.call())).toBe("OFF");
    expect(await probe(lab)).toEqual([expect.objectContaining({ serial: lab.bmc.system.serialNumber })]);
    expect(await probe(lab)).not.toMatchObject([{ settings: { system: expect.anything() } }]);
  });

  test("of several systems that can boot the settings name one, and a discovery finds each [R-800]", async () => {
    await using lab = await redfishLab({ traits: { quirks: ["gpu-board", "two-systems"] } });
    await expect(lab.driver.power.read(lab.call())).rejects.toMatchObject({
      message: expect.stringMatching(/has 2 systems; set "system" .* to one of: Node\.2, 1\.$/),
    });
    expect(await lab.driver.power.read(lab.call({ settings: { system: "HGX" } }))).toBe("ON");
    expect(await probe(lab)).toEqual([
      expect.objectContaining({ serial: "NODE-2", settings: expect.objectContaining({ system: "Node.2" }) }),
      expect.objectContaining({ settings: expect.objectContaining({ system: "1" }) }),
    ]);
  });

  test.each([500, 404])("a system that answers %i is not passed over for another one [R-800]", async (status) => {
    await using lab = await redfishLab({ traits: { quirks: ["two-systems"] } });
    lab.bmc.faults.add({ kind: "answer", status, body: "error", path: "/Systems/Node.2" });
    await expect(lab.driver.power.read(lab.call())).rejects.toMatchObject({ status });
  });

  const SERVER = { PowerState: "On", UUID: "u-1", Boot: { BootSourceOverrideTarget: "None" } };
  const BOARD = { PowerState: "On", Boot: { "BootSourceOverrideTarget@Redfish.AllowableValues": ["None"] } };

  test("a server beside one without values is not chosen [R-800]", async () => {
    await using lab = await redfishLab();
    await using bmc = await listing({ A: SERVER, B: { ...SERVER, Bios: { "@odata.id": "/b" } } });
    await expect(lab.driver.power.read(lab.call({ settings: bmc.settings }))).rejects.toThrow(/2 systems/);
  });

  test("a board that is listed alone, as by a BMC that starts, does not stay the node's system [R-800]", async () => {
    await using lab = await redfishLab();
    const systems: Systems = { HGX: BOARD };
    await using bmc = await listing(systems);
    const read = () => lab.driver.power.read(lab.call({ settings: bmc.settings }));
    expect(await read()).toBe("ON");
    systems["A"] = { ...SERVER, PowerState: "Off" };
    expect(await read()).toBe("OFF");
  });

  test("a system whose path is gone is found by its UUID or serial number, and not replaced [R-800]", async () => {
    await using lab = await redfishLab();
    const systems: Systems = { A: SERVER };
    await using bmc = await listing(systems);
    const read = () => lab.driver.power.read(lab.call({ settings: bmc.settings }));
    expect(await read()).toBe("ON");
    delete systems["A"];
    systems["B"] = { ...SERVER, UUID: "u-2" };
    await expect(read()).rejects.toThrow(/no longer has the node's system A; set "system" .* to one of: B\./);
    systems["C"] = { ...SERVER, UUID: "U-1", PowerState: "Off" };
    expect(await read()).toBe("OFF");
  });

  test("another machine at the path of the node's is not touched until an inspection has found it [R-1334]", async () => {
    await using lab = await redfishLab();
    const systems: Systems = { A: { ...SERVER, SerialNumber: "S1" } };
    await using bmc = await listing(systems);
    const read = () => lab.driver.power.read(lab.call({ settings: bmc.settings }));
    expect(await read()).toBe("ON");
    systems["A"] = { ...SERVER, SerialNumber: "S1", UUID: "u-2", PowerState: "Off" };
    expect(await read()).toBe("OFF");
    systems["A"] = { ...SERVER, SerialNumber: "S2", UUID: "u-2" };
    await expect(read()).rejects.toMatchObject({ kind: "REFUSED", message: expect.stringContaining('number "S2"') });
    const settings = bmc.settings;
    expect(await lab.step("secure_erase", {}, { settings })).toMatchObject({ errorKind: "REFUSED" });
    expect(await lab.step("read_inventory", {}, { settings })).toMatchObject({ kind: "done" });
    expect(await read()).toBe("ON");
  });

  test("a machine without a UUID and a serial number of its own is not taken for another one [R-1303]", async () => {
    await using lab = await redfishLab();
    const blank = { ...SERVER, UUID: "00000000-0000-0000-0000-000000000000", SerialNumber: "To be filled by O.E.M." };
    const systems: Systems = { A: blank };
    await using bmc = await listing(systems);
    const read = () => lab.driver.power.read(lab.call({ settings: bmc.settings }));
    expect(await read()).toBe("ON");
    delete systems["A"];
    systems["B"] = { ...blank, PowerState: "Off" };
    await expect(read()).rejects.toThrow(/no longer has the node's system A/);
  });

  test("the boot mode is changed that only the system shows, where its settings show the boot source [R-391]", async () => {
    await using lab = await redfishLab();
    const boot = { BootSourceOverrideTarget: "None", BootSourceOverrideEnabled: "Disabled" };
    const pending: Resource = { Boot: boot };
    const system = {
      Boot: { ...boot, BootSourceOverrideMode: "Legacy" },
      "@Redfish.Settings": { SettingsObject: { "@odata.id": `${ROOT}/Systems/A/SD` } },
    };
    await using bmc = await listing({ A: system, "A/SD": pending }, ["A"]);
    const call = lab.call({ settings: bmc.settings });
    await lab.driver.power.setBootDevice?.(call, "PXE", { persistent: false, mode: "UEFI" });
    expect(bmc.changes).toEqual([
      {
        Boot: {
          BootSourceOverrideTarget: "Pxe",
          BootSourceOverrideEnabled: "Once",
          BootSourceOverrideMode: "UEFI",
        },
      },
    ]);
  });

  test("Redfish reports a system that does not exist, and the ones that do", async () => {
    await using lab = await redfishLab({ traits: "idrac-like" });
    await expect(lab.driver.power.read(lab.call({ settings: { system: "node9" } }))).rejects.toMatchObject({
      message: expect.stringContaining("to one of: System.Embedded.1"),
    });
    expect(await lab.driver.power.read(lab.call({ settings: { system: "System.Embedded.1" } }))).toBe("OFF");
  });
});
