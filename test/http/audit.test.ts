/** GraphQL over HTTP by graphql-http's audit of the specification: each of its audits is a test. */
import { serverAudits } from "graphql-http";
import { afterAll, expect, test } from "vitest";
import { serviceUnderTest } from "../support/service.ts";

const ostler = await serviceUnderTest({ started: false });
afterAll(() => ostler[Symbol.asyncDispose]());

const audits = serverAudits({ url: `${ostler.url}/graphql` });

test("audit of GraphQL over HTTP is complete", () => {
  expect(audits.length).toBeGreaterThanOrEqual(61);
});

test.each(audits)("audit of GraphQL over HTTP: $id $name", async (audit) => {
  expect(await audit.fn()).toMatchObject({ status: "ok" });
});
