/** Lists of steps and runbooks through the API. */
import { afterAll, describe, expect, test } from "vitest";
import { serviceUnderTest } from "../support/service.ts";

const ostler = await serviceUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

const ERROR = "type: __typename code status message path ... on NotFoundError { missing }";

interface Runbook {
  readonly name: string;
  readonly revision: number;
  readonly [field: string]: unknown;
}

interface Payload {
  readonly runbook: Runbook | null;
  readonly errors: readonly {
    readonly code: string;
    readonly path: readonly string[] | null;
    readonly message: string;
  }[];
}

async function change(verb: "createRunbook" | "updateRunbook" | "deleteRunbook", input: object): Promise<Payload> {
  const type = `${verb[0]?.toUpperCase()}${verb.slice(1)}Input`;
  const data = await ostler.query<Record<string, Payload>>(
    `mutation Change($input: ${type}!) { ${verb}(input: $input) { ${verb === "deleteRunbook" ? "" : "runbook { name description phase steps { interface name args } revision createdAt updatedAt }"} errors { ${ERROR} } query { runbooks { name } } } }`,
    { input },
  );
  return data[verb] as Payload;
}

let made = 0;
async function aRunbook(steps: object[], phase: "CLEAN" | "DEPLOY" = "CLEAN"): Promise<string> {
  const name = `runbook-${(made += 1)}`;
  expect((await change("createRunbook", { name, phase, steps })).errors).toEqual([]);
  return name;
}

const show = async (name: string) =>
  (
    await ostler.query<{ runbook: Runbook | null }>(
      "query Show($name: String!) { runbook(by: { name: $name }) { name description steps { interface name args } revision } }",
      { name },
    )
  ).runbook;

interface Work {
  readonly operation: { readonly uuid: string; readonly runbook: string | null } | null;
  readonly results: readonly {
    readonly ref: string;
    readonly accepted: boolean;
    readonly error: object | null;
    readonly errors: readonly { readonly path: readonly string[] }[];
    readonly steps: readonly { readonly interface: string; readonly name: string; readonly args: object }[] | null;
  }[];
  readonly errors: readonly { readonly code: string; readonly path: readonly string[] }[];
}

async function ask(verb: "cleanNodes" | "deployNodes", input: object): Promise<Work> {
  const type = `${verb[0]?.toUpperCase()}${verb.slice(1)}Input`;
  const data = await ostler.query<Record<string, Work>>(
    `mutation Ask($input: ${type}!) { ${verb}(input: $input) { operation { uuid runbook } results { ref accepted error { ${ERROR} } errors { ${ERROR} } steps { interface name args } } errors { ${ERROR} } } }`,
    { input },
  );
  return data[verb] as Work;
}

async function available(count: number): Promise<string[]> {
  const names = await ostler.register(count);
  await ostler.commission(names, "AVAILABLE");
  return names;
}

const places = (errors: readonly { readonly path: readonly string[] | null }[]) =>
  errors.map(({ path }) => path?.join("."));

describe("a runbook", () => {
  test("a runbook is created, returned, listed by name, changed and deleted", async () => {
    const steps = [
      { name: "erase_disks" },
      { interface: "ENGINE", name: "hold", args: { reason: "look at the disks" } },
      { interface: "POWER", name: "power_off" },
    ];
    const shown = [
      { interface: "CLEAN", name: "erase_disks", args: {} },
      { interface: "ENGINE", name: "hold", args: { reason: "look at the disks" } },
      { interface: "POWER", name: "power_off", args: {} },
    ];
    expect(await change("createRunbook", { name: "zebra", description: "Returned machines.", steps })).toMatchObject({
      runbook: { name: "zebra", description: "Returned machines.", steps: shown, revision: 1 },
      errors: [],
    });
    await change("createRunbook", { name: "ant", steps: [{ name: "erase_metadata" }] });
    expect(await show("zebra")).toEqual({
      name: "zebra",
      description: "Returned machines.",
      steps: shown,
      revision: 1,
    });
    const { runbooks } = await ostler.query<{ runbooks: { name: string }[] }>("{ runbooks { name } }");
    expect(runbooks.map(({ name }) => name).filter((name) => !name.startsWith("runbook-"))).toEqual(["ant", "zebra"]);
    expect(
      await change("updateRunbook", { runbook: { name: "zebra" }, ifRevision: 1, name: "zebu", description: null }),
    ).toMatchObject({ runbook: { name: "zebu", description: "", steps: shown, revision: 2 }, errors: [] });
    expect(await change("deleteRunbook", { runbook: { name: "zebu" }, ifRevision: 2 })).toMatchObject({
      errors: [],
    });
    expect([await show("zebra"), await show("zebu")]).toEqual([null, null]);
  });

  test("an invalid runbook is refused with every error and its path", async () => {
    const { runbook, errors } = await change("createRunbook", {
      name: "-",
      steps: [
        { name: "Erase" },
        { interface: "ENGINE", name: "wait", args: { minutes: 5 } },
        { name: "erase_disks", args: [1] },
      ],
    });
    expect(runbook).toBeNull();
    expect(places(errors)).toEqual([
      "input.name",
      "input.steps.0.name",
      "input.steps.1.args.minutes",
      "input.steps.1.args.seconds",
      "input.steps.2.args",
    ]);
    expect(places((await change("createRunbook", { name: "none", steps: [] })).errors)).toEqual(["input.steps"]);
  });

  test("an outdated revision, a duplicate name and an unknown runbook have different errors", async () => {
    const [first, second] = [await aRunbook([{ name: "erase_disks" }]), await aRunbook([{ name: "erase_disks" }])];
    await change("updateRunbook", { runbook: { name: first }, description: "x" });
    expect(
      (await change("updateRunbook", { runbook: { name: first }, ifRevision: 1, description: "y" })).errors,
    ).toMatchObject([{ type: "ConflictError", code: "STALE_REVISION", status: 409, path: ["input", "ifRevision"] }]);
    expect((await change("updateRunbook", { runbook: { name: second }, name: first })).errors).toMatchObject([
      { type: "SimpleError", code: "INVALID_INPUT", path: ["input", "name"] },
    ]);
    for (const verb of ["updateRunbook", "deleteRunbook"] as const)
      expect((await change(verb, { runbook: { name: "nowhere" } })).errors).toMatchObject([
        { type: "NotFoundError", code: "NOT_FOUND", status: 404, missing: ["nowhere"], path: ["input", "runbook"] },
      ]);
  });
});

