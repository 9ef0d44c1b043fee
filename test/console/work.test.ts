/** Verbs of the console: their terms, their plans as sentences, and the nodes that a request names. */
import { describe, expect, test } from "vitest";
import { markSentence } from "../../packages/console/src/words/marks.ts";
import {
  hostGroupTexts,
  planDifferences,
  planGroupText,
  planSentence,
  reasonTexts,
} from "../../packages/console/src/words/plans.ts";
import type { VerbPlan } from "../../packages/console/src/words/plans.ts";
import { NO_TERMS, failureSentence, objectOf, readTerms } from "../../packages/console/src/words/terms.ts";
import { VERBS, WORK, isWork, inWordsOfPage, lackOf, workName } from "../../packages/console/src/words/verbs.ts";
import { markOutlook, outlookOf, selectionOf, statesOf } from "../../packages/console/src/work/outlook.ts";

const PLAN: VerbPlan & { readonly failureConsequence: string | null; readonly onFailure: string } = {
  nodeCount: 4,
  plannedCount: 2,
  unchangedCount: 0,
  reasons: [],
  erasesDataCount: 2,
  onFailure: "LEAVE",
  failureConsequence: "A failure leaves the node as it is.",
  changedParts: [{ part: "FIRMWARE", nodeCount: 1 }],
  duration: { expectedSeconds: 2_400 },
  refusals: [{ code: "IN_MAINTENANCE", nodeCount: 2 }],
  hostGroups: [],
  groups: [
    {
      nodeCount: 2,
      target: "ACTIVE",
      phases: ["CLEAN", "DEPLOY"],
      steps: [{ state: "KEPT" }, { state: "PENDING" }, { state: "PENDING" }],
      pointOfNoReturn: { name: "write_image", changes: ["DISKS", "FIRMWARE"] },
    },
  ],
};

test.each([
  ["stop", [true, false, false]],
  ["applyCluster", [true, false, false]],
  ["setRetired", [true, false, false]],
  ["deleteNodes", [true, true, false]],
  ["addMembers", [true, true, false]],
  ["updateCluster", [true, true, false]],
])("%s is disabled for a caller whose roles do not allow it [R-1391]", (mutation, lacks) => {
  expect(["READ", "OPERATE", "MANAGE"].map((scope) => lackOf(mutation, scope) !== null)).toEqual(lacks);
  expect(lackOf(mutation, "READ")).toMatch(/^It requires (OPERATE|MANAGE); you have READ\.$/);
  expect([lackOf(mutation, null), lackOf(mutation, "ADMIN"), lackOf(mutation, "NEWER")]).toEqual([null, null, null]);
});

const answer = (accepted: readonly boolean[], more: object = {}) => ({
  planHash: "hash",
  acceptedCount: accepted.filter(Boolean).length,
  refusedCount: accepted.filter((one) => !one).length,
  replayed: false,
  operation: null,
  results: accepted.map((one) => ({ accepted: one })),
  errors: [],
  summary: PLAN,
  ...more,
});

describe("the nodes of a request", () => {
  const ids = ["a", "b", "c", "d"];

  test("a request names exactly the nodes that its plan accepted [R-1245]", () => {
    const outlook = outlookOf("deployNodes", answer([true, false, false, true]), ids, { acceptance: "BEST_EFFORT" });
    expect(outlook.ids).toEqual(["a", "d"]);
    expect(outlook).toMatchObject({ acceptedCount: 2, isPossible: true, planHash: "hash" });
  });

  test("all or nothing names all of them", () => {
    const input = { acceptance: "ALL_OR_NOTHING" };
    const outlook = outlookOf("deployNodes", answer([true, false, false, true], { planHash: null }), ids, input);
    expect(outlook.ids).toEqual(ids);
    expect(outlook.isPossible).toBe(false);
  });

  test("an answer that has other results than nodes leaves none out", () => {
    expect(outlookOf("deployNodes", answer([true]), ids, {}).ids).toEqual(ids);
  });

  test("a selection is that of nodes, or of their work", () => {
    expect(selectionOf("deployNodes", { ids })).toEqual({ nodes: { ids } });
    expect(selectionOf("deleteNodes", { ids })).toEqual({ nodes: { ids } });
    for (const mutation of ["restart", "stop", "abort"] as const)
      expect(selectionOf(mutation, { ids })).toEqual({ work: { ids } });
  });

  test("those that join or leave a cluster are the selected nodes [R-1337]", () => {
    expect(selectionOf("addMembers", { ids })).toEqual({ add: { ids } });
    expect(selectionOf("removeMembers", { ids })).toEqual({ remove: { ids } });
    for (const mutation of ["addMembers", "removeMembers"] as const)
      expect(markOutlook({ mutation, input: {}, object: "4 nodes" }, ids)).toMatchObject({ ids, isPossible: true });
  });
});

