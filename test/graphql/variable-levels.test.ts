/** Variables of the site, of host groups and of nodes through the API. */
import { afterAll, expect, test } from "vitest";
import * as z from "zod";
import { aDriver } from "../support/driver.ts";
import { serviceUnderTest } from "../support/service.ts";

const ostler = await serviceUnderTest({
  drivers: [aDriver("joining", { variables: z.object({ token: z.string().optional().meta({ writeOnly: true }) }) })],
});
afterAll(() => ostler[Symbol.asyncDispose]());

test("variables are set at each level, and effectiveVariables names the level of each value [R-1080]", async () => {
  const { text } = await ostler.ask(
    `mutation ($nodes: [RegisterNodeInput!]!) {
      updateSite(input: { variables: { ntp: "10.0.0.1", token: "canary-site" } }) { site { variables } errors { message } }
      createCluster(input: { name: "berlin", hostGroups: [{ name: "workers", variables: { role: "worker", token: "canary-group" } }, { name: "masters" }] }) {
        cluster { hostGroups { name variables } } errors { message }
      }
      registerNodes(input: { nodes: $nodes }) { nodes { variables } errors { message } }
      updateNodes(input: { nodes: { names: ["w1"] }, variables: { rack: 8, slot: 3 } }) { nodes { variables } errors { message } }
    }`,
    {
      nodes: [
        {
          name: "w1",
          driver: { joining: {} },
          cluster: { name: "berlin" },
          hostGroup: "workers",
          variables: { rack: 7, token: "canary-node" },
        },
      ],
    },
  );
  expect(JSON.parse(text)).toMatchObject({
    data: {
      updateSite: { site: { variables: { ntp: "10.0.0.1", token: "***" } }, errors: [] },
      createCluster: {
        cluster: {
          hostGroups: [
            { name: "masters", variables: {} },
            { name: "workers", variables: { role: "worker", token: "***" } },
          ],
        },
        errors: [],
      },
      registerNodes: { nodes: [{ variables: { rack: 7, token: "***" } }], errors: [] },
      updateNodes: { nodes: [{ variables: { rack: 8, slot: 3, token: "***" } }], errors: [] },
    },
  });
  const { effectiveVariables, unknown, nodes } = await ostler.query(
    `{ effectiveVariables(node: { name: "w1" }) { name value source } unknown: effectiveVariables(node: { name: "unknown" }) { name } nodes { nodes { name variables } } }`,
  );
  expect([unknown, effectiveVariables]).toEqual([
    [],
    [
      { name: "host_group", value: "workers", source: "HOST_GROUP" },
      { name: "ntp", value: "10.0.0.1", source: "SITE" },
      { name: "rack", value: 8, source: "NODE" },
      { name: "role", value: "worker", source: "HOST_GROUP" },
      { name: "slot", value: 3, source: "NODE" },
      { name: "token", value: "***", source: "NODE" },
    ],
  ]);
  expect(nodes).toEqual({ nodes: [{ name: "w1", variables: { rack: 8, slot: 3, token: "***" } }] });
  expect([text, await ostler.dump()].join("\n")).not.toContain("canary");
});
