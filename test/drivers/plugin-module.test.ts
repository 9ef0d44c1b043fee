/** Where the modules of plugins are found. */
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { pluginModule } from "../../src/drivers/plugin-module.ts";

const folder = realpathSync(mkdtempSync(join(tmpdir(), "ostler-plugins-")));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function file(path: string, text = "export default () => ({});\n"): string {
  const whole = join(folder, path);
  mkdirSync(join(whole, ".."), { recursive: true });
  writeFileSync(whole, text);
  return whole;
}

const found = (word: string, pluginFolder: string | null = null) => fileURLToPath(pluginModule(word, pluginFolder));

describe("modules of plugins", () => {
  test("a bundled name leads to the bundled plugin, also if the plugin folder has one of that name [R-430]", () => {
    file("named/fake.js");
    expect(found("fake", join(folder, "named"))).toMatch(/plugins\/fake\/index\.ts$/);
  });

  test.each([
    ["a module", "pdu.js", "pdu"],
    ["a folder with an index", "lamp/index.js", "lamp"],
  ])("a name leads to %s in the plugin folder [R-430]", (_what, path, word) => {
    const module = file(join("named", path));
    expect(found(word, join(folder, "named"))).toBe(module);
  });

  test("a path of a folder leads to the main module of its package [R-431]", () => {
    const module = file("torch/dist/main.js");
    file("torch/package.json", JSON.stringify({ name: "torch", main: "dist/main.js" }));
    expect(found(join(folder, "torch"))).toBe(module);
  });

  test("a package that is not built yet is refused with the modules that are missing [R-431]", () => {
    file("unbuilt/package.json", JSON.stringify({ name: "unbuilt", main: "dist/main.js" }));
    expect(() => found(join(folder, "unbuilt"))).toThrow(/has no module: none of .*dist\/main\.js.* exists; build it/);
  });

  test("a package that is installed in the working folder is found [R-432]", () => {
    const module = file("work/node_modules/ostler-driver-pdu/index.js");
    file(
      "work/node_modules/ostler-driver-pdu/package.json",
      JSON.stringify({ name: "ostler-driver-pdu", type: "module" }),
    );
    const before = process.cwd();
    process.chdir(join(folder, "work"));
    try {
      expect(found("ostler-driver-pdu")).toBe(module);
    } finally {
      process.chdir(before);
    }
  });

  test("a name that leads nowhere is refused [R-430]", () => {
    expect(() => found("no-such-plugin", folder)).toThrow(/Cannot find package/);
  });
});
