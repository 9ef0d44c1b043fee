/**
 * `npm run tool -- example-fleet`: builds examples/fleet-table, and drives the page in a real browser against a real
 * service, through the proxy of Vite and one that cuts. Prints a line for each check, and finally `N passed, N failed`.
 */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { Browser } from "playwright-core";
import { preview } from "vite";
import { findBrowser, launch } from "../console/browser/browser.ts";
import { startProxy } from "../console/browser/proxy.ts";
import type { Proxy } from "../console/browser/proxy.ts";
import { nameOf, startService } from "../console/browser/service.ts";
import type { Service } from "../console/browser/service.ts";
import { openTab } from "../console/browser/tab.ts";
import type { Tab } from "../console/browser/tab.ts";

const EXAMPLE = fileURLToPath(new URL("../../examples/fleet-table/", import.meta.url));
/** Two pages of the list. */
const NODES = 600;
const WITHIN_MS = 30_000;
const PAUSE_MS = 100;

interface Lab {
  readonly service: Service;
  readonly proxy: Proxy;
  readonly tab: Tab;
  /** Cursors with which the page has subscribed. */
  readonly cursors: readonly string[];
}

let passed = 0;
let failed = 0;

/** A check has failed if there are flaws. */
function check(title: string, flaws: readonly string[]): void {
  if (flaws.length === 0) passed += 1;
  else failed += 1;
  console.log([`${flaws.length === 0 ? "ok  " : "FAIL"} ${title}`, ...flaws.slice(0, 5)].join("\n       "));
}

