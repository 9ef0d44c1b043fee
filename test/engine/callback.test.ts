/** Machines that call back: the token of one wait is good for that wait, once, and for nothing else. */
import { randomUUID } from "node:crypto";
import { afterAll, describe, expect, test } from "vitest";
import { passGate } from "../../plugins/fake/gates.ts";
import { anomaliesOf } from "../../src/store/rejected-callbacks.ts";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import type { TestNode } from "../support/builders.ts";
import { eventually } from "../support/eventually.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";

const paths = new Map<string, string[]>();
let gateBeforeWait = aGate();
let atTheDoor = aGate();

const DRIVERS = [
  aDriver("caller", {
    clean: stepsOf(
      aStep("listen", "clean", async (call) => {
        paths.set(call.node.name, [...(paths.get(call.node.name) ?? []), call.callbackPath]);
        if (call.memo === null) return { kind: "wait", callback: true, seconds: 600, memo: 1 };
        if (call.memo === 1) return { kind: "wait", callback: true, seconds: 600, memo: 2 };
        return { kind: "done", output: { heard: call.callback } };
      }),
    ),
  }),
  aDriver("deserter", {
    clean: stepsOf(
      aStep("leave", "clean", async (call) => {
        paths.set(call.node.name, [call.callbackPath]);
        return { kind: "done" };
      }),
    ),
  }),
  aDriver("failing", {
    clean: stepsOf(
      aStep(
        "listen",
        "clean",
        async (call) => {
          paths.set(call.node.name, [call.callbackPath]);
          return { kind: "failed", reason: "no luck", retryable: true };
        },
        { retries: { times: 1, backoffSeconds: 600 } },
      ),
    ),
  }),
  aDriver("silenced", {
    clean: stepsOf(
      aStep("listen", "clean", async ({ memo, callback }) => {
        if (memo === null) return { kind: "wait", callback: true, seconds: 0.1, memo: 1 };
        return { kind: "done", output: { heard: callback } };
      }),
    ),
  }),
  aDriver("hasty", {
    clean: stepsOf(
      aStep("listen", "clean", async (call) => {
        if (call.memo !== null) return { kind: "done", output: { heard: call.callback } };
        paths.set(call.node.name, [call.callbackPath]);
        const [door, gate] = [atTheDoor, gateBeforeWait];
        await passGate(door.name, call.node.name, null);
        await passGate(gate.name, call.node.name, null);
        return { kind: "wait", callback: true, seconds: 600, memo: 1 };
      }),
    ),
  }),
];

const ostler = await engineUnderTest({ drivers: DRIVERS });
afterAll(() => ostler[Symbol.asyncDispose]());

/** The token that the machine was given last. */
function token({ name }: TestNode): string {
  return paths.get(name)?.at(-1)?.split("/").at(-1) ?? "";
}

async function waiting() {
  const node = await ostler.aNode().in("AVAILABLE").with("caller").made();
  const id = await ostler.begin("CLEAN", [node]);
  await ostler.nodeBecomes(node, "CLEAN_WAIT");
  return { node, id };
}

/** A step that knows its path and has not said yet that it wants to wait. */
async function hasty() {
  [gateBeforeWait, atTheDoor] = [aGate(), aGate()];
  const node = await ostler.aNode().in("AVAILABLE").with("hasty").made();
  const id = await ostler.begin("CLEAN", [node]);
  await atTheDoor.arrivals();
  atTheDoor.open();
  return { node, id };
}

const waitsAgain = (node: TestNode, entries: number) =>
  eventually(`the step is entered ${entries} times`, () => paths.get(node.name)?.length === entries);

/** Call-backs to the runs of an operation that were not taken, oldest first. */
async function anomalies(operationId: string) {
  const found = await anomaliesOf(
    ostler.database.reader,
    (await ostler.runs(operationId)).map(({ id }) => id),
  );
  return found.map(({ kind, step }) => ({ kind, step }));
}

const end = async (operationId: string) => {
  await ostler.engine.abort(ALICE, { work: { operationId } });
  await ostler.operationEnds(operationId);
};

/** What was written since, besides the records of anomalies. */
async function changedSince(before: readonly string[]) {
  return (await ostler.changesSince(before)).filter((row) => !row.startsWith("+ anomalies "));
}

