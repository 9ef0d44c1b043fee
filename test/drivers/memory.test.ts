/** The memory that the workers of a driver share: it keeps copies, has bounds, and forgets what was not touched for longest. */
import { expect, test } from "vitest";
import { createMemory } from "../../src/drivers/isolation/driver-memory.ts";

const LARGE = "x".repeat(60 * 1024);

test("what is set comes back as a copy, until it is taken away", async () => {
  const memory = createMemory();
  const session = { token: "one" };
  await memory.set("bmc-1", session);
  session.token = "changed";
  expect(await memory.get("bmc-1")).toEqual({ token: "one" });
  await memory.set("bmc-1", undefined);
  expect(await memory.get("bmc-1")).toBeUndefined();
  expect(await memory.get("bmc-2")).toBeUndefined();
});

test("a value that is too large is refused, and the one before it stays", async () => {
  const memory = createMemory();
  await memory.set("key", "small");
  await expect(memory.set("key", LARGE + LARGE)).rejects.toThrow("may have 65536 characters");
  expect(await memory.get("key")).toBe("small");
});

test("when it is full, what was not touched for longest goes first", async () => {
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

test("a key that is no text is refused, and nothing else is forgotten for it", async () => {
  const memory = createMemory();
  await memory.set("kept", 1);
  await expect(memory.set(7 as unknown as string, 2)).rejects.toThrow(
    "A key of a driver's memory must be a string, not a number.",
  );
  await memory.set("another", 3);
  expect([await memory.get("kept"), await memory.get("another")]).toEqual([1, 3]);
});
