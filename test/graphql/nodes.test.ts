/** Nodes through the API: registration, fields, updates, maintenance, deletion. */
import { afterAll, describe, expect, test } from "vitest";
import { KINDS, phasesOf } from "../durability/expectations.ts";
import { secretsOf } from "../support/keyring.ts";
import { aGate } from "../support/builders.ts";
import { AUDIT, serviceUnderTest } from "../support/service.ts";

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

const ERRORS =
  "errors { type: __typename code status message path ... on NotFoundError { missing } ... on ConflictError { node { name } operation { uuid } allowedStates } }";
const SHOWN =
  "id uuid name project state stage powerState presence revision transitionCount protected retired retiredReason hostGroup description macs automaticCleaning diskless labels { key value } cluster { name } drivers { name interfaces settings { fake { delayMs serial } } secretsSet } maintenance { reason startedBy since }";

async function change(
  verb: string,
  type: string,
  input: unknown,
  shown = `nodes { ${SHOWN} } count`,
): Promise<Payload> {
  const data = await ostler.query<Record<string, Payload>>(
    `mutation Change($input: ${type}!) { ${verb}(input: $input) { ${shown} ${ERRORS} } }`,
    { input },
  );
  return data[verb] as Payload;
}

const register = (nodes: readonly object[]) => change("registerNodes", "RegisterNodesInput", { nodes });
const update = (input: object) => change("updateNodes", "UpdateNodesInput", input, `nodes { ${SHOWN} }`);
const remove = (nodes: object) => change("deleteNodes", "DeleteNodesInput", { nodes }, "count");
const setRetired = (names: readonly string[], reason: string) =>
  change("setRetired", "SetRetiredInput", { nodes: { names }, reason });
const clearRetired = (names: readonly string[]) => change("clearRetired", "ClearRetiredInput", { nodes: { names } });
const setMaintenance = (names: readonly string[], reason: string) =>
  change("setMaintenance", "SetMaintenanceInput", { nodes: { names }, reason });
const clearMaintenance = (names: readonly string[]) =>
  change("clearMaintenance", "ClearMaintenanceInput", { nodes: { names } });

async function aNode({
  settings = {},
  ...more
}: { readonly settings?: object; readonly [key: string]: unknown } = {}): Promise<{
  id: string;
  name: string;
  revision: number;
}> {
  const name = `made-${(made += 1)}`;
  const { nodes, errors } = await register([{ name, driver: { fake: settings }, ...more }]);
  expect(errors).toEqual([]);
  return nodes[0] as never;
}
let made = 0;

