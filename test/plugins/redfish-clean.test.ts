/** Clean steps of the driver `redfish` against simulated BMCs. */
import { describe, expect, test } from "vitest";
import { PRESETS, PRESET_NAMES } from "../../packages/bmc-simulator/src/index.ts";
import type { Traits } from "../../packages/bmc-simulator/src/traits.ts";
import type { Json } from "../../src/drivers/driver.ts";
import { redfishLab, serveImages } from "../support/redfish.ts";
import type { RedfishLab } from "../support/redfish.ts";

const KINDS = ["reference", "idrac-like", "ilo-like", "supermicro-like", "xcc-like", "minimal", "strict"] as const;

describe("Redfish step apply_bios_settings", () => {
  test.each(KINDS)(
    "BIOS settings are in effect when the step ends, on a BMC of the kind %s [R-400]",
    async (traits) => {
      await using lab = await redfishLab({ traits });
      const settings = { SriovGlobalEnable: "Enabled", NumaNodesPerSocket: 2, WatchdogEnabled: true, BootMode: "Uefi" };
      expect(await lab.step("apply_bios_settings", { settings })).toEqual({
        kind: "done",
        output: { changed: ["SriovGlobalEnable", "NumaNodesPerSocket", "WatchdogEnabled"] },
      });
      expect(lab.bmc.state.bios).toMatchObject({ SriovGlobalEnable: "Enabled", NumaNodesPerSocket: 2 });
      expect(lab.bmc.state.bios).not.toHaveProperty("BootMode");
      expect(await lab.step("apply_bios_settings", { settings })).toEqual({ kind: "done", output: { changed: [] } });
    },
  );

  test("an attribute that another one makes writable is changed together with it", async () => {
    await using lab = await redfishLab();
    const settings = { SysProfile: "Custom", ProcTurboMode: "Disabled" };
    expect(await lab.step("apply_bios_settings", { settings })).toMatchObject({ kind: "done" });
    expect(lab.bmc.state.bios).toMatchObject(settings);
  });

  test("nothing is changed if one value does not fit, and the step names each [R-401]", async () => {
    await using lab = await redfishLab();
    const settings = {
      SriovGlobalEnable: "On",
      NumaNodesPerSocket: 9,
      WatchdogEnabled: "yes",
      SystemCpldVersion: "2",
      SetupPassword: "canary-password",
      NoSuchThing: 1,
      FanPwmOffset: 50,
    };
    const result = await lab.step("apply_bios_settings", { settings });
    expect(result).toMatchObject({ kind: "failed", retryable: false, errorKind: "REFUSED" });
    const { reason } = result as { reason: string };
    for (const part of [
      "SriovGlobalEnable is one of Enabled, Disabled",
      "NumaNodesPerSocket is at most 4",
      "WatchdogEnabled is true or false",
      "SystemCpldVersion is read-only",
      "SetupPassword is a password",
      "NoSuchThing is not one of its attributes",
    ])
      expect(reason).toContain(part);
    expect(reason).not.toContain("canary");
    expect(lab.bmc.state.biosPending).toBeNull();
  });

  test("a step that was cut off after it sent the settings does not send them twice [R-400]", async () => {
    await using lab = await redfishLab({ traits: "idrac-like" });
    const settings = { SriovGlobalEnable: "Enabled" };
    await lab.enter("apply_bios_settings", { settings });
    const pending = lab.bmc.state.bios;
    expect(await lab.step("apply_bios_settings", { settings })).toMatchObject({ kind: "done" });
    expect(lab.bmc.state.bios).toEqual(pending);
  });

  test("a setting that changes with another one is sent once more [R-400]", async () => {
    await using lab = await redfishLab({ traits: { quirks: ["bios-side-effect"] } });
    const settings = { SriovGlobalEnable: "Enabled", LogicalProc: "Enabled" };
    expect(await lab.step("apply_bios_settings", { settings })).toMatchObject({ kind: "done" });
    expect(lab.bmc.state.bios).toMatchObject(settings);
  });

  test("settings that never take effect are sent once more, and then fail the step with their names [R-400]", async () => {
    await using lab = await redfishLab();
    const settings = { SriovGlobalEnable: "Enabled" };
    const memo = { changed: ["SriovGlobalEnable"], task: "", checks: 180 };
    const again = await lab.enter("apply_bios_settings", { settings }, { memo });
    expect(again).toMatchObject({ kind: "wait", memo: { resent: true, checks: 0 } });
    lab.bmc.state.bios = {};
    expect(await lab.enter("apply_bios_settings", { settings }, { memo: { ...memo, resent: true } })).toMatchObject({
      kind: "failed",
      reason: expect.stringContaining("still reports other values of: SriovGlobalEnable"),
    });
  });
});

