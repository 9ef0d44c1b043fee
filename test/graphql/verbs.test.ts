/** Verbs through the API: effects, conditions and refusals. */
import { afterAll, describe, expect, test } from "vitest";
import { aGate } from "../support/builders.ts";
import { inputTypeOf } from "../support/input-type.ts";
import { AUDIT, registeredNode, serviceUnderTest } from "../support/service.ts";
import { VERB_EXAMPLES } from "../support/verbs.ts";

const ostler = await serviceUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

interface Refusal {
  readonly type: string;
  readonly code: string;
  readonly status: number;
  readonly message: string;
}

interface Work {
  readonly operation: { readonly uuid: string; readonly state: string; readonly [field: string]: unknown } | null;
  readonly results: readonly {
    readonly ref: string;
    readonly accepted: boolean;
    readonly error: Refusal | null;
    readonly steps: readonly object[] | null;
    readonly [field: string]: unknown;
  }[];
  readonly errors: readonly Refusal[];
  readonly replayed: boolean;
}

const ERROR =
  "type: __typename code status message path ... on NotFoundError { missing } ... on ConflictError { node { name } operation { uuid } allowedStates } ... on NotInterruptibleError { step }";

async function ask(verb: string, input: object): Promise<Work> {
  const isWork = !["abort", "stop", "withdrawAbort", "releaseHolds"].includes(verb);
  const ofWork = isWork ? "steps { name phase interface index state interruptible }" : "";
  const ofResult = verb === "abort" ? "abortEffect abortPendingAfterStep" : ofWork;
  const data = await ostler.query<Record<string, Work>>(
    `mutation Ask($input: ${inputTypeOf(verb)}!) { ${verb}(input: $input) {
      operation { uuid kind state totalCount onFailure maxParallel reason variables requestedBy restartOf { uuid } interrupt interruptBy cluster { name } }
      results { ref node { name } run { state target } accepted error { ${ERROR} } ${ofResult} }
      errors { ${ERROR} }
      ${isWork ? "replayed" : ""}
    } }`,
    { input },
  );
  return data[verb] as Work;
}

const stateOf = async (name = "") =>
  (
    await ostler.query<{ node: { state: string; stage: string; powerState: string } }>(
      "query State($name: String!) { node(by: { name: $name }) { state stage powerState } }",
      { name },
    )
  ).node;

type From = "ENROLLED" | "MANAGEABLE" | "AVAILABLE" | "ACTIVE";

const aNode = (state?: From, steps?: object) => registeredNode(ostler, state, steps);

/** Replaces the script of a node's steps. */
async function script(name: string, steps: object): Promise<void> {
  const { updateNodes } = await ostler.query<{ updateNodes: { errors: readonly object[] } }>(
    "mutation Script($name: String!, $settings: FakeSettingsChangeInput!) { updateNodes(input: { nodes: { names: [$name] }, driver: { fake: $settings } }) { errors { message } } }",
    { name, settings: { steps } },
  );
  expect(updateNodes.errors).toEqual([]);
}

