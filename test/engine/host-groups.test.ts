/** Host groups: in which order nodes begin, which failures end an operation, and how many nodes stay in service. */
import { afterAll, describe, expect, test } from "vitest";
import type { GivenHostGroup } from "../../src/engine/inventory/host-groups.ts";
import type { VerbRequest } from "../../src/engine/admission/request-terms.ts";
import type { NodeState } from "../../src/lifecycle/node-states.ts";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import type { TestNode } from "../support/builders.ts";
import { eventually } from "../support/eventually.ts";

const ostler = await engineUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());
const { engine } = ostler;

let clustersMade = 0;
let batches = 0;

const MASTERS_FIRST: readonly GivenHostGroup[] = [
  { name: "masters" },
  { name: "workers", after: [{ group: "masters" }] },
];

interface Lab {
  readonly name: string;
  /** Nodes of a group, in a state. */
  nodes(group: string, count: number, state?: NodeState, steps?: Parameters<Made["scripted"]>[0]): Promise<TestNode[]>;
}
type Made = ReturnType<typeof ostler.aNode>;

/** A cluster of its own with these host groups. */
async function aLab(hostGroups: readonly GivenHostGroup[]): Promise<Lab> {
  const name = `lab-${(clustersMade += 1)}`;
  expect(await engine.createCluster(ALICE, { name, hostGroups })).toMatchObject({ refusals: [] });
  return {
    name,
    async nodes(hostGroup, count, state = "AVAILABLE", steps = {}) {
      const made = await ostler
        .aNode()
        .named(`${name}-${hostGroup}-${(batches += 1)}`)
        .in(state)
        .inCluster(name)
        .scripted(steps)
        .times(count);
      const selected = { ids: made.map(({ id }) => id) };
      const edit = { nodes: selected, acceptance: "ALL_OR_NOTHING", dryRun: false, patch: { hostGroup } } as const;
      expect(await engine.updateNodes(ALICE, edit)).toMatchObject({ refusals: [] });
      return made;
    },
  };
}

const stateOf = async (id: string, node: TestNode) => (await ostler.run(id, node)).state;
const statesOf = (id: string, nodes: readonly TestNode[]) => Promise.all(nodes.map((node) => stateOf(id, node)));
const codesOf = async (kind: VerbRequest["kind"], nodes: readonly TestNode[], more: Partial<VerbRequest> = {}) =>
  (await ostler.submit(kind, nodes, more)).results.map(({ refusal }) => refusal?.code ?? null);
const failing = { "deploy.prepare": { fail: "no luck" } };

/** Waits until the scheduler has looked at the operation again. */
async function lookedAgain(id: string): Promise<void> {
  const others = await ostler.aNode().in("AVAILABLE").times(2);
  await ostler.operationEnds(await ostler.begin("DEPLOY", others, { maxParallel: 1 }));
  expect((await ostler.operation(id)).finishedAt).toBeNull();
}

