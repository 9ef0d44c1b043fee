/** Drivers of version 1 of the contract: adapted when they are loaded. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import type { BootOptions, Call } from "../../src/drivers/driver.ts";
import { loadPlugins } from "../../src/drivers/load.ts";
import { variablesFor, variablesReadBy } from "../../src/drivers/variables.ts";
import { createLog } from "../../src/log.ts";

const folder = mkdtempSync(join(tmpdir(), "ostler-version-1-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const SOURCE = `
class Lamp {
  contract = 1;
  name = "lamp";
  version = "1.0.0";
  description = "Made for a test.";
  settings = { "~standard": { version: 1, vendor: "test", validate: (value) => ({ value }),
    jsonSchema: { input: () => ({ type: "object", properties: {} }), output: () => ({}) } } };
  set = [];
  power = {
    read: async () => "OFF",
    set: async () => {},
    setBootDevice: async (_call, device, options) => { this.set.push([device, options]); },
  };
  controllerOf() { return this.name; }
}
export default () => new Lamp();
`;

async function lamp() {
  const file = join(folder, "lamp.mjs");
  writeFileSync(file, SOURCE);
  const registry = await loadPlugins([file], createLog("silent"));
  const driver = registry.get("lamp");
  if (!driver) throw new Error("It was not loaded.");
  return driver;
}

test("driver of version 1 is loaded and adapted: it receives all variables, and none is unknown [R-372]", async () => {
  const driver = await lamp();
  expect([driver.contract, driver.name, driver.controllerOf?.({})]).toEqual([2, "lamp", "lamp"]);
  expect(variablesReadBy(driver)).toEqual({ names: [], others: true });
  expect(variablesFor(driver, { image: "debian" })).toEqual({ image: "debian" });
});

test("driver of version 1 reports UNSUPPORTED for a boot mode and for HTTP boot, which it would ignore", async () => {
  const driver = await lamp();
  const boot = (device: "PXE" | "HTTP", options: BootOptions) =>
    driver.power.setBootDevice?.({} as Call<unknown>, device, options);
  await expect(boot("PXE", { persistent: true })).resolves.toBeUndefined();
  await expect(boot("PXE", { persistent: true, mode: "UEFI" })).rejects.toMatchObject({ kind: "UNSUPPORTED" });
  await expect(boot("HTTP", { persistent: true })).rejects.toMatchObject({ name: "DriverError", kind: "UNSUPPORTED" });
});