test("a runbook has an ID, by which it is found, changed and deleted", async () => {
  const name = await aRunbook([{ name: "erase_disks" }]);
  const { runbook } = await ostler.query<{ runbook: { id: string } }>(
    "query Show($name: String!) { runbook(by: { name: $name }) { id } }",
    { name },
  );
  expect(await ostler.query("query Show($by: RunbookRef!) { runbook(by: $by) { name } }", { by: runbook })).toEqual({
    runbook: { name },
  });
  expect(await change("updateRunbook", { runbook, description: "by ID" })).toMatchObject({
    runbook: { description: "by ID" },
    errors: [],
  });
  expect((await change("deleteRunbook", { runbook })).errors).toEqual([]);
  expect((await change("deleteRunbook", { runbook })).errors).toMatchObject([
    { code: "NOT_FOUND", missing: [runbook.id] },
  ]);
});

describe("cleaning by a runbook", () => {
  test("cleanNodes with a runbook runs its steps, and Operation.runbook has its name", async () => {
    const runbook = await aRunbook([
      { name: "update_firmware", args: { version: "3.4" } },
      { interface: "POWER", name: "reboot" },
    ]);
    const names = await available(2);
    const { operation, errors, results } = await ask("cleanNodes", { nodes: { names }, runbook });
    expect(errors).toEqual([]);
    expect(operation).toMatchObject({ runbook });
    expect(results.map(({ steps }) => steps?.map((step) => `${step.interface} ${step.name}`))).toEqual(
      Array.from({ length: 2 }, () => ["CLEAN update_firmware", "POWER reboot"]),
    );
    expect(await ostler.operationEnds(operation?.uuid ?? "")).toBe("SUCCEEDED");
  });

  test("cleanNodes with an unknown runbook, or with a runbook and steps, is refused", async () => {
    const names = await available(1);
    expect(await ask("cleanNodes", { nodes: { names }, runbook: "nowhere" })).toMatchObject({
      operation: null,
      errors: [{ type: "NotFoundError", missing: ["nowhere"], path: ["input", "runbook"] }],
    });
    expect(
      (
        await ask("cleanNodes", {
          nodes: { names },
          runbook: await aRunbook([{ name: "erase_disks" }]),
          steps: [{ name: "erase_disks" }],
        })
      ).errors,
    ).toMatchObject([{ code: "INVALID_INPUT", path: ["input", "runbook"] }]);
  });

  test("cleanNodes without a runbook runs the automatic steps, and Operation.runbook is null", async () => {
    const names = await available(1);
    const { operation, results } = await ask("cleanNodes", { nodes: { names }, runbook: null, steps: null });
    expect(operation).toMatchObject({ runbook: null });
    expect(results[0]?.steps?.map(({ name }) => name)).toEqual(["erase_metadata", "erase_disks"]);
    await ostler.operationEnds(operation?.uuid ?? "");
  });
});