describe("host groups are checked when they are stored", () => {
  test("unknown names, itself, cycles with their path, and wrong numbers are refused together [R-1085]", async () => {
    const { refusals } = await engine.createCluster(ALICE, {
      name: "flawed",
      hostGroups: [
        { name: "a", after: [{ group: "b" }] },
        { name: "b", after: [{ group: "c", share: { percent: 101 } }] },
        { name: "c", after: [{ group: "a" }, { group: "c" }, { group: "lost" }] },
        { name: "d", tolerates: { percent: -5 }, minActive: { count: 1.5 } },
        { name: "e", after: [{ group: "d", share: { count: 0 } }] },
      ],
    });
    const path = (...at: string[]) => ["input", "hostGroups", ...at];
    expect(refusals.map(({ message, path: at }) => [at, message])).toEqual([
      [path("0", "after", "0"), "The host groups a → b → c → a wait for each other. Remove one `after` of them."],
      [
        path("1", "after", "0"),
        "Invalid after of host group b: use a count of 1 or more, or a percentage above 0 and up to 100.",
      ],
      [path("2", "after", "1"), "Host group c cannot come after itself."],
      [
        path("2", "after", "2"),
        "Host group c comes after lost, which the cluster does not have. Add it, or correct the name.",
      ],
      [
        path("3", "tolerates"),
        "Invalid tolerates of host group d: use a count of 0 or more, or a percentage from 0 to 100.",
      ],
      [
        path("3", "minActive"),
        "Invalid minActive of host group d: use a count of 0 or more, or a percentage from 0 to 100.",
      ],
      [
        path("4", "after", "0"),
        "Invalid after of host group e: use a count of 1 or more, or a percentage above 0 and up to 100.",
      ],
    ]);
  });

  test("an output of a group that does not come before is refused, with a cycle, and when only the order changes [R-1346]", async () => {
    const token = (fromGroup: string) => ({ join_token: { fromGroup, output: "join_token" } });
    const cycle = await engine.createCluster(ALICE, {
      name: "flawed",
      hostGroups: [
        { name: "a", after: [{ group: "b" }] },
        { name: "b", after: [{ group: "a" }] },
        { name: "c", after: [{ group: "a" }], variables: token("lost") },
      ],
    });
    expect(cycle.refusals.map(({ path }) => path?.slice(2))).toEqual([
      ["0", "after", "0"],
      ["2", "variables", "join_token"],
    ]);
    const workers = { name: "workers", after: [{ group: "masters" }] };
    const lab = await aLab([{ name: "masters" }, { ...workers, variables: token("masters") }]);
    const change = (...hostGroups: GivenHostGroup[]) => engine.updateCluster(ALICE, { name: lab.name }, { hostGroups });
    const refused = [{ code: "INVALID_INPUT", path: ["input", "hostGroups", "0", "variables", "join_token"] }];
    expect((await change({ name: "workers" })).refusals).toMatchObject(refused);
    expect(
      (await change({ name: "workers" }, { name: "masters", after: [{ group: "workers" }] })).refusals,
    ).toMatchObject(refused);
    expect((await change(workers, { name: "masters" })).refusals).toEqual([]);
    expect((await change({ name: "workers", variables: { join_token: null } })).refusals).toEqual([]);
  });
});

