/**
 * Builders for tests: an engine with a database of its own (`engineUnderTest`), nodes in whatever state a test begins
 * with (`aNode().in("AVAILABLE")`), gates that hold a step until the test opens them, and questions that wait for their
 * answer.
 */
import { randomUUID } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { arrivedAt, openGate } from "../../plugins/fake/gates.ts";
import type { Script } from "../../plugins/fake/settings.ts";
import type { Engine } from "../../src/engine/engine.ts";
import type { BorrowedInterfaces } from "../../src/engine/inventory/node-settings.ts";
import type { SubmitAnswer } from "../../src/engine/input/answers.ts";
import type { VerbRequest } from "../../src/engine/admission/request-terms.ts";
import type { Caller, Transact } from "../../src/engine/transaction.ts";
import { move } from "./moves.ts";
import { NODE_EDGES } from "../../src/lifecycle/node-states.ts";
import type { NodeEvent, NodeState } from "../../src/lifecycle/node-states.ts";
import type { Database } from "../../src/store/postgres/database.ts";
import { nodesByIds } from "../../src/store/nodes/nodes.ts";
import type { NodeRow } from "../../src/store/nodes/nodes.ts";
import { operationsByIds } from "../../src/store/operations/operations.ts";
import type { OperationRow } from "../../src/store/operations/operations.ts";
import { attemptsOf } from "../../src/store/runs/attempts.ts";
import { plansByHashes } from "../../src/store/runs/plans.ts";
import { runsOfOperation } from "../../src/store/runs/runs.ts";
import type { AttemptRow } from "../../src/store/runs/attempts.ts";
import type { RunRow } from "../../src/store/runs/runs.ts";
import { transitionsAfter } from "../../src/store/log/transitions.ts";
import type { TransitionRow } from "../../src/store/log/transitions.ts";
import { testDatabase } from "./database.ts";
import type { TestDatabase } from "./database.ts";
import { startEngineProcess } from "./engine-process.ts";
import type { EngineProcess } from "./engine-process.ts";
import { eventually } from "./eventually.ts";
import { runEngine } from "./running-engine.ts";
import type { EngineSetup, RunningEngine } from "./running-engine.ts";

export const ALICE: Caller = { actor: "alice", project: "default", scope: "ADMIN" as const };

/** A node as tests hold it: what it is called, and its id. */
export interface TestNode {
  readonly id: string;
  readonly name: string;
}

/** One entry of the fake driver's journal: it was inside a step, an abort, or a change of power. */
export interface Entry {
  readonly node: string;
  readonly step?: string;
  readonly memo?: unknown;
  readonly done?: true;
  /** The verify part of a step, by the label of its script. */
  readonly verify?: string;
  readonly abort?: true;
  readonly power?: string;
}

/** A step as a run shows it: the plan's, with the newest attempt at it. */
export interface SeenStep {
  readonly name: string;
  readonly phase: string;
  readonly kept: boolean;
  readonly attempts: readonly AttemptRow[];
}

// ---- nodes

/** The way from ENROLLED to a state along legal edges, shortest first. */
function wayTo(state: NodeState): readonly NodeEvent[] {
  const ways = new Map<NodeState, readonly NodeEvent[]>([["ENROLLED", []]]);
  for (const [from, way] of ways) {
    for (const edge of NODE_EDGES) {
      if (edge.from === from && !ways.has(edge.to)) ways.set(edge.to, [...way, edge.event]);
    }
  }
  const way = ways.get(state);
  if (!way) throw new Error(`No way leads to ${state}.`);
  return way;
}

let nodesMade = 0;

export interface NodeBuilder {
  named(name: string): NodeBuilder;
  /** Its first state; default ENROLLED. */
  in(state: NodeState): NodeBuilder;
  /** Its driver, default `fake`, and settings. */
  with(driver: string, settings?: Record<string, unknown>): NodeBuilder;
  /** Scripts of steps: `interface.name` → script. */
  scripted(steps: Readonly<Record<string, Script>>): NodeBuilder;
  borrowing(interfaces: readonly BorrowedInterfaces[]): NodeBuilder;
  /** Other nodes may have its management controller. */
  sharingController(): NodeBuilder;
  labelled(labels: Readonly<Record<string, string>>): NodeBuilder;
  inCluster(name: string): NodeBuilder;
  made(): Promise<TestNode>;
  /** Several alike. */
  times(count: number): Promise<TestNode[]>;
}

interface NodeSpec {
  readonly name?: string;
  readonly state: NodeState;
  readonly driver: string;
  readonly settings: Record<string, unknown>;
  readonly interfaces: readonly BorrowedInterfaces[];
  readonly labels: Readonly<Record<string, string>>;
  readonly cluster?: string;
  readonly sharedController?: boolean;
}

