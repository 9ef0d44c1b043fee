/** Nodes through the API: registration, what is shown of them, edits, maintenance, deletion. */
import { afterAll, describe, expect, test } from "vitest";
import { aGate } from "../support/builders.ts";
import { serviceUnderTest } from "../support/service.ts";

const ostler = await serviceUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

interface Refusal {
  readonly type: string;
  readonly code: string;
  readonly status: number;
  readonly message: string;
  readonly path: readonly string[] | null;
  readonly missing?: readonly string[];
}

interface Payload {
  readonly nodes: readonly Record<string, unknown>[];
  readonly count: number;
  readonly errors: readonly Refusal[];
}

const ERRORS = "errors { type: __typename code status message path ... on NotFoundError { missing } ... on ConflictError { node { name } operation { uuid } allowedStates } }";
const SHOWN = "id uuid name project state stage powerState presence revision transitionCount protected labels { key value } cluster { name } drivers { name interfaces settings secretsSet } maintenance { reason by since }";

async function change(verb: string, type: string, input: unknown): Promise<Payload> {
  const data = await ostler.query<Record<string, Payload>>(`mutation Change($input: ${type}!) { ${verb}(input: $input) { nodes { ${SHOWN} } count ${ERRORS} } }`, { input });
  return data[verb] as Payload;
}

const register = (nodes: readonly object[]) => change("registerNodes", "RegisterNodesInput", { nodes });
const update = (input: object) => change("updateNode", "UpdateNodeInput", input);
const remove = (nodes: object) => change("deleteNodes", "DeleteNodesInput", { nodes });
const setMaintenance = (names: readonly string[], reason: string | null) => change("setMaintenance", "SetMaintenanceInput", { nodes: { names }, reason });

async function aNode(more: object = {}): Promise<{ id: string; name: string; revision: number }> {
  const name = `made-${(made += 1)}`;
  const { nodes, errors } = await register([{ name, driver: "fake", ...more }]);
  expect(errors).toEqual([]);
  return nodes[0] as never;
}
let made = 0;

describe("registering nodes", () => {
  test("answers with the nodes as they are, in the order asked", async () => {
    await ostler.query(`mutation { createCluster(input: { name: "rack" }) { errors { message } } }`);
    const answer = await register([
      { name: "z.example.org", driver: "fake", settings: { delayMs: 5, password: "pa55word" }, labels: [{ key: "room", value: "2" }], cluster: { name: "rack" } },
      { name: "a_1", driver: "fake", interfaces: [{ kind: "CLEAN", driver: "fake" }] },
    ]);
    expect(answer.count).toBe(2);
    expect(answer.nodes).toMatchObject([
      {
        name: "z.example.org",
        project: "default",
        state: "ENROLLED",
        stage: "NONE",
        powerState: "UNKNOWN",
        presence: "UNSEEN",
        revision: 1,
        transitionCount: 1,
        protected: false,
        labels: [{ key: "room", value: "2" }],
        cluster: { name: "rack" },
        drivers: [{ name: "fake", interfaces: ["POWER", "INSPECT", "DEPLOY", "CLEAN"], settings: { delayMs: 5 }, secretsSet: ["password"] }],
        maintenance: null,
      },
      { name: "a_1", cluster: null, drivers: [{ secretsSet: [] }] },
    ]);
  });

  test("is refused as a whole, with every flaw of every node, and leaves nothing", async () => {
    await aNode();
    const before = await ostler.dump();
    const { nodes, errors } = await register([
      { name: "fine", driver: "fake" },
      { name: "-bad name-", driver: "fake" },
      { name: "no-driver", driver: "nothing" },
      { name: "bad-settings", driver: "fake", settings: { delayMs: -1, colour: "red" } },
      { name: "twice", driver: "fake" },
      { name: "twice", driver: "fake" },
      { name: "bad-label", driver: "fake", labels: [{ key: "a b", value: "" }] },
      { name: "bad-settings-2", driver: "fake", settings: [1] },
    ]);
    expect(nodes).toEqual([]);
    expect(errors.map(({ code, path }) => `${code} ${path?.join(".")}`)).toEqual([
      "INVALID_INPUT input.nodes.1.name",
      "INVALID_INPUT input.nodes.2.driver",
      "INVALID_INPUT input.nodes.3.settings.delayMs",
      "INVALID_INPUT input.nodes.3.settings",
      "INVALID_INPUT input.nodes.6.labels",
      "INVALID_INPUT input.nodes.7.settings",
      "INVALID_INPUT input.nodes.5.name",
    ]);
    expect(errors[1]?.message).toContain('driver "nothing" is not loaded (loaded: fake)');
    expect(await ostler.dump()).toBe(before);
  });

  test("names all names that are taken, and all clusters that do not exist", async () => {
    const [one, two] = [await aNode(), await aNode()];
    const before = await ostler.dump();
    const { errors } = await register([
      { name: "new-one", driver: "fake", cluster: { name: "nowhere" } },
      { name: one.name, driver: "fake" },
      { name: two.name, driver: "fake", cluster: { id: "garbage" } },
    ]);
    expect(errors.filter(({ code }) => code === "INVALID_INPUT").map(({ message }) => message).toSorted()).toEqual([`A node ${one.name} exists already.`, `A node ${two.name} exists already.`]);
    expect(errors.filter(({ code }) => code === "NOT_FOUND").map(({ type, missing }) => `${type} ${missing?.join()}`).toSorted()).toEqual(["NotFoundError garbage", "NotFoundError nowhere"]);
    expect(await ostler.dump()).toBe(before);
  });

  test("of none is refused", async () => {
    expect((await register([])).errors).toMatchObject([{ type: "SimpleError", code: "INVALID_INPUT", status: 400, path: ["input", "nodes"] }]);
  });

  test("by two at the same moment gives a name to one of them", async () => {
    const answers = await Promise.all(Array.from({ length: 6 }, () => register([{ name: "wanted", driver: "fake" }])));
    expect(answers.filter(({ count }) => count === 1)).toHaveLength(1);
    expect(new Set(answers.flatMap(({ errors }) => errors.map(({ message }) => message)))).toEqual(new Set(["A node wanted exists already."]));
  });
});