describe("Redfish step update_firmware", () => {
  test.each(KINDS)("several components are updated in order on a BMC of the kind %s [R-402]", async (traits) => {
    await using images = await serveImages();
    await using lab = await redfishLab({ traits });
    await lab.driver.power.set?.(lab.call(), "ON");
    const components = [
      { id: "NIC", url: `${images.url}/NIC/23.0`, version: "23.0" },
      { id: "BIOS", url: `${images.url}/BIOS/2.0.0` },
      { id: "BMC", url: `${images.url}/BMC/7.0.0`, version: "7.0.0" },
      { id: "RAID", url: `${images.url}/RAID/52.26.0-5179`, version: "52.26.0-5179" },
    ];
    expect(await lab.step("update_firmware", { components })).toEqual({
      kind: "done",
      output: {
        updated: [
          { id: "NIC", from: "22.31.6", to: "23.0" },
          { id: "BIOS", from: "1.8.2", to: "2.0.0" },
          { id: "BMC", from: "6.0.30", to: "7.0.0" },
        ],
      },
    });
    const versions = new Map((await lab.driver.firmware?.read(lab.call()))?.map(({ id, version }) => [id, version]));
    expect([versions.get("NIC"), versions.get("BIOS"), versions.get("BMC")]).toEqual(["23.0", "2.0.0", "7.0.0"]);
  });

  test.each([
    ["a component that the machine lacks", { id: "FPGA", path: "FPGA/1" }, /no firmware component "FPGA"/],
    ["a component that takes no updates", { id: "CPLD", path: "CPLD/2" }, /does not accept updates of System CPLD/],
    ["an image of another component", { id: "NIC", path: "BIOS/2.0.0" }, /NIC: it ended as Exception.*for BIOS/],
    ["an image that the BMC cannot fetch", { id: "NIC", path: "missing/1" }, /NIC: it ended as Exception.*404/],
  ])("the step fails with the reason of the BMC for %s", async (_what, { id, path }, reason) => {
    await using images = await serveImages();
    await using lab = await redfishLab();
    const result = await lab.step("update_firmware", { components: [{ id, url: `${images.url}/${path}` }] });
    expect(result).toMatchObject({ kind: "failed", retryable: false });
    expect((result as { reason: string }).reason).toMatch(reason);
  });

  test.each(["location-of-job", "body", "body-of-200", "message"] as const)(
    "the step ends with the task of the BMC that the answer names in %s [R-851]",
    async (taskIn) => {
      await using images = await serveImages();
      await using lab = await redfishLab({ traits: { update: { ...PRESETS.reference.update, taskIn }, jobs: true } });
      const result = await lab.step("update_firmware", { components: [{ id: "NIC", url: `${images.url}/BIOS/2` }] });
      expect(result).toMatchObject({ kind: "failed", reason: expect.stringContaining("NIC: it ended as Exception") });
    },
  );

  test.each(["idrac-like", "supermicro-like"] as const)(
    "update that a BMC of the kind %s makes at the next start was waited for until the timeout [R-1310]",
    async (preset) => {
      const { update } = PRESETS[preset];
      const traits = {
        ...PRESETS[preset],
        quirks: ["tasks-wait-for-reset"],
        update: { ...update, biosAtReset: false },
      };
      await using lab = await redfishLab({ traits: traits as Partial<Traits> });
      await using files = await serveImages();
      lab.bmc.state.power = "On";
      const components = [{ id: "BIOS", url: `${files.url}/BIOS/2.0.0`, version: "2.0.0" }];
      const result = await lab.step("update_firmware", { components });
      expect(result).toMatchObject({ kind: "done", output: { updated: [{ id: "BIOS", to: "2.0.0" }] } });
    },
  );

  test("update_firmware without a version ends when the component keeps its version, and reports the version [R-520]", async () => {
    await using images = await serveImages();
    await using lab = await redfishLab();
    await lab.driver.power.set?.(lab.call(), "ON");
    const components = [{ id: "NIC", url: `${images.url}/NIC/22.31.6` }];
    expect(await lab.step("update_firmware", { components })).toEqual({
      kind: "done",
      output: { updated: [{ id: "NIC", from: "22.31.6", to: "22.31.6" }] },
    });
    expect(lab.logged.join("\n")).toContain("it reports version 22.31.6 as before");
  });

  test("update_firmware fails with the version that it found, if the machine reports another than the request [R-520]", async () => {
    await using images = await serveImages();
    await using lab = await redfishLab();
    await lab.driver.power.set?.(lab.call(), "ON");
    const components = [{ id: "NIC", url: `${images.url}/NIC/23.0`, version: "23.1" }];
    expect(await lab.step("update_firmware", { components })).toEqual({
      kind: "failed",
      errorKind: "REFUSED",
      retryable: false,
      atRest: true,
      reason: "NIC reports version 23.0 after the update and a restart, not 23.1.",
    });
  });

  test("a task that never ends keeps the step waiting, until its time limit", async () => {
    await using images = await serveImages();
    await using lab = await redfishLab({ faults: [{ kind: "stuck-task" }] });
    const args = { components: [{ id: "NIC", url: `${images.url}/NIC/23.0` }] };
    const first = await lab.enter("update_firmware", args);
    if (first.kind !== "wait") throw new Error("The step does not wait.");
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(await lab.enter("update_firmware", args, { memo: first.memo })).toMatchObject({ kind: "wait" });
  });

  test("update_firmware cannot be interrupted", async () => {
    await using lab = await redfishLab();
    expect(lab.driver.clean?.steps.find(({ name }) => name === "update_firmware")?.interruptible).toBe("NEVER");
  });
});