describe("registering nodes", () => {
  test("registerNodes returns the nodes in the order of the request", async () => {
    await ostler.query(`mutation { createCluster(input: { name: "rack" }) { errors { message } } }`);
    const answer = await register([
      {
        name: "z.example.org",
        driver: { fake: { delayMs: 5, password: "pa55word" } },
        labels: [{ key: "room", value: "2" }],
        cluster: { name: "rack" },
      },
      { name: "a_1", driver: { fake: {} }, interfaces: [] },
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
        drivers: [
          {
            name: "fake",
            interfaces: ["POWER", "INSPECT", "DEPLOY", "CLEAN", "MEDIA", "FIRMWARE", "BIOS", "CONSOLE"],
            settings: { fake: { delayMs: 5, serial: null } },
            secretsSet: ["password"],
          },
        ],
        maintenance: null,
      },
      { name: "a_1", cluster: null, drivers: [{ secretsSet: [] }] },
    ]);
  });

  test("registerNodes with invalid nodes is refused as a whole, with every error, and writes nothing [R-015]", async () => {
    const { name: taken } = await aNode();
    const before = await ostler.dump(AUDIT);
    const { nodes, errors } = await register([
      { name: "fine", driver: { fake: {} } },
      { name: "-bad name-", driver: { fake: {} } },
      { name: "borrows-its-own", driver: { fake: {} }, interfaces: [{ kinds: ["CLEAN"], driver: { fake: {} } }] },
      { name: "bad-settings", driver: { fake: { delayMs: -1, serial: "s".repeat(65) } } },
      { name: "twice", driver: { fake: {} } },
      { name: "twice", driver: { fake: {} } },
      { name: "bad-label", driver: { fake: {} }, labels: [{ key: "a b", value: "" }] },
      { name: "bad-settings-2", driver: { fake: { steps: [1] } } },
      { name: taken, driver: { fake: {} }, cluster: { name: "nowhere" } },
    ]);
    expect(nodes).toEqual([]);
    expect(errors.map(({ code, path }) => `${code} ${path?.join(".")}`)).toEqual([
      "INVALID_INPUT input.nodes.1.name",
      "INVALID_INPUT input.nodes.2.interfaces.0.driver.fake",
      "INVALID_INPUT input.nodes.3.driver.fake.delayMs",
      "INVALID_INPUT input.nodes.3.driver.fake.serial",
      "INVALID_INPUT input.nodes.5.name",
      "INVALID_INPUT input.nodes.6.labels",
      "INVALID_INPUT input.nodes.7.driver.fake.steps",
      "NOT_FOUND input.nodes.8.cluster",
      "INVALID_INPUT input.nodes.8.name",
    ]);
    expect(errors[1]?.message).toBe(
      "Node borrows-its-own: fake is its own driver, which provides every interface that is not taken from another driver. Leave it out.",
    );
    expect(await ostler.dump(AUDIT)).toBe(before);
  });

  test("registerNodes names all duplicate names and all unknown clusters", async () => {
    const [one, two] = [await aNode(), await aNode()];
    const before = await ostler.dump(AUDIT);
    const { errors } = await register([
      { name: "new-one", driver: { fake: {} }, cluster: { name: "nowhere" } },
      { name: one.name, driver: { fake: {} } },
      { name: two.name, driver: { fake: {} }, cluster: { id: "garbage" } },
    ]);
    expect(
      errors
        .filter(({ code }) => code === "INVALID_INPUT")
        .map(({ message }) => message)
        .toSorted(),
    ).toEqual([`A node ${one.name} exists already.`, `A node ${two.name} exists already.`]);
    expect(
      errors
        .filter(({ code }) => code === "NOT_FOUND")
        .map(({ type, missing }) => `${type} ${missing?.join()}`)
        .toSorted(),
    ).toEqual(["NotFoundError garbage", "NotFoundError nowhere"]);
    expect(await ostler.dump(AUDIT)).toBe(before);
  });

  test("registerNodes without nodes is refused", async () => {
    expect((await register([])).errors).toMatchObject([
      { type: "SimpleError", code: "INVALID_INPUT", status: 400, path: ["input", "nodes"] },
    ]);
  });

  test("concurrent registerNodes with the same name succeed for one request only", async () => {
    const answers = await Promise.all(
      Array.from({ length: 6 }, () => register([{ name: "wanted", driver: { fake: {} } }])),
    );
    expect(answers.filter(({ count }) => count === 1)).toHaveLength(1);
    expect(new Set(answers.flatMap(({ errors }) => errors.map(({ message }) => message)))).toEqual(
      new Set(["A node wanted exists already."]),
    );
  });
});

const POWER_ACTIONS = ["ON", "OFF", "SOFT_OFF", "REBOOT", "SOFT_REBOOT"];

interface Verdict {
  readonly verb: string;
  readonly powerAction: string | null;
  readonly allowed: boolean;
  readonly code: string | null;
  readonly reason: string | null;
}

const verbsOf = async (name: string): Promise<readonly Verdict[]> => {
  const { node } = await ostler.query<{ node: { verbs: Verdict[] } }>(
    "query Verbs($name: String!) { node(by: { name: $name }) { verbs { verb powerAction allowed code reason } } }",
    { name },
  );
  return node.verbs;
};