describe("a call-back", () => {
  test("wakes the step that waits for it, with its body [R-065]", async () => {
    const { node, id } = await waiting();
    expect(await ostler.engine.callBack(token(node), { ip: "10.0.0.7" })).toBe("TAKEN");
    await waitsAgain(node, 2);
    await ostler.nodeBecomes(node, "CLEAN_WAIT");
    expect(await ostler.engine.callBack(token(node), { ip: "10.0.0.8" })).toBe("TAKEN");
    await ostler.operationEnds(id);
    const [step] = await ostler.steps(await ostler.run(id, node));
    expect(step?.attempts).toMatchObject([{ state: "SUCCEEDED", entries: 3, output: { heard: { ip: "10.0.0.8" } } }]);
    expect(await anomalies(id)).toEqual([]);
  });

  test("with an empty body counts as one", async () => {
    const { node, id } = await waiting();
    expect(await ostler.engine.callBack(token(node), null)).toBe("TAKEN");
    await waitsAgain(node, 2);
    await end(id);
  });

  test("that is quicker than the step that wants to wait for it is not lost", async () => {
    const { node, id } = await hasty();
    expect(await ostler.engine.callBack(token(node), { soon: true })).toBe("TAKEN");
    gateBeforeWait.open();
    await ostler.operationEnds(id);
    expect((await ostler.steps(await ostler.run(id, node)))[0]?.attempts).toMatchObject([
      { state: "SUCCEEDED", output: { heard: { soon: true } } },
    ]);
  });

  test("that does not come leaves the step with none when its time of silence is over [R-142]", async () => {
    const node = await ostler.aNode().in("AVAILABLE").with("silenced").made();
    const id = await ostler.begin("CLEAN", [node]);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect((await ostler.steps(await ostler.run(id, node)))[0]?.attempts).toMatchObject([{ output: { heard: null } }]);
  });
});