describe("a node", () => {
  test("tells what could be asked of it now, and why not the rest", async () => {
    const { name } = await aNode();
    const { node } = await ostler.query<{ node: { verbs: { verb: string; allowed: boolean; code: string | null; reason: string | null }[] } }>("query Verbs($name: String!) { node(by: { name: $name }) { verbs { verb allowed code reason } } }", { name });
    expect(Object.fromEntries(node.verbs.map(({ verb, allowed, code }) => [verb, allowed || code]))).toEqual({
      MANAGE: true,
      INSPECT: "INVALID_STATE",
      CLEAN: "INVALID_STATE",
      COMMISSION: true,
      DEPLOY: "INVALID_STATE",
      UNDEPLOY: "INVALID_STATE",
      DECOMMISSION: true,
      POWER: true,
    });
    for (const { verb, allowed, reason } of node.verbs) if (!allowed) expect(reason).toMatch(new RegExp(`^Node ${name} is ENROLLED; ${verb} is allowed from `));
  });

  test("shows its inventory, its operations and its transitions", async () => {
    const { name } = await aNode({ settings: { serial: "S-77" } });
    await ostler.commission([name]);
    const { node } = await ostler.query<{ node: Record<string, unknown> }>(
      "query Seen($name: String!) { node(by: { name: $name }) { state stage targetState powerState currentRun { id } lastError { code } inventory { takenAt data } operations { edges { node { kind state totalCount } } } transitions(first: 500) { edges { node { sequence event from to operation { kind } run { nodeName } } } } } }",
      { name },
    );
    expect(node).toMatchObject({ state: "ACTIVE", stage: "DEPLOYED", targetState: null, powerState: "ON", currentRun: null, lastError: null, inventory: { data: { serial: "S-77" } } });
    expect(node["operations"]).toEqual({ edges: [{ node: { kind: "COMMISSION", state: "SUCCEEDED", totalCount: 1 } }] });
    const rows = (node["transitions"] as { edges: { node: { sequence: number; operation: unknown } }[] }).edges.map((edge) => edge.node);
    expect(rows.map(({ sequence }) => sequence)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9]);
    expect(rows[0]).toMatchObject({ event: "register", from: null, to: "ENROLLED", operation: null, run: null });
    expect(rows[8]).toMatchObject({ event: "done", from: "DEPLOYING", to: "ACTIVE", operation: { kind: "COMMISSION" }, run: { nodeName: name } });
  });

  test("shows its last error, without needing to know the operation", async () => {
    const { name } = await aNode({ settings: { refusesLogin: true } });
    expect(await ostler.operationEnds(await ostler.begin("manageNodes", [name]))).toBe("FAILED");
    const { node } = await ostler.query("query Why($name: String!) { node(by: { name: $name }) { state lastError { code message step nodeName retryable at } } }", { name });
    expect(node).toMatchObject({ state: "ENROLLED", lastError: { code: "BACKEND_FAILED", step: "power.verify", nodeName: name, retryable: false } });
  });
});