describe("a verb", () => {
  test.each(VERB_EXAMPLES)(
    "$verb $input moves a node from $from to $end [R-014, R-027]",
    async ({ verb, from, input, kind, end, phases }) => {
      const name = await aNode(from);
      const work = await ask(verb, { nodes: { names: [name] }, reason: "for the test", ...input });
      expect(work.errors).toEqual([]);
      expect(work.operation).toMatchObject({ kind, totalCount: 1, reason: "for the test", requestedBy: "anonymous" });
      expect(work.results).toMatchObject([{ ref: name, node: { name }, accepted: true, error: null }]);
      expect(work.results[0]?.steps).toMatchObject(phases.map((phase, index) => ({ phase, index })));
      expect(await ostler.operationEnds(work.operation?.uuid ?? "")).toBe("SUCCEEDED");
      expect(await stateOf(name)).toMatchObject(end);
    },
  );

  test("a verb is stored before the response, without a running worker [R-013]", async () => {
    await using idle = await serviceUnderTest({ started: false });
    const [name = ""] = await idle.register(1);
    const uuid = await idle.begin("manageNodes", [name]);
    expect(
      await idle.query(
        "query Stored($uuid: ID!) { operation(id: $uuid) { state runs { edges { node { nodeName state } } } } }",
        { uuid },
      ),
    ).toMatchObject({ operation: { runs: { edges: [{ node: { nodeName: name } }] } } });
  });

  test("a verb selects nodes by ID, cluster and filter, each node once [R-012]", async () => {
    const names = await ostler.register(3);
    const { nodes } = await ostler.query<{ nodes: { edges: { node: { id: string } }[] } }>(
      "query Ids($names: [String!]) { nodes(filter: { name: { in: $names } }) { edges { node { id } } } }",
      { names },
    );
    const ids = nodes.edges.map(({ node }) => node.id);
    await ostler.query(
      'mutation Create($names: [String!]!) { createCluster(input: { name: "chosen", nodes: { names: $names } }) { errors { message } } }',
      { names },
    );
    for (const choice of [
      { ids: [...ids, ...ids] },
      { names: [...names, ...names] },
      { cluster: { name: "chosen" } },
      { filter: { cluster: { name: "chosen" } } },
    ]) {
      const { operation, results } = await ask("setPower", { nodes: choice, action: "ON" });
      expect(results).toHaveLength(3);
      expect(operation).toMatchObject({ totalCount: 3, cluster: "cluster" in choice ? { name: "chosen" } : null });
      await ostler.operationEnds(operation?.uuid ?? "");
    }
  });
});

describe("a dry run", () => {
  test("a dry run returns steps and refusals per node, and writes nothing", async () => {
    const [free, active] = [await aNode(), await aNode("ACTIVE")];
    const before = await ostler.dump(AUDIT);
    const planned = await ask("commissionNodes", {
      nodes: { names: [free, active] },
      dryRun: true,
      acceptance: "BEST_EFFORT",
    });
    expect(planned).toMatchObject({
      operation: null,
      errors: [],
      results: [
        {
          ref: free,
          accepted: true,
          run: null,
          error: null,
          steps: [
            { name: "verify", phase: "VERIFY", interface: "POWER", interruptible: "ALWAYS", state: "PENDING" },
            {},
            {},
            {},
            {},
            {},
            {},
            { name: "configure", interruptible: "AT_BOUNDARY" },
          ],
        },
        { ref: active, accepted: false, steps: null, error: { type: "ConflictError", code: "INVALID_STATE" } },
      ],
    });
    expect(await ask("commissionNodes", { nodes: { names: [free, active] }, dryRun: true })).toMatchObject({
      operation: null,
      errors: [{ code: "INVALID_STATE" }],
      results: [{ accepted: true }, { accepted: false }],
    });
    expect(await ostler.dump(AUDIT)).toBe(before);
  });
});