describe("stages", () => {
  test("a node begins when the nodes that its group comes after are ACTIVE, and holds no slot meanwhile [R-1086]", async () => {
    const lab = await aLab(MASTERS_FIRST);
    const gate = aGate();
    const workers = await lab.nodes("workers", 3);
    const masters = await lab.nodes("masters", 2, "AVAILABLE", { "deploy.prepare": { gate: gate.name } });
    const id = await ostler.begin("DEPLOY", [...workers, ...masters], { maxParallel: 2 });
    await gate.arrivals(2);
    await lookedAgain(id);
    expect(await statesOf(id, workers)).toEqual(["QUEUED", "QUEUED", "QUEUED"]);
    expect(workers.flatMap((node) => ostler.entered(node))).toEqual([]);
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  });

  test("nodes that were ACTIVE before count, as far as the request leaves them alone [R-1087]", async () => {
    const lab = await aLab([
      { name: "masters" },
      { name: "workers", after: [{ group: "masters", share: { percent: 50 } }] },
    ]);
    const [kept, again] = await lab.nodes("masters", 3, "ACTIVE");
    const workers = await lab.nodes("workers", 2);
    expect((await ostler.operationEnds(await ostler.begin("DEPLOY", workers))).state).toBe("SUCCEEDED");
    const more = await lab.nodes("workers", 1);
    const options = { reinstall: true };
    // Of three masters two have to be ACTIVE, and two are being deployed again.
    const id = await ostler.begin(
      "DEPLOY",
      [...more, kept, again].flatMap((one) => one ?? []),
      { options },
    );
    const worker = await ostler.run(id, more[0] ?? { id: "", name: "" });
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    const ended = (await ostler.runs(id))
      .filter(({ nodeId }) => nodeId !== worker.nodeId)
      .map(({ finishedAt }) => finishedAt);
    const begun = (await ostler.run(id, more[0] ?? { id: "", name: "" })).startedAt ?? new Date(0);
    expect(begun.getTime()).toBeGreaterThanOrEqual(Math.min(...ended.map((at) => at?.getTime() ?? 0)));
  });

  test("a group that neither the cluster nor the request can bring there refuses its nodes, and those after it [R-1088]", async () => {
    const lab = await aLab([...MASTERS_FIRST, { name: "edge", after: [{ group: "workers", share: { count: 1 } }] }]);
    const [workers, edge] = [await lab.nodes("workers", 1), await lab.nodes("edge", 1)];
    const before = await ostler.dump();
    const { operationId, results } = await ostler.submit("COMMISSION", [...edge, ...workers]);
    expect(operationId).toBeNull();
    expect(results.map(({ refusal }) => refusal)).toMatchObject([
      {
        code: "GROUP_REQUIRED",
        message: expect.stringContaining("needs 1 of 1 node of host group workers (0 are) ACTIVE"),
      },
      {
        code: "GROUP_REQUIRED",
        message: expect.stringContaining("needs 1 of 0 nodes of host group masters (0 are) ACTIVE"),
      },
    ]);
    expect(await ostler.changesSince(before)).toEqual([]);
    const wanted = await engine.applyCluster(ALICE, { cluster: { name: lab.name }, dryRun: true });
    expect(wanted.results).toMatchObject([1, 2].map(() => ({ refusal: { code: "GROUP_REQUIRED" }, reason: "new" })));
    // A count that the members can no longer meet.
    const strict = await aLab([
      { name: "masters" },
      { name: "workers", after: [{ group: "masters", share: { count: 2 } }] },
    ]);
    const nodes = [...(await strict.nodes("masters", 1)), ...(await strict.nodes("workers", 1))];
    expect(await codesOf("DEPLOY", nodes, { acceptance: "BEST_EFFORT", dryRun: true })).toEqual([
      null,
      "GROUP_REQUIRED",
    ]);
    expect(await codesOf("DEPLOY", nodes, { dryRun: true })).toEqual([null, "GROUP_REQUIRED"]);
  });

  test("waves are formed group by group, whatever the order of the request [R-1089]", async () => {
    const lab = await aLab(MASTERS_FIRST);
    const workers = await lab.nodes("workers", 3);
    const masters = await lab.nodes("masters", 2);
    const id = await ostler.begin("DEPLOY", [...workers, ...masters], { waves: { sizes: [{ count: 2 }] } });
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    const waves = new Map((await ostler.runs(id)).map(({ nodeId, wave }) => [nodeId, wave]));
    expect([...masters, ...workers].map((node) => waves.get(node.id))).toEqual([0, 0, 1, 1, 2]);
  });

  test("nodes whose group can no longer begin are STOPPED and name the failed ones, and a restart continues [R-1090]", async () => {
    const lab = await aLab([...MASTERS_FIRST, { name: "edge", after: [{ group: "workers" }] }]);
    const [first] = await lab.nodes("masters", 1, "AVAILABLE", failing);
    const others = await lab.nodes("masters", 1);
    const [workers, edge] = [await lab.nodes("workers", 2), await lab.nodes("edge", 1)];
    if (!first) throw new Error("No master was made.");
    const id = await ostler.begin("DEPLOY", [first, ...others, ...workers, ...edge]);
    expect((await ostler.operationEnds(id)).state).toBe("STOPPED");
    expect(await statesOf(id, [...workers, ...edge])).toEqual(["STOPPED", "STOPPED", "STOPPED"]);
    const [stopped] = workers;
    const { failure } = await ostler.run(id, stopped ?? first);
    expect(failure).toMatchObject({
      code: "GROUP_REQUIRED",
      message: expect.stringContaining(`can no longer be: ${first.name}`),
    });
    expect(workers.flatMap((node) => ostler.entered(node))).toEqual([]);
    const settings = { nodes: { ids: [first.id] }, acceptance: "ALL_OR_NOTHING", dryRun: false } as const;
    await engine.updateNodes(ALICE, { ...settings, patch: { driver: "fake", settings: { steps: {} } } });
    const { operationId } = await engine.restart(ALICE, { work: { operationId: id } });
    expect((await ostler.operationEnds(operationId ?? "")).state).toBe("SUCCEEDED");
  });

  test("nodes wait for those of another operation, too [R-1091]", async () => {
    const lab = await aLab(MASTERS_FIRST);
    const gate = aGate();
    const masters = await lab.nodes("masters", 1, "AVAILABLE", { "deploy.prepare": { gate: gate.name } });
    const workers = await lab.nodes("workers", 1);
    const first = await ostler.begin("DEPLOY", masters);
    await gate.arrivals();
    const second = await ostler.begin("DEPLOY", workers);
    await lookedAgain(second);
    expect(await statesOf(second, workers)).toEqual(["QUEUED"]);
    gate.open();
    expect((await ostler.operationEnds(first)).state).toBe("SUCCEEDED");
    expect((await ostler.operationEnds(second)).state).toBe("SUCCEEDED");
  });
});