describe("confirmation", () => {
  test.each([
    ["data", "deployNodes", {}, { ...PLAN, changedParts: [] }, 2],
    [
      "firmware",
      "cleanNodes",
      {},
      { ...PLAN, erasesDataCount: 0, changedParts: [{ part: "FIRMWARE", nodeCount: 3 }] },
      3,
    ],
    ["power", "setPower", { action: "SOFT_OFF" }, { ...PLAN, erasesDataCount: 0, changedParts: [] }, 2],
    ["nothing", "setPower", { action: "ON" }, { ...PLAN, erasesDataCount: 0, changedParts: [] }, null],
    ["the data of one node", "deployNodes", {}, { ...PLAN, erasesDataCount: 1, changedParts: [] }, null],
  ] as const)("the number of several nodes that lose %s is typed [R-1246]", (_, mutation, input, summary, count) => {
    const planned = answer([true, true, false, false], { summary });
    expect(outlookOf(mutation, planned, null, input).typedCount).toBe(count);
  });

  test("the number of several nodes that are deleted is typed", () => {
    const of = (ids: readonly string[]) => markOutlook({ mutation: "deleteNodes", input: {}, object: "" }, ids);
    expect([of(["a"]).typedCount, of(["a", "b"]).typedCount]).toEqual([null, 2]);
  });
});

describe("plans", () => {
  test("a plan is a sentence with its losses", () => {
    expect(planSentence("Deploy", PLAN)).toBe(
      "2 of 4 nodes accept it, in about 40 min. Deploy erases the data of 2 nodes. It changes the firmware of 1 node.",
    );
    const one = { ...PLAN, nodeCount: 1, plannedCount: 1, erasesDataCount: 0, changedParts: [], duration: null };
    expect(planSentence("Inspect", one)).toBe("1 node accepts it. No data is lost.");
    expect(planSentence("Inspect", { ...PLAN, plannedCount: 0 })).toBe("No node accepts it.");
    expect(planSentence("Inspect", { ...one, plannedCount: 0 })).toBe("The node refuses it.");
  });

  test("a group of equal plans has its phases, its steps and the point of no return", () => {
    expect(PLAN.groups.map(planGroupText)).toEqual([
      "2 nodes: clean, deploy, 2 steps, 1 kept, to Active; from write_image on disks and firmware change",
    ]);
  });

  test("a plan says which host group waits for which, with the numbers [R-1336]", () => {
    const [cluster, other] = [{ name: "berlin" }, { name: "turin" }];
    const masters = { name: "masters", nodeCount: 1, cluster, waitsFor: [] };
    const waitsFor = [
      { group: "masters", needed: 3, present: 1 },
      { group: "storage", needed: 1, present: 0 },
    ];
    const workers = { name: "workers", nodeCount: 1_200, cluster, waitsFor };
    expect(hostGroupTexts({ hostGroups: [masters] })).toEqual([]);
    expect(hostGroupTexts({ hostGroups: [masters, workers] })).toEqual([
      "masters: 1 node begins at once.",
      "workers: 1,200 nodes begin when masters has 3 active nodes (now 1) and storage has 1 active node (now 0).",
    ]);
    expect(hostGroupTexts({ hostGroups: [{ ...masters, cluster: other }, workers] })[0]).toBe(
      "turin, masters: 1 node begins at once.",
    );
    const outlook = outlookOf("deployNodes", answer([true], { summary: { ...PLAN, hostGroups: [workers] } }), null, {});
    expect(outlook.more.join(" ")).toContain("workers: 1,200 nodes begin when masters");
  });

  test("the plan of a cluster has a reason for each node that it changes, and counts the others [R-1251]", () => {
    const reasons = [{ reason: "stopped in write_image", nodeCount: 2 }];
    const plan = { ...PLAN, unchangedCount: 2, plannedCount: 2, changedParts: [], refusals: [], reasons };
    expect(reasonTexts(plan)).toEqual(["2 nodes: stopped in write_image", "2 nodes stay as the cluster wants it."]);
    expect(planSentence("Deploy", plan)).toMatch(/^2 nodes accept it/);
    expect(planSentence("Deploy", { ...plan, unchangedCount: 4, plannedCount: 0 })).toBe(
      "Every node is as the cluster wants it.",
    );
  });

  test("two plans differ by their numbers [R-1247]", () => {
    const refusals = [
      { code: "IN_MAINTENANCE", nodeCount: 2 },
      { code: "PROTECTED", nodeCount: 1 },
    ];
    expect(planDifferences(PLAN, { ...PLAN, plannedCount: 1, erasesDataCount: 1, refusals })).toEqual([
      "1 node accepted, before 2",
      "1 node refused, protected, before 0",
      "1 node losing data, before 2",
    ]);
    expect(planDifferences(PLAN, PLAN)).toEqual([]);
  });
});