describe("a node", () => {
  test("Node.verbs lists the allowed verbs, and a reason for the others [R-009]", async () => {
    const { name } = await aNode();
    const verbs = await verbsOf(name);
    expect(
      Object.fromEntries(verbs.map(({ verb, powerAction, allowed, code }) => [powerAction ?? verb, allowed || code])),
    ).toEqual(
      Object.fromEntries(
        KINDS.flatMap((kind) =>
          (kind === "POWER" ? POWER_ACTIONS : [kind]).map((one) => [
            one,
            phasesOf(kind, "ENROLLED", {}) !== null || "INVALID_STATE",
          ]),
        ),
      ),
    );
    for (const { verb, allowed, reason } of verbs)
      if (!allowed) expect(reason).toMatch(new RegExp(`^Node ${name} is ENROLLED. ${verb} is allowed from `));
  });

  test("a node returns its inventory, operations and transitions", async () => {
    const { name } = await aNode({ settings: { serial: "S-77" } });
    await ostler.commission([name]);
    const { node } = await ostler.query<{ node: Record<string, unknown> }>(
      "query Seen($name: String!) { node(by: { name: $name }) { state stage targetState powerState currentRun { id } lastError { code } inventory { takenAt data } operations { edges { node { kind state totalCount } } } transitions(first: 500) { edges { node { sequence event from to operation { kind } run { nodeName } } } } } }",
      { name },
    );
    expect(node).toMatchObject({
      state: "ACTIVE",
      stage: "DEPLOYED",
      targetState: null,
      powerState: "ON",
      currentRun: null,
      lastError: null,
      inventory: { data: { serial: "S-77" } },
    });
    expect(node["operations"]).toEqual({
      edges: [{ node: { kind: "COMMISSION", state: "SUCCEEDED", totalCount: 1 } }],
    });
    const rows = (node["transitions"] as { edges: { node: { sequence: number; operation: unknown } }[] }).edges.map(
      (edge) => edge.node,
    );
    expect(rows.map(({ sequence }) => sequence)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9]);
    expect(rows[0]).toMatchObject({ event: "REGISTER", from: null, to: "ENROLLED", operation: null, run: null });
    expect(rows[8]).toMatchObject({
      event: "DONE",
      from: "DEPLOYING",
      to: "ACTIVE",
      operation: { kind: "COMMISSION" },
      run: { nodeName: name },
    });
  });

  test("Node.lastError returns the last failure", async () => {
    const { name } = await aNode({ settings: { refusesLogin: true } });
    expect(await ostler.operationEnds(await ostler.begin("manageNodes", [name]))).toBe("FAILED");
    const { node } = await ostler.query(
      "query Why($name: String!) { node(by: { name: $name }) { state lastError { code message step nodeName retryable at } } }",
      { name },
    );
    expect(node).toMatchObject({
      state: "ENROLLED",
      lastError: { code: "BACKEND_FAILED", step: "power.verify", nodeName: name, retryable: false },
    });
  });
});

describe("updating a node", () => {
  test("updateNodes changes only the given fields and increases the revision", async () => {
    const node = await aNode({ labels: [{ key: "room", value: "1" }], settings: { delayMs: 3 } });
    expect(
      (await update({ revisions: [{ node: node.id, revision: node.revision }], labels: [{ key: "rack", value: "7" }] }))
        .nodes,
    ).toMatchObject([
      {
        name: node.name,
        revision: node.revision + 1,
        labels: [{ key: "rack", value: "7" }],
        drivers: [{ settings: { fake: { delayMs: 3 } } }],
      },
    ]);
    expect(
      (await update({ nodes: { ids: [node.id] }, name: `${node.name}-new`, protected: true })).nodes,
    ).toMatchObject([{ name: `${node.name}-new`, protected: true, labels: [{ key: "rack", value: "7" }] }]);
    expect((await update({ nodes: { ids: [node.id] }, labels: [], protected: false })).nodes).toMatchObject([
      { labels: [], protected: false },
    ]);
  });

  test("updateNodes with an outdated revision is refused", async () => {
    const node = await aNode();
    await update({ nodes: { ids: [node.id] }, labels: [{ key: "a", value: "1" }] });
    const before = await ostler.dump(AUDIT);
    const { nodes, errors } = await update({
      revisions: [{ node: node.id, revision: node.revision }],
      labels: [{ key: "a", value: "2" }],
    });
    expect(nodes).toEqual([]);
    expect(errors).toMatchObject([
      {
        type: "ConflictError",
        code: "STALE_REVISION",
        status: 409,
        path: ["input", "revisions"],
        node: { name: node.name },
      },
    ]);
    expect(await ostler.dump(AUDIT)).toBe(before);
  });

  test("updateNodes keeps omitted secrets and replaces given ones", async () => {
    const node = await aNode({ settings: { password: "first-secret" } });
    const secrets = async () => {
      const [row] = await ostler.test.sql`select id from nodes where name = ${node.name}`;
      return secretsOf(ostler.database, String(row?.["id"]));
    };
    expect((await update({ nodes: { ids: [node.id] }, driver: { fake: { delayMs: 9 } } })).nodes).toMatchObject([
      { drivers: [{ settings: { fake: { delayMs: 9 } }, secretsSet: ["password"] }] },
    ]);
    expect(await secrets()).toEqual({ fake: { password: "first-secret" } });
    await update({ nodes: { ids: [node.id] }, driver: { fake: { password: "second-secret" } } });
    expect(await secrets()).toEqual({ fake: { password: "second-secret" } });
  });

  test.each([
    { what: "a name that is taken", input: { name: "made-1" }, path: ["input", "name"] },
    { what: "a bad name", input: { name: "" }, path: ["input", "name"] },
    {
      what: "bad settings",
      input: { driver: { fake: { delayMs: -1 } } },
      path: ["input", "driver", "fake", "delayMs"],
    },
    {
      what: "an interface of its own driver",
      input: { interfaces: [{ kinds: ["CLEAN"], driver: { fake: {} } }] },
      path: ["input", "interfaces", "0", "driver", "fake"],
    },
    { what: "a bad label", input: { labels: [{ key: "", value: "" }] }, path: ["input", "labels"] },
  ])("updateNodes to $what is refused", async ({ input, path }) => {
    const node = await aNode();
    expect((await update({ nodes: { ids: [node.id] }, ...input })).errors).toMatchObject([
      { type: "SimpleError", code: "INVALID_INPUT", status: 400, path },
    ]);
  });

  test("updateNodes of an unknown node is refused, with its reference and the path of the selection", async () => {
    expect((await update({ nodes: { ids: ["garbage"] }, name: "x" })).errors).toMatchObject([
      {
        type: "NotFoundError",
        code: "NOT_FOUND",
        status: 404,
        message: "Node garbage does not exist.",
        missing: ["garbage"],
        path: ["input", "nodes", "ids"],
      },
    ]);
  });
});

