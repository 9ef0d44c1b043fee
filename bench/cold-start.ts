/**
 * Subject `start`: from `node src/main.ts` to its line “Ostler is ready”: with the embedded database, on a new folder and
 * on one that is there; and as one more replica of a service that is at work on a served database.
 */
import { join } from "node:path";
import { median, printTable, shown } from "./figures.ts";
import { startServed } from "./service.ts";
import type { Site } from "./site.ts";

export async function measureColdStart(site: Site, { rounds }: { readonly rounds: number }): Promise<void> {
  const empty: number[] = [];
  const existing: number[] = [];
  const joining: number[] = [];
  for (let round = 1; round <= rounds; round += 1) {
    const folder = join(site.folder, `start-${round}`);
    empty.push(await startMs(site, { OSTLER_DATA: folder }));
    existing.push(await startMs(site, { OSTLER_DATA: folder }));
    joining.push(await joinMs(site));
  }
  console.log(`  node src/main.ts until it is ready; medians of ${rounds}`);
  printTable(
    ["", "ms"],
    [
      ["embedded database, empty folder", shown(median(empty), 0)],
      ["embedded database, existing folder", shown(median(existing), 0)],
      ["a replica that joins another on a served database", shown(median(joining), 0)],
    ],
  );
}

async function startMs(site: Site, environment: Readonly<Record<string, string>>): Promise<number> {
  await using service = await startServed(site, { environment });
  return service.readyMs;
}

async function joinMs(site: Site): Promise<number> {
  await using made = await site.database("served");
  if (!("url" in made.connection)) throw new Error("A served database has a URL.");
  const environment = { DATABASE_URL: made.connection.url };
  await using together = new AsyncDisposableStack();
  together.use(await startServed(site, { environment }));
  return await startMs(site, environment);
}
