/** Steps of the driver `agent` that give the agent a task, on machines in memory. */
import { describe, expect, test } from "vitest";
import type { Json } from "../../../src/drivers/driver.ts";
import { AgentLab, IMAGE, SECRETS, driverError, ok, wrong } from "../../support/agent-lab.ts";
import type { LabOptions } from "../../support/agent-lab.ts";

const ERASED = {
  disks: [{ path: "/dev/sda", serial: "D1", sizeBytes: 1000, erased: true, means: "discard", seconds: 1 }],
};

test("collect_inventory gives what the machine reports, without what it does not [R-492]", async () => {
  using lab = new AgentLab({ settings: { lldpSeconds: 35 } });
  await lab.perform("inspect", "boot_agent");
  const { result } = await lab.perform("inspect", "collect_inventory");
  expect(result).toEqual({ kind: "done", output: { serial: "S1", model: "M", disks: [{ id: "sda" }] } });
  expect(lab.tasks).toEqual([{ kind: "inventory", args: { lldpSeconds: 35 } }]);
});

test.each([
  ["erase_disk_metadata", "METADATA"],
  ["erase_disks", "ALL"],
])("%s has the agent erase the disks, and reports how each was erased", async (name, mode) => {
  using lab = new AgentLab();
  await lab.perform("clean", "boot_agent");
  expect((await lab.perform("clean", name)).result).toEqual({ kind: "done", output: ERASED });
  expect(lab.tasks).toEqual([{ kind: "erase", args: { mode } }]);
});

test("erase_disks accounts for the disks that the agent left out, and passes on those to leave out", async () => {
  const sda = { path: "/dev/sda", serial: "D1", bytes: 1000, leftOut: "it is read-only" };
  const sr0 = { path: "/dev/sr0", bytes: 2000, leftOut: "it is a medium", medium: true };
  using lab = new AgentLab({ answers: { erase: ok({ disks: [sda, sr0], note: "The kernel shows sda." }) } });
  expect((await lab.perform("clean", "erase_disks", { args: { leaveOut: ["D1"], unseen: ["D2"] } })).result).toEqual({
    kind: "done",
    output: {
      disks: [
        { path: "/dev/sda", serial: "D1", sizeBytes: 1000, erased: false, reason: "it is read-only" },
        { path: "/dev/sr0", sizeBytes: 2000, erased: false, reason: "it is a medium", medium: true },
      ],
      note: "The kernel shows sda.",
    },
  });
  expect(lab.tasks).toEqual([{ kind: "erase", args: { mode: "ALL", keep: ["D1"] } }]);
});

test("erase_disks refuses a disk to leave out that the agent does not see, with the remedy", async () => {
  using lab = new AgentLab({ answers: { erase: wrong("DISK_NOT_FOUND", 'The disk "D9" does not exist.', true) } });
  const { result } = await lab.perform("clean", "erase_disks", { args: { leaveOut: ["D9"] } });
  expect(result).toMatchObject({ kind: "failed", retryable: false, errorKind: "REFUSED" });
  expect((result as { reason: string }).reason).toContain("in leaveOut");
});

test.each([
  ["burn_in_cpu", { seconds: 60 }, { part: "CPU", seconds: 60 }],
  ["burn_in_memory", { seconds: 60 }, { part: "MEMORY", seconds: 60 }],
  ["burn_in_disk", { seconds: 60, destructive: true }, { part: "DISK", seconds: 60, destructive: true }],
])("%s runs only on request, with its arguments", async (name, args, asked) => {
  using lab = new AgentLab();
  expect(lab.step("clean", name).priority).toBe(0);
  expect((await lab.perform("clean", name, { args })).result).toEqual({
    kind: "done",
    output: { ...asked, checked: 1 },
  });
  expect(lab.tasks).toEqual([{ kind: "burn_in", args: asked }]);
});

