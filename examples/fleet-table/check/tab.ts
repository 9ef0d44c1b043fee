/** A page in the browser, with what it sends to the service. */
import { chromium } from "playwright-core";
import type { Browser, Page } from "playwright-core";

export const VIEWPORT = { width: 1280, height: 800 };
/** Generous: the machine may be busy. What is ready earlier is not waited for. */
export const WAIT_MS = 60_000;

export interface Tab {
  readonly page: Page;
  /** Messages over WebSockets so far. */
  readonly sent: {
    pings: number;
    /** Messages that begin a stream of changes after a cursor. */
    resumed: number;
    others: number;
  };
}

/** `path`: of the program. */
export function launchBrowser(path: string): Promise<Browser> {
  // Chromium refuses its sandbox to root.
  const sandbox = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
  return chromium.launch({ executablePath: path, args: sandbox });
}

export async function openTab(program: Browser): Promise<Tab> {
  const context = await program.newContext({ viewport: VIEWPORT, colorScheme: "light" });
  context.setDefaultTimeout(WAIT_MS);
  const page = await context.newPage();
  const sent = { pings: 0, resumed: 0, others: 0 };
  page.on("websocket", (socket) =>
    socket.on("framesent", ({ payload }) => {
      const text = String(payload);
      if (/^\{"type":"p[io]ng"/.test(text)) sent.pings += 1;
      else if (/"after":"/.test(text)) sent.resumed += 1;
      else sent.others += 1;
    }),
  );
  return { page, sent };
}

/** Resolves when the table has all rows, and is live. */
export async function whole(page: Page, rows: number): Promise<void> {
  await page.locator(`.table[aria-rowcount="${rows + 1}"][aria-busy="false"]`).waitFor();
  await live(page);
}

export async function live(page: Page): Promise<void> {
  await page.locator('.status[data-live="true"]').waitFor();
}
