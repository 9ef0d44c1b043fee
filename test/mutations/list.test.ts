/** `npm run tool -- mutations` applies the defects; this checks that each can still be applied. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { MUTATIONS } from "./list.ts";
import { mutated } from "./run.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

test.each(MUTATIONS)("mutation $id ($breaks) still applies to its file, and names tests that exist", (mutation) => {
  const source = readFileSync(join(ROOT, mutation.file), "utf8");
  expect(mutated(mutation, source)).not.toBe(source);
  expect(mutation.tests.filter((file) => !existsSync(join(ROOT, file)))).toEqual([]);
});

test("mutations have different ids", () => {
  expect(new Set(MUTATIONS.map(({ id }) => id)).size).toBe(MUTATIONS.length);
});
