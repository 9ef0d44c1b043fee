/** Ten tabs at once, on ten screens, while the service is killed, connections are cut, and a replica takes over. */
import type { Page } from "playwright-core";
import { sentenceCase } from "../../../packages/console/src/words/states.ts";
import { begin, countsDiffer, differing, runsDiffer, script, untilHolds, untilNone } from "./lab.ts";
import type { Lab } from "./lab.ts";
import { nameOf } from "./service.ts";
import type { Service } from "./service.ts";
import { live } from "./tab.ts";
import type { Tab } from "./tab.ts";

interface Watched {
  readonly screen: string;
  readonly tab: Tab;
  /** Differences of the page to the database. */
  readonly differs: () => Promise<readonly string[]>;
}

/** Nodes of the cluster turin. */
const thirtyFrom = (from: number) => Array.from({ length: 30 }, (_, index) => nameOf(1_500 + from + index));
const WAITING = thirtyFrom(0);
const KILLED = thirtyFrom(100);
const CUT = thirtyFrom(200);
const MOVED = thirtyFrom(300);
const DEAD_MS = 30_000;
const NOTICED_MS = 15_000;
const CUTS = 200;

const commission = (service: Pick<Service, "ask">, worked: readonly string[], more: object = {}) =>
  begin(service, "commissionNodes", "CommissionNodesInput!", {
    nodes: { names: worked },
    onFailure: "LEAVE",
    until: "AVAILABLE",
    ...more,
  });

/** A running operation with waves, the first of which waits for longer than the scenario lasts. */
async function beginWaves(service: Service): Promise<string> {
  await script(service, WAITING, { "clean.erase_disks": { waitSeconds: 3_600 } });
  const uuid = await commission(service, WAITING, { waves: { sizes: [{ count: 20 }, { percent: 100 }] } });
  await untilHolds(async () => {
    const waiting = await service.sql`select from nodes where state = 'CLEAN_WAIT' and name = any(${WAITING})`;
    return waiting.length === 20 ? [] : [`${waiting.length} of 20 nodes wait`];
  });
  return uuid;
}

