/**
 * Reads the power of nodes at rest: in the background, each at least once in so many seconds, and at once when asked to.
 * What is read is written down when it is news: a state, or what kept the BMC from an answer. It is changed back only where the
 * site's policy says so.
 *
 * A node that is at work is left to its run. One that begins to work while it is being read is let go of: the call is
 * ended, and nothing of it is written: the reading may be older than what the run has done.
 *
 * Replicas share the nodes: whose turn it is, is taken in one statement that passes over what another has locked. Nodes
 * that gave no answer the last time have a few calls of their own, so that many dead BMCs do not hold up the others.
 */
import { setTimeout as delay } from "node:timers/promises";
import { messageOf } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import type { PowerState } from "../../drivers/driver.ts";
import { Deadline, leftUntil } from "../../drivers/deadline.ts";
import type { Registry } from "../../drivers/registry.ts";
import type { Log } from "../../log.ts";
import type { Observer } from "../../observer.ts";
import type { Notifier } from "../../store/postgres/notifier.ts";
import type { Database } from "../../store/postgres/database.ts";
import { lockNodes, nodesByIds, secretsOfNodes, updateNode } from "../../store/nodes.ts";
import type { NodeRow } from "../../store/nodes.ts";
import { WITHOUT_POWER, claimPowerReads, notePowerReads, workSoFar } from "../../store/power.ts";
import type { PowerRead, WorkSoFar } from "../../store/power.ts";
import type { SitePolicy } from "../../store/records.ts";
import { readSite } from "../../store/site.ts";
import { createBatchLoader } from "../../runtime/batch-loader.ts";
import { cutTo, sentence } from "../../runtime/text.ts";
import { selectNodes } from "../input/node-selector.ts";
import type { NodeSelector } from "../input/node-selector.ts";
import { openMachine } from "../execution/machine.ts";
import type { Machine } from "../execution/machine.ts";
import { readPower, setPower } from "../execution/power-call.ts";
import type { PowerReading } from "../execution/power-call.ts";
import type { Transact } from "../transaction.ts";

export interface PowerReaderParts {
  readonly database: Database;
  readonly transact: Transact;
  readonly registry: Registry;
  readonly bell: Notifier;
  readonly log: Log;
  readonly observer: Observer;
}

export interface PowerReader {
  /** Begins to read in the background. */
  start(seconds: number): void;
  /** Reads now. */
  read(selector: NodeSelector): Promise<PowerAnswers>;
  close(): Promise<void>;
}

/** What the power of one node is, in the order asked, or why that is not known. */
export interface PowerAnswer {
  readonly ref: string;
  readonly nodeId: string;
  readonly state: PowerState | null;
  readonly refusal: Refusal | null;
}

export interface PowerAnswers {
  readonly answers: readonly PowerAnswer[];
  /** Why nothing was read at all. */
  readonly refusals: readonly Refusal[];
}

/** Calls at the same time in the background: to nodes that answered the last time, and to those that did not. */
const CALLS = { sound: 12, troubled: 4 } as const;
const PAGE = 100;
/** Nodes whose calls may take long are taken by the handful, so that other processes have their share. */
const TROUBLED_PAGE = 8;
/** A node is due after this share of the period, and looked for so often in it: the rest is for the call. */
const DUE = 0.75;
const LOOKS = 8;
const LOOK_EVERY_MS_MAX = 5_000;
const AFTER_TROUBLE_MS = 1_000;

/** A call to a BMC, and a change of power, in ms (docs/rules.md, section Timeouts). */
const READ_MS = 30_000;
const CORRECT_MS = 60_000;
/** How long a reading in the background waits for a place besides. */
const PATIENCE_MS = 60_000;
/** Of a reading that was asked for: nodes, calls at the same time, and the time for all of it. */
const ASKED_MAX = 1_000;
const ASKED_CALLS = 32;
const ASKED_MS = 30_000;

const PROBLEM_LENGTH_MAX = 500;
const LOOK_AFTER_BELL_MS = 100;

/** A node that may be read, as it is before the call. */
interface Sight {
  readonly node: NodeRow;
  readonly machine: Machine | { readonly problem: string };
  /** Runs that it has had, all ended. */
  readonly runs: number;
}

