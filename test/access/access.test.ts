/** Tokens of callers. */
import { expect, test } from "vitest";
import { identify } from "../../src/access/access.ts";

const TOKEN = "correct-horse-battery";

test.each([
  ["the token", `Bearer ${TOKEN}`, true],
  ["another token of the same length", `Bearer ${TOKEN.replace("c", "k")}`, false],
  ["a prefix of the token", `Bearer ${TOKEN.slice(0, -1)}`, false],
  ["no header", undefined, false],
  ["the token without Bearer", TOKEN, false],
])("caller with %s is identified only by the exact token", (_what, header, isKnown) => {
  expect(identify(header, TOKEN) !== null).toBe(isKnown);
});
