/** Plans summed up: groups of equal plans, refusals by code, changes of machines, and the duration of the whole. */
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { verbOf } from "../../src/lifecycle/verbs.ts";
import type { NodeVerb } from "../../src/lifecycle/verbs.ts";
import { serviceUnderTest } from "../support/service.ts";

const ostler = await serviceUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

interface Count {
  readonly nodeCount: number;
}
interface Summary {
  readonly nodeCount: number;
  readonly plannedCount: number;
  readonly groupCount: number;
  readonly erasesDataCount: number;
  readonly states: readonly object[];
  readonly groups: readonly Count[];
  readonly refusals: readonly (Count & { readonly code: string; readonly remedy: string })[];
  readonly changes: readonly object[];
  readonly changedParts: readonly object[];
  readonly duration: { readonly expectedSeconds: number | null; readonly waves: readonly object[] } | null;
}
interface Payload {
  readonly summary: Summary | null;
  readonly errors: readonly { readonly code: string }[];
  readonly operation?: { readonly uuid: string } | null;
}

const DURATION =
  "duration { expectedSeconds upperSeconds leastSeconds unknownBecause unknownSteps samples limitedBy waveCount waves { number nodeCount expectedSeconds upperSeconds } }";
const SUMMARY = `summary {
  nodeCount plannedCount groupCount erasesDataCount states { state count }
  groups { kind nodeCount states { state count } target phases steps { name } pointOfNoReturn { name } erasesDataCount powerOnFailure image { name } examples { ref accepted node { name } } }
  refusals { code status nodeCount message remedy states { state count } examples { ref error { code } } }
  changedParts { part nodeCount } changes { step { phase interface name } changes nodeCount examples(first: 1) { ref } }
  ${DURATION}
}`;

async function plan(kind: NodeVerb, names: readonly string[], more: object = {}): Promise<Payload> {
  const data = await ostler.query<{ plan: Payload }>(
    `query Plan($input: PlanInput!) { plan(input: $input) { errors { code } ${SUMMARY} } }`,
    { input: { [verbOf(kind).mutation]: { nodes: { names }, ...more } } },
  );
  return data.plan;
}

async function duration(names: readonly string[], more: object = {}, kind: NodeVerb = "CLEAN") {
  return (await plan(kind, names, more)).summary?.duration;
}

const STEPS_OF_ALL = 60;
let clean: readonly string[] = [];
let fresh: readonly string[] = [];

beforeAll(async () => {
  clean = await ostler.register(10, {});
  fresh = await ostler.register(3, {});
  await ostler.commission(clean, "AVAILABLE");
  await ostler.test
    .sql`update attempts set started_at = finished_at - make_interval(secs => ${STEPS_OF_ALL}) where state = 'SUCCEEDED'`;
});