describe("tolerance", () => {
  /** Ten nodes of a group: some fail at once, one is inside a step, the others are queued. */
  async function failures(tolerates: GivenHostGroup["tolerates"], failed: number, more: Partial<VerbRequest> = {}) {
    const lab = await aLab([{ name: "workers", tolerates }]);
    const gate = aGate();
    const [running] = await lab.nodes("workers", 1, "AVAILABLE", { "deploy.prepare": { gate: gate.name } });
    const bad = await lab.nodes("workers", failed, "AVAILABLE", failing);
    const queued = await lab.nodes("workers", 9 - failed);
    if (!running) throw new Error("No node was made.");
    const id = await ostler.begin("DEPLOY", [running, ...bad, ...queued], { maxParallel: 2, ...more });
    await gate.arrivals();
    return { id, running, bad, queued, gate };
  }

  test("failures within it let the others go on [R-1092]", async () => {
    const { id, gate } = await failures({ percent: 25 }, 2);
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("PARTIALLY_SUCCEEDED");
  });

  test("one failure beyond it lets running steps end and stops the rest: the operation is FAILED with the cause [R-1093]", async () => {
    const { id, running, bad, queued, gate } = await failures({ percent: 25 }, 3);
    await eventually("the queued runs are stopped", async () =>
      (await statesOf(id, queued)).every((state) => state === "STOPPED"),
    );
    gate.open();
    const operation = await ostler.operationEnds(id);
    expect([operation.state, await stateOf(id, running)]).toEqual(["FAILED", "STOPPED"]);
    expect(operation.firstFailure).toMatchObject({
      code: "TOLERANCE_EXCEEDED",
      nodeName: bad[2]?.name,
      message: expect.stringMatching(/3 nodes of host group workers failed, which tolerates 2\. .*no luck/),
    });
  });

  test("of 0 makes each node critical [R-1094]", async () => {
    const { id, gate } = await failures({ count: 0 }, 1);
    gate.open();
    const { state, firstFailure } = await ostler.operationEnds(id);
    expect([state, firstFailure?.code]).toEqual(["FAILED", "CRITICAL_NODE_FAILED"]);
  });

  test("CLEAN_UP_ALL acts only beyond it [R-1095]", async () => {
    const within = await failures({ count: 1 }, 1, { onFailure: "CLEAN_UP_ALL" });
    within.gate.open();
    expect((await ostler.operationEnds(within.id)).state).toBe("PARTIALLY_SUCCEEDED");
    expect(await ostler.nodeState(within.running)).toBe("ACTIVE");
    const beyond = await failures({ count: 0 }, 1, { onFailure: "CLEAN_UP_ALL" });
    beyond.gate.open();
    expect((await ostler.operationEnds(beyond.id)).state).toBe("FAILED");
    await ostler.nodeBecomes(beyond.running, "AVAILABLE");
  });
});

