/**
 * Discovery: probes addresses and registers the machines that answer, through driver faults, lost processes and
 * interrupts.
 */
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, describe, expect, test } from "vitest";
import type { SQL } from "drizzle-orm";
import * as z from "zod";
import type { Deadline } from "../../src/drivers/deadline.ts";
import type { DiscoverCall, DiscoverInterface, Driver } from "../../src/drivers/driver.ts";
import type { DiscoverRequest } from "../../src/engine/discovery/discover.ts";
import { isFingerprintOf } from "../../src/engine/input/secret-fingerprint.ts";
import type { Database, Tx } from "../../src/store/postgres/database.ts";
import { discoveriesPages } from "../../src/store/operations/discoveries.ts";
import type { DiscoveryRow } from "../../src/store/operations/discoveries.ts";
import { nodesByNames } from "../../src/store/nodes/nodes.ts";
import type { operations } from "../../src/store/tables.ts";
import { SECRETS } from "../../src/store/secrets/secrets.ts";
import { secretsIn, secretsOf } from "../support/keyring.ts";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import type { EngineUnderTest } from "../support/builders.ts";
import { aDriver } from "../support/driver.ts";
import { eventually } from "../support/eventually.ts";

const PASSWORD = "Xyzzy-plugh-7#!";

/** A driver whose probe a test defines per address. */
const probes = new Map<string, (call: DiscoverCall) => unknown>();
const discovering = (name: string, more: object = {}): Driver<never> =>
  ({
    ...aDriver(name, { secret: true }),
    discover: {
      settings: z.strictObject({ password: z.string().optional().meta({ writeOnly: true }) }),
      probe: async (call: DiscoverCall) =>
        (probes.get(call.address) ?? (() => ({ settings: { at: call.address } })))(call),
    },
    ...more,
  }) as unknown as Driver<never>;
const plain = discovering("plain");
const finder = discovering("finder", { controllerOf: ({ at }: { at?: string }) => at ?? "" });

const login = z.strictObject({ user: z.string(), port: z.int().default(22) });
/** The settings of its probe have the type of their schema: tsc fails if they do not. */
const typed: DiscoverInterface<object, z.output<typeof login>> = {
  settings: login,
  probe: async ({ address, settings: { user, port } }) => ({
    settings: { at: `${user.toUpperCase()}@${address}:${port.toFixed()}` },
  }),
};

const ostler = await engineUnderTest({
  drivers: [plain, finder, aDriver("blind"), discovering("typed", { discover: typed })],
  probeMs: 2_000,
});
afterAll(() => ostler[Symbol.asyncDispose]());

/** Runs once, after the next transaction has read an operation: changes that happen between two reads. */
let betweenReads: (() => Promise<unknown>) | null = null;

function interruptingReads(database: Database): Database {
  const withInterruption = (tx: Tx): Tx =>
    new Proxy(tx, {
      get(target, key) {
        const value: unknown = Reflect.get(target, key, target);
        if (key !== "select" || betweenReads === null) return value;
        const what = betweenReads;
        return () => ({
          from: (table: typeof operations) => ({
            where: async (condition: SQL | undefined) => {
              const found = await target.select().from(table).where(condition);
              betweenReads = null;
              await what();
              return found;
            },
          }),
        });
      },
    });
  return { ...database, transaction: (work) => database.transaction((tx) => work(withInterruption(tx))) };
}

let networks = 0;
/** A network for one test: 10.1.0.x, 10.2.0.x … */
const aNetwork = () => {
  networks += 1;
  const at = `10.${networks}.0`;
  return { range: (prefix: number) => `${at}.0/${prefix}`, host: (number: number) => `${at}.${number}` };
};

const ask = (request: Partial<DiscoverRequest>) =>
  ostler.engine.discoverNodes(ALICE, { addresses: [], driver: "fake", ...request });

async function begin(request: Partial<DiscoverRequest>): Promise<string> {
  const { operationId, refusals } = await ask(request);
  expect(refusals).toEqual([]);
  return operationId ?? "";
}

async function rows(operationId: string, of: EngineUnderTest = ostler): Promise<readonly DiscoveryRow[]> {
  return (await discoveriesPages(of.database.reader, [operationId], { limit: 4096 })).get(operationId)?.rows ?? [];
}

const states = async (operationId: string) =>
  Object.fromEntries((await rows(operationId)).map(({ address, state }) => [address, state]));
