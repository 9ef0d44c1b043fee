/**
 * Size limits on JSON and reasons that callers store: checked on writing; larger values that were stored before stay
 * usable.
 */
import { afterAll, describe, expect, test } from "vitest";
import { JSON_BYTES_MAX, REASON_LENGTH_MAX } from "../../src/engine/input/size-limits.ts";
import { ALICE, engineUnderTest } from "../support/builders.ts";
import { aDriver } from "../support/driver.ts";
import { changeNode } from "../support/change-node.ts";

const ostler = await engineUnderTest({ drivers: [aDriver("roomy", { secret: true })] });
afterAll(() => ostler[Symbol.asyncDispose]());
const { engine } = ostler;
const { sql } = ostler.test;

/** An object of this size as JSON. */
const ofBytes = (bytes: number, key = "a") => ({ [key]: "x".repeat(bytes - `{"${key}":""}`.length) });
const LARGEST = ofBytes(JSON_BYTES_MAX);
const TOO_LARGE = ofBytes(JSON_BYTES_MAX + 1);
const refusal = (path: string) => [
  {
    code: "INVALID_INPUT",
    path: path.split("."),
    message: expect.stringMatching(/would take [\d,]+ bytes as JSON; at most 65,536 are stored\. .*\.$/),
  },
];

let made = 0;
const aName = () => `sized-${(made += 1)}`;
const variablesOf = async (name: string): Promise<unknown> =>
  (await sql`select variables from clusters where name = ${name}`)[0]?.["variables"];

describe("size limit of cluster variables", () => {
  test("size limit of cluster variables is inclusive and counts bytes", async () => {
    expect((await engine.createCluster(ALICE, { name: aName(), variables: LARGEST })).refusals).toEqual([]);
    expect((await engine.createCluster(ALICE, { name: aName(), variables: TOO_LARGE })).refusals).toEqual(
      refusal("input.variables"),
    );
    expect(
      (await engine.createCluster(ALICE, { name: aName(), variables: { a: "é".repeat(JSON_BYTES_MAX / 2) } })).refusals,
    ).toEqual(refusal("input.variables"));
  });

  test("size limit of cluster variables applies to the result of each update", async () => {
    const name = aName();
    await engine.createCluster(ALICE, { name, variables: ofBytes(40_000) });
    expect((await engine.updateCluster(ALICE, { name }, { variables: ofBytes(40_000, "b") })).refusals).toEqual(
      refusal("input.variables"),
    );
    expect(await variablesOf(name)).toEqual(ofBytes(40_000));
    expect(
      (await engine.updateCluster(ALICE, { name }, { variables: { a: null, ...ofBytes(40_000, "b") } })).refusals,
    ).toEqual([]);
  });

  test("size limit of cluster variables keeps larger stored values usable, and lets them shrink", async () => {
    const name = aName();
    await engine.createCluster(ALICE, { name });
    const old = { a: "x".repeat(80_000), b: "y".repeat(20_000) };
    await sql`update clusters set variables = ${sql.json(old)} where name = ${name}`;
    expect((await engine.updateCluster(ALICE, { name }, { name: `${name}-still` })).refusals).toEqual([]);
    expect((await engine.updateCluster(ALICE, { name: `${name}-still` }, { variables: { c: 1 } })).refusals).toEqual(
      refusal("input.variables"),
    );
    expect((await engine.updateCluster(ALICE, { name: `${name}-still` }, { variables: { b: null } })).refusals).toEqual(
      [],
    );
    expect(await variablesOf(`${name}-still`)).toEqual({ a: old.a });
    const node = await ostler.aNode().inCluster(`${name}-still`).in("AVAILABLE").made();
    const id = await ostler.begin("DEPLOY", [node], {});
    await ostler.operationEnds(id);
    expect(await ostler.run(id, node)).toMatchObject({ state: "SUCCEEDED", variables: { a: old.a } });
  });
});

test("size limit of request variables refuses the request as a whole and starts nothing", async () => {
  const node = await ostler.aNode().in("AVAILABLE").made();
  expect(await ostler.submit("DEPLOY", [node], { variables: TOO_LARGE })).toMatchObject({
    operationId: null,
    refusals: refusal("input.variables"),
  });
  expect((await ostler.node(node)).state).toBe("AVAILABLE");
});

