/** Machines that call back: the token of one wait is good for that wait, once, and for nothing else. */
import { randomUUID } from "node:crypto";
import { afterAll, describe, expect, test } from "vitest";
import { passGate } from "../../plugins/fake/gates.ts";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import type { TestNode } from "../support/builders.ts";
import { eventually } from "../support/eventually.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";

const paths = new Map<string, string[]>();
const gateBeforeWait = aGate();
const atTheDoor = aGate();

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
        await passGate(atTheDoor.name, call.node.name, null);
        await passGate(gateBeforeWait.name, call.node.name, null);
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

const waitsAgain = (node: TestNode, entries: number) => eventually(`the step is entered ${entries} times`, () => paths.get(node.name)?.length === entries);

describe("a call-back", () => {
  test("wakes the step that waits for it, with its body", async () => {
    const { node, id } = await waiting();
    expect(await ostler.engine.callBack(token(node), { ip: "10.0.0.7" })).toBe("TAKEN");
    await waitsAgain(node, 2);
    await ostler.nodeBecomes(node, "CLEAN_WAIT");
    expect(await ostler.engine.callBack(token(node), { ip: "10.0.0.8" })).toBe("TAKEN");
    await ostler.operationEnds(id);
    const [step] = await ostler.steps(await ostler.run(id, node));
    expect(step?.attempts).toMatchObject([{ state: "SUCCEEDED", entries: 3, output: { heard: { ip: "10.0.0.8" } } }]);
  });

  test("with an empty body counts as one", async () => {
    const { node, id } = await waiting();
    expect(await ostler.engine.callBack(token(node), null)).toBe("TAKEN");
    await waitsAgain(node, 2);
    await ostler.engine.abort(ALICE, { work: { operationId: id } });
    await ostler.operationEnds(id);
  });

  test("that comes twice is taken once", async () => {
    const { node, id } = await waiting();
    const given = token(node);
    const answers = await Promise.all([1, 2, 3].map((time) => ostler.engine.callBack(given, { time })));
    expect(answers.toSorted()).toEqual(["TAKEN", "UNKNOWN", "UNKNOWN"]);
    await waitsAgain(node, 2);
    expect(await ostler.engine.callBack(given, {})).toBe("UNKNOWN");
    await ostler.engine.abort(ALICE, { work: { operationId: id } });
    await ostler.operationEnds(id);
  });

  test("for an earlier wait, or for work that has ended, is late and changes nothing", async () => {
    const { node, id } = await waiting();
    const first = token(node);
    await ostler.engine.callBack(first, {});
    await waitsAgain(node, 2);
    await ostler.nodeBecomes(node, "CLEAN_WAIT");
    const second = token(node);
    expect(second).not.toBe(first);
    expect(await ostler.engine.callBack(first, {})).toBe("UNKNOWN");
    await ostler.engine.abort(ALICE, { work: { operationId: id } });
    await ostler.operationEnds(id);
    const before = await ostler.dump();
    expect(await ostler.engine.callBack(second, {})).toBe("UNKNOWN");
    expect(await ostler.changesSince(before)).toEqual([]);
  });

  test.each(["", "7", "'; drop table nodes; --", randomUUID()])("with the forged token %j changes nothing", async (forged) => {
    const { node, id } = await waiting();
    const before = await ostler.dump();
    expect(await ostler.engine.callBack(forged, { ip: "6.6.6.6" })).toBe("UNKNOWN");
    expect(await ostler.changesSince(before)).toEqual([]);
    expect(await ostler.nodeState(node)).toBe("CLEAN_WAIT");
    await ostler.engine.abort(ALICE, { work: { operationId: id } });
    await ostler.operationEnds(id);
  });

  test("that is quicker than the step that wants to wait for it is not lost", async () => {
    const node = await ostler.aNode().in("AVAILABLE").with("hasty").made();
    const id = await ostler.begin("CLEAN", [node]);
    await atTheDoor.arrivals();
    atTheDoor.open();
    expect(await ostler.engine.callBack(token(node), { soon: true })).toBe("TAKEN");
    gateBeforeWait.open();
    await ostler.operationEnds(id);
    expect((await ostler.steps(await ostler.run(id, node)))[0]?.attempts).toMatchObject([{ state: "SUCCEEDED", output: { heard: { soon: true } } }]);
  });

  test("that does not come leaves the step with none when its time of silence is over", async () => {
    const node = await ostler.aNode().in("AVAILABLE").with("silenced").made();
    const id = await ostler.begin("CLEAN", [node]);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect((await ostler.steps(await ostler.run(id, node)))[0]?.attempts).toMatchObject([{ output: { heard: null } }]);
  });
});