describe("maintenance", () => {
  test("setMaintenance stores reason, caller and time, and makes the node refuse work", async () => {
    const { name } = await aNode();
    const { nodes } = await setMaintenance([name], "fan is loud");
    expect(nodes).toMatchObject([
      { name, state: "ENROLLED", maintenance: { reason: "fan is loud", startedBy: "anonymous" } },
    ]);
    const { commissionNodes } = await ostler.query<Record<string, Payload>>(
      `mutation Commission($name: String!) { commissionNodes(input: { nodes: { names: [$name] } }) { ${ERRORS} } }`,
      { name },
    );
    expect(commissionNodes?.errors).toMatchObject([
      { type: "ConflictError", code: "IN_MAINTENANCE", status: 409, node: { name } },
    ]);
    expect((await clearMaintenance([name])).nodes).toMatchObject([{ maintenance: null }]);
    expect(await ostler.operationEnds(await ostler.begin("manageNodes", [name]))).toBe("SUCCEEDED");
  });

  test("setMaintenance with a blank reason is refused", async () => {
    const { name } = await aNode();
    for (const reason of ["", "  ", "x".repeat(1001)])
      expect((await setMaintenance([name], reason)).errors).toMatchObject([
        { code: "INVALID_INPUT", path: ["input", "reason"] },
      ]);
  });

  test.each([
    ["setMaintenance", "SetMaintenanceInput"],
    ["setRetired", "SetRetiredInput"],
  ])("%s with a reason that was left out does not clear the mark", async (verb, type) => {
    const { name } = await aNode();
    await change(verb, type, { nodes: { names: [name] }, reason: "its reason" });
    for (const input of [{ nodes: { names: [name] } }, { nodes: { names: [name] }, reason: null }])
      await expect(change(verb, type, input)).rejects.toThrow("reason");
    const shown = await ostler.query<{ node: unknown }>(
      `query Shown($name: String!) { node(by: { name: $name }) { maintenance { reason } retiredReason } }`,
      { name },
    );
    expect(JSON.stringify(shown)).toContain("its reason");
  });

  test("setMaintenance with unknown nodes is refused and names them", async () => {
    const { name } = await aNode();
    const { errors, nodes } = await setMaintenance([name, "ghost-1", "ghost-2"], "why");
    expect(nodes).toEqual([]);
    expect(errors).toMatchObject([
      { type: "NotFoundError", code: "NOT_FOUND", missing: ["ghost-1", "ghost-2"], path: ["input", "nodes", "names"] },
    ]);
    expect((await setMaintenance([], "why")).errors).toMatchObject([{ code: "INVALID_INPUT" }]);
  });
});