const nodeNamed = async (name: string) => (await nodesByNames(ostler.database.reader, [name]))[0];

describe("discovered machine", () => {
  test("discovered machine is registered ENROLLED with the result of its probe, in a transition that names the operation [R-016]", async () => {
    const { range, host } = aNetwork();
    await ostler.engine.createCluster(ALICE, { name: "found" });
    const id = await begin({
      addresses: [range(30)],
      settings: { password: PASSWORD, names: { [host(1)]: "rack1-u1" } },
      namePrefix: "bmc-",
      labels: { row: "7" },
      cluster: { name: "found" },
      reason: "new row",
    });
    expect(await ostler.operationEnds(id)).toMatchObject({
      kind: "DISCOVER",
      state: "SUCCEEDED",
      totalCount: 2,
      startedAt: expect.any(Date),
      firstFailure: null,
    });
    const [named, unnamed] = [await nodeNamed("rack1-u1"), await nodeNamed(`bmc-${host(2)}`)];
    expect(named).toMatchObject({
      state: "ENROLLED",
      driver: "fake",
      controller: host(1),
      labels: { row: "7" },
      presence: "UNSEEN",
      revision: 1,
      settings: { fake: { controller: host(1) } },
    });
    expect(named?.clusterId).not.toBeNull();
    expect(await secretsOf(ostler.database, named?.id ?? "")).toEqual({ fake: { password: PASSWORD } });
    expect(await ostler.transitions({ id: unnamed?.id ?? "", name: "" })).toMatchObject([
      {
        event: "register",
        fromState: null,
        toState: "ENROLLED",
        sequence: 1,
        operationId: id,
        actor: "alice",
        reason: "new row",
      },
    ]);
    expect(await rows(id)).toMatchObject([
      { ordinal: 0, address: host(1), state: "REGISTERED", nodeId: named?.id, failure: null },
      { ordinal: 1, address: host(2), state: "REGISTERED", nodeId: unnamed?.id, failure: null },
    ]);
    expect(await ostler.foldedLog()).toEqual(await ostler.nodeStates());
  });

  test("a probe gets its settings with the type and the defaults of their schema", async () => {
    const { host } = aNetwork();
    await ostler.operationEnds(await begin({ driver: "typed", addresses: [host(1)], settings: { user: "root" } }));
    expect((await nodeNamed(host(1)))?.settings).toEqual({ typed: { at: `ROOT@${host(1)}:22` } });
  });

  test("discovered machine can be managed at once", async () => {
    const { host } = aNetwork();
    await ostler.operationEnds(await begin({ addresses: [host(1)] }));
    const node = await nodeNamed(host(1));
    const id = await ostler.begin("MANAGE", [{ id: node?.id ?? "", name: host(1) }]);
    expect(await ostler.operationEnds(id)).toMatchObject({ state: "SUCCEEDED" });
  });

  test("discovered machine gets a valid name, with a number if the name is taken", async () => {
    const { range, host } = aNetwork();
    const taken = await ostler.aNode().named("same").made();
    const names = {
      [host(1)]: "same",
      [host(2)]: "same",
      [host(3)]: "same",
      [host(4)]: " rack 2/u 7 ",
      [host(5)]: "???",
      [host(6)]: "x".repeat(253),
    };
    const id = await begin({ addresses: [range(29), "2001:db8::7"], settings: { names } });
    await ostler.operationEnds(id);
    const registered = await rows(id);
    const found = await ostler.test.sql<
      { id: string; name: string }[]
    >`select id, name from nodes where id in ${ostler.test.sql(registered.map(({ nodeId }) => nodeId ?? ""))}`;
    const nameOf = (index: number) => found.find((node) => node.id === registered[index]?.nodeId)?.name;
    expect(new Set([nameOf(0), nameOf(1), nameOf(2)])).toEqual(new Set(["same-2", "same-3", "same-4"]));
    expect([nameOf(3), nameOf(4), nameOf(5), nameOf(6)]).toEqual([
      "rack-2-u-7",
      host(5),
      "x".repeat(253),
      "2001-db8-7",
    ]);
    expect((await ostler.node(taken)).name).toBe("same");
  });

  test("discovered machine that is registered at another address is KNOWN by its serial number or UUID, and not registered twice", async () => {
    const { host } = aNetwork();
    const uuid = "4c4c4544-0043-5310-8052-b4c04f4e3233";
    const reported = [
      { serial: "SN-1", uuid },
      { serial: " sn-1 " },
      { uuid: "44454c4c-4300-1053-8052-b4c04f4e3233" },
      { serial: "NA" },
    ];
    for (const [index, of] of reported.entries())
      probes.set(host(index + 1), ({ address }) => ({ settings: { at: address }, ...of }));
    const found: string[] = [];
    for (const index of reported.keys()) {
      const id = await begin({ addresses: [host(index + 1)], driver: "finder" });
      await ostler.operationEnds(id);
      found.push(...(await rows(id)).map(({ state }) => state));
    }
    expect(found).toEqual(["REGISTERED", "KNOWN", "KNOWN", "REGISTERED"]);
  });

  test("address with two machines has a result for each, behind those of the request [R-800]", async () => {
    const { range, host } = aNetwork();
    const both = [{ settings: { at: "one" }, name: "of-one" }, { settings: { at: "two" } }, { settings: 7 }];
    probes.set(host(1), () => both);
    const id = await begin({ addresses: [range(30)], driver: "finder", namePrefix: "bmc-" });
    expect(await ostler.operationEnds(id)).toMatchObject({ state: "PARTIALLY_SUCCEEDED", totalCount: 4 });
    const [first, second] = [await nodeNamed("of-one"), await nodeNamed(`bmc-${host(1)}`)];
    expect(await rows(id)).toMatchObject([
      { ordinal: 0, address: host(1), state: "REGISTERED", nodeId: first?.id },
      { ordinal: 1, address: host(2), state: "REGISTERED" },
      { ordinal: 2, address: host(1), state: "REGISTERED", nodeId: second?.id },
      { ordinal: 3, address: host(1), state: "FAILED" },
    ]);
    const again = await begin({ addresses: [host(1)], driver: "finder" });
    await ostler.operationEnds(again);
    expect((await rows(again)).map(({ state }) => state)).toEqual(["KNOWN", "KNOWN", "FAILED"]);
  });

  test("discovered machine that is registered already is KNOWN by its controller, or by its settings if the driver names no controller", async () => {
    const { range, host } = aNetwork();
    const byHand = await ostler
      .aNode()
      .with("fake", { controller: host(1) })
      .made();
    const mixed = await ostler
      .aNode()
      .with("blind")
      .borrowing([{ kinds: ["power"], driver: "fake", settings: { controller: host(2) } }])
      .made();
    await ostler
      .aNode()
      .with("blind", { controller: host(3) })
      .made();
    const first = await begin({ addresses: [range(29)], settings: { password: PASSWORD } });
    expect(await ostler.operationEnds(first)).toMatchObject({ state: "SUCCEEDED" });
    expect(await rows(first)).toMatchObject([
      { state: "KNOWN", nodeId: byHand.id },
      { state: "KNOWN", nodeId: mixed.id },
      ...Array.from({ length: 4 }, () => ({ state: "REGISTERED" })),
    ]);
    const second = await begin({ addresses: [range(29)], settings: { password: "another-password" } });
    expect(await ostler.operationEnds(second)).toMatchObject({ state: "SUCCEEDED" });
    expect(new Set(Object.values(await states(second)))).toEqual(new Set(["KNOWN"]));
    for (const state of ["REGISTERED", "KNOWN"]) {
      const id = await begin({ addresses: [host(1)], driver: "plain" });
      await ostler.operationEnds(id);
      expect(await states(id)).toEqual({ [host(1)]: state });
    }
  });

  test("discovered machine that two discoveries find at once, or under two names, is registered once", async () => {
    const { host } = aNetwork();
    const same = `same-machine-${host(0)}`;
    for (const number of [1, 2, 3, 4]) probes.set(host(number), () => ({ settings: { at: same } }));
    const ids = await Promise.all([
      begin({ addresses: [host(1), host(2)], driver: "finder" }),
      begin({ addresses: [host(3), host(4)], driver: "finder" }),
    ]);
    for (const id of ids) await ostler.operationEnds(id);
    const all = (await Promise.all(ids.map((id) => rows(id)))).flat();
    expect(all.map(({ state }) => state).toSorted()).toEqual(["KNOWN", "KNOWN", "KNOWN", "REGISTERED"]);
    expect(new Set(all.map(({ nodeId }) => nodeId)).size).toBe(1);
  });
});

