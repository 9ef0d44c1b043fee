/** A page in the browser, which notes all that must not happen: messages, errors, and requests to other hosts. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";

export const VIEWPORT = { width: 1280, height: 900 };
/** Generous: the machine may be busy. What is ready earlier is not waited for. */
export const WAIT_MS = 30_000;

export interface Tab extends AsyncDisposable {
  readonly page: Page;
  /** One line for each thing that must not happen. */
  readonly flaws: string[];
  /** Messages of failed requests are expected while a test breaks connections. */
  expectsFailures: boolean;
  /** Findings of axe on the page as it is, in the present theme. */
  violations(): Promise<readonly string[]>;
}

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export async function openTab(browser: Browser, base: string, options: BrowserContextOptions = {}): Promise<Tab> {
  const context = await browser.newContext({ viewport: VIEWPORT, colorScheme: "light", ...options });
  context.setDefaultTimeout(WAIT_MS);
  const page = await context.newPage();
  const tab: Tab = {
    page,
    flaws: [],
    expectsFailures: false,
    violations: () => violationsOf(page),
    [Symbol.asyncDispose]: () => context.close(),
  };
  const note = (flaw: string) => void tab.flaws.push(flaw);
  page.on("console", (message) => {
    if (tab.expectsFailures && /Failed to load resource|WebSocket connection/.test(message.text())) return;
    note(`the browser's console: ${message.type()} ${message.text()}`);
  });
  page.on("pageerror", (error) => note(`an error in the page: ${error.message}`));
  page.on("request", (request) => {
    if (!request.url().startsWith(base) && !request.url().startsWith("data:")) note(`a request to ${request.url()}`);
  });
  page.on("response", (response) => {
    if (response.status() >= 500 && !tab.expectsFailures) note(`status ${response.status()} of ${response.url()}`);
  });
  return tab;
}

/** Through the debugger: the policy of the page lets no script of ours in. */
async function violationsOf(page: Page): Promise<readonly string[]> {
  const session = await page.context().newCDPSession(page);
  const run = async (expression: string) => {
    const { result, exceptionDetails } = await session.send("Runtime.evaluate", {
      expression,
      awaitPromise: true,
      returnByValue: true,
      allowUnsafeEvalBlockedByCSP: true,
    });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value as unknown;
  };
  try {
    await run(AXE);
    const found = await run(`axe.run({ resultTypes: ["violations"] }).then(({ violations }) =>
      violations.flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) =>
        id + ": " + html.slice(0, 160) + " " + failureSummary.replaceAll(/\\s+/g, " ").slice(0, 200))))`);
    return found as string[];
  } finally {
    await session.detach();
  }
}

export async function live(page: Page, timeout = WAIT_MS): Promise<void> {
  await page.locator('.status[data-live="true"]').waitFor({ timeout });
}