async function openTabs(lab: Lab, uuid: string, owned: AsyncDisposableStack): Promise<readonly Watched[]> {
  const { service } = lab;
  const opened: Watched[] = [];
  const open = async (
    path: string,
    differs: (tab: Tab) => Promise<readonly string[]>,
    use?: (page: Page) => unknown,
  ) => {
    const tab = owned.use(await lab.open(path));
    tab.expectsFailures = true;
    await use?.(tab.page);
    opened.push({ screen: path, tab, differs: () => differs(tab) });
  };
  const rows = (tab: Tab) => rowsDiffer(tab, service);
  await open("/", (tab) => countsDiffer(tab, service));
  await open("/wall", (tab) => countsDiffer(tab, service));
  await open("/nodes?filter=cluster:turin", rows, selectRows);
  await open("/nodes?sort=-updated&columns=state,cluster,marks", rows, selectRows);
  await open(`/nodes/${WAITING[0]}`, (tab) => nodeDiffers(tab, service, WAITING[0] ?? ""));
  await open(`/operations/${uuid}`, (tab) => runsDiffer(tab, service, uuid));
  await open("/operations", (tab) => operationDiffers(tab, service, uuid));
  await open("/activity", (tab) => activityDiffers(tab, service));
  await open("/clusters/turin", rows, (page) => page.getByLabel("Variables, as JSON").fill('{ "ntp": "10.0'));
  await open("/clusters/oslo", rows, async (page) => {
    await page.getByRole("button", { name: "Commission…" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.locator(".sentence").waitFor();
    await dialog.locator("summary").click();
    await dialog.getByLabel("Waves").fill("1 %, 10 %, re");
    await dialog.getByLabel("Reason").fill("half of a sen");
  });
  return opened;
}

async function selectRows(page: Page): Promise<void> {
  for (const index of [2, 3, 5]) await page.locator("[data-id] input").nth(index).click();
  await page.getByText("3 selected").waitFor();
}

/** All that a person has typed and selected. */
const keptOn = (page: Page) =>
  page.evaluate(() =>
    JSON.stringify([
      ...[...document.querySelectorAll<HTMLInputElement>("input:not([tabindex]), textarea")].map(({ value }) => value),
      ...[...document.querySelectorAll(".selected p")].map(({ textContent }) => textContent),
    ]),
  );

/** The rows in view, by node. */
async function rowsDiffer({ page }: Tab, { sql }: Service): Promise<readonly string[]> {
  const shown = await page
    .locator("[data-id]")
    .evaluateAll((rows) =>
      rows.map((row) => [row.querySelector("a"), row.querySelector(".state")].map((part) => part?.textContent ?? "")),
    );
  const names = shown.map(([name = ""]) => name);
  const stored = await sql<{ name: string; state: string }[]>`select name, state from nodes where name = any(${names})`;
  if (names.length === 0) return ["no row is shown"];
  return differing(
    "rows",
    shown.map(([name, state]) => `${name} ${state}`),
    stored.map(({ name, state }) => `${name} ${sentenceCase(state)}`),
  );
}

async function nodeDiffers({ page }: Tab, { sql }: Service, name: string): Promise<readonly string[]> {
  const [row] = await sql<{ state: string }[]>`select state from nodes where name = ${name}`;
  return differing("node", [(await page.locator("h1 .state").textContent()) ?? ""], [sentenceCase(row?.state ?? "")]);
}

async function operationDiffers({ page }: Tab, { sql }: Service, uuid: string): Promise<readonly string[]> {
  const line = page.locator(".history-line").filter({ has: page.locator(`a[href$="${uuid}"]`) });
  const [row] = await sql<{ state: string }[]>`select state from operations where id = ${uuid}`;
  return differing("operation", [(await line.locator(".state").textContent()) ?? ""], [sentenceCase(row?.state ?? "")]);
}

/** The newest lines. */
async function activityDiffers({ page }: Tab, { sql }: Service): Promise<readonly string[]> {
  const LINES = 20;
  const shown = await page.locator(".life a[href*='/nodes/']").allTextContents();
  const stored = await sql<{ name: string }[]>`
    select node_name as name from transitions order by position desc limit ${LINES}`;
  return differing(
    "activity",
    shown.slice(0, LINES),
    stored.map(({ name }) => name),
  );
}

/** For each tab for which it fails, a line. */
async function each(tabs: readonly Watched[], of: (watched: Watched) => Promise<readonly string[]>) {
  const flaws = await Promise.all(
    tabs.map((watched) =>
      of(watched).catch((error: unknown) => [error instanceof Error ? error.message : String(error)]),
    ),
  );
  return flaws.flatMap((lines, index) => lines.map((line) => `${tabs[index]?.screen}: ${line}`));
}

/** The flaw that there is until as many sockets have been opened since there were `before`. */
const socketsMissing =
  ({ proxy }: Lab, before: number, count: number) =>
  async () => {
    const opened = proxy.counts.sockets - before;
    return opened >= count ? [] : [`${opened} of ${count} sockets were opened`];
  };

/** They return without a click, then equal the database, and keep what they had. `before`: sockets at the last cut. */
async function checkReturn(
  lab: Lab,
  tabs: readonly Watched[],
  { kept, before, after }: { readonly kept: readonly string[]; readonly before: number; readonly after: string },
): Promise<void> {
  const began = performance.now();
  const returned = async ({ tab }: Watched) => {
    await live(tab.page, 60_000);
    return [];
  };
  lab.check(`${after}, every tab connects again`, await untilNone(socketsMissing(lab, before, tabs.length)));
  lab.check(`${after}, every tab returns without a click`, await each(tabs, returned));
  lab.check(`${after}, every tab equals the database`, await each(tabs, ({ differs }) => untilNone(differs)));
  const now = await Promise.all(tabs.map(({ tab }) => keptOn(tab.page)));
  lab.check(
    `${after}, every tab has what was typed and selected`,
    tabs.flatMap(({ screen }, index) =>
      now[index] === kept[index] ? [] : [`${screen}: ${kept[index]}, then ${now[index]}`],
    ),
  );
  console.log(`     ${((performance.now() - began) / 1_000).toFixed(1)} s`);
}

export async function survives(lab: Lab): Promise<void> {
  const { service, proxy, check } = lab;
  await using owned = new AsyncDisposableStack();
  const uuid = await beginWaves(service);
  const tabs = await openTabs(lab, uuid, owned);
  check("ten tabs equal the database", await each(tabs, ({ differs }) => untilNone(differs)));
  const kept = await Promise.all(tabs.map(({ tab }) => keptOn(tab.page)));
  await commission(service, KILLED);
  await service.kill();
  const dead = performance.now();
  const noticed = async ({ tab: { page } }: Watched) => {
    await page.locator(".status").getByText("Reconnecting, as of").waitFor({ timeout: NOTICED_MS });
    return [];
  };
  check("every tab reports within 15 s that the service is dead", await each(tabs, noticed));
  await new Promise((resolve) => setTimeout(resolve, Math.max(0, DEAD_MS - (performance.now() - dead))));
  let before = proxy.counts.sockets;
  await service.start();
  await checkReturn(lab, tabs, { kept, before, after: "30 s after a kill" });

  await commission(service, CUT);
  for (let cuts = 0; cuts < CUTS;) {
    before = proxy.counts.sockets;
    cuts += proxy.cut();
    await untilHolds(socketsMissing(lab, before, 1));
  }
  await checkReturn(lab, tabs, { kept, before, after: `after ${CUTS} cuts` });

  await using replica = await service.replica();
  before = proxy.counts.sockets;
  proxy.target = replica.url;
  try {
    await service.kill();
    await commission(replica, MOVED);
    await checkReturn(lab, tabs, { kept, before, after: "at another replica" });
  } finally {
    proxy.target = service.url;
    await service.start();
  }
  await service.ask("mutation { abort(input: { work: { all: true } }) { acceptedCount } }");
  const flaws = tabs.flatMap(({ screen, tab }) => tab.flaws.map((flaw) => `${screen}: ${flaw}`));
  check("nothing else is wrong in any tab", flaws);
}
