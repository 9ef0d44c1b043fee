/**
 * The engine's transactions, and the only function that changes a node's state: `changeNodes` takes each node along its
 * own edges, and collects the transitions. They are appended by the transaction's last statement, because positions are
 * assigned under a lock that lasts until the commit. The rows of the audit come before it. After the commit the other
 * replicas are notified.
 */
import { next } from "../lifecycle/machine.ts";
import type { NodeEvent, NodeState } from "../lifecycle/node-states.ts";
import type { Scope } from "../lifecycle/scopes.ts";
import { createSlots } from "../runtime/concurrency.ts";
import type { Slot } from "../runtime/concurrency.ts";
import { noopObserver } from "../observer.ts";
import type { Observer } from "../observer.ts";
import type { Notifier } from "../store/postgres/notifier.ts";
import { isConnectionLoss } from "../store/postgres/connection-errors.ts";
import type { Database, Tx } from "../store/postgres/database.ts";
import { changeClaimedNodes } from "../store/nodes/nodes.ts";
import type { ClaimedNodeChange, MovedNode } from "../store/nodes/nodes.ts";
import { appendTransitions } from "../store/log/transitions.ts";
import type { NewTransition } from "../store/log/transitions.ts";
import { insertAuditRows } from "../store/log/audit.ts";
import type { NewAuditRow } from "../store/log/audit.ts";
import { auditRow, joined } from "./audit/audit-row.ts";
import type { AuditRecord, AuditedEffect } from "./audit/audit-row.ts";

/** The user who makes a request, and the project it is for. */
export interface Caller {
  readonly actor: string;
  readonly project: string;
  /** The scope of the caller; null: it may do nothing. */
  readonly scope: Scope | null;
  /** Names of its roles; absent: the service itself. */
  readonly roles?: readonly string[];
  /** The row of the request in the audit; absent for what the service begins. */
  readonly record?: AuditRecord;
}

/** One transaction of the engine. */
export interface Transaction {
  readonly tx: Tx;
  /** Collects a transition, to be appended at the end. */
  log(transition: NewTransition): void;
  /** Notes what a request does, for its row in the audit, which is written at the end. */
  audit(caller: Caller, effect: AuditedEffect): void;
  /** Runs the effect after the commit; drops it if the transaction rolls back. */
  afterCommit(effect: () => void): void;
}

export type Transact = <T>(change: (transaction: Transaction) => Promise<T>) => Promise<T>;

/**
 * How long a transaction waits for those of its process that append before it, in ms; then it appends all the same.
 * Less than the time for which the server keeps an idle transaction.
 */
const APPEND_WAIT_MS = 20_000;

export function createTransact(database: Database, notifier: Notifier, observer: Observer = noopObserver): Transact {
  // One transaction of the process at a time holds, or waits for, the lock on the position. A process that is suspended
  // loses it after a bounded time (transitions.ts), and others would wait for that time again for each of its waiters.
  const appending = createSlots(1, Number.POSITIVE_INFINITY, APPEND_WAIT_MS);
  return async (change) => {
    let effects: (() => void)[] = [];
    let transitions: NewTransition[] = [];
    let audited = new Map<AuditRecord, AuditedEffect>();
    let slot: Slot = null;
    const result = await database
      .transaction(async (tx) => {
        // Of an attempt that failed.
        slot?.();
        slot = null;
        transitions = [];
        audited = new Map();
        effects = [];
        const answer = await change({
          tx,
          log: (transition) => transitions.push(transition),
          audit: ({ record }, effect) => record && audited.set(record, joined(audited.get(record), effect)),
          afterCommit: (effect) => effects.push(effect),
        });
        if (audited.size > 0) await insertAuditRows(tx, rowsOf(audited));
        if (transitions.length > 0) {
          slot = await appending.take();
          await appendTransitions(tx, transitions);
        }
        return answer;
      })
      .finally(() => slot?.())
      .catch((error: unknown) => {
        if (isConnectionLoss(error)) observer.connectionLost();
        throw error;
      });
    for (const record of audited.keys()) record.isWritten = true;
    if (transitions.length > 0) observer.appended(transitions.length);
    notifier.notify();
    for (const effect of effects) effect();
    return result;
  };
}

function rowsOf(audited: ReadonlyMap<AuditRecord, AuditedEffect>): NewAuditRow[] {
  return [...audited].map(([{ request }, effect]) => auditRow(request, { ...effect, outcome: "ACCEPTED" }));
}

/** The reason of a move, which the transition of its node records. */
export interface Cause {
  readonly actor: string;
  readonly reason?: string | null;
  readonly target?: NodeState | null;
  readonly operationId?: string | null;
  readonly runId?: string | null;
  readonly step?: string | null;
}

/** A change of one node, with or without its state. */
export interface Hop {
  readonly nodeId: string;
  /** The state that the node is in. */
  readonly from: NodeState;
  /** The edge that the node takes, and what its transition records; null if the state stays. */
  readonly why: (Cause & { readonly event: NodeEvent }) | null;
  /** Contains `state` if the node takes an edge. */
  readonly change: ClaimedNodeChange;
}

/** The hop of a node along an edge. Throws if there is no such edge. */
export function hopAlong(
  node: { readonly nodeId: string; readonly from: NodeState },
  why: NonNullable<Hop["why"]>,
  change: Omit<ClaimedNodeChange, "state"> = {},
): Hop {
  return { ...node, why, change: { ...change, state: next(node.from, why.event) } };
}

/**
 * Changes nodes, each by its own hops in their order: one statement for the first hops of all nodes, one for the second
 * hops, and so on. Returns a promise for each statement; all are sent at once. Throws if one of the nodes is in another
 * state: the caller has locked them, so that is a bug. Nodes are locked in the order of their ids.
 */
export function changeNodes(transaction: Transaction, hopsOfNodes: readonly (readonly Hop[])[]): Promise<void>[] {
  const rounds = hopsOfNodes.reduce((most, { length }) => Math.max(most, length), 0);
  return Array.from({ length: rounds }, async (_, round) => {
    const hops = hopsOfNodes.flatMap((all) => all[round] ?? []);
    const changes = hops.map(({ nodeId, from, change }) => ({ id: nodeId, state: from, change }));
    const changed = new Map((await changeClaimedNodes(transaction.tx, changes)).map((node) => [node.id, node]));
    for (const { nodeId, from, why, change } of hops) {
      const node = changed.get(nodeId);
      if (!node) throw new Error(`Node ${nodeId} is not ${from}, although it was when it was locked.`);
      if (why) transaction.log(transitionOf(node, { from, to: change.state ?? from, event: why.event }, why));
    }
  });
}

/** From null: the node was registered. To null: it is gone. */
interface Edge {
  readonly from: NodeState | null;
  readonly to: NodeState | null;
  readonly event: NewTransition["event"];
}

/** The transition of a node, whose counts are those after it. */
export function transitionOf(node: MovedNode, { from, to, event }: Edge, why: Cause): NewTransition {
  return {
    nodeId: node.id,
    nodeName: node.name,
    project: node.project,
    fromState: from,
    toState: to,
    event,
    sequence: node.transitionCount,
    nodeRevision: node.revision,
    target: why.target ?? null,
    operationId: why.operationId ?? null,
    runId: why.runId ?? null,
    step: why.step ?? null,
    actor: why.actor,
    reason: why.reason ?? null,
  };
}
