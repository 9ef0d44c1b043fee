/** Group admission: requests for a few nodes that arrive at the same time share a transaction, and nothing else. */
import { afterEach, describe, expect, test } from "vitest";
import type { Database } from "../../src/store/postgres/database.ts";
import type { VerbRequest } from "../../src/engine/admission/request-terms.ts";
import { ALICE, engineUnderTest } from "../support/builders.ts";
import type { EngineUnderTest, TestNode } from "../support/builders.ts";
import { unsound } from "../support/soundness.ts";

let ostler: EngineUnderTest;
afterEach(() => ostler[Symbol.asyncDispose]());

/** Counts transactions, and fails the next ones. */
function watched() {
  const watch = {
    transactions: 0,
    failures: 0,
    error: new Error("The transaction fails for the test."),
    through: (database: Database): Database => ({
      ...database,
      async transaction(work) {
        watch.transactions += 1;
        if (watch.failures === 0) return database.transaction(work);
        watch.failures -= 1;
        return database.transaction(async (tx) => {
          await work(tx);
          throw watch.error;
        });
      },
    }),
  };
  return watch;
}

const request = (nodes: readonly TestNode[], more: Partial<VerbRequest> = {}): VerbRequest => ({
  kind: "MANAGE",
  nodes: { names: nodes.map(({ name }) => name) },
  ...more,
});
const submit = (nodes: readonly TestNode[], more?: Partial<VerbRequest>) =>
  ostler.engine.submit(ALICE, request(nodes, more));

async function idle(watch = watched()) {
  ostler = await engineUnderTest({ started: false, through: watch.through });
  return watch;
}

describe("requests at the same time", () => {
  test("requests at the same time share transactions, and each has its own operation and answer [R-647]", async () => {
    const watch = await idle();
    const nodes = await ostler.aNode().times(20);
    const before = watch.transactions;
    const answers = await Promise.all(
      nodes.map((node, index) => submit([node], { reason: `reason ${index}`, idempotencyKey: `key ${index}` })),
    );
    expect(watch.transactions - before).toBe(1);
    expect(new Set(answers.map(({ operationId }) => operationId)).size).toBe(20);
    for (const [index, { operationId, results, refusals, planHash }] of answers.entries()) {
      expect(refusals).toEqual([]);
      expect(results).toMatchObject([{ ref: nodes[index]?.name, nodeId: nodes[index]?.id, accepted: true }]);
      expect(planHash).toMatch(/^[\w-]+\.[\w-]*\.[\w-]{43}$/);
      const [run, ...others] = await ostler.runs(operationId ?? "");
      expect([run?.id, run?.nodeId, others]).toEqual([results[0]?.runId, nodes[index]?.id, []]);
      const stored = await ostler.test
        .sql`select reason, idempotency_key, total_count from operations where id = ${operationId}`;
      expect(stored).toEqual([{ reason: `reason ${index}`, idempotency_key: `key ${index}`, total_count: 1 }]);
    }
    await ostler.engine.start();
    for (const { operationId } of answers)
      expect((await ostler.operationEnds(operationId ?? "")).state).toBe("SUCCEEDED");
    expect(await unsound(ostler)).toEqual([]);
  });

  test("requests at the same time for the same node: one is accepted, the other is refused with BUSY [R-648]", async () => {
    await idle();
    const [shared, own] = await ostler.aNode().times(2);
    if (!shared || !own) throw new Error("Two nodes are needed.");
    const answers = await Promise.all([submit([shared]), submit([own, shared]), submit([shared])]);
    expect(answers.map(({ refusals }) => refusals[0]?.code)).toEqual([undefined, "BUSY", "BUSY"]);
    expect(answers[1]?.refusals[0]).toMatchObject({ operationId: answers[0]?.operationId, nodeId: shared.id });
    expect(await unsound(ostler)).toEqual([]);
  });

  test("requests at the same time with the same key have one operation, and differing ones are refused [R-648]", async () => {
    await idle();
    const [node, other] = await ostler.aNode().times(2);
    if (!node || !other) throw new Error("Two nodes are needed.");
    const [first, second, different] = await Promise.all([
      submit([node], { idempotencyKey: "same" }),
      submit([node], { idempotencyKey: "same" }),
      submit([other], { idempotencyKey: "same" }),
    ]);
    expect(second.operationId).toBe(first.operationId);
    expect([first.replayed, second.replayed]).toEqual([false, true]);
    expect(different.refusals).toMatchObject([{ code: "IDEMPOTENCY_MISMATCH", operationId: first.operationId }]);
    const [again] = await Promise.all([submit([node], { idempotencyKey: "same" }), submit([other])]);
    expect(again).toMatchObject({ operationId: first.operationId, replayed: true });
  });

  test("request that is refused changes nothing for those at the same time, and has the refusals as if alone [R-648]", async () => {
    await idle();
    const [good, better] = await ostler.aNode().times(2);
    const wrong = await ostler.aNode().in("AVAILABLE").made();
    if (!good || !better) throw new Error("Two nodes are needed.");
    const bad: readonly VerbRequest[] = [
      request([wrong], { kind: "CLEAN", nodes: { names: [wrong.name, "ghost"] } }),
      request([wrong], { nodes: { ids: ["7"] } }),
      request([wrong], { kind: "PROVIDE" }),
      request([wrong], { kind: "DEPLOY", planHash: "0" }),
      request([wrong], { kind: "DEPLOY", image: { name: "ghost" } }),
    ];
    const alone = [];
    for (const one of bad) alone.push(await ostler.engine.submit(ALICE, one));
    const [first, second, ...refused] = await Promise.all([
      submit([good]),
      submit([better]),
      ...bad.map((one) => ostler.engine.submit(ALICE, one)),
    ]);
    expect([first, second].map(({ refusals }) => refusals)).toEqual([[], []]);
    expect(refused.map(({ refusals }) => refusals)).toEqual(alone.map(({ refusals }) => refusals));
    expect(refused.map(({ refusals }) => refusals[0]?.code)).toEqual([
      "NOT_FOUND",
      "NOT_FOUND",
      "INVALID_STATE",
      "STALE_REVISION",
      "NOT_FOUND",
    ]);
    expect(await unsound(ostler)).toEqual([]);
  });
});

