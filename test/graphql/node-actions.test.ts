/** `Node.actions`: each verdict is what the mutation answers when it is sent to the node as it is. */
import { afterAll, expect, test } from "vitest";
import { administratorOf, as } from "../support/accounts.ts";
import { aGate as newGate } from "../support/builders.ts";
import type { TestGate } from "../support/builders.ts";
import { eventually } from "../support/eventually.ts";
import { inputTypeOf } from "../support/input-type.ts";
import { serviceUnderTest } from "../support/service.ts";

const statements: string[] = [];
const ostler = await serviceUnderTest({ onStatement: (text) => void statements.push(text), concurrency: 200 });
const gates: TestGate[] = [];
afterAll(async () => {
  for (const gate of gates) gate.open();
  await ostler[Symbol.asyncDispose]();
});

function aGate(): TestGate {
  const gate = newGate();
  gates.push(gate);
  return gate;
}

interface Verdict {
  readonly action: string;
  readonly powerAction: string | null;
  readonly mutation: string;
  readonly allowed: boolean;
  readonly code: string | null;
  readonly reason: string | null;
  readonly remedy: string | null;
  readonly abortEffect: string | null;
  readonly abortPendingAfterStep: string | null;
}

async function actionsOf(name: string, only?: readonly string[]): Promise<readonly Verdict[]> {
  const { node } = await ostler.query<{ node: { actions: Verdict[] } }>(
    "query Actions($name: String!, $only: [NodeAction!]) { node(by: { name: $name }) { actions(only: $only) { action powerAction mutation allowed code reason remedy abortEffect abortPendingAfterStep } } }",
    { name, ...(only && { only }) },
  );
  return node.actions;
}

const work = (name: string) => ({ work: { names: [name] } });
const nodes = (name: string) => ({ nodes: { names: [name] } });

/** Inputs of the mutations, by action. */
const INPUTS: Readonly<Record<string, (name: string) => object>> = {
  ABORT: work,
  STOP: work,
  RESTART: work,
  RELEASE_HOLDS: work,
  WITHDRAW_ABORT: work,
  SET_MAINTENANCE: (name) => ({ ...nodes(name), reason: "fan" }),
  CLEAR_MAINTENANCE: nodes,
  SET_RETIRED: (name) => ({ ...nodes(name), reason: "old" }),
  CLEAR_RETIRED: nodes,
  PROTECT: (name) => ({ nodes: { names: [name] }, protected: true }),
  UNPROTECT: (name) => ({ nodes: { names: [name] }, protected: false }),
  DELETE: nodes,
};

interface Refused {
  readonly code: string;
  readonly message: string;
}

/** The reason why the mutation refuses the node; null if it accepts it. */
async function sent({ action, mutation }: Verdict, name: string): Promise<Refused | null> {
  const input = INPUTS[action]?.(name);
  const type = inputTypeOf(mutation);
  const hasResults = !["updateNodes", "deleteNodes"].includes(mutation) && !/^(set|clear)(Maint|Ret)/.test(mutation);
  const data = await ostler.query<Record<string, { errors: Refused[]; results?: { error: Refused | null }[] }>>(
    `mutation Send($input: ${type}!) { ${mutation}(input: $input) { errors { code message } ${hasResults ? "results { error { code message } }" : ""} } }`,
    { input },
  );
  const answer = data[mutation];
  return answer?.results?.[0]?.error ?? answer?.errors[0] ?? null;
}

/** Brings a new node into a situation and returns its name. */
type Situation = () => Promise<string>;

async function made(settings: object = {}): Promise<string> {
  const [name = ""] = await ostler.register(1, settings);
  return name;
}

const isAt = (name: string, state: string, runState: string) =>
  eventually(`${name} is ${state}`, async () => {
    const [row] = await ostler.test.sql<{ state: string; run: string }[]>`
      select n.state, r.state as run from nodes n join runs r on r.node_id = n.id where n.name = ${name} order by r.created_at desc limit 1`;
    return row?.state === state && row.run === runState;
  });

async function cleaning(steps: Readonly<Record<string, object>>, chosen: readonly object[]): Promise<string> {
  const name = await made({ steps });
  await ostler.commission([name], "AVAILABLE");
  await ostler.begin("cleanNodes", [name], { steps: chosen });
  return name;
}

const FIRMWARE = { interface: "CLEAN", name: "update_firmware", args: { version: "2.1" } };

async function inFirmware(): Promise<string> {
  const gate = aGate();
  const name = await cleaning({ "clean.update_firmware": { gate: gate.name } }, [FIRMWARE]);
  await gate.arrivals();
  return name;
}

