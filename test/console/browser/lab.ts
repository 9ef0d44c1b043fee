/** The parts that the scenarios drive, and comparisons of a page with the database. */
import type { Browser, BrowserContextOptions } from "playwright-core";
import { sentenceCase } from "../../../packages/console/src/words/states.ts";
import { startProxy } from "./proxy.ts";
import type { Proxy } from "./proxy.ts";
import { startService } from "./service.ts";
import type { Service } from "./service.ts";
import { live, openTab } from "./tab.ts";
import type { Tab } from "./tab.ts";

/** Reports a check: it has failed if there are flaws. */
export type Check = (title: string, flaws: readonly string[]) => void;

export interface LabOptions {
  readonly browser: Browser;
  readonly nodes: number;
  /** Folder for pictures; null for none. */
  readonly pictures: string | null;
  readonly check: Check;
}

export interface Lab extends LabOptions, AsyncDisposable {
  readonly service: Service;
  readonly proxy: Proxy;
  /** A page at a path of the console, live. */
  open(path: string, options?: BrowserContextOptions): Promise<Tab>;
}

export async function openLab(options: LabOptions): Promise<Lab> {
  await using making = new AsyncDisposableStack();
  const service = making.use(await startService());
  await service.register(options.nodes);
  const proxy = making.use(await startProxy(service.url));
  const owned = making.move();
  return {
    ...options,
    service,
    proxy,
    async open(path, contextOptions) {
      const tab = await openTab(options.browser, proxy.url, contextOptions);
      await tab.page.goto(`${proxy.url}/console${path}`);
      await live(tab.page);
      return tab;
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

const WITHIN_MS = 20_000;
const PAUSE_MS = 200;

/** Resolves to nothing as soon as there are no flaws, else to the last ones. */
export async function untilNone(flawsNow: () => Promise<readonly string[]>): Promise<readonly string[]> {
  const until = performance.now() + WITHIN_MS;
  for (;;) {
    const flaws = await flawsNow();
    if (flaws.length === 0 || performance.now() > until) return flaws;
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}

/** Resolves as soon as there are no flaws; throws the first of the last ones. */
export async function untilHolds(flawsNow: () => Promise<readonly string[]>): Promise<void> {
  const [flaw] = await untilNone(flawsNow);
  if (flaw !== undefined) throw new Error(flaw);
}

export const differing = (what: string, shown: readonly string[], stored: readonly string[]) => {
  const [a, b] = [shown.toSorted().join(", "), stored.toSorted().join(", ")];
  return a === b ? [] : [`${what}: shown ${a}; stored ${b}`];
};

/** The numbers of nodes by state, on the fleet. */
export async function countsDiffer({ page }: Tab, { sql }: Service): Promise<readonly string[]> {
  const shown = await page.getByRole("region", { name: "Nodes by state" }).locator(".state").allTextContents();
  const rows = await sql<{ state: string; count: number }[]>`
    select state, count(*)::int as count from nodes group by state`;
  const stored = rows.map(({ state, count }) => `${sentenceCase(state)} ${count.toLocaleString("en")}`);
  return differing("counts", shown, stored);
}

/** The numbers of runs by state, on the page of an operation. */
export async function runsDiffer({ page }: Tab, { sql }: Service, uuid: string): Promise<readonly string[]> {
  const shown = await page.getByRole("region", { name: "Runs by state" }).locator(".state").allTextContents();
  const rows = await sql<{ state: string; count: number }[]>`
    select state, count(*)::int as count from runs where operation_id = ${uuid} group by state`;
  const stored = rows.map(({ state, count }) => `${sentenceCase(state)} ${count.toLocaleString("en")}`);
  return differing("runs", shown, stored);
}

/** Begins work, and returns the UUID of the operation. */
export async function begin(
  service: Pick<Service, "ask">,
  mutation: string,
  type: string,
  input: object,
): Promise<string> {
  const { answer } = await service.ask<{
    answer: { operation: { uuid: string } | null; errors: readonly { message: string }[] };
  }>(`mutation($input: ${type}) { answer: ${mutation}(input: $input) { operation { uuid } errors { message } } }`, {
    input,
  });
  if (!answer.operation) throw new Error(answer.errors.map(({ message }) => message).join(" "));
  return answer.operation.uuid;
}

/** Scripts the steps of fake nodes, as `{ "clean.erase_disks": { stuck: true } }`; null: they work again. */
export async function script(service: Service, names: readonly string[], steps: object | null): Promise<void> {
  await service.ask("mutation($input: UpdateNodesInput!) { updateNodes(input: $input) { changedCount } }", {
    input: { nodes: { names }, driver: { fake: { steps } } },
  });
}

/** Resolves when a condition of the database holds. */
export async function untilStored(service: Service, uuid: string, state: string): Promise<void> {
  await untilHolds(async () => {
    const [row] = await service.sql<{ state: string }[]>`select state from operations where id = ${uuid}`;
    return row?.state === state ? [] : [`the operation is ${row?.state}, not ${state}`];
  });
}