describe("groups and refusals", () => {
  test("nodes with equal plans are one group, and each node of the request counts once [R-563]", async () => {
    const [first = "", second = ""] = clean;
    await ostler.query(
      'mutation ($names: [String!]) { setRetired(input: { nodes: { names: $names }, reason: "old" }) { errors { code } } }',
      { names: [second] },
    );
    const { summary, errors } = await plan("DEPLOY", [...clean, ...fresh]);
    await ostler.query(
      "mutation ($names: [String!]) { clearRetired(input: { nodes: { names: $names } }) { errors { code } } }",
      {
        names: [second],
      },
    );
    expect(errors.map(({ code }) => code).toSorted()).toEqual(["INVALID_STATE", "PROTECTED"]);
    expect(summary).toMatchObject({
      nodeCount: 13,
      plannedCount: 9,
      groupCount: 1,
      erasesDataCount: 0,
      states: [
        { state: "AVAILABLE", count: 10 },
        { state: "ENROLLED", count: 3 },
      ],
      groups: [
        {
          kind: "DEPLOY",
          nodeCount: 9,
          states: [{ state: "AVAILABLE", count: 9 }],
          target: "ACTIVE",
          phases: ["DEPLOY"],
          pointOfNoReturn: { name: "write_image" },
          powerOnFailure: "OFF",
          image: null,
          examples: [{ ref: first, accepted: true, node: { name: first } }, { ref: clean[2] }, { ref: clean[3] }],
        },
      ],
      refusals: [
        {
          code: "INVALID_STATE",
          status: 409,
          nodeCount: 3,
          message: expect.stringContaining(fresh[0] ?? ""),
          remedy: expect.stringMatching(/\.$/),
          states: [{ state: "ENROLLED", count: 3 }],
          examples: fresh.map((ref) => ({ ref, error: { code: "INVALID_STATE" } })),
        },
        { code: "PROTECTED", status: 403, nodeCount: 1, states: [{ state: "AVAILABLE", count: 1 }] },
      ],
    });
  });

  test("nodes from several states and with several drivers are groups of their own, largest first [R-563]", async () => {
    const { summary } = await plan("COMMISSION", [...fresh.slice(0, 2), ...clean]);
    expect(summary?.groups).toMatchObject([
      { nodeCount: 10, phases: ["DEPLOY"], states: [{ state: "AVAILABLE", count: 10 }] },
      { nodeCount: 2, phases: ["VERIFY", "INSPECT", "CLEAN", "DEPLOY"], states: [{ state: "ENROLLED", count: 2 }] },
    ]);
  });

  test("the summary of a dry run is that of the query plan, and of the accepted request with its runs [R-563]", async () => {
    const [name = ""] = await ostler.register(1, {});
    const ask = async (dryRun: boolean) => {
      const data = await ostler.query<{ manageNodes: Payload }>(
        `mutation Manage($input: ManageNodesInput!) { manageNodes(input: $input) { operation { uuid } errors { code } ${SUMMARY} } }`,
        { input: { nodes: { names: [name] }, dryRun } },
      );
      return data.manageNodes;
    };
    const planned = (await plan("MANAGE", [name])).summary;
    expect((await ask(true)).summary).toEqual(planned);
    const accepted = await ask(false);
    expect(accepted.summary).toEqual(planned);
    await ostler.operationEnds(accepted.operation?.uuid ?? "");
  });

  test("a request that is refused before its nodes are looked at has no summary", async () => {
    expect(await plan("CLEAN", clean, { maxParallel: 0 })).toMatchObject({
      errors: [{ code: "INVALID_INPUT" }],
      summary: null,
    });
  });

  test.each([
    "groups(first: 0) { nodeCount }",
    "groups(first: 101) { nodeCount }",
    "groups { examples(first: 21) { ref } }",
    "duration { waves(first: 1001) { number } }",
  ])("summary { %s } is refused as bad input", async (field) => {
    const { errors } = await ostler.ask(
      `query ($names: [String!]) { plan(input: { cleanNodes: { nodes: { names: $names } } }) { summary { ${field} } } }`,
      { names: clean },
    );
    expect(errors).toMatchObject([{ extensions: { code: "BAD_USER_INPUT" } }]);
  });
});

