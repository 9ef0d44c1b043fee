/** Executions of events are paid for from the budget of their connection, over WebSocket and server-sent events. */
import { afterAll, expect, test, vi } from "vitest";
import type { EventBudget } from "../../src/graphql/execution/event-budget.ts";
import { eventually } from "../support/eventually.ts";
import { serviceUnderTest, takeUntil } from "../support/service.ts";

/** A budget that is used up after some executions, until it is filled. */
interface TestBudget extends EventBudget {
  readonly spent: number[];
  /** Executions that wait for it. */
  waiting: number;
  fill(): void;
}

const { budgets, AFFORDED } = vi.hoisted(() => ({ budgets: [] as TestBudget[], AFFORDED: 2 }));

vi.mock("../../src/graphql/execution/event-budget.ts", async (load) => ({
  ...(await load<Record<string, unknown>>()),
  createEventBudget(): EventBudget {
    const filled = Promise.withResolvers<void>();
    let isFilled = false;
    const budget: TestBudget = {
      spent: [],
      waiting: 0,
      affords: () => (isFilled ? NODES : Math.max(1, AFFORDED - budget.spent.length)),
      spend: (cost) => void budget.spent.push(cost),
      paid() {
        if (isFilled || budget.spent.length < AFFORDED) return undefined;
        budget.waiting += 1;
        return filled.promise;
      },
      fill() {
        isFilled = true;
        filled.resolve();
      },
    };
    budgets.push(budget);
    return budget;
  },
}));

const NODES = 6;
const REPLAY =
  'subscription { nodeTransitions(after: "0") { ... on Transition { nodeName node { name } } ... on StreamBookmark { caughtUp } } }';

interface Item {
  readonly nodeTransitions: { readonly nodeName?: string; readonly caughtUp?: boolean };
}
const isCaughtUp = ({ nodeTransitions }: Item) => nodeTransitions.caughtUp === true;

const ostler = await serviceUnderTest({ started: false });
afterAll(() => ostler[Symbol.asyncDispose]());
await ostler.register(NODES);

test.each(["overSocket", "overEvents"] as const)(
  "events of a connection without budget wait, and all arrive when it has budget again, %s [R-205]",
  async (way) => {
    budgets.length = 0;
    const received: Item[] = [];
    const items = ostler[way]<Item>(REPLAY);
    const ended = takeUntil(items, (item) => {
      received.push(item);
      return isCaughtUp(item);
    });
    await eventually("an execution waits for the budget", () => budgets[0]?.waiting === 1);
    const [budget] = budgets;
    expect(budget?.spent).toHaveLength(AFFORDED);
    expect(Math.min(...(budget?.spent ?? [0]))).toBeGreaterThan(1);
    expect(received.length).toBeLessThanOrEqual(AFFORDED);
    budget?.fill();
    const all = await ended;
    expect(all.filter(({ nodeTransitions }) => nodeTransitions.nodeName !== undefined)).toHaveLength(NODES);
    expect(budget?.spent).toHaveLength(all.length);
    await items.return?.();
  },
);

test("all subscriptions of a socket have one budget, and another socket has its own [R-205]", async () => {
  budgets.length = 0;
  const [one, other] = [ostler.client(), ostler.client()];
  const documents = [REPLAY, REPLAY.replace("node { name }", "node { id }")];
  const streams = [...documents.map((query) => one.iterate({ query })), other.iterate({ query: REPLAY })];
  const reading = streams.map(async (stream) => {
    for await (const { data } of stream) if (isCaughtUp(data as unknown as Item)) return;
  });
  await eventually("all three wait", () => budgets.reduce((sum, { waiting }) => sum + waiting, 0) === 3);
  expect(budgets.map(({ waiting }) => waiting).toSorted((a, b) => a - b)).toEqual([1, 2]);
  for (const budget of budgets) budget.fill();
  await Promise.all(reading);
});