describe("group of requests", () => {
  test("group of requests does not wait for a node that is locked elsewhere; its request does [R-649]", async () => {
    await idle();
    const nodes = await ostler.aNode().times(4);
    const [locked, ...free] = nodes;
    if (!locked) throw new Error("A node is needed.");
    const [taken, held] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const holding = ostler.test.sql.begin(async (sql) => {
      await sql`select from nodes where id = ${locked.id} for update`;
      taken.resolve();
      await held.promise;
    });
    await taken.promise;
    const waiting = submit([locked]);
    const answers = await Promise.all(free.map((node) => submit([node])));
    expect(answers.flatMap(({ refusals }) => refusals)).toEqual([]);
    held.resolve();
    await holding;
    expect((await waiting).refusals).toEqual([]);
  });

  test("group of requests whose transaction fails is judged one by one, and stores nothing twice [R-649]", async () => {
    const watch = await idle();
    const nodes = await ostler.aNode().times(5);
    watch.failures = 1;
    const answers = await Promise.all(nodes.map((node) => submit([node])));
    expect(answers.flatMap(({ refusals }) => refusals)).toEqual([]);
    expect(await ostler.test.sql`select from operations`).toHaveLength(5);
    expect(await unsound(ostler)).toEqual([]);
  });

  test("group of requests that loses its connection fails, because it may be stored [R-649]", async () => {
    const watch = await idle();
    const nodes = await ostler.aNode().times(3);
    watch.failures = 1;
    watch.error = Object.assign(new Error("The connection was lost."), { code: "CONNECTION_CLOSED" });
    const answers = await Promise.allSettled(nodes.map((node) => submit([node])));
    expect(answers.map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
    expect(watch.failures).toBe(0);
    expect(await ostler.test.sql`select from operations`).toHaveLength(0);
  });
});

test("plan that was stored before is not sent again, and is stored again if it is missing [R-650]", async () => {
  await idle();
  const { sql } = ostler.test;
  const nodes = await ostler.aNode().times(3);
  const [first, second, third] = nodes;
  if (!first || !second || !third) throw new Error("Three nodes are needed.");
  await sql`create table offered (hash text)`;
  await sql`create function note_plan() returns trigger language plpgsql as $$ begin insert into offered values (new.hash); return new; end $$`;
  await sql`create trigger note_plan before insert on plans for each row execute function note_plan()`;
  expect((await submit([first])).refusals).toEqual([]);
  expect((await submit([second])).refusals).toEqual([]);
  expect(await sql`select from offered`).toHaveLength(1);
  // As after a restore of the database.
  await sql.begin(async (tx) => {
    await tx`set local session_replication_role = replica`;
    await tx`delete from plans`;
  });
  expect((await submit([third])).refusals).toEqual([]);
  expect(await sql`select from plans`).toHaveLength(1);
});

test("operation whose only run succeeds ends without a look at its runs [R-651]", async () => {
  const sent: string[] = [];
  ostler = await engineUnderTest({ onStatement: (text) => void sent.push(text) });
  const [node, other] = await ostler.aNode().times(2);
  if (!node || !other) throw new Error("Two nodes are needed.");
  const looks = () => sent.filter((text) => text.includes(`count(*) filter (where "state"`)).length;
  expect((await ostler.operationEnds(await ostler.begin("MANAGE", [node]))).state).toBe("SUCCEEDED");
  expect(looks()).toBe(0);
  expect((await ostler.operationEnds(await ostler.begin("INSPECT", [node]))).state).toBe("SUCCEEDED");
  expect(looks()).toBe(0);
  expect((await ostler.operationEnds(await ostler.begin("MANAGE", [other]))).state).toBe("SUCCEEDED");
  expect((await ostler.operationEnds(await ostler.begin("INSPECT", [node, other]))).state).toBe("SUCCEEDED");
  expect(looks()).toBeGreaterThan(0);
  expect(await unsound(ostler)).toEqual([]);
});