describe("failure policy", () => {
  test.each([
    ["CLEAN_UP_ALL", 3, {}, "One failure takes all 3 nodes back to AVAILABLE, also those that are ACTIVE by then."],
    ["CLEAN_UP_ALL", 1, {}, "A failure takes the node back to AVAILABLE."],
    [
      "CLEAN_UP_FAILED",
      3,
      { onFailure: "CLEAN_UP_FAILED" },
      "One failure takes its node back to AVAILABLE; the other 2 continue.",
    ],
    ["CLEAN_UP_FAILED", 1, { onFailure: "CLEAN_UP_FAILED" }, "A failure takes the node back to AVAILABLE."],
    [
      "CLEAN_UP_FAILED",
      3,
      { waves: { sizes: [{ count: 1 }], maxFailures: { count: 1 } } },
      "One failure takes its node back to AVAILABLE; the other 2 continue until the waves halt.",
    ],
    ["LEAVE", 2, { onFailure: "LEAVE" }, "One failure leaves its node as it is; the other continues."],
    ["LEAVE", 1, { onFailure: "LEAVE" }, "A failure leaves the node as it is."],
  ])("the plan says what %s means for %i nodes, with %j [R-787]", async (onFailure, count, more, consequence) => {
    const names = clean.slice(0, count);
    const input = { nodes: { names }, ...more };
    const POLICY = "summary { onFailure failureConsequence }";
    const { plan: planned } = await ostler.query<{ plan: Payload }>(
      `query Plan($input: PlanInput!) { plan(input: $input) { ${POLICY} } }`,
      { input: { commissionNodes: input } },
    );
    expect(planned.summary).toEqual({ onFailure, failureConsequence: consequence });
    const { commissionNodes } = await ostler.query<{ commissionNodes: Payload }>(
      `mutation Commission($input: CommissionNodesInput!) { commissionNodes(input: $input) { ${POLICY} } }`,
      { input: { ...input, dryRun: true } },
    );
    expect(commissionNodes).toEqual(planned);
  });

  test("the site's default is that of a commission alone, and a plan without accepted nodes has none [R-786, R-787]", async () => {
    const ofPlan = async (mutation: string, names: readonly string[]) =>
      (
        await ostler.query<{ plan: Payload }>(
          "query Plan($input: PlanInput!) { plan(input: $input) { summary { onFailure failureConsequence } } }",
          { input: { [mutation]: { nodes: { names } } } },
        )
      ).plan.summary;
    const { updateSite } = await ostler.query<{ updateSite: object }>(
      "mutation { updateSite(input: { commissionOnFailure: LEAVE }) { site { commissionOnFailure } errors { code } } }",
    );
    expect(updateSite).toEqual({ site: { commissionOnFailure: "LEAVE" }, errors: [] });
    expect(await ofPlan("commissionNodes", clean)).toEqual({
      onFailure: "LEAVE",
      failureConsequence: "One failure leaves its node as it is; the other 9 continue.",
    });
    const { updateSite: reset } = await ostler.query<{ updateSite: object }>(
      "mutation { updateSite(input: { commissionOnFailure: null }) { site { commissionOnFailure } errors { code } } }",
    );
    expect(reset).toEqual({ site: { commissionOnFailure: "CLEAN_UP_ALL" }, errors: [] });
    expect(await ofPlan("deployNodes", clean)).toMatchObject({ onFailure: "LEAVE" });
    expect(await ofPlan("deployNodes", fresh)).toEqual({ onFailure: null, failureConsequence: null });
  });
});

describe("changes of machines", () => {
  test("the summary names the steps that change disks, firmware and networks, on how many nodes [R-565]", async () => {
    const steps = [{ name: "erase_disks" }, { name: "update_firmware", args: { version: "2.1" } }];
    const { summary } = await plan("CLEAN", clean, { steps });
    expect(summary).toMatchObject({
      erasesDataCount: 0,
      changedParts: [
        { part: "DISKS", nodeCount: 10 },
        { part: "FIRMWARE", nodeCount: 10 },
      ],
      changes: [
        { step: { phase: "CLEAN", interface: "CLEAN", name: "erase_disks" }, changes: ["DISKS"], nodeCount: 10 },
        { step: { name: "update_firmware" }, changes: ["FIRMWARE"], nodeCount: 10, examples: [{ ref: clean[0] }] },
      ],
    });
  });

  test("nodes that hold data are counted, and steps of several groups once [R-565]", async () => {
    const names = await ostler.register(2, {});
    await ostler.operationEnds(await ostler.begin("manageNodes", names));
    const { summary } = await plan("COMMISSION", [...names, ...clean.slice(0, 3)]);
    expect(summary).toMatchObject({ groupCount: 2, erasesDataCount: 2 });
    expect(summary?.groups).toMatchObject([
      { nodeCount: 3, erasesDataCount: 0 },
      { nodeCount: 2, erasesDataCount: 2 },
    ]);
    const writing = summary?.changes.filter((change) => JSON.stringify(change).includes("write_image"));
    expect(writing).toMatchObject([{ nodeCount: 5 }]);
  });
});

