/**
 * Subject `wall`: what the wall of the web console keeps while it stands beside a fleet that works, for as long as one
 * likes. A page that leaks grows from line to line. Needs Chromium.
 */
import { setTimeout as delay } from "node:timers/promises";
import { findBrowser, launch } from "../test/console/browser/browser.ts";
import { nameOf, startService } from "../test/console/browser/service.ts";
import type { Service } from "../test/console/browser/service.ts";
import { begin, script } from "../test/console/browser/lab.ts";
import { openPage } from "./console.ts";
import { shown } from "./figures.ts";

export interface WallOptions {
  readonly nodes: number;
  readonly seconds: number;
}

const COLUMNS = ["minutes", "transitions", "failed", "heap, MB", "elements", "listeners", "documents", "sockets"];
const SAMPLES = 12;
/** Nodes that begin to be cleaned each second. Every 97th fails. */
const BATCH = 30;
const FAILS = 97;
const EVERY_MS = 1_000;

export async function measureWall({ nodes, seconds }: WallOptions): Promise<void> {
  await using service = await startService();
  await service.register(nodes);
  const names = Array.from({ length: nodes }, (_, index) => nameOf(index));
  await script(
    service,
    names.filter((_, index) => index % FAILS === 0),
    { "clean.erase_disks": { fail: "The disk is worn out." } },
  );
  const managed = await begin(service, "manageNodes", "ManageNodesInput!", { nodes: { names } });
  while (!(await hasEnded(service, managed))) await delay(EVERY_MS);
  await using browser = await launch(await findBrowser());
  const { page, heapMb, metric } = await openPage(browser, `${service.url}/console/wall`);
  const startedAt = performance.now();
  // A line when it is known: the run may be ended early.
  console.log(`  ${COLUMNS.join("  ")}`);
  for (let second = 0, sample = 0; sample <= SAMPLES; second += 1) {
    if (performance.now() - startedAt >= (sample * seconds * 1_000) / SAMPLES) {
      const [row] = await service.sql<{ transitions: number; failed: number }[]>`
        select count(*)::int as transitions, (select count(*)::int from nodes where last_error is not null) as failed from transitions`;
      const { sent } = await page.evaluate(() => window.noted);
      const cells = [
        shown((performance.now() - startedAt) / 60_000),
        String(row?.transitions),
        String(row?.failed),
        shown(await heapMb()),
        ...(await Promise.all(["Nodes", "JSEventListeners", "Documents"].map(metric))).map(String),
        String(sent.length),
      ];
      console.log(`  ${cells.map((cell, index) => cell.padStart(COLUMNS[index]?.length ?? 0)).join("  ")}`);
      sample += 1;
    }
    const batch = Array.from({ length: BATCH }, (_, index) => nameOf((second * BATCH + index) % nodes));
    await begin(service, "cleanNodes", "CleanNodesInput!", { nodes: { names: batch }, acceptance: "BEST_EFFORT" });
    await delay(EVERY_MS);
  }
}

async function hasEnded({ sql }: Service, uuid: string): Promise<boolean> {
  const [row] = await sql<
    { ended: boolean }[]
  >`select finished_at is not null as ended from operations where id = ${uuid}`;
  return row?.ended ?? false;
}
