/** Driver `redfish` against BMCs that report what is not so, as operators have described them in public. */
import { describe, expect, test } from "vitest";
import { messagesOf } from "../../plugins/redfish/messages.ts";
import { isFiller } from "../../plugins/bmc-settings.ts";
import { PRESETS } from "../../packages/bmc-simulator/src/index.ts";
import type { QuirkName, Traits } from "../../packages/bmc-simulator/src/index.ts";
import { redfishLab, serveImages } from "../support/redfish.ts";
import type { RedfishLab } from "../support/redfish.ts";

const IMAGE = "http://10.0.0.1/a.iso";
const once = { persistent: false } as const;
const quirk = (...quirks: readonly QuirkName[]): Partial<Traits> => ({ quirks });
const images = (lab: RedfishLab) => Object.values(lab.bmc.state.media).map(({ image }) => image);

describe("boards that a BMC lists as systems", () => {
  test("board that answers 503 does not keep the node from its system, also in a discovery [R-1324]", async () => {
    await using lab = await redfishLab({ traits: quirk("gpu-board-fails") });
    const { driver, call, settings, bmc } = lab;
    await driver.power.set?.(call(), "ON");
    expect(bmc.state.power).toBe("On");
    const { address: _, ...login } = settings;
    const found = await driver.discover?.probe({ ...call(), address: "127.0.0.1", settings: login });
    expect(found).toEqual([expect.objectContaining({ serial: bmc.system.serialNumber })]);
    expect(found).not.toMatchObject([{ settings: { system: expect.anything() } }]);
  });

  test("drives of a chassis that names no system are erased beside such a board [R-1324]", async () => {
    const storage = { ...PRESETS.reference.storage, collection: "unlinked", alsoIn: "chassis" } as const;
    const traits = { storage, omits: ["ComputerSystem.Links"], ...quirk("gpu-board-fails") };
    await using lab = await redfishLab({ traits });
    expect(await lab.step("secure_erase")).toMatchObject({ kind: "done" });
    expect(Object.keys(lab.bmc.state.erased)).toHaveLength(4);
  });
});

describe("virtual CD of a BMC whose Cd is the drive in the machine", () => {
  test.each(["virtual-cd-by-attributes", "virtual-cd-by-import"] as const)(
    "%s: the system starts from the medium, once [R-1325]",
    async (name) => {
      await using lab = await redfishLab({ traits: { ...PRESETS["idrac-like"], ...quirk(name) } });
      const { driver, call, bmc } = lab;
      await driver.media?.insert(call(), IMAGE, { writeProtected: true });
      for (const bootedFrom of ["Cd", "Hdd"]) {
        if (bootedFrom === "Cd") await driver.power.setBootDevice?.(call(), "CDROM", once);
        await driver.power.set?.(call(), "REBOOT");
        expect(bmc.state.bootedFrom).toBe(bootedFrom);
      }
    },
  );

  test("the drive in the machine is started without a medium, and as the other boot source [R-1325]", async () => {
    await using lab = await redfishLab({ traits: { ...PRESETS["idrac-like"], ...quirk("virtual-cd-by-import") } });
    const { driver, call, bmc } = lab;
    await driver.power.setBootDevice?.(call(), "CDROM", once);
    expect(bmc.state.boot.target).toBe("Cd");
    await driver.media?.insert(call(), IMAGE, { writeProtected: true });
    await driver.power.setBootDevice?.(call(), "CDROM", { ...once, other: true });
    await driver.power.set?.(call(), "ON");
    expect(bmc.state.bootedFrom).toBe("drive in the machine");
  });

  test("Cd is requested if the BMC refuses both ways [R-1325]", async () => {
    await using lab = await redfishLab({ traits: { ...PRESETS["idrac-like"], ...quirk("virtual-cd-by-import") } });
    const { driver, call, bmc } = lab;
    await driver.media?.insert(call(), IMAGE, { writeProtected: true });
    bmc.faults.add({ kind: "answer", status: 400, body: "error", path: "ImportSystemConfiguration" });
    await driver.power.setBootDevice?.(call(), "CDROM", once);
    expect(bmc.state.boot.target).toBe("Cd");
  });
});

