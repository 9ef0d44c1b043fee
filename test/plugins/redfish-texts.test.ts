/** Texts of a BMC on their way into the database. */
import { expect, onTestFinished, test } from "vitest";
import { startBmc } from "../../packages/bmc-simulator/src/index.ts";
import type { QuirkName } from "../../packages/bmc-simulator/src/index.ts";
import createRedfish from "../../plugins/redfish/index.ts";
import type { Driver } from "../../src/drivers/driver.ts";
import { engineUnderTest } from "../support/builders.ts";
import { driverMemory } from "../support/redfish.ts";

test("an inspection stores names, models and serial numbers without their terminal sequences and invisible marks [R-832]", async () => {
  const redfish = await createRedfish({ log: () => {}, memory: driverMemory() });
  await using ostler = await engineUnderTest({ drivers: [redfish as unknown as Driver<never>] });
  const inspected = async (quirks: readonly QuirkName[]) => {
    const bmc = await startBmc({ traits: { quirks } });
    onTestFinished(() => bmc.close());
    const { hostname, port } = new URL(bmc.url);
    const { userName: username, password } = bmc.credentials;
    const settings = { address: hostname, port: Number(port), scheme: "HTTP", username, password };
    const node = await ostler.aNode().in("AVAILABLE").with("redfish", settings).made();
    expect((await ostler.operationEnds(await ostler.begin("INSPECT", [node]))).state).toBe("SUCCEEDED");
    const [row] = await ostler.test.sql`select data from inventories where node_id = ${node.id}`;
    return { model: (await ostler.node(node)).model, data: row?.["data"] as Readonly<Record<string, unknown>> };
  };
  const marked = await inspected(["texts-with-escapes"]);
  expect(marked).toEqual(await inspected([]));
  expect(marked.data).toMatchObject({ serial: expect.any(String), disks: expect.arrayContaining([expect.anything()]) });
});
