/** Commissioning: what a node goes through, what of it is kept, and what a failure does to the others. */
import { afterAll, describe, expect, test } from "vitest";
import { engineUnderTest } from "../support/builders.ts";

const ostler = await engineUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

describe("a commission", () => {
  test("leads a new node through every phase to ACTIVE", async () => {
    const node = await ostler.aNode().made();
    const id = await ostler.begin("COMMISSION", [node]);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(await ostler.story(node)).toEqual([
      "register → ENROLLED",
      "verify → VERIFYING",
      "done → MANAGEABLE",
      "inspect → INSPECTING",
      "done → MANAGEABLE",
      "clean → CLEANING",
      "done → AVAILABLE",
      "deploy → DEPLOYING",
      "done → ACTIVE",
    ]);
  });
});
