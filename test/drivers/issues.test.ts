/** Errors of settings in plain words, as far as the declared shape allows, and without the values. */
import { expect, test } from "vitest";
import * as z from "zod";
import { plainIssues } from "../../src/drivers/issues.ts";

const schema = z.strictObject({
  address: z.string().min(3),
  mode: z.enum(["LEGACY", "UEFI"]).default("UEFI"),
  port: z.int().min(1).max(65_535).default(623),
  ratio: z.number().default(1),
  quiet: z.boolean().default(false),
  hosts: z.array(z.strictObject({ name: z.string() })).default([]),
  login: z.strictObject({ user: z.string() }).optional(),
  either: z.union([z.string(), z.number()]).optional(),
  even: z
    .int()
    .refine((value) => value % 2 === 0, { error: "An odd number is invalid." })
    .optional(),
});

async function messagesOf(value: unknown): Promise<string[]> {
  const result = await schema["~standard"].validate(value);
  return plainIssues(schema, value, result.issues ?? []).map(({ path, message }) => `${path.join(".")}: ${message}`);
}

test.each<[string, Record<string, unknown>, string]>([
  ["a missing field", {}, "address: it is missing; it must be a text"],
  ["null for a required field", { address: null }, "address: it is missing; it must be a text"],
  ["a wrong type", { address: 7 }, "address: it must be a text, not a number"],
  ["a value outside an enumeration", { address: "bmc", mode: "BIOS" }, 'mode: it must be one of "LEGACY", "UEFI"'],
  [
    "a list for an enumeration",
    { address: "bmc", mode: ["UEFI"] },
    'mode: it must be one of "LEGACY", "UEFI", not a list',
  ],
  ["a fraction", { address: "bmc", port: 1.5 }, "port: it must be a whole number, not a fraction"],
  ["a text for a number", { address: "bmc", ratio: "1" }, "ratio: it must be a number, not a text"],
  ["a text for a boolean", { address: "bmc", quiet: "yes" }, "quiet: it must be true or false, not a text"],
  ["a list for an object", { address: "bmc", login: [] }, "login: it must be an object, not a list"],
  ["an object for a list", { address: "bmc", hosts: {} }, "hosts: it must be a list, not an object"],
  [
    "a missing nested field",
    { address: "bmc", hosts: [{ name: "a" }, {}] },
    "hosts.1.name: it is missing; it must be a text",
  ],
])("settings error: %s", async (_what, value, message) => {
  expect(await messagesOf(value)).toEqual([message]);
});

test("settings error that the shape does not explain keeps the library's message, without a second full stop", async () => {
  expect(await messagesOf({ address: "a" })).toEqual([expect.stringMatching(/^address: .*3/)]);
  expect(await messagesOf({ address: "bmc", either: true })).toEqual([expect.stringMatching(/^either: ./)]);
  expect(await messagesOf({ address: "bmc", even: 3 })).toEqual(["even: An odd number is invalid"]);
  expect(await messagesOf({ address: "bmc", unknown: 1 })).toEqual([expect.stringMatching(/^: .*unknown/)]);
});

test("settings error without a JSON Schema keeps the library's message", async () => {
  const dated = z.strictObject({ since: z.date() });
  const result = await dated["~standard"].validate({ since: "now" });
  expect(plainIssues(dated as never, { since: "now" }, result.issues ?? [])).toEqual([
    { path: ["since"], message: expect.stringContaining("date") },
  ]);
});
