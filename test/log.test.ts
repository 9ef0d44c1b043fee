/** The log: what it tells of errors, and what not. */
import { DrizzleQueryError } from "drizzle-orm";
import { GraphQLError } from "graphql";
import { expect, test } from "vitest";
import { errorToLog } from "../src/log.ts";

const cause = Object.assign(new Error("canceling statement due to statement timeout"), {
  code: "57014",
  detail: "Failing row contains (7, hush).",
  parameters: ["hush", 1],
});
const failed = new DrizzleQueryError("insert into t values ($1, $2)", ["hush", 1], cause);

test.each([
  ["a statement", failed],
  ["a statement below another error", new Error("It did not work.", { cause: failed })],
  ["a statement in a field", new GraphQLError(failed.message, { path: ["nodes"], originalError: failed })],
])("of %s that failed it has the text and the reason, and no value", (_what, error) => {
  const told = JSON.stringify(errorToLog(error));
  expect(told).toContain("insert into t values");
  expect(told).toContain("canceling statement");
  expect(told).not.toContain("hush");
});

test("of one that failed as it was written, without Drizzle, neither its values nor the row that broke a rule", () => {
  const told = JSON.stringify(errorToLog(cause));
  expect(told).toContain("57014");
  expect(told).not.toContain("hush");
});

test("of a connection that was lost not all that is known of it", () => {
  const lost = Object.assign(new Error("Connection terminated unexpectedly"), {
    client: { user: "ostler", connectionParameters: { host: "db" } },
  });
  expect(errorToLog(lost)).toMatchObject({ message: "Connection terminated unexpectedly" });
  expect(errorToLog(lost)).not.toHaveProperty("client");
});

test("what is thrown and is no error is told as it is", () => {
  expect(errorToLog("a text")).toBe("a text");
  expect(errorToLog(undefined)).toBe(undefined);
});
