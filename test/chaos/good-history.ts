/**
 * A small synthetic run in which every promise is exercised and kept: two minutes of two replicas and six nodes, with a
 * kill, a freeze, a clock jump, an outage, a full disk, a stalled reader and a process that receives SIGTERM.
 *
 * Some of it looks wrong but is correct: a request that took effect without an answer, one without answer and effect, a
 * step entered again after the kill, a stale owner that leaves its call long after another process has entered it, a
 * result stored only when the database was available again, and a bookmark that repeats the position of the last item.
 */
import { createHmac } from "node:crypto";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { EDGES } from "../durability/rules.ts";
import type {
  AccessChange,
  AccessChanged,
  Answer,
  Callback,
  End,
  Enter,
  Files,
  Item,
  Leave,
  Mark,
  Nemesis,
  NodeAnswer,
  Open,
  Phase,
  Power,
  Replica,
  Request,
  Run,
  Sample,
} from "./records.ts";

export type Values = Record<string, unknown>;

/** The records of a run before they are written, for tests to modify. */
export interface Made {
  readonly run: Run;
  readonly requests: (Request | Answer)[];
  readonly access: (AccessChange | AccessChanged)[];
  readonly streams: (Open | Item | Mark | End)[];
  readonly driver: (Enter | Leave | Power)[];
  readonly callbacks: Callback[];
  readonly nemesis: (Nemesis | Phase)[];
  readonly replicas: (Replica | Sample)[];
  readonly final: Record<
    | "clusters"
    | "nodes"
    | "conditions"
    | "audit"
    | "operations"
    | "runs"
    | "plans"
    | "attempts"
    | "transitions"
    | "rejected_callbacks"
    | "step_log"
    | "lifecycle_edges"
    | "feed_position",
    Values[]
  >;
}

const WALL_MS = Date.UTC(2026, 0, 1);
const OVER = 120_000;
export const iso = (t: number) => new Date(WALL_MS + t).toISOString();
const NODES = ["n1", "n2", "n3", "n4", "n5", "n6"];
const WIPE = 0;
const BOOT = 1;

/** The sender of a request; by default the holder of the configured token. */
interface Caller {
  readonly account?: string;
  readonly tokenId?: string;
}
const ANN = { account: "ann", tokenId: "t1" };
const audited = (t: number, row: Values): Values => ({ at: iso(t + 5), outcome: "ACCEPTED", change: null, ...row });

/** A process of a replica. */
interface At {
  readonly replica: string;
  readonly pid: number;
  /** Process that the machines see: the replica's own, or one that it started for its drivers. */
  readonly driver: { readonly replica: string; readonly pid: number; readonly parent: number };
}
const R1: At = { replica: "r1", pid: 11, driver: { replica: "r1", pid: 11, parent: 1 } };
const R1_AGAIN: At = { replica: "r1", pid: 12, driver: { replica: "r1", pid: 12, parent: 1 } };
const R2: At = { replica: "r2", pid: 22, driver: { replica: "r2", pid: 220, parent: 22 } };