function nodeBuilder(make: (spec: NodeSpec, count: number) => Promise<TestNode[]>, spec: NodeSpec): NodeBuilder {
  const but = (change: Partial<NodeSpec>) => nodeBuilder(make, { ...spec, ...change });
  return {
    named: (name) => but({ name }),
    in: (state) => but({ state }),
    with: (driver, settings = {}) => but({ driver, settings }),
    scripted: (steps) => but({ settings: { ...spec.settings, steps } }),
    borrowing: (interfaces) => but({ interfaces }),
    sharingController: () => but({ sharedController: true }),
    labelled: (labels) => but({ labels }),
    inCluster: (cluster) => but({ cluster }),
    async made() {
      const [node] = await make(spec, 1);
      if (!node) throw new Error("No node was made.");
      return node;
    },
    times: (count) => make(spec, count),
  };
}

function byName(nodes: readonly { readonly name: string; readonly state: NodeState }[]): Record<string, NodeState> {
  return Object.fromEntries(
    nodes.map(({ name, state }) => [name, state] as const).toSorted(([a], [b]) => a.localeCompare(b)),
  );
}

// ---- gates

/** A place where scripted steps wait: `{ gate: gate.name }`. */
export interface TestGate {
  readonly name: string;
  /** Lets all through, now and later. */
  open(): void;
  /** Names of the nodes that wait, as soon as there are `count`. */
  arrivals(count?: number): Promise<readonly string[]>;
}

export function aGate(): TestGate {
  const name = `gate-${randomUUID()}`;
  return { name, open: () => openGate(name), arrivals: (count = 1) => arrivedAt(name, count) };
}

// ---- the engine

export interface EngineUnderTest extends AsyncDisposable {
  readonly engine: Engine;
  readonly database: Database;
  readonly test: TestDatabase;
  readonly transact: Transact;
  aNode(): NodeBuilder;
  /** Submits a verb on nodes and answers the id of the operation; fails the test when it is refused. */
  begin(kind: VerbRequest["kind"], nodes: readonly TestNode[], more?: Partial<VerbRequest>): Promise<string>;
  submit(kind: VerbRequest["kind"], nodes: readonly TestNode[], more?: Partial<VerbRequest>): Promise<SubmitAnswer>;
  operation(id: string): Promise<OperationRow>;
  /** The operation, as soon as it has ended. */
  operationEnds(id: string, withinMs?: number): Promise<OperationRow>;
  node(node: TestNode): Promise<NodeRow>;
  nodeState(node: TestNode): Promise<NodeState>;
  /** Resolves when the node is in the state. */
  nodeBecomes(node: TestNode, state: NodeState): Promise<void>;
  /** Runs of an operation in their order, clean-up last. */
  runs(operationId: string): Promise<RunRow[]>;
  /** The run of an operation on a node; the clean-up run with `purpose`. */
  run(operationId: string, node: TestNode, purpose?: RunRow["purpose"]): Promise<RunRow>;
  steps(run: RunRow): Promise<SeenStep[]>;
  /** The node's transitions, oldest first. */
  transitions(node: TestNode): Promise<TransitionRow[]>;
  /** How many times a step was entered so far, on whatever node. */
  entriesOfSteps(): number;
  /** The transitions of the node in an operation, as in "verify → VERIFYING". */
  story(node: TestNode, operationId?: string): Promise<string[]>;
  /** The driver's journal: what it was asked to do on a node. */
  journal(node: TestNode): Entry[];
  /** Steps that the driver was inside of on a node, every entry, in order. */
  entered(node: TestNode): string[];
  /** Calls that changed the power of a node. */
  powerCalls(node: TestNode): string[];
  /** State of every node according to the transitions, by name. */
  foldedLog(): Promise<Record<string, NodeState>>;
  /** State of every node, by name. */
  nodeStates(): Promise<Record<string, NodeState>>;
  /** Every row of every table, without leases, which are renewed. The log of changes follows from them. */
  dump(): Promise<readonly string[]>;
  /** Rows that are not as they were, before and after: to show that something wrote nothing. */
  changesSince(dump: readonly string[]): Promise<readonly string[]>;
  /** Another engine on the same database, which looks like a second process to the database. */
  another(options?: EngineSetup): Promise<RunningEngine>;
  /** An engine in a process of its own, to be killed. */
  inAnotherProcess(): Promise<EngineProcess>;
  /**
   * How many statements wait for a lock just now. Not asked in a transaction, in which the first answer would be kept.
   */
  waitingForLocks(): Promise<number>;
  /** Makes leases run out now, those of all replicas or of some, as if these had been silent for a minute. */
  leasesRunOut(owners?: readonly string[]): Promise<void>;
  /** The time for which the run of the node waits is over. */
  waitIsOver(node: TestNode): Promise<void>;
}