describe("write_image", () => {
  const written = {
    image: { id: IMAGE.id, name: "debian-12", checksum: IMAGE.checksum },
    disk: { path: "/dev/sda", serial: "D1", wwn: null, bytes: 9000 },
    bytes: 1000,
    seconds: 1,
    restarts: 0,
  };

  test("the agent writes the image of the request, and the step reports the disk", async () => {
    using lab = new AgentLab({ answers: { write_image: ok({ ...written, image: null }) } });
    expect((await lab.perform("deploy", "write_image")).result).toMatchObject({ kind: "done" });
    const { url, format, sizeBytes, checksum } = IMAGE;
    expect(lab.tasks).toEqual([
      {
        kind: "write_image",
        args: { image: { url, format, sizeBytes, checksum }, rootDisk: null, minimumBytes: 1000 },
      },
    ]);
  });

  test.each([
    ["of the node", { settings: { rootDisk: { kind: "NVME" } } }, { kind: "NVME" }],
    [
      "of the request, in place of the node's",
      { settings: { rootDisk: { kind: "NVME" } }, variables: { root_disk: { serial: "D2" } } },
      { serial: "D2" },
    ],
  ])("the disk is selected by the hints %s", async (_what, options, rootDisk) => {
    using lab = new AgentLab(options);
    await lab.perform("deploy", "write_image");
    expect(lab.tasks[0]?.args).toMatchObject({ rootDisk });
  });

  test.each([
    ["for another architecture", { image: { ...IMAGE, architecture: "ARM64" } }, /is for ARM64, but node rack1_u7 is/],
    [
      "for another mode than the node is set to",
      { image: { ...IMAGE, bootMode: "BIOS" }, settings: { bootMode: "UEFI" } },
      /starts in mode BIOS only, but node rack1_u7 is set to UEFI/,
    ],
    [
      "for another mode than the machine runs in",
      { image: { ...IMAGE, bootMode: "UEFI" }, bootMode: "BIOS" },
      /starts in mode UEFI only, but node rack1_u7 runs in mode BIOS/,
    ],
    [
      "that does not call home",
      { image: { ...IMAGE, callsHome: false } },
      /does not call home, but node rack1_u7 requires/,
    ],
  ] satisfies [string, LabOptions, RegExp][])(
    "an image %s is refused before anything is written [R-493]",
    async (_what, options, reason) => {
      using lab = new AgentLab(options);
      const { result } = await lab.perform("deploy", "write_image");
      expect(result).toMatchObject({ kind: "failed", retryable: false, errorKind: "REFUSED" });
      expect((result as { reason: string }).reason).toMatch(reason);
      expect(lab.tasks).toEqual([]);
    },
  );

  test("an address of an image in the agent's message is not shown [R-496]", async () => {
    using lab = new AgentLab({ answers: { write_image: wrong("IMAGE_UNREACHABLE", `GET ${IMAGE.url}: 403`) } });
    const { result } = await lab.perform("deploy", "write_image");
    expect((result as { reason: string }).reason).toContain("GET image debian-12: 403 (IMAGE_UNREACHABLE)");
  });
});

