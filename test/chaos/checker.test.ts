/**
 * Tests of the chaos checker: it finds no violation in a correct run, reports a planted fault for every check, and does
 * not report correct behavior that looks like a fault. They fail for a checker that finds nothing.
 */
import { readFileSync, globSync, rmSync } from "node:fs";
import { spawnSync } from "node:child_process";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { check } from "./checker/check.ts";
import { mayBeRefused } from "./checker/conditions.ts";
import { summaryOf } from "./checker/summary.ts";
import { goodHistory, iso, writeHistory } from "./good-history.ts";
import type { Made, Values } from "./good-history.ts";
import type { Answer, Enter, Item, Leave, Mark, Nemesis, Open, Request } from "./records.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const ALL = [
  "P1",
  "P2",
  "P3",
  "P4",
  "P5",
  "P6",
  "P7",
  "P8",
  "P9",
  "P10",
  "P11",
  "P12",
  "P13",
  "P14",
  "P15",
  "P16",
  "P17",
  "P19",
  "P20",
  "P21",
  "P22",
  "REST",
];

const folders: string[] = [];
afterAll(() => folders.forEach((folder) => rmSync(folder, { recursive: true })));

function written(made: Made): string {
  const folder = writeHistory(made);
  folders.push(folder);
  return folder;
}

async function resultsOf(change: (made: Made) => void) {
  const made = goodHistory();
  change(made);
  return (await check(written(made))).results;
}

// ---- access to the records

function row(made: Made, table: keyof Made["final"], fits: Values): Values {
  const found = made.final[table].find((one) => Object.entries(fits).every(([key, value]) => one[key] === value));
  if (!found) throw new Error(`Table ${table} has no row with ${JSON.stringify(fits)}.`);
  return found;
}

const remove = (made: Made, table: keyof Made["final"], one: Values) =>
  void made.final[table].splice(made.final[table].indexOf(one), 1);

function enters(made: Made, node: string, step?: string): Enter[] {
  return made.driver.filter(
    (one): one is Enter => one.k === "enter" && one.node === node && (step === undefined || one.step === step),
  );
}

function leaveOf(made: Made, { entry }: Enter): Leave {
  const found = made.driver.find((one) => one.k === "leave" && one.entry === entry);
  if (found?.k !== "leave") throw new Error(`Entry ${entry} has no end.`);
  return found;
}

function exchangeOf(
  made: Made,
  verb: string,
  node: string,
): { readonly request: Request; readonly answer: Extract<Answer, { ok: true }> } {
  const request = made.requests.find(
    (one): one is Request => one.k === "request" && one.verb === verb && one.nodes.includes(node),
  );
  const answer = made.requests.find((one) => one.k === "answer" && one.id === request?.id);
  if (!request || answer?.k !== "answer" || !answer.ok) throw new Error(`The run has no answered ${verb} on ${node}.`);
  return { request, answer };
}

const set = (one: object, change: Values) => void Object.assign(one, change);
const entryAfter = (made: Made, model: Enter, change: Partial<Enter>, left: number, how: Leave["how"] = "done") => {
  const entry = { ...model, entry: `planted-${made.driver.length}`, ...change };
  made.driver.push(entry, { t: left, k: "leave", entry: entry.entry, how, detail: null });
  made.driver.sort((a, b) => a.t - b.t);
};
const streamOf = (made: Made, stream: string) => made.streams.filter((one) => one.stream === stream);
const itemsOf = (made: Made, stream: string) => streamOf(made, stream).filter((one): one is Item => one.k === "item");
const marksOf = (made: Made, stream: string) => streamOf(made, stream).filter((one): one is Mark => one.k === "mark");
const endOf = (made: Made, stream: string) => streamOf(made, stream).find((one) => one.k === "end") ?? {};
const drop = (made: Made, one: Made["streams"][number] | undefined) =>
  void (one && made.streams.splice(made.streams.indexOf(one), 1));
const addFault = (made: Made, what: Nemesis["what"], target: string, from: number, to: number) =>
  void made.nemesis.push(
    { t: from, k: "nemesis", id: `planted-${from}`, what, target, phase: "begin", detail: null },
    { t: to, k: "nemesis", id: `planted-${from}`, what, target, phase: "end", detail: null },
  );
const noteInAudit = (made: Made, { id }: Pick<Request, "id">) =>
  void made.final.audit.push({ ...row(made, "audit", { action: "manageNodes" }), request_id: id });
/** The answer to the request that was sent at a moment. */
function answerAt(made: Made, t: number): Answer {
  const request = made.requests.find((one) => one.k === "request" && one.t === t);
  const answer = made.requests.find((one) => one.k === "answer" && one.id === request?.id);
  if (answer?.k !== "answer") throw new Error(`No request was sent at ${t} and answered.`);
  return answer;
}
/** A denied request of the account is carried out instead. */
function carryOut(made: Made, t: number): void {
  const answer = answerAt(made, t);
  set(answer, { ...answerAt(made, 101_500), id: answer.id, t: answer.t });
  const model = row(made, "audit", { subject: "account:ann" });
  made.final.audit.push({ ...model, at: iso(t), request_id: answer.id });
}
const idOfChange = (made: Made, t: number) => made.access.find((one) => one.t === t)?.id;
/** A refusal of one node by a request of its own. */
function refuse(
  made: Made,
  t: number,
  verb: string,
  node: string,
  [code, message]: readonly [string, string],
): Request {
  const { request, answer } = exchangeOf(made, "cleanNodes", "n1");
  const asked = { ...request, id: `planted-${made.requests.length}`, t, verb, nodes: [node], input: {} };
  noteInAudit(made, asked);
  made.requests.push(asked, {
    ...answer,
    id: asked.id,
    t: t + 40,
    operationId: null,
    results: [{ node, accepted: false, runId: null, effect: null, refusal: { code, message } }],
  });
  return asked;
}
/** A process waits for a CPU for some milliseconds, evenly from one moment to another. */
function waitForCpu(made: Made, replica: string, from: number, to: number, ms: number): void {
  for (let t = from; t <= to; t += 1_000)
    made.replicas.push({ t, k: "sample", what: "waited", replica, pid: 1, value: (ms * (t - from)) / (to - from) });
}
/** A stream of the replica r2 receives nothing for 25 s. */
function silence(made: Made): void {
  for (const mark of marksOf(made, "some-2").filter(({ t }) => t > 18_000 && t < 43_000)) drop(made, mark);
}
const DISAPPEARED = ["INVALID_STATE", "Monitoring has reported node n4 as disappeared. Wait."] as const;
const UNREACHABLE = ["INVALID_STATE", "Node n1 has had the fault BMC_UNREACHABLE since then: No answer."] as const;
const DIRTY = ["INVALID_STATE", "Node n1 has had the fault CLEAN_UP_FAILED since then: It failed."] as const;
const INSTALLED = ["INVALID_STATE", "Node n1 is MANAGEABLE with an installed system (stage PROVISIONED)."] as const;
const WRONG_STATE = ["INVALID_STATE", "Node n4 is CLEAN_FAILED. DEPLOY is allowed from AVAILABLE."] as const;
const MAINTAINED = ["IN_MAINTENANCE", "Node n1 is in maintenance."] as const;
const transition = (made: Made, node: string, event: string) => row(made, "transitions", { node_name: node, event });
/** A step of the plan that cleans. */
const planned = (made: Made, step: number) => (row(made, "plans", { hash: "p" })["steps"] as Values[])[step] ?? {};
const failure = (code: string, message: string) => ({ code, message, step: "clean.wipe" });

/** A failure that the run and its attempt share. */
function fail(made: Made, runId: string, why: Values): void {
  set(row(made, "attempts", { run_id: runId, step: 0 }), { state: "FAILED", failure: why });
  set(row(made, "runs", { id: runId }), { state: "FAILED", failure: why });
}

describe("checker with a correct run", () => {
  test("every promise is exercised and reported as held", async () => {
    const { results, harms } = await check(written(goodHistory()));
    expect(results.flatMap(({ first }) => first)).toEqual([]);
    expect(results.map(({ id, result }) => `${id} ${result}`)).toEqual(ALL.map((id) => `${id} HELD`));
    expect(harms).toEqual({ lost: 0, doubled: 0, illegal: 0, stuck: 0, other: 0 });
  });

  test("a promise without facts is reported as not exercised", async () => {
    const made = goodHistory();
    for (const list of [
      made.requests,
      made.access,
      made.streams,
      made.driver,
      made.callbacks,
      made.nemesis,
      made.replicas,
      ...Object.values(made.final),
    ])
      list.length = 0;
    const { results } = await check(written(made));
    expect(results.map(({ id, result }) => `${id} ${result}`)).toEqual(ALL.map((id) => `${id} NOT EXERCISED`));
  });
});