/** Names the journal for drivers that are made from now on, here and in `another`. */
function setJournal(file: string): Disposable {
  const before = process.env["FAKE_DRIVER_JOURNAL"];
  process.env["FAKE_DRIVER_JOURNAL"] = file;
  return {
    [Symbol.dispose]() {
      // Later files in this process make drivers too, and this one's folder is gone.
      if (process.env["FAKE_DRIVER_JOURNAL"] !== file) return;
      if (before === undefined) delete process.env["FAKE_DRIVER_JOURNAL"];
      else process.env["FAKE_DRIVER_JOURNAL"] = before;
    },
  };
}

export async function engineUnderTest(setup: EngineSetup = {}): Promise<EngineUnderTest> {
  const owned = new AsyncDisposableStack();
  const folder = mkdtempSync(join(tmpdir(), "ostler-journal-"));
  owned.defer(() => rmSync(folder, { recursive: true, force: true }));
  const journalFile = join(folder, "journal");
  owned.use(setJournal(journalFile));
  const test = owned.use(await testDatabase());
  const running = owned.use(await runEngine(test.connection, setup));
  const { engine, database, transact } = running;
  const { reader } = database;

  async function make(spec: NodeSpec, count: number): Promise<TestNode[]> {
    const names = Array.from({ length: count }, () =>
      spec.name !== undefined && count === 1 ? spec.name : `${spec.name ?? "node"}-${(nodesMade += 1)}`,
    );
    const answer = await engine.registerNodes(
      ALICE,
      names.map((name) => ({
        name,
        driver: spec.driver,
        settings: spec.settings,
        interfaces: spec.interfaces,
        labels: spec.labels,
        sharedController: spec.sharedController,
        ...(spec.cluster !== undefined && { cluster: { name: spec.cluster } }),
      })),
    );
    if (answer.refusals.length > 0) throw new Error(answer.refusals.map(({ message }) => message).join(" "));
    const made = names.map((name, index) => ({ name, id: answer.nodeIds[index] ?? "" }));
    await bring(
      made.map(({ id }) => id),
      spec.state,
    );
    return made;
  }

  async function bring(ids: readonly string[], state: NodeState): Promise<void> {
    await transact(async (work) => {
      let at: NodeState = "ENROLLED";
      for (const event of wayTo(state)) {
        const arrived: NodeState = event === "done" && at === "DEPLOYING" ? "ACTIVE" : at;
        at = await move(
          work,
          ids,
          { from: at, event, change: arrived === "ACTIVE" ? { stage: "DEPLOYED" } : {} },
          { actor: "test" },
        );
      }
    });
  }

  const operation = async (id: string): Promise<OperationRow> => {
    const [row] = await operationsByIds(reader, [id]);
    if (!row) throw new Error(`There is no operation ${id}.`);
    return row;
  };

  const node = async ({ id, name }: TestNode): Promise<NodeRow> => {
    const [row] = await nodesByIds(reader, [id]);
    if (!row) throw new Error(`There is no node ${name}.`);
    return row;
  };

  const transitions = (nodes?: readonly TestNode[]) =>
    transitionsAfter(reader, {
      after: 0,
      limit: 100_000,
      ...(nodes && { filter: { nodeIds: nodes.map(({ id }) => id) } }),
    });

  const submit: EngineUnderTest["submit"] = (kind, nodes, more = {}) =>
    engine.submit(ALICE, { kind, nodes: { ids: nodes.map(({ id }) => id) }, ...more });

  /** All rows, except for the time at which a replica last looked at the clock. */
  async function dump(): Promise<string[]> {
    const tables = await test.sql<
      { name: string }[]
    >`select table_name as name from information_schema.tables where table_schema = 'public' and table_type = 'BASE TABLE' and table_name not in ('clock', 'change_inbox', 'changes', 'change_position')`;
    const rows: string[] = [];
    for (const { name } of tables) {
      const found = await test.sql<
        { row: unknown }[]
      >`select to_jsonb(t) - 'lease_until' as row from ${test.sql(name)} t`;
      rows.push(...found.map(({ row }) => `${name} ${JSON.stringify(row)}`));
    }
    return rows;
  }

  const wholeJournal = (): Entry[] => {
    if (!existsSync(journalFile)) return [];
    // A process that is killed may leave half a line.
    const lines = readFileSync(journalFile, "utf8").split("\n").slice(0, -1);
    return lines.map((line) => JSON.parse(line) as Entry);
  };
  const journal = ({ name }: TestNode): Entry[] => wholeJournal().filter((entry) => entry.node === name);
  const isEntered = ({ step, done, abort }: Entry) => step !== undefined && !done && !abort;

  return {
    engine,
    database,
    test,
    transact,
    submit,
    operation,
    node,
    journal,
    aNode: () => nodeBuilder(make, { state: "ENROLLED", driver: "fake", settings: {}, interfaces: [], labels: {} }),
    async begin(kind, nodes, more) {
      const answer = await submit(kind, nodes, more);
      if (answer.operationId === null)
        throw new Error(`${kind} was refused: ${answer.refusals.map(({ message }) => message).join(" ")}`);
      return answer.operationId;
    },
    operationEnds: (id, withinMs) =>
      eventually(
        `operation ${id} ends`,
        async () => {
          const row = await operation(id);
          return row.finishedAt !== null && row;
        },
        withinMs,
      ),
    nodeState: async (of) => (await node(of)).state,
    async nodeBecomes(of, state) {
      await eventually(`${of.name} becomes ${state}`, async () => (await node(of)).state === state);
    },
    runs: (operationId) => runsOfOperation(reader, operationId),
    async run(operationId, of, purpose = "WORK") {
      const found = (await runsOfOperation(reader, operationId, purpose)).find(({ nodeId }) => nodeId === of.id);
      if (!found) throw new Error(`Operation ${operationId} has no ${purpose} run on ${of.name}.`);
      return found;
    },
    async steps(run) {
      const plan = (await plansByHashes(reader, [run.planHash])).get(run.planHash);
      const attempts = await attemptsOf(reader, [run.id]);
      return (plan?.steps ?? []).map((step, index) => ({
        name: `${step.interface}.${step.name}`,
        phase: step.phase,
        kept: step.kept,
        attempts: attempts.filter((attempt) => attempt.step === index),
      }));
    },
    transitions: (of) => transitions([of]),
    async story(of, operationId) {
      const rows = await transitions([of]);
      return rows
        .filter((row) => operationId === undefined || row.operationId === operationId)
        .map(({ event, toState }) => `${event} → ${toState}`);
    },
    entered: (of) =>
      journal(of)
        .filter(isEntered)
        .map(({ step }) => step ?? ""),
    powerCalls: (of) => journal(of).flatMap(({ power }) => (power === undefined ? [] : [power])),
    async foldedLog() {
      const states = new Map<string, { name: string; state: NodeState }>();
      for (const { nodeId, nodeName, fromState, toState, position } of await transitions()) {
        if ((states.get(nodeId)?.state ?? null) !== fromState)
          throw new Error(
            `Transition ${position} of ${nodeName} leaves ${fromState}, but the log had brought it to ${states.get(nodeId)?.state}.`,
          );
        if (toState === null) states.delete(nodeId);
        else states.set(nodeId, { name: nodeName, state: toState });
      }
      return byName([...states.values()]);
    },
    async nodeStates() {
      const rows = await test.sql<{ name: string; state: NodeState }[]>`select name, state from nodes`;
      return byName(rows);
    },
    dump,
    async changesSince(before) {
      const after = await dump();
      const [was, is] = [new Set(before), new Set(after)];
      return [
        ...before.filter((row) => !is.has(row)).map((row) => `- ${row}`),
        ...after.filter((row) => !was.has(row)).map((row) => `+ ${row}`),
      ];
    },
    entriesOfSteps: () => wholeJournal().filter(isEntered).length,
    inAnotherProcess: async () => owned.use(await startEngineProcess(test.connection, journalFile, setup.isAlone)),
    another: async (more = {}) => owned.use(await runEngine(test.connection, { ...setup, ...more })),
    async waitingForLocks() {
      const rows = await reader.execute(
        "select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()",
      );
      return rows.length;
    },
    async leasesRunOut(owners) {
      await test.sql`update operations set lease_until = lease_until - interval '1 minute' where finished_at is null and lease_until is not null`;
      await test.sql`update runs set lease_until = lease_until - interval '1 minute' where owner is not null and (${owners === undefined} or owner = any(${[...(owners ?? [])]}))`;
    },
    async waitIsOver({ id }) {
      const woken =
        await test.sql`update runs set wake_at = now(), due_at = now() where node_id = ${id} and wake_at is not null and finished_at is null returning id`;
      if (woken.length !== 1) throw new Error(`${woken.length} runs of the node wait.`);
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