describe("a call-back that is not taken is recorded and changes nothing:", () => {
  test("one that comes a second time is a DUPLICATE [R-071]", async () => {
    const { node, id } = await hasty();
    expect(await ostler.engine.callBack(token(node), { time: 1 })).toBe("TAKEN");
    const before = await ostler.dump();
    expect(await ostler.engine.callBack(token(node), { time: 2 })).toBe("DUPLICATE");
    expect(await changedSince(before)).toEqual([]);
    gateBeforeWait.open();
    await ostler.operationEnds(id);
    expect((await ostler.steps(await ostler.run(id, node)))[0]?.attempts).toMatchObject([
      { output: { heard: { time: 1 } } },
    ]);
    expect(await anomalies(id)).toEqual([{ kind: "DUPLICATE", step: "clean.listen" }]);
  });

  test("of several at the same moment one is taken", async () => {
    const { node, id } = await waiting();
    const given = token(node);
    const answers = await Promise.all([1, 2, 3].map((time) => ostler.engine.callBack(given, { time })));
    // The step may have been entered again before the last of them: then that one is late.
    expect(answers.filter((answer) => answer === "TAKEN")).toHaveLength(1);
    expect(answers.filter((answer) => answer === "DUPLICATE" || answer === "LATE")).toHaveLength(2);
    await waitsAgain(node, 2);
    expect(await anomalies(id)).toHaveLength(2);
    await end(id);
  });

  test("one for an earlier wait is LATE [R-071]", async () => {
    const { node, id } = await waiting();
    const first = token(node);
    await ostler.engine.callBack(first, {});
    await waitsAgain(node, 2);
    await ostler.nodeBecomes(node, "CLEAN_WAIT");
    expect(token(node)).not.toBe(first);
    const before = await ostler.dump();
    expect(await ostler.engine.callBack(first, { ip: "6.6.6.6" })).toBe("LATE");
    expect(await changedSince(before)).toEqual([]);
    expect(await ostler.nodeState(node)).toBe("CLEAN_WAIT");
    expect(await anomalies(id)).toEqual([{ kind: "LATE", step: "clean.listen" }]);
    await end(id);
  });

  test("one for work that has ended is LATE", async () => {
    const { node, id } = await waiting();
    await end(id);
    const before = await ostler.dump();
    expect(await ostler.engine.callBack(token(node), {})).toBe("LATE");
    expect(await changedSince(before)).toEqual([]);
    expect(await anomalies(id)).toEqual([{ kind: "LATE", step: "clean.listen" }]);
  });

  test("one for a step that has failed and is to be tried again is LATE", async () => {
    const node = await ostler.aNode().in("AVAILABLE").with("failing").made();
    const id = await ostler.begin("CLEAN", [node]);
    await eventually("it waits for the next try", async () => (await ostler.run(id, node)).waitReason === "RETRY");
    expect(await ostler.engine.callBack(token(node), {})).toBe("LATE");
    expect(await anomalies(id)).toEqual([{ kind: "LATE", step: "clean.listen" }]);
    await end(id);
  });

  // The hold took it for its own, and it was answered as taken.
  test("one for a step after which the run holds is LATE", async () => {
    const node = await ostler.aNode().in("AVAILABLE").with("deserter").made();
    const id = await ostler.begin("CLEAN", [node], {
      options: {
        steps: [
          { interface: "clean", name: "leave", args: {} },
          { interface: "engine", name: "hold", args: {} },
        ],
      },
    });
    await ostler.nodeBecomes(node, "CLEAN_HOLD");
    const before = await ostler.dump();
    expect(await ostler.engine.callBack(token(node), { ip: "6.6.6.6" })).toBe("LATE");
    expect(await changedSince(before)).toEqual([]);
    expect(await anomalies(id)).toEqual([{ kind: "LATE", step: "engine.hold" }]);
    await ostler.engine.unhold(ALICE, { work: { operationId: id } });
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  });

  test("one with a token that was made up is FORGED", async () => {
    const { node, id } = await waiting();
    const { id: runId } = await ostler.run(id, node);
    const before = await ostler.dump();
    for (const forged of [
      `${runId}.`,
      `${runId}.x`,
      `${runId}.${token(node).split(".").at(-1)?.toLowerCase()}`,
      runId,
    ]) {
      expect(await ostler.engine.callBack(forged, { ip: "6.6.6.6" }), forged).toBe("FORGED");
    }
    expect(await changedSince(before)).toEqual([]);
    expect(await anomalies(id)).toHaveLength(4);
    await end(id);
  });

  test("one with the token of another node's run is FORGED, and that token is good still [R-071]", async () => {
    const one = await waiting();
    const other = await waiting();
    const { id: runId } = await ostler.run(one.id, one.node);
    expect(await ostler.engine.callBack(`${runId}.${token(other.node).split(".").at(-1)}`, { ip: "6.6.6.6" })).toBe(
      "FORGED",
    );
    expect(await anomalies(one.id)).toEqual([{ kind: "FORGED", step: "clean.listen" }]);
    expect(await anomalies(other.id)).toEqual([]);
    expect(await ostler.engine.callBack(token(other.node), {})).toBe("TAKEN");
    await waitsAgain(other.node, 2);
    await end(one.id);
    await end(other.id);
  });

  test.each(["", "7", ".", "'; drop table nodes; --", randomUUID(), `${randomUUID()}.x`, "x".repeat(100_000)])(
    "one that names no run (%j) is UNKNOWN, and not even recorded",
    async (unknown) => {
      const before = await ostler.dump();
      expect(await ostler.engine.callBack(unknown, { ip: "6.6.6.6" })).toBe("UNKNOWN");
      expect(await ostler.changesSince(before)).toEqual([]);
    },
  );

  test("of a flood a hundred are recorded, and the true one is taken all the same", async () => {
    const { node, id } = await waiting();
    const { id: runId } = await ostler.run(id, node);
    const answers = await Promise.all(
      Array.from({ length: 150 }, (_, index) => ostler.engine.callBack(`${runId}.${index}`, {})),
    );
    expect(new Set(answers)).toEqual(new Set(["FORGED"]));
    expect(await anomalies(id)).toHaveLength(100);
    expect(await ostler.engine.callBack(token(node), {})).toBe("TAKEN");
    await waitsAgain(node, 2);
    await end(id);
  });
});