describe("a request with a bad node", () => {
  test("a request with refused nodes is refused as a whole, names all of them, and writes nothing [R-042, R-045]", async () => {
    const [free, active, marked] = [await aNode(), await aNode("ACTIVE"), await aNode()];
    await ostler.query(
      'mutation Mark($name: String!) { setMaintenance(input: { nodes: { names: [$name] }, reason: "fan" }) { errors { message } } }',
      { name: marked },
    );
    const before = await ostler.dump(AUDIT);
    const { operation, results, errors } = await ask("commissionNodes", { nodes: { names: [free, active, marked] } });
    expect(operation).toBeNull();
    expect(errors).toMatchObject([
      { type: "ConflictError", code: "INVALID_STATE", status: 409, node: { name: active }, operation: null },
      { type: "ConflictError", code: "IN_MAINTENANCE", status: 409, node: { name: marked } },
    ]);
    expect((errors[0] as unknown as { allowedStates: string[] }).allowedStates).toEqual(
      expect.arrayContaining(["ENROLLED", "AVAILABLE", "STOPPED"]),
    );
    expect(results.map(({ ref, accepted }) => `${ref} ${accepted}`)).toEqual([
      `${free} false`,
      `${active} false`,
      `${marked} false`,
    ]);
    expect(await ostler.dump(AUDIT)).toBe(before);
  });

  test("a request with acceptance BEST_EFFORT starts on the accepted nodes", async () => {
    const [free, active] = [await aNode(), await aNode("ACTIVE")];
    const { operation, results, errors } = await ask("commissionNodes", {
      nodes: { names: [active, free] },
      acceptance: "BEST_EFFORT",
      until: "AVAILABLE",
    });
    expect(errors).toEqual([]);
    expect(results).toMatchObject([
      { ref: active, accepted: false, run: null, error: { code: "INVALID_STATE" } },
      { ref: free, accepted: true, run: { target: "AVAILABLE" }, error: null },
    ]);
    expect(operation).toMatchObject({ totalCount: 1 });
    await ostler.operationEnds(operation?.uuid ?? "");
  });

  test("a request with unknown nodes names all of them, even with BEST_EFFORT [R-041]", async () => {
    const free = await aNode();
    for (const acceptance of ["ALL_OR_NOTHING", "BEST_EFFORT"]) {
      expect(
        (await ask("manageNodes", { nodes: { names: ["ghost-1", free, "ghost-2"] }, acceptance })).errors,
      ).toMatchObject([
        {
          type: "NotFoundError",
          code: "NOT_FOUND",
          status: 404,
          missing: ["ghost-1", "ghost-2"],
          path: ["input", "nodes", "names"],
        },
      ]);
    }
  });

  test.each([
    {
      what: "no names",
      nodes: { names: [] },
      error: { type: "SimpleError", code: "INVALID_INPUT", path: ["input", "nodes", "names"] },
    },
    { what: "no IDs", nodes: { ids: [] }, error: { code: "INVALID_INPUT", path: ["input", "nodes", "ids"] } },
    {
      what: "garbage IDs",
      nodes: { ids: ["x", "------------------------------------"] },
      error: { code: "NOT_FOUND", missing: ["x", "------------------------------------"] },
    },
    {
      what: "the ID of an object of another type",
      nodes: { ids: [Buffer.from("Cluster:1b671a64-40d5-491e-99b0-da01ff1f3341").toString("base64url")] },
      error: { code: "NOT_FOUND" },
    },
    {
      what: "a filter that matches nothing",
      nodes: { filter: { name: { eq: "ghost" } } },
      error: { code: "NOT_FOUND", path: ["input", "nodes", "filter"] },
    },
    {
      what: "a cluster that does not exist",
      nodes: { cluster: { name: "nowhere" } },
      error: { code: "NOT_FOUND", missing: ["nowhere"], path: ["input", "nodes", "cluster"] },
    },
  ])("a request with $what is refused", async ({ nodes, error }) => {
    expect((await ask("manageNodes", { nodes })).errors).toMatchObject([error]);
  });

  test.each([
    { what: "maxParallel", more: { maxParallel: 0 } },
    { what: "idempotencyKey", more: { idempotencyKey: "" } },
    { what: "reason", more: { reason: "x".repeat(5_000) } },
    { what: "variables", more: { variables: [1] } },
  ])("a request with an invalid $what is refused", async ({ what, more }) => {
    expect((await ask("manageNodes", { nodes: { names: [await aNode()] }, ...more })).errors).toMatchObject([
      { type: "SimpleError", code: "INVALID_INPUT", status: 400, path: ["input", what] },
    ]);
  });

  test.each([
    { what: "unknown", steps: [{ name: "polish" }] },
    { what: "without its arguments", steps: [{ name: "update_firmware" }] },
    { what: "with invalid arguments", steps: [{ name: "update_firmware", args: { version: "new" } }] },
  ])("a request with a step that is $what is refused", async ({ steps }) => {
    const { errors } = await ask("cleanNodes", { nodes: { names: [await aNode("AVAILABLE")] }, steps });
    expect(errors).toMatchObject([{ code: "INVALID_INPUT" }]);
  });
});