describe("Redfish steps for drives", () => {
  test.each(["reference", "idrac-like", "ilo-like", "supermicro-like", "xcc-like", "strict"] as const)(
    "secure_erase erases every drive of a BMC of the kind %s, and reports which [R-403]",
    async (traits) => {
      await using lab = await redfishLab({ traits });
      const result = await lab.step("secure_erase");
      const drives = lab.bmc.system.drives.map(({ id }) => id);
      expect(Object.keys(lab.bmc.state.erased).toSorted()).toEqual(drives.toSorted());
      const disks = drives.map((id) => expect.objectContaining({ id, erased: true, means: "SECURE_ERASE" }));
      expect(result).toMatchObject({ kind: "done", output: { disks: expect.arrayContaining(disks) } });
    },
  );

  const storage = (more: Partial<Traits["storage"]>) => ({
    traits: { storage: { ...PRESETS.reference.storage, ...more } },
  });
  const NOWHERE = ["unlinked", "empty", "missing"] as const;

  test.each(NOWHERE)(
    "secure_erase erases the drives that only the chassis lists, with a storage that is %s [R-403]",
    async (collection) => {
      await using lab = await redfishLab(storage({ collection, alsoIn: "chassis" }));
      expect(await lab.step("secure_erase")).toMatchObject({ kind: "done" });
      expect(Object.keys(lab.bmc.state.erased)).toHaveLength(lab.bmc.system.drives.length);
    },
  );

  test.each(NOWHERE)(
    "secure_erase that finds no drives fails, with a storage that is %s [R-403]",
    async (collection) => {
      await using lab = await redfishLab(storage({ collection }));
      const result = await lab.step("secure_erase");
      expect(result).toMatchObject({
        kind: "failed",
        errorKind: "UNSUPPORTED",
        reason: expect.stringContaining("lists no drives"),
      });
      expect(await lab.driver.abilities?.(lab.call())).toContainEqual(
        expect.objectContaining({ name: "clean.secure_erase", works: false }),
      );
      expect(await lab.step("reset_raid")).toMatchObject({ kind: "failed", errorKind: "UNSUPPORTED" });
    },
  );

  test.each(["controller-is-empty", "drives-are-null"] as const)(
    "drives that the BMC does not list, by the quirk %s, were taken for erased [R-852]",
    async (quirk) => {
      await using lab = await redfishLab({ traits: { quirks: [quirk] } });
      expect(await lab.step("secure_erase")).toMatchObject({
        kind: "failed",
        reason: expect.stringMatching(/RAID\.1/),
      });
      expect(lab.logged.filter((line) => line.includes("is being erased"))).toEqual([]);
    },
  );

  test.each(["drives-without-serial", "drive-without-size"] as const)(
    "a drive was left out of an erasure by the quirk %s [R-852]",
    async (quirk) => {
      await using lab = await redfishLab({ traits: { quirks: [quirk] } });
      const disks = Array.from({ length: 4 }, () => expect.objectContaining({ erased: true }));
      expect(await lab.step("secure_erase")).toEqual({ kind: "done", output: { disks } });
      expect(lab.logged.filter((line) => line.includes("is being erased"))).toHaveLength(4);
    },
  );

  test("secure_erase of a diskless node accounts for no disk", async () => {
    await using lab = await redfishLab(storage({ collection: "empty" }));
    expect(await lab.step("secure_erase", {}, { diskless: true })).toEqual({ kind: "done", output: { disks: [] } });
  });

  test("inspection and secure_erase see the same drives, also those of SimpleStorage, which cannot be erased", async () => {
    await using lab = await redfishLab(storage({ collection: "empty", alsoIn: "simple-storage" }));
    const ids = lab.bmc.system.drives.map(({ id }) => id);
    const step = lab.driver.inspect?.steps[0];
    const inspected = await step?.run(lab.call());
    expect(inspected).toMatchObject({ output: { disks: ids.map((name) => ({ name })) } });
    const erased = await lab.step("secure_erase");
    expect(erased).toMatchObject({ kind: "failed", errorKind: "UNSUPPORTED" });
    for (const id of ids) expect((erased as { reason: string }).reason).toContain(id);
  });

  test("drives that both the storage and the chassis list are inspected once", async () => {
    await using lab = await redfishLab(storage({ alsoIn: "chassis" }));
    const inspected = await lab.driver.inspect?.steps[0]?.run(lab.call());
    expect(inspected).toHaveProperty("output.disks.length", lab.bmc.system.drives.length);
  });

  test("secure_erase erases nothing if a drive is linked and missing, and names its path [R-403]", async () => {
    await using lab = await redfishLab(storage({ missingDrives: ["Disk.1"] }));
    const result = await lab.step("secure_erase");
    expect(result).toMatchObject({
      kind: "failed",
      reason: expect.stringMatching(/that it does not have, or not describe: \S+Disk\.1\./),
    });
    expect(lab.bmc.state.erased).toEqual({});
  });

  test("secure_erase erases nothing if one drive of many does not offer it [R-403]", async () => {
    await using lab = await redfishLab(storage({ withoutErase: ["Disk.1"] }));
    expect(await lab.step("secure_erase")).toMatchObject({ kind: "failed", reason: expect.stringContaining("Disk.1") });
    expect(lab.bmc.state.erased).toEqual({});
  });

  test("secure_erase erases nothing if one drive does not offer it, and names it [R-403]", async () => {
    await using lab = await redfishLab({ traits: "openbmc-like" });
    const result = await lab.step("secure_erase");
    expect(result).toMatchObject({ kind: "failed", errorKind: "UNSUPPORTED" });
    expect((result as { reason: string }).reason).toContain("Disk.0");
    expect(lab.bmc.state.erased).toEqual({});
  });

  test("secure_erase fails if a drive cannot be read, so that none is taken for erased [R-403]", async () => {
    await using lab = await redfishLab({ traits: "ilo-like" });
    lab.bmc.faults.add({ kind: "malformed", path: "NVMe.0" });
    expect(await lab.step("secure_erase")).toMatchObject({ kind: "failed" });
    expect(lab.bmc.state.erased).toEqual({});
  });

  test("reset_raid removes all volumes, and is done when there are none", async () => {
    await using lab = await redfishLab();
    const volume = { controller: "RAID.1", raidType: "RAID1", drives: ["Disk.0", "Disk.1"], capacityBytes: 1 };
    lab.bmc.state.volumes = [
      { id: "1", name: "one", ...volume },
      { id: "2", name: "two", ...volume },
    ];
    expect(await lab.step("reset_raid")).toMatchObject({ kind: "done" });
    expect(lab.bmc.state.volumes).toEqual([]);
    expect(await lab.step("reset_raid")).toMatchObject({ kind: "done" });
  });

  test("removal of a volume that the BMC makes at the next start was waited for until the timeout [R-1310]", async () => {
    const traits = { storage: { ...PRESETS.reference.storage, deletionTask: true } };
    await using lab = await redfishLab({ traits: { ...traits, quirks: ["tasks-wait-for-reset"] } });
    const volume = { controller: "RAID.1", raidType: "RAID1", drives: ["Disk.0", "Disk.1"], capacityBytes: 1 };
    lab.bmc.state.volumes = [{ id: "1", name: "one", ...volume }];
    expect(await lab.step("reset_raid")).toMatchObject({ kind: "done" });
    expect(lab.bmc.state.volumes).toEqual([]);
  });
});