describe("updating a node", () => {
  test("changes what is given and nothing else, and raises the revision", async () => {
    const node = await aNode({ labels: [{ key: "room", value: "1" }], settings: { delayMs: 3 } });
    expect((await update({ id: node.id, ifRevision: node.revision, labels: [{ key: "rack", value: "7" }] })).nodes).toMatchObject([{ name: node.name, revision: node.revision + 1, labels: [{ key: "rack", value: "7" }], drivers: [{ settings: { delayMs: 3 } }] }]);
    expect((await update({ id: node.id, name: `${node.name}-new`, protected: true })).nodes).toMatchObject([{ name: `${node.name}-new`, protected: true, labels: [{ key: "rack", value: "7" }] }]);
    expect((await update({ id: node.id, labels: [], protected: false })).nodes).toMatchObject([{ labels: [], protected: false }]);
  });

  test("is refused when somebody else was quicker", async () => {
    const node = await aNode();
    await update({ id: node.id, labels: [{ key: "a", value: "1" }] });
    const before = await ostler.dump();
    const { nodes, errors } = await update({ id: node.id, ifRevision: node.revision, labels: [{ key: "a", value: "2" }] });
    expect(nodes).toEqual([]);
    expect(errors).toMatchObject([{ type: "ConflictError", code: "STALE_REVISION", status: 409, path: ["input", "ifRevision"], node: { name: node.name } }]);
    expect(await ostler.dump()).toBe(before);
  });

  test("keeps secrets that are left out, and replaces those that are given", async () => {
    const node = await aNode({ settings: { password: "first-secret" } });
    const secrets = async () => (await ostler.test.sql`select secrets from node_secrets s join nodes n on n.id = s.node_id where n.name = ${node.name}`)[0]?.["secrets"];
    expect((await update({ id: node.id, settings: { delayMs: 9 } })).nodes).toMatchObject([{ drivers: [{ settings: { delayMs: 9 }, secretsSet: ["password"] }] }]);
    expect(await secrets()).toEqual({ fake: { password: "first-secret" } });
    await update({ id: node.id, settings: { password: "second-secret" } });
    expect(await secrets()).toEqual({ fake: { password: "second-secret" } });
  });

  test.each([
    { what: "a name that is taken", input: { name: "made-1" }, path: ["input", "name"] },
    { what: "a bad name", input: { name: "" }, path: ["input", "name"] },
    { what: "bad settings", input: { settings: { delayMs: "long" } }, path: ["input", "settings", "delayMs"] },
    { what: "an unknown driver", input: { driver: "nothing" }, path: ["input", "driver"] },
    { what: "an interface of an unknown driver", input: { interfaces: [{ kind: "CLEAN", driver: "nothing" }] }, path: ["input", "driver"] },
    { what: "a bad label", input: { labels: [{ key: "", value: "" }] }, path: ["input", "labels"] },
  ])("to $what is refused", async ({ input, path }) => {
    const node = await aNode();
    expect((await update({ id: node.id, ...input })).errors).toMatchObject([{ type: "SimpleError", code: "INVALID_INPUT", status: 400, path }]);
  });

  test("that does not exist is refused", async () => {
    expect((await update({ id: "garbage", name: "x" })).errors).toMatchObject([{ type: "NotFoundError", code: "NOT_FOUND", status: 404, missing: ["garbage"], path: ["input", "id"] }]);
  });
});

