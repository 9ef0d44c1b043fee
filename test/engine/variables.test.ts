/** Variables: what drivers declare is checked at admission, and only that reaches them. */
import { describe, expect, test } from "vitest";
import * as z from "zod";
import { editDistance, nearest } from "../../src/runtime/edit-distance.ts";
import type { Driver, Json } from "../../src/drivers/driver.ts";
import { createRegistry } from "../../src/drivers/registry.ts";
import type { EffectiveVariables } from "../../src/engine/admission/effective-variables.ts";
import { createVariableCheck } from "../../src/engine/admission/variable-flaws.ts";
import type { NodeRow } from "../../src/store/nodes/nodes.ts";
import type { Plan } from "../../src/store/records.ts";
import { ALICE, engineUnderTest } from "../support/builders.ts";
import type { EngineUnderTest, TestNode } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";

const received: Record<string, Json>[] = [];

/** Installs the image that the variable names; reads nothing else. */
const installer: Driver<never> = aDriver("installer", {
  variables: z.strictObject({ image: z.string().min(3).optional(), root_disk: z.string().optional() }),
  deploy: stepsOf(
    aStep("install", "deploy", async ({ variables }) => {
      received.push({ ...variables });
      return { kind: "done" };
    }),
    aStep("remove", "undeploy", async () => ({ kind: "done" })),
  ),
});

async function lab(): Promise<EngineUnderTest & { readonly ready: TestNode }> {
  const ostler = await engineUnderTest({ drivers: [installer] });
  return { ...ostler, ready: await ostler.aNode().with("installer").in("AVAILABLE").made() };
}

describe("variable that no driver reads", () => {
  test("variable imgae is refused with the name that was meant, because a driver would install its default image [R-373]", async () => {
    await using ostler = await lab();
    const { name, id } = ostler.ready;
    const message = `Node ${name}: No driver of the node (installer) declares the variable imgae. Did you mean image? Correct it, or send the request with \`unknownVariables: WARN\`.`;
    expect((await ostler.submit("DEPLOY", [ostler.ready], { variables: { imgae: "debian" } })).refusals).toEqual([
      { code: "INVALID_INPUT", message, nodeId: id, path: ["input", "variables", "imgae"] },
    ]);
  });

  test("variable imgae of a cluster is refused too, and the refusal names the cluster's variables", async () => {
    await using ostler = await lab();
    await ostler.engine.createCluster(ALICE, { name: "typo", variables: { imgae: "debian" } });
    const node = await ostler.aNode().with("installer").in("AVAILABLE").inCluster("typo").made();
    const [refusal] = (await ostler.submit("DEPLOY", [node])).refusals;
    expect(refusal?.message).toContain("The variable is set for the cluster.");
    expect(refusal?.path).toBeUndefined();
  });

  test("variable like one that is read is a warning if that one has a value, and with WARN [R-374]", async () => {
    await using ostler = await lab();
    for (const more of [
      { variables: { images: "all", image: "debian" } },
      { variables: { images: "all" }, unknownVariables: "WARN" as const },
    ]) {
      const { refusals, results } = await ostler.submit("DEPLOY", [ostler.ready], { ...more, dryRun: true });
      expect(refusals).toEqual([]);
      expect(results[0]?.warnings).toEqual([
        {
          name: "images",
          source: "REQUEST",
          nearest: "image",
          message: "No driver of the node (installer) declares the variable images. Did you mean image?",
        },
      ]);
    }
  });

  test("variable that is like none is a warning, and a refusal with REFUSE [R-375]", async () => {
    await using ostler = await lab();
    const variables = { ntp: "10.0.0.1" };
    const { refusals, results } = await ostler.submit("DEPLOY", [ostler.ready], { variables, dryRun: true });
    expect([refusals, results[0]?.warnings?.map(({ name, nearest: close }) => [name, close])]).toEqual([
      [],
      [["ntp", null]],
    ]);
    const strict = await ostler.submit("DEPLOY", [ostler.ready], { variables, unknownVariables: "REFUSE" });
    expect(strict.refusals[0]?.message).toContain("Remove it, or send the request without");
  });

  test("variable with a typing error does not keep a node from being switched off", async () => {
    await using ostler = await lab();
    const options = { powerAction: "OFF" } as const;
    const id = await ostler.begin("POWER", [ostler.ready], { variables: { imgae: "debian" }, options });
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  });

  test("variable that the fake driver does not declare reaches it, and imgae is refused all the same", async () => {
    await using ostler = await lab();
    const node = await ostler.aNode().in("AVAILABLE").made();
    const plan = (variables: unknown) => ostler.submit("DEPLOY", [node], { variables, dryRun: true });
    expect((await plan({ imgae: "debian" })).refusals[0]?.message).toContain("Did you mean image?");
    expect(await plan({ ntp: "10.0.0.1" })).toMatchObject({ refusals: [], results: [{ warnings: [] }] });
  });
});

test("variables of nodes that differ only in their further drivers are checked apart, also if they share a plan [R-434]", async () => {
  const reader = aDriver("reader", { variables: z.strictObject({ ntp: z.string().optional() }) });
  const registry = createRegistry([installer, reader]);
  const check = createVariableCheck(registry, "WARN", { networks: null, files: null, images: async () => [] });
  const shared = {
    plan: { steps: [], legs: [], bestEffort: false } as unknown as Plan,
    variables: {
      values: { ntp: "10.0.0.1" },
      list: [{ name: "ntp", source: "REQUEST", value: "10.0.0.1" }],
      hash: "same",
    } as unknown as EffectiveVariables,
  };
  const warned = async (fallbacks: NodeRow["fallbacks"]) => {
    const node = { driver: "installer", borrowed: {}, fallbacks } as NodeRow;
    return (await check({ ...shared, node })).warnings.map(({ name }) => name);
  };
  expect(await warned({})).toEqual(["ntp"]);
  expect(await warned({ power: ["reader"] })).toEqual([]);
});

test("variables reach a driver only as far as it declares them [R-376]", async () => {
  await using ostler = await lab();
  received.length = 0;
  const variables = { image: "debian", ntp: "10.0.0.1" };
  await ostler.operationEnds(await ostler.begin("DEPLOY", [ostler.ready], { variables }));
  expect(received).toEqual([{ image: "debian" }]);
});

test("variable whose value does not match the driver's schema is refused before anything starts [R-377]", async () => {
  await using ostler = await lab();
  const answer = await ostler.submit("DEPLOY", [ostler.ready], { variables: { image: 12 } });
  expect(answer.refusals).toMatchObject([
    {
      code: "INVALID_INPUT",
      message: `Node ${ostler.ready.name}: Variable image does not suit driver installer: it must be a text, not a number.`,
      path: ["input", "variables", "image"],
    },
  ]);
});

test.each([
  ["imgae", "image", 1],
  ["image", "image", 0],
  ["img", "image", 2],
  ["ntp", "dns", 3],
  ["", "ab", 2],
])("edit distance of %s and %s is %i", (a, b, distance) => {
  expect([editDistance(a, b), editDistance(b, a)]).toEqual([distance, distance]);
});

test("nearest name allows one edit in short names and two in longer ones", () => {
  expect(nearest("ntq", ["ntp"])).toBe("ntp");
  expect(nearest("dnt", ["ntp"])).toBeNull();
  expect(nearest("rot_disc", ["image", "root_disk"])).toBe("root_disk");
  expect(nearest("Image", ["image"])).toBe("image");
});
