/**
 * The memory that the workers of a driver share: it keeps copies, has limits, and evicts the least recently used value.
 */
import { expect, test } from "vitest";
import { createMemory } from "../../src/drivers/isolation/driver-memory.ts";

const LARGE = "x".repeat(60 * 1024);

test("shared memory returns a value as a copy, until it is deleted", async () => {
  const memory = createMemory();
  const session = { token: "one" };
  await memory.set("bmc-1", session);
  session.token = "changed";
  expect(await memory.get("bmc-1")).toEqual({ token: "one" });
  await memory.set("bmc-1", undefined);
  expect(await memory.get("bmc-1")).toBeUndefined();
  expect(await memory.get("bmc-2")).toBeUndefined();
});

test("shared memory refuses a value that is too large, and keeps the one before it", async () => {
  const memory = createMemory();
  await memory.set("key", "small");
  await expect(memory.set("key", LARGE + LARGE)).rejects.toThrow("may have 65536 characters");
  expect(await memory.get("key")).toBe("small");
});

test("shared memory evicts the least recently used value when it is full", async () => {
  const memory = createMemory();
  await memory.set("touched", "kept");
  await memory.set("untouched", "lost");
  for (let index = 0; index < 1_200; index += 1) {
    await memory.set(`large-${index}`, LARGE);
    if (index % 100 === 0) expect(await memory.get("touched")).toBe("kept");
  }
  expect(await memory.get("untouched")).toBeUndefined();
  expect(await memory.get("large-0")).toBeUndefined();
  expect(await memory.get("large-1199")).toBe(LARGE);
});

test("shared memory refuses a key that is not text, and evicts nothing for it", async () => {
  const memory = createMemory();
  await memory.set("kept", 1);
  await expect(memory.set(7 as unknown as string, 2)).rejects.toThrow(
    "A key of a driver's memory must be a string, not a number.",
  );
  await memory.set("another", 3);
  expect([await memory.get("kept"), await memory.get("another")]).toEqual([1, 3]);
});
