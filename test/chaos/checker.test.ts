/**
 * The checker of the chaos arena, checked: a history in which all is well is found to be so, promise by promise; for every
 * check there is a fault that it finds and names, and what only looks like one is not reported. A checker that finds nothing would
 * fail here.
 */
import { readFileSync, globSync, rmSync } from "node:fs";
import { spawnSync } from "node:child_process";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { check } from "./checker/check.ts";
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
  "REST",
];

const folders: string[] = [];
afterAll(() => folders.forEach((folder) => rmSync(folder, { recursive: true })));

function written(made: Made): string {
  const folder = writeHistory(made);
  folders.push(folder);
  return folder;
}

async function verdictsOf(spoil: (made: Made) => void) {
  const made = goodHistory();
  spoil(made);
  return (await check(written(made))).verdicts;
}

// ---- finding one's way in the history

function row(made: Made, table: keyof Made["final"], fits: Values): Values {
  const found = made.final[table].find((one) => Object.entries(fits).every(([key, value]) => one[key] === value));
  if (!found) throw new Error(`There is no row of ${table} with ${JSON.stringify(fits)}.`);
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
  if (found?.k !== "leave") throw new Error(`No entry left ${entry}.`);
  return found;
}

function asked(
  made: Made,
  verb: string,
  node: string,
): { readonly request: Request; readonly answer: Extract<Answer, { ok: true }> } {
  const request = made.requests.find(
    (one): one is Request => one.k === "request" && one.verb === verb && one.nodes.includes(node),
  );
  const answer = made.requests.find((one) => one.k === "answer" && one.id === request?.id);
  if (!request || answer?.k !== "answer" || !answer.ok)
    throw new Error(`No request got an answer: ${verb} on ${node}.`);
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
const blow = (made: Made, what: Nemesis["what"], target: string, from: number, to: number) =>
  void made.nemesis.push(
    { t: from, k: "nemesis", id: `planted-${from}`, what, target, phase: "begin", detail: null },
    { t: to, k: "nemesis", id: `planted-${from}`, what, target, phase: "end", detail: null },
  );
const transition = (made: Made, node: string, event: string) => row(made, "transitions", { node_name: node, event });
/** A step of the plan that cleans. */
const planned = (made: Made, step: number) => (row(made, "plans", { hash: "p" })["steps"] as Values[])[step] ?? {};
const failure = (code: string, message: string) => ({ code, message, step: "clean.wipe" });

/** A failure that the run and its attempt share. */
function fail(made: Made, runId: string, why: Values): void {
  set(row(made, "attempts", { run_id: runId, step: 0 }), { state: "FAILED", failure: why });
  set(row(made, "runs", { id: runId }), { state: "FAILED", failure: why });
}

describe("a history in which all is well", () => {
  test("keeps every promise, and puts each to the test", async () => {
    const { verdicts, harms } = await check(written(goodHistory()));
    expect(verdicts.flatMap(({ first }) => first)).toEqual([]);
    expect(verdicts.map(({ id, verdict }) => `${id} ${verdict}`)).toEqual(ALL.map((id) => `${id} HELD`));
    expect(harms).toEqual({ lost: 0, doubled: 0, illegal: 0, stuck: 0, other: 0 });
  });

  test("a promise without a fact is not exercised", async () => {
    const made = goodHistory();
    for (const list of [
      made.requests,
      made.streams,
      made.driver,
      made.callbacks,
      made.nemesis,
      made.replicas,
      ...Object.values(made.final),
    ])
      list.length = 0;
    const { verdicts } = await check(written(made));
    expect(verdicts.map(({ id, verdict }) => `${id} ${verdict}`)).toEqual(ALL.map((id) => `${id} NOT EXERCISED`));
  });
});

/** What is planted; the promise that it breaks; what is said of it. Others may be broken by it too. */
const FAULTS: readonly (readonly [fault: string, promise: string, says: RegExp, spoil: (made: Made) => void])[] = [
  [
    "an operation that was answered is gone",
    "P1",
    /op-n1-4000 was answered .* is not there/,
    (made) => remove(made, "operations", row(made, "operations", { id: "op-n1-4000" })),
  ],
  [
    "a run that was answered is gone",
    "P1",
    /Run run-n2-6000 .* is not there/,
    (made) => remove(made, "runs", row(made, "runs", { id: "run-n2-6000" })),
  ],
  [
    "a registered node is gone",
    "P1",
    /Nodes n6 were registered/,
    (made) => {
      remove(made, "nodes", row(made, "nodes", { name: "n6" }));
      for (const one of made.final.transitions.filter((each) => each["node_name"] === "n6"))
        remove(made, "transitions", one);
    },
  ],
  [
    "a mark that was taken off is there",
    "P1",
    /n1 says "moved" at the end, and no setMaintenance/,
    (made) => set(row(made, "nodes", { name: "n1" }), { maintenance_reason: "moved" }),
  ],
  [
    "a report of presence is forgotten",
    "P1",
    /n1 says "UNSEEN" at the end, and no reportPresence/,
    (made) => {
      const { request, answer } = asked(made, "setMaintenance", "n1");
      made.requests.push(
        { ...request, id: "seen", verb: "reportPresence", input: { event: "DISCOVERED" } },
        { ...answer, id: "seen" },
      );
    },
  ],
  [
    "a repeated key is answered with another operation",
    "P2",
    /answered with 2 operations|accepted again/,
    (made) => {
      const repeat = made.requests.find((one) => one.k === "answer" && one.ok && one.replayed === true);
      set(repeat ?? {}, { operationId: "op-n1-4000", replayed: false });
      const answer = asked(made, "cleanNodes", "n1").answer;
      const request = made.requests.find((one) => one.k === "request" && one.id === repeat?.id);
      made.requests.push(
        { ...(request as Request), id: "again", t: 97_500 },
        { ...answer, id: "again", t: 97_600, operationId: "op-n3-96000" },
      );
    },
  ],
  [
    "a key that timed out has made two operations",
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
    "an operation without a request",
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
    "an edit of a cluster is lost",
    "P1",
    /berlin says "zeroth" at the end, and no updateCluster/,
    (made) => set(row(made, "clusters", { name: "berlin" }), { variables: { ntp: "zeroth" } }),
  ],
  [
    "an operation is begun though its request was refused",
    "P2",
    /Every request for operation op-n1-4000 .* was refused/,
    (made) =>
      set(asked(made, "cleanNodes", "n1").answer, {
        operationId: null,
        results: [
          { node: "n1", accepted: false, runId: null, effect: null, refusal: { code: "BUSY", message: "No." } },
        ],
      }),
  ],
  [
    "an operation is of another kind than was asked for",
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
    "a node was accepted and has no run",
    "P2",
    /op-n1-4000 .* accepted on other nodes than it has runs on: n4/,
    (made) => {
      const { request, answer } = asked(made, "cleanNodes", "n1");
      set(request, { nodes: ["n1", "n4"] });
      set(answer, {
        results: [...answer.results, { node: "n4", accepted: true, runId: null, effect: null, refusal: null }],
      });
    },
  ],
  [
    "the log has a hole",
    "P3",
    /from position 9 to 11/,
    (made) => remove(made, "transitions", row(made, "transitions", { position: 10 })),
  ],
  [
    "a state was changed without a transition",
    "P3",
    /brings node n1 to MANAGEABLE .* says ACTIVE/,
    (made) => set(row(made, "nodes", { name: "n1" }), { state: "ACTIVE" }),
  ],
  [
    "a node has not counted a transition",
    "P3",
    /brings node n1/,
    (made) => set(row(made, "nodes", { name: "n1" }), { transition_count: 1 }),
  ],
  [
    "a transition leaves from where the node was not",
    "P3",
    /leaves AVAILABLE/,
    (made) => set(transition(made, "n1", "clean"), { from_state: "AVAILABLE" }),
  ],
  [
    "positions were counted that no transition has",
    "P3",
    /counter of positions is at 60/,
    (made) => set(row(made, "feed_position", {}), { position: "60" }),
  ],
  [
    "the database allows an edge too many",
    "P4",
    /lets a node go "ENROLLED deploy ACTIVE"/,
    (made) => void made.final.lifecycle_edges.push({ from_state: "ENROLLED", event: "deploy", to_state: "ACTIVE" }),
  ],
  ["the database refuses an edge", "P4", /refuses "/, (made) => void made.final.lifecycle_edges.pop()],
  [
    "an edge that there is not",
    "P4",
    /from MANAGEABLE to ACTIVE by "clean"/,
    (made) => set(transition(made, "n1", "clean"), { to_state: "ACTIVE" }),
  ],
  [
    "an event that the edge does not have",
    "P4",
    /by "deploy"/,
    (made) => set(transition(made, "n1", "clean"), { event: "deploy" }),
  ],
  [
    "a node that was never registered",
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
    "two runs move a node in turns",
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
    "a stale owner enters a step after another has",
    "P5",
    /no longer its owner/,
    (made) => {
      const [own] = enters(made, "n6");
      entryAfter(made, own as Enter, { t: 65_200 }, 65_300);
    },
  ],
  [
    "a stale owner changes the power after another has entered",
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
    "an owner is robbed while he is well",
    "P5",
    /nothing had befallen/,
    (made) => {
      const [own] = enters(made, "n5");
      set(row(made, "runs", { id: "run-n5-42000" }), { generation: 2 });
      entryAfter(made, own as Enter, { t: 42_150, replica: "r1", pid: 12, path: "/callback/run-n5-42000.x" }, 42_160);
    },
  ],
  [
    "a process enters a step while it is inside another",
    "P5",
    /r1 \(11\) entered wipe on n1 while r1 \(11\) was inside wipe/,
    (made) => entryAfter(made, enters(made, "n1")[0] as Enter, { t: 4_150, path: "/callback/run-n1-4000.x" }, 4_160),
  ],
  [
    "the next run enters a step while the one before is inside",
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
    "a step is begun before the one before it has ended",
    "P5",
    /run-n1-4000:1:1 \(clean.boot\) .* was begun before run-n1-4000:0:1/,
    (made) => set(row(made, "attempts", { run_id: "run-n1-4000", step: 1 }), { started_at: iso(4_150) }),
  ],
  [
    "a step succeeded and was never entered",
    "P6",
    /succeeded and was never entered/,
    (made) => {
      const [entry] = enters(made, "n2", "wipe").slice(-1);
      made.driver.splice(made.driver.indexOf(entry as Enter), 1);
    },
  ],
  [
    "a success that the machine never reported",
    "P6",
    /machine never reported it/,
    (made) => set(leaveOf(made, enters(made, "n1", "wipe")[0] as Enter), { how: "retry" }),
  ],
  [
    "a re-entry has another key",
    "P6",
    /no such attempt is stored/,
    (made) => set(enters(made, "n2", "wipe")[1] as Enter, { attemptKey: "run-n2-6000:0:2" }),
  ],
  [
    "a step that must not be run twice is",
    "P6",
    /must not be run twice/,
    (made) => {
      for (const entry of enters(made, "n2", "wipe").slice(0, 2)) set(entry, { idempotent: false });
    },
  ],
  [
    "a step is entered again though it was done and all was well",
    "P6",
    /was done, nothing befell/,
    (made) => {
      const [entry] = enters(made, "n1", "wipe") as [Enter];
      set(row(made, "attempts", { run_id: "run-n1-4000", step: 0 }), { entries: 2 });
      entryAfter(made, entry, { t: entry.t + 95 }, entry.t + 97);
    },
  ],
  [
    "a step is entered more often than is stored",
    "P6",
    /says that it was entered 1 times; it was 2/,
    (made) => set(row(made, "attempts", { run_id: "run-n2-6000", step: 0 }), { entries: 1 }),
  ],
  [
    "a run goes back to a step that was done",
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
    "an attempt follows one that had succeeded",
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
    "a run succeeds and leaves a step out",
    "P6",
    /run-n1-4000 on node n1 succeeded, and its clean.boot was never begun/,
    (made) => remove(made, "attempts", row(made, "attempts", { run_id: "run-n1-4000", step: 1 })),
  ],
  [
    "a run succeeds in spite of a step that failed",
    "P6",
    /run-n1-4000 on node n1 succeeded, and its clean.boot is FAILED/,
    (made) =>
      set(row(made, "attempts", { run_id: "run-n1-4000", step: 1 }), {
        state: "FAILED",
        failure: failure("BACKEND_FAILED", "x"),
      }),
  ],
  [
    "a step that was to be kept is run",
    "P6",
    /was to keep clean.wipe, and ran it/,
    (made) => set(planned(made, 0), { kept: true }),
  ],
  [
    "a failure for good is tried again",
    "P6",
    /failed for good, by its machine's word, and was followed by another/,
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
    "a step is tried more often than it may be",
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
    "a failure that may pass is not tried again",
    "P6",
    /given up after 1 tries; it may be tried 4 times/,
    (made) => {
      set(planned(made, 0), { retries: 3 });
      set(leaveOf(made, enters(made, "n5")[0] as Enter), { how: "retry" });
    },
  ],
  [
    "what a wait gave to keep is lost",
    "P6",
    /had a wait, .* what it gave to keep was not there/,
    (made) => set(enters(made, "n1", "boot")[1] as Enter, { memo: false }),
  ],
  [
    "a step of the engine's own succeeds without a call",
    "P6",
    /run-n1-2000:0:1 \(power.verify\) succeeded, and its machine was asked nothing/,
    (made) =>
      void made.driver.splice(
        made.driver.findIndex((one) => one.k === "power" && one.node === "n1"),
        1,
      ),
  ],
  [
    "a machine is not switched on and is reported to be",
    "P6",
    /run-n1-2000:0:1 .* succeeded, and its machine was OFF/,
    (made) => set((row(made, "plans", { hash: "v" })["steps"] as Values[])[0] ?? {}, { name: "power_on" }),
  ],
  ["a stream misses an item", "P7", /and not of \d+/, (made) => drop(made, itemsOf(made, "all-2")[3])],
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
    "a resumed stream begins too late",
    "P7",
    /and not of \d+/,
    (made) => {
      const mark = marksOf(made, "some-3")[0] as Mark;
      set(mark, { position: mark.position + 12 });
    },
  ],
  [
    "a filtered stream receives another node",
    "P7",
    /its filter does not take/,
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
    "an item says something else than the log",
    "P7",
    /another to at position/,
    (made) => set(itemsOf(made, "all-1")[2] as Item, { to: "ACTIVE" }),
  ],
  [
    "an item has a transaction that was lost",
    "P7",
    /which is not in the log/,
    (made) => {
      const last = itemsOf(made, "all-3").at(-1) as Item;
      made.streams.splice(made.streams.indexOf(last) + 1, 0, { ...last, position: last.position + 1 });
    },
  ],
  ["a bookmark lies behind", "P7", /behind \d+/, (made) => set(marksOf(made, "all-3").at(-1) as Mark, { position: 3 })],
  [
    "a cursor is refused",
    "P7",
    /refused its own cursor/,
    (made) =>
      set(made.streams.find((one) => one.k === "end" && one.stream === "all-2") ?? {}, { code: "CURSOR_EXPIRED" }),
  ],
  [
    "a stream ends without a word",
    "P7",
    /Stream all-2 ended without a word/,
    (made) => set(endOf(made, "all-2"), { code: "COMPLETE" }),
  ],
  [
    "a stream is ended as too slow though everything is kept",
    "P7",
    /Stream all-2 was reset with TOO_SLOW/,
    (made) => set(endOf(made, "all-2"), { code: "TOO_SLOW", detail: "1" }),
  ],
  [
    "a replica says that it goes down and does not",
    "P7",
    /r2 goes down, without a SIGTERM/,
    (made) =>
      set(endOf(made, "all-2"), { code: "SHUTTING_DOWN", detail: String(marksOf(made, "all-2").at(-1)?.position) }),
  ],
  [
    "the cursor of a reset lies ahead of what was delivered",
    "P7",
    /all-2 was assured of everything up to \d+ was delivered, and not of \d+/,
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
  [
    "a stream is silent",
    "P8",
    /received nothing for 2\d/,
    (made) => {
      for (const mark of marksOf(made, "some-2").filter(({ t }) => t > 18_000 && t < 43_000)) drop(made, mark);
    },
  ],
  [
    "a stream is silent until the end of all",
    "P8",
    /received nothing for/,
    (made) => {
      for (const one of streamOf(made, "some-3").filter(({ t }) => t > 85_000)) drop(made, one);
    },
  ],
  [
    "a stream says it is caught up and is not",
    "P8",
    /caught up at \d+, \d+ s after position/,
    (made) => {
      const late = itemsOf(made, "all-2").filter(({ t }) => t > 19_000);
      for (const item of late) drop(made, item);
      for (const mark of marksOf(made, "all-2").filter(({ t }) => t > 19_000))
        set(mark, { position: (late[0]?.position ?? 0) - 1 });
    },
  ],
  [
    "a stream's bookmarks do not go on with the log",
    "P8",
    /caught up at \d+, \d+ s after position/,
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
    /Stream all-3 had caught up, and received position \d+ 25 s after it was there/,
    (made) => {
      const item = itemsOf(made, "all-3").at(-2) as Item;
      set(item, { t: item.t + 25_000 });
    },
  ],
  [
    "a stream is cut off though all is well",
    "P8",
    /all-2 of r2 \(ws\) was cut off \(socket hang up\), and nothing had befallen that/,
    (made) => set(endOf(made, "all-2"), { code: "LOST", detail: "socket hang up" }),
  ],
  [
    "a replica takes all the memory",
    "P9",
    /held 4000 MiB/,
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
    "a step's time is over before it is",
    "P10",
    /failed with TIMEOUT 6\d\d s before its deadline/,
    (made) => {
      const why = failure("TIMEOUT", "clean.wipe did not end within 600 s");
      fail(made, "run-n1-4000", why);
    },
  ],
  [
    "a deadline is an hour too far",
    "P10",
    /may take 600 s, and its deadline is 4200 s after its beginning/,
    (made) => set(row(made, "attempts", { run_id: "run-n1-4000", step: 0 }), { deadline_at: iso(4_100 + 4_200_000) }),
  ],
  [
    "a deadline is too near",
    "P10",
    /may take 600 s, and its deadline is 60 s after its beginning/,
    (made) => set(row(made, "attempts", { run_id: "run-n1-4000", step: 0 }), { deadline_at: iso(64_100) }),
  ],
  [
    "a wait is over before its time",
    "P10",
    /boot on n1 was to wait, no callback came, and it was entered 29.8 s before/,
    (made) => set(enters(made, "n1", "boot")[1] as Enter, { callback: false }),
  ],
  [
    "an attempt never ends",
    "P10",
    /has not ended 72 s after its deadline/,
    (made) => set(row(made, "attempts", { run_id: "run-n4-20000" }), { finished_at: null, state: "RUNNING" }),
  ],
  [
    "a dead process's run is taken up too late",
    "P11",
    /nothing was heard of the run for 5\d s/,
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
    "a dead process's run is taken up at another step",
    "P11",
    /was taken up at boot/,
    (made) => {
      made.driver.splice(made.driver.indexOf(enters(made, "n2", "wipe")[1] as Enter), 1);
      set(row(made, "attempts", { run_id: "run-n2-6000", step: 0 }), { finished_at: iso(30_000) });
    },
  ],
  [
    "the database's restart fails a step",
    "P12",
    /database is away/,
    (made) => fail(made, "run-n1-69900", failure("BACKEND_FAILED", "The database is away.")),
  ],
  [
    "a result is lost while the database is away, and the step's time runs out",
    "P12",
    /done in time, and its result was lost/,
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
    /was accepted, and it ended SUCCEEDED/,
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
    "a run is aborted and no request asked for it",
    "P14",
    /is ABORTED, and no request asked for it/,
    (made) => set(row(made, "runs", { id: "run-n4-20000" }), { state: "ABORTED" }),
  ],
  [
    "a run is stopped and no request asked for it",
    "P14",
    /is STOPPED, and no request asked for it/,
    (made) => set(row(made, "runs", { id: "run-n4-20000" }), { state: "STOPPED" }),
  ],
  [
    "a step begins after a stop was accepted",
    "P14",
    /clean.boot was begun afterwards/,
    (made) =>
      void made.final.attempts.push({
        ...row(made, "attempts", { run_id: "run-n5-100000", step: 0 }),
        step: 1,
        label: "clean.boot",
        started_at: iso(103_000),
      }),
  ],
  [
    "nothing is said to run where something does",
    "P14",
    /reported to have nothing running/,
    (made) => set(row(made, "runs", { id: "run-n3-10000" }), { finished_at: iso(30_000) }),
  ],
  [
    "an accepted abort is not recorded",
    "P14",
    /The abort of run run-n3-10000 .* the run has no such interrupt/,
    (made) => set(row(made, "runs", { id: "run-n3-10000" }), { wish: null }),
  ],
  [
    "an accepted abort ends as a failure of its own",
    "P14",
    /The abort of run run-n3-10000 .* ended FAILED with BACKEND_FAILED/,
    (made) =>
      set(row(made, "runs", { id: "run-n3-10000" }), { state: "FAILED", failure: failure("BACKEND_FAILED", "x") }),
  ],
  [
    "a run is aborted though its abort was refused",
    "P14",
    /run-n4-20000 on node n4 is ABORTED, and no request asked for it/,
    (made) => {
      const { request, answer } = asked(made, "abort", "n3");
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
    "a policy stops a run though none has failed",
    "P14",
    /run-n1-4000 on node n1 is STOPPED, and no request asked for it/,
    (made) => {
      set(row(made, "operations", { id: "op-n1-4000" }), { on_failure: "CLEAN_UP_ALL" });
      set(row(made, "runs", { id: "run-n1-4000" }), { state: "STOPPED" });
    },
  ],
  [
    "an operation ends otherwise than its runs",
    "P14",
    /op-n4-20000 \(CLEAN\) is SUCCEEDED, and its runs are FAILED/,
    (made) => set(row(made, "operations", { id: "op-n4-20000" }), { state: "SUCCEEDED" }),
  ],
  [
    "an operation ends before its runs have",
    "P14",
    /op-n1-69900 \(CLEAN\) ended SUCCEEDED before its run on node n1/,
    (made) => set(row(made, "operations", { id: "op-n1-69900" }), { finished_at: iso(60_000) }),
  ],
  [
    "a run fails and its node is moved as if it had not",
    "P14",
    /run-n4-20000 on node n4 is FAILED, and its end in the log is "undefined"/,
    (made) => set(transition(made, "n4", "fail"), { event: "manage", to_state: "MANAGEABLE" }),
  ],
  [
    "a run succeeds and its node stays where it was",
    "P14",
    /run-n1-4000 succeeded, its target was MANAGEABLE, and it never moved node n1/,
    (made) => {
      for (const one of made.final.transitions.filter((each) => each["run_id"] === "run-n1-4000"))
        remove(made, "transitions", one);
    },
  ],
  [
    "a node is reported as busy and is not",
    "P14",
    /reported as busy, and no run was there/,
    (made) => {
      const { request, answer } = asked(made, "abort", "n3");
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
    "a node is refused for a state that it did not have",
    "P14",
    /was refused for its state, and was allowed in all that it had: MANAGEABLE/,
    (made) => {
      const { request, answer } = asked(made, "cleanNodes", "n1");
      made.requests.push(
        { ...request, id: "state", t: 60_000 },
        {
          ...answer,
          id: "state",
          t: 60_040,
          operationId: null,
          results: [
            {
              node: "n1",
              accepted: false,
              runId: null,
              effect: null,
              refusal: { code: "INVALID_STATE", message: "No." },
            },
          ],
        },
      );
    },
  ],
  [
    "a verb is accepted from a state that forbids it",
    "P14",
    /deployNodes on node n1 was accepted, and begun from MANAGEABLE/,
    (made) => set(asked(made, "cleanNodes", "n1").request, { verb: "deployNodes" }),
  ],
  [
    "two runs are accepted on one node",
    "P14",
    /was accepted on node n1 while run run-n1-4000 was there/,
    (made) => set(row(made, "runs", { id: "run-n1-4000" }), { finished_at: iso(75_000) }),
  ],
  [
    "a clock's jump ends a step before its time",
    "P15",
    /failed with TIMEOUT 9 s before its deadline/,
    (made) => {
      set(row(made, "attempts", { run_id: "run-n4-20000" }), { finished_at: iso(20_700) });
    },
  ],
  [
    "a clock's jump ends a wait before its time",
    "P15",
    /boot on n1 was to wait, no callback came/,
    (made) => {
      blow(made, "clock", "r1", 4_000, 5_000);
      set(enters(made, "n1", "boot")[1] as Enter, { callback: false });
    },
  ],
  [
    "a clock's jump costs a lease",
    "P15",
    /nothing had befallen/,
    (made) => {
      const [own] = enters(made, "n4");
      set(leaveOf(made, own as Enter), { t: 30_000 });
      set(row(made, "runs", { id: "run-n4-20000" }), { generation: 2 });
      set(row(made, "attempts", { run_id: "run-n4-20000" }), { entries: 2 });
      entryAfter(made, own as Enter, { t: 29_000, replica: "r2", pid: 22, path: "/callback/run-n4-20000.x" }, 29_100);
    },
  ],
  [
    "another node's step fails with a driver's exit",
    "P16",
    /failed with BACKEND_FAILED .* no machine gave it a reason/,
    (made) => {
      const entry = enters(made, "n3", "wipe").find(({ attemptKey }) => attemptKey.startsWith("run-n3-96000")) as Enter;
      set(leaveOf(made, entry), { how: "lost" });
      fail(made, "run-n3-96000", failure("BACKEND_FAILED", "The driver's process ended."));
    },
  ],
  [
    "a step is interrupted and nothing has befallen it",
    "P16",
    /nothing had befallen the process/,
    (made) => {
      set(enters(made, "n5")[0] as Enter, { idempotent: false });
      fail(made, "run-n5-42000", failure("INTERRUPTED", "x"));
    },
  ],
  [
    "a step that may be entered again fails as interrupted",
    "P16",
    /may be entered again, and was not/,
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
    "a step fails with another one's failure",
    "P16",
    /The driver is possessed.*its machine had reported "Fan 3 is gone."/,
    (made) => set(leaveOf(made, enters(made, "n5")[0] as Enter), { detail: "Fan 3 is gone." }),
  ],
  [
    "a process ends in its start though the database is there",
    "P16",
    /r2 \(99\) ended unexpectedly, with code 1/,
    (made) =>
      void made.replicas.push(
        { t: 30_000, k: "replica", name: "r2", pid: 99, what: "started", code: null, signal: null, tookMs: null },
        { t: 31_000, k: "replica", name: "r2", pid: 99, what: "ended", code: 1, signal: null, tookMs: null },
      ),
  ],
  [
    "a full disk loses what was accepted",
    "P17",
    /op-n2-79000 .* is not there/,
    (made) => remove(made, "operations", row(made, "operations", { id: "op-n2-79000" })),
  ],
  [
    "a process does not go",
    "P19",
    /went after 1[45]\d\d\d ms|was still there/,
    (made) =>
      set(made.replicas.find((one) => one.k === "replica" && one.what === "ended" && one.name === "r2") ?? {}, {
        t: 126_500,
      }),
  ],
  [
    "a process goes with an error",
    "P19",
    /ended with code 1/,
    (made) =>
      set(made.replicas.find((one) => one.k === "replica" && one.what === "ended" && one.name === "r2") ?? {}, {
        code: 1,
      }),
  ],
  [
    "a request in progress is dropped",
    "P19",
    /came to: socket hang up/,
    (made) => {
      const { answer } = asked(made, "setMaintenance", "n1");
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
    "a request in progress hears nothing, and the process is gone",
    "P19",
    /came to: The operation was aborted due to timeout/,
    (made) => {
      const { answer } = asked(made, "setMaintenance", "n1");
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
    "a made-up callback is taken",
    "P20",
    /made-up callback to n1 was taken/,
    (made) => set(made.callbacks.find(({ kind }) => kind === "forged") ?? {}, { status: 202 }),
  ],
  [
    "a callback is taken twice",
    "P20",
    /was taken 2 times/,
    (made) => set(made.callbacks.find(({ kind }) => kind === "duplicate") ?? {}, { status: 202 }),
  ],
  [
    "a late callback is taken",
    "P20",
    /taken after the run had gone on/,
    (made) => set(made.callbacks.find(({ kind }) => kind === "late") ?? {}, { status: 202 }),
  ],
  [
    "a refused callback is not recorded",
    "P20",
    /3 callbacks to run run-n1-4000 were refused, and 2 are recorded/,
    (made) => void made.final.anomalies.pop(),
  ],
  [
    "a callback that no machine made is applied",
    "P20",
    /no machine can have made/,
    (made) =>
      void made.callbacks.splice(
        made.callbacks.findIndex(({ runId }) => runId === "run-n2-6000"),
        1,
      ),
  ],
  [
    "a callback that was taken is forgotten",
    "P20",
    /A callback to boot on n1 was taken, and it was entered again as if there had been none/,
    (made) => {
      set(enters(made, "n1", "boot")[1] as Enter, { callback: false });
      set(made.callbacks.find(({ kind, runId }) => kind === "good" && runId === "run-n1-4000") ?? {}, {
        sent: 3_000,
        t: 3_010,
      });
    },
  ],
  [
    "a run is stuck",
    "REST",
    /is RUNNING at the end/,
    (made) => set(row(made, "runs", { id: "run-n1-4000" }), { state: "RUNNING", finished_at: null }),
  ],
  [
    "an operation is stuck",
    "REST",
    /none of its runs is unfinished/,
    (made) => set(row(made, "operations", { id: "op-n1-4000" }), { state: "RUNNING", finished_at: null }),
  ],
  [
    "a node is left half-way",
    "REST",
    /Node n1 is CLEANING at the end/,
    (made) => set(row(made, "nodes", { name: "n1" }), { state: "CLEANING" }),
  ],
  [
    "a failed node is not cleaned up",
    "REST",
    /Node n4 failed in operation op-n4-20000 \(CLEAN_UP_FAILED\), and was never cleaned up/,
    (made) => set(row(made, "operations", { id: "op-n4-20000" }), { on_failure: "CLEAN_UP_FAILED" }),
  ],
  [
    "nodes are stopped for a failure, and not cleaned up",
    "REST",
    /Node n4 failed in operation op-n4-20000 \(CLEAN_UP_ALL\), and was never cleaned up/,
    (made) =>
      set(row(made, "operations", { id: "op-n4-20000" }), {
        on_failure: "CLEAN_UP_ALL",
        wish: "STOP",
        wish_by: "engine",
      }),
  ],
];

describe("a planted fault is found and named", () => {
  test.each(FAULTS)("%s: %s", async (_fault, promise, says, spoil) => {
    const verdict = (await verdictsOf(spoil)).find(({ id }) => id === promise);
    expect(verdict?.verdict).toBe("VIOLATED");
    expect(verdict?.first.map((one) => one.says).join("\n")).toMatch(says);
    expect(verdict?.first[0]?.records.length).toBeGreaterThan(0);
  });

  test("for every promise there is one", () => {
    expect(ALL.filter((id) => !FAULTS.some(([, promise]) => promise === id))).toEqual([]);
  });
});

const NO_FAULTS: readonly (readonly [what: string, spoil: (made: Made) => void])[] = [
  [
    "an unanswered request took effect",
    (made) => {
      const { answer } = asked(made, "cleanNodes", "n1");
      made.requests.splice(made.requests.indexOf(answer), 1);
    },
  ],
  [
    "an abort that took effect is not in the log",
    (made) => {
      const { answer } = asked(made, "abort", "n3");
      made.requests.splice(made.requests.indexOf(answer), 1);
    },
  ],
  [
    "a stale owner goes on inside his call until the end",
    (made) => set(leaveOf(made, enters(made, "n6")[0] as Enter), { t: 110_000, how: "cut" }),
  ],
  [
    "a step that had been done is entered again by the replica that takes it over after a kill",
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
    "a step that may not be cut is entered again after an abort",
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
    "a frozen replica's streams are silent",
    (made) => {
      blow(made, "freeze", "r2", 20_000, 34_000);
      for (const mark of marksOf(made, "some-2").filter(({ t }) => t > 18_000 && t < 43_000)) drop(made, mark);
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
    "no replica could take a run over because the database was away",
    (made) => {
      blow(made, "postgres-restart", "postgres", 10_000, 59_000);
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
    "a process dies of a kill while it got SIGTERM",
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
    "an operation is aborted by its name, by a request that names a part of its nodes",
    (made) => {
      const { request } = asked(made, "abort", "n3");
      set(request, { nodes: ["n1"], input: { work: { operationId: "op-n3-10000" } } });
    },
  ],
  [
    "a client loses its patience with a process that got SIGTERM",
    (made) => {
      const { answer } = asked(made, "setMaintenance", "n1");
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
    "a repeat of an unanswered callback is the one that is taken",
    (made) => {
      const good = made.callbacks.find(({ kind, runId }) => kind === "good" && runId === "run-n1-4000");
      const twice = made.callbacks.find(({ kind }) => kind === "duplicate");
      set(good ?? {}, { status: null });
      set(twice ?? {}, { status: 202, sent: 4_405 });
      made.final.anomalies.splice(0, 1);
    },
  ],
  [
    "the undoing of a step comes before the news that it is cut",
    (made) => {
      for (const entry of enters(made, "n3").filter(({ part }) => part === "abort")) set(entry, { t: 10_175 });
      made.driver.sort((a, b) => a.t - b.t);
    },
  ],
  [
    "a failed node is not cleaned up because another request had taken it",
    (made) => set(row(made, "operations", { id: "op-n5-42000" }), { on_failure: "CLEAN_UP_FAILED" }),
  ],
  [
    "a process finds no database at its start",
    (made) => {
      for (const [t, what, code] of [
        [72_000, "started", null],
        [72_500, "ended", 1],
      ] as const)
        made.replicas.push({ t, k: "replica", name: "r2", pid: 99, what, code, signal: null, tookMs: null });
    },
  ],
  [
    "a subscriber loses its patience before its stream has begun",
    (made) => {
      const open = made.streams.find((one) => one.k === "open" && one.stream === "all-3");
      made.streams.push(
        { ...(open as Open), stream: "late", client: "late", t: 76_000 },
        { t: 81_000, k: "end", stream: "late", code: "LOST", detail: "The replica did not answer." },
      );
    },
  ],
  [
    "a reader that stalls reads of a replica's end when that is long over",
    (made) => {
      set(made.streams.find((one) => one.k === "open" && one.stream === "all-2") ?? {}, { stalls: true });
      set(endOf(made, "all-2"), { code: "SHUTTING_DOWN", detail: String(marksOf(made, "all-2").at(-1)?.position) });
    },
  ],
  [
    "marks were set at about the same time, and either may have been the last",
    (made) => {
      const { request, answer } = asked(made, "setMaintenance", "n1");
      made.requests.push(
        { ...request, id: "other", t: request.t + 100, input: { reason: "moved" } },
        { ...answer, id: "other" },
      );
      set(row(made, "nodes", { name: "n1" }), { maintenance_reason: "moved" });
    },
  ],
  [
    "a hold is ended by an interrupt",
    (made) => {
      set(row(made, "runs", { id: "run-n2-79000" }), { state: "HOLDING", wait_reason: "HOLD", finished_at: null });
      set(row(made, "operations", { id: "op-n2-79000" }), { state: "RUNNING", finished_at: null });
    },
  ],
];

describe("what only looks like a fault is not reported", () => {
  test.each(NO_FAULTS)("%s", async (_what, spoil) => {
    const verdicts = await verdictsOf(spoil);
    expect(verdicts.flatMap(({ id, first }) => first.map(({ says }) => `${id} ${says}`))).toEqual([]);
  });
});

describe("the checker as a command", () => {
  const checker = join(ROOT, "test/chaos/checker/check.ts");
  const run = (file: string, folder: string) => spawnSync(process.execPath, [file, folder], { encoding: "utf8" });

  test("ends with 1 where something is wrong, and says what", () => {
    const good = written(goodHistory());
    expect(run(checker, good)).toMatchObject({
      status: 0,
      stdout: expect.stringContaining("0 lost, 0 doubled, 0 illegal, 0 stuck"),
    });
    const made = goodHistory();
    remove(made, "operations", row(made, "operations", { id: "op-n1-4000" }));
    const bad = written(made);
    expect(run(checker, bad)).toMatchObject({ status: 1, stdout: expect.stringMatching(/P1 +VIOLATED/) });
    const { verdicts } = JSON.parse(readFileSync(join(bad, "verdicts.json"), "utf8")) as {
      verdicts: { id: string; verdict: string }[];
    };
    expect(verdicts.find(({ id }) => id === "P1")?.verdict).toBe("VIOLATED");
  });

  test("its summary is a section of Markdown with the verdicts", async () => {
    const text = summaryOf(await check(written(goodHistory())));
    expect(text).toMatch(/^## /);
    expect(text).toMatch(/\| P11 \| held \|/);
    expect(text).toMatch(/take-over.*10\.9 s/i);
  });
});

describe("the checker shares nothing with the service", () => {
  /** Imports of values; types leave nothing behind, and are looked at in the checker's own files alone. */
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

  test("no file of it reaches one of the service or of its plugins", () => {
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
