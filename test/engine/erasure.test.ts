/** An erasure is proven before its step succeeds: by the account of the step, and by the disks that inspections saw. */
import * as z from "zod";
import { afterAll, afterEach, describe, expect, test } from "vitest";
import type { Json } from "../../src/drivers/driver.ts";
import type { SiteChange } from "../../src/engine/inventory/site.ts";
import { ALICE, engineUnderTest } from "../support/builders.ts";
import type { TestNode } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";
import { changeNode } from "../support/change-node.ts";

/** A driver that inspects only; its settings are what it reports. */
const bmc = aDriver("bmc", {
  inspect: {
    withoutReboot: true,
    ...stepsOf(
      aStep("look", "inspect", async ({ settings }) => ({
        kind: "done",
        output: settings as Record<string, Json>,
      })),
    ),
  },
});
const wipe = aStep("wipe", "clean", async () => ({ kind: "done" }));
const silent = aDriver("silent", { clean: stepsOf(wipe) });
const boastful = aDriver("boastful", { clean: stepsOf({ ...wipe, erases: true }) });
const verifying = aDriver("verifying", {
  clean: stepsOf({
    ...wipe,
    erases: true,
    run: async () => ({ kind: "done", output: { disks: [{ name: "sda", erased: true }] } }),
    verify: async () => ({ kind: "done" }),
  }),
});

const sparing = aDriver("sparing", {
  clean: stepsOf({
    ...wipe,
    erases: true,
    args: z.object({ leaveOut: z.array(z.string()), unseen: z.array(z.string()) }),
    async run() {
      const sda = { name: "sda", serial: "OTHER-001", erased: true };
      const sdb = { name: "sdb", serial: "KEEP-ME-1", erased: false, reason: "the request names it" };
      return { kind: "done", output: { disks: [sda, sdb] } };
    },
  }),
});

const ostler = await engineUnderTest({ drivers: [bmc, silent, boastful, verifying, sparing] });
afterAll(() => ostler[Symbol.asyncDispose]());
afterEach(() => site({ unerasedDisks: null }));

async function site(change: SiteChange): Promise<void> {
  expect(await ostler.engine.updateSite(ALICE, change)).toEqual({ done: true, refusals: [] });
}

const AVAILABLE = { options: { until: "AVAILABLE" } } as const;

const commission = (node: TestNode) =>
  outcome(node, ostler.begin("COMMISSION", [node], { ...AVAILABLE, onFailure: "LEAVE" }));

/** Of a node with a driver that cannot inspect. */
const provide = async (driver: string) => {
  const node = await ostler.aNode().in("MANAGEABLE").with(driver).made();
  return outcome(node, ostler.begin("PROVIDE", [node]));
};

async function outcome(
  node: TestNode,
  begun: Promise<string>,
): Promise<{ readonly state: string; readonly error: string }> {
  await ostler.operationEnds(await begun);
  const { state, lastError } = await ostler.node(node);
  return { state, error: lastError?.message ?? "" };
}

async function inspect(node: TestNode): Promise<void> {
  const id = await ostler.begin("INSPECT", [node]);
  expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
}

const fake = (...disks: object[]) => ostler.aNode().in("MANAGEABLE").with("fake", { disks });

