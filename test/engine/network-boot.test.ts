/** Network boot of the agent, as the listener for machines asks for it. */
import { afterAll, expect, test } from "vitest";
import type { AgentStatus } from "../../src/drivers/driver.ts";
import type { Provisioning } from "../../src/engine/input/agent-media.ts";
import { engineUnderTest } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";

const MAC = "52:54:00:00:00:01";
const PROVISIONING: Provisioning = {
  url: "http://10.0.0.1:4010",
  mediaFor: () => ({ version: "1.0.0", protocol: 1 }),
};
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

const ostler = await engineUnderTest({ drivers: [networked], provisioning: PROVISIONING });
afterAll(() => ostler[Symbol.asyncDispose]());

test("network boot: only a machine whose session waits gets a ticket, each time with a new secret", async () => {
  const { agents } = ostler.engine;
  const node = await ostler.aNode().in("AVAILABLE").with("networked").made();
  const { sql } = ostler.test;
  await sql`insert into node_macs (mac, node_id, source) values (${MAC}, ${node.id}, 'GIVEN')`;
  await sql`update nodes set macs = ${sql.json([MAC])} where id = ${node.id}`;
  expect(await agents.networkBoot({ macs: [MAC] })).toBeNull();
  const id = await ostler.begin("CLEAN", [node]);
  await ostler.nodeBecomes(node, "CLEAN_WAIT");

  expect(await agents.networkBoot({ macs: ["52:54:00:00:00:02"] })).toBeNull();
  await agents.leased(MAC);
  const first = await agents.networkBoot({ macs: ["52:54:00:00:00:02", MAC] });
  const second = await agents.networkBoot({ macs: [MAC] });
  if (!first || !second) throw new Error("There is no ticket.");
  expect(second).toMatchObject({ session: first.session, architecture: "X64", kernelArguments: ["quiet"] });
  expect([await agents.isOpen(first), await agents.isOpen(second)]).toEqual([false, true]);
  // The ISO is for sessions of virtual media.
  expect(await agents.medium(second)).toBeNull();
  await agents.reached(second.session, "KERNEL");

  const report = {
    instance: "one",
    version: "1.0.0",
    protocol: 1,
    architecture: "X64",
    bootMode: "BIOS",
    address: "10.0.0.7",
    macs: [MAC],
  } as const;
  expect(await agents.poll(first, report)).toBe("UNKNOWN");
  expect(await agents.poll(second, report)).toMatchObject({ do: "wait" });
  expect(await agents.networkBoot({ macs: [MAC] })).toBeNull();
  expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  const [status] = statuses;
  expect(status).toMatchObject({ bootMode: "BIOS", address: "10.0.0.7" });
  expect([status?.dhcpAt, status?.scriptAt, status?.kernelAt, status?.contactAt]).not.toContain(null);
});
