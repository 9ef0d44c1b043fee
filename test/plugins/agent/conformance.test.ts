/** The driver `agent` passes the checks of the conformance suite that need no machine: it has no power of its own. */
import { describe, expect, test } from "vitest";
import createAgent from "../../../plugins/agent/index.ts";
import { agentSettings } from "../../../plugins/agent/settings.ts";
import { agentVariables } from "../../../plugins/agent/variables.ts";
import { conformance } from "../../../packages/driver/src/conformance/conformance.ts";
import { AgentLab } from "../../support/agent-lab.ts";

const NETWORK = { mac: "52:54:00:00:00:0a", address: "10.0.7.20/24", gateway: "10.0.7.1", dns: ["10.0.0.53"] };

describe("driver agent", () => {
  const settings = { boot: "MEDIA", bootMode: "UEFI", network: NETWORK, rootDisk: { kind: "NVME" } };
  const checks = conformance({ factory: createAgent, settings });
  test.each(checks)("driver agent $title", async (check) => expect(check.run()).resolves.toBeUndefined(), 60_000);

  test("driver agent: power of a node that takes it from agent is UNSUPPORTED, with the remedy", async () => {
    using lab = new AgentLab();
    await expect(lab.driver.power.read(lab.call())).rejects.toMatchObject({
      kind: "UNSUPPORTED",
      message: expect.stringContaining("Register it with the driver of its BMC"),
    });
  });

  test("driver agent: every step is idempotent, and every step that works through the agent can be undone", () => {
    using lab = new AgentLab();
    const { inspect, clean, deploy } = lab.driver;
    for (const step of [inspect, clean, deploy].flatMap((one) => one?.steps ?? []))
      expect([step.name, step.idempotent, step.abort !== undefined || step.name === "await_call_home"]).toEqual([
        step.name,
        true,
        true,
      ]);
  });
});

describe("settings of the driver agent", () => {
  test("settings of the driver agent are all optional", () => {
    expect(agentSettings.parse({})).toEqual({
      boot: "AUTO",
      architecture: "X64",
      lldpSeconds: 0,
      callHome: "REQUIRED",
      bootTimeoutSeconds: 900,
      callHomeTimeoutSeconds: 1800,
    });
  });

  test.each([
    ["a misspelt field", { bootmode: "UEFI" }],
    ["a console with a second kernel argument", { console: "ttyS0 init=/bin/sh" }],
    ["an address without its prefix", { network: { ...NETWORK, address: "10.0.7.20" } }],
    ["a gateway without an address", { network: { ...NETWORK, gateway: "${shell}" } }],
    ["a name server with a second line", { network: { ...NETWORK, dns: ["1.1.1.1\nchain http://evil"] } }],
    ["a name server out of range", { network: { ...NETWORK, dns: ["1.1.1.300"] } }],
    ["a disk of no size", { rootDisk: { minimumBytes: 2, maximumBytes: 1 } }],
    ["a MAC address without colons", { network: { ...NETWORK, mac: "52540000000a" } }],
    ["a disk path outside of /dev", { rootDisk: { path: "/etc/passwd" } }],
    ["a controller without a PCI address", { rootDisk: { controller: "HBA 1" } }],
    ["a boot that takes no time", { bootTimeoutSeconds: 0 }],
  ])("settings of the driver agent with %s are refused [R-834]", (_what, settings) => {
    expect(agentSettings.safeParse(settings).success).toBe(false);
  });
});

describe("variables of the driver agent", () => {
  test.each([
    ["a key in two lines", { ssh_keys: ["ssh-ed25519 AAAA\nssh-rsa BBBB"] }],
    ["a host name with a space", { host_name: "web 1" }],
    ["a misspelt hint", { root_disk: { seral: "D1" } }],
    ["a network that is not an object", { network_data: "dhcp" }],
  ])("variables of the driver agent with %s are refused", (_what, variables) => {
    expect(agentVariables.safeParse(variables).success).toBe(false);
  });
});