describe("the duration of the whole", () => {
  test("nodes side by side take as long as one, two at a time five times as long [R-564]", async () => {
    expect(await duration(clean)).toEqual({
      expectedSeconds: 2 * STEPS_OF_ALL,
      upperSeconds: 2 * STEPS_OF_ALL,
      leastSeconds: 2 * STEPS_OF_ALL,
      unknownBecause: [],
      unknownSteps: [],
      samples: 10,
      limitedBy: [],
      waveCount: 1,
      waves: [{ number: 1, nodeCount: 10, expectedSeconds: 120, upperSeconds: 120 }],
    });
    expect(await duration(clean, { maxParallel: 2 })).toMatchObject({
      expectedSeconds: 600,
      limitedBy: ["maxParallel"],
    });
  });

  test("waves follow each other with their pauses [R-564]", async () => {
    const waves = { sizes: [{ count: 1 }, { percent: 40 }], pauseSeconds: 30 };
    expect(await duration(clean, { waves, maxParallel: 2 })).toMatchObject({
      expectedSeconds: 120 + 30 + 240 + 30 + 240 + 30 + 120,
      waveCount: 4,
      waves: [
        { number: 1, nodeCount: 1, expectedSeconds: 120 },
        { nodeCount: 4, expectedSeconds: 240 },
        { nodeCount: 4 },
        { nodeCount: 1 },
      ],
    });
  });

  test("waves that wait for a request make the duration unknown, but not that of each wave [R-564]", async () => {
    const waves = { sizes: [{ count: 5 }], manual: true };
    expect(await duration(clean, { waves })).toMatchObject({
      expectedSeconds: null,
      upperSeconds: null,
      leastSeconds: 240,
      unknownBecause: ["MANUAL_WAVES"],
      waves: [{ expectedSeconds: 120 }, { expectedSeconds: 120 }],
    });
  });

  test("a step without a history and a hold make the duration unknown, with the reasons [R-564]", async () => {
    const steps = [
      { name: "erase_disks" },
      { name: "update_firmware", args: { version: "2.1" } },
      { interface: "ENGINE", name: "wait", args: { seconds: 5 } },
      { interface: "ENGINE", name: "hold" },
    ];
    expect(await duration(clean, { steps })).toMatchObject({
      expectedSeconds: null,
      leastSeconds: 65,
      unknownBecause: ["NO_HISTORY", "HOLD"],
      unknownSteps: ["clean.update_firmware"],
      samples: 10,
    });
  });

  test("the slower of two models and the limits of the site count [R-564]", async () => {
    await ostler.test.sql`update nodes set model = 'Slow 1' where name in ${ostler.test.sql(clean.slice(0, 2))}`;
    await ostler.test
      .sql`update attempts set model = 'Slow 1', started_at = finished_at - interval '100 seconds' where run_id = (select id from runs where node_name = ${clean[0] ?? ""} limit 1)`;
    expect(await duration(clean)).toMatchObject({ expectedSeconds: 200, samples: 1 });
    const limit = (limits: readonly object[]) =>
      ostler.query(
        "mutation ($limits: [PhaseLimitInput!]) { updateSite(input: { phaseLimits: $limits }) { errors { code message } } }",
        {
          limits,
        },
      );
    expect(await limit([{ phase: "CLEAN", limit: 5 }])).toMatchObject({ updateSite: { errors: [] } });
    // Five at a time: two slow ones and three others, three more after 120 s, the last two after 200 s.
    expect(await duration(clean)).toMatchObject({ expectedSeconds: 320, limitedBy: ["phase:clean"] });
    await limit([]);
  });

  test("estimates of a summary take one statement", async () => {
    const execute = vi.spyOn(ostler.database.bounded, "execute");
    try {
      expect(await duration([...clean, ...fresh], {}, "COMMISSION")).toMatchObject({ waveCount: 1 });
      expect(execute).toHaveBeenCalledTimes(1);
    } finally {
      execute.mockRestore();
    }
  });
});