describe("failed probe", () => {
  test("failed probe is listed with its failure, and the operation is PARTIALLY_SUCCEEDED [R-017]", async () => {
    const { range, host } = aNetwork();
    const id = await begin({ addresses: [range(29)], settings: { dead: [host(2)], refusesLogin: [host(4)] } });
    const operation = await ostler.operationEnds(id);
    expect(operation.state).toBe("PARTIALLY_SUCCEEDED");
    expect(operation.firstFailure?.message).toMatch(/Nothing answers|refuses the login/);
    const failed = (await rows(id)).filter(({ state }) => state === "FAILED");
    expect(failed).toMatchObject([
      {
        address: host(2),
        nodeId: null,
        failure: {
          code: "BACKEND_FAILED",
          kind: "UNREACHABLE",
          message: expect.stringContaining(host(2)),
          retryable: true,
        },
      },
      {
        address: host(4),
        nodeId: null,
        failure: {
          code: "BACKEND_FAILED",
          kind: "AUTHENTICATION",
          message: expect.stringContaining("refuses the login"),
          retryable: false,
        },
      },
    ]);
  });

  test("failed probe at every address fails the operation with the first failure", async () => {
    const { host } = aNetwork();
    const id = await begin({ addresses: [host(1), host(2)], settings: { dead: [host(1), host(2)] } });
    expect(await ostler.operationEnds(id)).toMatchObject({ state: "FAILED", firstFailure: { kind: "UNREACHABLE" } });
  });

  test("failed probe: a probe that exceeds its timeout fails, even if the driver ignores its signal", async () => {
    const { host } = aNetwork();
    probes.set(host(1), () => new Promise(() => {}));
    probes.set(
      host(2),
      ({ signal }) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
    );
    const id = await begin({ addresses: [host(1), host(2), host(3)], driver: "plain" });
    expect(await ostler.operationEnds(id)).toMatchObject({ state: "PARTIALLY_SUCCEEDED" });
    expect(await rows(id)).toMatchObject([
      { failure: { code: "TIMEOUT", message: expect.stringContaining("within 2 s") } },
      { failure: { code: "TIMEOUT" } },
      { state: "REGISTERED" },
    ]);
  });

  test("probe timeout starts when the probe has a slot in its driver's processes", async () => {
    const { host } = aNetwork();
    probes.set(host(1), async ({ address, deadline }) => {
      (deadline as Deadline).hold();
      // Longer than the timeout of a probe.
      await delay(800);
      (deadline as Deadline).resume();
      return { settings: { at: address } };
    });
    const id = await begin({ addresses: [host(1)], driver: "plain" });
    expect(await ostler.operationEnds(id)).toMatchObject({ state: "SUCCEEDED" });
  });

  test.each([
    [
      "throws",
      () => {
        throw new Error("cable is loose");
      },
      "cable is loose",
    ],
    ["returns nothing", () => undefined, "a probe without settings"],
    ["returns settings that it rejects itself", () => ({ settings: { password: 7 } }), "rejects itself"],
    ["returns settings that are not an object", () => ({ settings: 7 }), "a probe without settings"],
    ["returns text that cannot be stored", () => ({ settings: { at: "\0" } }), "cannot be stored"],
  ])("failed probe: a driver that %s affects no other address", async (_what, probe, why) => {
    const { host } = aNetwork();
    probes.set(host(1), probe);
    const id = await begin({ addresses: [host(1), host(2)], driver: "plain" });
    expect(await ostler.operationEnds(id)).toMatchObject({ state: "PARTIALLY_SUCCEEDED" });
    expect(await rows(id)).toMatchObject([
      { state: "FAILED", failure: { code: "BACKEND_FAILED", message: expect.stringContaining(why) } },
      { state: "REGISTERED" },
    ]);
  });
});

