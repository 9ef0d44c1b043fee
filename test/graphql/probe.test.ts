/** Probes of addresses through the API: one answer, and a request that is refused. */
import { afterAll, expect, test } from "vitest";
import { serviceUnderTest } from "../support/service.ts";

const PASSWORD = "Frotz-17-gnusto";

const ostler = await serviceUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

const PROBE = `mutation Probe($input: ProbeNodesInput!) { probeNodes(input: $input) {
  results {
    address driver { name } kind
    machine { name controller settings { fake { delayMs } } node { name } abilities { name works reason } abilitiesError { code } }
    error { code message }
  }
  errors { code path }
} }`;

const probe = async (input: object) =>
  (await ostler.query<{ probeNodes: { results: readonly object[]; errors: readonly object[] } }>(PROBE, { input }))
    .probeNodes;

test("probeNodes returns a machine or a failure for each address and driver, without the secret [R-518]", async () => {
  const answer = await probe({
    addresses: ["10.9.0.1", "10.9.0.2"],
    drivers: [{ fake: { password: PASSWORD, refusesLogin: ["10.9.0.2"], names: { "10.9.0.1": "rack9-u1" } } }],
  });
  expect(answer).toMatchObject({
    errors: [],
    results: [
      {
        address: "10.9.0.1",
        driver: { name: "fake" },
        kind: null,
        machine: { name: "rack9-u1", controller: "10.9.0.1", node: null, abilitiesError: null },
        error: null,
      },
      { address: "10.9.0.2", kind: "AUTHENTICATION", machine: null, error: { code: "BACKEND_FAILED" } },
    ],
  });
  expect(JSON.stringify(answer)).not.toContain(PASSWORD);
  const { nodes } = await ostler.query<{ nodes: { totalCount: number } }>("{ nodes { totalCount } }");
  expect(nodes.totalCount).toBe(0);
});

test("probeNodes of an invalid address is refused with its path", async () => {
  expect(await probe({ addresses: ["10.9.0.1:623"], drivers: [{ fake: {} }] })).toEqual({
    results: [],
    errors: [{ code: "INVALID_INPUT", path: ["input", "addresses", "0"] }],
  });
});
