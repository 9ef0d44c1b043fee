/** Callbacks of machines: the token of one wait is valid for that wait, once, and for nothing else. */
import { randomUUID } from "node:crypto";
import { afterAll, describe, expect, test } from "vitest";
import { passGate } from "../../plugins/fake/gates.ts";
import { rejectedCallbacksOf } from "../../src/store/runs/rejected-callbacks.ts";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import type { TestNode } from "../support/builders.ts";
import { eventually } from "../support/eventually.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";

const paths = new Map<string, string[]>();
let returnGate = aGate();
let enteredGate = aGate();

const DRIVERS = [
  aDriver("caller", {
    clean: stepsOf(
      aStep("listen", "clean", async (call) => {
        paths.set(call.node.name, [...(paths.get(call.node.name) ?? []), call.callbackPath]);
        if (call.memo === null) return { kind: "wait", callback: true, seconds: 600, memo: 1 };
        if (call.memo === 1) return { kind: "wait", callback: true, seconds: 600, memo: 2 };
        return { kind: "done", output: { received: call.callback } };
      }),
    ),
  }),
  aDriver("finisher", {
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
  aDriver("silent", {
    clean: stepsOf(
      aStep("listen", "clean", async ({ memo, callback }) => {
        if (memo === null) return { kind: "wait", callback: true, seconds: 0.1, memo: 1 };
        return { kind: "done", output: { received: callback } };
      }),
    ),
  }),
  aDriver("early", {
    clean: stepsOf(
      aStep("listen", "clean", async (call) => {
        if (call.memo !== null) return { kind: "done", output: { received: call.callback } };
        paths.set(call.node.name, [call.callbackPath]);
        const [door, gate] = [enteredGate, returnGate];
        await passGate(door.name, call.node.name, null);
        await passGate(gate.name, call.node.name, null);
        return { kind: "wait", callback: true, seconds: 600, memo: 1 };
      }),
    ),
  }),
];

const ostler = await engineUnderTest({ drivers: DRIVERS });
afterAll(() => ostler[Symbol.asyncDispose]());

/** The token that the machine received last. */
function token({ name }: TestNode): string {
  return paths.get(name)?.at(-1)?.split("/").at(-1) ?? "";
}

async function aWaitingNode() {
  const node = await ostler.aNode().in("AVAILABLE").with("caller").made();
  const id = await ostler.begin("CLEAN", [node]);
  await ostler.nodeBecomes(node, "CLEAN_WAIT");
  return { node, id };
}

/** A step that has its callback path and has not returned its wait yet. */
async function anEarlyNode() {
  [returnGate, enteredGate] = [aGate(), aGate()];
  const node = await ostler.aNode().in("AVAILABLE").with("early").made();
  const id = await ostler.begin("CLEAN", [node]);
  await enteredGate.arrivals();
  enteredGate.open();
  return { node, id };
}

const stepEntered = (node: TestNode, entries: number) =>
  eventually(`the step is entered ${entries} times`, () => paths.get(node.name)?.length === entries);

/** Rejected callbacks to the runs of an operation, oldest first. */
async function rejectedCallbacks(operationId: string) {
  const found = await rejectedCallbacksOf(
    ostler.database.reader,
    (await ostler.runs(operationId)).map(({ id }) => id),
  );
  return found.map(({ kind, step }) => ({ kind, step }));
}

const end = async (operationId: string) => {
  await ostler.engine.abort(ALICE, { work: { operationId } });
  await ostler.operationEnds(operationId);
};

/** Changes since `before`, except for the records of rejected callbacks. */
async function changedSince(before: readonly string[]) {
  return (await ostler.changesSince(before)).filter((row) => !row.startsWith("+ rejected_callbacks "));
}

describe("callback", () => {
  test("callback resumes the step that waits for it and passes its body [R-065]", async () => {
    const { node, id } = await aWaitingNode();
    expect(await ostler.engine.receiveCallback(token(node), { ip: "10.0.0.7" })).toBe("TAKEN");
    await stepEntered(node, 2);
    await ostler.nodeBecomes(node, "CLEAN_WAIT");
    expect(await ostler.engine.receiveCallback(token(node), { ip: "10.0.0.8" })).toBe("TAKEN");
    await ostler.operationEnds(id);
    const [step] = await ostler.steps(await ostler.run(id, node));
    expect(step?.attempts).toMatchObject([
      { state: "SUCCEEDED", entries: 3, output: { received: { ip: "10.0.0.8" } } },
    ]);
    expect(await rejectedCallbacks(id)).toEqual([]);
  });

  test("callback with an empty body counts as a callback", async () => {
    const { node, id } = await aWaitingNode();
    expect(await ostler.engine.receiveCallback(token(node), null)).toBe("TAKEN");
    await stepEntered(node, 2);
    await end(id);
  });

  test("callback that arrives before the step returns its wait is not lost", async () => {
    const { node, id } = await anEarlyNode();
    expect(await ostler.engine.receiveCallback(token(node), { soon: true })).toBe("TAKEN");
    returnGate.open();
    await ostler.operationEnds(id);
    expect((await ostler.steps(await ostler.run(id, node)))[0]?.attempts).toMatchObject([
      { state: "SUCCEEDED", output: { received: { soon: true } } },
    ]);
  });

  test("callback that does not arrive resumes the step without one when its wait times out [R-142]", async () => {
    const node = await ostler.aNode().in("AVAILABLE").with("silent").made();
    const id = await ostler.begin("CLEAN", [node]);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect((await ostler.steps(await ostler.run(id, node)))[0]?.attempts).toMatchObject([
      { output: { received: null } },
    ]);
  });
});

describe("rejected callback", () => {
  test("callback that comes twice is recorded as DUPLICATE and changes nothing [R-071]", async () => {
    const { node, id } = await anEarlyNode();
    expect(await ostler.engine.receiveCallback(token(node), { time: 1 })).toBe("TAKEN");
    const before = await ostler.dump();
    expect(await ostler.engine.receiveCallback(token(node), { time: 2 })).toBe("DUPLICATE");
    expect(await changedSince(before)).toEqual([]);
    returnGate.open();
    await ostler.operationEnds(id);
    expect((await ostler.steps(await ostler.run(id, node)))[0]?.attempts).toMatchObject([
      { output: { received: { time: 1 } } },
    ]);
    expect(await rejectedCallbacks(id)).toEqual([{ kind: "DUPLICATE", step: "clean.listen" }]);
  });

  test("callbacks at the same moment: one is taken, the others are recorded", async () => {
    const { node, id } = await aWaitingNode();
    const token1 = token(node);
    const answers = await Promise.all([1, 2, 3].map((time) => ostler.engine.receiveCallback(token1, { time })));
    // The step may have started again before the last of them, which is LATE then.
    expect(answers.filter((answer) => answer === "TAKEN")).toHaveLength(1);
    expect(answers.filter((answer) => answer === "DUPLICATE" || answer === "LATE")).toHaveLength(2);
    await stepEntered(node, 2);
    expect(await rejectedCallbacks(id)).toHaveLength(2);
    await end(id);
  });

  test("callback for an earlier wait is recorded as LATE and changes nothing [R-071]", async () => {
    const { node, id } = await aWaitingNode();
    const first = token(node);
    await ostler.engine.receiveCallback(first, {});
    await stepEntered(node, 2);
    await ostler.nodeBecomes(node, "CLEAN_WAIT");
    expect(token(node)).not.toBe(first);
    const before = await ostler.dump();
    expect(await ostler.engine.receiveCallback(first, { ip: "6.6.6.6" })).toBe("LATE");
    expect(await changedSince(before)).toEqual([]);
    expect(await ostler.nodeState(node)).toBe("CLEAN_WAIT");
    expect(await rejectedCallbacks(id)).toEqual([{ kind: "LATE", step: "clean.listen" }]);
    await end(id);
  });

  test("callback for an ended run is recorded as LATE and changes nothing", async () => {
    const { node, id } = await aWaitingNode();
    await end(id);
    const before = await ostler.dump();
    expect(await ostler.engine.receiveCallback(token(node), {})).toBe("LATE");
    expect(await changedSince(before)).toEqual([]);
    expect(await rejectedCallbacks(id)).toEqual([{ kind: "LATE", step: "clean.listen" }]);
  });

  test("callback for a step that waits for its retry is recorded as LATE", async () => {
    const node = await ostler.aNode().in("AVAILABLE").with("failing").made();
    const id = await ostler.begin("CLEAN", [node]);
    await eventually("the run waits for its retry", async () => (await ostler.run(id, node)).waitReason === "RETRY");
    expect(await ostler.engine.receiveCallback(token(node), {})).toBe("LATE");
    expect(await rejectedCallbacks(id)).toEqual([{ kind: "LATE", step: "clean.listen" }]);
    await end(id);
  });

  // The hold used to take this callback as its own.
  test("callback for the step before a hold is recorded as LATE and does not lift the hold", async () => {
    const node = await ostler.aNode().in("AVAILABLE").with("finisher").made();
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
    expect(await ostler.engine.receiveCallback(token(node), { ip: "6.6.6.6" })).toBe("LATE");
    expect(await changedSince(before)).toEqual([]);
    expect(await rejectedCallbacks(id)).toEqual([{ kind: "LATE", step: "engine.hold" }]);
    await ostler.engine.unhold(ALICE, { work: { operationId: id } });
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  });

  test("callback with an invented token is recorded as FORGED and changes nothing", async () => {
    const { node, id } = await aWaitingNode();
    const { id: runId } = await ostler.run(id, node);
    const before = await ostler.dump();
    for (const malformed of [`${runId}.`, `${runId}.x`, `${runId}.${"x".repeat(44)}`, runId])
      expect(await ostler.engine.receiveCallback(malformed, { ip: "6.6.6.6" }), malformed).toBe("UNKNOWN");
    expect(await rejectedCallbacks(id)).toEqual([]);
    for (const forged of [`${runId}.${token(node).split(".").at(-1)?.toLowerCase()}`, `${runId}.${"x".repeat(43)}`])
      expect(await ostler.engine.receiveCallback(forged, { ip: "6.6.6.6" }), forged).toBe("FORGED");
    expect(await changedSince(before)).toEqual([]);
    expect(await rejectedCallbacks(id)).toHaveLength(2);
    await end(id);
  });

  test("callback with the token of another run is recorded as FORGED, and the token stays valid for its own run [R-071]", async () => {
    const one = await aWaitingNode();
    const other = await aWaitingNode();
    const { id: runId } = await ostler.run(one.id, one.node);
    expect(
      await ostler.engine.receiveCallback(`${runId}.${token(other.node).split(".").at(-1)}`, { ip: "6.6.6.6" }),
    ).toBe("FORGED");
    expect(await rejectedCallbacks(one.id)).toEqual([{ kind: "FORGED", step: "clean.listen" }]);
    expect(await rejectedCallbacks(other.id)).toEqual([]);
    expect(await ostler.engine.receiveCallback(token(other.node), {})).toBe("TAKEN");
    await stepEntered(other.node, 2);
    await end(one.id);
    await end(other.id);
  });

  test.each(["", "7", ".", "'; drop table nodes; --", randomUUID(), `${randomUUID()}.x`, "x".repeat(100_000)])(
    "callback that names no run (%j) is UNKNOWN and is not recorded",
    async (unknown) => {
      const before = await ostler.dump();
      expect(await ostler.engine.receiveCallback(unknown, { ip: "6.6.6.6" })).toBe("UNKNOWN");
      expect(await ostler.changesSince(before)).toEqual([]);
    },
  );

  test("callback flood: a hundred forged ones are recorded, and the valid one is still taken", async () => {
    const { node, id } = await aWaitingNode();
    const { id: runId } = await ostler.run(id, node);
    const answers = await Promise.all(
      Array.from({ length: 150 }, (_, index) =>
        ostler.engine.receiveCallback(`${runId}.${`${index}`.padEnd(43, "x")}`, {}),
      ),
    );
    expect(new Set(answers)).toEqual(new Set(["FORGED"]));
    expect(await rejectedCallbacks(id)).toHaveLength(100);
    expect(await ostler.engine.receiveCallback(token(node), {})).toBe("TAKEN");
    await stepEntered(node, 2);
    await end(id);
  });
});