describe("request with a repeated idempotency key", () => {
  test("a repeated idempotency key returns the same operation and starts no second one [R-047]", async () => {
    const name = await aNode();
    const input = { nodes: { names: [name] }, idempotencyKey: "order-66" };
    const first = await ask("manageNodes", input);
    await ostler.operationEnds(first.operation?.uuid ?? "");
    const again = await ask("manageNodes", input);
    expect(first.replayed).toBe(false);
    expect(again).toMatchObject({
      replayed: true,
      errors: [],
      operation: { uuid: first.operation?.uuid, state: "SUCCEEDED" },
      results: [{ ref: name, accepted: true, run: { state: "SUCCEEDED" } }],
    });
  });

  test("concurrent requests with the same idempotency key start one operation", async () => {
    const names = await ostler.register(3);
    const answers = await Promise.all(
      Array.from({ length: 6 }, () => ask("manageNodes", { nodes: { names }, idempotencyKey: "all-at-once" })),
    );
    expect(new Set(answers.map(({ operation }) => operation?.uuid)).size).toBe(1);
    expect(answers.filter(({ replayed }) => !replayed)).toHaveLength(1);
    await ostler.operationEnds(answers[0]?.operation?.uuid ?? "");
  });

  test("an idempotency key with another input is refused, with the earlier operation", async () => {
    const [one, two] = [await aNode(), await aNode()];
    const first = await ask("manageNodes", { nodes: { names: [one] }, idempotencyKey: "mine" });
    const { errors } = await ask("manageNodes", { nodes: { names: [two] }, idempotencyKey: "mine" });
    expect(errors).toMatchObject([
      {
        type: "ConflictError",
        code: "IDEMPOTENCY_MISMATCH",
        status: 409,
        path: ["input", "idempotencyKey"],
        operation: { uuid: first.operation?.uuid },
      },
    ]);
    await ostler.operationEnds(first.operation?.uuid ?? "");
  });
});

describe("concurrent overlapping requests", () => {
  test("of overlapping concurrent requests one succeeds; the others name the conflicting operation [R-046]", async () => {
    const gate = aGate();
    const shared = await aNode("ENROLLED", { "power.read": { gate: gate.name } });
    const others = await ostler.register(4);
    const answers = await Promise.all(others.map((other) => ask("manageNodes", { nodes: { names: [other, shared] } })));
    const won = answers.filter(({ operation }) => operation);
    expect(won).toHaveLength(1);
    for (const lost of answers.filter(({ operation }) => !operation))
      expect(lost.errors).toMatchObject([
        {
          type: "ConflictError",
          code: "BUSY",
          status: 409,
          node: { name: shared },
          operation: { uuid: won[0]?.operation?.uuid },
        },
      ]);
    gate.open();
    await ostler.operationEnds(won[0]?.operation?.uuid ?? "");
  });
});