describe("flags of a node", () => {
  /** The result of each power action: as `Node.verbs` predicts it, and as `setPower` returns it. */
  const predictedAndActual = async (name: string) => {
    const predicted = (await verbsOf(name))
      .filter(({ verb }) => verb === "POWER")
      .map(({ powerAction, allowed, code }) => [powerAction, allowed ? null : code]);
    const actual = [];
    for (const action of POWER_ACTIONS) {
      const { setPower } = await ostler.query<Record<string, { errors: { code: string }[] }>>(
        "mutation Power($input: SetPowerInput!) { setPower(input: $input) { errors { code } } }",
        { input: { nodes: { names: [name] }, action, dryRun: true } },
      );
      actual.push([action, setPower?.errors[0]?.code ?? null]);
    }
    return { predicted, actual };
  };

  test("Node.verbs of a protected node has the same result per power action as setPower", async () => {
    const { name, id } = await aNode();
    await update({ nodes: { ids: [id] }, protected: true });
    const expected = [
      ["ON", null],
      ["OFF", "PROTECTED"],
      ["SOFT_OFF", "PROTECTED"],
      ["REBOOT", "PROTECTED"],
      ["SOFT_REBOOT", "PROTECTED"],
    ];
    expect(await predictedAndActual(name)).toEqual({ predicted: expected, actual: expected });
  });

  test("a retired node refuses to be put into service, with the reason in Node.verbs", async () => {
    const { name } = await aNode();
    expect((await setRetired([name], "its lease ends")).nodes).toMatchObject([
      { retired: true, retiredReason: "its lease ends", state: "ENROLLED" },
    ]);
    const commission = (await verbsOf(name)).find(({ verb }) => verb === "COMMISSION");
    expect(commission).toMatchObject({
      allowed: false,
      code: "PROTECTED",
      reason: `Node ${name} is retired. End the retirement with clearRetired first, or decommission the node.`,
    });
    const { commissionNodes } = await ostler.query<Record<string, Payload>>(
      `mutation Try($name: String!) { commissionNodes(input: { nodes: { names: [$name] } }) { ${ERRORS} } }`,
      { name },
    );
    expect(commissionNodes?.errors).toMatchObject([
      { type: "ConflictError", code: "PROTECTED", status: 403, node: { name } },
    ]);
    expect((await clearRetired([name])).nodes).toMatchObject([{ retired: false, retiredReason: null }]);
    expect((await verbsOf(name)).find(({ verb }) => verb === "COMMISSION")?.allowed).toBe(true);
  });

  test("setRetired with a blank reason or unknown nodes is refused", async () => {
    const { name } = await aNode();
    expect((await setRetired([name], " ")).errors).toMatchObject([
      { code: "INVALID_INPUT", path: ["input", "reason"] },
    ]);
    expect((await setRetired([name, "ghost"], "old")).errors).toMatchObject([
      { type: "NotFoundError", missing: ["ghost"] },
    ]);
  });

  test("node filters find flags, host group, errors and power drift", async () => {
    const label = [{ key: "marked", value: "1" }];
    const named = Object.fromEntries(
      await Promise.all(
        ["plain", "retired", "guarded", "grouped", "failed", "drifted", "silent"].map(
          async (what) =>
            [
              what,
              await aNode({
                labels: label,
                ...(what === "grouped" && { hostGroup: "service-master" }),
                ...(what === "failed" && { settings: { refusesLogin: true } }),
              }),
            ] as const,
        ),
      ),
    );
    await setRetired([named["retired"]?.name ?? ""], "old");
    await update({ nodes: { ids: [named["guarded"]?.id] }, protected: true });
    await ostler.operationEnds(await ostler.begin("manageNodes", [named["failed"]?.name ?? ""]));
    await ostler.test
      .sql`update nodes set wanted_power = 'ON', power_state = case when name = ${named["silent"]?.name ?? ""} then 'UNKNOWN' else 'OFF' end where name in (${named["drifted"]?.name ?? ""}, ${named["silent"]?.name ?? ""})`;
    const found = async (filter: object) => {
      const { nodes } = await ostler.query<{ nodes: { edges: { node: { name: string } }[] } }>(
        "query Found($filter: NodeFilter) { nodes(filter: $filter, first: 100) { edges { node { name } } } }",
        { filter: { labels: label, ...filter } },
      );
      const names = new Map(Object.entries(named).map(([what, { name }]) => [name, what]));
      return nodes.edges.map(({ node }) => names.get(node.name) ?? "").toSorted();
    };
    expect(await found({ retired: true })).toEqual(["retired"]);
    expect(await found({ protected: true })).toEqual(["guarded"]);
    expect(await found({ hostGroup: "service-master" })).toEqual(["grouped"]);
    expect(await found({ withErrors: true })).toEqual(["failed"]);
    expect(await found({ powerDrift: true })).toEqual(["drifted"]);
    expect(
      await found({
        retired: false,
        protected: false,
        withErrors: false,
        powerDrift: false,
        not: { hostGroup: "service-master" },
      }),
    ).toEqual(["plain", "silent"]);
    const { node } = await ostler.query(
      "query Drift($name: String!) { node(by: { name: $name }) { wantedPower powerState powerDrift } }",
      { name: named["drifted"]?.name },
    );
    expect(node).toEqual({ wantedPower: "ON", powerState: "OFF", powerDrift: true });
    expect(
      await ostler.query("query Drift($name: String!) { node(by: { name: $name }) { powerDrift } }", {
        name: named["silent"]?.name,
      }),
    ).toEqual({ node: { powerDrift: false } });
  });
});