describe("Redfish step clear_logs", () => {
  test.each(["reference", "idrac-like", "supermicro-like"] as const)(
    "clear_logs clears the logs of a BMC of the kind %s",
    async (traits) => {
      await using lab = await redfishLab({ traits });
      await lab.driver.power.set?.(lab.call(), "ON");
      await lab.driver.power.set?.(lab.call(), "OFF");
      const before = lab.bmc.state.log.length;
      expect(await lab.step("clear_logs")).toMatchObject({ kind: "done" });
      expect(lab.bmc.state.log.length).toBeLessThan(before);
    },
  );
});

describe("Redfish step rotate_password", () => {
  const NEXT = "next-canary-1";

  test.each(["reference", "supermicro-like", "minimal", "strict", "openbmc-like"] as const)(
    "the new password works when the step ends, on a BMC of the kind %s [R-404]",
    async (traits) => {
      await using lab = await redfishLab({ traits });
      await lab.driver.power.read(lab.call());
      const settings = { nextPassword: NEXT };
      expect(await lab.step("rotate_password", {}, { settings })).toMatchObject({ output: { passwordChanged: true } });
      expect(lab.bmc.state.account.password).toBe(NEXT);
      // Both passwords are in the settings until the operator removes the old one.
      expect(await lab.driver.power.read(lab.call({ settings }))).toBe("OFF");
      expect(await lab.driver.power.read(lab.call({ settings: { password: NEXT } }))).toBe("OFF");
      expect(lab.logged.join("")).not.toContain("canary");
    },
  );

  test.each(["before", "after"] as const)(
    "the step, entered again after it was cut off %s the change, succeeds, and every call in between [R-404]",
    async (moment) => {
      await using lab = await redfishLab({ traits: "strict" });
      const settings = { nextPassword: NEXT };
      if (moment === "before") {
        lab.bmc.faults.add({ kind: "reset", method: "PATCH", times: 1 });
        expect(await lab.step("rotate_password", {}, { settings })).toMatchObject({ kind: "failed", retryable: true });
      } else {
        const removeFault = lab.bmc.faults.add({ kind: "silent", method: "POST", path: "Sessions" });
        lab.bmc.state.account.password = NEXT;
        removeFault();
      }
      expect(await lab.driver.power.read(lab.call({ settings }))).toBe("OFF");
      for (let times = 0; times < 2; times += 1) {
        expect(await lab.step("rotate_password", {}, { settings })).toMatchObject({ kind: "done" });
        expect(lab.bmc.state.account.password).toBe(NEXT);
        expect(await lab.driver.power.read(lab.call({ settings }))).toBe("OFF");
      }
    },
  );

  test("a password that the BMC refuses leaves the old one in force, and the reason is the BMC's", async () => {
    await using lab = await redfishLab();
    const settings = { nextPassword: "short" };
    const result = await lab.step("rotate_password", {}, { settings });
    expect(result).toMatchObject({ kind: "failed", reason: expect.stringContaining("8 to 40 characters") });
    expect(await lab.driver.power.read(lab.call({ settings }))).toBe("OFF");
    expect(lab.bmc.state.account.password).toBe(lab.bmc.credentials.password);
  });

  test("a node without nextPassword is refused, with what to set", async () => {
    await using lab = await redfishLab();
    expect(await lab.step("rotate_password")).toMatchObject({
      kind: "failed",
      reason: expect.stringContaining("nextPassword"),
    });
  });

  test("the sessions of the step's own logins are closed", async () => {
    await using lab = await redfishLab({ traits: { login: { ...PRESETS.reference.login, sessionsMax: 3 } } });
    for (const nextPassword of ["next-canary-1", "next-canary-2"]) {
      const { password } = lab.bmc.state.account;
      await lab.step("rotate_password", {}, { settings: { password, nextPassword } });
    }
    expect(lab.bmc.sessions()).toBeLessThanOrEqual(2);
  });
});