export function goodHistory(): Made {
  const made: Made = {
    run: {
      seed: 1,
      nodes: NODES.length,
      streams: 2,
      replicas: ["r1", "r2"],
      nemeses: [],
      wallMs: WALL_MS,
      t: 0,
      unsettled: null,
    },
    requests: [],
    access: [],
    streams: [],
    driver: [],
    callbacks: [],
    nemesis: [],
    replicas: [],
    final: {
      clusters: [],
      nodes: [],
      conditions: [],
      audit: [],
      operations: [],
      runs: [],
      plans: [],
      attempts: [],
      transitions: [],
      rejected_callbacks: [],
      step_log: [],
      lifecycle_edges: [],
      feed_position: [],
    },
  };
  const { requests, access, driver, callbacks, nemesis, replicas, final } = made;
  let last = 0;

  // ---- single records

  function ask(
    t: number,
    replica: string,
    verb: string,
    nodes: readonly string[],
    input: Values,
    key: string | null,
    answer?: Omit<Extract<Answer, { ok: true }>, "t" | "k" | "id" | "ok"> & { readonly after?: number },
    caller: Caller = {},
  ): void {
    const id = `q${(last += 1)}`;
    requests.push({
      t,
      k: "request",
      id,
      client: "c",
      replica,
      verb,
      input: { ...input, idempotencyKey: key },
      idempotencyKey: key,
      nodes,
      ...caller,
    });
    if (answer) {
      const { after = 40, ...rest } = answer;
      const subject = caller.account === undefined ? "token" : `account:${caller.account}`;
      final.audit.push(audited(t, { subject, action: verb, request_id: id, targets: nodes }));
      requests.push({ t: t + after, k: "answer", id, ok: true, ...rest });
    } else requests.push({ t: t + 200, k: "answer", id, ok: false, error: "socket hang up", status: null });
  }

  /** A request of an account that is denied. */
  function deny(t: number, denied: "FORBIDDEN" | "UNAUTHENTICATED"): void {
    ask(t, "r1", "abort", ["n1"], { work: { names: ["n1"] } }, null, undefined, ANN);
    const answer = requests.at(-1);
    if (answer?.k === "answer") Object.assign(answer, { error: `${denied}: No.`, status: 200, denied });
  }

  /** A change of what an account may do; `role`: its only one from now on. */
  function changeAccess(t: number, mutation: AccessChange["mutation"], target: string, role?: string): void {
    const id = `a${(last += 1)}`;
    access.push({ t, k: "change", id, mutation, account: ANN.account }, { t: t + 40, k: "changed", id });
    const change = role === undefined ? null : { edits: [{ target, after: { roles: [{ role }] } }], complete: true };
    final.audit.push(audited(t, { subject: "token", action: mutation, request_id: id, targets: [target], change }));
  }

  const accepted = (node: string, runId: string | null, effect: NodeAnswer["effect"] = null): NodeAnswer => ({
    node,
    accepted: true,
    runId,
    refusal: null,
    effect,
  });
  const refused = (node: string, code: string, message = "No."): NodeAnswer => ({
    node,
    accepted: false,
    runId: null,
    refusal: { code, message },
    effect: null,
  });

  function move(t: number, node: string, event: string, to: string, runId: string | null): void {
    const row = final.nodes.find(({ name }) => name === node);
    const from = row?.["state"] ?? null;
    if (row) Object.assign(row, { state: to, transition_count: Number(row["transition_count"]) + 1 });
    else
      final.nodes.push({
        id: `id-${node}`,
        name: node,
        state: to,
        transition_count: 1,
        presence: "UNSEEN",
        maintenance_reason: null,
        labels: { group: node === "n2" ? "a" : "b" },
      });
    const operation = final.runs.find(({ id }) => id === runId)?.["operation_id"] ?? null;
    final.transitions.push({
      node_id: `id-${node}`,
      node_name: node,
      from_state: from,
      to_state: to,
      event,
      sequence: Number(row?.["transition_count"] ?? 1),
      operation_id: operation,
      run_id: runId,
      step: null,
      actor: "c",
      reason: null,
      at: iso(t),
    });
  }

  function beginRun(
    t: number,
    node: string,
    { kind = "CLEAN", plan = "p", key = `key-${node}-${t}`, target = "MANAGEABLE" } = {},
  ): string {
    const operation = `op-${node}-${t}`;
    const id = `run-${node}-${t}`;
    final.operations.push({
      id: operation,
      kind,
      state: "SUCCEEDED",
      interrupt: null,
      interrupt_by: null,
      idempotency_key: key,
      on_failure: "LEAVE",
      first_failure: null,
      created_at: iso(t),
      finished_at: null,
    });
    final.runs.push({
      id,
      operation_id: operation,
      node_id: `id-${node}`,
      node_name: node,
      purpose: "WORK",
      state: "SUCCEEDED",
      interrupt: null,
      moves_state: true,
      wait_reason: null,
      owner: null,
      plan_hash: plan,
      target,
      callback_secret: `secret-${id}`,
      generation: 0,
      failure: null,
      created_at: iso(t),
      finished_at: null,
    });
    return id;
  }

  function endRun(t: number, id: string, state = "SUCCEEDED", change: Values = {}): void {
    const run = final.runs.find((one) => one["id"] === id);
    Object.assign(run ?? {}, { state, finished_at: iso(t), ...change });
    Object.assign(final.operations.find((one) => one["id"] === run?.["operation_id"]) ?? {}, {
      state,
      finished_at: iso(t),
    });
  }

  const pathOf = (runId: string, generation: number) =>
    `/callback/${runId}.${createHmac("sha256", `secret-${runId}`).update(String(generation)).digest("base64url")}`;
  const attemptOf = (runId: string, step: number) =>
    final.attempts.find((one) => one["run_id"] === runId && one["step"] === step);

  function begin(t: number, runId: string, step: number, seconds = 600): void {
    final.attempts.push({
      run_id: runId,
      step,
      number: 1,
      state: "SUCCEEDED",
      entries: 0,
      label: step === WIPE ? "clean.wipe" : "clean.boot",
      failure: null,
      started_at: iso(t),
      deadline_at: iso(t + seconds * 1000),
      finished_at: null,
    });
  }

  /** Adds an entry of a step. Returns its path. */
  function enter(
    t: number,
    left: number,
    how: Leave["how"],
    { driver: at }: At,
    runId: string,
    step: number,
    more: Partial<Enter> = {},
    detail: string | null = null,
  ): string {
    const run = final.runs.find(({ id }) => id === runId) ?? {};
    const attempt = attemptOf(runId, step) ?? {};
    if (more.part !== "abort") {
      run["generation"] = Number(run["generation"]) + 1;
      attempt["entries"] = Number(attempt["entries"]) + 1;
    }
    const path = pathOf(runId, Number(run["generation"]));
    const entry = `e${(last += 1)}`;
    driver.push({
      t,
      k: "enter",
      entry,
      ...at,
      node: String(run["node_name"]),
      attemptKey: `${runId}:${step}:1`,
      phase: "clean",
      step: step === WIPE ? "wipe" : "boot",
      part: "run",
      memo: false,
      callback: false,
      idempotent: step === WIPE,
      interruptible: "ALWAYS",
      deadline: String(attempt["deadline_at"]),
      timeoutSeconds: 600,
      path,
      ...more,
    });
    driver.push({ t: left, k: "leave", entry, how, detail });
    return path;
  }

  const end = (t: number, runId: string, step: number, change: Values = {}) =>
    Object.assign(attemptOf(runId, step) ?? {}, { finished_at: iso(t), ...change });

  function sendCallback(
    sent: number,
    kind: Callback["kind"],
    node: string,
    runId: string,
    path: string,
    status: number | null,
  ): void {
    callbacks.push({
      t: sent + 10,
      k: "callback",
      id: `c${(last += 1)}`,
      replica: "r1",
      node,
      attemptKey: `${runId}:${BOOT}:1`,
      runId,
      kind,
      sent,
      path,
      status,
    });
    if (status === 409 || kind === "forged") final.rejected_callbacks.push({ run_id: runId, kind: kind.toUpperCase() });
  }

  // ---- a whole run, in parts

  function wipe(t: number, at: At, runId: string): void {
    begin(t + 100, runId, WIPE);
    enter(t + 110, t + 200, "done", at, runId, WIPE);
    end(t + 210, runId, WIPE);
  }

  /** Waits for its machine to call back. */
  function boot(t: number, at: At, node: string, runId: string, calls?: (path: string) => void): void {
    begin(t + 210, runId, BOOT);
    const path = enter(t + 220, t + 260, "wait", at, runId, BOOT, {}, "callback or 30 s");
    move(t + 270, node, "wait", "CLEAN_WAIT", runId);
    sendCallback(t + 400, "good", node, runId, path, 202);
    move(t + 420, node, "resume", "CLEANING", runId);
    enter(t + 430, t + 500, "done", at, runId, BOOT, { memo: true, callback: true });
    calls?.(path);
    end(t + 510, runId, BOOT);
    move(t + 510, node, "manage", "MANAGEABLE", runId);
    endRun(t + 510, runId);
  }

  function clean(t: number, { replica }: At, node: string, { answered = true, plan = "p" } = {}): string {
    const key = `key-${node}-${t}`;
    const runId = beginRun(t, node, { key, plan });
    move(t, node, "clean", "CLEANING", runId);
    ask(
      t - 10,
      replica,
      "cleanNodes",
      [node],
      { nodes: { names: [node] } },
      key,
      answered
        ? { operationId: `op-${node}-${t}`, replayed: false, refusals: [], results: [accepted(node, runId)] }
        : undefined,
    );
    return runId;
  }

  // ---- faults

  const addFault = (what: Nemesis["what"], target: string, from: number, to: number) => {
    const id = `b${(last += 1)}`;
    nemesis.push(
      { t: from, k: "nemesis", id, what, target, phase: "begin", detail: null },
      { t: to, k: "nemesis", id, what, target, phase: "end", detail: null },
    );
  };
  const phase = (t: number, what: Phase["what"]) => nemesis.push({ t, k: "phase", what, detail: null });
  const process = (
    t: number,
    { replica: name, pid }: At,
    what: Replica["what"],
    code: number | null = null,
    signal: string | null = null,
  ) => replicas.push({ t, k: "replica", name, pid, what, code, signal, tookMs: null });

  // ---- the run

  phase(0, "warm-up");
  for (const at of [R1, R2]) {
    process(0, at, "started");
    process(500, at, "ready");
  }
  const planned = (label: string, phaseOf: string, timeoutSeconds: number) => ({
    interface: label.split(".")[0],
    name: label.split(".")[1],
    phase: phaseOf,
    kept: false,
    retries: 0,
    timeoutSeconds,
  });
  const store = (hash: string, ...steps: readonly Values[]) =>
    void final.plans.push({ hash, steps, plan: { steps, bestEffort: false } });
  store("p", planned("clean.wipe", "clean", 600), planned("clean.boot", "clean", 600));
  store("short", planned("clean.wipe", "clean", 10), planned("clean.boot", "clean", 10));
  store("v", planned("power.verify", "verify", 60));
  ask(1_000, "r1", "registerNodes", NODES, {}, null, { operationId: null, replayed: null, refusals: [], results: [] });
  for (const node of NODES) move(1_010, node, "register", "ENROLLED", null);
  for (const node of NODES) {
    const runId = beginRun(2_000, node, { kind: "MANAGE", plan: "v", key: `key-manage-${node}` });
    ask(1_990, "r1", "manageNodes", [node], {}, `key-manage-${node}`, {
      operationId: `op-${node}-2000`,
      replayed: false,
      refusals: [],
      results: [accepted(node, runId)],
    });
    move(2_005, node, "verify", "VERIFYING", runId);
    final.attempts.push({
      run_id: runId,
      step: 0,
      number: 1,
      state: "SUCCEEDED",
      entries: 1,
      label: "power.verify",
      failure: null,
      started_at: iso(2_010),
      deadline_at: iso(62_010),
      finished_at: iso(2_050),
    });
    driver.push({
      t: 2_020,
      k: "power",
      entry: null,
      ...R1.driver,
      node,
      what: "read",
      attemptKey: null,
      failure: null,
    });
    move(2_050, node, "done", "MANAGEABLE", runId);
    endRun(2_050, runId);
  }
  phase(3_000, "storm");

  // The first node has no fault. Its machine sends one callback too many; forged ones arrive as well.
  const plain = clean(4_000, R1, "n1");
  wipe(4_000, R1, plain);
  boot(4_000, R1, "n1", plain, (path) => {
    sendCallback(4_450, "duplicate", "n1", plain, path, 409);
    sendCallback(4_460, "late", "n1", plain, pathOf(plain, 1), 409);
    sendCallback(4_470, "forged", "n1", plain, `/callback/${plain}.AAAAAA`, 404);
  });

  // The process of the second is killed inside a step, right after an answer; another takes over.
  const killed = clean(6_000, R1, "n2");
  begin(6_100, killed, WIPE);
  enter(6_110, 6_151, "lost", R1, killed, WIPE);
  addFault("kill", "r1", 6_150, 6_150);
  process(6_150, R1, "killed");
  process(6_152, R1, "ended", null, "SIGKILL");
  process(8_000, R1_AGAIN, "started");
  process(8_500, R1_AGAIN, "ready");
  move(17_000, "n2", "recover", "CLEANING", killed);
  enter(17_010, 17_100, "done", R2, killed, WIPE);
  end(17_110, killed, WIPE);
  boot(17_000, R2, "n2", killed);

  // The third is aborted.
  const aborted = clean(10_000, R2, "n3");
  begin(10_100, aborted, WIPE);
  enter(10_110, 10_180, "cut", R2, aborted, WIPE);
  ask(10_150, "r1", "abort", ["n3"], { work: { names: ["n3"] } }, null, {
    operationId: "op-n3-10000",
    replayed: null,
    refusals: [],
    results: [accepted("n3", aborted, "NOW")],
    after: 20,
  });
  enter(10_190, 10_200, "done", R2, aborted, WIPE, { part: "abort" });
  driver.push({
    t: 10_210,
    k: "power",
    entry: null,
    ...R2.driver,
    node: "n3",
    what: "set OFF",
    attemptKey: null,
    failure: null,
  });
  end(10_250, aborted, WIPE, { state: "ABORTED" });
  move(10_250, "n3", "abort", "CLEAN_FAILED", aborted);
  endRun(10_250, aborted, "ABORTED", { interrupt: "ABORT" });
  ask(10_400, "r1", "abort", ["n3"], { work: { names: ["n3"] } }, null, {
    operationId: null,
    replayed: null,
    refusals: [],
    results: [refused("n3", "NOTHING_RUNNING")],
  });

  // The driver of the fourth hangs until its deadline, under a wrong clock.
  addFault("clock", "r1", 19_000, 40_000);
  const hung = clean(20_000, R1_AGAIN, "n4", { plan: "short" });
  begin(20_100, hung, WIPE, 10);
  enter(20_110, 20_200, "hang", R1_AGAIN, hung, WIPE);
  const timeoutFailure = {
    code: "TIMEOUT",
    message: "Node n4: clean.wipe failed: clean.wipe did not end within 10 s.",
    step: "clean.wipe",
  };
  end(30_105, hung, WIPE, { state: "FAILED", failure: timeoutFailure });
  move(30_105, "n4", "fail", "CLEAN_FAILED", hung);
  endRun(30_105, hung, "FAILED", { failure: timeoutFailure });

  // The driver of the fifth throws as ordered; meanwhile another request needs the node.
  addFault("driver", "n5", 41_000, 43_000);
  const thrown = clean(42_000, R2, "n5");
  begin(42_100, thrown, WIPE);
  enter(42_110, 42_200, "throw", R2, thrown, WIPE);
  ask(42_120, "r1", "cleanNodes", ["n5"], {}, "key-busy", {
    operationId: null,
    replayed: false,
    refusals: [],
    results: [refused("n5", "BUSY")],
    after: 20,
  });
  const fault = {
    code: "BACKEND_FAILED",
    message: "Node n5: clean.wipe failed: The driver throws as ordered.",
    step: "clean.wipe",
  };
  end(42_210, thrown, WIPE, { state: "FAILED", failure: fault });
  move(42_210, "n5", "fail", "CLEAN_FAILED", thrown);
  endRun(42_210, thrown, "FAILED", { failure: fault });

  // Monitoring reports the fourth as disappeared for a while, and so it refuses work.
  const report = (t: number, event: string) => {
    const row = final.nodes.find(({ name }) => name === "n4") ?? {};
    final.conditions.push({ node_id: row["id"], at: iso(t), presence: row["presence"], fault: null });
    Object.assign(row, { presence: event });
    ask(t - 10, "r1", "reportPresence", ["n4"], { event, nodes: [{ name: "n4" }] }, null, {
      operationId: null,
      replayed: null,
      refusals: [],
      results: [],
    });
  };
  report(43_000, "DISAPPEARED");
  ask(54_000, "r1", "cleanNodes", ["n4"], { nodes: { names: ["n4"] } }, "key-disappeared", {
    operationId: null,
    replayed: false,
    refusals: [],
    results: [refused("n4", "INVALID_STATE", "Monitoring has reported node n4 as disappeared. Wait.")],
  });
  report(60_000, "DISCOVERED");

  // The process of the sixth is frozen inside a step; another enters it. The stale one leaves late and enters nothing
  // more.
  const frozen = clean(45_000, R2, "n6");
  begin(45_100, frozen, WIPE);
  addFault("freeze", "r2", 45_150, 65_150);
  const stale = `e${last + 1}`;
  enter(45_110, 65_160, "done", R2, frozen, WIPE);
  move(57_000, "n6", "recover", "CLEANING", frozen);
  enter(57_010, 57_100, "done", R1_AGAIN, frozen, WIPE);
  end(57_110, frozen, WIPE);
  boot(57_000, R1_AGAIN, "n6", frozen);
  if (!driver.some((one) => one.k === "leave" && one.entry === stale && one.how === "done"))
    throw new Error("The stale owner has no entry that ended.");

  // The database is down while a result waits to be stored.
  const duringOutage = clean(69_900, R1_AGAIN, "n1");
  begin(70_000, duringOutage, WIPE);
  enter(70_010, 70_900, "done", R1_AGAIN, duringOutage, WIPE);
  addFault("postgres-restart", "postgres", 70_100, 73_000);
  end(73_500, duringOutage, WIPE);
  boot(73_500, R1_AGAIN, "n1", duringOutage);

  // The disk is full just after an answer.
  const full = clean(79_000, R1_AGAIN, "n2");
  wipe(79_000, R1_AGAIN, full);
  boot(79_000, R1_AGAIN, "n2", full);
  addFault("disk-full", "postgres", 80_000, 85_000);

  // A request that took effect without an answer is repeated; another without an answer had no effect; and a key is
  // sent with another input.
  const repeated = clean(96_000, R1_AGAIN, "n3", { answered: false });
  wipe(96_000, R1_AGAIN, repeated);
  boot(96_000, R1_AGAIN, "n3", repeated);
  ask(97_000, "r2", "cleanNodes", ["n3"], { nodes: { names: ["n3"] } }, "key-n3-96000", {
    operationId: "op-n3-96000",
    replayed: true,
    refusals: [],
    results: [accepted("n3", repeated)],
  });
  ask(98_000, "r1", "cleanNodes", ["n4"], { nodes: { names: ["n4"] } }, "key-nothing");
  ask(98_500, "r1", "cleanNodes", ["n3", "n4"], { nodes: { names: ["n3", "n4"] } }, "key-n3-96000", {
    operationId: null,
    replayed: false,
    refusals: [{ code: "IDEMPOTENCY_MISMATCH", message: "No." }],
    results: [],
  });

  // The fifth is stopped between two steps.
  const stopped = clean(100_000, R1_AGAIN, "n5");
  wipe(100_000, R1_AGAIN, stopped);
  ask(100_150, "r1", "stop", ["n5"], { work: { names: ["n5"] } }, null, {
    operationId: "op-n5-100000",
    replayed: null,
    refusals: [],
    results: [accepted("n5", stopped)],
  });
  move(100_210, "n5", "stop", "STOPPED", stopped);
  endRun(100_210, stopped, "STOPPED", { interrupt: "STOP" });

  // Two requests change the cluster's settings at about the same time; their order is unknown.
  const edit = (t: number, ntp: string, after: number) =>
    ask(t, "r1", "updateCluster", [], { cluster: { name: "berlin" }, variables: { ntp } }, null, {
      operationId: null,
      replayed: null,
      refusals: [],
      results: [],
      after,
    });
  edit(89_000, "first", 200);
  edit(89_100, "second", 300);
  final.clusters.push({ name: "berlin", variables: { ntp: "first" } });

  addFault("stall", "watchers", 90_000, 110_000);
  for (let t = 1_000; t < OVER; t += 5_000)
    for (const at of t < 6_000 ? [R1, R2] : t < 112_000 ? [R1_AGAIN, R2] : [R1_AGAIN])
      replicas.push({ t, k: "sample", what: "memory", replica: at.replica, pid: at.pid, value: 150 * 2 ** 20 + t });

  // An account becomes a viewer, and then its token is revoked. A request meets the change.
  changeAccess(1_500, "setRoles", "account:ann", "operator");
  const nothing = { operationId: null, replayed: null, refusals: [], results: [refused("n1", "NOTHING_RUNNING")] };
  const abort = (t: number) => ask(t, "r1", "abort", ["n1"], { work: { names: ["n1"] } }, null, nothing, ANN);
  abort(101_500);
  abort(102_990);
  changeAccess(103_000, "setRoles", "account:ann", "viewer");
  deny(105_000, "FORBIDDEN");
  changeAccess(106_000, "revokeTokens", "t1");
  deny(108_000, "UNAUTHENTICATED");

  // The second replica receives SIGTERM with a request in progress.
  ask(110_900, "r2", "clearMaintenance", ["n1"], {}, null, {
    operationId: null,
    replayed: null,
    refusals: [],
    results: [],
    after: 1_300,
  });
  addFault("term", "r2", 112_000, 113_500);
  process(112_000, R2, "terminated");
  process(113_500, R2, "ended", 0);
  phase(114_000, "quiet");
  phase(118_000, "settled");
  phase(OVER, "over");

  final.transitions.sort((a, b) => String(a["at"]).localeCompare(String(b["at"])));
  for (const [index, row] of final.transitions.entries()) row["position"] = index + 1;
  for (const { id } of final.runs) final.step_log.push({ run_id: id, lines: 3, first: 1, last: 3 });
  final.feed_position.push({ id: true, position: String(final.transitions.length) });
  final.lifecycle_edges.push(
    ...[...EDGES]
      .map((edge) => edge.split(" "))
      .map(([from_state, event, to_state]) => ({ from_state, event, to_state })),
  );
  made.streams.push(...streamsOf(final.transitions), ...streamOfAccount(final.transitions));
  final.audit.sort((a, b) => String(a["at"]).localeCompare(String(b["at"])));
  for (const list of [requests, access, driver, nemesis, replicas] as { t: number }[][]) list.sort((a, b) => a.t - b.t);
  return made;
}

