/** Bounds on what one request may ask. */
import { afterAll, expect, test } from "vitest";
import { DEPTH_MAX } from "../../src/graphql/limits.ts";
import { serviceUnderTest } from "../support/service.ts";

const ostler = await serviceUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

const NESTED = (levels: number) => `{ ${"nodes { edges { node { cluster { ".repeat(levels)} name ${"} } } } ".repeat(levels)} }`;

test("a request that goes round in circles is refused, and says how deep it may be", async () => {
  expect((await ostler.ask(NESTED(3))).errors).toEqual([]);
  expect((await ostler.ask(NESTED(5))).errors).toMatchObject([{ message: expect.stringContaining(`at most ${DEPTH_MAX}`) }]);
});

test("fragments count where they are used", async () => {
  const text = `query { ...all } fragment all on Query ${NESTED(5)}`;
  expect((await ostler.ask(text)).errors).toMatchObject([{ message: expect.stringContaining("fields deep") }]);
});
