/** Configuration, boot from disk and call home by the driver `agent`, on machines in memory. */
import { describe, expect, test } from "vitest";
import type { Json } from "../../../src/drivers/driver.ts";
import { AgentLab, IMAGE, USER_DATA, driverError } from "../../support/agent-lab.ts";
import type { LabOptions } from "../../support/agent-lab.ts";

interface ConfigureArgs {
  readonly seed: { metaData: string; userData: string; vendorData: string; networkConfig: string | null };
}

async function configured(options: LabOptions = {}) {
  using lab = new AgentLab(options);
  expect((await lab.perform("deploy", "configure_system")).result).toEqual({
    kind: "done",
    output: { partitions: 3, bootEntry: "0001" },
  });
  const args = lab.tasks[0]?.args as unknown as ConfigureArgs & Record<string, Json>;
  const { metaData, vendorData, networkConfig } = args.seed;
  return {
    args,
    metaData: JSON.parse(metaData) as Json,
    vendorData: JSON.parse(vendorData.replace(/^#cloud-config\n/, "") || "null") as Json,
    networkConfig: networkConfig === null ? null : (JSON.parse(networkConfig) as Json),
  };
}

describe("configure_system", () => {
  test("the seed has the node's name, the user data as given, and the call home", async () => {
    const { args, metaData, vendorData, networkConfig } = await configured();
    expect(args).toMatchObject({ disk: null, rootDisk: null, minimumBytes: 1000, growLast: true, bootEntry: true });
    expect(args.seed.userData).toBe(USER_DATA);
    expect(args.seed.vendorData).toMatch(/^#cloud-config\n/);
    const instance = expect.stringMatching(/^ostler-[0-9a-f]{16}$/);
    expect(metaData).toEqual({ "instance-id": instance, "local-hostname": "rack1-u7", "public-keys": [] });
    expect(vendorData).toEqual({
      phone_home: {
        url: "http://ostler.example/home/canary-home-1",
        post: ["instance_id", "hostname", "fqdn", "pub_key_ed25519"],
        tries: 20,
      },
    });
    expect(networkConfig).toBeNull();
  });

  test("the seed has the keys, the name and the network of the request", async () => {
    const keys = ["ssh-ed25519 AAAA alice"];
    const network = { version: 2, ethernets: { eno1: { dhcp4: true } } };
    const variables = { ssh_keys: keys, host_name: "web-1.example.org", network_data: network };
    const { metaData, networkConfig } = await configured({ variables });
    expect(metaData).toMatchObject({ "local-hostname": "web-1.example.org", "public-keys": keys });
    expect(networkConfig).toEqual(network);
  });

  test("without a network in the request, the installed system gets the static address of the node", async () => {
    const network = { mac: "52:54:00:00:00:0A", address: "10.0.7.20/24", gateway: "10.0.7.1", dns: ["10.0.0.53"] };
    const { networkConfig } = await configured({ settings: { network } });
    expect(networkConfig).toEqual({
      version: 2,
      ethernets: {
        boot: {
          match: { macaddress: "52:54:00:00:00:0a" },
          addresses: ["10.0.7.20/24"],
          routes: [{ to: "0.0.0.0/0", via: "10.0.7.1" }],
          nameservers: { addresses: ["10.0.0.53"] },
        },
      },
    });
  });

  test("a system that does not call home is not asked to", async () => {
    const image = { ...IMAGE, callsHome: false };
    const { vendorData } = await configured({ image, settings: { callHome: "NOT_REQUIRED" } });
    expect(vendorData).toBeNull();
  });

  test("a machine that starts in mode BIOS gets no boot entry", async () => {
    expect((await configured({ bootMode: "BIOS" })).args).toMatchObject({ bootEntry: false });
  });
});

describe("boot_from_disk", () => {
  test("the agent is ended, the medium ejected, and the machine started once from its disk [R-497]", async () => {
    using lab = new AgentLab();
    await lab.perform("deploy", "configure_system");
    lab.reset();
    expect((await lab.perform("deploy", "boot_from_disk")).result).toEqual({ kind: "done" });
    expect(lab.journal).toEqual(["close", "agent: power off", "eject", "device DISK", "ON"]);
    expect(lab.running).toBe("SYSTEM");
  });

  test.each([
    ["the boot entry of its own, without a boot device, in mode UEFI with two disks", { disks: 2 }, []],
    ["its disk in mode BIOS with two disks", { disks: 2, bootMode: "BIOS" }, ["device DISK"]],
    ["its disk if an agent does not report how many it has", { disks: null }, ["device DISK"]],
  ] as const)("the machine is started from %s [R-804]", async (_what, options, device) => {
    using lab = new AgentLab(options);
    await lab.perform("deploy", "configure_system");
    lab.reset();
    expect((await lab.perform("deploy", "boot_from_disk")).result).toEqual({ kind: "done" });
    expect(lab.journal).toEqual(["close", "agent: power off", "eject", ...device, "ON"]);
    expect(lab.running).toBe("SYSTEM");
  });

  test("the power of a machine that the agent does not switch off is cut after 30 s", async () => {
    using lab = new AgentLab();
    await lab.perform("deploy", "configure_system");
    lab.reset();
    lab.running = "NOTHING";
    expect(await lab.perform("deploy", "boot_from_disk")).toMatchObject({ result: { kind: "done" }, entries: 16 });
    expect(lab.journal).toEqual(["close", "OFF", "eject", "device DISK", "ON"]);
  });

  test("a medium that cannot be ejected fails the step before the machine is started", async () => {
    using lab = new AgentLab({ refuses: { eject: driverError("REFUSED", "BMC b is busy.", true) } });
    await lab.perform("deploy", "configure_system");
    expect(lab.shown.join("\n")).toContain("The medium could not be ejected: BMC b is busy.");
    lab.reset();
    expect((await lab.perform("deploy", "boot_from_disk")).result).toMatchObject({ kind: "failed", retryable: true });
    expect(lab.journal).not.toContain("ON");
  });

  test("only boot_from_disk reaches PROVISIONED", () => {
    using lab = new AgentLab();
    const reaching = lab.driver.deploy?.steps.filter(({ reaches }) => reaches).map(({ name }) => name);
    expect(reaching).toEqual(["boot_from_disk"]);
  });
});

describe("await_call_home", () => {
  const SYSTEM = { hostName: "n1", instanceId: "i-1", hostKeys: ["ssh-ed25519 AAAA root@n1"] };

  test("the step ends with the report of the installed system, and gives its name and host keys [R-498]", async () => {
    using lab = new AgentLab();
    for (const name of ["configure_system", "boot_from_disk"]) await lab.perform("deploy", name);
    const { result } = await lab.perform("deploy", "await_call_home");
    expect(result).toEqual({ kind: "done", output: { calledHome: true, at: expect.any(String), ...SYSTEM } });
  });

  test("the report in the callback ends the step at once", async () => {
    using lab = new AgentLab({ power: "ON" });
    const callback = { home: { hostname: "n1", fqdn: "n1.example.org", pub_key_ed25519: 7, other: "x" } };
    const memo = { until: "2026-11-23T11:00:00Z", seconds: 30 };
    expect(await lab.step("deploy", "await_call_home").run(lab.call({ memo, callback }))).toEqual({
      kind: "done",
      output: { calledHome: true, at: null, hostName: "n1.example.org", hostKeys: [] },
    });
  });

  test("a system that does not call home in time fails the step, with what to look at [R-498]", async () => {
    using lab = new AgentLab({ callsHome: false, settings: { callHomeTimeoutSeconds: 600 } });
    for (const name of ["configure_system", "boot_from_disk"]) await lab.perform("deploy", name);
    const { result, entries } = await lab.perform("deploy", "await_call_home");
    expect(result).toMatchObject({ kind: "failed", retryable: false, errorKind: "TIMEOUT" });
    expect((result as { reason: string }).reason).toMatch(/debian-12 on node rack1_u7 did not call home within 600 s/);
    expect(entries).toBe(20);
  });

  test("NOT_REQUIRED accepts an image whose system does not call home [R-498]", async () => {
    using lab = new AgentLab({ image: { ...IMAGE, callsHome: false }, settings: { callHome: "NOT_REQUIRED" } });
    for (const name of ["boot_agent", "write_image", "configure_system", "boot_from_disk"])
      expect((await lab.perform("deploy", name)).result.kind).toBe("done");
    const ended = await lab.perform("deploy", "await_call_home");
    expect(ended).toMatchObject({ entries: 0, result: { kind: "done", output: { calledHome: false } } });
  });

  test("a machine that is off, as after an abort and a restart, is started from its disk again [R-497]", async () => {
    using lab = new AgentLab({ power: "OFF" });
    await lab.step("deploy", "await_call_home").run(lab.call());
    expect(lab.journal).toEqual(["eject", "device DISK", "ON"]);
    expect(lab.running).toBe("SYSTEM");
  });
});