describe("optional settings of a node", () => {
  test("optional settings of a node are returned, changed, and removed with null", async () => {
    const node = await aNode({
      hostGroup: "service-worker",
      description: "Rack 3",
      automaticCleaning: false,
      diskless: true,
    });
    expect((await update({ nodes: { ids: [node.id] }, labels: [] })).nodes).toMatchObject([
      { hostGroup: "service-worker", description: "Rack 3", automaticCleaning: false, diskless: true },
    ]);
    expect(
      (
        await update({
          nodes: { ids: [node.id] },
          hostGroup: "service-master",
          description: "Rack 4",
          automaticCleaning: true,
        })
      ).nodes,
    ).toMatchObject([{ hostGroup: "service-master", description: "Rack 4", automaticCleaning: true }]);
    expect(
      (
        await update({
          nodes: { ids: [node.id] },
          hostGroup: null,
          description: null,
          automaticCleaning: null,
          diskless: null,
        })
      ).nodes,
    ).toMatchObject([{ hostGroup: null, description: "", automaticCleaning: null, diskless: false }]);
    expect((await register([{ name: "ungrouped", driver: { fake: {} }, hostGroup: "no good" }])).errors).toMatchObject([
      { code: "INVALID_INPUT", path: ["input", "nodes", "0", "hostGroup"] },
    ]);
  });
});

describe("MAC addresses of a node", () => {
  test("MAC addresses of a node are returned, filtered by, changed, and of no other node [R-467]", async () => {
    const node = await aNode({ macs: ["52-54-00-AA-00-02", "52:54:00:aa:00:01"] });
    expect(node).toMatchObject({ macs: ["52:54:00:aa:00:01", "52:54:00:aa:00:02"] });
    const found = await ostler.query(
      `query Found($mac: String!) { nodes(first: 3, filter: { mac: $mac }) { edges { node { name macs } } } }`,
      { mac: "52:54:00:AA:00:02" },
    );
    expect(found).toMatchObject({ nodes: { edges: [{ node: { name: node.name } }] } });
    const other = await aNode();
    expect((await update({ nodes: { ids: [other.id] }, macs: ["52:54:00:aa:00:01"] })).errors).toMatchObject([
      { type: "ConflictError", code: "MAC_TAKEN", status: 409, node: { name: node.name } },
    ]);
    expect((await update({ nodes: { ids: [node.id] }, macs: null })).nodes).toMatchObject([{ macs: [] }]);
    expect((await update({ nodes: { ids: [other.id] }, macs: ["52:54:00:aa:00:01"] })).errors).toEqual([]);
  });
});