describe("deployment by a runbook", () => {
  test("deployNodes with a runbook runs its steps, whose interface is DEPLOY by default [R-231]", async () => {
    const runbook = await aRunbook([{ name: "configure" }], "DEPLOY");
    const steps = [{ name: "write_image" }, { interface: "ENGINE", name: "wait", args: { seconds: 0 } }];
    const { runbook: changed } = await change("updateRunbook", { runbook: { name: runbook }, steps });
    expect(changed).toMatchObject({ phase: "DEPLOY", steps: [{ interface: "DEPLOY" }, { interface: "ENGINE" }] });
    const { operation, errors } = await ask("deployNodes", { nodes: { names: await available(1) }, runbook });
    expect(errors).toEqual([]);
    expect(operation).toMatchObject({ runbook });
    expect(await ostler.operationEnds(operation?.uuid ?? "")).toBe("SUCCEEDED");
  });

  test("deployNodes with a runbook that installs no system is refused like a list that installs none [R-231, R-162]", async () => {
    const runbook = await aRunbook([{ name: "configure" }], "DEPLOY");
    expect(await ask("deployNodes", { nodes: { names: await available(1) }, runbook })).toMatchObject({
      operation: null,
      errors: [{ code: "INVALID_INPUT", path: ["input", "runbook", "steps"] }],
    });
  });

  test.each([
    ["deployNodes", "CLEAN", "erase_disks"],
    ["cleanNodes", "DEPLOY", "write_image"],
  ] as const)("%s with a runbook for %s is refused [R-231]", async (verb, phase, name) => {
    const runbook = await aRunbook([{ name }], phase);
    expect(await ask(verb, { nodes: { names: await available(1) }, runbook })).toMatchObject({
      operation: null,
      errors: [{ code: "INVALID_INPUT", path: ["input", "runbook"] }],
    });
  });
});

describe("a list of steps", () => {
  test.each(["cleanNodes", "deployNodes"] as const)("an empty list of steps in %s is refused", async (verb) => {
    const names = await available(1);
    expect(await ask(verb, { nodes: { names }, steps: [] })).toMatchObject({
      operation: null,
      errors: [{ code: "INVALID_INPUT", path: ["input", "steps"] }],
    });
  });

  test("deployNodes runs the given steps in their order", async () => {
    const names = await available(1);
    const { operation } = await ask("deployNodes", {
      nodes: { names },
      steps: [
        { interface: "DEPLOY", name: "configure" },
        { interface: "ENGINE", name: "wait", args: { seconds: 0 } },
        { interface: "DEPLOY", name: "write_image" },
      ],
    });
    expect(await ostler.operationEnds(operation?.uuid ?? "")).toBe("SUCCEEDED");
    const { operation: ran } = await ostler.query<{
      operation: { runs: { edges: { node: { node: object; steps: object[] } }[] } };
    }>(
      "query Ran($id: ID!) { operation(id: $id) { runs { edges { node { node { state stage } steps { interface name driver state } } } } } }",
      { id: operation?.uuid },
    );
    expect(ran.runs.edges[0]?.node).toEqual({
      node: { state: "ACTIVE", stage: "DEPLOYED" },
      steps: [
        { interface: "DEPLOY", name: "configure", driver: "fake", state: "SUCCEEDED" },
        { interface: "ENGINE", name: "wait", driver: "ostler", state: "SUCCEEDED" },
        { interface: "DEPLOY", name: "write_image", driver: "fake", state: "SUCCEEDED" },
      ],
    });
  });

  test("invalid steps are refused with every error per node in results, and one summary in errors", async () => {
    const names = await available(2);
    const { operation, results, errors } = await ask("deployNodes", {
      nodes: { names },
      steps: [
        { interface: "DEPLOY", name: "polish" },
        { interface: "DEPLOY", name: "prepare", args: { deep: true } },
        { interface: "CLEAN", name: "erase_disks" },
        { interface: "POWER", name: "sleep" },
      ],
    });
    const wrong = ["input.steps.0.name", "input.steps.1.args.deep", "input.steps.2.name", "input.steps.3.name"];
    expect(operation).toBeNull();
    expect(results.map((result) => [result.ref, result.accepted, places(result.errors)])).toEqual(
      names.map((name) => [name, false, wrong]),
    );
    for (const { error, errors: all } of results) expect(error).toEqual(all[0]);
    expect(errors).toMatchObject([{ code: "INVALID_INPUT", path: ["input", "steps", "0", "name"] }]);
  });

  test("an accepted node in a refused request has no errors of its own", async () => {
    const [good = "", bad = ""] = [...(await available(1)), ...(await ostler.register(1))];
    const { operation, results } = await ask("cleanNodes", {
      nodes: { names: [good, bad] },
      steps: [{ name: "erase_disks" }],
      acceptance: "BEST_EFFORT",
    });
    expect(results).toMatchObject([
      { ref: good, accepted: true, error: null, errors: [] },
      { ref: bad, accepted: false, error: { code: "INVALID_STATE" }, errors: [{ code: "INVALID_STATE" }] },
    ]);
    await ostler.operationEnds(operation?.uuid ?? "");
  });
});

describe("the interface ENGINE", () => {
  test("a node cannot take the interface ENGINE from a driver", async () => {
    const { registerNodes } = await ostler.query<{ registerNodes: { errors: object[] } }>(
      "mutation Register($input: RegisterNodesInput!) { registerNodes(input: $input) { errors { code message path } } }",
      {
        input: {
          nodes: [
            { name: "borrower", driver: { fake: {} }, interfaces: [{ kinds: ["ENGINE"], driver: { fake: {} } }] },
          ],
        },
      },
    );
    expect(registerNodes.errors).toContainEqual({
      code: "INVALID_INPUT",
      message: expect.stringContaining('no interface "engine"'),
      path: ["input", "nodes", "0", "interfaces", "0", "kinds", "0"],
    });
  });
});