describe("tasks that do not show their end", () => {
  const KINDS = ["tasks-stay-running", "tasks-without-state", "tasks-vanish", "task-states-in-words"] as const;

  test.each(KINDS)("%s: an update, an erasure and a change of the BIOS end [R-1326]", async (name) => {
    await using files = await serveImages();
    const bios = { ...PRESETS.reference.bios, task: true };
    const update = { ...PRESETS.reference.update, taskIn: "location-of-task" } as const;
    await using lab = await redfishLab({ traits: { bios, update, ...quirk(name) } });
    lab.bmc.state.power = "On";
    const components = [{ id: "BIOS", url: `${files.url}/BIOS/2.0.0`, version: "2.0.0" }];
    expect(await lab.step("update_firmware", { components })).toMatchObject({ kind: "done" });
    expect(await lab.step("secure_erase")).toMatchObject({ kind: "done" });
    expect(Object.keys(lab.bmc.state.erased)).toHaveLength(4);
    const settings = { NumaNodesPerSocket: 4 };
    expect(await lab.step("apply_bios_settings", { settings })).toMatchObject({ kind: "done" });
    expect(lab.bmc.state.bios).toMatchObject(settings);
  });

  test("failure in words of a vendor fails the step with its reason [R-1326]", async () => {
    await using files = await serveImages();
    await using lab = await redfishLab({ traits: quirk("task-states-in-words") });
    const components = [{ id: "BIOS", url: `${files.url}/NIC/2.0.0`, version: "2.0.0" }];
    const ended = await lab.step("update_firmware", { components });
    expect(ended).toMatchObject({ kind: "failed", reason: expect.stringContaining("Completed with Errors") });
  });

  test("task at 100 % is given minutes before the machine is restarted [R-1326]", async () => {
    await using files = await serveImages();
    await using lab = await redfishLab({ traits: quirk("tasks-stay-running") });
    lab.bmc.state.power = "On";
    const components = [{ id: "BIOS", url: `${files.url}/BIOS/2.0.0`, version: "2.0.0" }];
    let result = await lab.enter("update_firmware", { components });
    for (let entries = 0; entries < 25 && result.kind === "wait"; entries += 1) {
      result = await lab.enter("update_firmware", { components }, { memo: result.memo });
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    expect(result).toMatchObject({ kind: "wait", memo: { state: "SENT" } });
    expect(lab.bmc.state.bootedFrom).toBeNull();
  });
});

describe("changes that a BMC answers with an error of its own", () => {
  test.each(["boot-fails-twice", "boot-fails-and-holds"] as const)(
    "%s: the boot device is set [R-1327]",
    async (name) => {
      await using lab = await redfishLab({ traits: quirk(name) });
      await lab.driver.power.setBootDevice?.(lab.call(), "PXE", once);
      expect(lab.bmc.state.boot).toMatchObject({ target: "Pxe", enabled: "Once" });
    },
  );

  test("change that fails each time is reported, and is not taken for a refusal for good [R-1327]", async () => {
    await using lab = await redfishLab({ traits: quirk("boot-fails-while-off") });
    const { driver, call, bmc } = lab;
    await expect(driver.power.setBootDevice?.(call(), "PXE", once)).rejects.toMatchObject({
      kind: "REFUSED",
      retryable: true,
      message: expect.stringContaining("internal service error"),
    });
    await driver.power.set?.(call(), "ON");
    await driver.power.setBootDevice?.(call(), "PXE", once);
    expect(bmc.state.boot.target).toBe("Pxe");
  });

  test("boot source that becomes one for every start is accepted, and the log says so [R-1328]", async () => {
    await using lab = await redfishLab({ traits: quirk("once-is-kept") });
    const { driver, call, logged } = lab;
    await driver.power.setBootDevice?.(call(), "PXE", once);
    expect(logged.at(-1)).toContain("keeps it for every start");
    expect(await driver.power.readBootDevice?.(call())).toMatchObject({ device: "PXE", persistent: true });
  });
});

describe("answers that say less or other than what is", () => {
  test("drive that shows an ejected medium without end takes another one and gives it back [R-1329]", async () => {
    await using lab = await redfishLab({ traits: quirk("media-stays-shown") });
    const { driver, call } = lab;
    for (const url of ["http://10.0.0.1/old.iso", IMAGE]) {
      await driver.media?.insert(call(), url, { writeProtected: true });
      expect(images(lab)).toEqual([url]);
      await driver.media?.eject(call());
      expect(images(lab)).toEqual([]);
    }
  });

  test("303 with the path of a task is followed, not taken for a refusal [R-1330]", async () => {
    await using files = await serveImages();
    await using lab = await redfishLab({ traits: quirk("answers-elsewhere") });
    const components = [{ id: "BMC", url: `${files.url}/BMC/2.0.0`, version: "2.0.0" }];
    expect(await lab.step("update_firmware", { components })).toMatchObject({ kind: "done" });
  });

  test("numbers of the BIOS that are texts are compared as numbers [R-1331]", async () => {
    await using lab = await redfishLab({ traits: quirk("bios-as-texts") });
    const read = await lab.driver.bios?.read(lab.call());
    expect(read?.find(({ name }) => name === "WatchdogEnabled")).toMatchObject({ type: "BOOLEAN", value: false });
    const settings = { NumaNodesPerSocket: 4, WatchdogEnabled: true };
    expect(await lab.step("apply_bios_settings", { settings })).toMatchObject({ kind: "done" });
  });

  test("BIOS settings are sent without the time of their change to a BMC that does not take it [R-780]", async () => {
    await using lab = await redfishLab({ traits: quirk("bios-without-apply-time") });
    const settings = { NumaNodesPerSocket: 4 };
    expect(await lab.step("apply_bios_settings", { settings })).toMatchObject({ kind: "done" });
  });

  test("BIOS settings are sent after the restart that an earlier change waits for [R-780]", async () => {
    await using lab = await redfishLab({ traits: quirk("bios-job-waits") });
    const settings = { NumaNodesPerSocket: 4 };
    expect(await lab.step("apply_bios_settings", { settings })).toMatchObject({ kind: "done" });
    expect(lab.bmc.state.bios).toMatchObject(settings);
  });

  test("control characters within texts do not make an answer unreadable [R-1332]", async () => {
    await using lab = await redfishLab();
    lab.bmc.faults.add({ kind: "control-characters" });
    const result = await lab.step("read_inventory");
    expect(result).toMatchObject({ kind: "done", output: { manufacturer: PRESETS.reference.manufacturer } });
    expect((result as { output: object }).output).not.toHaveProperty("unread");
  });

  test("system without any value is not taken for one that offers nothing [R-1333]", async () => {
    await using lab = await redfishLab({ traits: quirk("system-is-empty") });
    const { driver, call, bmc } = lab;
    await expect(driver.power.set?.(call(), "ON")).rejects.toMatchObject({
      kind: "OTHER",
      retryable: true,
      away: true,
    });
    await expect(driver.power.read(call())).rejects.toMatchObject({ retryable: true });
    await driver.power.set?.(call(), "ON");
    expect(bmc.state.power).toBe("On");
  });

  test("BMC that lists no system, as while it starts, may be asked again [R-1333]", async () => {
    await using lab = await redfishLab();
    lab.bmc.faults.add({ kind: "answer", status: 200, body: "empty-list", path: "/redfish/v1/Systems", times: 1 });
    await expect(lab.driver.power.read(lab.call())).rejects.toMatchObject({ retryable: true });
    expect(await lab.driver.power.read(lab.call())).toBe("OFF");
  });

  test("error with one message in place of a list is understood [R-780]", async () => {
    await using lab = await redfishLab({ traits: quirk("message-is-no-list") });
    await lab.driver.media?.insert(lab.call(), IMAGE, { writeProtected: true });
    expect(images(lab)).toEqual([IMAGE]);
    expect(messagesOf({ error: { "@Message.ExtendedInfo": { Message: "It is missing." } } })).toEqual([
      "It is missing.",
    ]);
  });

  test.each(["03000200-0400-0500-0006-000700080009", "00020003-0004-0005-0006-000700080009"])(
    "UUID %s, which firmware has as delivered, identifies no machine [R-1303]",
    (uuid) => {
      expect(isFiller(uuid)).toBe(true);
    },
  );
});