test("size limit of restart variables includes the kept variables", async () => {
  const node = await ostler
    .aNode()
    .in("AVAILABLE")
    .with("fake", { steps: { "deploy.prepare": { fail: "no" } } })
    .made();
  const id = await ostler.begin("DEPLOY", [node], { variables: ofBytes(40_000) });
  await ostler.operationEnds(id);
  const restart = (variables: unknown) => engine.restart(ALICE, { work: { operationId: id }, variables });
  expect((await restart(ofBytes(40_000, "b"))).refusals).toEqual(refusal("input.variables"));
  expect((await restart({ b: 1 })).refusals).toEqual([]);
});

test("size limit of chosen and saved steps includes their arguments", async () => {
  const steps = [{ interface: "clean", name: "update_firmware", args: TOO_LARGE }] as const;
  expect((await engine.createRunbook(ALICE, { name: aName(), steps })).refusals).toEqual(refusal("input.steps"));
  const node = await ostler.aNode().in("MANAGEABLE").made();
  expect((await ostler.submit("CLEAN", [node], { options: { steps } })).refusals).toEqual(refusal("input.steps"));
});

// A reason of a megabyte could be stored with every run and every transition of ten thousand nodes.
test("size limit of reasons applies to every request with a reason", async () => {
  const node = await ostler
    .aNode()
    .in("AVAILABLE")
    .scripted({ "deploy.boot_system": { callback: true } })
    .made();
  const operationId = await ostler.begin("DEPLOY", [node]);
  await ostler.nodeBecomes(node, "DEPLOY_WAIT");
  const before = await ostler.dump();
  const work = { operationId };
  const asked = [
    (reason: string) => engine.abort(ALICE, { work, reason }),
    (reason: string) => engine.stop(ALICE, { work, reason }),
    (reason: string) => engine.withdrawAbort(ALICE, { work, reason }),
    (reason: string) => engine.unhold(ALICE, { work, reason }),
    (reason: string) => engine.steerWaves(ALICE, { operationId, action: "HALT", reason }),
    (reason: string) => ostler.submit("INSPECT", [node], { reason }),
  ];
  for (const ask of asked)
    for (const reason of ["x".repeat(REASON_LENGTH_MAX + 1), "zero\u200Bwidth", "\u202Eesrever", "\u001B[31mred"])
      expect((await ask(reason)).refusals).toEqual([
        {
          code: "INVALID_INPUT",
          path: ["input", "reason"],
          message: "Invalid reason: use at most 1000 characters on one line, without control or invisible characters.",
        },
      ]);
  expect(await ostler.changesSince(before)).toEqual([]);
  expect((await engine.abort(ALICE, { work, reason: "x".repeat(REASON_LENGTH_MAX) })).refusals).toEqual([]);
  await ostler.operationEnds(operationId);
});

test("size limit of driver settings includes their secrets, which the message does not reveal", async () => {
  const name = aName();
  const register = (settings: object) => engine.registerNodes(ALICE, [{ name, driver: "roomy", settings }]);
  const { refusals } = await register({ note: "x".repeat(60_000), password: "Xyzzy-plugh".repeat(600) });
  expect(refusals).toEqual(refusal("input.nodes.0.driver.roomy"));
  expect(JSON.stringify(refusals)).not.toContain("Xyzzy");
  const {
    nodeIds: [id = ""],
    ...answer
  } = await register({ note: "x".repeat(60_000) });
  expect(answer.refusals).toEqual([]);
  expect((await changeNode(engine, ALICE, id, { settings: { password: "Xyzzy-plugh".repeat(600) } })).refusals).toEqual(
    refusal("input.driver.roomy"),
  );
  expect(
    (
      await engine.discoverNodes(ALICE, {
        addresses: ["10.0.0.1"],
        driver: "fake",
        settings: { dead: Array.from({ length: 4_000 }, () => "bmc-of-a-machine.example") },
      })
    ).refusals,
  ).toEqual(refusal("input.driver.fake"));
});
