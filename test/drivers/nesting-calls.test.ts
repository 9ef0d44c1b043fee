/** Calls that make nested calls, and the process that they leave to them. */
import { expect, test } from "vitest";
import { createMemory } from "../../src/drivers/isolation/driver-memory.ts";
import { NestingCalls } from "../../src/drivers/isolation/nesting-calls.ts";

const plugin = {
  module: "file:///none.ts",
  hash: null,
  permissions: [],
  name: "none",
  version: "1.0.0",
  memory: createMemory(),
  egress: null,
};
const aWorker = (calledMs = 0) => ({ plugin, state: "called", calledMs }) as const;

test("function is known to make nested calls from the first one that it makes", () => {
  const calls = new NestingCalls();
  expect(calls.isKnown(plugin, "deploy.prepare")).toBe(false);
  calls.note(aWorker(), "deploy.prepare");
  expect(calls.isKnown(plugin, "deploy.prepare")).toBe(true);
  expect(calls.isKnown(plugin, "deploy.write_image")).toBe(false);
  expect(calls.isKnown({ ...plugin }, "deploy.prepare")).toBe(false);
});

test("only the last process without such a call is left to nested calls, unless it is the only one [R-695]", () => {
  const calls = new NestingCalls();
  const [first, second, third] = [aWorker(), aWorker(), aWorker()];
  expect(calls.needsAnother([first])).toBe(false);
  expect(calls.needsAnother([first, second, third])).toBe(false);
  calls.hold(first);
  expect(calls.needsAnother([first, second, third])).toBe(false);
  calls.note(second, "deploy.prepare");
  expect(calls.needsAnother([first, second, third])).toBe(true);
  calls.release(first);
  expect(calls.needsAnother([first, second, third])).toBe(false);
});

test("call is not long because it waits for a nested call that has no process yet [R-695]", () => {
  const calls = new NestingCalls();
  const [first, second, third] = [aWorker(500), aWorker(500), aWorker(500)];
  calls.hold(first);
  calls.hold(second);
  expect(calls.split([first, second, third], 0)).toEqual({ blocked: 0, prompt: 0 });
  expect(calls.split([first, second, third], 1)).toEqual({ blocked: 1, prompt: 0 });
  // Nested calls of another driver's steps.
  expect(calls.split([first, second, aWorker(1)], 9)).toEqual({ blocked: 2, prompt: 1 });
});