const SITUATIONS: Readonly<Record<string, Situation>> = {
  "a node without work": made,
  "a running step that can be canceled": async () => {
    const gate = aGate();
    const name = await made({ steps: { "inspect.collect_inventory": { gate: gate.name } } });
    await ostler.begin("commissionNodes", [name]);
    await gate.arrivals();
    return name;
  },
  "a running step that must not be interrupted": inFirmware,
  "an abort that waits for a step": async () => {
    const name = await inFirmware();
    await ostler.query(
      "mutation Abort($input: AbortInput!) { abort(input: $input) { errors { code } results { abortEffect } } }",
      { input: { ...work(name), mode: "AFTER_STEP" } },
    );
    return name;
  },
  "a hold": async () => {
    const name = await cleaning({}, [{ interface: "ENGINE", name: "hold", args: {} }]);
    await isAt(name, "CLEAN_HOLD", "HOLDING");
    return name;
  },
  "failed work": async () => {
    const name = await made({ steps: { "clean.erase_disks": { fail: "the disk is broken" } } });
    await ostler.operationEnds(await ostler.begin("commissionNodes", [name], { onFailure: "LEAVE" }));
    return name;
  },
  "work that ended well": async () => {
    const name = await made();
    await ostler.commission([name]);
    return name;
  },
  "a failed power change of a node at rest": async () => {
    const name = await made({ steps: { "power.set": { fail: "no answer" } } });
    await ostler.query(`mutation { manageNodes(input: { nodes: { names: ["${name}"] } }) { operation { id } } }`);
    await isAt(name, "MANAGEABLE", "SUCCEEDED");
    await ostler.operationEnds(await ostler.begin("setPower", [name], { action: "ON" }));
    return name;
  },
  "a protected node in maintenance": async () => {
    const name = await SITUATIONS["failed work"]?.();
    await ostler.query(
      `mutation { updateNodes(input: { nodes: { names: ["${name}"] }, protected: true }) { errors { code } } setMaintenance(input: { nodes: { names: ["${name}"] }, reason: "fan" }) { errors { code } } }`,
    );
    return name ?? "";
  },
};

const WORK_ACTIONS = ["ABORT", "STOP", "RESTART", "RELEASE_HOLDS", "WITHDRAW_ABORT", "DELETE"];

test.each(Object.entries(SITUATIONS))(
  "of %s, each verdict is the answer of its mutation [R-573]",
  async (_title, situation) => {
    const name = await situation();
    const verdicts = await actionsOf(name, Object.keys(INPUTS));
    expect(verdicts).toHaveLength(Object.keys(INPUTS).length);
    // A refused request and a mark leave the work as it is; each of the others has a node of its own.
    const changing = verdicts.filter(({ action, allowed }) => allowed && WORK_ACTIONS.includes(action));
    const others = verdicts.filter((one) => !changing.includes(one));
    const refusedFirst = others.toSorted((a, b) => Number(a.allowed) - Number(b.allowed));
    for (const verdict of refusedFirst) await expectAnswer(verdict, name);
    for (const { action } of changing) {
      const other = await situation();
      const [verdict] = await actionsOf(other, [action]);
      if (!verdict) throw new Error(`There is no verdict for ${action}.`);
      await expectAnswer(verdict, other);
    }
  },
);

async function expectAnswer(verdict: Verdict, name: string): Promise<void> {
  const { action, allowed, code, reason, remedy } = verdict;
  const refused = await sent(verdict, name);
  expect({ action, code, reason }).toEqual({ action, code: refused?.code ?? null, reason: refused?.message ?? null });
  expect({ allowed, hasRemedy: remedy !== null }).toEqual({ allowed: refused === null, hasRemedy: refused !== null });
}

test.each([
  { situation: "a node without work", allowed: ["DELETE"] },
  { situation: "a running step that can be canceled", allowed: ["ABORT", "STOP"] },
  { situation: "a running step that must not be interrupted", allowed: ["STOP"] },
  { situation: "an abort that waits for a step", allowed: ["ABORT", "STOP", "WITHDRAW_ABORT"] },
  { situation: "a hold", allowed: ["ABORT", "STOP", "RELEASE_HOLDS"] },
  { situation: "failed work", allowed: ["RESTART", "DELETE"] },
  { situation: "work that ended well", allowed: [] },
  { situation: "a failed power change of a node at rest", allowed: ["DELETE"] },
  { situation: "a protected node in maintenance", allowed: [] },
])("of $situation, $allowed are allowed [R-573]", async ({ situation, allowed }) => {
  const name = (await SITUATIONS[situation]?.()) ?? "";
  const verdicts = await actionsOf(name, WORK_ACTIONS);
  expect(verdicts.flatMap((verdict) => (verdict.allowed ? [verdict.action] : []))).toEqual(allowed);
});

