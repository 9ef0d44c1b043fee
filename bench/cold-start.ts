/** Subject `start`: from `node src/main.ts` to its line “Ostler is ready”, on a new folder and on one that is there. */
import { spawn } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { median, printTable, shown } from "./figures.ts";
import type { Site } from "./site.ts";

const MAIN = fileURLToPath(new URL("../src/main.ts", import.meta.url));

export async function measureColdStart(site: Site, { rounds }: { readonly rounds: number }): Promise<void> {
  const empty: number[] = [];
  const existing: number[] = [];
  for (let round = 1; round <= rounds; round += 1) {
    const folder = join(site.folder, `start-${round}`);
    empty.push(await startMs(site, folder));
    existing.push(await startMs(site, folder));
  }
  console.log(`  node src/main.ts until it is ready, with the embedded database; medians of ${rounds}`);
  printTable(["", "ms"], [["empty folder", shown(median(empty), 0)], ["existing folder", shown(median(existing), 0)]]);
}

async function startMs(site: Site, folder: string): Promise<number> {
  const begun = performance.now();
  const environment = { PATH: process.env["PATH"], OSTLER_DATA: folder, OSTLER_PORT: "0", OSTLER_LOG: "error" };
  const child = spawn(process.execPath, [MAIN], { env: environment, stdio: ["ignore", "pipe", "inherit"] });
  site.watch(child);
  const ended = new Promise<void>((done) => child.once("exit", () => done()));
  const ready = new Promise<number>((give, fail) => {
    child.stdout.on("data", (chunk: Buffer) => {
      if (chunk.includes("Ostler is ready")) give(performance.now() - begun);
    });
    child.once("exit", (code) => fail(new Error(`src/main.ts ended with ${code} before it was ready.`)));
  });
  const milliseconds = await ready;
  child.kill("SIGTERM");
  await ended;
  return milliseconds;
}