/** A call to a BMC that has not ended. */
interface OpenCall {
  readonly sight: Sight;
  readonly cut: AbortController;
}

export function createPowerReader(parts: PowerReaderParts): PowerReader {
  const { database, transact, registry, log, observer } = parts;
  const { reader } = database;
  const leaving = new AbortController();
  const calls = new Set<OpenCall>();
  let lanes: Promise<unknown> = Promise.resolve();
  // Many nodes are read at a time, so questions about one come in crowds.
  const workOf = createBatchLoader((ids) => workSoFar(reader, ids));
  const rowOf = createBatchLoader(
    async (ids) => new Map((await nodesByIds(reader, ids)).map((node) => [node.id, node])),
  );
  const secretsOf = createBatchLoader((ids) => secretsOfNodes(reader, ids));

  // ---- one node

  /** The node, unless it is gone or at work: then why it may not be read. */
  async function look(nodeId: string, ref: string): Promise<Sight | { readonly refusal: Refusal }> {
    // In this order: work that begins between the two makes the count rise above the one that is kept here.
    const work = await workOf(nodeId);
    const node = await rowOf(nodeId);
    if (!node) return { refusal: { code: "NOT_FOUND", message: `There is no node ${ref}.`, missing: [ref] } };
    if (work?.busyWith) return { refusal: busy(node, work.busyWith) };
    return {
      node,
      machine: await openMachine(registry, node, (await secretsOf(nodeId)) ?? {}, observer),
      runs: work?.runs ?? 0,
    };
  }

  async function readNode(sight: Sight, all: Date): Promise<PowerReading | "NO_SLOT" | null> {
    const { machine } = sight;
    if ("problem" in machine) return { code: "UNSUPPORTED_BY_DRIVER", reason: machine.problem };
    return undisturbed(sight, (end) => readPower(machine, { deadline: new Deadline(READ_MS), all }, end, log));
  }

  /** Writes down what is new. False: somebody was at work on the node meanwhile, so that the reading does not count. */
  async function record({ node, runs }: Sight, reading: PowerReading): Promise<boolean> {
    if (!isNews(newsOf(node, reading))) return true;
    return transact(async ({ tx }) => {
      const [now] = await lockNodes(tx, [node.id]);
      if (!now || hasBegun((await workSoFar(tx, [node.id])).get(node.id), runs)) return false;
      const news = newsOf(now, reading);
      if (isNews(news)) await updateNode(tx, node.id, news);
      return true;
    });
  }

  /** One change back to the power that was last wanted, where the site wants that and the node still permits it. */
  async function correct(policy: SitePolicy, before: Sight, state: PowerState): Promise<void> {
    if (!policy.correctPower || !isCorrectable(before.node, state)) return;
    const sight = await look(before.node.id, before.node.name);
    if ("refusal" in sight || sight.runs !== before.runs || !isCorrectable(sight.node, state)) return;
    const { node, machine } = sight;
    const { name, wantedPower } = node;
    if ("problem" in machine || wantedPower === null) return;
    try {
      const set = await undisturbed(sight, (end) =>
        setPower(machine, wantedPower, { deadline: new Deadline(CORRECT_MS), lane: "READING", log, end }),
      );
      if (set === null) return;
      const isRecorded = await record(sight, { state: set });
      log.info(
        { node: name, power: wantedPower, found: state, isRecorded },
        "the power was not as it was left, and is set back",
      );
    } catch (error) {
      log.warn(
        { node: name, power: wantedPower, found: state, reason: machine.redactor.text(messageOf(error)) },
        "the power was not as it was left, and could not be set back",
      );
    }
  }

  // ---- nodes that begin to work

  /** Makes a call that ends when work on the node begins, or when the process leaves. Null: work has begun already, and nothing is called. */
  async function undisturbed<T>(sight: Sight, call: (end: AbortSignal) => Promise<T>): Promise<T | null> {
    const made = { sight, cut: new AbortController() };
    const { id } = sight.node;
    calls.add(made);
    if (leaving.signal.aborted) made.cut.abort(leaving.signal.reason);
    try {
      // Of work that has begun since the node was looked at, the bell has rung already; from here on it is heard.
      if (hasBegun(await workOf(id), sight.runs)) return null;
      return await call(made.cut.signal);
    } finally {
      calls.delete(made);
    }
  }

  async function letGoOfBusy(): Promise<void> {
    const asked = [...calls];
    const work = await workSoFar(
      reader,
      asked.map(({ sight }) => sight.node.id),
    );
    for (const { sight, cut } of asked)
      if (hasBegun(work.get(sight.node.id), sight.runs)) cut.abort(new Error("work on the node has begun"));
  }

  let soon: NodeJS.Timeout | undefined;
  const unring = parts.bell.subscribe(() => {
    if (calls.size === 0) return;
    soon ??= setTimeout(() => {
      soon = undefined;
      letGoOfBusy().catch((error: unknown) =>
        log.debug({ err: error }, "it could not be seen which nodes are at work"),
      );
    }, LOOK_AFTER_BELL_MS);
  });

  // ---- in the background

  async function lane(seconds: number, troubled: boolean): Promise<void> {
    const due = { seconds: seconds * DUE, troubled, limit: troubled ? TROUBLED_PAGE : PAGE };
    const lookEveryMs = Math.min(LOOK_EVERY_MS_MAX, (seconds * 1000) / LOOKS);
    while (!leaving.signal.aborted) {
      try {
        // Nobody is told of it: the note that a node has been asked is news for the readers alone.
        const turn = await database.transaction((tx) => claimPowerReads(tx, due));
        if (turn.length > 0) await readPage(turn, troubled ? CALLS.troubled : CALLS.sound);
        else await pause(lookEveryMs);
      } catch (error) {
        log.warn({ err: error }, "the power of nodes could not be read; it is tried again");
        await pause(AFTER_TROUBLE_MS);
      }
    }
  }

  async function pause(milliseconds: number): Promise<void> {
    await delay(milliseconds, undefined, { signal: leaving.signal }).catch(() => {});
  }

  /** Nodes that share a controller are read one after the other: it is one BMC. */
  async function readPage(turn: readonly PowerRead[], most: number): Promise<void> {
    const { policy } = await readSite(reader);
    const groups = [...Map.groupBy(turn, ({ id, controller }) => controller ?? id).values()];
    let trouble: unknown;
    await atMost(most, groups, async (group) => {
      for (const { id } of group) await readInTurn(id, policy).catch((error: unknown) => (trouble ??= error));
    });
    if (trouble !== undefined) throw trouble;
  }

  async function readInTurn(nodeId: string, policy: SitePolicy): Promise<void> {
    const sight = leaving.signal.aborted ? null : await look(nodeId, nodeId);
    if (!sight || "refusal" in sight || isLeftAlone(sight.node)) return;
    const reading = await readNode(sight, new Deadline(READ_MS + PATIENCE_MS));
    if (leaving.signal.aborted || reading === null || reading === "NO_SLOT" || !(await record(sight, reading))) return;
    if ("state" in reading) await correct(policy, sight, reading.state);
  }

  // ---- when asked to

  async function readNow(ref: string, nodeId: string, allOf: Date): Promise<PowerAnswer> {
    const refused = (refusal: Refusal): PowerAnswer => ({ ref, nodeId, state: null, refusal });
    if (leftUntil(allOf) <= 0)
      return refused({
        code: "TIMEOUT",
        message: `There was no time left to read the power of node ${ref}; ask again, for fewer nodes.`,
        nodeId,
      });
    const sight = await look(nodeId, ref);
    if ("refusal" in sight) return refused(sight.refusal);
    const reading = await readNode(sight, allOf);
    if (leaving.signal.aborted)
      return refused({
        code: "TIMEOUT",
        message: `The service went down while it read the power of node ${sight.node.name}; ask again.`,
        nodeId,
      });
    if (reading === "NO_SLOT")
      return refused({
        code: "TIMEOUT",
        message: `The power of node ${sight.node.name} could not be read in time, since other calls to drivers were under way; ask again, for fewer nodes.`,
        nodeId,
      });
    if (reading === null || !(await record(sight, reading))) {
      const since = await look(nodeId, ref);
      return refused(
        "refusal" in since
          ? since.refusal
          : {
              code: "BUSY",
              message: `Work on node ${sight.node.name} began and ended while its power was read; ask again.`,
              nodeId,
            },
      );
    }
    if ("state" in reading) return { ref, nodeId, state: reading.state, refusal: null };
    return refused({
      code: reading.code,
      message: `The power of node ${sight.node.name} could not be read: ${sentence(reading.reason)}`,
      nodeId,
    });
  }

  return {
    start(seconds) {
      lanes = Promise.all([lane(seconds, false), lane(seconds, true)]);
    },
    async read(selector) {
      const found = await selectNodes(reader, selector);
      if ("refusals" in found) return { answers: [], refusals: found.refusals };
      if (found.nodes.length > ASKED_MAX) {
        return {
          answers: [],
          refusals: [
            {
              code: "INVALID_INPUT",
              message: `${found.nodes.length} nodes are asked for, and at most ${ASKED_MAX} can be read at once; name fewer, or read \`Node.powerState\`, which is kept up to date.`,
              path: ["input", "nodes"],
            },
          ],
        };
      }
      await database.transaction((tx) =>
        notePowerReads(
          tx,
          found.nodes.map(({ nodeId }) => nodeId),
        ),
      );
      const allOf = new Deadline(ASKED_MS);
      return {
        answers: await atMost(ASKED_CALLS, found.nodes, ({ ref, nodeId }) => readNow(ref, nodeId, allOf)),
        refusals: [],
      };
    },
    async close() {
      leaving.abort(new Error("The process is leaving."));
      for (const { cut } of calls) cut.abort(leaving.signal.reason);
      unring();
      clearTimeout(soon);
      await lanes;
    },
  };
}