describe("Redfish steps whose request got no answer", () => {
  const withoutSimple = { update: { ...PRESETS.reference.update, simple: false } };
  const updates = ({ bmc }: RedfishLab) =>
    bmc.state.log.filter(({ message }) => message === "Update: firmware is Running.").length;

  test.each([
    ["SimpleUpdate", "reference", "SimpleUpdate"],
    ["a multipart push", withoutSimple, "/UpdateService/upload"],
  ] as const)(
    "update_firmware sent a second update, or failed, because the answer to %s was lost [R-771]",
    async (_what, traits, path) => {
      await using images = await serveImages();
      await using lab = await redfishLab({ traits, faults: [{ kind: "lost-answer", method: "POST", path }] });
      await lab.driver.power.set?.(lab.call(), "ON");
      const components = [{ id: "BIOS", url: `${images.url}/BIOS/2.0.0`, version: "2.0.0" }];
      expect(await lab.step("update_firmware", { components })).toMatchObject({ kind: "done" });
      expect(updates(lab)).toBe(1);
    },
  );

  test("update_firmware restarts no machine that may be writing, if an answer is lost and tasks cannot be read [R-770]", async () => {
    await using images = await serveImages();
    await using lab = await redfishLab();
    await lab.driver.power.set?.(lab.call(), "ON");
    lab.bmc.faults.add({ kind: "answer", status: 502, body: "page", method: "POST", path: "SimpleUpdate" });
    lab.bmc.faults.add({ kind: "answer", status: 404, body: "page", path: "/TaskService" });
    const args = { components: [{ id: "BIOS", url: `${images.url}/BIOS/2.0.0` }] };
    const before = lab.bmc.state.log.length;
    let memo: Json = null;
    for (let entry = 0; entry < 30; entry += 1) {
      const result = await lab.enter("update_firmware", args, { memo });
      if (result.kind !== "wait") throw new Error(`The step ends: ${JSON.stringify(result)}`);
      memo = result.memo;
    }
    expect(lab.bmc.state.log.slice(before)).toEqual([]);
  });

  test("update_firmware reported an update that never arrived, because its answer was lost [R-771]", async () => {
    await using images = await serveImages();
    await using lab = await redfishLab();
    lab.bmc.faults.add({ kind: "answer", status: 502, body: "page", method: "POST", path: "SimpleUpdate" });
    const components = [{ id: "NIC", url: `${images.url}/NIC/23.0` }];
    expect(await lab.step("update_firmware", { components })).toMatchObject({ kind: "failed", atRest: true });
    expect(updates(lab)).toBe(0);
  });

  test("secure_erase left drives out, or failed, because the answer for one of them was lost [R-771]", async () => {
    await using lab = await redfishLab({ traits: "idrac-like" });
    const [, second] = lab.bmc.system.drives;
    lab.bmc.faults.add({ kind: "answer", status: 504, body: "page", path: `${second?.id}/Actions`, times: 1 });
    expect(await lab.step("secure_erase")).toMatchObject({ kind: "done" });
    expect(Object.keys(lab.bmc.state.erased).toSorted()).toEqual(lab.bmc.system.drives.map(({ id }) => id).toSorted());
  });

  test("apply_bios_settings failed because the answer to the change was lost [R-771]", async () => {
    await using lab = await redfishLab({ faults: [{ kind: "lost-answer", method: "PATCH", times: 1 }] });
    const settings = { SriovGlobalEnable: "Enabled" };
    expect(await lab.step("apply_bios_settings", { settings })).toMatchObject({ kind: "done" });
    expect(lab.bmc.state.bios).toMatchObject(settings);
  });

  test("apply_bios_settings restarted a machine while its firmware was written [R-770]", async () => {
    await using images = await serveImages();
    await using lab = await redfishLab({ timing: { taskMs: 400 } });
    await lab.enter("update_firmware", { components: [{ id: "NIC", url: `${images.url}/NIC/23.0` }] });
    await expect.poll(() => updates(lab)).toBe(1);
    expect(await lab.step("apply_bios_settings", { settings: { SriovGlobalEnable: "Enabled" } })).toMatchObject({
      kind: "done",
    });
    const lines = lab.bmc.state.log.map(({ message }) => message);
    const end = lines.indexOf("Update: firmware is Completed.");
    expect(end).toBeGreaterThan(-1);
    expect(lines.findIndex((line) => line.includes("boots from"))).toBeGreaterThan(end);
  });
});