describe("discovery secrets", () => {
  test("discovery secrets are stored apart from the settings, deleted at the end, and masked in driver messages", async () => {
    const { host } = aNetwork();
    const gate = aGate();
    probes.set(host(1), ({ settings }) => {
      throw new Error(`login root/${JSON.stringify(settings["password"])} was refused`);
    });
    const waiting = await begin({
      addresses: [host(9)],
      settings: { password: PASSWORD, gate: gate.name, dead: [host(9)] },
    });
    await gate.arrivals();
    expect(await secretsIn(ostler.database, SECRETS.ofDiscoveries, waiting)).toEqual({
      password: PASSWORD,
    });
    expect((await ostler.operation(waiting)).options.discovery?.settings).not.toHaveProperty("password");
    gate.open();
    const id = await begin({ addresses: [host(1)], driver: "plain", settings: { password: PASSWORD } });
    for (const ended of [id, waiting]) {
      await ostler.operationEnds(ended);
      expect(await secretsIn(ostler.database, SECRETS.ofDiscoveries, ended)).toBeUndefined();
    }
    expect((await rows(id))[0]?.failure?.message).toContain('login root/"***" was refused');
  });
});

describe("discovery request", () => {
  test("discovery request with errors is refused with all of them and leaves no trace", async () => {
    const before = await ostler.dump();
    const answer = await ask({
      addresses: ["10.0.0.300", "ok", "10.0.0.0/8"],
      settings: { delayMs: -1, typo: true },
      namePrefix: "-",
      labels: { "no good": "x" },
      cluster: { name: "ghost" },
      reason: "x".repeat(1001),
      idempotencyKey: "",
    });
    expect(answer).toMatchObject({ operationId: null, addresses: [] });
    expect(answer.refusals.map(({ code, path }) => `${code} ${path?.slice(1).join(".")}`)).toEqual([
      "INVALID_INPUT idempotencyKey",
      "INVALID_INPUT reason",
      "INVALID_INPUT addresses.0",
      "INVALID_INPUT addresses.2",
      "INVALID_INPUT driver.fake.delayMs",
      "INVALID_INPUT driver.fake",
      "INVALID_INPUT namePrefix",
      "INVALID_INPUT labels",
      "NOT_FOUND cluster",
    ]);
    expect(await ostler.changesSince(before)).toEqual([]);
  });

  test("discovery into a cluster that is deploying is refused, and one that finds it deploying registers no member", async () => {
    const { host } = aNetwork();
    await ostler.engine.createCluster(ALICE, { name: "locked" });
    const gate = aGate();
    const [arrived, opened] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const node = await ostler
      .aNode()
      .inCluster("locked")
      .in("AVAILABLE")
      .scripted({ "deploy.prepare": { gate: gate.name } })
      .made();
    const request = { addresses: [host(1)], driver: "plain", cluster: { name: "locked" } };
    probes.set(host(1), async () => {
      arrived.resolve();
      await opened.promise;
      return { settings: { at: host(1) } };
    });
    const id = await begin(request);
    await arrived.promise;
    const deployment = await ostler.begin("DEPLOY", [node]);
    await gate.arrivals();
    expect((await ask(request)).refusals).toMatchObject([{ code: "CLUSTER_LOCKED", operationId: deployment }]);
    opened.resolve();
    await ostler.operationEnds(id);
    expect(await rows(id)).toMatchObject([{ state: "FAILED", failure: { code: "CLUSTER_LOCKED" } }]);
    gate.open();
    await ostler.operationEnds(deployment);
  });

  test.each([
    ["tape", "INVALID_INPUT", /not loaded/],
    ["blind", "UNSUPPORTED_BY_DRIVER", /cannot discover nodes \(drivers that can: fake, plain, finder, typed\)/],
  ])("discovery request with driver %s is refused with %s", async (driver, code, message) => {
    expect((await ask({ addresses: ["10.0.0.1"], driver })).refusals).toMatchObject([
      { code, path: ["input", "driver"], message: expect.stringMatching(message) },
    ]);
  });

  test("discovery request with dryRun returns the addresses to probe and writes nothing", async () => {
    const before = await ostler.dump();
    expect(await ask({ addresses: ["10.0.0.0/30", "Bmc"], dryRun: true })).toEqual({
      operationId: null,
      addresses: ["10.0.0.1", "10.0.0.2", "bmc"],
      refusals: [],
      replayed: false,
    });
    expect(await ostler.changesSince(before)).toEqual([]);
  });

  test("discovery request with the same idempotency key is replayed, and refused with another input", async () => {
    const { host } = aNetwork();
    const request = { addresses: [host(1)], settings: { password: PASSWORD }, idempotencyKey: "row-7" };
    const answers = await Promise.all([ask(request), ask(request), ask(request)]);
    expect(new Set(answers.map(({ operationId }) => operationId)).size).toBe(1);
    expect(answers.filter(({ replayed }) => !replayed)).toHaveLength(1);
    await ostler.operationEnds(answers[0]?.operationId ?? "");
    expect(await ask(request)).toMatchObject({
      operationId: answers[0]?.operationId,
      addresses: [host(1)],
      replayed: true,
    });
    expect((await ask({ ...request, addresses: [host(2)] })).refusals).toMatchObject([
      { code: "IDEMPOTENCY_MISMATCH" },
    ]);
    expect((await ask({ ...request, settings: { password: "another-one" } })).refusals).toMatchObject([
      { code: "IDEMPOTENCY_MISMATCH" },
    ]);
    expect(ostler.entered({ id: "", name: host(1) })).toEqual(["discover.probe"]);
  });

  // The key was looked up twice; a fingerprint stored between the two lookups was not verified, which gave
  // IDEMPOTENCY_MISMATCH.
  test("discovery request with the same idempotency key is replayed, whenever the first one is stored", async () => {
    await using here = await engineUnderTest({ drivers: [finder], started: false, through: interruptingReads });
    const request = {
      addresses: ["10.0.0.1"],
      driver: "finder",
      settings: { password: PASSWORD },
      idempotencyKey: "row-8",
    };
    let first: string | null = null;
    betweenReads = async () => {
      first = (await here.engine.discoverNodes(ALICE, request)).operationId;
    };
    expect(await here.engine.discoverNodes(ALICE, request)).toMatchObject({
      operationId: expect.any(String),
      refusals: [],
      replayed: true,
    });
    expect((await here.engine.discoverNodes(ALICE, request)).operationId).toBe(first);
  });

  test("discovery request stores only salted fingerprints of its secrets, and none in its input hash", async () => {
    const { host } = aNetwork();
    const request = { addresses: [host(1)], driver: "fake", settings: { password: PASSWORD } };
    const inputs = await Promise.all(
      ["guess-1", "guess-2"].map(
        async (idempotencyKey) =>
          (await ostler.operation((await ask({ ...request, idempotencyKey })).operationId ?? "")).inputHash ?? "",
      ),
    );
    const [one, two] = inputs.map((input) => input.split(" "));
    expect(one?.[1]).not.toBe(two?.[1]);
    // The unsalted part of the hash does not depend on the secret.
    const hashOfKeyless = async (settings: object) =>
      (await ostler.operation((await ask({ ...request, settings })).operationId ?? "")).inputHash;
    expect(await hashOfKeyless({ password: PASSWORD })).toBe(await hashOfKeyless({ password: "another-one" }));
    expect(await isFingerprintOf({ password: PASSWORD }, one?.[1] ?? "")).toBe(true);
    expect(await isFingerprintOf({ password: "another-one" }, one?.[1] ?? "")).toBe(false);
  });
});

