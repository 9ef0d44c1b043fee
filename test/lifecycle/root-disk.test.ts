/** The root disk, by the table of cases that the agent's own test reads too (packages/agent, Go). */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import * as z from "zod";
import { rootDisk } from "../../plugins/agent/variables.ts";
import { disksIn, hintsOf } from "../../src/engine/images/machine-facts.ts";
import { chooseRootDisk } from "../../src/lifecycle/root-disk.ts";

const TABLE = new URL("../../packages/agent/internal/disk/testdata/root-disk.json", import.meta.url);
const record = z.record(z.string(), z.json());
const { disks, cases } = z
  .object({
    disks: z.record(z.string(), record),
    cases: z.array(
      z.object({ title: z.string(), disks: z.array(z.string()), hints: record.nullable(), root: z.string() }),
    ),
  })
  .parse(JSON.parse(readFileSync(TABLE, "utf8")));

test.each(cases)("the service and the agent choose the same root disk: $title [R-810]", (one) => {
  const found = disksIn({ disks: one.disks.map((name) => disks[name] ?? {}) }) ?? [];
  const choice = chooseRootDisk(found, one.hints && hintsOf(one.hints));
  const expected = disks[one.root]?.["name"] ?? one.root;
  expect("code" in choice ? choice.code : choice.disk.name).toBe(expected);
});

test.each(["serial", "wwn", "vendor", "model"])("a blank hint is refused: %s", (name) => {
  expect([" ", " x "].map((text) => rootDisk.safeParse({ [name]: text }).data)).toEqual([undefined, { [name]: "x" }]);
});
