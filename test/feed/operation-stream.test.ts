/** The stream of one operation: its present state, every change after that, the end. */
import { afterAll, describe, expect, test, vi } from "vitest";
import { operationStream } from "../../src/feed/operation-stream.ts";
import type { OperationUpdate } from "../../src/feed/operation-stream.ts";
import { createTail } from "../../src/feed/tail.ts";
import type { Tail } from "../../src/feed/tail.ts";
import { createLog } from "../../src/log.ts";
import { createNotifier } from "../../src/store/postgres/notifier.ts";
import { aGate, engineUnderTest } from "../support/builders.ts";
import { heldIn } from "../support/held-work.ts";
import { takeAll, takeUntil } from "../support/service.ts";

const owned = new AsyncDisposableStack();
afterAll(() => owned.disposeAsync());
const ostler = owned.use(await engineUnderTest());
const { database } = ostler;
const notifier = owned.use(await createNotifier(database, () => {}));
const tail = owned.use(await createTail({ database, notifier, log: createLog("silent") }));

const stream = (id: string) => operationStream({ database, tail }, id);

/** The last state that was emitted for each run, by node name. */
const lastStates = (updates: readonly OperationUpdate[]) =>
  Object.fromEntries(updates.flatMap(({ run }) => (run ? [[run.nodeName, run.state]] : [])));

/** A deployment whose node waits in its first step, and its stream after the present state. */
async function streamOfOneNode() {
  const { gate, id } = await heldIn(ostler, "deploy.prepare");
  const updates = stream(id);
  await updates.next();
  return { gate, id, updates };
}

describe("operation stream", () => {
  test("operation stream begins with the present state, emits each change of a run, and completes with the end [R-123]", async () => {
    const gate = aGate();
    const nodes = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.prepare": { gate: gate.name } })
      .times(5);
    const id = await ostler.begin("DEPLOY", nodes);
    await gate.arrivals(5);
    const updates = stream(id);
    const { value: first } = (await updates.next()) as { value: OperationUpdate };
    expect(first).toMatchObject({ operation: { id, state: "RUNNING" }, run: null });
    gate.open();
    const rest = await takeAll(updates);
    expect(lastStates(rest)).toEqual(Object.fromEntries(nodes.map(({ name }) => [name, "SUCCEEDED"])));
    expect(rest.at(-1)).toMatchObject({ operation: { id, state: "SUCCEEDED" }, run: null });
    expect(rest.at(-1)?.operation.finishedAt).not.toBeNull();
  });

  test("operation stream emits failures with their cause, and the clean-up runs that follow", async () => {
    const good = await ostler.aNode().made();
    const bad = await ostler
      .aNode()
      .scripted({ "clean.erase_disks": { fail: "no disk" } })
      .made();
    const id = await ostler.begin("COMMISSION", [good, bad]);
    const updates = await takeAll(stream(id));
    const ends = new Map(updates.flatMap(({ run }) => (run ? [[`${run.purpose} ${run.nodeName}`, run] as const] : [])));
    const runs = await ostler.runs(id);
    expect([...ends.keys()].toSorted()).toEqual(
      runs.map(({ purpose, nodeName }) => `${purpose} ${nodeName}`).toSorted(),
    );
    for (const run of runs)
      expect(ends.get(`${run.purpose} ${run.nodeName}`)).toMatchObject({ state: run.state, failure: run.failure });
    expect(ends.get(`WORK ${bad.name}`)).toMatchObject({ state: "FAILED", failure: { step: "clean.erase_disks" } });
    expect(updates.at(-1)?.operation).toMatchObject({ state: "FAILED" });
  });

  test("operation stream of an ended operation emits its end only [R-123]", async () => {
    const node = await ostler.aNode().made();
    const id = await ostler.begin("MANAGE", [node]);
    await ostler.operationEnds(id);
    const updates = await takeAll(stream(id));
    expect(updates).toMatchObject([{ operation: { id, state: "SUCCEEDED" }, run: null }]);
  });

  test("operation stream of an unknown operation completes at once", async () => {
    expect(await takeAll(stream("00000000-0000-0000-0000-000000000000"))).toEqual([]);
  });

  test("operation stream includes in each item everything that was committed up to its position", async () => {
    const node = await ostler.aNode().made();
    const id = await ostler.begin("MANAGE", [node]);
    await ostler.operationEnds(id);
    const reads = vi.spyOn(database.reader, "select");
    // A log that advances with every read of the database.
    const moving = Object.create(tail, {
      newest: { get: () => ({ position: reads.mock.calls.length, at: null }) },
    }) as Tail;
    const [update] = await takeAll(operationStream({ database, tail: moving }, id));
    reads.mockRestore();
    expect(update?.cursor.position).toBe(0);
  });

  test("operation stream of many runs emits the end of each", async () => {
    const gate = aGate();
    const nodes = await ostler
      .aNode()
      .scripted({ "power.read": { gate: gate.name } })
      .times(450);
    const id = await ostler.begin("MANAGE", nodes);
    const updates = stream(id);
    await updates.next();
    gate.open();
    const ends = lastStates(await takeAll(updates));
    expect(Object.keys(ends)).toHaveLength(450);
    expect(new Set(Object.values(ends))).toEqual(new Set(["SUCCEEDED"]));
  });

  test("operation stream emits a stop as soon as it is requested, and the stopped operation", async () => {
    const { gate, id, updates } = await streamOfOneNode();
    await ostler.engine.stop({ actor: "alice", project: "default" }, { work: { operationId: id } });
    await takeUntil(updates, ({ operation }) => operation.state === "STOPPING");
    gate.open();
    expect((await takeAll(updates)).at(-1)?.operation.state).toBe("STOPPED");
  });

  test("operation stream emits the end of each run, although clocks were set back in between", async () => {
    const gate = aGate();
    const nodes = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.prepare": { gate: gate.name } })
      .times(3);
    const id = await ostler.begin("DEPLOY", nodes);
    await gate.arrivals(3);
    await ostler.test.sql`update runs set updated_at = updated_at + interval '1 hour' where operation_id = ${id}`;
    const updates = stream(id);
    await updates.next();
    const { now } = Date;
    const setBack = vi.spyOn(Date, "now").mockImplementation(() => now() - 3_600_000);
    gate.open();
    expect(lastStates(await takeAll(updates))).toEqual(
      Object.fromEntries(nodes.map(({ name }) => [name, "SUCCEEDED"])),
    );
    setBack.mockRestore();
  });

  test("operation stream ends at once when its client leaves, although nothing happens", async () => {
    const { gate, id, updates } = await streamOfOneNode();
    const waiting = updates.next();
    expect(await updates.return?.()).toEqual({ done: true, value: undefined });
    expect(await waiting).toEqual({ done: true, value: undefined });
    gate.open();
    await ostler.operationEnds(id);
  });
});