describe("inventories", () => {
  const inspected = async () => {
    const node = await aNode({ settings: { serial: "A" } });
    await ostler.commission([node.name], "AVAILABLE");
    for (const serial of ["B", "C"]) {
      await update({ nodes: { ids: [node.id] }, driver: { fake: { serial } } });
      await ostler.operationEnds(await ostler.begin("inspectNodes", [node.name]));
    }
    return node;
  };
  const DIFF = "inventoryDiff(from: $from, to: $to) { path kind before after }";
  const diff = async (name: string, from?: string, to?: string) =>
    (
      await ostler.query<{ node: { inventoryDiff: unknown[] } }>(
        `query Diff($name: String!, $from: ID, $to: ID) { node(by: { name: $name }) { ${DIFF} } }`,
        { name, from, to },
      )
    ).node.inventoryDiff;

  test("inventories are kept, listed newest first, and can be compared [R-020]", async () => {
    const { name } = await inspected();
    const { node } = await ostler.query<{
      node: {
        model: string;
        inventory: { id: string };
        inventories: {
          edges: { node: { id: string; data: { serial: string } } }[];
          pageInfo: { hasNextPage: boolean; endCursor: string };
        };
      };
    }>(
      "query Inventories($name: String!) { node(by: { name: $name }) { model inventory { id } inventories(first: 2) { edges { node { id takenAt data } } pageInfo { hasNextPage endCursor } } } }",
      { name },
    );
    expect(node.model).toBe("Fake 1000");
    expect(node.inventories.edges.map((edge) => edge.node.data.serial)).toEqual(["C", "B"]);
    expect(node.inventories.edges[0]?.node.id).toBe(node.inventory.id);
    expect(
      await ostler.query("query Again($id: ID!) { fetch__Inventory(id: $id) { id data } }", {
        id: node.inventory.id,
      }),
    ).toEqual({
      fetch__Inventory: {
        id: node.inventory.id,
        data: expect.objectContaining({ serial: "C" }) as unknown,
      },
    });
    const rest = await ostler.query<{
      node: { inventories: { edges: { node: { id: string; data: { serial: string } } }[] } };
    }>(
      "query Rest($name: String!, $after: String) { node(by: { name: $name }) { inventories(first: 2, after: $after) { edges { node { id data } } } } }",
      { name, after: node.inventories.pageInfo.endCursor },
    );
    expect(rest.node.inventories.edges.map((edge) => edge.node.data.serial)).toEqual(["A"]);
    const [newest, middle, first] = [...node.inventories.edges, ...rest.node.inventories.edges].map(
      (edge) => edge.node.id,
    );
    const changed = (before: string, after: string) => [{ path: ["serial"], kind: "CHANGED", before, after }];
    expect(await diff(name)).toEqual(changed("B", "C"));
    expect(await diff(name, first)).toEqual(changed("A", "C"));
    expect(await diff(name, undefined, middle)).toEqual(changed("A", "B"));
    expect(await diff(name, newest, first)).toEqual(changed("C", "A"));
    expect(await diff(name, newest, newest)).toEqual([]);
    expect(await diff(name, undefined, first)).toEqual([]);
  });

  test("inventoryDiff compares nested values and identifies list items by name", async () => {
    const { name, id } = await aNode();
    const run = "00000000-0000-4000-8000-000000000001";
    const was = {
      cpus: 8,
      disks: [
        { name: "sda", sizeGB: 960 },
        { name: "sdb", sizeGB: 960 },
      ],
      flags: ["a", "b"],
      bmc: { version: "1.0", mac: null },
      gone: { deep: true },
      same: { list: [1, { x: 2 }] },
    };
    const is = {
      cpus: "8",
      disks: [
        { name: "sdb", sizeGB: 480 },
        { name: "sdc", sizeGB: 960 },
      ],
      flags: ["a", "c", "d"],
      bmc: { version: "2.0", mac: null, serial: null },
      same: { list: [1, { x: 2 }] },
    };
    for (const [at, data] of [
      ["2026-01-01", was],
      ["2026-01-02", is],
    ] as const)
      await ostler.test
        .sql`insert into inventories (id, node_id, run_id, taken_at, data) select gen_random_uuid(), id, ${run}::uuid, ${at}::timestamptz, ${ostler.test.sql.json(data)} from nodes where name = ${name}`;
    const changes = (await diff(name)) as { path: string[]; kind: string; before: unknown; after: unknown }[];
    expect(
      Object.fromEntries(changes.map(({ path, kind, before, after }) => [path.join("."), [kind, before, after]])),
    ).toEqual({
      cpus: ["CHANGED", 8, "8"],
      "disks.sda": ["REMOVED", { name: "sda", sizeGB: 960 }, null],
      "disks.sdb.sizeGB": ["CHANGED", 960, 480],
      "disks.sdc": ["ADDED", null, { name: "sdc", sizeGB: 960 }],
      "flags.1": ["CHANGED", "b", "c"],
      "flags.2": ["ADDED", null, "d"],
      "bmc.version": ["CHANGED", "1.0", "2.0"],
      "bmc.serial": ["ADDED", null, null],
      gone: ["REMOVED", { deep: true }, null],
    });
    expect(id).not.toBe("");
  });

  test("inventoryDiff with an inventory of another node is refused", async () => {
    const { name } = await aNode();
    for (const id of ["garbage", "00000000-0000-4000-8000-000000000009"]) {
      const { errors } = await ostler.ask(
        `query Diff($name: String!, $id: ID) { node(by: { name: $name }) { inventoryDiff(from: $id, to: $id) { path } } }`,
        { name, id },
      );
      expect(errors).toMatchObject([
        { message: expect.stringContaining(`Node ${name} has no inventory`), extensions: { code: "BAD_USER_INPUT" } },
      ]);
    }
    expect(await diff(name)).toEqual([]);
  });
});