describe("an abort", () => {
  const held = async (step: string, steps?: object[]) => {
    const gate = aGate();
    const name = await aNode("AVAILABLE");
    await script(name, { [step]: { gate: gate.name } });
    const uuid = await ostler.begin(steps ? "cleanNodes" : "deployNodes", [name], steps ? { steps } : {});
    await gate.arrivals();
    return { gate, name, uuid };
  };

  test("abort during an interruptible step takes effect at once and leaves the node failed and powered off", async () => {
    const { name, uuid } = await held("deploy.write_image");
    expect(await ask("abort", { work: { names: [name] }, reason: "wrong image" })).toMatchObject({
      errors: [],
      operation: { uuid },
      results: [{ ref: name, accepted: true, abortEffect: "NOW", abortPendingAfterStep: null }],
    });
    expect(await ostler.operationEnds(uuid)).toBe("ABORTED");
    expect(await stateOf(name)).toMatchObject({ state: "DEPLOY_FAILED", powerState: "OFF" });
    const { operation } = await ostler.query(
      "query Left($uuid: ID!) { operation(id: $uuid) { runs { edges { node { state machineCondition { power disksChanged cleanUpError } } } } transitions(last: 1) { edges { node { event reason actor } } } } }",
      { uuid },
    );
    expect(operation).toMatchObject({
      runs: {
        edges: [
          { node: { state: "ABORTED", machineCondition: { power: "OFF", disksChanged: true, cleanUpError: null } } },
        ],
      },
      transitions: { edges: [{ node: { event: "ABORT", reason: "wrong image", actor: "anonymous" } }] },
    });
  });

  test("abort that waits for a step is pending and names the step [R-077]", async () => {
    const { name, uuid, gate } = await held("deploy.configure");
    expect((await ask("abort", { work: { operationId: uuid } })).results).toMatchObject([
      { accepted: true, abortEffect: "PENDING", abortPendingAfterStep: "deploy.configure" },
    ]);
    expect((await ask("abort", { work: { operationId: uuid } })).results).toMatchObject([
      { accepted: true, abortEffect: "PENDING", abortPendingAfterStep: "deploy.configure" },
    ]);
    const { node } = await ostler.query(
      "query Pending($name: String!) { node(by: { name: $name }) { currentRun { interrupt abortPendingAfterStep currentStep { name state } } } }",
      { name },
    );
    expect(node).toMatchObject({
      currentRun: {
        interrupt: "ABORT",
        abortPendingAfterStep: "deploy.configure",
        currentStep: { name: "configure", state: "RUNNING" },
      },
    });
    gate.open();
    expect(await ostler.operationEnds(uuid)).toBe("ABORTED");
  });

  test("abort during a step that must not be interrupted is refused, and accepted with AFTER_STEP", async () => {
    const { name, uuid, gate } = await held("clean.update_firmware", [
      { name: "update_firmware", args: { version: "2.1" } },
    ]);
    const { node } = await ostler.query(
      "query Able($name: String!) { node(by: { name: $name }) { currentRun { abortable abortBlockedBy } } }",
      { name },
    );
    expect(node).toEqual({ currentRun: { abortable: false, abortBlockedBy: "NOT_INTERRUPTIBLE" } });
    const refused = await ask("abort", { work: { names: [name] } });
    expect(refused.errors).toMatchObject([
      { type: "NotInterruptibleError", code: "NOT_INTERRUPTIBLE", status: 403, step: "clean.update_firmware" },
    ]);
    expect(refused.results).toMatchObject([{ accepted: false, error: { type: "NotInterruptibleError" } }]);
    expect((await ask("abort", { work: { names: [name] }, mode: "AFTER_STEP" })).results).toMatchObject([
      { accepted: true, abortEffect: "PENDING", abortPendingAfterStep: "clean.update_firmware" },
    ]);
    gate.open();
    expect(await ostler.operationEnds(uuid)).toBe("ABORTED");
  });

  test("abort of a queued node leaves its state unchanged", async () => {
    const gate = aGate();
    const names = await ostler.register(2, { steps: { "power.read": { gate: gate.name } } });
    const uuid = await ostler.begin("manageNodes", names, { maxParallel: 1 });
    await gate.arrivals();
    expect((await ask("abort", { work: { names: [names[1] ?? ""] } })).results).toMatchObject([
      { accepted: true, abortEffect: "BEFORE_START" },
    ]);
    expect(await stateOf(names[1])).toMatchObject({ state: "ENROLLED" });
    gate.open();
    expect(await ostler.operationEnds(uuid)).toBe("PARTIALLY_SUCCEEDED");
  });

  test("abort without unfinished work is refused [R-074]", async () => {
    const name = await aNode();
    expect((await ask("abort", { work: { names: [name] } })).errors).toMatchObject([
      { type: "SimpleError", code: "NOTHING_RUNNING", status: 404 },
    ]);
    const uuid = await ostler.begin("manageNodes", [name]);
    await ostler.operationEnds(uuid);
    expect((await ask("abort", { work: { operationId: uuid } })).errors).toMatchObject([{ code: "NOTHING_RUNNING" }]);
    expect((await ask("abort", { work: { operationId: "garbage" } })).errors).toMatchObject([
      { type: "NotFoundError", code: "NOT_FOUND", missing: ["garbage"] },
    ]);
  });
});