/** A planted fault, the promise that it violates, and the message. It may violate other promises too. */
const FAULTS: readonly (readonly [fault: string, promise: string, message: RegExp, change: (made: Made) => void])[] = [
  ["a viewer is obeyed", "P21", /abort .* of ann was carried out/, (made) => carryOut(made, 105_000)],
  [
    "a revoked token is obeyed",
    "P21",
    /abort .* of ann was carried out/,
    (made) => {
      row(made, "audit", { action: "setRoles", request_id: idOfChange(made, 103_000) })["change"] = null;
      carryOut(made, 108_000);
    },
  ],
  [
    "an account is denied that has the role",
    "P21",
    /abort .* of ann was denied, although it had the role/,
    (made) => set(answerAt(made, 101_500), { ok: false, error: "FORBIDDEN", status: 200, denied: "FORBIDDEN" }),
  ],
  [
    "a request has no row in the audit",
    "P21",
    /by its row in the audit its caller is missing/,
    (made) => remove(made, "audit", row(made, "audit", { action: "stop" })),
  ],
  [
    "a stream continues after its access changed",
    "P22",
    /Stream ann-1 of ann received something 6\d\d\d ms after its access changed/,
    (made) => {
      set(endOf(made, "ann-1"), { t: 110_000, code: "LEFT" });
      made.streams.push({ ...marksOf(made, "ann-1")[0], t: 109_500 } as Mark);
      made.streams.sort((a, b) => a.t - b.t);
    },
  ],
  [
    "a stream ends although its access has not changed",
    "P22",
    /Stream ann-1 of ann ended with ACCESS_CHANGED, but its access had not changed/,
    (made) => set(endOf(made, "ann-1"), { t: 101_900 }),
  ],
  [
    "a stream is denied after it has begun",
    "P22",
    /Stream ann-1 was denied after it had begun/,
    (made) => set(endOf(made, "ann-1"), { code: "DENIED" }),
  ],
  [
    "an accepted operation does not exist",
    "P1",
    /op-n1-4000 was accepted .* does not exist/,
    (made) => remove(made, "operations", row(made, "operations", { id: "op-n1-4000" })),
  ],
  [
    "an accepted run does not exist",
    "P1",
    /Run run-n2-6000 .* does not exist/,
    (made) => remove(made, "runs", row(made, "runs", { id: "run-n2-6000" })),
  ],
  [
    "a registered node does not exist",
    "P1",
    /Nodes n6 were registered/,
    (made) => {
      remove(made, "nodes", row(made, "nodes", { name: "n6" }));
      for (const one of made.final.transitions.filter((each) => each["node_name"] === "n6"))
        remove(made, "transitions", one);
    },
  ],
  [
    "a node is in maintenance after maintenance was ended",
    "P1",
    /n1 has "moved" at the end, which no setMaintenance or clearMaintenance/,
    (made) => set(row(made, "nodes", { name: "n1" }), { maintenance_reason: "moved" }),
  ],
  [
    "a report of presence is lost",
    "P1",
    /n1 has "UNSEEN" at the end, which no reportPresence/,
    (made) => {
      const { request, answer } = exchangeOf(made, "clearMaintenance", "n1");
      made.requests.push(
        { ...request, id: "seen", verb: "reportPresence", input: { event: "DISCOVERED" } },
        { ...answer, id: "seen" },
      );
    },
  ],
  [
    "a repeated key is answered with another operation",
    "P2",
    /answered with 2 operations|accepted as new/,
    (made) => {
      const repeat = made.requests.find((one) => one.k === "answer" && one.ok && one.replayed === true);
      set(repeat ?? {}, { operationId: "op-n1-4000", replayed: false });
      const answer = exchangeOf(made, "cleanNodes", "n1").answer;
      const request = made.requests.find((one) => one.k === "request" && one.id === repeat?.id);
      made.requests.push(
        { ...(request as Request), id: "again", t: 97_500 },
        { ...answer, id: "again", t: 97_600, operationId: "op-n3-96000" },
      );
    },
  ],
  [
    "a key without an answer has two operations",
    "P2",
    /There are 2 operations with key key-n3-96000/,
    (made) => void made.final.operations.push({ ...row(made, "operations", { id: "op-n3-96000" }), id: "op-twice" }),
  ],
  [
    "a key is accepted with another input",
    "P2",
    /accepted with two inputs/,
    (made) => {
      const refusal = made.requests.find(
        (one) => one.k === "answer" && one.ok && one.refusals[0]?.code === "IDEMPOTENCY_MISMATCH",
      );
      set(refusal ?? {}, { refusals: [], operationId: "op-n3-96000", replayed: true });
    },
  ],
  [
    "an operation exists without a request",
    "P2",
    /No request asked for operation op-ghost/,
    (made) =>
      void made.final.operations.push({
        ...row(made, "operations", { id: "op-n1-4000" }),
        id: "op-ghost",
        idempotency_key: "key-ghost",
      }),
  ],
  [
    "a change of a cluster is lost",
    "P1",
    /berlin has "zeroth" at the end, which no updateCluster/,
    (made) => set(row(made, "clusters", { name: "berlin" }), { variables: { ntp: "zeroth" } }),
  ],
  [
    "an operation exists although its request was refused",
    "P2",
    /Every request for operation op-n1-4000 .* was refused/,
    (made) =>
      set(exchangeOf(made, "cleanNodes", "n1").answer, {
        operationId: null,
        results: [
          { node: "n1", accepted: false, runId: null, effect: null, refusal: { code: "BUSY", message: "No." } },
        ],
      }),
  ],
  [
    "an operation has another kind than requested",
    "P2",
    /op-n1-4000 is INSPECT, which no request with its key asked for/,
    (made) => set(row(made, "operations", { id: "op-n1-4000" }), { kind: "INSPECT" }),
  ],
  [
    "an operation works on a node that no request named",
    "P2",
    /op-n1-4000 .* works on node n4, which no request named/,
    (made) => set(row(made, "runs", { id: "run-n1-4000" }), { node_name: "n4", node_id: "id-n4" }),
  ],
  [
    "an accepted node has no run",
    "P2",
    /nodes accepted for operation op-n1-4000 .* differ from those of its runs: n4/,
    (made) => {
      const { request, answer } = exchangeOf(made, "cleanNodes", "n1");
      set(request, { nodes: ["n1", "n4"] });
      set(answer, {
        results: [...answer.results, { node: "n4", accepted: true, runId: null, effect: null, refusal: null }],
      });
    },
  ],
  [
    "the log has a gap",
    "P3",
    /from position 9 to 11/,
    (made) => remove(made, "transitions", row(made, "transitions", { position: 10 })),
  ],
  [
    "a state changed without a transition",
    "P3",
    /moves node n1 to MANAGEABLE .* has ACTIVE/,
    (made) => set(row(made, "nodes", { name: "n1" }), { state: "ACTIVE" }),
  ],
  [
    "a node's count lacks a transition",
    "P3",
    /moves node n1/,
    (made) => set(row(made, "nodes", { name: "n1" }), { transition_count: 1 }),
  ],
  [
    "a transition starts from a state that the node did not have",
    "P3",
    /starts from AVAILABLE/,
    (made) => set(transition(made, "n1", "clean"), { from_state: "AVAILABLE" }),
  ],
  [
    "the counter of positions is ahead of the log",
    "P3",
    /counter of positions is at 60/,
    (made) => set(row(made, "feed_position", {}), { position: "60" }),
  ],
  [
    "the database allows an edge that the design lacks",
    "P4",
    /allows "ENROLLED deploy ACTIVE"/,
    (made) => void made.final.lifecycle_edges.push({ from_state: "ENROLLED", event: "deploy", to_state: "ACTIVE" }),
  ],
  ["the database refuses an edge of the design", "P4", /refuses "/, (made) => void made.final.lifecycle_edges.pop()],
  [
    "a transition takes an edge that does not exist",
    "P4",
    /from MANAGEABLE to ACTIVE by "clean"/,
    (made) => set(transition(made, "n1", "clean"), { to_state: "ACTIVE" }),
  ],
  [
    "a transition has an event that its edge does not have",
    "P4",
    /by "deploy"/,
    (made) => set(transition(made, "n1", "clean"), { event: "deploy" }),
  ],
  [
    "the first transition of a node is not its registration",
    "P4",
    /first transition of node n4 is "verify"/,
    (made) =>
      set(row(made, "transitions", { node_name: "n4", sequence: 1 }), {
        from_state: "ENROLLED",
        to_state: "VERIFYING",
        event: "verify",
      }),
  ],
  [
    "two runs move a node alternately",
    "P5",
    /moved node n1 after another run had/,
    (made) =>
      set(row(made, "transitions", { node_name: "n1", run_id: "run-n1-69900", event: "wait" }), {
        run_id: "run-n1-4000",
      }),
  ],
  [
    "an earlier run enters a step after a later one",
    "P5",
    /Run run-n1-4000|run-n1-4000 was entered on node n1 after/,
    (made) => entryAfter(made, enters(made, "n1")[0] as Enter, { t: 74_300, pid: 12 }, 74_310),
  ],
  [
    "a stale owner enters a step after the new owner",
    "P5",
    /no longer the owner/,
    (made) => {
      const [own] = enters(made, "n6");
      entryAfter(made, own as Enter, { t: 65_200 }, 65_300);
    },
  ],
  [
    "a stale owner changes the power after the new owner entered",
    "P5",
    /changed the power of n6/,
    (made) =>
      void made.driver.push({
        t: 65_161,
        k: "power",
        entry: null,
        replica: "r2",
        pid: 220,
        parent: 22,
        node: "n6",
        what: "set ON",
        attemptKey: "run-n6-45000:0:1",
        failure: null,
      }),
  ],
  [
    "one claim is used by two processes",
    "P5",
    /was made twice/,
    (made) => entryAfter(made, enters(made, "n1")[0] as Enter, { t: 4_150, replica: "r2", pid: 22 }, 4_160),
  ],
  [
    "a healthy owner loses its run",
    "P5",
    /without a fault that explains it/,
    (made) => {
      const [own] = enters(made, "n5");
      set(row(made, "runs", { id: "run-n5-42000" }), { generation: 2 });
      entryAfter(made, own as Enter, { t: 42_150, replica: "r1", pid: 12, path: "/callback/run-n5-42000.x" }, 42_160);
    },
  ],
  [
    "a process enters a step while it is inside another one on the node",
    "P5",
    /r1 \(11\) entered wipe on n1 while r1 \(11\) was inside wipe/,
    (made) => entryAfter(made, enters(made, "n1")[0] as Enter, { t: 4_150, path: "/callback/run-n1-4000.x" }, 4_160),
  ],
  [
    "a run enters a step while the previous run is inside one",
    "P5",
    /r2 \(22\) entered wipe on n4 while r1 \(12\) was inside wipe/,
    (made) =>
      entryAfter(
        made,
        enters(made, "n4")[0] as Enter,
        { t: 20_150, replica: "r2", pid: 22, attemptKey: "run-n4-2000:0:1", path: "/callback/run-n4-2000.x" },
        20_160,
      ),
  ],
  [
    "a step begins before the previous one has ended",
    "P5",
    /run-n1-4000:1:1 \(clean.boot\) .* began before run-n1-4000:0:1/,
    (made) => set(row(made, "attempts", { run_id: "run-n1-4000", step: 1 }), { started_at: iso(4_150) }),
  ],
  [
    "a step succeeded without an entry",
    "P6",
    /succeeded without an entry/,
    (made) => {
      const [entry] = enters(made, "n2", "wipe").slice(-1);
      made.driver.splice(made.driver.indexOf(entry as Enter), 1);
    },
  ],
  [
    "a step succeeded although the machine never reported it",
    "P6",
    /machine never reported it/,
    (made) => set(leaveOf(made, enters(made, "n1", "wipe")[0] as Enter), { how: "retry" }),
  ],
  [
    "a repeated entry has another key",
    "P6",
    /no such attempt is stored/,
    (made) => set(enters(made, "n2", "wipe")[1] as Enter, { attemptKey: "run-n2-6000:0:2" }),
  ],
  [
    "a step that must not run twice runs twice",
    "P6",
    /must not run twice/,
    (made) => {
      for (const entry of enters(made, "n2", "wipe").slice(0, 2)) set(entry, { idempotent: false });
    },
  ],
  [
    "a step is entered again after it was done, without a fault",
    "P6",
    /was entered again after it was done/,
    (made) => {
      const [entry] = enters(made, "n1", "wipe") as [Enter];
      set(row(made, "attempts", { run_id: "run-n1-4000", step: 0 }), { entries: 2 });
      entryAfter(made, entry, { t: entry.t + 95 }, entry.t + 97);
    },
  ],
  [
    "a step is entered more often than its attempt counts",
    "P6",
    /counts 1 entries, but had 2/,
    (made) => set(row(made, "attempts", { run_id: "run-n2-6000", step: 0 }), { entries: 1 }),
  ],
  [
    "a run goes back to an earlier step",
    "P6",
    /went back from step 1/,
    (made) => {
      const [first] = enters(made, "n1", "wipe");
      const boots = enters(made, "n1", "boot");
      const path = (first as Enter).path;
      set(first as Enter, { path: boots[1]?.path });
      set(boots[1] as Enter, { path });
      made.driver.splice(made.driver.indexOf(first as Enter), 1);
      entryAfter(made, first as Enter, { t: 4_495 }, 4_499);
    },
  ],
  [
    "an attempt follows a successful one",
    "P6",
    /tried again after an attempt that was SUCCEEDED/,
    (made) =>
      void made.final.attempts.push({
        ...row(made, "attempts", { run_id: "run-n1-4000", step: 1 }),
        number: 2,
        state: "FAILED",
        failure: failure("TIMEOUT", "x"),
        deadline_at: iso(4_510),
      }),
  ],
  [
    "a run succeeds without one of its steps",
    "P6",
    /run-n1-4000 on node n1 succeeded, but its clean.boot never began/,
    (made) => remove(made, "attempts", row(made, "attempts", { run_id: "run-n1-4000", step: 1 })),
  ],
  [
    "a run succeeds although a step failed",
    "P6",
    /run-n1-4000 on node n1 succeeded, but its clean.boot is FAILED/,
    (made) =>
      set(row(made, "attempts", { run_id: "run-n1-4000", step: 1 }), {
        state: "FAILED",
        failure: failure("BACKEND_FAILED", "x"),
      }),
  ],
  [
    "a step that an earlier run had done runs again",
    "P6",
    /was to keep clean.wipe, but ran it/,
    (made) => set(planned(made, 0), { kept: true }),
  ],
  [
    "a step is retried after a final failure",
    "P6",
    /failed permanently according to its machine, but was retried/,
    (made) => {
      set(leaveOf(made, enters(made, "n5")[0] as Enter), { how: "fail" });
      made.final.attempts.push({
        ...row(made, "attempts", { run_id: "run-n5-42000" }),
        number: 2,
        started_at: iso(42_300),
        finished_at: iso(42_400),
      });
    },
  ],
  [
    "a step is tried more often than it declares",
    "P6",
    /was tried 2 times; it may be tried 1 times/,
    (made) =>
      void made.final.attempts.push({
        ...row(made, "attempts", { run_id: "run-n5-42000" }),
        number: 2,
        started_at: iso(42_300),
        finished_at: iso(42_400),
      }),
  ],
  [
    "a step is not retried after a retryable failure",
    "P6",
    /given up after 1 tries; it may be tried 4 times/,
    (made) => {
      set(planned(made, 0), { retries: 3 });
      set(leaveOf(made, enters(made, "n5")[0] as Enter), { how: "retry" });
    },
  ],
  [
    "the memo of a wait is lost",
    "P6",
    /was entered after a wait without its memo/,
    (made) => set(enters(made, "n1", "boot")[1] as Enter, { memo: false }),
  ],
  [
    "an engine step succeeds without a call to the machine",
    "P6",
    /run-n1-2000:0:1 \(power.verify\) succeeded without a call to its machine/,
    (made) =>
      void made.driver.splice(
        made.driver.findIndex((one) => one.k === "power" && one.node === "n1"),
        1,
      ),
  ],
  [
    "a power step succeeds although the machine is off",
    "P6",
    /run-n1-2000:0:1 .* succeeded, but its machine was OFF/,
    (made) => set((row(made, "plans", { hash: "v" })["steps"] as Values[])[0] ?? {}, { name: "power_on" }),
  ],
  ["a stream misses an item", "P7", /but not \d+/, (made) => drop(made, itemsOf(made, "all-2")[3])],
  [
    "a stream repeats an item",
    "P7",
    /received position \d+ after/,
    (made) => {
      const [, item] = itemsOf(made, "all-2");
      made.streams.splice(made.streams.indexOf(item as Item) + 1, 0, { ...(item as Item) });
    },
  ],
  [
    "a stream swaps two items",
    "P7",
    /received position/,
    (made) => {
      const [one, other] = itemsOf(made, "all-3").slice(2, 4);
      const [at, then] = [made.streams.indexOf(one as Item), made.streams.indexOf(other as Item)];
      [made.streams[at], made.streams[then]] = [
        { ...(other as Item), t: (one as Item).t },
        { ...(one as Item), t: (other as Item).t },
      ];
    },
  ],
  [
    "a resumed stream starts too late",
    "P7",
    /but not \d+/,
    (made) => {
      const mark = marksOf(made, "some-3")[0] as Mark;
      set(mark, { position: mark.position + 12 });
    },
  ],
  [
    "a filtered stream receives a node that does not match",
    "P7",
    /does not match its filter/,
    (made) => {
      const next = itemsOf(made, "some-2")[0] as Item;
      const other = itemsOf(made, "all-2").find(
        ({ position, nodeName }) => position < next.position && nodeName !== "n2",
      ) as Item;
      const later = streamOf(made, "some-2").find(({ t }) => t > other.t) as Item;
      made.streams.splice(made.streams.indexOf(later), 0, { ...other, stream: "some-2" });
    },
  ],
  [
    "an item differs from the log",
    "P7",
    /with a wrong to\./,
    (made) => set(itemsOf(made, "all-1")[2] as Item, { to: "ACTIVE" }),
  ],
  [
    "an item is not in the log",
    "P7",
    /which is not in the log/,
    (made) => {
      const last = itemsOf(made, "all-3").at(-1) as Item;
      made.streams.splice(made.streams.indexOf(last) + 1, 0, { ...last, position: last.position + 1 });
    },
  ],
  [
    "a bookmark lies behind the last item",
    "P7",
    /behind \d+/,
    (made) => set(marksOf(made, "all-3").at(-1) as Mark, { position: 3 }),
  ],
  [
    "a valid cursor is rejected",
    "P7",
    /The cursor \d+ of stream all-2 was rejected/,
    (made) =>
      set(made.streams.find((one) => one.k === "end" && one.stream === "all-2") ?? {}, { code: "CURSOR_EXPIRED" }),
  ],
  [
    "a stream ends without a reset",
    "P7",
    /Stream all-2 ended without a reset/,
    (made) => set(endOf(made, "all-2"), { code: "COMPLETE" }),
  ],
  [
    "a stream is reset as too slow although the log is complete",
    "P7",
    /Stream all-2 was reset with TOO_SLOW/,
    (made) => set(endOf(made, "all-2"), { code: "TOO_SLOW", detail: "1" }),
  ],
  [
    "a stream is reset for a shutdown without SIGTERM",
    "P7",
    /SHUTTING_DOWN, but r2 received no SIGTERM/,
    (made) =>
      set(endOf(made, "all-2"), { code: "SHUTTING_DOWN", detail: String(marksOf(made, "all-2").at(-1)?.position) }),
  ],
  [
    "the cursor of a reset is ahead of the last delivery",
    "P7",
    /all-2 received a bookmark at \d+, but not \d+/,
    (made) =>
      set(endOf(made, "all-2"), {
        code: "SHUTTING_DOWN",
        detail: String((marksOf(made, "all-2").at(-1)?.position ?? 0) + 3),
      }),
  ],
  [
    "lines of a run's log are lost",
    "P7",
    /log of run run-n1-4000 has 2 lines, numbered from 1 to 3/,
    (made) => set(row(made, "step_log", { run_id: "run-n1-4000" }), { lines: 2 }),
  ],
  ["a stream is silent for more than 15 s", "P8", /received nothing for 2\d/, silence],
  [
    "a stream is silent while its replica runs and another one waits for a CPU",
    "P8",
    /received nothing for 2\d/,
    (made) => {
      silence(made);
      waitForCpu(made, "r1", 17_000, 44_000, 25_000);
      waitForCpu(made, "r2", 17_000, 44_000, 3_000);
    },
  ],
  [
    "a stream is silent after its replica waited for a CPU",
    "P8",
    /received nothing for 2\d/,
    (made) => {
      silence(made);
      waitForCpu(made, "r2", 2_000, 17_000, 14_000);
    },
  ],
  [
    "a stream is silent until the end of the run",
    "P8",
    /received nothing for/,
    (made) => {
      for (const one of streamOf(made, "some-3").filter(({ t }) => t > 85_000)) drop(made, one);
    },
  ],
  [
    "a stream reports that it has caught up but lacks rows",
    "P8",
    /received the bookmark \d+ \d+ s after position/,
    (made) => {
      const late = itemsOf(made, "all-2").filter(({ t }) => t > 19_000);
      for (const item of late) drop(made, item);
      for (const mark of marksOf(made, "all-2").filter(({ t }) => t > 19_000))
        set(mark, { position: (late[0]?.position ?? 0) - 1 });
    },
  ],
  [
    "a stream's bookmarks stay behind the log",
    "P8",
    /received the bookmark \d+ \d+ s after position/,
    (made) => {
      const late = itemsOf(made, "all-2").filter(({ t }) => t > 19_000);
      for (const item of late) drop(made, item);
      for (const mark of marksOf(made, "all-2").filter(({ t }) => t > 19_000))
        set(mark, { position: (late[0]?.position ?? 0) - 1, caughtUp: false });
    },
  ],
  [
    "a stream that has caught up receives items late",
    "P8",
    /Stream all-3 had caught up, and received position \d+ 25 s after it was written/,
    (made) => {
      const item = itemsOf(made, "all-3").at(-2) as Item;
      set(item, { t: item.t + 25_000 });
    },
  ],
  [
    "a stream is disconnected without a fault",
    "P8",
    /all-2 of r2 \(ws\) was disconnected \(socket hang up\), without a fault that explains it/,
    (made) => set(endOf(made, "all-2"), { code: "LOST", detail: "socket hang up" }),
  ],
  [
    "a replica exceeds the limit of memory",
    "P9",
    /used 4000 MiB/,
    (made) => set(made.replicas.find((one) => one.k === "sample" && one.t > 95_000) ?? {}, { value: 4_000 * 2 ** 20 }),
  ],
  [
    "a stalled reader makes a replica grow",
    "P9",
    /grew by \d+ MiB while readers stalled/,
    (made) => {
      for (const one of made.replicas)
        if (one.k === "sample" && one.pid === 12 && one.t > 95_000) set(one, { value: 1_000 * 2 ** 20 });
    },
  ],
  [
    "an attempt outlives its deadline",
    "P10",
    /ended 7\d s after its deadline/,
    (made) => set(row(made, "attempts", { run_id: "run-n4-20000" }), { finished_at: iso(119_000) }),
  ],
  [
    "a step times out before its deadline",
    "P10",
    /failed with TIMEOUT 6\d\d s before its deadline/,
    (made) => {
      const why = failure("TIMEOUT", "clean.wipe did not end within 600 s");
      fail(made, "run-n1-4000", why);
    },
  ],
  [
    "a deadline is an hour too late",
    "P10",
    /may take 600 s, but its deadline is 4200 s after its beginning/,
    (made) => set(row(made, "attempts", { run_id: "run-n1-4000", step: 0 }), { deadline_at: iso(4_100 + 4_200_000) }),
  ],
  [
    "a deadline is too early",
    "P10",
    /may take 600 s, but its deadline is 60 s after its beginning/,
    (made) => set(row(made, "attempts", { run_id: "run-n1-4000", step: 0 }), { deadline_at: iso(64_100) }),
  ],
  [
    "a wait ends before its time limit",
    "P10",
    /boot on n1 was entered 29.8 s before the end of its wait/,
    (made) => set(enters(made, "n1", "boot")[1] as Enter, { callback: false }),
  ],
  [
    "an attempt never ends",
    "P10",
    /has not ended 72 s after its deadline/,
    (made) => set(row(made, "attempts", { run_id: "run-n4-20000" }), { finished_at: null, state: "RUNNING" }),
  ],
  [
    "the run of a dead process is taken over too late",
    "P11",
    /the run made no progress for 5\d s/,
    (made) => {
      for (const entry of enters(made, "n2").filter(
        ({ attemptKey, replica }) => attemptKey.startsWith("run-n2-6000") && replica === "r2",
      )) {
        set(leaveOf(made, entry), { t: leaveOf(made, entry).t + 45_000 });
        set(entry, { t: entry.t + 45_000 });
      }
      for (const one of made.final.transitions.filter(
        (each) => each["run_id"] === "run-n2-6000" && Date.parse(String(each["at"])) > Date.parse(iso(6_100)),
      ))
        set(one, { at: iso(62_000) });
      for (const one of made.final.attempts.filter((each) => each["run_id"] === "run-n2-6000"))
        set(one, { finished_at: iso(62_100) });
    },
  ],
  [
    "the run of a dead process is taken over at another step",
    "P11",
    /was taken over at boot/,
    (made) => {
      made.driver.splice(made.driver.indexOf(enters(made, "n2", "wipe")[1] as Enter), 1);
      set(row(made, "attempts", { run_id: "run-n2-6000", step: 0 }), { finished_at: iso(30_000) });
    },
  ],
  [
    "a restart of the database fails a step",
    "P12",
    /database is away/,
    (made) => fail(made, "run-n1-69900", failure("BACKEND_FAILED", "The database is away.")),
  ],
  [
    "a result is lost while the database is down, and the step times out",
    "P12",
    /done in time, but its result was lost/,
    (made) => {
      set(row(made, "attempts", { run_id: "run-n1-69900", step: 0 }), { deadline_at: iso(73_400) });
      fail(made, "run-n1-69900", failure("TIMEOUT", "clean.wipe did not end within 3 s"));
    },
  ],
  [
    "an operation fails because of the database",
    "P12",
    /failed first with: Connection terminated/,
    (made) =>
      set(row(made, "operations", { id: "op-n1-69900" }), {
        first_failure: failure("BACKEND_FAILED", "Connection terminated unexpectedly"),
      }),
  ],
  [
    "a step begins after an abort was accepted",
    "P13",
    /entered on n3 \d+ ms after the abort/,
    (made) => {
      const model = enters(made, "n3", "boot")[0] as Enter;
      made.final.attempts.push({
        ...row(made, "attempts", { run_id: "run-n3-10000", step: 0 }),
        step: 1,
        started_at: iso(12_000),
      });
      set(row(made, "runs", { id: "run-n3-10000" }), { generation: 2 });
      entryAfter(
        made,
        model,
        {
          t: 12_010,
          attemptKey: "run-n3-10000:1:1",
          path: "/callback/run-n3-10000.x",
          pid: 22,
          replica: "r2",
          memo: false,
        },
        12_050,
      );
    },
  ],
  [
    "an accepted abort ends as a success",
    "P14",
    /was accepted, but the run ended SUCCEEDED/,
    (made) => set(row(made, "runs", { id: "run-n3-10000" }), { state: "SUCCEEDED" }),
  ],
  [
    "a run has two ends",
    "P14",
    /ended 2 times: abort, fail/,
    (made) => {
      const end = transition(made, "n3", "abort");
      made.final.transitions.push({ ...end, position: made.final.transitions.length + 1, sequence: 99, event: "fail" });
    },
  ],
  [
    "a run is aborted without a request",
    "P14",
    /is ABORTED, but no request asked for it/,
    (made) => set(row(made, "runs", { id: "run-n4-20000" }), { state: "ABORTED" }),
  ],
  [
    "a run is stopped without a request",
    "P14",
    /is STOPPED, but no request asked for it/,
    (made) => set(row(made, "runs", { id: "run-n4-20000" }), { state: "STOPPED" }),
  ],
  [
    "a run is undone without a clean-up",
    "P14",
    /is UNDONE, but was not cleaned up/,
    (made) => set(row(made, "runs", { id: "run-n4-20000" }), { state: "UNDONE" }),
  ],
  [
    "a step begins after a stop was accepted",
    "P14",
    /clean.boot began afterwards/,
    (made) =>
      void made.final.attempts.push({
        ...row(made, "attempts", { run_id: "run-n5-100000", step: 0 }),
        step: 1,
        label: "clean.boot",
        started_at: iso(103_000),
      }),
  ],
  [
    "an answer says NOTHING_RUNNING although a run is unfinished",
    "P14",
    /says that nothing runs on node n3/,
    (made) => set(row(made, "runs", { id: "run-n3-10000" }), { finished_at: iso(30_000) }),
  ],
  [
    "an accepted abort is not recorded",
    "P14",
    /The abort of run run-n3-10000 .* the run has no such interrupt/,
    (made) => set(row(made, "runs", { id: "run-n3-10000" }), { interrupt: null }),
  ],
  [
    "an accepted abort ends in an unrelated failure",
    "P14",
    /The abort of run run-n3-10000 .* ended FAILED with BACKEND_FAILED/,
    (made) =>
      set(row(made, "runs", { id: "run-n3-10000" }), { state: "FAILED", failure: failure("BACKEND_FAILED", "x") }),
  ],
  [
    "a run is aborted although its abort was refused",
    "P14",
    /run-n4-20000 on node n4 is ABORTED, but no request asked for it/,
    (made) => {
      const { request, answer } = exchangeOf(made, "abort", "n3");
      made.requests.push(
        { ...request, id: "no", t: 20_300, nodes: ["n4"], input: { work: { names: ["n4"] } } },
        {
          ...answer,
          id: "no",
          t: 20_340,
          operationId: null,
          results: [
            {
              node: "n4",
              accepted: false,
              runId: null,
              effect: null,
              refusal: { code: "NOT_INTERRUPTIBLE", message: "No." },
            },
          ],
        },
      );
      set(row(made, "runs", { id: "run-n4-20000" }), { state: "ABORTED" });
    },
  ],
  [
    "a failure policy stops a run although no run failed",
    "P14",
    /run-n1-4000 on node n1 is STOPPED, but no request asked for it/,
    (made) => {
      set(row(made, "operations", { id: "op-n1-4000" }), { on_failure: "CLEAN_UP_ALL" });
      set(row(made, "runs", { id: "run-n1-4000" }), { state: "STOPPED" });
    },
  ],
  [
    "the state of an operation differs from those of its runs",
    "P14",
    /op-n4-20000 \(CLEAN\) is SUCCEEDED, but its runs are FAILED/,
    (made) => set(row(made, "operations", { id: "op-n4-20000" }), { state: "SUCCEEDED" }),
  ],
  [
    "an operation ends before its runs",
    "P14",
    /op-n1-69900 \(CLEAN\) ended SUCCEEDED before its run on node n1/,
    (made) => set(row(made, "operations", { id: "op-n1-69900" }), { finished_at: iso(60_000) }),
  ],
  [
    "a run fails but its node moves as after a success",
    "P14",
    /run-n4-20000 on node n4 is FAILED, but its end in the log is "undefined"/,
    (made) => set(transition(made, "n4", "fail"), { event: "manage", to_state: "MANAGEABLE" }),
  ],
  [
    "a run succeeds without moving its node",
    "P14",
    /run-n1-4000 succeeded with target MANAGEABLE, but never moved node n1/,
    (made) => {
      for (const one of made.final.transitions.filter((each) => each["run_id"] === "run-n1-4000"))
        remove(made, "transitions", one);
    },
  ],
  [
    "an answer says BUSY although the node has no run",
    "P14",
    /is busy, but it had no run/,
    (made) => {
      const { request, answer } = exchangeOf(made, "abort", "n3");
      made.requests.push(
        { ...request, id: "busy", t: 60_000, verb: "cleanNodes", nodes: ["n4"] },
        {
          ...answer,
          id: "busy",
          t: 60_040,
          operationId: null,
          results: [
            { node: "n4", accepted: false, runId: null, effect: null, refusal: { code: "BUSY", message: "No." } },
          ],
        },
      );
    },
  ],
  [
    "a request is refused for a state that the node did not have",
    "P14",
    /was refused for its state, but is allowed in every state that the node had: MANAGEABLE/,
    (made) => {
      refuse(made, 60_000, "cleanNodes", "n1", ["INVALID_STATE", "No."]);
    },
  ],
  [
    "a node is refused as disappeared long after it was seen again",
    "P14",
    /cleanNodes on node n4 was refused for its state, but is allowed/,
    (made) => void refuse(made, 75_000, "cleanNodes", "n4", DISAPPEARED),
  ],
  [
    "a node is refused as disappeared before it has disappeared",
    "P14",
    /decommissionNodes on node n4 was refused for its state/,
    (made) => void refuse(made, 40_000, "decommissionNodes", "n4", DISAPPEARED),
  ],
  [
    "a node that is in the wrong state is refused as disappeared",
    "P14",
    /deployNodes on node n4 was refused for its state/,
    (made) => void refuse(made, 75_000, "deployNodes", "n4", DISAPPEARED),
  ],
  [
    "a disappeared node is refused for a state that allows the verb",
    "P14",
    /cleanNodes on node n4 was refused for its state/,
    (made) => void refuse(made, 55_000, "cleanNodes", "n4", WRONG_STATE),
  ],
  [
    "a request with force is refused because the node has disappeared",
    "P14",
    /cleanNodes on node n4 was refused for its state/,
    (made) => set(refuse(made, 55_000, "cleanNodes", "n4", DISAPPEARED), { input: { force: true } }),
  ],
  [
    "a node is refused for a fault that it does not have",
    "P14",
    /cleanNodes on node n1 was refused for its state/,
    (made) => {
      set(row(made, "nodes", { name: "n1" }), { fault_kind: "CLEAN_UP_FAILED" });
      refuse(made, 60_000, "cleanNodes", "n1", UNREACHABLE);
    },
  ],
  [
    "a verification is refused because the BMC is unreachable",
    "P14",
    /manageNodes on node n1 was refused for its state/,
    (made) => {
      set(row(made, "nodes", { name: "n1" }), { fault_kind: "BMC_UNREACHABLE" });
      refuse(made, 60_000, "manageNodes", "n1", UNREACHABLE);
    },
  ],
  [
    "a cleaning is refused because a clean-up failed",
    "P14",
    /cleanNodes on node n1 was refused for its state/,
    (made) => {
      set(row(made, "nodes", { name: "n1" }), { fault_kind: "CLEAN_UP_FAILED" });
      refuse(made, 60_000, "cleanNodes", "n1", DIRTY);
    },
  ],
  [
    "a commission is refused for an installed system on a node that was never deployed",
    "P14",
    /commissionNodes on node n1 was refused for its state/,
    (made) => void refuse(made, 60_000, "commissionNodes", "n1", INSTALLED),
  ],
  [
    "a node is refused as in maintenance without one",
    "P14",
    /cleanNodes on node n1 was refused with IN_MAINTENANCE/,
    (made) => void refuse(made, 60_000, "cleanNodes", "n1", MAINTAINED),
  ],
  [
    "a verb that maintenance allows is refused because of it",
    "P14",
    /inspectNodes on node n2 was refused with IN_MAINTENANCE/,
    (made) => {
      set(row(made, "nodes", { name: "n2" }), { maintenance_reason: "disk" });
      refuse(made, 60_000, "inspectNodes", "n2", MAINTAINED);
    },
  ],
  [
    "a node is refused as protected although it is not",
    "P14",
    /cleanNodes on node n1 was refused with PROTECTED/,
    (made) => void refuse(made, 60_000, "cleanNodes", "n1", ["PROTECTED", "Node n1 is protected."]),
  ],
  [
    "work is accepted on a node that had disappeared",
    "P14",
    /cleanNodes was accepted on node n5, which was disappeared all the time/,
    (made) => set(row(made, "nodes", { name: "n5" }), { presence: "DISAPPEARED" }),
  ],
  [
    "work is accepted on a node whose BMC is unreachable",
    "P14",
    /cleanNodes was accepted on node n5, which was without a reachable BMC all the time/,
    (made) => set(row(made, "nodes", { name: "n5" }), { fault_kind: "BMC_UNREACHABLE" }),
  ],
  [
    "work is accepted on a node in maintenance",
    "P14",
    /cleanNodes was accepted on node n5, which was in maintenance all the time/,
    (made) => set(row(made, "nodes", { name: "n5" }), { maintenance_reason: "disk" }),
  ],
  [
    "a verb is accepted from a state that forbids it",
    "P14",
    /deployNodes on node n1 was accepted and began in MANAGEABLE/,
    (made) => set(exchangeOf(made, "cleanNodes", "n1").request, { verb: "deployNodes" }),
  ],
  [
    "two runs are accepted on a node at the same time",
    "P14",
    /was accepted on node n1 while run run-n1-4000 was unfinished/,
    (made) => set(row(made, "runs", { id: "run-n1-4000" }), { finished_at: iso(75_000) }),
  ],
  [
    "a clock jump ends a step before its deadline",
    "P15",
    /failed with TIMEOUT 9 s before its deadline/,
    (made) => {
      set(row(made, "attempts", { run_id: "run-n4-20000" }), { finished_at: iso(20_700) });
    },
  ],
  [
    "a clock jump ends a wait before its time limit",
    "P15",
    /boot on n1 was entered [\d.]+ s before the end of its wait/,
    (made) => {
      addFault(made, "clock", "r1", 4_000, 5_000);
      set(enters(made, "n1", "boot")[1] as Enter, { callback: false });
    },
  ],
  [
    "a clock jump takes a lease from its owner",
    "P15",
    /without a fault that explains it/,
    (made) => {
      const [own] = enters(made, "n4");
      set(leaveOf(made, own as Enter), { t: 30_000 });
      set(row(made, "runs", { id: "run-n4-20000" }), { generation: 2 });
      set(row(made, "attempts", { run_id: "run-n4-20000" }), { entries: 2 });
      entryAfter(made, own as Enter, { t: 29_000, replica: "r2", pid: 22, path: "/callback/run-n4-20000.x" }, 29_100);
    },
  ],
  [
    "a step fails when the driver of another node exits",
    "P16",
    /failed with BACKEND_FAILED .* no machine reported a failure/,
    (made) => {
      const entry = enters(made, "n3", "wipe").find(({ attemptKey }) => attemptKey.startsWith("run-n3-96000")) as Enter;
      set(leaveOf(made, entry), { how: "lost" });
      fail(made, "run-n3-96000", failure("BACKEND_FAILED", "The driver's process ended."));
    },
  ],
  [
    "a step fails as interrupted without a fault",
    "P16",
    /no fault hit its process/,
    (made) => {
      set(enters(made, "n5")[0] as Enter, { idempotent: false });
      fail(made, "run-n5-42000", failure("INTERRUPTED", "x"));
    },
  ],
  [
    "an idempotent step fails as interrupted",
    "P16",
    /may be entered again, but was not/,
    (made) => fail(made, "run-n2-6000", failure("INTERRUPTED", "x")),
  ],
  [
    "a driver ends the replica",
    "P16",
    /ended unexpectedly, with code 3/,
    (made) =>
      void made.replicas.push({
        t: 50_000,
        k: "replica",
        name: "r1",
        pid: 12,
        what: "ended",
        code: 3,
        signal: null,
        tookMs: null,
      }),
  ],
  [
    "a step fails with the message of another step",
    "P16",
    /The driver throws as ordered.*its machine reported "Fan 3 is broken."/,
    (made) => set(leaveOf(made, enters(made, "n5")[0] as Enter), { detail: "Fan 3 is broken." }),
  ],
  [
    "a process ends during its start although the database is available",
    "P16",
    /r2 \(99\) ended unexpectedly, with code 1/,
    (made) =>
      void made.replicas.push(
        { t: 30_000, k: "replica", name: "r2", pid: 99, what: "started", code: null, signal: null, tookMs: null },
        { t: 31_000, k: "replica", name: "r2", pid: 99, what: "ended", code: 1, signal: null, tookMs: null },
      ),
  ],
  [
    "a full disk loses accepted work",
    "P17",
    /op-n2-79000 .* does not exist/,
    (made) => remove(made, "operations", row(made, "operations", { id: "op-n2-79000" })),
  ],
  [
    "a process does not end after SIGTERM",
    "P19",
    /ended after 1[45]\d\d\d ms|was still running/,
    (made) =>
      set(made.replicas.find((one) => one.k === "replica" && one.what === "ended" && one.name === "r2") ?? {}, {
        t: 126_500,
      }),
  ],
  [
    "a process ends with an error after SIGTERM",
    "P19",
    /ended with code 1/,
    (made) =>
      set(made.replicas.find((one) => one.k === "replica" && one.what === "ended" && one.name === "r2") ?? {}, {
        code: 1,
      }),
  ],
  [
    "a request in progress at SIGTERM is dropped",
    "P19",
    /ended with: socket hang up/,
    (made) => {
      const { answer } = exchangeOf(made, "clearMaintenance", "n1");
      made.requests.splice(made.requests.indexOf(answer), 1, {
        t: answer.t,
        k: "answer",
        id: answer.id,
        ok: false,
        error: "socket hang up",
        status: null,
      });
    },
  ],
  [
    "a request in progress at SIGTERM gets no answer before the end of the process",
    "P19",
    /ended with: The operation was aborted due to timeout/,
    (made) => {
      const { answer } = exchangeOf(made, "clearMaintenance", "n1");
      made.requests.splice(made.requests.indexOf(answer), 1, {
        t: 118_000,
        k: "answer",
        id: answer.id,
        ok: false,
        error: "The operation was aborted due to timeout",
        status: null,
      });
    },
  ],
  [
    "a forged callback is accepted",
    "P20",
    /forged callback to n1 was accepted/,
    (made) => set(made.callbacks.find(({ kind }) => kind === "forged") ?? {}, { status: 202 }),
  ],
  [
    "a callback is accepted twice",
    "P20",
    /was accepted 2 times/,
    (made) => set(made.callbacks.find(({ kind }) => kind === "duplicate") ?? {}, { status: 202 }),
  ],
  [
    "a late callback is accepted",
    "P20",
    /accepted after the run had continued/,
    (made) => set(made.callbacks.find(({ kind }) => kind === "late") ?? {}, { status: 202 }),
  ],
  [
    "a rejected callback is not recorded",
    "P20",
    /3 callbacks to run run-n1-4000 were rejected, but 2 are recorded/,
    (made) => void made.final.rejected_callbacks.pop(),
  ],
  [
    "a callback that no machine sent is applied",
    "P20",
    /no machine can have sent/,
    (made) =>
      void made.callbacks.splice(
        made.callbacks.findIndex(({ runId }) => runId === "run-n2-6000"),
        1,
      ),
  ],
  [
    "an accepted callback is lost",
    "P20",
    /A callback to boot on n1 was accepted, but the next entry did not receive it/,
    (made) => {
      set(enters(made, "n1", "boot")[1] as Enter, { callback: false });
      set(made.callbacks.find(({ kind, runId }) => kind === "good" && runId === "run-n1-4000") ?? {}, {
        sent: 3_000,
        t: 3_010,
      });
    },
  ],
  [
    "a run is unfinished at the end",
    "REST",
    /is RUNNING at the end/,
    (made) => set(row(made, "runs", { id: "run-n1-4000" }), { state: "RUNNING", finished_at: null }),
  ],
  [
    "an operation is unfinished at the end although its runs have ended",
    "REST",
    /but all its runs have ended/,
    (made) => set(row(made, "operations", { id: "op-n1-4000" }), { state: "RUNNING", finished_at: null }),
  ],
  [
    "a node is left in a state of progress",
    "REST",
    /Node n1 is CLEANING at the end/,
    (made) => set(row(made, "nodes", { name: "n1" }), { state: "CLEANING" }),
  ],
  [
    "a failed node is not cleaned up",
    "REST",
    /Node n4 failed in operation op-n4-20000 \(CLEAN_UP_FAILED\), but was never cleaned up/,
    (made) => set(row(made, "operations", { id: "op-n4-20000" }), { on_failure: "CLEAN_UP_FAILED" }),
  ],
  [
    "nodes are stopped after a failure but not cleaned up",
    "REST",
    /Node n4 failed in operation op-n4-20000 \(CLEAN_UP_ALL\), but was never cleaned up/,
    (made) =>
      set(row(made, "operations", { id: "op-n4-20000" }), {
        on_failure: "CLEAN_UP_ALL",
        interrupt: "STOP",
        interrupt_by: "engine",
      }),
  ],
];

describe("checker with a planted fault", () => {
  test.each(FAULTS)('"%s" is reported as a violation of %s', async (_fault, promise, message, change) => {
    const result = (await resultsOf(change)).find(({ id }) => id === promise);
    expect(result?.result).toBe("VIOLATED");
    expect(result?.first.map((one) => one.message).join("\n")).toMatch(message);
    expect(result?.first[0]?.records.length).toBeGreaterThan(0);
  });

  test("every promise has at least one planted fault", () => {
    expect(ALL.filter((id) => !FAULTS.some(([, promise]) => promise === id))).toEqual([]);
  });
});

const CORRECT: readonly (readonly [what: string, change: (made: Made) => void])[] = [
  [
    "a node is refused as disappeared while the report that it is back is being stored",
    (made) => void refuse(made, 65_000, "decommissionNodes", "n4", DISAPPEARED),
  ],
  [
    "work is accepted while a report that the node has disappeared is being stored",
    (made) => {
      set(row(made, "nodes", { name: "n5" }), { presence: "DISAPPEARED" });
      made.final.conditions.push({ node_id: "id-n5", at: iso(95_000), presence: "UNSEEN" });
    },
  ],
  [
    "a node is refused for its fault",
    (made) => {
      set(row(made, "nodes", { name: "n1" }), { fault_kind: "BMC_UNREACHABLE" });
      made.final.conditions.push({ node_id: "id-n1", at: iso(90_000) });
      refuse(made, 95_000, "cleanNodes", "n1", UNREACHABLE);
    },
  ],
  [
    "a verification is accepted on a node whose BMC is unreachable, and work with force",
    (made) => {
      set(row(made, "nodes", { name: "n5" }), { fault_kind: "BMC_UNREACHABLE" });
      for (const one of made.requests)
        if (one.k === "request" && one.verb === "cleanNodes" && one.nodes.includes("n5"))
          set(one, { input: { ...(one.input as Values), force: true } });
    },
  ],
  [
    "a node in maintenance is refused",
    (made) => {
      made.final.conditions.push({ node_id: "id-n4", at: iso(75_000), in_maintenance: true, presence: "DISCOVERED" });
      refuse(made, 70_000, "cleanNodes", "n4", MAINTAINED);
    },
  ],
  [
    "a commission is refused for the system that a deployment installed",
    (made) => {
      set(row(made, "attempts", { run_id: "run-n1-4000", step: 0 }), { label: "deploy.wipe" });
      refuse(made, 60_000, "commissionNodes", "n1", INSTALLED);
    },
  ],
  [
    "an unanswered request takes effect",
    (made) => {
      const { answer } = exchangeOf(made, "cleanNodes", "n1");
      made.requests.splice(made.requests.indexOf(answer), 1);
    },
  ],
  [
    "an abort takes effect without an answer",
    (made) => {
      const { answer } = exchangeOf(made, "abort", "n3");
      made.requests.splice(made.requests.indexOf(answer), 1);
    },
  ],
  [
    "a stale owner stays in its call until the end",
    (made) => set(leaveOf(made, enters(made, "n6")[0] as Enter), { t: 110_000, how: "cut" }),
  ],
  [
    "a step that was done is entered again by the replica that takes over after a kill",
    (made) => set(leaveOf(made, enters(made, "n2", "wipe")[0] as Enter), { t: 6_149, how: "done" }),
  ],
  [
    "an abort overtakes the entry of a step that had begun",
    (made) => {
      const [entry] = enters(made, "n3");
      set(entry as Enter, { t: 10_175 });
    },
  ],
  [
    "a step that must not be interrupted is entered again after an abort",
    (made) => {
      const [entry] = enters(made, "n3");
      set(entry as Enter, { interruptible: "NEVER" });
      set(row(made, "runs", { id: "run-n3-10000" }), { generation: 2 });
      set(row(made, "attempts", { run_id: "run-n3-10000" }), { entries: 2 });
      entryAfter(made, entry as Enter, { t: 10_185, memo: true, path: "/callback/run-n3-10000.x" }, 10_188);
    },
  ],
  [
    "bookmarks are repeated",
    (made) => {
      const mark = marksOf(made, "all-2")[1] as Mark;
      made.streams.splice(made.streams.indexOf(mark), 0, { ...mark });
    },
  ],
  [
    "the streams of a frozen replica are silent",
    (made) => {
      addFault(made, "freeze", "r2", 20_000, 34_000);
      for (const mark of marksOf(made, "some-2").filter(({ t }) => t > 18_000 && t < 43_000)) drop(made, mark);
    },
  ],
  [
    "a stream is silent while its replica, the proxies and the subscribers wait for a CPU",
    (made) => {
      silence(made);
      waitForCpu(made, "r2", 17_000, 44_000, 8_000);
      waitForCpu(made, "proxies", 17_000, 44_000, 4_000);
      waitForCpu(made, "watchers", 17_000, 44_000, 4_000);
    },
  ],
  [
    "a stream receives items late while PostgreSQL waits for a CPU",
    (made) => {
      const item = itemsOf(made, "all-3").at(-2) as Item;
      const mark = marksOf(made, "all-3").at(-1) as Mark;
      waitForCpu(made, "postgres", item.t - 1_000, item.t + 26_000, 22_000);
      const between = { ...mark, t: item.t + 12_000, position: item.position - 1 };
      made.streams.splice(made.streams.indexOf(item), 0, between);
      set(item, { t: item.t + 25_000 });
    },
  ],
  [
    "a reader stalls on purpose",
    (made) => {
      set(made.streams.find((one) => one.k === "open" && one.stream === "some-2") ?? {}, { stalls: true });
      for (const mark of marksOf(made, "some-2").filter(({ t }) => t > 18_000 && t < 43_000)) drop(made, mark);
    },
  ],
  [
    "no replica can take over a run because the database is down",
    (made) => {
      addFault(made, "postgres-restart", "postgres", 10_000, 59_000);
      for (const entry of enters(made, "n2").filter(
        ({ attemptKey, replica }) => attemptKey.startsWith("run-n2-6000") && replica === "r2",
      )) {
        set(leaveOf(made, entry), { t: leaveOf(made, entry).t + 45_000 });
        set(entry, { t: entry.t + 45_000 });
      }
      for (const call of made.callbacks.filter(({ runId }) => runId === "run-n2-6000"))
        set(call, { t: call.t + 45_000, sent: call.sent + 45_000 });
      for (const one of made.final.attempts.filter((each) => each["run_id"] === "run-n2-6000"))
        set(one, {
          finished_at: iso(62_100),
          ...(one["step"] === 1 && { started_at: iso(62_100), deadline_at: iso(662_100) }),
        });
      made.final.transitions
        .filter((each) => each["run_id"] === "run-n2-6000" && each["event"] === "recover")
        .forEach((one) => set(one, { run_id: null }));
      made.streams.length = 0;
    },
  ],
  [
    "a process is killed after SIGTERM",
    (made) => {
      made.replicas.push({
        t: 112_500,
        k: "replica",
        name: "r2",
        pid: 22,
        what: "killed",
        code: null,
        signal: null,
        tookMs: null,
      });
      made.replicas.sort((a, b) => a.t - b.t);
      set(made.replicas.find((one) => one.k === "replica" && one.what === "ended" && one.name === "r2") ?? {}, {
        code: null,
        signal: "SIGKILL",
      });
    },
  ],
  [
    "an abort names an operation and only some of its nodes",
    (made) => {
      const { request } = exchangeOf(made, "abort", "n3");
      set(request, { nodes: ["n1"], input: { work: { operationId: "op-n3-10000" } } });
    },
  ],
  [
    "a client times out on a process after SIGTERM",
    (made) => {
      const { answer } = exchangeOf(made, "clearMaintenance", "n1");
      made.requests.splice(made.requests.indexOf(answer), 1, {
        t: answer.t,
        k: "answer",
        id: answer.id,
        ok: false,
        error: "The operation was aborted due to timeout",
        status: null,
      });
    },
  ],
  [
    "the repeat of an unanswered callback is the accepted one",
    (made) => {
      const good = made.callbacks.find(({ kind, runId }) => kind === "good" && runId === "run-n1-4000");
      const twice = made.callbacks.find(({ kind }) => kind === "duplicate");
      set(good ?? {}, { status: null });
      set(twice ?? {}, { status: 202, sent: 4_405 });
      made.final.rejected_callbacks.splice(0, 1);
    },
  ],
  [
    "the abort of a step reaches the machine before the step is canceled",
    (made) => {
      for (const entry of enters(made, "n3").filter(({ part }) => part === "abort")) set(entry, { t: 10_175 });
      made.driver.sort((a, b) => a.t - b.t);
    },
  ],
  [
    "a failed node is not cleaned up because another operation took it",
    (made) => set(row(made, "operations", { id: "op-n5-42000" }), { on_failure: "CLEAN_UP_FAILED" }),
  ],
  [
    "a process finds no database when it starts",
    (made) => {
      for (const [t, what, code] of [
        [72_000, "started", null],
        [72_500, "ended", 1],
      ] as const)
        made.replicas.push({ t, k: "replica", name: "r2", pid: 99, what, code, signal: null, tookMs: null });
    },
  ],
  [
    "a subscriber times out before its stream begins",
    (made) => {
      const open = made.streams.find((one) => one.k === "open" && one.stream === "all-3");
      made.streams.push(
        { ...(open as Open), stream: "late", client: "late", t: 76_000 },
        { t: 81_000, k: "end", stream: "late", code: "LOST", detail: "The replica did not answer." },
      );
    },
  ],
  [
    "a stalled reader reads the shutdown of a replica long after it",
    (made) => {
      set(made.streams.find((one) => one.k === "open" && one.stream === "all-2") ?? {}, { stalls: true });
      set(endOf(made, "all-2"), { code: "SHUTTING_DOWN", detail: String(marksOf(made, "all-2").at(-1)?.position) });
    },
  ],
  [
    "two concurrent requests set maintenance, and either may be the last",
    (made) => {
      const { request, answer } = exchangeOf(made, "clearMaintenance", "n1");
      made.requests.push(
        { ...request, id: "other", t: request.t + 100, input: { reason: "moved" } },
        { ...answer, id: "other" },
      );
      noteInAudit(made, { id: "other" });
      set(row(made, "nodes", { name: "n1" }), { maintenance_reason: "moved" });
      made.final.conditions.push({ node_id: "id-n1", at: iso(111_500), in_maintenance: false });
    },
  ],
  [
    "a run is on hold as requested",
    (made) => {
      set(row(made, "runs", { id: "run-n2-79000" }), { state: "HOLDING", wait_reason: "HOLD", finished_at: null });
      set(row(made, "operations", { id: "op-n2-79000" }), { state: "RUNNING", finished_at: null });
    },
  ],
];

describe("checker with an unusual but correct run", () => {
  test.each(CORRECT)('"%s" is not reported', async (_what, change) => {
    const results = await resultsOf(change);
    expect(results.flatMap(({ id, first }) => first.map(({ message }) => `${id} ${message}`))).toEqual([]);
  });
});

test("an operation without a key is traced to the request of its batch", async () => {
  const messages = async (batch: string | null) => {
    const results = await resultsOf((made) => {
      set(exchangeOf(made, "cleanNodes", "n2").answer, { operationId: null });
      set(row(made, "operations", { id: "op-n2-6000" }), { idempotency_key: null, batch });
      set(row(made, "operations", { id: "op-n1-4000" }), { batch: "b" });
    });
    return results.find(({ id }) => id === "P2")?.first.map(({ message }) => message);
  };
  expect(await messages("b")).toEqual([]);
  expect(await messages(null)).toEqual(["No request asked for operation op-n2-6000 (CLEAN)."]);
});

test.each<[what: string, step: Values, calledAt: number]>([
  ["a step of a driver", { run_id: "run-n1-4000", step: 0 }, 4_100],
  ["a step of the engine", { run_id: "run-n1-2000" }, 2_020],
])("the wait before the call of %s is not time of the step, and a later deadline is found", async (_what, which, t) => {
  const messages = async (waitedMs: number, overMs: number) => {
    const results = await resultsOf((made) => {
      const attempt = row(made, "attempts", which);
      const ms = Date.parse(String(attempt["deadline_at"])) - Date.parse(String(attempt["started_at"]));
      set(attempt, { started_at: iso(t - waitedMs), deadline_at: iso(t + ms + overMs) });
    });
    return results.filter(({ id }) => id === "P10").flatMap(({ first }) => first.map(({ message }) => message));
  };
  expect(await messages(1_500, 0)).toEqual([]);
  expect(await messages(0, 1_500)).toMatchObject([expect.stringMatching(/its deadline is \d+ s after its beginning/)]);
});

test("a step may time out while its replica, which is to store the result, waits for a CPU", async () => {
  const messages = async (waitedMs: number) => {
    const results = await resultsOf((made) => {
      waitForCpu(made, "r1", 70_000, 80_000, waitedMs);
      set(row(made, "attempts", { run_id: "run-n1-69900", step: 0 }), { deadline_at: iso(73_400) });
      fail(made, "run-n1-69900", failure("TIMEOUT", "clean.wipe did not end within 3 s"));
    });
    return results.flatMap(({ first }) => first.map(({ message }) => message)).join("\n");
  };
  expect(await messages(10_000)).not.toMatch(/its result was lost/);
  expect(await messages(6_000)).toMatch(/its result was lost/);
});

test("a run may end as failed after an accepted abort only if its step had failed before and was being undone", async () => {
  const messages = async (left: number, how: Leave["how"], undone: Values | null) => {
    const results = await resultsOf((made) => {
      const why = failure("BACKEND_FAILED", "The machine is busy.");
      set(leaveOf(made, enters(made, "n3")[0] as Enter), { t: left, how });
      set(row(made, "runs", { id: "run-n3-10000" }), {
        state: "FAILED",
        failure: why,
        interrupt_failure: undone && why,
      });
    });
    return results.flatMap(({ first }) => first.map(({ message }) => message)).join("\n");
  };
  const wrong = /n3 was accepted, but the run ended FAILED with BACKEND_FAILED/;
  expect(await messages(10_140, "retry", {})).not.toMatch(wrong);
  expect(await messages(10_140, "retry", null)).toMatch(wrong);
  expect(await messages(10_140, "cut", {})).toMatch(wrong);
  expect(await messages(12_000, "retry", {})).toMatch(wrong);
});

test("a power step of the engine, which has no entries, may be interrupted only by a fault during it", async () => {
  const messages = async (finishedAt: number) => {
    const results = await resultsOf((made) => {
      set(row(made, "attempts", { run_id: "run-n2-2000", step: 0 }), { finished_at: iso(finishedAt) });
      fail(made, "run-n2-2000", failure("INTERRUPTED", "The process that ran it ended."));
    });
    return results.flatMap(({ first }) => first.map(({ message }) => message)).join("\n");
  };
  // A process is killed at 6,150.
  expect(await messages(7_000)).not.toMatch(/interrupted without an entry/);
  expect(await messages(2_050)).toMatch(/interrupted without an entry/);
});

test("a step of a driver may be interrupted before its entry only by a fault when it begins", async () => {
  const messages = async (startedAt: number) => {
    const results = await resultsOf((made) => {
      const entries = made.driver.filter((entry) => !("attemptKey" in entry) || entry.attemptKey !== "run-n1-4000:0:1");
      made.driver.splice(0, Infinity, ...entries);
      set(row(made, "attempts", { run_id: "run-n1-4000", step: 0 }), { started_at: iso(startedAt) });
      fail(made, "run-n1-4000", failure("INTERRUPTED", "The process that ran it ended."));
    });
    return results.flatMap(({ first }) => first.map(({ message }) => message)).join("\n");
  };
  // A process is killed at 6,150.
  expect(await messages(6_100)).not.toMatch(/interrupted without an entry/);
  expect(await messages(3_000)).toMatch(/interrupted without an entry/);
});

test("a step whose failure could not be stored counts as given up only if it was entered fewer than three times [R-713]", async () => {
  const messages = async (entries: number) => {
    const results = await resultsOf((made) => {
      set(planned(made, 0), { retries: 3 });
      set(leaveOf(made, enters(made, "n5")[0] as Enter), { how: "retry" });
      fail(made, "run-n5-42000", failure("INTERRUPTED", "x"));
      set(row(made, "attempts", { run_id: "run-n5-42000" }), { entries });
    });
    return results.flatMap(({ first }) => first.map(({ message }) => message)).join("\n");
  };
  expect(await messages(3)).not.toMatch(/was given up after/);
  expect(await messages(2)).toMatch(/was given up after 1 tries/);
});

describe("refusal for a failed clean-up", () => {
  const is = { presence: null, fault: "CLEAN_UP_FAILED", inMaintenance: false, isProtected: false, isRetired: false };
  const mayBe = (kind: "DEPLOY" | "COMMISSION" | null, states: readonly string[]) =>
    mayBeRefused(
      { code: DIRTY[0], message: DIRTY[1] },
      { kind, options: {} },
      { states, conditions: [is], mayHaveSystem: false },
    );

  test("is right for work that deploys without cleaning, in one of the states that the node may have had", () => {
    expect(mayBe("DEPLOY", ["AVAILABLE"])).toBe(true);
    expect(mayBe("COMMISSION", ["CLEANING", "DEPLOY_FAILED"])).toBe(true);
  });

  test("is wrong for work that cleans, and for a restart", () => {
    expect(mayBe("COMMISSION", ["MANAGEABLE", "CLEAN_FAILED"])).toBe(false);
    expect(mayBe(null, ["AVAILABLE"])).toBe(false);
  });
});

describe("command of the checker", () => {
  const checker = join(ROOT, "test/chaos/checker/check.ts");
  const run = (file: string, folder: string) => spawnSync(process.execPath, [file, folder], { encoding: "utf8" });

  test("exits with 1 after a violation and names the promise", () => {
    const good = written(goodHistory());
    expect(run(checker, good)).toMatchObject({
      status: 0,
      stdout: expect.stringContaining("0 lost, 0 doubled, 0 illegal, 0 stuck"),
    });
    const made = goodHistory();
    remove(made, "operations", row(made, "operations", { id: "op-n1-4000" }));
    const bad = written(made);
    expect(run(checker, bad)).toMatchObject({ status: 1, stdout: expect.stringMatching(/P1 +VIOLATED/) });
    const { results } = JSON.parse(readFileSync(join(bad, "results.json"), "utf8")) as {
      results: { id: string; result: string }[];
    };
    expect(results.find(({ id }) => id === "P1")?.result).toBe("VIOLATED");
  });

  test("summary is a section of Markdown with the results", async () => {
    const text = summaryOf(await check(written(goodHistory())));
    expect(text).toMatch(/^## /);
    expect(text).toMatch(/\| P11 \| held \|/);
    expect(text).toMatch(/take-over.*10\.9 s/i);
  });
});

describe("imports of the checker", () => {
  /**
   * Files that the imports of values reach. Imports of types have no effect at run time; only the checker's own are
   * checked.
   */
  function reached(file: string, seen = new Set<string>()): Set<string> {
    if (seen.has(file)) return seen;
    seen.add(file);
    const text = readFileSync(join(ROOT, file), "utf8");
    for (const [, to = ""] of text.matchAll(
      /^(?:import|export)\s+(?!type\s)(?:[^;"']*?\sfrom\s+)?["'](\.[^"']+)["']/gm,
    )) {
      const target = relative(ROOT, join(ROOT, dirname(file), to));
      if (target.endsWith(".ts")) reached(target, seen);
      else seen.add(target);
    }
    return seen;
  }

  test("no file reaches the service or its plugins", () => {
    const files = globSync("test/chaos/checker/*.ts", { cwd: ROOT });
    expect(files.length).toBeGreaterThan(5);
    const all = [...files.reduce((seen, file) => reached(file, seen), new Set<string>())];
    expect(all).toContain("test/durability/lifecycle.json");
    expect(all.filter((file) => /^(src|plugins|packages)\//.test(file))).toEqual([]);
    const words = files.flatMap((file) =>
      [...readFileSync(join(ROOT, file), "utf8").matchAll(/from\s+["'](\.[^"']+)["']/g)].map(([, to = ""]) =>
        relative(ROOT, join(ROOT, dirname(file), to)),
      ),
    );
    expect(words.filter((to) => !/^test\/(chaos\/(checker\/|records\.ts$)|durability\/)/.test(to))).toEqual([]);
  });
});

test("a step whose process was killed is interrupted by that, whatever process aborts it afterwards", async () => {
  const messages = async (part: "abort" | "run") => {
    const results = await resultsOf((made) => {
      const entries = enters(made, "n2").filter(({ attemptKey }) => attemptKey === "run-n2-6000:0:1");
      for (const entry of entries) set(entry, { idempotent: false });
      set(entries[1] as Enter, { part });
      fail(made, "run-n2-6000", failure("INTERRUPTED", "The process that ran it ended."));
    });
    return results.flatMap(({ first }) => first.map(({ message }) => message)).join("\n");
  };
  // The process of the first entry is killed at 6,150.
  expect(await messages("abort")).not.toMatch(/no fault hit its process/);
  expect(await messages("run")).toMatch(/no fault hit its process/);
});
