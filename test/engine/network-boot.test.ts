/** Network boot of the agent, as the listener for machines asks for it. */
import { afterAll, expect, test } from "vitest";
import type { AgentStatus } from "../../src/drivers/driver.ts";
import type { Provisioning } from "../../src/engine/input/agent-media.ts";
import { engineUnderTest } from "../support/builders.ts";
import { eventually } from "../support/eventually.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";

const MAC = "52:54:00:00:00:01";
const PROVISIONING: Provisioning = {
  url: "http://10.0.0.1:4010",
  mediaFor: () => ({ version: "1.0.0", protocol: 2 }),
};
const REPORT = {
  instance: "one",
  version: "1.0.0",
  protocol: 2,
  architecture: "X64",
  bootMode: "BIOS",
  address: "10.0.0.7",
  macs: [MAC],
} as const;
const statuses: (AgentStatus | null)[] = [];

const networked = aDriver("networked", {
  usesAgent: true,
  clean: stepsOf(
    aStep("boot", "clean", async ({ agent, memo }) => {
      if (memo === null) {
        await agent.open({ medium: "NETWORK", architecture: "X64", kernelArguments: ["quiet"] });
        return { kind: "wait", callback: true, seconds: 600, memo: "opened" };
      }
      statuses.push(await agent.status());
      return { kind: "done" };
    }),
  ),
});

/** Waits for an agent again and again. */
const networkedLong = aDriver("networked_long", {
  usesAgent: true,
  clean: stepsOf(
    aStep("boot", "clean", async ({ agent, memo }) => {
      if (memo === null) await agent.open({ medium: "NETWORK", architecture: "X64" });
      else await agent.status();
      return { kind: "wait", callback: true, seconds: 600, memo: "opened" };
    }),
  ),
});

const ostler = await engineUnderTest({ drivers: [networked, networkedLong], provisioning: PROVISIONING });
afterAll(() => ostler[Symbol.asyncDispose]());

test("network boot: only a machine whose session waits gets a ticket, each time with a new secret", async () => {
  const { agents } = ostler.engine;
  const node = await ostler.aNode().in("AVAILABLE").with("networked").made();
  const { sql } = ostler.test;
  await sql`insert into node_macs (mac, node_id, source) values (${MAC}, ${node.id}, 'GIVEN')`;
  await sql`update nodes set macs = ${sql.json([MAC])} where id = ${node.id}`;
  expect(await agents.networkBoot({ macs: [MAC], address: "10.0.0.7", isLeased: false })).toBeNull();
  const id = await ostler.begin("CLEAN", [node]);
  await ostler.nodeBecomes(node, "CLEAN_WAIT");

  expect(await agents.networkBoot({ macs: ["52:54:00:00:00:02"], address: "10.0.0.7", isLeased: false })).toBeNull();
  await agents.leased(MAC);
  const first = await agents.networkBoot({ macs: ["52:54:00:00:00:02", MAC], address: "10.0.0.7", isLeased: false });
  const second = await agents.networkBoot({ macs: [MAC], address: "10.0.0.7", isLeased: false });
  if (!first || !second) throw new Error("There is no ticket.");
  expect(second).toMatchObject({ session: first.session, architecture: "X64", kernelArguments: ["quiet"] });
  expect([await agents.isOpen(first), await agents.isOpen(second)]).toEqual([false, true]);
  // The ISO is for sessions of virtual media.
  expect(await agents.medium(second)).toBeNull();
  await agents.reached(second.session, "KERNEL");

  expect(await agents.poll(first, REPORT)).toBe("UNKNOWN");
  expect(await agents.poll(second, REPORT)).toMatchObject({ do: "wait" });
  expect(await agents.networkBoot({ macs: [MAC], address: "10.0.0.7", isLeased: false })).toBeNull();
  expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  const [status] = statuses;
  expect(status).toMatchObject({ bootMode: "BIOS", address: "10.0.0.7" });
  expect([status?.dhcpAt, status?.scriptAt, status?.kernelAt, status?.contactAt]).not.toContain(null);
});

test("network boot: a second address that fetches the boot script fails the step, unless it is leased to the machine [R-684]", async () => {
  const { agents } = ostler.engine;
  const node = await ostler.aNode().in("AVAILABLE").with("networked_long").made();
  const mac = "52:54:00:00:00:09";
  await ostler.test.sql`insert into node_macs (mac, node_id, source) values (${mac}, ${node.id}, 'GIVEN')`;
  await ostler.test.sql`update nodes set macs = ${ostler.test.sql.json([mac])} where id = ${node.id}`;
  const bootAt = (address: string, isLeased = false) => agents.networkBoot({ macs: [mac], address, isLeased });
  const failed = await ostler.begin("CLEAN", [node]);
  await eventually("a session waits", async () => (await bootAt("10.0.0.7")) !== null);
  // A machine may fetch its script again.
  const first = await bootAt("10.0.0.7");
  if (!first) throw new Error("There is no ticket.");
  expect([await bootAt("10.0.0.66"), await bootAt("10.0.0.7"), await agents.isOpen(first)]).toEqual([
    null,
    null,
    false,
  ]);
  expect(await ostler.operationEnds(failed)).toMatchObject({
    state: "FAILED",
    firstFailure: { message: expect.stringMatching(/fetched from two addresses, 10\.0\.0\.7 and 10\.0\.0\.66/) },
  });

  await ostler.begin("CLEAN", [node]);
  await eventually("a session waits", async () => (await bootAt("10.0.0.7", true)) !== null);
  // The second port of the machine.
  const second = await bootAt("10.0.0.8", true);
  if (!second) throw new Error("There is no ticket.");
  await agents.poll(second, { ...REPORT, macs: [mac] });
  expect([await bootAt("10.0.0.7", true), await bootAt("10.0.0.8")]).toEqual([null, null]);
  expect(await agents.poll(second, { ...REPORT, macs: [mac] })).toMatchObject({ do: "wait" });
  // The real machine, or a stranger.
  expect([await bootAt("10.0.0.66"), await agents.isOpen(second)]).toEqual([null, false]);
});
