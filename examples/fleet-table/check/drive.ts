/** Drives the page in a browser, and compares what it shows with the database. */
import { mkdirSync } from "node:fs";
import { createChanges } from "./changes.ts";
import { startFront } from "./front.ts";
import { SCENARIOS } from "./scenarios.ts";
import { startService } from "../../../test/console/browser/service.ts";
import { launchBrowser, openTab } from "./tab.ts";

export interface DriveOptions {
  /** Of the example. */
  readonly folder: string;
  /** Path of the program. */
  readonly browser: string;
  readonly nodes: number;
  /** How long changes go on while requests are counted. */
  readonly seconds: number;
}

export async function drive(options: DriveOptions): Promise<{ readonly passed: number; readonly failed: number }> {
  let passed = 0;
  let failed = 0;
  const check = (title: string, ok: boolean, detail = "") => {
    if (ok) passed += 1;
    else failed += 1;
    console.log(`${ok ? "ok  " : "FAIL"} ${title}${detail && ` (${detail})`}`);
  };
  mkdirSync(`${options.folder}screenshots`, { recursive: true });
  await using service = await startService();
  await service.register(options.nodes);
  await using front = await startFront(`${options.folder}dist`, service.url);
  await using program = await launchBrowser(options.browser);
  const tab = await openTab(program);
  tab.page.on("pageerror", (error) => check("the page throws nothing", false, String(error)));
  const changes = createChanges(service, options.nodes);
  const lab = { ...options, service, changes, front, program, tab, check };
  for (const scenario of SCENARIOS)
    await scenario(lab).catch(async (error: unknown) => {
      check(scenario.name, false, String(error));
      await tab.page.screenshot({ path: `${options.folder}screenshots/failed-${scenario.name}.png` });
      // The next one begins without filters.
      await tab.page.goto(front.url);
    });
  return { passed, failed };
}
