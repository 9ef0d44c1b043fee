/** The conformance suite fails where it should; that sound drivers pass it is shown with the drivers. */
import { describe, expect, test } from "vitest";
import * as z from "zod";
import { conformance } from "../../src/drivers/conformance/conformance.ts";
import type { Driver } from "../../src/drivers/driver.ts";
import { aDriver } from "../support/driver.ts";

/** Runs one check on a driver with these settings. */
async function prove(title: string, settings: z.ZodType): Promise<void> {
  const factory = () => ({ ...aDriver("tried"), settings }) as unknown as Driver<unknown>;
  const check = conformance({ factory, settings: {} }).find((one) => one.title === title);
  if (!check) throw new Error(`There is no check "${title}".`);
  await check.run();
}

describe("settings that clients can be given types of", () => {
  const title = "declares settings that clients can be given types of";
  const secret = z.string().meta({ writeOnly: true });

  test("are an object of which every field is named", async () => {
    await expect(prove(title, z.strictObject({ port: z.int(), users: z.array(z.strictObject({ name: z.string() })), tags: z.record(z.string(), z.string()), password: secret }))).resolves.toBeUndefined();
  });

  test.each<[string, z.ZodType, string]>([
    ["an object that takes any field", z.looseObject({}), "the JSON Schema takes fields that it does not name"],
    ["a choice of objects", z.union([z.strictObject({ a: z.string() }), z.strictObject({ b: z.string() })]), "its settings are no object"],
    ["a name that clients cannot write", z.strictObject({ "boot-mode": z.string() }), 'a field "boot-mode"'],
    ["a secret below the top", z.strictObject({ login: z.strictObject({ password: secret }) }), "the secret login.password inside another setting"],
    ["what JSON cannot say", z.strictObject({ since: z.date() }), "cannot be told as JSON Schema"],
  ])("are not %s", async (_what, settings, says) => {
    await expect(prove(title, settings)).rejects.toThrow(says);
  });
});
