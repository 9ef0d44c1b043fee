/** The step `boot_agent` of the driver `agent`, on machines in memory. */
import { expect, test } from "vitest";
import { AgentLab, SECRETS, driverError } from "../../support/agent-lab.ts";

test.each([
  ["a medium if the node has virtual media", {}, ["open ISO", "insert", "device CDROM", "ON", "eject"]],
  ["the network if it has none", { media: false }, ["open NETWORK", "device PXE", "ON"]],
  ["the network if the setting says so", { settings: { boot: "NETWORK" } }, ["open NETWORK", "device PXE", "ON"]],
  ["HTTP boot if the setting says so", { settings: { boot: "HTTP" } }, ["open NETWORK", "device HTTP url", "ON"]],
  ["the network if the service has no medium", { mediumUrl: null }, ["open ISO", "open NETWORK", "device PXE", "ON"]],
  [
    "the mode of the settings",
    { settings: { bootMode: "BIOS", boot: "MEDIA" } },
    ["open ISO", "insert", "device CDROM BIOS", "ON", "eject"],
  ],
] as const)("the agent is booted from %s [R-490]", async (_what, options, journal) => {
  using lab = new AgentLab(options);
  const { result } = await lab.perform("clean", "boot_agent");
  const agent = { version: "0.1.0", architecture: "X64", bootMode: "UEFI", address: "10.0.0.9" };
  expect(result).toEqual({ kind: "done", output: { agent } });
  expect(lab.journal).toEqual(journal);
});

test("a machine that is on is switched off before the agent is booted on it", async () => {
  using lab = new AgentLab({ power: "ON" });
  await lab.perform("clean", "boot_agent");
  expect(lab.journal).toEqual(["open ISO", "insert", "OFF", "device CDROM", "ON", "eject"]);
});

test("the output of boot_agent in an inspection does not enter the inventory", async () => {
  using lab = new AgentLab();
  expect((await lab.perform("inspect", "boot_agent")).result).toEqual({ kind: "done" });
});

test("an agent of the run that is alive is not booted again", async () => {
  using lab = new AgentLab();
  await lab.perform("inspect", "boot_agent");
  lab.reset();
  expect(await lab.perform("clean", "boot_agent")).toMatchObject({ result: { kind: "done" }, entries: 0 });
  expect(lab.journal).toEqual([]);
});

test("an agent that was not seen while the service was away is looked for before the machine is restarted", async () => {
  using lab = new AgentLab();
  await lab.perform("inspect", "boot_agent");
  lab.reset();
  const { session } = lab;
  if (session) session.seenAt = "2026-11-23T09:00:00Z";
  expect(await lab.perform("clean", "boot_agent")).toMatchObject({ result: { kind: "done" }, entries: 1 });
  expect(lab.journal).toEqual([]);
});

test("an agent that is not seen for 20 s is booted again", async () => {
  using lab = new AgentLab();
  await lab.perform("inspect", "boot_agent");
  lab.reset();
  const { session } = lab;
  if (session) session.seenAt = "2026-11-23T09:00:00Z";
  lab.running = "NOTHING";
  expect((await lab.perform("clean", "boot_agent")).result.kind).toBe("done");
  expect(lab.journal).toEqual(["open ISO", "insert", "OFF", "device CDROM", "ON", "eject"]);
});

test.each([
  ["the medium", "insert", ["open ISO", "open NETWORK", "device PXE", "ON"]],
  ["to start from it", "device CDROM", ["open ISO", "insert", "eject", "open NETWORK", "device PXE", "ON"]],
])(
  "a BMC that does not support %s has the machine booted from the network [R-490]",
  async (_what, refused, journal) => {
    using lab = new AgentLab({ refuses: { [refused]: driverError("UNSUPPORTED", "BMC b has no such thing.") } });
    expect((await lab.perform("clean", "boot_agent")).result.kind).toBe("done");
    expect(lab.journal).toEqual(journal);
    expect(lab.shown.join("\n")).toContain("starts from the network: BMC b has no such thing.");
  },
);

test("a BMC that refuses the medium for good has the machine booted from the network, unless the setting is MEDIA [R-490]", async () => {
  const refuses = { insert: driverError("REFUSED", "BMC b needs a license.") };
  using lab = new AgentLab({ refuses });
  expect((await lab.perform("clean", "boot_agent")).result.kind).toBe("done");
  expect(lab.journal).toEqual(["open ISO", "open NETWORK", "device PXE", "ON"]);
  using other = new AgentLab({ refuses, settings: { boot: "MEDIA" } });
  expect((await other.perform("clean", "boot_agent")).result).toMatchObject({ kind: "failed", errorKind: "REFUSED" });
});

test("BMC that sets a boot device only while the machine is on has it set then, and the machine restarted [R-1327]", async () => {
  using lab = new AgentLab();
  const { power } = lab.call();
  const setBootDevice: typeof power.setBootDevice = async (device, options) => {
    if (lab.power === "OFF") throw driverError("REFUSED", "BMC b refused (500): internal error.", true);
    await power.setBootDevice(device, options);
  };
  const { result } = await lab.perform("clean", "boot_agent", { power: { ...power, setBootDevice } });
  expect(result.kind).toBe("done");
  expect(lab.journal).toEqual(["open ISO", "insert", "ON", "device CDROM", "OFF", "ON", "eject"]);
});

test("machine whose BMC refuses the boot device in both states of power is left off, with the first reason [R-1327]", async () => {
  const refuses = { "device CDROM": driverError("REFUSED", "BMC b refused (500): internal error.", true) };
  using lab = new AgentLab({ refuses });
  expect((await lab.perform("clean", "boot_agent")).result).toMatchObject({ reason: expect.stringContaining("500") });
  expect(lab.power).toBe("OFF");
});