/**
 * Streams of two subscribers: one without a filter, one of the nodes of group `a`. The kill disconnects both; they
 * resume at the other replica.
 */
function streamsOf(log: readonly Values[]): (Open | Item | Mark | End)[] {
  const records: (Open | Item | Mark | End)[] = [];
  for (const [client, transport, takes] of [
    ["all", "ws", () => true],
    ["some", "sse", (row: Values) => row["node_name"] === "n2"],
  ] as const) {
    const filter = client === "some" ? { labels: [{ key: "group", value: "a" }] } : null;
    let position = 0;
    let at = 0;
    let quietSince = 0;
    for (const [index, { replica, from, to }] of [
      { replica: "r1", from: 600, to: 6_152 },
      { replica: "r2", from: 6_400, to: 44_000 },
      { replica: "r1", from: 44_100, to: OVER - 500 },
    ].entries()) {
      const stream = `${client}-${index + 1}`;
      records.push({
        t: from,
        k: "open",
        stream,
        client,
        replica,
        transport,
        after: String(position),
        afterPosition: position,
        filter,
        stalls: false,
      });
      // Repeats the position of the last item.
      records.push({ t: from + 5, k: "mark", stream, position, caughtUp: true });
      quietSince = from + 5;
      for (; at <= log.length; at += 1) {
        const row = log[at];
        const t = row ? Date.parse(String(row["at"])) - WALL_MS + 5 : Infinity;
        for (; Math.min(t, to) - quietSince > 10_000; quietSince += 10_000)
          records.push({ t: quietSince + 10_000, k: "mark", stream, position: at, caughtUp: true });
        if (!row || t >= to) break;
        if (!takes(row)) continue;
        position = at + 1;
        quietSince = t;
        records.push({
          t,
          k: "item",
          stream,
          position,
          nodeId: String(row["node_id"]),
          nodeName: String(row["node_name"]),
          sequence: Number(row["sequence"]),
          from: row["from_state"] as string | null,
          to: row["to_state"] as string | null,
          event: String(row["event"]),
          ...(transport === "ws" && {
            operationId: row["operation_id"] as string | null,
            runId: row["run_id"] as string | null,
          }),
          step: null,
          actor: "c",
          reason: null,
          at: String(row["at"]),
        });
      }
      position = Math.max(position, at);
      records.push(
        { t: to, k: "mark", stream, position, caughtUp: true },
        { t: to, k: "end", stream, code: index === 0 ? "LOST" : "LEFT", detail: null },
      );
    }
  }
  return records;
}