describe("errors of the agent", () => {
  test.each([
    ["DISK_NOT_FOUND", "REFUSED", false, "root_disk"],
    ["DISK_AMBIGUOUS", "REFUSED", false, "root_disk"],
    ["DISK_NOT_ERASED", "REFUSED", true, "Replace the disk"],
    ["IMAGE_TOO_LARGE", "REFUSED", false, "smaller image"],
    ["CHECKSUM_MISMATCH", "OTHER", true, "register it again"],
    ["IMAGE_UNREACHABLE", "UNREACHABLE", true, "server of the image"],
    ["IMAGE_STALLED", "TIMEOUT", true, "server of the image"],
    ["IMAGE_CUT", "OTHER", true, "size of the file"],
    ["IMAGE_CORRUPT", "OTHER", false, "check its format"],
    ["WRITE_FAILED", "OTHER", true, "disk's health"],
    ["PARTITIONS_UNUSABLE", "REFUSED", false, "partition table"],
    ["BOOT_ENTRY_FAILED", "OTHER", true, "firmware setup"],
    ["BURN_IN_FAILED", "OTHER", false, "Replace the part"],
    ["CANCELLED", "OTHER", true, "Restart"],
    ["UNSUPPORTED", "UNSUPPORTED", false, "install the agent"],
    ["INTERNAL", "OTHER", true, "log of the step"],
    ["SOMETHING_NEW", "OTHER", true, "log of the step"],
  ])("%s becomes a failure of kind %s with the remedy [R-494]", async (code, errorKind, retryable, remedy) => {
    using lab = new AgentLab({ answers: { write_image: wrong(code, "Disk /dev/sda (serial D1) is bad.", true) } });
    const { result } = await lab.perform("deploy", "write_image");
    expect(result).toMatchObject({ kind: "failed", retryable, errorKind });
    const { reason } = result as { reason: string };
    const begin = `Image debian-12 could not be written to node rack1_u7: Disk /dev/sda (serial D1) is bad (${code}). `;
    expect(reason.slice(0, begin.length)).toBe(begin);
    expect(reason).toContain(remedy);
  });

  test("an error after which the agent has already tried again is not retried; without that statement it is [R-683]", async () => {
    const error = { code: "IMAGE_STALLED", message: "no byte", retryable: true };
    const ends = [{ ...error, retried: true }, error].map(async (failure) => {
      using lab = new AgentLab({ answers: { write_image: { task: "t", ok: false, error: failure } } });
      return (await lab.perform("deploy", "write_image")).result;
    });
    const [tired, other] = await Promise.all(ends);
    expect(tired).toMatchObject({ kind: "failed", retryable: true, retried: true });
    expect(other).toMatchObject({ kind: "failed", retryable: true });
    expect(other).not.toHaveProperty("retried");
  });

  test("an agent that gives up a stored image while the service is upgraded gets it once more [R-1373]", async () => {
    const message = "No content came from https://10.77.0.1:4012/images/1: connection refused";
    const error = { code: "IMAGE_UNREACHABLE", message, retryable: true, retried: true };
    const failure = async (url: string) => {
      using lab = new AgentLab({
        image: { ...IMAGE, url },
        answers: { write_image: { task: "t", ok: false, error } },
      });
      return (await lab.perform("deploy", "write_image")).result;
    };
    const stored = await failure("/images/1");
    expect(stored).toMatchObject({ kind: "failed", retryable: true });
    expect(stored).not.toHaveProperty("retried");
    expect((stored as { reason: string }).reason).toContain(message);
    expect(await failure(IMAGE.url)).toMatchObject({ retried: true });
  });

  test("an error that the agent does not call retryable is retried only where its cause can pass", async () => {
    for (const [code, retryable] of [
      ["WRITE_FAILED", false],
      ["IMAGE_CUT", true],
    ] as const) {
      using lab = new AgentLab({ answers: { write_image: wrong(code) } });
      expect((await lab.perform("deploy", "write_image")).result).toMatchObject({ retryable });
    }
  });
});

describe("a step that waits for its task", () => {
  test("boots the agent if none is alive, and goes on [R-490]", async () => {
    using lab = new AgentLab();
    expect((await lab.perform("deploy", "configure_system")).result.kind).toBe("done");
    expect(lab.journal).toEqual(["open ISO", "insert", "device CDROM", "ON", "eject", "assign configure"]);
  });

  test("ignores a callback that is not a result", async () => {
    using lab = new AgentLab();
    await lab.perform("clean", "boot_agent");
    const memo = { task: { until: "2026-11-24T00:00:00Z", silentSince: null } };
    for (const callback of [{ contact: true }, { home: {} }, "x", { ok: "yes" }])
      expect(await lab.step("clean", "erase_disks").run(lab.call({ memo, callback }))).toMatchObject({ kind: "wait" });
  });

  test("assigns the task once, and looks each minute whether the agent lives", async () => {
    let looks = 0;
    using lab = new AgentLab({ answers: { erase: () => ((looks += 1) < 5 ? null : ok(ERASED)) } });
    await lab.perform("clean", "boot_agent");
    expect(await lab.perform("clean", "erase_disks")).toMatchObject({ result: { kind: "done" }, entries: 5 });
    expect(lab.tasks).toHaveLength(1);
  });

  test("fails when the agent was not seen twice in a row, and can be retried [R-495]", async () => {
    using lab = new AgentLab({ answers: { erase: null } });
    await lab.perform("clean", "boot_agent");
    lab.running = "NOTHING";
    const { result, entries } = await lab.perform("clean", "erase_disks");
    expect(result).toMatchObject({ kind: "failed", retryable: true, errorKind: "UNREACHABLE" });
    expect((result as { reason: string }).reason).toMatch(
      /^The disks of node rack1_u7 could not be erased: the agent was last seen at 2026-11-23T10:00:05.*Look at the console/,
    );
    expect(entries).toBe(2);
  });

  test("goes on when the agent is seen again, as after the service was away [R-495]", async () => {
    using lab = new AgentLab();
    await lab.perform("clean", "boot_agent");
    const step = lab.step("clean", "erase_disks");
    const first = await step.run(lab.call());
    lab.running = "NOTHING";
    lab.pass(600);
    const memo = first.kind === "wait" ? first.memo : null;
    const second = await step.run(lab.call({ memo }));
    expect(second).toMatchObject({ kind: "wait", memo: { task: { silentSince: expect.stringContaining("2026-") } } });
    lab.running = "AGENT";
    lab.pass(60);
    const third = await step.run(lab.call({ memo: second.kind === "wait" ? second.memo : null }));
    expect(third).toMatchObject({ kind: "wait", memo: { task: { silentSince: null } } });
  });

  test("fails if the session has ended", async () => {
    using lab = new AgentLab({ answers: { erase: null } });
    await lab.perform("clean", "boot_agent");
    const step = lab.step("clean", "erase_disks");
    const first = await step.run(lab.call());
    if (lab.session) lab.session.endedAt = "2026-11-23T10:00:00Z";
    const result = await step.run(lab.call({ memo: first.kind === "wait" ? first.memo : null }));
    expect(result).toMatchObject({ kind: "failed", reason: expect.stringContaining("session has ended") });
  });

  test("fails when its time is over, with a limit that follows the arguments", async () => {
    using lab = new AgentLab({ answers: { burn_in: null } });
    await lab.perform("clean", "boot_agent");
    const { result, entries } = await lab.perform("clean", "burn_in_cpu", { args: { seconds: 600 } });
    expect(result).toMatchObject({ kind: "failed", retryable: false, errorKind: "TIMEOUT" });
    expect((result as { reason: string }).reason).toContain("did not end within 4200 s");
    expect(entries).toBe(70);
  });

  test.each([
    ["inspect", "collect_inventory", true],
    ["clean", "erase_disks", false],
    ["deploy", "write_image", false],
    ["undeploy", "erase_disks", false],
  ] as const)("is left alone by its abort: %s.%s", async (phase, name, isOff) => {
    using lab = new AgentLab({ answers: { inventory: null, erase: null, write_image: null } });
    await lab.perform(phase, "boot_agent");
    const first = await lab.step(phase, name).run(lab.call());
    const memo = first.kind === "wait" ? first.memo : null;
    await lab.abort(phase, name, memo);
    await lab.abort(phase, name, memo);
    expect([lab.task, lab.medium, lab.power]).toEqual([null, null, isOff ? "OFF" : "ON"]);
    lab.pass(1);
    expect(lab.power).toBe("OFF");
  });
});

