/** `Operation.failures`: the failed runs of operations by cause, with fake machines. */
import { afterAll, describe, expect, test } from "vitest";
import { serviceUnderTest } from "../support/service.ts";

const statements: string[] = [];
const ostler = await serviceUnderTest({ onStatement: (text) => void statements.push(text) });
afterAll(() => ostler[Symbol.asyncDispose]());

interface Group {
  readonly kind: string;
  readonly code: string;
  readonly step: string;
  readonly driver: string;
  readonly detail: string | null;
  readonly message: string;
  readonly nodeCount: number;
  readonly openCount: number;
  readonly nodes: readonly { readonly name: string }[];
  readonly suggestion: { readonly mutation: string; readonly input: object } | null;
}
interface Failures {
  readonly groups: readonly Group[];
  readonly groupCount: number;
  readonly otherGroupCount: number;
  readonly nodeCount: number;
  readonly openCount: number;
}

async function failures(uuid: string, args = ""): Promise<Failures> {
  const { operation } = await ostler.query<{ operation: { failures: Failures } }>(
    `query Failures($id: ID!) { operation(id: $id) { failures${args} {
      groups { kind state code step driver detail cause causeCount message remedy nodeCount openCount since nodes { name } operation { uuid } suggestion { mutation input } }
      groupCount otherGroupCount nodeCount openCount
    } } }`,
    { id: uuid },
  );
  return operation.failures;
}

const brokenDisk = { steps: { "clean.erase_disks": { fail: "the disk is broken" } } };

async function commissioned(names: readonly string[], more: object = {}): Promise<string> {
  const uuid = await ostler.begin("commissionNodes", names, { onFailure: "LEAVE", until: "AVAILABLE", ...more });
  await ostler.operationEnds(uuid);
  return uuid;
}

async function restart(input: object): Promise<string> {
  const { restart: payload } = await ostler.query<{
    restart: { operations: { uuid: string }[]; errors: { message: string }[] };
  }>("mutation Restart($input: RestartInput!) { restart(input: $input) { operations { uuid } errors { message } } }", {
    input,
  });
  expect(payload.errors).toEqual([]);
  return payload.operations[0]?.uuid ?? "";
}