describe("interrupt and restart of a discovery", () => {
  test("abort of a discovery takes effect at once and discards the running probes", async () => {
    const { range } = aNetwork();
    const gate = aGate();
    const id = await begin({ addresses: [range(26)], settings: { gate: gate.name } });
    await gate.arrivals(16);
    const answer = await ostler.engine.abort(ALICE, { work: { operationId: id }, reason: "wrong network" });
    expect(answer).toMatchObject({ operationId: id, refusals: [] });
    expect(await ostler.operation(id)).toMatchObject({
      state: "ABORTED",
      interrupt: "ABORT",
      interruptBy: "alice",
      interruptReason: "wrong network",
      finishedAt: expect.any(Date),
    });
    gate.open();
    expect(new Set(Object.values(await states(id)))).toEqual(new Set(["SKIPPED"]));
    await eventually("the replica has let it go", async () => {
      const { leaseUntil } = await ostler.operation(id);
      return leaseUntil !== null && leaseUntil.getTime() < Date.now() + 2_000;
    });
    expect(new Set(Object.values(await states(id)))).toEqual(new Set(["SKIPPED"]));
    expect((await gate.arrivals()).length).toBe(16);
    expect((await ostler.engine.abort(ALICE, { work: { operationId: id } })).refusals).toMatchObject([
      { code: "NOTHING_RUNNING", operationId: id },
    ]);
  });

  test("stop of a discovery lets running probes end and starts no more", async () => {
    const { range } = aNetwork();
    const gate = aGate();
    const id = await begin({ addresses: [range(26)], driver: "fake", settings: { gate: gate.name } });
    const begun = await gate.arrivals(16);
    expect(await ostler.engine.stop(ALICE, { work: { operationId: id } })).toMatchObject({
      operationId: id,
      refusals: [],
    });
    expect(await ostler.operation(id)).toMatchObject({ state: "STOPPING", interrupt: "STOP", finishedAt: null });
    expect(await ostler.engine.stop(ALICE, { work: { operationId: id } })).toMatchObject({
      operationId: id,
      refusals: [],
    });
    gate.open();
    expect(await ostler.operationEnds(id)).toMatchObject({ state: "STOPPED" });
    const by = await states(id);
    expect(
      Object.keys(by)
        .filter((address) => by[address] === "REGISTERED")
        .toSorted(),
    ).toEqual([...begun].toSorted());
    expect(Object.values(by).filter((state) => state === "SKIPPED")).toHaveLength(62 - 16);
    expect(await gate.arrivals()).toHaveLength(16);
    expect(await ostler.engine.stop(ALICE, { work: { operationId: id } })).toMatchObject({
      operationId: id,
      refusals: [],
    });
  });

  test("stop of a discovery that times out does not wait for probes that hang", async () => {
    await using patient = await engineUnderTest({ probeMs: 60_000 });
    const answer = await patient.engine.discoverNodes(ALICE, {
      addresses: ["10.200.0.1", "10.200.0.2"],
      driver: "fake",
      settings: { silent: ["10.200.0.2"] },
    });
    const id = answer.operationId ?? "";
    await eventually("the other one is registered", async () => (await rows(id, patient))[0]?.state === "REGISTERED");
    await patient.engine.stop(ALICE, { work: { operationId: id }, timeoutSeconds: 1 });
    expect(await patient.operationEnds(id)).toMatchObject({ state: "STOPPED" });
    expect(await rows(id, patient)).toMatchObject([{ state: "REGISTERED" }, { state: "SKIPPED" }]);
  });

  test("abort and stop of a discovery that has not started take effect at once", async () => {
    await using idle = await engineUnderTest({ started: false });
    for (const [verb, state] of [
      ["abort", "ABORTED"],
      ["stop", "STOPPED"],
    ] as const) {
      const { operationId } = await idle.engine.discoverNodes(ALICE, { addresses: ["10.0.0.1"], driver: "fake" });
      const id = operationId ?? "";
      expect((await idle.engine[verb](ALICE, { work: { operationId: id } })).refusals).toEqual([]);
      expect(await idle.operation(id)).toMatchObject({ state, finishedAt: expect.any(Date), startedAt: null });
    }
    await idle.engine.start();
    const { operationId } = await idle.engine.discoverNodes(ALICE, { addresses: ["10.0.0.2"], driver: "fake" });
    await idle.operationEnds(operationId ?? "");
    expect(Object.keys(await idle.nodeStates())).toHaveLength(1);
  });

  test("unhold and withdrawAbort of a discovery are refused with NOTHING_RUNNING", async () => {
    const { host } = aNetwork();
    const gate = aGate();
    const id = await begin({ addresses: [host(1)], settings: { gate: gate.name } });
    await gate.arrivals();
    for (const verb of ["withdrawAbort", "unhold"] as const) {
      expect(await ostler.engine[verb](ALICE, { work: { operationId: id } })).toMatchObject({
        operationId: null,
        refusals: [{ code: "NOTHING_RUNNING", operationId: id }],
      });
    }
    gate.open();
    expect(await ostler.operationEnds(id)).toMatchObject({ state: "SUCCEEDED" });
  });

  test("restart of a discovery is refused and points to failedAddresses, because the login is not stored", async () => {
    const { host } = aNetwork();
    const id = await begin({ addresses: [host(1)], settings: { dead: [host(1)] } });
    await ostler.operationEnds(id);
    expect((await ostler.engine.restart(ALICE, { work: { operationId: id } })).refusals).toMatchObject([
      { code: "NOTHING_TO_RESTART", operationId: id, message: expect.stringContaining("failedAddresses") },
    ]);
  });
});

