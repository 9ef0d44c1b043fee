/** The tail of the log of changes while there is no stream: it numbers what was written. */
import { afterAll, expect, test } from "vitest";
import { createChangeTail } from "../../src/feed/log/change-tail.ts";
import { createLog } from "../../src/log.ts";
import { newestChange } from "../../src/store/log/changes.ts";
import type { Reader } from "../../src/store/postgres/database.ts";
import { engineUnderTest } from "../support/builders.ts";

const ostler = await engineUnderTest({ started: false });
afterAll(() => ostler[Symbol.asyncDispose]());
const { database } = ostler;

test("idle tail numbers once at a time however often it polls, and again after a failure", async () => {
  let [statements, failures] = [0, 1];
  const reader: Reader = new Proxy(database.reader, {
    get(of, name, receiver) {
      if (name !== "execute") return Reflect.get(of, name, receiver) as unknown;
      statements += 1;
      failures -= 1;
      return failures >= 0 ? () => Promise.reject(new Error("the database is away")) : of.execute.bind(of);
    },
  });
  const tail = createChangeTail({ database: { ...database, reader }, log: createLog("silent") });
  await ostler.aNode().made();
  const before = await newestChange(database.reader);
  for (const expected of [1, 2]) {
    for (let poll = 0; poll < 5; poll += 1) tail.poll();
    expect(statements).toBe(expected);
    await tail.settled();
  }
  expect((await newestChange(database.reader)).position).toBeGreaterThan(before.position);
  tail.close();
});
