/** `attention` and `attentionChanges`, with fake machines that fail, hold, stop and stand still. */
import { afterAll, describe, expect, test } from "vitest";
import { aGate } from "../support/builders.ts";
import { eventually } from "../support/eventually.ts";
import { serviceUnderTest } from "../support/service.ts";
import { inputTypeOf } from "../support/input-type.ts";

const statements: string[] = [];
const gate = aGate();
const ostler = await serviceUnderTest({ onStatement: (text) => void statements.push(text) });
afterAll(async () => {
  gate.open();
  await ostler[Symbol.asyncDispose]();
});

interface Group {
  readonly kind: string;
  readonly state: string | null;
  readonly code: string | null;
  readonly step: string | null;
  readonly driver: string | null;
  readonly detail: string | null;
  readonly cause: string;
  readonly message: string | null;
  readonly remedy: string;
  readonly nodeCount: number;
  readonly nodes: readonly { readonly name: string }[];
  readonly suggestion: {
    readonly action: string;
    readonly mutation: string;
    readonly input: object;
    readonly inputForAll: object | null;
  } | null;
}
interface Answer {
  readonly groups: readonly Group[];
  readonly groupCount: number;
  readonly otherGroupCount: number;
  readonly nodeCount: number;
  readonly maintenanceCount: number;
  readonly cursor: string;
}

/** A document of the query, or of the subscription with the same arguments. */
const asking = (kind: string, field: string) =>
  `${kind} Attention($filter: NodeFilter, $kinds: [AttentionKind!], $first: Int! = 20, $nodesMax: Int! = 5) {
    attention: ${field}(filter: $filter, kinds: $kinds, first: $first, nodesMax: $nodesMax) {
      groups { kind state code step driver detail cause causeCount message remedy nodeCount since nodes { name } suggestion { action mutation input inputForAll } }
      cursor groupCount otherGroupCount nodeCount maintenanceCount
    }
  }`;
const CHANGES = asking("subscription", "attentionChanges");

async function attention(variables: Readonly<Record<string, unknown>> = {}): Promise<Answer> {
  const data = await ostler.query<{ attention: Answer }>(asking("query", "attention"), variables);
  return data.attention;
}

const of = (names: readonly string[]) => ({ filter: { name: { in: names } } });

/** Sends the suggestion as it is, and returns the refusals. */
async function follow({ suggestion }: Group, forAll = false): Promise<readonly { readonly message: string }[]> {
  if (!suggestion) throw new Error("There is no suggestion.");
  const { mutation, inputForAll } = suggestion;
  const input = forAll ? inputForAll : suggestion.input;
  const type = inputTypeOf(mutation);
  const data = await ostler.query<Record<string, { errors: { message: string }[] }>>(
    `mutation Follow($input: ${type}!) { ${mutation}(input: $input) { errors { message } } }`,
    { input },
  );
  return data[mutation]?.errors ?? [];
}

async function failing(count: number, fail: string): Promise<string[]> {
  const names = await ostler.register(count, { steps: { "clean.erase_disks": { fail } } });
  await ostler.operationEnds(await ostler.begin("commissionNodes", names, { onFailure: "LEAVE" }));
  return names;
}