describe("a stop and a restart", () => {
  test("stop lets the running step end, and restart continues with the present variables [R-094, R-100]", async () => {
    const gate = aGate();
    const name = await aNode("AVAILABLE");
    await ostler.query(
      'mutation Create($name: String!) { createCluster(input: { name: "stopped", variables: { ntp: "old" }, nodes: { names: [$name] } }) { errors { message } } }',
      { name },
    );
    await script(name, { "deploy.write_image": { gate: gate.name } });
    const first = await ask("deployNodes", { nodes: { cluster: { name: "stopped" } } });
    const uuid = first.operation?.uuid ?? "";
    await gate.arrivals();
    expect(await ask("stop", { work: { cluster: { name: "stopped" } }, reason: "wrong time server" })).toMatchObject({
      errors: [],
      operation: { uuid, state: "STOPPING", interrupt: "STOP", interruptBy: "anonymous" },
      results: [{ ref: name, accepted: true }],
    });
    expect(await ask("stop", { work: { operationId: uuid } })).toMatchObject({
      errors: [],
      operation: { uuid, state: "STOPPING" },
    });
    gate.open();
    expect(await ostler.operationEnds(uuid)).toBe("STOPPED");
    expect(await stateOf(name)).toMatchObject({ state: "STOPPED", stage: "PROVISIONED" });
    expect(await ask("stop", { work: { operationId: uuid } })).toMatchObject({
      errors: [],
      operation: { uuid, state: "STOPPED" },
    });
    await ostler.query(
      'mutation { updateCluster(input: { cluster: { name: "stopped" }, variables: { ntp: "new" } }) { errors { message } } }',
    );
    const again = await ask("restart", { work: { cluster: { name: "stopped" } } });
    expect(again).toMatchObject({
      errors: [],
      operation: { kind: "DEPLOY", restartOf: [{ uuid }] },
      results: [
        {
          ref: name,
          accepted: true,
          steps: [
            { name: "prepare", state: "KEPT" },
            { name: "write_image", state: "KEPT" },
            { name: "boot_system", state: "PENDING" },
            { name: "configure", state: "PENDING" },
          ],
        },
      ],
    });
    expect(await ostler.operationEnds(again.operation?.uuid ?? "")).toBe("SUCCEEDED");
    const { operation } = await ostler.query(
      "query Run($uuid: ID!) { operation(id: $uuid) { runs { edges { node { attempt variables restartOfRun { operation { uuid } } } } } } }",
      { uuid: again.operation?.uuid },
    );
    expect(operation).toMatchObject({
      runs: { edges: [{ node: { attempt: 2, variables: { ntp: "new" }, restartOfRun: { operation: { uuid } } } }] },
    });
  });

  test("restart of work that succeeded, never ran or still runs is refused [R-106]", async () => {
    const gate = aGate();
    const [done, fresh] = [await aNode("ACTIVE"), await aNode()];
    expect((await ask("restart", { work: { names: [done] } })).errors).toMatchObject([
      { type: "SimpleError", code: "NOTHING_TO_RESTART", status: 404 },
    ]);
    expect((await ask("restart", { work: { names: [fresh] } })).errors).toMatchObject([{ code: "NOTHING_TO_RESTART" }]);
    const busy = await aNode("ENROLLED", { "power.read": { gate: gate.name } });
    const uuid = await ostler.begin("manageNodes", [busy]);
    await gate.arrivals();
    expect((await ask("restart", { work: { operationId: uuid } })).errors).toMatchObject([
      { type: "ConflictError", code: "BUSY", operation: { uuid } },
    ]);
    gate.open();
    await ostler.operationEnds(uuid);
  });

  test.each([0, -1, 86_401])("stop with a timeout of %d s is refused", async (timeoutSeconds) => {
    expect(
      (await ask("stop", { work: { operationId: "00000000-0000-0000-0000-000000000000" }, timeoutSeconds })).errors,
    ).toMatchObject([{ code: "INVALID_INPUT", path: ["input", "timeoutSeconds"] }]);
  });
});

describe("two mutations in one request", () => {
  test("two mutations in one request run in order, and an error of the second does not undo the first", async () => {
    const name = await aNode();
    const answer = await ostler.ask(
      `mutation Both($name: String!) {
      first: manageNodes(input: { nodes: { names: [$name] } }) { operation { uuid } query { node(by: { name: $name }) { name } } }
      second: manageNodes(input: { nodes: { names: ["\\u0000"] } }) { operation { uuid } }
    }`,
      { name },
    );
    expect(answer.data).toBeNull();
    expect(answer.errors).toMatchObject([{ path: ["second"], extensions: { code: "BAD_USER_INPUT" } }]);
    const { node } = await ostler.query<{ node: { operations: { nodes: { uuid: string }[] } } }>(
      "query Work($name: String!) { node(by: { name: $name }) { operations(first: 1) { nodes { uuid } } } }",
      { name },
    );
    expect(await ostler.operationEnds(node.operations.nodes[0]?.uuid ?? "")).toBe("SUCCEEDED");
  });
});
