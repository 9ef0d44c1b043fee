/** Dry runs of abort, stop and waves through the API: groups by effect, with the time until they take effect. */
import { afterAll, describe, expect, test } from "vitest";
import { aGate } from "../support/builders.ts";
import { serviceUnderTest } from "../support/service.ts";
import { inputTypeOf } from "../support/input-type.ts";

const ostler = await serviceUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

const FORECAST =
  "forecast { effects { effect count endsAs nodeState step cutsStep powersOff changedParts conditionKnown soonestSeconds expectedSeconds upperSeconds deadlineSeconds timeoutCount examples(first: 2) { ref node { name } } } refusals { code nodeCount remedy states { state } } }";

/** The payload of a request about the work of an operation. */
async function ask(verb: string, uuid: string, more: object = {}) {
  const type = inputTypeOf(verb);
  const data = await ostler.query<
    Record<string, { readonly forecast: { readonly effects: readonly object[] } | null }>
  >(
    `mutation Ask($input: ${type}!) { ${verb}(input: $input) { operation { uuid } acceptedCount refusedCount errors { code } ${FORECAST} } }`,
    { input: { work: { operationId: uuid }, ...more } },
  );
  return data[verb];
}

/** Cleaned nodes whose later work waits at a gate in a step. */
async function available(count: number, step: string, gate: string): Promise<string[]> {
  const names = await ostler.register(count, {});
  await ostler.commission(names, "AVAILABLE");
  const settings = JSON.stringify({ fake: { steps: { [step]: { gate } } } });
  await ostler.test
    .sql`update nodes set settings = settings || ${settings}::text::jsonb where name in ${ostler.test.sql(names)}`;
  return names;
}