describe("erasure", () => {
  test("an erasure that did not see a disk of the inventory fails, and names the disk with the remedy [R-751]", async () => {
    const node = await fake({ serial: "SEEN-0001" }, { serial: "HIDDEN-01", hiddenFrom: "ERASURE" }).made();
    const { state, error } = await commission(node);
    expect(state).toBe("CLEAN_FAILED");
    expect(error).toMatch(
      /clean\.erase_metadata failed: not every disk is proven to be erased: disk disk1 \(serial HIDDEN-01, 894\.3 GiB\), which the inspection by fake of \d.*Z reported, was not seen\. If the disks .* inspect it again: manageNodes, then inspectNodes\. Erase these disks/,
    );
    expect(error).not.toContain("SEEN");
    await changeNode(ostler.engine, ALICE, node.id, {
      settingsOfDrivers: [{ driver: "fake", settings: { disks: [{ serial: "SEEN-0001" }] } }],
    });
    await ostler.operationEnds(await ostler.begin("MANAGE", [node]));
    await inspect(node);
    expect(await commission(node)).toMatchObject({ state: "AVAILABLE" });
  });

  test("an erasure that left out a disk fails with the reason; a medium of the BMC may be left out [R-750]", async () => {
    const media = await fake({}, { medium: true, sizeBytes: 0 }).made();
    expect(await commission(media)).toMatchObject({ state: "AVAILABLE" });
    const worn = await fake({}, { serial: "WORN", leftOut: "it is read-only." }).made();
    const { state, error } = await commission(worn);
    expect(state).toBe("CLEAN_FAILED");
    expect(error).toContain("disk disk1 (serial WORN, 894.3 GiB) was left out: it is read-only. Erase");
  });

  test("an erasure of a machine without disks fails, unless the node is diskless [R-750]", async () => {
    const node = await fake().made();
    const { state, error } = await commission(node);
    expect(state).toBe("CLEAN_FAILED");
    expect(error).toContain("the step found no disk. Check the storage controller");
    await changeNode(ostler.engine, ALICE, node.id, { diskless: true });
    expect(await commission(node)).toMatchObject({ state: "AVAILABLE" });
  });

  test("the failure of an unproven erasure is not retried, and keeps the account", async () => {
    const node = await fake({ leftOut: "it is read-only" }).made();
    const id = await ostler.begin("COMMISSION", [node], { ...AVAILABLE, onFailure: "LEAVE" });
    await ostler.operationEnds(id);
    const steps = await ostler.steps(await ostler.run(id, node));
    const { attempts } = steps.find(({ name }) => name === "clean.erase_metadata") ?? { attempts: [] };
    expect(attempts).toMatchObject([
      {
        state: "FAILED",
        output: { disks: [{ name: "disk0", erased: false, reason: "it is read-only" }] },
        failure: { code: "BACKEND_FAILED", retryable: false },
      },
    ]);
  });

  test("the site can allow unproven erasures, but no erasure without an account [R-753]", async () => {
    await site({ unerasedDisks: "ALLOW" });
    const disks = [{ hiddenFrom: "ERASURE" }, { leftOut: "it is read-only" }];
    expect(await commission(await fake(...disks).made())).toMatchObject({ state: "AVAILABLE" });
    expect(await commission(await fake().made())).toMatchObject({ state: "AVAILABLE" });
    const { state, error } = await provide("boastful");
    expect(state).toBe("CLEAN_FAILED");
    expect(error).toContain("its output has no list `disks`");
  });

  test("the arguments of the step can allow a disk to be left out, seen or not [R-753]", async () => {
    const disks = [{ serial: "KEEP-ME-1" }, { serial: "HIDDEN-01" }];
    const interfaces = [{ kinds: ["inspect"], driver: "bmc", settings: { disks } }] as const;
    const node = await ostler.aNode().in("MANAGEABLE").with("sparing").borrowing(interfaces).made();
    await inspect(node);
    const clean = async (leaveOut: readonly string[]) => {
      const steps = [{ interface: "clean", name: "wipe", args: { leaveOut, unseen: ["hidden-01"] } }] as const;
      return (await ostler.operationEnds(await ostler.begin("CLEAN", [node], { options: { steps } }))).state;
    };
    expect(await clean(["keep-me-1"])).toBe("SUCCEEDED");
    expect(await clean([])).toBe("FAILED");
  });

  test("a decommission records an unproven erasure, and goes on", async () => {
    const node = await ostler
      .aNode()
      .in("ACTIVE")
      .with("fake", { disks: [{ leftOut: "it is read-only" }] })
      .made();
    const ended = await ostler.operationEnds(await ostler.begin("DECOMMISSION", [node]));
    expect(ended.state).toBe("SUCCEEDED_WITH_ERRORS");
    expect(await ostler.nodeState(node)).toBe("DECOMMISSIONED");
  });

  test("a tear-down whose erasure is not proven does not make the node AVAILABLE", async () => {
    const node = await ostler.aNode().in("ACTIVE").with("fake", { disks: [] }).made();
    await ostler.operationEnds(await ostler.begin("UNDEPLOY", [node]));
    expect(await ostler.nodeState(node)).toBe("CLEAN_FAILED");
  });

  test("the newest disks of each driver count, also if another driver inspected after it [R-751]", async () => {
    const driver = (disks: Json) => [{ kinds: ["inspect"], driver: "bmc", settings: { disks } }];
    const own = [{ serial: "SHARED-01" }];
    const node = await ostler
      .aNode()
      .in("MANAGEABLE")
      .with("fake", { disks: own })
      .borrowing(driver([{ id: "Bay 1", serial: "OLD-DRIVE" }]))
      .made();
    await inspect(node);
    const setDisks = async (disks: Json) => {
      const settings = { interfaces: driver(disks) as never };
      expect((await changeNode(ostler.engine, ALICE, node.id, settings)).refusals).toEqual([]);
    };
    await setDisks([
      { id: "Bay 1", serial: "shared-01" },
      { id: "Bay 2", serial: "BEHIND-RAID" },
      { id: "Virtual CD", sizeBytes: 0 },
    ]);
    await inspect(node);
    const { state, error } = await commission(node);
    expect(state).toBe("CLEAN_FAILED");
    expect(error).toContain("disk Bay 2 (serial BEHIND-RAID), which the inspection by bmc of");
    expect(error).not.toContain("OLD-DRIVE");
    expect(error).not.toContain("Bay 1");
  });

  test("an inspection that could not read all disks does not replace one that could [R-751]", async () => {
    const reports = (settings: object) => ({ interfaces: [{ kinds: ["inspect"], driver: "bmc", settings }] as never });
    const node = await ostler
      .aNode()
      .in("MANAGEABLE")
      .with("fake", { disks: [{ serial: "SEEN-0001" }] })
      .borrowing([
        { kinds: ["inspect"], driver: "bmc", settings: { disks: [{ serial: "SEEN-0001" }, { serial: "BROKEN-01" }] } },
      ])
      .made();
    await inspect(node);
    const partial = reports({ disks: [{ serial: "SEEN-0001" }], incomplete: ["disks"] });
    expect((await changeNode(ostler.engine, ALICE, node.id, partial)).refusals).toEqual([]);
    const { state, error } = await commission(node);
    expect(state).toBe("CLEAN_FAILED");
    expect(error).toContain("BROKEN-01");
  });

  test("a clean step that declares no erasure needs no account [R-754]", async () => {
    expect(await provide("silent")).toMatchObject({ state: "AVAILABLE" });
  });

  test("a step with a verify part gives its account once", async () => {
    expect(await provide("verifying")).toMatchObject({ state: "AVAILABLE" });
  });
});