describe("terms", () => {
  test("empty fields leave the terms to the service", () => {
    expect(readTerms(NO_TERMS)).toEqual({ input: {}, flaws: {} });
  });

  test("typed terms are the input of the request", () => {
    const typed = {
      ...NO_TERMS,
      image: "debian-13",
      hostGroup: " worker ",
      maxParallel: "50",
      waves: "1 %, 10, rest",
      haltAt: "5 %",
      onFailure: "LEAVE",
      variables: '{"ntp": null}',
      power: "OFF",
      fromBeginning: true,
      reinstall: true,
    };
    expect(readTerms(typed)).toEqual({
      flaws: {},
      input: {
        image: { name: "debian-13" },
        hostGroup: "worker",
        maxParallel: 50,
        waves: { sizes: [{ percent: 1 }, { count: 10 }, { percent: 100 }], maxFailures: { percent: 5 } },
        onFailure: "LEAVE",
        variables: { ntp: null },
        action: "OFF",
        from: "BEGINNING",
        reinstall: true,
      },
    });
  });

  test.each([
    ["maxParallel", "0"],
    ["maxParallel", "1.5"],
    ["maxParallel", "many"],
    ["waves", "1, ,3"],
    ["waves", "101 %"],
    ["waves", "1.5"],
    ["haltAt", "five"],
    ["haltAt", "5"],
    ["variables", "[1]"],
    ["variables", "{ntp: 1}"],
    ["variables", "null"],
  ] as const)("%s = %s is refused at its field, and nothing is sent [R-1248]", (field, text) => {
    const { flaws, input } = readTerms({ ...NO_TERMS, [field]: text });
    expect(Object.keys(flaws)).toEqual([field]);
    expect(input).toEqual({});
  });

  test("a JSON object is an object, and nothing else", () => {
    expect(objectOf('{"a": {"b": 1}}')).toEqual({ a: { b: 1 } });
    expect(objectOf("  ")).toBeNull();
    expect(objectOf("7")).toContain("Use a JSON object");
  });

  test("each failure policy has its sentence", () => {
    for (const policy of ["LEAVE", "CLEAN_UP_FAILED", "CLEAN_UP_ALL"]) expect(failureSentence(policy)).not.toBeNull();
    expect(failureSentence("")).toBeNull();
  });
});

describe("verbs", () => {
  test("every verb has a mutation that the dialog knows, and no action has two", () => {
    expect(VERBS.every(({ mutation }) => isWork(mutation))).toBe(true);
    expect(new Set(VERBS.map(({ action }) => action)).size).toBe(VERBS.length);
    expect(isWork("toString")).toBe(false);
  });

  test("a protection that ends is named as that", () => {
    expect(workName("updateNodes", { protected: false })).toBe("End the protection of");
    expect(workName("updateNodes", { protected: true })).toBe(WORK.updateNodes.name);
  });

  test("every mark has a sentence with the number of its nodes", () => {
    const marks = VERBS.filter(({ mutation }) => WORK[mutation].answers === "MARK");
    for (const { mutation, input = {} } of marks) {
      expect(markSentence(mutation as "deleteNodes", input, 1)).toMatch(/\b1 node\b/);
      expect(markSentence(mutation as "deleteNodes", input, 1_200)).toMatch(/1,200 nodes/);
    }
    expect(
      new Set(marks.map(({ mutation, input = {} }) => markSentence(mutation as "deleteNodes", input, 2))).size,
    ).toBe(marks.length);
  });
});

describe("an interrupt", () => {
  const effect = { effect: "NOW", count: 1, powersOff: false, changedParts: [], conditionKnown: true, cutsStep: false };
  const forecast = {
    effects: [effect],
    refusals: [{ code: "NOTHING_RUNNING", nodeCount: 1, message: "", examples: [] }],
  };

  test("an interrupt names only the nodes that its forecast has", () => {
    const interrupted = {
      forecast,
      errors: [],
      operation: null,
      operations: [],
      results: [{ accepted: true }, { accepted: false }],
    };
    expect(outlookOf("abort", interrupted, ["a", "b"], {})).toMatchObject({ ids: ["a"], acceptedCount: 1 });
    expect(outlookOf("abort", interrupted, null, {}).ids).toBeNull();
  });

  test.each([
    [{ ids: ["a", "c"], input: {} }, "ACTIVE DEPLOYING"],
    [{ input: { work: { cluster: { name: "berlin" } } } }, "ACTIVE STOPPED"],
    [{ input: { work: { operationId: "1" } } }, ""],
  ])("its forecast is read again when the nodes of %j have other states", (proposal, states) => {
    const nodes = [
      { id: "a", state: "ACTIVE", cluster: { name: "berlin" } },
      { id: "b", state: "STOPPED", cluster: { name: "berlin" } },
      { id: "c", state: "DEPLOYING", cluster: null },
    ];
    expect(statesOf({ mutation: "stop", object: "", ...proposal }, nodes)).toBe(states);
  });

  test("refusals use the words of the page", () => {
    expect(inWordsOfPage("Node a is protected. Remove the protection with updateNodes first.")).toBe(
      "Node a is protected. Remove the protection first.",
    );
  });
});
