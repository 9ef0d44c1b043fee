/**
 * Subject `wall`: what the wall of the web console keeps while it stands beside a fleet that works, for as long as one
 * likes. A page that leaks grows from line to line. Needs Chromium.
 */
import { setTimeout as delay } from "node:timers/promises";
import { findBrowser, launch } from "../test/console/browser/browser.ts";
import { nameOf, startService } from "../test/console/browser/service.ts";
import { openPage } from "./console.ts";
import { printTable, shown } from "./figures.ts";

export interface WallOptions {
  readonly nodes: number;
  readonly seconds: number;
}

const SAMPLES = 12;
/** Nodes that begin to be cleaned each second. Every 97th fails. */
const BATCH = 12;
const FAILS = 97;
const EVERY_MS = 1_000;

export async function measureWall({ nodes, seconds }: WallOptions): Promise<void> {
  await using service = await startService();
  await service.register(nodes);
  const names = Array.from({ length: nodes }, (_, index) => nameOf(index));
  await service.ask("mutation($input: UpdateNodesInput!) { updateNodes(input: $input) { changedCount } }", {
    input: {
      nodes: { names: names.filter((_, index) => index % FAILS === 0) },
      driver: { fake: { steps: { "clean.erase_disks": { fail: true } } } },
    },
  });
  await service.ask("mutation($input: ManageNodesInput!) { manageNodes(input: $input) { errors { message } } }", {
    input: { nodes: { names } },
  });
  await using browser = await launch(await findBrowser());
  const { page, heapMb, metric } = await openPage(browser, `${service.url}/console/wall`);
  const begin = performance.now();
  const rows: string[][] = [];
  for (let second = 0, sample = 0; sample <= SAMPLES; second += 1) {
    if (performance.now() - begin >= (sample * seconds * 1_000) / SAMPLES) {
      const [{ count = 0 } = {}] = await service.sql<
        { count: number }[]
      >`select count(*)::int as count from transitions`;
      const { sent } = await page.evaluate(() => window.noted);
      rows.push([
        shown((performance.now() - begin) / 60_000, 0),
        String(count),
        shown(await heapMb()),
        ...(await Promise.all(["Nodes", "JSEventListeners", "Documents"].map(metric))).map(String),
        String(sent.length),
      ]);
      sample += 1;
    }
    const batch = Array.from({ length: BATCH }, (_, index) => nameOf((second * BATCH + index) % nodes));
    await service.ask("mutation($input: CleanNodesInput!) { cleanNodes(input: $input) { errors { message } } }", {
      input: { nodes: { names: batch }, acceptance: "BEST_EFFORT" },
    });
    await delay(EVERY_MS);
  }
  printTable(["minutes", "transitions", "heap, MB", "elements", "listeners", "documents", "sockets"], rows);
}