describe("the forecast of an abort", () => {
  test("runs are grouped by effect, those that end first before the others, with their times [R-571]", async () => {
    const gate = aGate();
    const first = await available(2, "clean.erase_metadata", gate.name);
    const late = await available(1, "clean.erase_disks", gate.name);
    const queued = await available(3, "clean.erase_metadata", gate.name);
    await ostler.test
      .sql`update attempts set started_at = finished_at - interval '500 seconds' where label = 'clean.erase_metadata'`;
    const uuid = await ostler.begin("cleanNodes", [...first, ...late, ...queued], { maxParallel: 3 });
    await gate.arrivals(3);
    await ostler.test
      .sql`update attempts set started_at = now() - interval '200 seconds' where state = 'RUNNING' and label = 'clean.erase_metadata'`;
    const dry = await ask("abort", uuid, { dryRun: true });
    expect(dry).toMatchObject({
      operation: null,
      acceptedCount: 6,
      refusedCount: 0,
      errors: [],
      forecast: {
        effects: [
          {
            effect: "BEFORE_START",
            count: 3,
            endsAs: "ABORTED",
            nodeState: "AVAILABLE",
            step: null,
            powersOff: false,
            changedParts: [],
            expectedSeconds: 0,
          },
          {
            effect: "NOW",
            count: 1,
            step: "clean.erase_disks",
            cutsStep: true,
            powersOff: true,
            changedParts: ["DISKS"],
            expectedSeconds: 0,
            examples: [{ ref: late[0] }],
          },
          {
            effect: "PENDING",
            count: 2,
            endsAs: "ABORTED",
            nodeState: "CLEAN_FAILED",
            step: "clean.erase_metadata",
            cutsStep: false,
            conditionKnown: true,
            timeoutCount: 0,
            deadlineSeconds: expect.any(Number),
            examples: first.map((ref) => ({ ref, node: { name: ref } })),
          },
        ],
        refusals: [],
      },
    });
    const pending = dry?.forecast?.effects[2] as { readonly expectedSeconds: number; readonly soonestSeconds: number };
    expect(pending.expectedSeconds).toBeGreaterThan(200);
    expect(pending.expectedSeconds).toBeLessThanOrEqual(300);
    const stop = await ask("stop", uuid, { dryRun: true, timeoutSeconds: 60 });
    expect(stop?.forecast?.effects).toContainEqual(
      expect.objectContaining({ effect: "PENDING", step: "clean.erase_metadata", count: 2, timeoutCount: 2 }),
    );
    expect(await ask("releaseHolds", uuid, { dryRun: true })).toMatchObject({
      forecast: { effects: [], refusals: [{ code: "INVALID_STATE", nodeCount: 6, remedy: expect.any(String) }] },
    });
    expect(await ask("withdrawAbort", uuid, { dryRun: true })).toMatchObject({
      forecast: { effects: [], refusals: [{ code: "NOTHING_RUNNING", nodeCount: 6 }] },
    });
    const real = await ask("abort", uuid);
    expect(real).toMatchObject({ operation: { uuid }, acceptedCount: 6, forecast: null });
    gate.open();
    expect(await ostler.operationEnds(uuid)).toBe("ABORTED");
    expect(await ask("abort", uuid, { dryRun: true })).toMatchObject({
      errors: [{ code: "NOTHING_RUNNING" }],
      forecast: null,
    });
  });

  test("a discovery is forecast by addresses, and goes on [R-571]", async () => {
    const gate = aGate();
    const { discoverNodes } = await ostler.query<{ discoverNodes: { operation: { uuid: string } } }>(
      "mutation Discover($input: DiscoverNodesInput!) { discoverNodes(input: $input) { operation { uuid } } }",
      { input: { addresses: ["10.6.0.0/29"], driver: { fake: { gate: gate.name } } } },
    );
    const { uuid } = discoverNodes.operation;
    await gate.arrivals();
    const before = await ostler.dump(["clock"]);
    for (const [verb, effect] of [
      ["abort", "NOW"],
      ["stop", "PENDING"],
    ] as const)
      expect(await ask(verb, uuid, { dryRun: true })).toMatchObject({
        operation: null,
        errors: [],
        forecast: { effects: [{ effect, endsAs: "STOPPED", nodeState: null, count: 6, examples: [] }] },
      });
    expect(await ostler.dump(["clock"])).toBe(before);
    gate.open();
    expect(await ostler.operationEnds(uuid)).not.toBe("ABORTED");
  });
});

test("dryRun of haltWaves returns a forecast, and one of an operation without waves the refusal [R-570]", async () => {
  const gate = aGate();
  const names = await available(3, "deploy.prepare", gate.name);
  const uuid = await ostler.begin("deployNodes", names, { waves: { sizes: [{ count: 1 }] } });
  await gate.arrivals(1);
  const halt = (operationId: string, dryRun: boolean) =>
    ostler.query(
      "mutation Halt($input: HaltWavesInput!) { haltWaves(input: $input) { operation { rollout { state } } errors { code } forecast { state wave startingCount withdrawnCount activeCount waitingCount forgivenFailures examples { name } } } }",
      { input: { operationId, dryRun } },
    );
  const counts = { startingCount: 0, withdrawnCount: 0, activeCount: 1, waitingCount: 2, forgivenFailures: 0 };
  expect(await halt(uuid, true)).toEqual({
    haltWaves: {
      operation: { rollout: { state: "RUNNING" } },
      errors: [],
      forecast: { state: "HALTED", wave: 1, ...counts, examples: [] },
    },
  });
  expect(await halt(uuid, false)).toMatchObject({
    haltWaves: { operation: { rollout: { state: "HALTED" } }, forecast: null },
  });
  expect(await halt("no-uuid", true)).toMatchObject({ haltWaves: { errors: [{ code: "NOT_FOUND" }], forecast: null } });
  gate.open();
  await ostler.query(
    'mutation Abort($id: ID!) { abort(input: { work: { operationId: $id }, mode: FORCE, reason: "end" }) { errors { code } } }',
    { id: uuid },
  );
});
