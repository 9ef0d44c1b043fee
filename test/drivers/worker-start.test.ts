import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";

/** Prints the modules that a plugin loads until it has made its driver. */
const PROGRAM = `
import { registerHooks } from "node:module";
const loaded = [];
registerHooks({ load(url, context, next) { loaded.push(url); return next(url, context); } });
const { default: factory } = await import(process.argv[1]);
await factory({ log() {} });
console.log(JSON.stringify(loaded));
`;

function modulesOf(plugin: string): readonly string[] {
  const module = new URL(`../../plugins/${plugin}/index.ts`, import.meta.url).href;
  const printed = execFileSync(process.execPath, ["--input-type=module", "--eval", PROGRAM, module], {
    encoding: "utf8",
    cwd: fileURLToPath(new URL("../..", import.meta.url)),
  });
  return JSON.parse(printed) as readonly string[];
}

describe("start of a worker", () => {
  test.each(["fake", "redfish"])("with driver %s loads no schema library [R-653]", (plugin) => {
    const modules = modulesOf(plugin);
    expect(modules.some((url) => url.endsWith(`/plugins/${plugin}/settings.ts`))).toBe(true);
    expect(modules.filter((url) => url.includes("/node_modules/zod/"))).toEqual([]);
  });
});

/** Prints what the first validation of a value changes in a process, for which the service would replace it. */
const VALIDATION = `
const [traces, settings] = process.argv.slice(1);
const { noteProcess } = await import(traces);
const { redfishSettings } = await import(settings);
const change = noteProcess();
redfishSettings.safeParse({});
console.log(change());
`;

test("a call that validated a value cost its process, as the schema library adds global names", () => {
  const files = ["src/drivers/isolation/process-traces.ts", "plugins/redfish/settings.ts"];
  const urls = files.map((file) => new URL(`../../${file}`, import.meta.url).href);
  const printed = execFileSync(process.execPath, ["--input-type=module", "--eval", VALIDATION, ...urls], {
    encoding: "utf8",
  });
  expect(printed.trim()).toBe("null");
});
