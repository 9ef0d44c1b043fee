/**
 * Subject `console`: how fast the web console shows a large fleet in a browser, and what it costs, beside an empty page
 * and a page with a plain table of as many rows. Needs Chromium.
 */
import { once } from "node:events";
import { globSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import type { Browser, Page } from "playwright-core";
import { WebSocket as Socket } from "ws";
import { findBrowser, launch } from "../test/console/browser/browser.ts";
import { nameOf, startService } from "../test/console/browser/service.ts";
import type { Service } from "../test/console/browser/service.ts";
import { VIEWPORT } from "../test/console/browser/tab.ts";
import { median, percentile, printTable, shown } from "./figures.ts";

export interface ConsoleOptions {
  readonly nodes: number;
  /** Consoles whose subscriptions are held while nothing happens. */
  readonly consoles: number;
  /** Duration of the storm, and of each idle time. */
  readonly seconds: number;
}

/** Noted in the page, in ms since the navigation began. */
interface Noted {
  paint?: number;
  rows?: number;
  live?: number;
  /** From a message about a node until what it changed is painted. */
  readonly painted: number[];
  /** From a letter until the rows of the filter are painted. */
  readonly filtered: number[];
  /** Of each WebSocket, what the page has sent. */
  readonly sent: string[][];
}

declare global {
  interface Window {
    noted: Noted;
  }
}

/** Rows that fill the screen. */
const SCREEN = 20;
const LOADS = 5;
const FRAMES = 200;
const SCROLL_PX = { scroll: 100, fling: 3_000 };
const LETTERS = "node-00123";
const CHANGES = 20;
const STORM = 2_500;
const MB = 2 ** 20;
/** Of the service beside clients that do nothing: several bookmarks, which come every ten seconds. */
const IDLE_SECONDS = 30;
/** Passes beside consoles, and alternating with them beside plain subscribers. */
const IDLE_PASSES = 3;
const FOLLOW = "subscription { nodeChanges { __typename ... on NodeUpserted { node { id state } } } }";

export async function measureConsole({ nodes, consoles, seconds }: ConsoleOptions): Promise<void> {
  await using service = await startService();
  await service.register(nodes);
  await using browser = await launch(await findBrowser());
  await using plain = await servePlainPages(nodes);
  const sizes = bundleSizes();
  const loads = await repeat(LOADS, () => loadOf(browser, `${service.url}/console/nodes`));
  const empty = await repeat(LOADS, () => loadOf(browser, `${plain.url}/empty`));
  const table = await repeat(LOADS, () => loadOf(browser, `${plain.url}/table`));
  const middle = (of: readonly Noted[], name: "paint" | "rows" | "live") => median(of.map((one) => one[name] ?? NaN));
  const list = await openPage(browser, `${service.url}/console/nodes`);
  const plainList = await openPage(browser, `${plain.url}/table`);
  const heap = await list.heapMb();
  const plainHeap = await plainList.heapMb();
  const frames = { scroll: await list.cpuPerFrame(SCROLL_PX.scroll), fling: await list.cpuPerFrame(SCROLL_PX.fling) };
  const plainFrames = {
    scroll: await plainList.cpuPerFrame(SCROLL_PX.scroll),
    fling: await plainList.cpuPerFrame(SCROLL_PX.fling),
  };
  await plainList.close();
  const filtered = await typeLetters(list.page);
  await list.close();
  const alone = await changesAlone(browser, service);
  const storm = await measureStorm(browser, service, Math.min(nodes, STORM), seconds);
  const idle = await measureIdle(browser, service, consoles, seconds);
  console.log(
    `  ${nodes} nodes; medians of ${LOADS} loads, and of ${IDLE_PASSES} idle times; ${FRAMES} frames of scrolling`,
  );
  printTable(
    ["", "console", "bound", "plain table", "empty page"],
    [
      ["JavaScript, kB (gzip)", shown(sizes.js, 0), "200", "", ""],
      ["CSS, kB (gzip)", shown(sizes.css, 0), "12", "", ""],
      [
        "first paint, ms",
        shown(middle(loads, "paint"), 0),
        "300",
        ...[table, empty].map((of) => shown(middle(of, "paint"), 0)),
      ],
      ["first rows, ms", shown(middle(loads, "rows"), 0), "500", shown(middle(table, "rows"), 0), ""],
      ["all rows, live, ms", shown(middle(loads, "live"), 0), "1000", "", ""],
      ["CPU per frame, scroll, ms", shown(frames.scroll), "6", shown(plainFrames.scroll), ""],
      ["CPU per frame, fling, ms", shown(frames.fling), "12", shown(plainFrames.fling), ""],
      ["letter to rows, p95, ms", shown(percentile(filtered, 0.95), 0), "250", "", ""],
      ["message to painted, alone, p95, ms", shown(percentile(alone, 0.95), 0), "150", "", ""],
      ["message to painted, storm, p95, ms", shown(percentile(storm.painted, 0.95), 0), "150", "", ""],
      ["main thread in the storm, %", shown(storm.share * 100), "15", "", ""],
      ["heap, MB", shown(heap), "40", shown(plainHeap), ""],
      ["heap, growth in the storm, MB", shown(storm.growthMb), "5", "", ""],
      ["idle: sockets", String(idle.sockets), "1", "", ""],
      ["idle: requests a minute", shown(idle.requestsAMinute), "0", "", ""],
      ["idle: main thread, %", shown(idle.share * 100), "", "", ""],
    ],
  );
  console.log(`  storm: ${shown(storm.rate, 0)} transitions a second for ${seconds} s`);
  console.log(`  the service while nothing happens for ${IDLE_SECONDS} s, ms of CPU`);
  printTable(
    ["", "console", "plain subscriber", "ratio"],
    idle.service.map(({ count, ofConsoles, ofPlain }) => [
      String(count),
      shown(ofConsoles, 0),
      shown(ofPlain, 0),
      shown(ofConsoles / ofPlain, 2),
    ]),
  );
}

/** Of all files of the page, as they are sent. */
function bundleSizes() {
  const folder = fileURLToPath(new URL("../packages/console/dist/assets/", import.meta.url));
  const kb = (ending: string) =>
    globSync(`*.${ending}`, { cwd: folder }).reduce(
      (sum, name) => sum + gzipSync(readFileSync(folder + name), { level: 9 }).length / 1_000,
      0,
    );
  return { js: kb("js"), css: kb("css") };
}

async function servePlainPages(rows: number) {
  const row = (_: unknown, index: number) =>
    `<tr data-id="${index}"><td>${nameOf(index)}</td><td>Enrolled</td><td>berlin</td><td>On</td><td>SR650</td></tr>`;
  const table = `<table>${Array.from({ length: rows }, row).join("")}</table>`;
  const server = createServer(({ url }, answer) => {
    answer.setHeader("content-type", "text/html");
    answer.end(`<!doctype html><title>.</title><body>${url === "/table" ? table : "."}`);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** Runs in the page before its own code. */
function observe(screen: number): void {
  window.noted = { painted: [], filtered: [], sent: [] };
  const { noted } = window;
  let message: number | null = null;
  let letter: number | null = null;
  const whenPainted = (then: () => void) => requestAnimationFrame(() => setTimeout(then));
  window.WebSocket = class extends WebSocket {
    readonly #sent: string[] = [];
    constructor(...given: ConstructorParameters<typeof WebSocket>) {
      super(...given);
      noted.sent.push(this.#sent);
      this.addEventListener("message", ({ data }) => {
        if (String(data).includes("NodeUpserted")) message ??= performance.now();
      });
    }
    override send(data: string): void {
      this.#sent.push(data);
      super.send(data);
    }
  };
  addEventListener("input", () => (letter = performance.now()), true);
  new PerformanceObserver((list) => {
    for (const { name, startTime } of list.getEntries()) if (name === "first-contentful-paint") noted.paint = startTime;
  }).observe({ type: "paint", buffered: true });
  new MutationObserver((mutations) => {
    const now = performance.now();
    if (document.querySelectorAll("[data-id]").length >= screen) noted.rows ??= now;
    if (document.querySelector('.status[data-live="true"]')) noted.live ??= now;
    const isInList = ({ target }: MutationRecord) =>
      (target instanceof Element ? target : target.parentElement)?.closest(".list, .list-bar");
    if ((message === null && letter === null) || !mutations.some(isInList)) return;
    const from = message;
    const typed = letter;
    message = null;
    letter = null;
    whenPainted(() => {
      if (from !== null) noted.painted.push(performance.now() - from);
      if (typed !== null) noted.filtered.push(performance.now() - typed);
    });
  }).observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
}

export async function openPage(browser: Browser, url: string) {
  const context = await browser.newContext({ viewport: VIEWPORT });
  const page = await context.newPage();
  const session = await context.newCDPSession(page);
  // CPU time: the clock of the wall goes on while the thread waits for a processor.
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  await page.addInitScript(observe, SCREEN);
  let requests = 0;
  page.on("request", () => (requests += 1));
  await page.goto(url);
  const isConsole = url.includes("/console/");
  await page.waitForFunction(
    (all) => window.noted.paint !== undefined && (!all || window.noted.live !== undefined),
    isConsole,
  );
  const metric = async (name: string) => {
    const { metrics } = await session.send("Performance.getMetrics");
    return metrics.find((one) => one.name === name)?.value ?? NaN;
  };
  const cpuSeconds = () => metric("TaskDuration");
  return {
    page,
    metric,
    requests: () => requests,
    /** Of the main thread. */
    cpuSeconds,
    async heapMb() {
      await session.send("HeapProfiler.collectGarbage");
      return (await metric("JSHeapUsedSize")) / MB;
    },
    /** In ms, while the list scrolls by this distance with each frame. */
    async cpuPerFrame(px: number) {
      const before = await cpuSeconds();
      await page.evaluate(
        async ([count, distance]) => {
          const list = document.querySelector(".list") ?? document.scrollingElement;
          for (let frame = 0; list && frame < count; frame += 1) {
            const isAtEnd = list.scrollTop + list.clientHeight >= list.scrollHeight - 1;
            list.scrollTop = isAtEnd ? 0 : list.scrollTop + distance;
            await new Promise(requestAnimationFrame);
          }
        },
        [FRAMES, px] as const,
      );
      return (((await cpuSeconds()) - before) * 1_000) / FRAMES;
    },
    close: () => context.close(),
  };
}

async function loadOf(browser: Browser, url: string): Promise<Noted> {
  const { page, close } = await openPage(browser, url);
  const noted = await page.evaluate(() => window.noted);
  await close();
  return noted;
}

async function typeLetters(page: Page): Promise<readonly number[]> {
  const field = page.getByRole("combobox").first();
  await field.focus();
  for (const letter of LETTERS) {
    await page.keyboard.press(letter);
    await delay(500);
  }
  return page.evaluate(() => window.noted.filtered);
}

/** One node at a time changes its state on a page that shows the newest change first. */
async function changesAlone(browser: Browser, service: Service): Promise<readonly number[]> {
  const { page, close } = await openPage(browser, `${service.url}/console/nodes?sort=-updated`);
  for (let change = 0; change < CHANGES; change += 1) {
    await service.ask(
      'mutation($name: String!) { setMaintenance(input: { nodes: { names: [$name] }, reason: "a benchmark" }) { errors { message } } }',
      {
        name: nameOf(change),
      },
    );
    await delay(300);
  }
  const painted = await page.evaluate(() => window.noted.painted);
  await service.ask("mutation { clearMaintenance(input: { nodes: { all: true } }) { errors { message } } }");
  await close();
  return painted;
}

async function measureStorm(browser: Browser, service: Service, count: number, seconds: number) {
  const { page, cpuSeconds, heapMb, close } = await openPage(browser, `${service.url}/console/nodes?sort=-updated`);
  const heapBefore = await heapMb();
  const names = Array.from({ length: count }, (_, index) => nameOf(index));
  await service.ask(
    "mutation($input: CommissionNodesInput!) { commissionNodes(input: $input) { errors { message } } }",
    {
      input: { nodes: { names }, until: "AVAILABLE" },
    },
  );
  const transitions = async () => {
    const [row] = await service.sql<{ count: number }[]>`select count(*)::int as count from transitions`;
    return row?.count ?? 0;
  };
  const [written, cpu, began] = [await transitions(), await cpuSeconds(), performance.now()];
  await delay(seconds * 1_000);
  const lasted = (performance.now() - began) / 1_000;
  const share = ((await cpuSeconds()) - cpu) / lasted;
  const rate = ((await transitions()) - written) / lasted;
  const { painted } = await page.evaluate(() => window.noted);
  const growthMb = (await heapMb()) - heapBefore;
  await service.ask("mutation { abort(input: { work: { all: true } }) { errors { message } } }");
  await close();
  return { share, rate, painted, growthMb };
}

async function measureIdle(browser: Browser, service: Service, consoles: number, seconds: number) {
  const { page, requests, cpuSeconds, close } = await openPage(browser, `${service.url}/console/`);
  await delay(5_000);
  const [asked, cpu] = [requests(), await cpuSeconds()];
  await delay(seconds * 1_000);
  const requestsAMinute = ((requests() - asked) * 60) / seconds;
  const share = ((await cpuSeconds()) - cpu) / seconds;
  const { sent } = await page.evaluate(() => window.noted);
  await close();
  const [frames = []] = sent;
  const subscriptions = frames.filter((frame) => frame.includes('"subscribe"'));
  const plain = [JSON.stringify({ id: "1", type: "subscribe", payload: { query: FOLLOW } })];
  const measured = [];
  for (const count of new Set([1, consoles])) {
    const ofConsoles: number[] = [];
    const ofPlain: number[] = [];
    for (let pass = 0; pass < IDLE_PASSES; pass += 1) {
      ofConsoles.push(await idleCpuMs(service, count, subscriptions));
      ofPlain.push(await idleCpuMs(service, count, plain));
    }
    measured.push({ count, ofConsoles: median(ofConsoles), ofPlain: median(ofPlain) });
  }
  return { sockets: sent.length, requestsAMinute, share, service: measured };
}

/** CPU of the service while clients hold these subscriptions, which have caught up. */
async function idleCpuMs(service: Service, count: number, subscriptions: readonly string[]) {
  const sockets: Socket[] = [];
  try {
    for (let client = 0; client < count; client += 1) {
      const socket = new Socket(service.url.replace("http", "ws") + "/graphql", "graphql-transport-ws");
      sockets.push(socket);
      await once(socket, "open");
      socket.on("message", (data: Buffer) => {
        if (data.toString("latin1").includes('"type":"ping"')) socket.send('{"type":"pong"}');
      });
      socket.send('{"type":"connection_init"}');
      await once(socket, "message");
      for (const subscription of subscriptions) socket.send(subscription);
    }
    await quiet(service);
    const before = service.cpuSeconds();
    await delay(IDLE_SECONDS * 1_000);
    return (service.cpuSeconds() - before) * 1_000;
  } finally {
    for (const socket of sockets) socket.terminate();
  }
}

/** Resolves when the service has done nothing for two seconds. */
async function quiet(service: Service): Promise<void> {
  for (;;) {
    const before = service.cpuSeconds();
    await delay(2_000);
    if (service.cpuSeconds() - before < 0.1) return;
  }
}

async function repeat<Value>(times: number, take: () => Promise<Value>): Promise<readonly Value[]> {
  const values: Value[] = [];
  for (let time = 0; time < times; time += 1) values.push(await take());
  return values;
}