describe("Redfish steps that fail with the machine at rest", () => {
  const components = (url: string) => ({ components: [{ id: "NIC", url, version: "23.0" }] });

  test.each([
    ["an unreadable inventory", { kind: "answer", status: 500, body: "page", path: "FirmwareInventory" }],
    ["a refused login", { kind: "answer", status: 401, body: "none" }],
    ["a refused update", { kind: "answer", status: 400, body: "error", method: "POST", path: "SimpleUpdate" }],
    ["a busy BMC", { kind: "unavailable", retryAfterSeconds: 0, method: "POST", path: "SimpleUpdate" }],
  ] as const)("update_firmware says so after %s, as it has begun nothing [R-772]", async (_what, fault) => {
    await using images = await serveImages();
    await using lab = await redfishLab({ faults: [fault] });
    expect(await lab.step("update_firmware", components(`${images.url}/NIC/23.0`))).toMatchObject({
      kind: "failed",
      atRest: true,
    });
  });

  test("update that is refused because another one runs was taken for rest, and the machine switched off in mid-flash [R-772]", async () => {
    await using images = await serveImages();
    await using lab = await redfishLab({ timing: { taskMs: 60_000 } });
    const args = components(`${images.url}/NIC/23.0`);
    expect(await lab.enter("update_firmware", args)).toMatchObject({ kind: "wait" });
    lab.bmc.faults.add({ kind: "answer", status: 400, body: "error", method: "POST", path: "SimpleUpdate" });
    const refused = await lab.enter("update_firmware", args);
    expect(refused).toMatchObject({ kind: "failed", reason: expect.stringContaining("400") });
    expect(refused).not.toHaveProperty("atRest");
  });

  test("update_firmware says so after the task itself has failed, and after a file server does not answer [R-772]", async () => {
    await using images = await serveImages();
    await using lab = await redfishLab();
    expect(await lab.step("update_firmware", components(`${images.url}/missing/1`))).toMatchObject({
      kind: "failed",
      atRest: true,
    });
    await using push = await redfishLab({ traits: { update: { ...PRESETS.reference.update, simple: false } } });
    expect(await push.step("update_firmware", components("http://127.0.0.9:1/NIC"))).toMatchObject({
      kind: "failed",
      retryable: true,
      atRest: true,
    });
  });

  test("secure_erase that is refused for one drive failed while others were being erased [R-772]", async () => {
    await using lab = await redfishLab({ traits: "idrac-like" });
    const { drives } = lab.bmc.system;
    lab.bmc.faults.add({ kind: "answer", status: 400, body: "error", path: `${drives[1]?.id}/Actions` });
    const result = await lab.step("secure_erase");
    expect(result).toMatchObject({
      kind: "failed",
      atRest: true,
      reason: expect.stringContaining(drives[1]?.id ?? ""),
    });
    expect(lab.bmc.state.erasing).toEqual([]);
    expect(Object.keys(lab.bmc.state.erased)).toEqual([drives[0]?.id]);
  });

  test("secure_erase and reset_raid declare that the machine works alone", async () => {
    await using lab = await redfishLab({ traits: "minimal" });
    expect(lab.driver.clean?.steps.filter(({ worksAlone }) => worksAlone).map(({ name }) => name)).toEqual([
      "secure_erase",
      "reset_raid",
    ]);
  });
});

