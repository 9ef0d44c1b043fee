/** The browser for checks of pages: one of this machine, or a Chromium from npm, which is installed when needed. */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { chromium } from "playwright-core";
import type { Browser } from "playwright-core";

const BROWSERS = ["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"];
/** With a lock of its own: 70 MB that only machines without a browser need. */
const PACKAGE = fileURLToPath(new URL("../../../packages/console/browser/", import.meta.url));
const MISSING = "console: no browser. Install the package chromium, or name one in OSTLER_BROWSER.";

export interface FoundBrowser {
  /** Path of the program. */
  readonly path: string;
  readonly args: readonly string[];
}

/** `OSTLER_BROWSER`, else the first on the PATH; null if there is none. */
function installedBrowser(): string | null {
  const named = process.env["OSTLER_BROWSER"];
  if (named !== undefined) return existsSync(named) ? named : null;
  const folders = (process.env["PATH"] ?? "").split(":");
  return (
    BROWSERS.flatMap((name) => folders.map((folder) => join(folder, name))).find((path) => existsSync(path)) ?? null
  );
}

/** Throws one sentence if this machine can have no browser. */
export async function findBrowser(): Promise<FoundBrowser> {
  const path = installedBrowser();
  // Chromium refuses its sandbox to root.
  if (path !== null) return { path, args: process.getuid?.() === 0 ? ["--no-sandbox"] : [] };
  if (process.env["OSTLER_BROWSER"] !== undefined || process.platform !== "linux" || process.arch !== "x64")
    throw new Error(MISSING);
  return browserFromNpm();
}

/** The package unpacks the program into TMPDIR, once: 209 MB. */
async function browserFromNpm(): Promise<FoundBrowser> {
  const module = join(PACKAGE, "node_modules/@sparticuz/chromium/build/index.js");
  if (!existsSync(module)) {
    console.log("console: installing a browser from npm (70 MB)");
    const { status } = spawnSync("npm", ["ci", "--ignore-scripts"], { cwd: PACKAGE, stdio: "inherit" });
    if (status !== 0) throw new Error(MISSING);
  }
  const { default: packed } = (await import(pathToFileURL(module).href)) as {
    readonly default: { readonly args: readonly string[]; executablePath(): Promise<string> };
  };
  return { path: await packed.executablePath(), args: packed.args };
}

export function launch({ path, args }: FoundBrowser): Promise<Browser> {
  return chromium.launch({ executablePath: path, args: [...args] });
}
