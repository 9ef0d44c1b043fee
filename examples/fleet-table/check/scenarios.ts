/** The promises of the page, each as a function that drives it and reports what it saw. */
import { pagesAgree } from "./agreement.ts";
import { editWithoutPause, send, untilQuiet } from "./changes.ts";
import { nodeCount, tableEquals } from "./lab.ts";
import type { Lab } from "./lab.ts";
import { watchLoad } from "./load-times.ts";
import { openMetrics } from "./page-metrics.ts";
import { nameOf } from "../../../test/console/browser/service.ts";
import { VIEWPORT, live, openTab, whole } from "./tab.ts";

async function loads(lab: Lab): Promise<void> {
  const {
    tab: { page },
    front,
    nodes,
    check,
    service,
    folder,
  } = lab;
  const times = await watchLoad(page);
  const metrics = await openMetrics(page);
  const cpuBefore = service.cpuSeconds();
  await page.goto(front.url);
  await whole(page, nodes);
  const cpu = service.cpuSeconds() - cpuBefore;
  const { screen, counts, live: all } = await times();
  const busy = (await metrics.read())("TaskDuration");
  check(
    `shows all ${nodes} nodes, and a screen of them before`,
    screen < all,
    `a screen of rows after ${screen} ms, counts after ${counts} ms, all rows and live after ${all} ms; CPU: main thread of the page ${(busy * 1_000).toFixed(0)} ms, service ${(cpu * 1_000).toFixed(0)} ms`,
  );
  const rows = await page.locator("[data-id]").count();
  check("only rows in view are in the document", rows > 0 && rows < 100, `${rows} rows`);
  check("one socket", front.counts.sockets === 1, `${front.counts.sockets}`);
  // The first page has 100 nodes, the others 850.
  const pages = 1 + Math.ceil(Math.max(0, nodes - 100) / 850);
  check("one request over HTTP for each page of nodes", front.counts.pages === pages, `${front.counts.pages}`);
  check("no other request over HTTP", front.counts.http === pages, `${front.counts.http - pages}`);
  await tableEquals(page, lab, "the loaded table equals the database");
  await page.screenshot({ path: `${folder}screenshots/whole.png` });
}

async function staysLive(lab: Lab): Promise<void> {
  const {
    tab: { page, sent },
    front,
    seconds,
    check,
    service,
    changes,
  } = lab;
  const before = { ...front.counts, ...sent };
  const metrics = await openMetrics(page);
  await metrics.collectGarbage();
  const start = await metrics.read();
  const cpuBefore = service.cpuSeconds();
  const began = performance.now();
  const made = await changes.makeUntil(AbortSignal.timeout(seconds * 1_000));
  const took = (performance.now() - began) / 1_000;
  await metrics.collectGarbage();
  const end = await metrics.read();
  const busy = end("TaskDuration") - start("TaskDuration");
  const figures = `${made} changes in ${took.toFixed(0)} s; main thread ${((busy / took) * 100).toFixed(1)} %, heap ${(end("JSHeapUsedSize") / 1e6).toFixed(1)} MB, service ${(service.cpuSeconds() - cpuBefore).toFixed(1)} s of CPU`;
  check("changes were made", made > 10, figures);
  await untilQuiet(service);
  await tableEquals(page, lab, `after ${seconds} seconds of changes the table equals the database`);
  check(
    "the page polls nothing: no request over HTTP",
    front.counts.http === before.http,
    `${front.counts.http - before.http}`,
  );
  check("the page opens no further socket", front.counts.sockets === before.sockets);
  const others = sent.others + sent.resumed - before.others - before.resumed;
  check("the page sends nothing but pings", others === 0, `${sent.pings - before.pings} pings, ${others} others`);
}

async function filters(lab: Lab): Promise<void> {
  const {
    tab: { page },
    check,
    service,
    folder,
  } = lab;
  const [row] = await service.sql<{ count: number }[]>`
    select count(*)::int as count from nodes where name like '%0042%'`;
  await page.getByLabel("Name").fill("0042");
  await whole(page, row?.count ?? 0);
  const matching = await page.locator("[data-id]").filter({ hasText: "0042" }).count();
  check("a part of the name filters", matching > 0 && matching === row?.count, `${matching} rows`);
  await page.screenshot({ path: `${folder}screenshots/filtered.png` });
  const name = nameOf(42);
  await page.getByLabel("Mark").selectOption("maintenance");
  await page.waitForFunction((text) => !document.body.innerText.includes(text), name);
  await send(service, "setMaintenance", "SetMaintenanceInput!", { nodes: { names: [name] }, reason: "new disk" });
  await page.getByText("Maintenance: new disk").waitFor();
  check("a node that begins to match appears", true);
  await send(service, "clearMaintenance", "ClearMaintenanceInput!", { nodes: { names: [name] } });
  await page.getByText("Maintenance: new disk").waitFor({ state: "detached" });
  check("a node that no longer matches disappears", true);
  check("the filter is in the address", page.url().includes("name=0042&mark=maintenance"), page.url());
  await page.getByRole("button", { name: "Clear" }).click();
}

