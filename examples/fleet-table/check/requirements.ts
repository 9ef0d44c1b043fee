/** Whether a browser can drive the page, and the packages of the example. */
import { spawnSync } from "node:child_process";
import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { installedBrowser } from "../../../test/console/browser/browser.ts";

/** Why this machine cannot drive the page; null if it can. */
export function missingForBrowser(): string | null {
  if (installedBrowser() !== null) return null;
  const named = process.env["OSTLER_BROWSER"];
  return named === undefined
    ? "there is no browser: install the Debian package chromium, or name one in OSTLER_BROWSER"
    : `OSTLER_BROWSER names ${named}, which does not exist`;
}

/** Installs the packages of the example, unless those of its lock are there. */
export function installPackages(folder: string): void {
  const installed = join(folder, "node_modules/.package-lock.json");
  const lock = join(folder, "package-lock.json");
  if (existsSync(installed) && statSync(installed).mtimeMs >= statSync(lock).mtimeMs) return;
  run(folder, "npm", ["ci", "--no-audit", "--no-fund"]);
}

export function buildPage(folder: string): void {
  run(folder, "npm", ["run", "--silent", "build"]);
}

function run(folder: string, command: string, parameters: readonly string[]): void {
  const { status } = spawnSync(command, parameters, { cwd: folder, stdio: "inherit" });
  if (status !== 0) throw new Error(`${command} ${parameters.join(" ")} in ${folder} ended with ${status}.`);
}