describe("attention", () => {
  test("failed nodes are grouped by code, step and driver, and the suggested restart is accepted [R-575, R-576]", async () => {
    const broken = await failing(3, "the disk is broken");
    const login = await ostler.register(1, { refusesLogin: true });
    await ostler.operationEnds(await ostler.begin("manageNodes", login));
    const { groups, groupCount, nodeCount } = await attention(of([...broken, ...login]));
    expect({ groupCount, nodeCount }).toEqual({ groupCount: 2, nodeCount: 4 });
    expect(groups).toMatchObject([
      {
        kind: "FAILED",
        state: "CLEAN_FAILED",
        code: "BACKEND_FAILED",
        step: "clean.erase_disks",
        driver: "fake",
        nodeCount: 3,
      },
      { kind: "FAILED", state: "ENROLLED", code: "BACKEND_FAILED", step: "power.verify", driver: "fake", nodeCount: 1 },
    ]);
    expect(groups[0]).toMatchObject({
      cause: "the disk is broken",
      causeCount: 1,
      remedy: expect.stringMatching(/^Fix/) as string,
    });
    expect(groups[0]?.message).toMatch(/^Node \S+: clean\.erase_disks failed: the disk is broken\.$/);
    expect(groups[0]?.suggestion).toMatchObject({ action: "RESTART", mutation: "restart" });
    expect(await follow(groups[0] as Group)).toEqual([]);
  });

  test("the cause of a group is that of the oldest node, and different causes are counted [R-843]", async () => {
    const names = [...(await failing(1, "the disk is worn out")), ...(await failing(2, "the disk is missing"))];
    const { groups } = await attention(of(names));
    expect(groups).toMatchObject([{ nodeCount: 3, cause: "the disk is worn out", causeCount: 2 }]);
    const { nodes } = await ostler.query<{ nodes: { nodes: { lastError: { cause: string } }[] } }>(
      "query Causes($names: [String!]!) { nodes(filter: { name: { in: $names } }) { nodes { lastError { cause } } } }",
      { names },
    );
    const causes = nodes.nodes.map(({ lastError }) => lastError.cause).toSorted();
    expect(causes).toEqual(["the disk is missing", "the disk is missing", "the disk is worn out"]);
  });

  test("groups that `first` leaves out are counted, and nodes up to `nodesMax` are named", async () => {
    const broken = await failing(3, "broken");
    const [alone = ""] = await ostler.register(1, { refusesLogin: true });
    await ostler.operationEnds(await ostler.begin("manageNodes", [alone]));
    const { groups, otherGroupCount } = await attention({ ...of([...broken, alone]), first: 1, nodesMax: 2 });
    expect({ sizes: groups.map(({ nodes }) => nodes.length), otherGroupCount }).toEqual({
      sizes: [2],
      otherGroupCount: 1,
    });
  });

  const onHold = async (count: number) => {
    const names = await ostler.register(count);
    await ostler.commission(names, "AVAILABLE");
    await ostler.begin("cleanNodes", names, { steps: [{ interface: "ENGINE", name: "hold", args: {} }] });
    await eventually("the hold is shown", async () => (await attention(of(names))).groups[0]?.nodeCount === count);
    return names;
  };

  test("a hold is shown, and the suggested release is accepted [R-575, R-576]", async () => {
    const { groups } = await attention(of(await onHold(1)));
    expect(groups).toMatchObject([{ kind: "ON_HOLD", state: "CLEAN_HOLD", suggestion: { action: "RELEASE_HOLDS" } }]);
    expect(await follow(groups[0] as Group)).toEqual([]);
  });

  test("the release of all holds of a group within a filter reached those of other operations there [R-644]", async () => {
    const [names, others] = [await onHold(3), await onHold(1)];
    const { groups } = await attention({ ...of([...names, ...others]), nodesMax: 1 });
    expect(groups[0]?.suggestion?.inputForAll).toMatchObject({ work: { filter: { states: ["CLEAN_HOLD"] } } });
    expect(await follow(groups[0] as Group, true)).toEqual([]);
    expect((await attention(of(names))).groupCount).toBe(0);
    expect((await attention(of(others))).groups).toMatchObject([{ kind: "ON_HOLD", nodeCount: 1 }]);
  });

  test("a step is stuck after 90 % of its earlier attempts, or after an hour without them [R-577]", async () => {
    const names = await ostler.register(1, { steps: { "inspect.collect_inventory": { gate: gate.name } } });
    await ostler.begin("commissionNodes", names);
    await gate.arrivals();
    const began = (minutes: number) =>
      ostler.test
        .sql`update attempts set started_at = now() - make_interval(mins => ${minutes}) where state = 'RUNNING' and label = 'inspect.collect_inventory'`;
    const past = (minutes: number) =>
      ostler.test
        .sql`update attempts set started_at = finished_at - make_interval(mins => ${minutes}) where state = 'SUCCEEDED' and label = 'inspect.collect_inventory'`;
    const kinds = async () => (await attention(of(names))).groups.map(({ kind, step }) => [kind, step]);
    await ostler.commission(await ostler.register(6), "AVAILABLE");
    expect(await kinds()).toEqual([]);
    await began(2);
    expect(await kinds()).toEqual([["STUCK", "inspect.collect_inventory"]]);
    await past(10);
    expect(await kinds()).toEqual([]);
    await began(11);
    expect(await kinds()).toEqual([["STUCK", "inspect.collect_inventory"]]);
    await ostler.test
      .sql`update attempts set label = 'other' where state = 'SUCCEEDED' and label = 'inspect.collect_inventory'`;
    expect(await kinds()).toEqual([]);
    await began(61);
    const { groups } = await attention(of(names));
    expect(groups).toMatchObject([{ kind: "STUCK", suggestion: { action: "ABORT" } }]);
    expect(await follow(groups[0] as Group)).toEqual([]);
  });

  test("halted waves, faults, drift, disappeared nodes and long maintenance are shown [R-575]", async () => {
    const names = await ostler.register(5);
    await ostler.test
      .sql`update nodes set fault_kind = 'BMC_UNREACHABLE', fault_since = now(), fault_message = 'silent' where name = ${names[0] ?? ""}`;
    await ostler.test.sql`update nodes set power_state = 'OFF', wanted_power = 'ON' where name = ${names[1] ?? ""}`;
    await ostler.test.sql`update nodes set presence = 'DISAPPEARED' where name = ${names[2] ?? ""}`;
    await ostler.test
      .sql`update nodes set presence = 'DISAPPEARED', maintenance_since = now() - interval '8 days', maintenance_reason = 'fan' where name = ${names[3] ?? ""}`;
    await ostler.test
      .sql`update nodes set presence = 'DISAPPEARED', maintenance_since = now(), maintenance_reason = 'fan' where name = ${names[4] ?? ""}`;
    const { groups, maintenanceCount } = await attention(of(names));
    expect(maintenanceCount).toBe(2);
    expect(
      groups.map(({ kind, detail, nodes, suggestion }) => [kind, detail, nodes[0]?.name, suggestion?.action]),
    ).toEqual([
      ["DISAPPEARED", null, names[2], undefined],
      ["FAULT", "BMC_UNREACHABLE", names[0], "READ_POWER"],
      ["MAINTENANCE", null, names[3], "CLEAR_MAINTENANCE"],
      ["POWER_DRIFT", "ON", names[1], "POWER"],
    ]);
    const waves = await ostler.register(2, { refusesLogin: true });
    await ostler.begin("manageNodes", waves, { waves: { sizes: [{ count: 1 }], maxFailures: { count: 0 } } });
    const { groups: halted } = await eventually("the waves are halted", async () => {
      const found = await attention({ ...of(waves), kinds: ["WAVES_HALTED"] });
      return found.groupCount > 0 && found;
    });
    expect(halted).toMatchObject([
      { kind: "WAVES_HALTED", detail: "HALTED", nodeCount: 1, suggestion: { action: "RESUME_WAVES" } },
    ]);
    expect(await follow(halted[0] as Group)).toEqual([]);
  });

  test("the input for all of a group reaches its nodes within the filter of the request, and no others [R-644]", async () => {
    const broken = await failing(3, "the disk is broken");
    const others = await failing(1, "the disk is broken");
    const { groups } = await attention({ ...of(broken), nodesMax: 1 });
    expect(groups[0]?.suggestion?.inputForAll).toMatchObject({
      work: { filter: { states: ["CLEAN_FAILED"], errorCodes: ["BACKEND_FAILED"], or: [of(broken).filter] } },
    });
    const runs = async () =>
      (
        await ostler.test.sql<{ name: string; count: number }[]>`
          select node_name as name, count(*)::int as count from runs where node_name = any(${[...broken, ...others]}) group by 1 order by 1`
      ).map(({ count }) => count);
    expect(await runs()).toEqual([1, 1, 1, 1]);
    expect(await follow(groups[0] as Group, true)).toEqual([]);
    expect(await runs()).toEqual([2, 2, 2, 1]);
  });

  test("a wait after a step is stuck after 90 % of the earlier ones, or after an hour without them [R-577]", async () => {
    const [name = ""] = await ostler.register(1);
    await ostler.commission([name], "AVAILABLE");
    const [run] = await ostler.test.sql<{ id: string; step: number; label: string }[]>`
      select r.id, a.step, a.label from runs r join attempts a on a.run_id = r.id where r.node_name = ${name} order by a.step limit 1`;
    if (!run) throw new Error("There is no step.");
    await ostler.test
      .sql`update attempts set label = 'past.' || label where label = ${run.label} and run_id <> ${run.id}`;
    // The run waits after its first step, which ended two minutes ago. It names no slot, so the service leaves it
    // alone.
    await ostler.test.sql`delete from attempts where run_id = ${run.id} and step > ${run.step}`;
    await ostler.test.sql`update attempts set finished_at = now() - interval '2 minutes' where run_id = ${run.id}`;
    await ostler.test
      .sql`update runs set state = 'WAITING', wait_reason = 'CAPACITY', wake_at = now() + interval '1 day', waiting_since = now() - interval '2 minutes', position = ${run.step + 1}, finished_at = null where id = ${run.id}`;
    const stuck = async () =>
      (await attention({ ...of([name]), kinds: ["STUCK", "WAITING"] })).groups.map(({ kind, step, detail }) => [
        kind,
        step,
        detail,
      ]);
    expect(await stuck()).toEqual([]);
    await ostler.commission(await ostler.register(6), "AVAILABLE");
    expect(await stuck()).toEqual([["STUCK", run.label, "CAPACITY"]]);
    await ostler.test
      .sql`update attempts set label = 'past.' || label where label = ${run.label} and run_id <> ${run.id}`;
    expect(await stuck()).toEqual([]);
    await ostler.test.sql`update attempts set finished_at = now() - interval '61 minutes' where run_id = ${run.id}`;
    expect(await stuck()).toEqual([["STUCK", run.label, "CAPACITY"]]);
    // Work that has not begun.
    await ostler.test.sql`delete from attempts where run_id = ${run.id}`;
    await ostler.test.sql`update runs set position = 0, wait_reason = null where id = ${run.id}`;
    expect(await stuck()).toEqual([]);
    await ostler.test.sql`update runs set created_at = now() - interval '61 minutes' where id = ${run.id}`;
    expect(await stuck()).toEqual([["WAITING", null, "QUEUED"]]);
    await ostler.test
      .sql`update runs set state = 'SUCCEEDED', finished_at = now(), wake_at = null where id = ${run.id}`;
  });

  test("the cursor is that of the newest transition as of the answer", async () => {
    const { cursor } = await attention();
    const { transitions } = await ostler.query<{ transitions: { nodes: { cursor: string }[] } }>(
      "{ transitions(last: 1) { nodes { cursor } } }",
    );
    expect(transitions.nodes[0]?.cursor).toBe(cursor);
  });

  test("the groups are one statement [R-578]", async () => {
    statements.length = 0;
    await ostler.query("{ attention { groups { kind cause nodeCount } nodeCount } }");
    expect(statements.filter((text) => text.includes('from "nodes"'))).toHaveLength(1);
  });

  test.each([
    { first: 0, says: "`first` is 0; use 1 to 100." },
    { nodesMax: 101, says: "`nodesMax` is 101; use 1 to 100." },
  ])("attention with %j is refused", async ({ first = 20, nodesMax = 5, says }) => {
    const { errors } = await ostler.ask(`{ attention(first: ${first}, nodesMax: ${nodesMax}) { groupCount } }`);
    expect(errors).toMatchObject([{ message: says, extensions: { code: "BAD_USER_INPUT" } }]);
  });
});

