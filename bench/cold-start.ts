/**
 * Subject `start`: from `node src/main.ts` to its line “Ostler is ready”, with the embedded database in an empty and in
 * an existing folder, and as a second replica of a running service on a served database.
 */
import { join } from "node:path";
import { median, printTable, shown } from "./figures.ts";
import { startServed } from "./service.ts";
import type { Testbed } from "./testbed.ts";

export async function measureColdStart(testbed: Testbed, { rounds }: { readonly rounds: number }): Promise<void> {
  const empty: number[] = [];
  const existing: number[] = [];
  const joining: number[] = [];
  for (let round = 1; round <= rounds; round += 1) {
    const folder = join(testbed.folder, `start-${round}`);
    empty.push(await startMs(testbed, { OSTLER_DATA: folder }));
    existing.push(await startMs(testbed, { OSTLER_DATA: folder }));
    joining.push(await joinMs(testbed));
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

async function startMs(testbed: Testbed, environment: Readonly<Record<string, string>>): Promise<number> {
  await using service = await startServed(testbed, { environment });
  return service.readyMs;
}

async function joinMs(testbed: Testbed): Promise<number> {
  await using made = await testbed.database("served");
  if (!("url" in made.connection)) throw new Error("A served database has a URL.");
  const environment = { DATABASE_URL: made.connection.url };
  await using others = new AsyncDisposableStack();
  others.use(await startServed(testbed, { environment }));
  return await startMs(testbed, environment);
}