describe("maintenance", () => {
  test("is a mark with reason, caller and time; it refuses work, and nothing else changes", async () => {
    const { name } = await aNode();
    const { nodes } = await setMaintenance([name], "fan is loud");
    expect(nodes).toMatchObject([{ name, state: "ENROLLED", maintenance: { reason: "fan is loud", by: "anonymous" } }]);
    const { manageNodes } = await ostler.query<Record<string, Payload>>(`mutation Manage($name: String!) { manageNodes(input: { nodes: { names: [$name] } }) { ${ERRORS} } }`, { name });
    expect(manageNodes?.errors).toMatchObject([{ type: "ConflictError", code: "IN_MAINTENANCE", status: 409, node: { name } }]);
    expect((await setMaintenance([name], null)).nodes).toMatchObject([{ maintenance: null }]);
    expect(await ostler.operationEnds(await ostler.begin("manageNodes", [name]))).toBe("SUCCEEDED");
  });

  test("needs a reason that says something", async () => {
    const { name } = await aNode();
    for (const reason of ["", "  ", "x".repeat(1001)]) expect((await setMaintenance([name], reason)).errors).toMatchObject([{ code: "INVALID_INPUT", path: ["input", "reason"] }]);
  });

  test("of nodes that do not all exist is refused, and names those", async () => {
    const { name } = await aNode();
    const { errors, nodes } = await setMaintenance([name, "ghost-1", "ghost-2"], "why");
    expect(nodes).toEqual([]);
    expect(errors).toMatchObject([{ type: "NotFoundError", code: "NOT_FOUND", missing: ["ghost-1", "ghost-2"], path: ["input", "nodes", "names"] }]);
    expect((await setMaintenance([], "why")).errors).toMatchObject([{ code: "INVALID_INPUT" }]);
  });
});

describe("deleting nodes", () => {
  test("takes them away, and leaves what they did", async () => {
    const { name, id } = await aNode({ settings: { password: "gone-with-it" } });
    const uuid = await ostler.begin("manageNodes", [name]);
    await ostler.operationEnds(uuid);
    const answer = await remove({ ids: [id, id] });
    expect(answer).toMatchObject({ count: 1, nodes: [], errors: [] });
    const left = await ostler.query("query Left($name: String!, $uuid: ID!) { node(by: { name: $name }) { name } operation(id: $uuid) { state runs { edges { node { nodeName node { name } } } } transitions { edges { node { nodeName node { name } } } } } }", { name, uuid });
    expect(left).toMatchObject({ node: null, operation: { state: "SUCCEEDED", runs: { edges: [{ node: { nodeName: name, node: null } }] }, transitions: { edges: [{ node: { nodeName: name, node: null } }, {}] } } });
    expect(await ostler.test.sql`select secrets from node_secrets where secrets::text like '%gone-with-it%'`).toEqual([]);
    expect((await register([{ name, driver: "fake" }])).errors).toEqual([]);
  });

  test("is refused for all when one is busy, protected or active, and names each", async () => {
    const gate = aGate();
    const busy = await aNode({ settings: { steps: { "power.read": { gate: gate.name } } } });
    const guarded = await aNode();
    const active = await aNode();
    const free = await aNode();
    await update({ id: guarded.id, protected: true });
    await ostler.commission([active.name]);
    const uuid = await ostler.begin("manageNodes", [busy.name]);
    await gate.arrivals();
    const { errors, count } = await remove({ names: [busy.name, guarded.name, active.name, free.name] });
    expect(count).toBe(0);
    expect(Object.fromEntries(errors.map((error) => [error.code, error]))).toMatchObject({
      BUSY: { type: "ConflictError", status: 409, node: { name: busy.name }, operation: { uuid } },
      PROTECTED: { type: "ConflictError", status: 403, node: { name: guarded.name } },
      INVALID_STATE: { type: "ConflictError", status: 409, node: { name: active.name } },
    });
    expect(errors).toHaveLength(3);
    gate.open();
    await ostler.operationEnds(uuid);
    expect((await remove({ names: [busy.name, free.name] })).count).toBe(2);
  });
});