async function filtersWhileRowsChange({ tab: { page }, check, service }: Lab): Promise<void> {
  const over = new AbortController();
  // Several rows a frame, so that the page renders again before the typing counts as paused.
  const editing = Promise.all([1, 2, 4, 5].map((node) => editWithoutPause(service, nameOf(node), over.signal)));
  try {
    await page.getByLabel("Name").fill(nameOf(3));
    await whole(page, 1);
    const shown = await page
      .locator("[data-id]")
      .filter({ hasText: nameOf(3) })
      .count();
    check("a part of the name filters while rows change all the time", shown === 1, `${shown} row`);
  } finally {
    over.abort();
    await editing;
  }
  await page.getByRole("button", { name: "Clear" }).click();
}

async function showsOperations(lab: Lab): Promise<void> {
  const {
    tab: { page },
    front,
    program,
    check,
    service,
    folder,
    nodes,
  } = lab;
  const { page: other } = await openTab(program);
  await other.goto(front.url);
  await whole(other, await nodeCount(service));
  await page.getByLabel("Name").fill(nameOf(nodes - 400).slice(0, -1));
  await whole(page, 10);
  await page.getByLabel("Select all nodes that are shown").check();
  await page.getByRole("button", { name: "Commission…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("10 nodes will do it.").waitFor();
  const [planned] = await service.sql<{ count: number }[]>`
    select count(*)::int as count from operations where finished_at is null`;
  check("the dry run plans and begins nothing", planned?.count === 0);
  await page.screenshot({ path: `${folder}screenshots/plan.png` });
  const requests = front.counts.http;
  await dialog.getByRole("button", { name: "Commission 10 nodes" }).click();
  await page.getByRole("complementary", { name: "Operation" }).getByText("Running").first().waitFor();
  const strip = other.getByRole("navigation", { name: "Running operations" }).getByRole("button");
  await strip.waitFor();
  check("a second browser sees the operation begin", true, (await strip.textContent()) ?? "");
  await page.screenshot({ path: `${folder}screenshots/operation.png` });
  await page.getByTestId("operation-state").getByText("Succeeded").waitFor();
  check("the operation that has ended stays in view", (await page.locator(".runs li").count()) === 10, "10 runs");
  await strip.waitFor({ state: "detached" });
  check("a second browser sees the operation end", true);
  check("the operation is followed by one request", front.counts.http === requests + 1);
  await page.getByLabel("Close the operation").click();
  await page.getByRole("button", { name: "Clear" }).first().click();
  await untilQuiet(service);
  await tableEquals(other, lab, "the second browser's table equals the database");
  await other.context().close();
}

async function survivesCuts(lab: Lab): Promise<void> {
  const {
    tab: { page, sent },
    front,
    check,
    service,
    changes,
    folder,
  } = lab;
  await whole(page, await nodeCount(service));
  const before = { ...front.counts, ...sent };
  await changes.makeDuring(async () => {
    for (let cut = 0; cut < 5; cut += 1) {
      await live(page);
      front.cut();
      await page.locator('.status[data-live="false"]').waitFor();
      if (cut === 0) await page.screenshot({ path: `${folder}screenshots/cut.png` });
      await changes.further(2);
    }
  });
  await untilQuiet(service);
  await live(page);
  await tableEquals(page, lab, "after five cuts under load the table equals the database");
  check(
    "the stream went on after its last cursor",
    sent.resumed - before.resumed >= 5,
    `${sent.resumed - before.resumed} times`,
  );
  check(
    "nothing is requested over HTTP after cuts",
    front.counts.http === before.http,
    `${front.counts.http - before.http} requests`,
  );
}

async function survivesKills(lab: Lab): Promise<void> {
  const {
    tab: { page },
    front,
    check,
    service,
    folder,
  } = lab;
  const before = { ...front.counts };
  await send(service, "commissionNodes", "CommissionNodesInput!", {
    nodes: { names: Array.from({ length: 50 }, (_, index) => nameOf(index + 600)) },
    acceptance: "BEST_EFFORT",
  });
  for (let kill = 0; kill < 2; kill += 1) {
    await live(page);
    await service.kill();
    await page.getByText("Reconnecting – as of").waitFor();
    if (kill === 0) await page.screenshot({ path: `${folder}screenshots/killed.png` });
    check("the rows stay while the service is down", (await page.locator("[data-id]").count()) > 0);
    await service.start();
  }
  await untilQuiet(service);
  await live(page);
  await tableEquals(page, lab, "after two kills of the service the table equals the database");
  check("nothing is requested over HTTP after kills", front.counts.http === before.http);
}

async function looks(lab: Lab): Promise<void> {
  const {
    tab: { page },
    folder,
  } = lab;
  await page.emulateMedia({ colorScheme: "dark" });
  await page.getByRole("button", { name: /^State/ }).click();
  await page.screenshot({ path: `${folder}screenshots/dark.png` });
  await page.setViewportSize({ width: 400, height: 800 });
  await page.screenshot({ path: `${folder}screenshots/narrow.png` });
  await page.setViewportSize(VIEWPORT);
}

export const SCENARIOS: readonly ((lab: Lab) => Promise<void>)[] = [
  loads,
  staysLive,
  filters,
  filtersWhileRowsChange,
  showsOperations,
  survivesCuts,
  survivesKills,
  pagesAgree,
  looks,
];