describe("reading power", () => {
  const read = async (nodes: object) =>
    (
      await ostler.query<{
        readPower: {
          results: {
            ref: string;
            powerState: string | null;
            node: { name: string; powerProblem: string | null; powerCheckedAt: string | null } | null;
            error: Refusal | null;
          }[];
          errors: Refusal[];
        };
      }>(
        `mutation Read($input: ReadPowerInput!) { readPower(input: $input) { results { ref powerState node { name powerProblem powerProblemKind powerCheckedAt } error { type: __typename code status message ... on ConflictError { operation { uuid } } } } ${ERRORS} } }`,
        { input: { nodes } },
      )
    ).readPower;

  test("readPower returns the power state or a typed error for each node", async () => {
    const gate = aGate();
    const [fine, dead, busy] = [
      await aNode(),
      await aNode({ settings: { dead: true } }),
      await aNode({ settings: { steps: { "power.read": { gate: gate.name } } } }),
    ];
    const uuid = await ostler.begin("manageNodes", [busy.name]);
    await gate.arrivals();
    const { results, errors } = await read({ names: [fine.name, dead.name, busy.name] });
    expect(errors).toEqual([]);
    expect(results).toMatchObject([
      {
        ref: fine.name,
        powerState: "OFF",
        error: null,
        node: { powerProblem: null, powerProblemKind: null, powerCheckedAt: expect.any(String) },
      },
      {
        ref: dead.name,
        powerState: null,
        error: {
          type: "SimpleError",
          code: "BACKEND_FAILED",
          status: 502,
          message: expect.stringContaining("does not answer"),
        },
        node: { powerProblem: expect.stringContaining("does not answer"), powerProblemKind: "UNREACHABLE" },
      },
      {
        ref: busy.name,
        powerState: null,
        error: { type: "ConflictError", code: "BUSY", operation: { uuid } },
        node: { powerProblem: null },
      },
    ]);
    gate.open();
    await ostler.operationEnds(uuid);
  });

  test("readPower of unknown nodes is refused", async () => {
    expect(await read({ names: ["ghost"] })).toMatchObject({
      results: [],
      errors: [{ type: "NotFoundError", code: "NOT_FOUND", missing: ["ghost"] }],
    });
  });
});

describe("a soft power off", () => {
  const softOff = async (input: object) =>
    (
      await ostler.query<{ setPower: { errors: Refusal[]; results: { steps: { args: unknown }[] | null }[] } }>(
        `mutation Soft($input: SetPowerInput!) { setPower(input: $input) { results { steps { args } } ${ERRORS} } }`,
        { input },
      )
    ).setPower;

  test("setPower SOFT_OFF accepts a timeout for the system [R-035]", async () => {
    const { name } = await aNode();
    const nodes = { names: [name] };
    expect((await softOff({ nodes, action: "SOFT_OFF", timeoutSeconds: 30, dryRun: true })).results).toMatchObject([
      { steps: [{ args: { timeoutSeconds: 30 } }] },
    ]);
    for (const timeoutSeconds of [0, 86_401, -1])
      expect((await softOff({ nodes, action: "SOFT_OFF", timeoutSeconds })).errors).toMatchObject([
        {
          code: "INVALID_INPUT",
          path: ["input", "timeoutSeconds"],
          message: expect.stringContaining("from 1 to 86400"),
        },
      ]);
    expect((await softOff({ nodes, action: "OFF", timeoutSeconds: 30 })).errors).toMatchObject([
      { code: "INVALID_INPUT", path: ["input", "timeoutSeconds"] },
    ]);
  });
});

describe("deleting nodes", () => {
  test("deleteNodes deletes nodes and keeps their transitions and operations", async () => {
    const { name, id } = await aNode({ settings: { password: "gone-with-it" } });
    const uuid = await ostler.begin("manageNodes", [name]);
    await ostler.operationEnds(uuid);
    const answer = await remove({ ids: [id, id] });
    expect(answer).toMatchObject({ count: 1, errors: [] });
    const left = await ostler.query(
      "query Left($name: String!, $uuid: ID!) { node(by: { name: $name }) { name } operation(id: $uuid) { state runs { edges { node { nodeName node { name } } } } transitions { edges { node { nodeName node { name } } } } } }",
      { name, uuid },
    );
    expect(left).toMatchObject({
      node: null,
      operation: {
        state: "SUCCEEDED",
        runs: { edges: [{ node: { nodeName: name, node: null } }] },
        transitions: { edges: [{ node: { nodeName: name, node: null } }, {}] },
      },
    });
    expect(await ostler.test.sql`select secrets from node_secrets where secrets::text like '%gone-with-it%'`).toEqual(
      [],
    );
    expect((await register([{ name, driver: { fake: {} } }])).errors).toEqual([]);
  });

  test("deleteNodes is refused for all nodes if one is busy, protected or active, and names each", async () => {
    const gate = aGate();
    const busy = await aNode({ settings: { steps: { "power.read": { gate: gate.name } } } });
    const guarded = await aNode();
    const active = await aNode();
    const free = await aNode();
    await update({ nodes: { ids: [guarded.id] }, protected: true });
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
    const { deleteNodes } = await ostler.query(
      "mutation Delete($names: [String!]!) { deleteNodes(input: { nodes: { names: $names } }) { results { ref error { code } } } }",
      { names: [free.name, guarded.name] },
    );
    expect(deleteNodes).toEqual({
      results: [{ ref: guarded.name, error: { code: "PROTECTED" } }],
    });
    gate.open();
    await ostler.operationEnds(uuid);
    expect((await remove({ names: [busy.name, free.name] })).count).toBe(2);
  });
});