/** A stream of the account, which ends when its role changes. */
function streamOfAccount(log: readonly Values[]): (Open | Mark | End)[] {
  const stream = "ann-1";
  const position = log.length;
  return [
    {
      t: 101_000,
      k: "open",
      stream,
      client: "ann",
      replica: "r1",
      transport: "sse",
      after: String(position),
      afterPosition: position,
      filter: null,
      stalls: false,
      ...ANN,
    },
    { t: 101_005, k: "mark", stream, position, caughtUp: true },
    { t: 103_600, k: "end", stream, code: "ACCESS_CHANGED", detail: String(position) },
  ];
}

/** Writes the records to a new folder. Returns its path. */
export function writeHistory(made: Made): string {
  const folder = mkdtempSync(join(tmpdir(), "chaos-checker-"));
  const write = (file: keyof Files, records: readonly unknown[]) =>
    writeFileSync(join(folder, `${file}.jsonl`), records.map((one) => `${JSON.stringify(one)}\n`).join(""));
  writeFileSync(join(folder, "run.json"), JSON.stringify(made.run));
  for (const file of ["requests", "access", "streams", "driver", "callbacks", "nemesis", "replicas"] as const)
    write(file, made[file]);
  write(
    "final",
    Object.entries(made.final).flatMap(([table, rows]) => rows.map((row) => ({ k: "row", table, row }))),
  );
  return folder;
}