describe("budget", () => {
  const TWO_STAY: readonly GivenHostGroup[] = [{ name: "masters", minActive: { count: 2 } }];
  const off = { options: { powerAction: "OFF" } } as const;

  test.each<[VerbRequest["kind"], Partial<VerbRequest>]>([
    ["UNDEPLOY", {}],
    ["DECOMMISSION", {}],
    ["REDEPLOY", { options: { reinstall: true } }],
    ["DEPLOY", { options: { reinstall: true } }],
    ["POWER", off],
    ["POWER", { options: { powerAction: "REBOOT" } }],
  ])("of a group is kept by %s %j, unless it is forced with a reason [R-1096]", async (kind, more) => {
    const lab = await aLab([{ name: "masters", minActive: { count: 1 } }]);
    const [only] = await lab.nodes("masters", 1, "ACTIVE");
    await lab.nodes("workers", 1, "ACTIVE");
    if (!only) throw new Error("No node was made.");
    const { refusals } = await ostler.submit(kind, [only], more);
    expect(refusals).toMatchObject([
      {
        code: "LAST_OF_GROUP",
        message: expect.stringContaining("host group masters has 1 node in service and needs 1"),
      },
    ]);
    const forced = { ...more, options: { ...more.options, force: true } };
    expect(await codesOf(kind, [only], { ...forced, dryRun: true })).toEqual(["LAST_OF_GROUP"]);
    expect((await ostler.operationEnds(await ostler.begin(kind, [only], { ...forced, reason: "moved" }))).state).toBe(
      "SUCCEEDED",
    );
  });

  test("is never exceeded by many clients at once [R-1097]", async () => {
    const lab = await aLab([{ name: "masters", minActive: { count: 1 } }]);
    const masters = await lab.nodes("masters", 2, "ACTIVE");
    await lab.nodes("workers", 1, "ACTIVE");
    const answers = await Promise.all(
      Array.from({ length: 60 }, (_, index) => ostler.submit("UNDEPLOY", masters.slice(index % 2, (index % 2) + 1))),
    );
    const accepted = answers.flatMap(({ operationId }) => operationId ?? []);
    expect(accepted).toHaveLength(1);
    const codes = new Set(answers.flatMap(({ refusals }) => refusals.map(({ code }) => code)));
    expect(codes.has("LAST_OF_GROUP")).toBe(true);
    await ostler.operationEnds(accepted[0] ?? "");
    const states = await Promise.all(masters.map((node) => ostler.nodeState(node)));
    expect(states.filter((state) => state === "ACTIVE")).toHaveLength(1);
  });

  test("lets nodes of one request wait until others have returned [R-1098]", async () => {
    const lab = await aLab(TWO_STAY);
    const gate = aGate();
    const masters = await lab.nodes("masters", 4, "ACTIVE", { "deploy.prepare": { gate: gate.name } });
    await lab.nodes("workers", 1, "ACTIVE");
    const more = await lab.nodes("masters", 1);
    const id = await ostler.begin("REDEPLOY", masters, { options: { reinstall: true } });
    await gate.arrivals(2);
    await lookedAgain(id);
    expect((await statesOf(id, masters)).filter((state) => state === "QUEUED")).toHaveLength(2);
    // Bringing nodes in is never held.
    expect(await codesOf("DEPLOY", more, { dryRun: true })).toEqual([null]);
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  });

  test("does not keep a cluster from being removed as a whole [R-1099]", async () => {
    const lab = await aLab(TWO_STAY);
    const masters = await lab.nodes("masters", 2, "ACTIVE");
    const others = await lab.nodes("workers", 1, "ACTIVE");
    expect(await codesOf("UNDEPLOY", masters, { dryRun: true })).toEqual(["LAST_OF_GROUP", "LAST_OF_GROUP"]);
    const id = await ostler.begin("DECOMMISSION", [...masters, ...others]);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  });

  test("that is violated blocks only what makes it worse [R-1100]", async () => {
    const lab = await aLab([{ name: "masters", minActive: { count: 3 } }]);
    const masters = await lab.nodes("masters", 3, "ACTIVE");
    await lab.nodes("workers", 1, "ACTIVE");
    const [gone, kept] = masters;
    if (!gone || !kept) throw new Error("No nodes were made.");
    await ostler.test.sql`update nodes set presence = 'DISAPPEARED' where id = ${gone.id}`;
    expect(await codesOf("UNDEPLOY", [kept], { dryRun: true })).toEqual(["LAST_OF_GROUP"]);
    const options = { force: true };
    const id = await ostler.begin("DECOMMISSION", [gone], { options });
    expect((await ostler.operationEnds(id)).finishedAt).not.toBeNull();
    // Bringing nodes in is never blocked.
    expect(await codesOf("DEPLOY", await lab.nodes("masters", 1), { dryRun: true })).toEqual([null]);
  });

  test("that no returning node can keep stops the nodes that wait for it [R-1101]", async () => {
    const lab = await aLab(TWO_STAY);
    const gate = aGate();
    const masters = await lab.nodes("masters", 3, "ACTIVE", { "deploy.prepare": { gate: gate.name, fail: "no luck" } });
    await lab.nodes("workers", 1, "ACTIVE");
    const id = await ostler.begin("REDEPLOY", masters, { options: { reinstall: true } });
    await gate.arrivals();
    gate.open();
    await ostler.operationEnds(id);
    expect((await statesOf(id, masters)).toSorted()).toEqual(["FAILED", "STOPPED", "STOPPED"]);
    const codes = (await ostler.runs(id)).flatMap(({ state, failure }) => (state === "STOPPED" ? [failure?.code] : []));
    expect(codes).toEqual(["LAST_OF_GROUP", "LAST_OF_GROUP"]);
  });
});

test("an operation in a cluster without host groups reads no counts of groups [R-1102]", async () => {
  const statements: string[] = [];
  await using alone = await engineUnderTest({ onStatement: (text) => statements.push(text) });
  await alone.engine.createCluster(ALICE, { name: "plain" });
  const nodes = await alone.aNode().in("AVAILABLE").inCluster("plain").times(4);
  await alone.operationEnds(await alone.begin("DEPLOY", nodes, { maxParallel: 2 }));
  expect(statements.filter((text) => /pg_advisory_xact_lock|wanted\(key|group_key =/.test(text))).toEqual([]);
});
