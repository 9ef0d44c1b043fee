/** The parts that the scenarios drive, and comparisons of a page with the database. */
import type { Browser, Page } from "playwright-core";
import { sentenceCase } from "../src/fleet/states.ts";
import type { Changes } from "./changes.ts";
import type { Front } from "./front.ts";
import { differences, readTable, storedTable } from "./table.ts";
import type { Service } from "../../../test/console/browser/service.ts";
import { VIEWPORT, WAIT_MS } from "./tab.ts";
import type { Tab } from "./tab.ts";

export interface Lab {
  readonly folder: string;
  readonly nodes: number;
  readonly seconds: number;
  readonly service: Service;
  /** Of other clients. */
  readonly changes: Changes;
  readonly front: Front;
  readonly program: Browser;
  readonly tab: Tab;
  check(title: string, ok: boolean, detail?: string): void;
}

export async function nodeCount(service: Service): Promise<number> {
  const [row] = await service.sql<{ count: number }[]>`select count(*)::int as count from nodes`;
  return row?.count ?? 0;
}

export async function tableEquals(page: Page, { service, check }: Lab, title: string): Promise<void> {
  await page.setViewportSize({ ...VIEWPORT, height: 2_400 });
  const differing = await untilNone(async () => differences(await readTable(page), await storedTable(service.sql)));
  check(title, differing.length === 0, differing.slice(0, 3).join("\n     ") || `${await nodeCount(service)} rows`);
  await page.setViewportSize(VIEWPORT);
}

/** The buttons above the table, with the number of nodes in each state. */
export async function countsEqual(page: Page, { service, check }: Lab, title: string): Promise<void> {
  const differing = await untilNone(async () => {
    const shown = await page.locator(".counts button").allTextContents();
    const stored = await service.sql<{ state: string; count: number }[]>`
      select state, count(*)::int as count from nodes group by state`;
    const lines = stored.map(({ state, count }) => `${sentenceCase(state)} ${count.toLocaleString("en")}`);
    return linesThatDiffer(shown, lines);
  });
  check(title, differing.length === 0, differing.join("\n     "));
}

/** Lines that only one of the two has. */
export function linesThatDiffer(shown: readonly string[], stored: readonly string[]): readonly string[] {
  return [
    ...shown.filter((line) => !stored.includes(line)).map((line) => `shown: ${line}`),
    ...stored.filter((line) => !shown.includes(line)).map((line) => `stored: ${line}`),
  ];
}

/** The last change may be on its way, so both are read until they are equal, or for a quarter of `WAIT_MS`. */
export async function untilNone(read: () => Promise<readonly string[]>): Promise<readonly string[]> {
  const until = performance.now() + WAIT_MS / 4;
  for (;;) {
    const differing = await read();
    if (differing.length === 0 || performance.now() >= until) return differing;
  }
}
