/** Boot scripts: the script for each state of a machine, and that nothing in them can be misread by iPXE. */
import { afterAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Agents, BootTicket } from "../../src/engine/agents/agents.ts";
import { dhcpLeases } from "../../src/provisioning/dhcp-leases.ts";
import { CONTACT, SECRET, SESSION, startLab, TICKET, URL_OF_SERVICE, writeMedia } from "./lab.ts";

const MACS = "mac=52-54-00-77-00-01&mac=52:54:00:AA:00:02&mac=&mac=";

const labs = new AsyncDisposableStack();
afterAll(() => labs[Symbol.asyncDispose]());

async function scriptOf(agents: Partial<Agents>, query: string, hasMedia = true) {
  const lab = labs.use(await startLab(agents));
  writeMedia(lab.folder);
  if (!hasMedia) rmSync(`${lab.folder}/x64`, { recursive: true });
  const response = await fetch(`${lab.url}/boot/ipxe${query}`);
  expect(response.status).toBe(200);
  return { script: await response.text(), logged: lab.logged() };
}

const booting = (change: Partial<BootTicket> = {}): Partial<Agents> => ({
  networkBoot: async () => ({ ...TICKET, ...change }),
});

describe("boot script", () => {
  test("a machine that does not say which one it is gets a script that asks again with its addresses", async () => {
    const { script } = await scriptOf(booting(), "");
    expect(script).toMatch(/^#!ipxe\n/);
    expect(script).toContain(`set ostler-url ${URL_OF_SERVICE}/boot/ipxe?uuid=\${uuid}&arch=\${buildarch}&mac=`);
    expect(script).not.toContain(SECRET);
  });

  test("a machine whose session waits gets kernel, ramdisk and the arguments of its session", async () => {
    const asked: unknown[] = [];
    const { script, logged } = await scriptOf(
      {
        networkBoot: async (machine) => {
          asked.push(machine);
          return TICKET;
        },
      },
      `?${MACS}&arch=x86_64`,
    );
    expect(asked).toEqual([
      { macs: ["52:54:00:77:00:01", "52:54:00:aa:00:02"], address: "127.0.0.1", isLeased: false },
    ]);
    const files = `${URL_OF_SERVICE}/boot/agent/x64`;
    expect(script).toContain(
      `kernel --name vmlinuz ${files}/vmlinuz?session=${SESSION} initrd=initrd ro panic=30 console=ttyS1,9600 nosmt ostler.url=${CONTACT.url} ostler.fingerprint=${CONTACT.fingerprint} ostler.session=${SESSION} ostler.secret=${SECRET} || goto again`,
    );
    expect(script).toContain(`initrd --name initrd ${files}/initrd?session=${SESSION} || goto again`);
    expect(logged).toContain("52:54:00:77:00:01");
    expect(logged).not.toContain(SECRET);
  });

  test("a script is sent only to the address that the DHCP server has leased to a MAC of the machine [R-830]", async () => {
    const asked: unknown[] = [];
    const networkBoot: Agents["networkBoot"] = async (machine) => {
      asked.push(machine);
      return TICKET;
    };
    const file = join(tmpdir(), `leases-${process.pid}`);
    const lab = labs.use(await startLab({ networkBoot }, { leases: dhcpLeases(file) }));
    writeMedia(lab.folder);
    const scriptFor = async (leases: readonly string[]) => {
      writeFileSync(file, leases.join("\n"));
      return (await fetch(`${lab.url}/boot/ipxe?${MACS}`)).text();
    };
    const future = Math.round(Date.now() / 1_000) + 600;
    const other = `${future} 52:54:00:77:00:01 10.77.0.101 * *`;
    expect(await scriptFor([`${future} 52:54:00:99:00:01 127.0.0.1 thief *`, other])).toContain(
      "127.0.0.1 is not leased",
    );
    expect(await scriptFor([`1000 52:54:00:aa:00:02 127.0.0.1 late *`, other])).toContain("127.0.0.1 is not leased");
    expect(asked).toEqual([]);
    expect(await scriptFor([other, `${future} 52:54:00:aa:00:02 127.0.0.1 * 01:52:54:00:aa:00:02`])).toContain(SECRET);
    expect(await scriptFor(["0 52:54:00:AA:00:02 127.0.0.1 * *", "duid 00:01"])).toContain(SECRET);
    const mine = { macs: ["52:54:00:aa:00:02"], address: "127.0.0.1", isLeased: true };
    expect(asked).toEqual([mine, mine]);
    rmSync(file);
  });

  test("boot scripts that are fetched at the same time share one read of the lease file", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout"] });
    onTestFinished(() => void vi.useRealTimers());
    const file = join(tmpdir(), `shared-leases-${process.pid}`);
    const mac = "52:54:00:aa:00:02";
    writeFileSync(file, `0 ${mac} 10.77.0.9 * *\n`);
    const leases = dhcpLeases(file);
    expect(await leases.macsAt("10.77.0.9", [mac])).toEqual([mac]);
    rmSync(file);
    expect(await leases.macsAt("10.77.0.9", [mac])).toEqual([mac]);
    vi.runAllTimers();
    await expect(leases.macsAt("10.77.0.9", [mac])).rejects.toThrow("ENOENT");
  });

  test.each([
    [{}, "console=tty0 console=ttyS0,115200"],
    [{ network: { mac: "52:54:00:77:00:01", address: "10.77.0.9/24" } }, "ostler.network="],
  ])("without a console among the arguments, %j has %s", async (change, expected) => {
    const { script } = await scriptOf(booting({ kernelArguments: [], ...change }), `?${MACS}`);
    expect(script).toContain(expected);
    const [, network] = /ostler\.network=(\S+)/.exec(script) ?? [];
    expect(network === undefined ? null : JSON.parse(Buffer.from(network, "base64url").toString())).toEqual(
      "network" in change ? change.network : null,
    );
  });

  test("a machine without a waiting session is shown that, and goes on with its next boot device [R-474]", async () => {
    const { script } = await scriptOf({}, `?${MACS}`);
    expect(script).toContain("not expected to boot the agent now");
    expect(script).toMatch(/\nexit 1\n$/);
    expect(script).not.toContain("kernel");
  });

  test.each([
    ["arm64", booting(), true, "registered as X64, but this machine is arm64"],
    ["x86_64", booting({ architecture: "ARM64" }), true, "registered as ARM64, but this machine is x86_64"],
    ["i386", booting(), false, "no boot media of the agent for X64"],
    ["i386", booting({ kernelArguments: ["a || b"] }), true, "cannot be passed on"],
    ["i386", booting({ kernelArguments: ["a".repeat(2_001)] }), true, "more than 2000 characters"],
  ])(
    "a machine built for %s that cannot boot is shown why, without the secret [R-474]",
    async (arch, agents, has, why) => {
      const { script } = await scriptOf(agents, `?${MACS}&arch=${arch}`, has);
      expect(script).toContain(why);
      expect(script).toMatch(/\nexit 1\n$/);
      expect(script).not.toContain(SECRET);
    },
  );

  test.each(["two words", "${net0/mac}", "a\nreboot", "||", "&&", 'a"b', "#", "", "a;b"])(
    "the kernel argument %j, which iPXE or a boot loader would change, is refused",
    async (argument) => {
      const { script } = await scriptOf(booting({ kernelArguments: [argument] }), `?${MACS}`);
      expect(script).toContain("cannot be passed on");
      expect(script).not.toContain("reboot\n");
    },
  );

  test("texts of a request do not get into a script", async () => {
    const { script } = await scriptOf(booting(), `?mac=52:54:00:77:00:01&arch=${encodeURIComponent("x\nreboot\n")}`);
    expect(script).not.toMatch(/^reboot/m);
  });
});