/** Resolves to nothing as soon as there are no flaws, else to the last ones. */
async function untilNone(flawsNow: () => Promise<readonly string[]>): Promise<readonly string[]> {
  const until = performance.now() + WITHIN_MS;
  for (;;) {
    const flaws = await flawsNow();
    if (flaws.length === 0 || performance.now() > until) return flaws;
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}

async function tableDiffers({ tab: { page }, service }: Lab): Promise<readonly string[]> {
  const shown = (await page.locator("tbody").innerText())
    .split("\n")
    .map((line) => line.replaceAll(/\s+/g, " ").trim());
  const rows = await service.sql<Record<"name" | "state" | "power" | "cluster" | "remark", string | null>[]>`
    select n.name, n.state, n.power_state as power, c.name as cluster,
      coalesce(n.maintenance_reason, n.last_error->>'message') as remark
    from nodes n left join clusters c on c.id = n.cluster_id order by n.name collate "C"`;
  const stored = rows.map(({ name, state, power, cluster, remark }) =>
    [name, state, power, cluster, remark].filter((text) => text !== null).join(" "),
  );
  return Array.from({ length: Math.max(shown.length, stored.length) }, (_, index) => [shown[index], stored[index]])
    .filter(([a, b]) => a !== b)
    .map(([a, b]) => `shown: ${a ?? "nothing"}; stored: ${b ?? "nothing"}`);
}

const live = ({ tab: { page } }: Lab) => page.getByText("Live", { exact: true }).waitFor();
const notLive = ({ tab: { page } }: Lab) => page.getByText("Not live since").waitFor();

async function send({ ask }: Service, mutation: string, type: string, input: object): Promise<void> {
  const { answer } = await ask<{ answer: { errors: readonly { message: string }[] } }>(
    `mutation($input: ${type}!) { answer: ${mutation}(input: $input) { errors { message } } }`,
    { input },
  );
  if (answer.errors[0]) throw new Error(answer.errors[0].message);
}

/** A new node, another one that leaves, and a field of a third. */
async function change(service: Service, round: number): Promise<void> {
  await send(service, "registerNodes", "RegisterNodesInput", { nodes: [{ name: `a-${round}`, driver: { fake: {} } }] });
  await send(service, "deleteNodes", "DeleteNodesInput", { nodes: { names: [nameOf(NODES - round)] } });
  await send(service, "setMaintenance", "SetMaintenanceInput", {
    nodes: { names: [nameOf(100 + round)] },
    reason: `new disk ${round}`,
  });
}

/** Resolves when no operation runs. */
async function ended({ sql }: Service): Promise<void> {
  const flaws = await untilNone(async () => {
    const running = await sql`select id from operations where finished_at is null`;
    return running.map(({ id }) => `operation ${id} has not ended`);
  });
  if (flaws[0] !== undefined) throw new Error(flaws[0]);
}

async function fills(lab: Lab): Promise<void> {
  const { proxy, cursors } = lab;
  await live(lab);
  check("the table has all nodes of both pages", await untilNone(() => tableDiffers(lab)));
  check("one request for each page, and one subscription", [
    ...(proxy.counts.http === 2 ? [] : [`${proxy.counts.http} requests`]),
    ...(cursors.length === 1 ? [] : [`${cursors.length} subscriptions`]),
  ]);
}

async function follows(lab: Lab): Promise<void> {
  const { service, proxy } = lab;
  const before = proxy.counts.http;
  await change(service, 1);
  check("what others change appears: a new node, a deleted one, a field", await untilNone(() => tableDiffers(lab)));
  check("nothing is requested for it", proxy.counts.http === before ? [] : [`${proxy.counts.http - before} requests`]);
}

async function catchesUp(lab: Lab): Promise<void> {
  const { service, proxy, tab, cursors } = lab;
  tab.expectsFailures = true;
  const before = proxy.counts.http;
  proxy.refusesSockets = true;
  proxy.cut();
  await notLive(lab);
  await change(service, 2);
  const behind = await tableDiffers(lab);
  check("a page without its connection keeps its rows, and is not live", behind.length > 0 ? [] : ["it has changed"]);
  proxy.refusesSockets = false;
  await live(lab);
  check("what happened in an outage of the connection is there", await untilNone(() => tableDiffers(lab)));
  check(
    "the stream goes on after its last cursor",
    cursors.length > 1 && cursors.at(-1) !== cursors[0] ? [] : [`cursors ${cursors.join(", ")}`],
  );

  await service.kill();
  await notLive(lab);
  await service.start();
  await change(service, 3);
  await live(lab);
  check("what happened after a kill of the service is there", await untilNone(() => tableDiffers(lab)));
  check("the list is not read again", proxy.counts.http === before ? [] : [`${proxy.counts.http - before} requests`]);
  tab.expectsFailures = false;
}

async function beginsAgain(lab: Lab): Promise<void> {
  const { service, proxy, tab } = lab;
  tab.expectsFailures = true;
  const before = proxy.counts.http;
  proxy.refusesSockets = true;
  proxy.cut();
  await notLive(lab);
  await change(service, 4);
  // As the retention leaves it, with one change more that the page has missed. A process keeps the newest in memory.
  await service.kill();
  await service.sql`with deleted as (delete from changes) update change_position set position = position + 1`;
  await service.start();
  proxy.refusesSockets = false;
  await live(lab);
  check("after an outage that was too long the table has all nodes", await untilNone(() => tableDiffers(lab)));
  const requests = proxy.counts.http - before;
  check("it is read again for that", requests === 2 ? [] : [`${requests} requests`]);
  tab.expectsFailures = false;
}

async function commissions(lab: Lab): Promise<void> {
  const {
    service,
    tab: { page, violations },
  } = lab;
  const operations = async () => (await service.sql`select id from operations`).length;
  const begunBefore = await operations();
  for (const number of [0, 1, 2, 101]) await page.getByLabel(nameOf(number)).check();
  await page.getByRole("button", { name: "Commission selected nodes" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("Commission planned: 3 of 4 nodes, 3 of which lose their data.").waitFor();
  await dialog.getByText(`Node ${nameOf(101)} is in maintenance`).waitFor();
  check(
    "the plan names the refused node, and begins nothing",
    (await operations()) === begunBefore ? [] : ["it began"],
  );
  check("axe finds nothing in the dialog", await violations());

  await send(service, "setMaintenance", "SetMaintenanceInput", { nodes: { names: [nameOf(2)] }, reason: "fan" });
  await dialog.getByRole("button", { name: "Commission 3" }).click();
  await dialog.getByText("The plan has changed").waitFor();
  check("another plan than the shown one is refused", (await operations()) === begunBefore ? [] : ["it began"]);
  await dialog.getByRole("button", { name: "Plan again" }).click();
  await dialog.getByRole("button", { name: "Commission 2" }).dblclick();
  await dialog.getByText("Commission begun: 2 of 4 nodes,").waitFor();
  await dialog.getByRole("button", { name: "Close" }).click();
  await ended(service);
  const runs = await service.sql<{ name: string }[]>`select node_name as name from runs order by 1`;
  const names = runs.map(({ name }) => name).join(", ");
  check("a double click begins the shown plan once", names === `${nameOf(0)}, ${nameOf(1)}` ? [] : [names]);
  check("the table shows the end of the work", await untilNone(() => tableDiffers(lab)));
}

async function drive(browser: Browser): Promise<void> {
  await using service = await startService();
  await service.register(NODES);
  await using proxy = await startProxy(service.url);
  process.env["OSTLER_URL"] = proxy.url;
  const server = await preview({ root: EXAMPLE, logLevel: "silent", preview: { host: "127.0.0.1" } });
  await using closing = new AsyncDisposableStack();
  closing.defer(() => server.close());
  const url = server.resolvedUrls?.local[0] ?? "";
  await using tab = await openTab(browser, url);
  const cursors: string[] = [];
  tab.page.on("websocket", (socket) =>
    socket.on("framesent", ({ payload }) => {
      const [, cursor] = /"after":"([^"]+)"/.exec(String(payload)) ?? [];
      if (cursor !== undefined) cursors.push(cursor);
    }),
  );
  await tab.page.goto(url);
  const lab: Lab = { service, proxy, tab, cursors };
  for (const scenario of [fills, follows, catchesUp, beginsAgain, commissions])
    await scenario(lab).catch((error: unknown) => check(scenario.name, [String(error)]));
  check("axe finds nothing on the page", await tab.violations());
  check("nothing is wrong in the browser", tab.flaws);
}

try {
  const found = await findBrowser();
  if (spawnSync("npm", ["run", "--silent", "build"], { cwd: EXAMPLE, stdio: "inherit" }).status !== 0)
    throw new Error("The example cannot be built.");
  await using browser = await launch(found);
  await drive(browser);
} catch (error) {
  console.error(error);
  failed += 1;
}
console.log(`\n${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 && passed > 0 ? 0 : 1;