test("a restart with a step for which the site demands more shows that it is forbidden [R-573]", async () => {
  const { token } = await administratorOf(ostler).account("operator");
  await ostler.query(
    `mutation {
      createRunbook(input: { name: "held", steps: [{ interface: ENGINE, name: "hold" }, { name: "update_firmware", args: { version: "2.1" } }] }) { errors { code } }
    }`,
  );
  const name = await made();
  await ostler.commission([name], "AVAILABLE");
  const operation = await ostler.begin("cleanNodes", [name], { runbook: "held" });
  await isAt(name, "CLEAN_HOLD", "HOLDING");
  await ostler.query(`mutation { stop(input: { work: { names: ["${name}"] } }) { errors { code } } }`);
  await ostler.operationEnds(operation);
  const codes = async () => {
    const headers = as(token);
    const { data } = await ostler.ask<{ node: { actions: Verdict[] } }>(
      `{ node(by: { name: "${name}" }) { actions(only: [RESTART]) { code } } }`,
      {},
      headers,
    );
    const sentNow = await ostler.ask<{ restart: { errors: Refused[] } }>(
      `mutation { restart(input: { work: { names: ["${name}"] }, dryRun: true }) { errors { code } } }`,
      {},
      headers,
    );
    return [data?.node.actions[0]?.code ?? null, sentNow.data?.restart.errors[0]?.code ?? null];
  };
  expect(await codes()).toEqual([null, null]);
  await ostler.query(
    'mutation { updateSite(input: { stepScopes: [{ step: "clean.update_firmware", scope: ADMIN }] }) { errors { code } } }',
  );
  expect(await codes()).toEqual(["FORBIDDEN", "FORBIDDEN"]);
});

test("a pending abort shows the step that it waits for, an immediate one does not", async () => {
  const pending = (await SITUATIONS["an abort that waits for a step"]?.()) ?? "";
  expect(await actionsOf(pending, ["ABORT"])).toMatchObject([
    { abortEffect: "PENDING", abortPendingAfterStep: "clean.update_firmware" },
  ]);
  const running = (await SITUATIONS["a running step that can be canceled"]?.()) ?? "";
  expect(await actionsOf(running, ["ABORT"])).toMatchObject([{ abortEffect: "NOW", abortPendingAfterStep: null }]);
});

test("Node.actions has the verdicts of Node.verbs, and each action once [R-573]", async () => {
  const name = await made();
  const { node } = await ostler.query<{ node: Record<"verbs" | "actions", Record<string, unknown>[]> }>(
    `{ node(by: { name: "${name}" }) { verbs { verb powerAction allowed code reason } actions { action powerAction allowed code reason } } }`,
  );
  const ofVerbs = node.verbs.map(({ verb, ...verdict }) => ({ action: verb, ...verdict }));
  expect(node.actions.slice(0, ofVerbs.length).toSorted(byAction)).toEqual(ofVerbs.toSorted(byAction));
  expect(node.actions.slice(ofVerbs.length).map(({ action }) => action)).toEqual(Object.keys(INPUTS));
});

const byAction = (a: Record<string, unknown>, b: Record<string, unknown>) => keyOf(a).localeCompare(keyOf(b));
const keyOf = ({ action, powerAction }: Record<string, unknown>) => JSON.stringify([action, powerAction]);

test("a locked cluster is the reason why a member is not deleted [R-573]", async () => {
  const gate = aGate();
  const [busy = "", idle = ""] = await ostler.register(2, { steps: { "deploy.write_image": { gate: gate.name } } });
  await ostler.query(
    `mutation { createCluster(input: { name: "lyon", nodes: { names: ["${busy}", "${idle}"] } }) { errors { code } } }`,
  );
  await ostler.begin("commissionNodes", [busy]);
  await gate.arrivals();
  const [verdict] = await actionsOf(idle, ["DELETE"]);
  expect(verdict).toMatchObject({ allowed: false, code: "CLUSTER_LOCKED" });
  expect(verdict?.reason).toBe((await sent(verdict as Verdict, idle))?.message);
});

test("the actions of a list of nodes are read together [R-574]", async () => {
  const names = await ostler.register(20, { steps: { "clean.erase_disks": { fail: "broken" } } });
  await ostler.operationEnds(await ostler.begin("commissionNodes", names, { onFailure: "LEAVE" }));
  const read = async (list: readonly string[]) => {
    statements.length = 0;
    await ostler.query(
      "query Many($names: [String!]!) { nodes(first: 100, filter: { name: { in: $names } }) { nodes { actions { allowed } } } }",
      { names: list },
    );
    return statements.length;
  };
  const ofOne = await read(names.slice(0, 1));
  expect(await read(names)).toBe(ofOne);
  expect(ofOne).toBeLessThanOrEqual(12);
});