test("a medium that was not fetched since the start is started once more by its other boot source [R-802]", async () => {
  using lab = new AgentLab({ reaches: "NOTHING" });
  const { result } = await lab.perform("clean", "boot_agent");
  expect(result).toMatchObject({ kind: "failed", errorKind: "TIMEOUT" });
  const started = ["open ISO", "insert", "device CDROM", "ON", "device CDROM other", "OFF", "device CDROM other", "ON"];
  expect(lab.journal).toEqual(started);
});

test("a medium that the BMC has read at its insertion only was not started [R-802]", async () => {
  using lab = new AgentLab({ reaches: "NOTHING" });
  const insert = lab.call().media.insert;
  const media = {
    ...lab.call().media,
    insert: async (url: string) => {
      await insert(url);
      if (lab.session) lab.session.scriptAt = "2026-11-23T09:59:59Z";
    },
  };
  await lab.perform("clean", "boot_agent", { media });
  expect(lab.journal).toContain("device CDROM other");
});

test.each([
  ["fetched the medium", { reaches: "SCRIPT" }],
  ["has one boot source for media", { refuses: { "device CDROM other": driverError("UNSUPPORTED", "There is one.") } }],
  ["refuses the other boot source", { refuses: { "device CDROM other": driverError("REFUSED", "Not this.") } }],
] as const)("a machine that %s is not started from it again [R-802]", async (_what, options) => {
  using lab = new AgentLab({ reaches: "NOTHING", ...options });
  const { result } = await lab.perform("clean", "boot_agent");
  expect(result).toMatchObject({ kind: "failed", errorKind: "TIMEOUT" });
  expect(lab.journal.filter((call) => call === "ON" || call === "OFF")).toEqual(["ON"]);
});

test.each([
  ["no driver has media", { media: false }, /no driver of the node has virtual media/],
  ["the service has no medium", { mediumUrl: null }, /no medium of the agent for X64/],
  [
    "the BMC refuses",
    { refuses: { insert: driverError("UNSUPPORTED", "BMC b has no CD drive.") } },
    /cannot start from a virtual medium: BMC b has no CD drive/,
  ],
])("with the setting MEDIA, boot_agent fails if %s", async (_what, options, reason) => {
  using lab = new AgentLab({ ...options, settings: { boot: "MEDIA" } });
  const { result } = await lab.perform("clean", "boot_agent");
  expect(result).toMatchObject({ kind: "failed", errorKind: "UNSUPPORTED", reason: expect.stringMatching(reason) });
  expect(lab.journal).not.toContain("ON");
});

test("a machine without a boot device to set is started all the same", async () => {
  const refuses = { "device PXE": driverError("UNSUPPORTED", "It cannot.") };
  using lab = new AgentLab({ media: false, refuses, reaches: "NOTHING" });
  await lab.perform("clean", "boot_agent");
  expect(lab.journal).toEqual(["open NETWORK", "ON"]);
  expect(lab.shown.join()).toContain("the machine's own boot order decides: It cannot.");
});

test.each([
  ["NOTHING", { media: false }, /Last seen: power on\..*cable.*VLAN/],
  [
    "NOTHING",
    { refuses: { "device CDROM other": driverError("UNSUPPORTED", "No.") } },
    /Last seen: power on\..*BMC has not read the medium/,
  ],
  ["NOTHING", { settings: { boot: "HTTP" } }, /Last seen: power on\..*HTTP boot is enabled/],
  ["LEASE", { media: false }, /Last seen: a DHCP lease at 2026-.*ostler boot dnsmasq/],
  ["SCRIPT", { media: false }, /Last seen: the boot script was fetched at 2026-.*did not fetch the kernel/],
  ["KERNEL", { media: false }, /Last seen: the kernel was fetched at 2026-.*OSTLER_PROVISION_URL/],
  ["SCRIPT", {}, /Last seen: the medium was fetched at 2026-.*console/],
] as const)(
  "a boot that ends at %s fails with the last that was seen, and what to look at [R-491]",
  async (reaches, options, reason) => {
    using lab = new AgentLab({ reaches, ...options });
    const { result, entries } = await lab.perform("clean", "boot_agent");
    expect(result).toMatchObject({ kind: "failed", retryable: true, errorKind: "TIMEOUT" });
    expect((result as { reason: string }).reason).toMatch(/^The agent on node rack1_u7 made no contact within 900 s/);
    expect((result as { reason: string }).reason).toMatch(reason);
    expect(entries).toBe(2 + 900 / 5 - 1);
  },
);

test("a boot that fails reports a machine that is off, and agents that were turned away", async () => {
  using lab = new AgentLab({ reaches: "KERNEL" });
  lab.disturb = () => {
    if (lab.session?.scriptAt == null) return;
    lab.power = "OFF";
    lab.session.strangers = 2;
  };
  const { result } = await lab.perform("clean", "boot_agent");
  expect((result as { reason: string }).reason).toMatch(/is OFF now\. 2 other agents reported/);
});

test("a deployment that cannot succeed fails before the machine is restarted", async () => {
  using lab = new AgentLab({ power: "ON", image: null });
  expect((await lab.perform("deploy", "boot_agent")).result).toMatchObject({
    kind: "failed",
    retryable: false,
    errorKind: "REFUSED",
    reason: expect.stringContaining("Node rack1_u7 has no image to install."),
  });
  expect(lab.journal).toEqual([]);
});

test("the memo, log, progress and result of boot_agent contain no secret [R-496]", async () => {
  using lab = new AgentLab();
  await lab.perform("deploy", "boot_agent");
  for (const secret of SECRETS) expect(lab.shown.join("\n")).not.toContain(secret);
});