describe("Redfish power.readActivity", () => {
  const read = (lab: RedfishLab) => lab.driver.power.readActivity?.(lab.call());

  test.each(PRESET_NAMES)(
    "names what a BMC of the kind %s does, and null when it has ended [R-773]",
    async (traits) => {
      await using images = await serveImages();
      await using lab = await redfishLab({ traits, timing: { taskMs: 150 } });
      expect(await read(lab)).toBeNull();
      await lab.enter("update_firmware", { components: [{ id: "NIC", url: `${images.url}/NIC/23.0` }] });
      expect(await read(lab)).toMatch(/^runs the task "Update: firmware" \((new|running)\)$/);
      await expect.poll(() => read(lab)).toBeNull();
    },
  );

  test("names drives that are being erased, although the BMC has forgotten the task [R-773]", async () => {
    await using lab = await redfishLab({ timing: { taskMs: 300 } });
    await lab.enter("secure_erase");
    await lab.bmc.restart({ ms: 1, tasks: "forgotten" });
    expect(await read(lab)).toMatch(/^is at an operation of its drives/);
    await expect.poll(() => read(lab)).toBeNull();
  });

  test.each([
    ["its tasks are missing", { kind: "answer", status: 404, body: "page", path: "/TaskService" }],
    ["the list of tasks is something else", { kind: "answer", status: 200, body: "object", path: "/Tasks" }],
    ["one of the tasks cannot be read", { kind: "answer", status: 404, body: "page", path: "/Tasks/1" }],
    ["a login page answers", { kind: "login-page" }],
    ["the connection breaks", { kind: "reset" }],
  ] as const)("throws when %s, as then nothing is known [R-773]", async (_what, fault) => {
    await using images = await serveImages();
    await using lab = await redfishLab({ traits: { expand: null }, faults: [{ kind: "stuck-task" }] });
    await lab.enter("update_firmware", { components: [{ id: "NIC", url: `${images.url}/NIC/23.0` }] });
    lab.bmc.faults.add({ ...fault, method: "GET" });
    await expect(read(lab)).rejects.toMatchObject({ name: "DriverError" });
  });
});