describe("Operation.failures", () => {
  test("failed runs are grouped by code, step and driver, the cause has the words of the driver, and the suggested restart is accepted [R-635, R-636, R-843]", async () => {
    const disks = await ostler.register(3, brokenDisk);
    const login = await ostler.register(2, { refusesLogin: true });
    const fine = await ostler.register(1);
    const uuid = await commissioned([...disks, ...login, ...fine]);
    const found = await failures(uuid);
    expect(found).toMatchObject({ groupCount: 2, otherGroupCount: 0, nodeCount: 5, openCount: 5 });
    expect(found.groups).toMatchObject([
      {
        kind: "FAILED",
        state: null,
        code: "BACKEND_FAILED",
        step: "clean.erase_disks",
        driver: "fake",
        detail: null,
        cause: "the disk is broken",
        causeCount: 1,
        remedy: "Fix the problem named in the message, then restart.",
        nodeCount: 3,
        openCount: 3,
        operation: { uuid },
        suggestion: { mutation: "restart" },
      },
      { code: "BACKEND_FAILED", step: "power.verify", driver: "fake", nodeCount: 2, openCount: 2 },
    ]);
    expect(found.groups[0]?.message).toMatch(/the disk is broken/);
    expect(found.groups[0]?.nodes.map(({ name }) => name).toSorted()).toEqual(disks.toSorted());
    await ostler.operationEnds(await restart(found.groups[0]?.suggestion?.input ?? {}));
  });

  test("nodes that later work has reached stay counted, follow the others, and are not suggested [R-636]", async () => {
    const names = await ostler.register(3, brokenDisk);
    const uuid = await commissioned(names);
    const [first = ""] = (await failures(uuid)).groups[0]?.nodes.map(({ name }) => name) ?? [];
    await ostler.operationEnds(await restart({ work: { names: [first] } }));
    const [group] = (await failures(uuid)).groups;
    expect(group).toMatchObject({ nodeCount: 3, openCount: 2, suggestion: { mutation: "restart" } });
    expect(group?.nodes.map(({ name }) => name).at(-1)).toBe(first);
    expect(group?.suggestion?.input).toMatchObject({ work: { ids: [expect.any(String), expect.any(String)] } });
    await ostler.operationEnds(await restart({ work: { operationId: uuid } }));
    expect((await failures(uuid)).groups).toMatchObject([{ nodeCount: 3, openCount: 0, suggestion: null }]);
  });

  test("failures of an operation that took all nodes back counted as settled, and nothing was suggested: its restart is, of all nodes [R-785, R-788]", async () => {
    const [bad = ""] = await ostler.register(1, brokenDisk);
    const others = await ostler.register(3);
    const uuid = await commissioned([bad, ...others], { onFailure: "CLEAN_UP_ALL", until: "ACTIVE" });
    const { operation } = await ostler.query<{ operation: object }>(
      `query Operation($id: ID!) { operation(id: $id) {
        id state onFailure failureConsequence reachedCount finishedCount runCounts { state count }
        runs(states: [UNDONE]) { nodes { nodeName purpose state progress } }
      } }`,
      { id: uuid },
    );
    expect(operation).toEqual({
      id: expect.any(String),
      state: "FAILED",
      onFailure: "CLEAN_UP_ALL",
      failureConsequence: `Node ${bad} failed, so the work on 3 other nodes was undone (onFailure: CLEAN_UP_ALL). Restart the operation to begin again.`,
      reachedCount: 0,
      finishedCount: 4,
      runCounts: [
        { state: "FAILED", count: 1 },
        { state: "UNDONE", count: 3 },
      ],
      runs: {
        nodes: others.map((nodeName) => ({ nodeName, purpose: "WORK", state: "UNDONE", progress: 0 })),
      },
    });
    const suggestion = { mutation: "restart", input: { work: { operationId: (operation as { id: string }).id } } };
    const found = await failures(uuid);
    expect(found.groups[0]).toMatchObject({ nodeCount: 1, openCount: 1, suggestion });
    const again = await restart(suggestion.input);
    const { operation: restarted } = await ostler.query<{ operation: object }>(
      "query Restarted($id: ID!) { operation(id: $id) { totalCount failureConsequence } }",
      { id: again },
    );
    expect(restarted).toMatchObject({ totalCount: 4 });
    await ostler.operationEnds(again);
    expect((await failures(uuid)).openCount).toBe(0);
  });

  test("groups that `first` leaves out are counted, nodes up to `nodesMax` are named, and a deleted node is counted", async () => {
    const disks = await ostler.register(3, brokenDisk);
    const login = await ostler.register(1, { refusesLogin: true });
    const uuid = await commissioned([...disks, ...login]);
    const { deleteNodes } = await ostler.query<{ deleteNodes: { errors: unknown[] } }>(
      "mutation Delete($names: [String!]) { deleteNodes(input: { nodes: { names: $names } }) { errors { message } } }",
      { names: disks.slice(0, 2) },
    );
    expect(deleteNodes.errors).toEqual([]);
    const { groups, ...counts } = await failures(uuid, "(first: 1, nodesMax: 1)");
    expect(counts).toEqual({ groupCount: 2, otherGroupCount: 1, nodeCount: 4, openCount: 2 });
    expect(groups).toMatchObject([{ step: "clean.erase_disks", nodeCount: 3 }]);
    expect(groups[0]?.nodes).toHaveLength(1);
  });

  test("a failed change of power suggests the same change, and not a restart of earlier work", async () => {
    const [name = ""] = await ostler.register(1, { steps: { "power.set": { fail: "the relay is stuck" } } });
    await ostler.operationEnds(await ostler.begin("manageNodes", [name]));
    const uuid = await ostler.begin("setPower", [name], { action: "ON" });
    await ostler.operationEnds(uuid);
    expect((await failures(uuid)).groups).toMatchObject([
      { nodeCount: 1, openCount: 1, suggestion: { mutation: "setPower", input: { action: "ON" } } },
    ]);
  });

  test("failed addresses of a discovery are grouped in the same way [R-635]", async () => {
    const { discoverNodes } = await ostler.query<{ discoverNodes: { operation: { uuid: string } } }>(
      "mutation Discover($input: DiscoverNodesInput!) { discoverNodes(input: $input) { operation { uuid } } }",
      { input: { driver: { fake: { dead: ["10.9.0.1", "10.9.0.2"] } }, addresses: ["10.9.0.0/30"] } },
    );
    await ostler.operationEnds(discoverNodes.operation.uuid);
    const { groups, nodeCount } = await failures(discoverNodes.operation.uuid);
    expect(nodeCount).toBe(2);
    expect(groups).toMatchObject([
      { code: "BACKEND_FAILED", driver: "fake", nodeCount: 2, openCount: 0, nodes: [], suggestion: null },
    ]);
    expect(groups[0]?.message).toMatch(/10\.9\.0\.[12]/);
  });

  test("the failures of all operations on a page are one statement [R-637]", async () => {
    for (const name of await ostler.register(3, { refusesLogin: true }))
      await ostler.operationEnds(await ostler.begin("manageNodes", [name]));
    statements.length = 0;
    const { operations } = await ostler.query<{ operations: { nodes: { failures: Failures }[] } }>(
      "{ operations(first: 3) { nodes { failures { groups { cause nodeCount } nodeCount } } } }",
    );
    expect(operations.nodes.map(({ failures: { nodeCount } }) => nodeCount)).toEqual([1, 1, 1]);
    expect(statements.filter((text) => text.includes('from "runs"'))).toHaveLength(1);
  });

  test("an operation without failures has no groups", async () => {
    const names = await ostler.register(1);
    expect(await failures(await commissioned(names))).toEqual({
      groups: [],
      groupCount: 0,
      otherGroupCount: 0,
      nodeCount: 0,
      openCount: 0,
    });
  });

  test.each(["(first: 101)", "(nodesMax: 0)"])("the arguments %s are refused", async (args) => {
    const [name = ""] = await ostler.register(1);
    const uuid = await commissioned([name]);
    const { errors } = await ostler.ask(`{ operation(id: "${uuid}") { failures${args} { groupCount } } }`);
    expect(errors).toMatchObject([{ extensions: { code: "BAD_USER_INPUT" } }]);
  });
});