function busy(node: NodeRow, { kind, operationId }: { readonly kind: string; readonly operationId: string }): Refusal {
  return {
    code: "BUSY",
    message: `Node ${node.name} is busy with ${kind} operation ${operationId}, which sees to its power itself; wait for its end.`,
    nodeId: node.id,
    operationId,
  };
}

/** What of a reading is not written down yet. */
function newsOf(
  node: NodeRow,
  reading: PowerReading,
): Partial<Pick<NodeRow, "powerState" | "powerReadAt" | "powerProblem">> {
  const state = "state" in reading ? reading.state : "UNKNOWN";
  const problem = "state" in reading ? null : cutTo(reading.reason, PROBLEM_LENGTH_MAX);
  const isFirst = "state" in reading && node.powerReadAt === null;
  return {
    ...(state !== node.powerState && { powerState: state }),
    ...("state" in reading && (state !== node.powerState || isFirst) && { powerReadAt: new Date() }),
    ...(problem !== node.powerProblem && { powerProblem: problem }),
  };
}

/** Whether anybody has begun to work on a node since it had so many runs. */
function hasBegun(now: WorkSoFar | undefined, runs: number): boolean {
  return (now?.runs ?? 0) !== runs;
}

function isNews(news: object): boolean {
  return Object.keys(news).length > 0;
}

function isLeftAlone({ state, maintenanceSince }: NodeRow): boolean {
  return maintenanceSince !== null || WITHOUT_POWER.includes(state);
}

/** Whether the power is known to be another than was wanted. What a protection is against is not done behind anybody's back. */
function isCorrectable(node: NodeRow, state: PowerState): boolean {
  const { wantedPower, isProtected } = node;
  return (
    wantedPower !== null &&
    state !== "UNKNOWN" &&
    state !== wantedPower &&
    !isLeftAlone(node) &&
    !(isProtected && wantedPower === "OFF")
  );
}

/** Does something for each of a list, so many at a time. Answers in the order of the list. */
async function atMost<Item, Answer>(
  count: number,
  items: readonly Item[],
  work: (item: Item) => Promise<Answer>,
): Promise<Answer[]> {
  const answers: Answer[] = [];
  const left = items.entries();
  await Promise.all(
    Array.from({ length: Math.min(count, items.length) }, async () => {
      for (const [index, item] of left) answers[index] = await work(item);
    }),
  );
  return answers;
}
