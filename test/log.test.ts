/** Errors in the log: what is logged, and what is left out. */
import { PassThrough } from "node:stream";
import { DrizzleQueryError } from "drizzle-orm";
import { GraphQLError } from "graphql";
import { expect, test } from "vitest";
import { createLog, errorToLog, textDestination } from "../src/log.ts";

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
])("a logged error of %s has the statement and the reason, but no parameter", (_what, error) => {
  const logged = JSON.stringify(errorToLog(error));
  expect(logged).toContain("insert into t values");
  expect(logged).toContain("canceling statement");
  expect(logged).not.toContain("hush");
});

test("a logged error of postgres.js has neither the parameters nor the row that violates a constraint", () => {
  const logged = JSON.stringify(errorToLog(cause));
  expect(logged).toContain("57014");
  expect(logged).not.toContain("hush");
});

test("a logged error of a lost connection leaves out the client's state", () => {
  const lost = Object.assign(new Error("Connection terminated unexpectedly"), {
    client: { user: "ostler", connectionParameters: { host: "db" } },
  });
  expect(errorToLog(lost)).toMatchObject({ message: "Connection terminated unexpectedly" });
  expect(errorToLog(lost)).not.toHaveProperty("client");
});

test("a thrown value that is not an Error is logged unchanged", () => {
  expect(errorToLog("a text")).toBe("a text");
  expect(errorToLog(undefined)).toBe(undefined);
});

test("the log for programs has one object per line, with the level as a word", () => {
  const lines: string[] = [];
  createLog("info", { write: (line) => void lines.push(line) }).warn({ node: "a" }, "step failed");
  expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual([
    { level: "warn", time: expect.stringMatching(/^\d{4}-.*Z$/), node: "a", msg: "step failed" },
  ]);
});

test("the log for people has short lines with the time and the level as a word", async () => {
  const output = new PassThrough({ encoding: "utf8" });
  const read = new Promise<string>((done) => output.once("data", done));
  createLog("info", textDestination(output)).info({ config: { port: 1 }, node: "a" }, "step failed");
  expect(await read).toMatch(/^\[\d\d:\d\d:\d\d\] INFO: step failed \{"node":"a"\}\n$/);
});