describe("attentionChanges", () => {
  const kindsIn = ({ groups }: Answer) => groups.map(({ kind }) => kind).toSorted();

  test.each(["overSocket", "overEvents"] as const)(
    "what needs a person is emitted %s: the present answer, then each change, without a transition [R-790]",
    async (way) => {
      const [name = ""] = await ostler.register(1);
      const items = ostler[way]<{ attention: Answer }>(CHANGES, of([name]));
      const next = async () => ((await items.next()).value as { attention: Answer }).attention;
      expect(await next()).toMatchObject({ groups: [], nodeCount: 0 });
      await ostler.test
        .sql`update nodes set fault_kind = 'BMC_UNREACHABLE', fault_since = now(), fault_message = 'silent' where name = ${name}`;
      const faulty = await next();
      expect(faulty).toEqual(await attention(of([name])));
      expect(kindsIn(faulty)).toEqual(["FAULT"]);
      await ostler.test
        .sql`update nodes set fault_kind = null, fault_since = null, fault_message = null where name = ${name}`;
      expect(await next()).toMatchObject({ groups: [] });
      await items.return?.();
    },
  );

  test("what begins to need a person by time alone is emitted [R-791]", async () => {
    const names = await ostler.register(["in-maintenance", "is-stuck", "has-not-begun"]);
    await ostler.commission(names, "AVAILABLE");
    const { sql } = ostler.test;
    const [maintained = "", stuck = "", waiting = ""] = names;
    const runs = sql`select id from runs where node_name in (${stuck}, ${waiting})`;
    // The stuck run is in its first step, which nothing has taken before; the other one has not begun.
    await sql`delete from attempts where run_id in (${runs}) and (step > 0 or run_id in (select id from runs where node_name = ${waiting}))`;
    await sql`update runs set state = 'WAITING', wake_at = now() + interval '1 day', position = 0, finished_at = null where id in (${runs})`;
    await sql`update attempts set step = 0, label = 'test.slow' where run_id in (${runs})`;
    const items = ostler.overSocket<{ attention: Answer }>(CHANGES, of(names));
    expect((await items.next()).value).toMatchObject({ attention: { groups: [] } });
    // Each limit is passed two seconds after its line, when nothing is written any more.
    await sql`update attempts set started_at = now() - interval '59 minutes 58 seconds' where run_id in (${runs})`;
    await sql`update runs set created_at = now() - interval '59 minutes 58 seconds' where node_name = ${waiting}`;
    await sql`update nodes set maintenance_since = now() - interval '7 days' + interval '2 seconds', maintenance_reason = 'fan' where name = ${maintained}`;
    for await (const { attention: answer } of items) if (answer.groupCount === 3) break;
    expect(kindsIn(await attention(of(names)))).toEqual(["MAINTENANCE", "STUCK", "WAITING"]);
    await sql`update runs set state = 'SUCCEEDED', finished_at = now(), wake_at = null where id in (${runs})`;
  });

  test("subscribers with equal filters share each read [R-792]", async () => {
    const [name = ""] = await ostler.register(1);
    const reads = () => statements.filter((text) => text.includes("fleet as materialized")).length;
    statements.length = 0;
    const streams = Array.from({ length: 50 }, () =>
      ostler.overSocket<{ attention: Answer }>(CHANGES, { ...of([name]), kinds: ["FAULT"] }),
    );
    await Promise.all(streams.map((items) => items.next()));
    await ostler.test
      .sql`update nodes set fault_kind = 'BMC_UNREACHABLE', fault_since = now(), fault_message = 'silent' where name = ${name}`;
    for (const items of streams) expect((await items.next()).value).toMatchObject({ attention: { nodeCount: 1 } });
    expect(reads()).toBeLessThan(5);
    for (const items of streams) await items.return?.();
  });

  test("attentionChanges with a filter that streams refuse is refused", async () => {
    const client = ostler.client();
    const variables = { filter: { serial: "x" } };
    const { value } = await client.iterate({ query: CHANGES, variables }).next();
    expect(JSON.stringify(value)).toMatch(/A stream cannot filter by `serial`/);
    await client.dispose();
  });
});