test("the memos, logs, results and progress of a deployment contain no secret [R-496]", async () => {
  using lab = new AgentLab();
  for (const name of ["boot_agent", "write_image", "configure_system", "boot_from_disk", "await_call_home"])
    expect((await lab.perform("deploy", name)).result.kind).toBe("done");
  expect(JSON.stringify(lab.tasks)).toContain("canary-user-data");
  for (const secret of SECRETS) expect(lab.shown.join("\n")).not.toContain(secret);
});

describe("erase_disks that fails", () => {
  const after = async (lab: AgentLab) => {
    const step = lab.step("clean", "erase_disks");
    const first = await step.run(lab.call());
    return (callback: Json = null) => step.run(lab.call({ memo: first.kind === "wait" ? first.memo : null, callback }));
  };

  test("began with a power off of drives that may be erasing, when the agent was lost [R-772]", async () => {
    using lab = new AgentLab({ answers: { erase: null } });
    await lab.perform("clean", "boot_agent");
    expect(lab.step("clean", "erase_disks").worksAlone).toBe(true);
    expect(lab.step("clean", "erase_disk_metadata").worksAlone).toBeUndefined();
    const enter = await after(lab);
    if (lab.session) lab.session.endedAt = "2026-11-23T10:00:00Z";
    const result = await enter();
    expect(result).toMatchObject({ kind: "failed", retried: true });
    expect(result).not.toHaveProperty("atRest");
  });

  test("is at rest when the agent itself has reported the end, or was never reached [R-772]", async () => {
    using lab = new AgentLab({ answers: { erase: null } });
    await lab.perform("clean", "boot_agent");
    const enter = await after(lab);
    expect(await enter(wrong("DISK_NOT_ERASED"))).toMatchObject({ kind: "failed", atRest: true });
    using unreachable = new AgentLab({ refuses: { insert: driverError("UNREACHABLE", "no BMC", true) } });
    expect(await unreachable.step("clean", "erase_disks").run(unreachable.call())).toMatchObject({
      kind: "failed",
      errorKind: "UNREACHABLE",
      retryable: true,
      atRest: true,
    });
    using silent = new AgentLab({ reaches: "NOTHING" });
    expect((await silent.perform("clean", "erase_disks")).result).toMatchObject({ kind: "failed", atRest: true });
  });
});
