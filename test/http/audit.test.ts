/** GraphQL over HTTP, as graphql-http's audit of the specification asks for it: each of its audits is a test. */
import { serverAudits } from "graphql-http";
import { afterAll, expect, test } from "vitest";
import { serviceUnderTest } from "../support/service.ts";

const ostler = await serviceUnderTest({ started: false });
afterAll(() => ostler[Symbol.asyncDispose]());

const audits = serverAudits({ url: `${ostler.url}/graphql` });

test("the audit is there, whole", () => {
  expect(audits.length).toBeGreaterThanOrEqual(61);
});

test.each(audits)("$id $name", async (audit) => {
  expect(await audit.fn()).toMatchObject({ status: "ok" });
});