describe("discovery whose process ends", () => {
  test("discovery whose process is killed is continued by another process, which repeats only the unfinished probes", async () => {
    await using here = await engineUnderTest({ started: false });
    const killed = await here.inAnotherProcess();
    const addresses = ["10.0.0.0/29"];
    const { operationId } = await here.engine.discoverNodes(ALICE, {
      addresses,
      driver: "fake",
      settings: { password: PASSWORD, silent: ["10.0.0.2", "10.0.0.5"] },
    });
    const id = operationId ?? "";
    await eventually(
      "all but the silent ones are registered",
      async () => (await rows(id, here)).filter(({ state }) => state === "REGISTERED").length === 4,
    );
    await killed.kill();
    const probed = (address: string) => here.entered({ id: "", name: address }).length;
    expect([1, 2, 3, 4, 5, 6].map((host) => probed(`10.0.0.${host}`))).toEqual([1, 1, 1, 1, 1, 1]);
    await here.leasesRunOut();
    await here.another({ started: true, probeMs: 200 });
    expect(await here.operationEnds(id)).toMatchObject({ state: "PARTIALLY_SUCCEEDED" });
    expect([1, 2, 3, 4, 5, 6].map((host) => probed(`10.0.0.${host}`))).toEqual([1, 2, 1, 1, 2, 1]);
    expect((await rows(id, here)).map(({ state }) => state)).toEqual([
      "REGISTERED",
      "FAILED",
      "REGISTERED",
      "REGISTERED",
      "FAILED",
      "REGISTERED",
    ]);
    expect(Object.keys(await here.nodeStates())).toHaveLength(4);
    expect(await secretsIn(here.database, SECRETS.ofDiscoveries, id)).toBeUndefined();
  });

  test("discovery whose process shuts down cancels its probes, records none of them, and is continued by another process", async () => {
    const { range } = aNetwork();
    await using here = await engineUnderTest({ started: false });
    const gate = aGate();
    const leaving = await here.another({ started: true });
    const { operationId } = await here.engine.discoverNodes(ALICE, {
      addresses: [range(28)],
      driver: "fake",
      settings: { gate: gate.name },
    });
    const id = operationId ?? "";
    await gate.arrivals(14);
    const began = Date.now();
    await leaving[Symbol.asyncDispose]();
    expect(Date.now() - began).toBeLessThan(5_000);
    expect((await here.operation(id)).leaseUntil?.getTime()).toBeLessThan(Date.now() + 1_000);
    expect(new Set((await rows(id, here)).map(({ state }) => state))).toEqual(new Set(["QUEUED"]));
    gate.open();
    await here.engine.start();
    expect(await here.operationEnds(id)).toMatchObject({ state: "SUCCEEDED" });
    expect(Object.keys(await here.nodeStates())).toHaveLength(14);
  });

  test("discovery that another process takes over from a live one registers no machine twice", async () => {
    const { range } = aNetwork();
    await using here = await engineUnderTest();
    const gate = aGate();
    const { operationId } = await here.engine.discoverNodes(ALICE, {
      addresses: [range(28)],
      driver: "fake",
      settings: { gate: gate.name },
    });
    const id = operationId ?? "";
    await gate.arrivals(14);
    await here.another();
    await here.leasesRunOut();
    await gate.arrivals(28);
    gate.open();
    expect(await here.operationEnds(id)).toMatchObject({ state: "SUCCEEDED" });
    expect(Object.keys(await here.nodeStates())).toHaveLength(14);
    expect((await rows(id, here)).every(({ state }) => state === "REGISTERED")).toBe(true);
  });

  test("discovery whose next process lacks the driver fails the remaining addresses and names the reason", async () => {
    await using here = await engineUnderTest({ started: false, drivers: [finder] });
    const { operationId } = await here.engine.discoverNodes(ALICE, {
      addresses: ["10.0.0.1", "10.0.0.2"],
      driver: "finder",
    });
    const id = operationId ?? "";
    await here.another({ started: true, drivers: [] });
    expect(await here.operationEnds(id)).toMatchObject({
      state: "FAILED",
      firstFailure: { code: "UNSUPPORTED_BY_DRIVER", message: expect.stringContaining("not loaded any more") },
    });
  });

  // It used to be retried indefinitely.
  test("discovery whose next process has a driver that throws while it checks settings fails the remaining addresses without exposing the error", async () => {
    await using here = await engineUnderTest({ drivers: [finder], started: false });
    const settings = z.looseObject({}).transform((): never => {
      throw new Error(`no such field: ${PASSWORD}`);
    });
    const { operationId } = await here.engine.discoverNodes(ALICE, {
      addresses: ["10.9.9.9"],
      driver: "finder",
      settings: { password: PASSWORD },
    });
    await here.another({
      started: true,
      drivers: [discovering("finder", { discover: { settings, probe: finder.discover?.probe } })],
    });
    expect(await here.operationEnds(operationId ?? "")).toMatchObject({
      state: "FAILED",
      firstFailure: {
        code: "UNSUPPORTED_BY_DRIVER",
        message: expect.stringContaining("report that to the author of the driver"),
      },
    });
    expect((await here.dump()).filter((row) => row.includes(PASSWORD))).toEqual([]);
  });
});
