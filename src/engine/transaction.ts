/**
 * The engine's transactions, and within them the only two functions that change a node's state: `move` takes many nodes along
 * one edge, `changeNodes` each along its own. Both update the node and note its transition; the transitions are appended as
 * the transaction's last statement, because positions are drawn under a lock that lasts until the commit. After the commit
 * the doorbell is rung.
 */
import { next } from "../lifecycle/machine.ts";
import type { NodeEvent, NodeState } from "../lifecycle/node-states.ts";
import { createYielding } from "../runtime/yielding.ts";
import { noopObserver } from "../observer.ts";
import type { Observer } from "../observer.ts";
import type { Notifier } from "../store/postgres/notifier.ts";
import { isConnectionLoss } from "../store/postgres/connection-errors.ts";
import type { Database, Tx } from "../store/postgres/database.ts";
import { changeHeldNodes, moveNodes } from "../store/nodes.ts";
import type { HeldNodeChange, MovedNode, NodeMove } from "../store/nodes.ts";
import { appendTransitions } from "../store/transitions.ts";
import type { NewTransition } from "../store/transitions.ts";

/** Who asks, and for which project. */
export interface Caller {
  readonly actor: string;
  readonly project: string;
}

/** One transaction of the engine. */
export interface Transaction {
  readonly tx: Tx;
  /** Notes a transition, to be appended at the end. */
  log(transition: NewTransition): void;
  /** Runs after the commit, and not at all without one. */
  afterCommit(effect: () => void): void;
}

export type Transact = <T>(work: (transaction: Transaction) => Promise<T>) => Promise<T>;

export function createTransact(database: Database, bell: Notifier, observer: Observer = noopObserver): Transact {
  return async (body) => {
    let effects: (() => void)[] = [];
    let transitions: NewTransition[] = [];
    const result = await database
      .transaction(async (tx) => {
        transitions = [];
        effects = [];
        const answer = await body({
          tx,
          log: (transition) => transitions.push(transition),
          afterCommit: (effect) => effects.push(effect),
        });
        if (transitions.length > 0) await appendTransitions(tx, transitions);
        return answer;
      })
      .catch((error: unknown) => {
        if (isConnectionLoss(error)) observer.connectionLost();
        throw error;
      });
    if (transitions.length > 0) observer.appended(transitions.length);
    bell.notify();
    for (const effect of effects) effect();
    return result;
  };
}

/** Why nodes are moved: goes into their transitions. */
export interface MoveContext {
  readonly actor: string;
  readonly reason?: string | null;
  readonly target?: NodeState | null;
  readonly operationId?: string | null;
  readonly step?: string | null;
  /** The run of each node, by node id. */
  readonly runIds?: ReadonlyMap<string, string>;
}

/** A change of one node, with or without its state. */
export interface Hop {
  readonly nodeId: string;
  /** The state that it is in. */
  readonly from: NodeState;
  /** The edge that it takes, and why; null: it stays where it is. */
  readonly why: (Omit<MoveContext, "runIds"> & { readonly event: NodeEvent; readonly runId: string }) | null;
  /** With `state` where it takes an edge. */
  readonly change: HeldNodeChange;
}

/**
 * Moves nodes that are in one state along one edge. Throws when the table has no such edge, or when one of the nodes is
 * not in that state: the caller holds them locked, so that would be a fault of ours.
 */
export async function move(
  transaction: Transaction,
  nodeIds: readonly string[],
  from: NodeState,
  event: NodeEvent,
  context: MoveContext,
  change: NodeMove = {},
): Promise<NodeState> {
  const to = next(from, event);
  const moved = new Map((await moveNodes(transaction.tx, nodeIds, from, to, change)).map((node) => [node.id, node]));
  const mayBreak = createYielding();
  for (const nodeId of nodeIds) {
    await mayBreak();
    const node = moved.get(nodeId);
    if (!node) throw new Error(`Node ${nodeId} is not ${from}, though it was when it was locked.`);
    transaction.log(transitionOf(node, from, to, event, { ...context, runId: context.runIds?.get(nodeId) ?? null }));
  }
  return to;
}

/**
 * Changes nodes, each by its own hops in their order: the first hops of all in one statement, then the second ones. Throws
 * like `move`. Nodes are locked in the order of their ids. Answers a promise for each statement, which are sent at once.
 */
export function changeNodes(transaction: Transaction, hopsOfNodes: readonly (readonly Hop[])[]): Promise<void>[] {
  const rounds = Math.max(0, ...hopsOfNodes.map(({ length }) => length));
  return Array.from({ length: rounds }, async (_, round) => {
    const hops = hopsOfNodes.flatMap((all) => all[round] ?? []);
    const changed = new Map(
      (
        await changeHeldNodes(
          transaction.tx,
          hops.map(({ nodeId, from, change }) => ({ id: nodeId, state: from, change })),
        )
      ).map((node) => [node.id, node]),
    );
    for (const { nodeId, from, why, change } of hops) {
      const node = changed.get(nodeId);
      if (!node) throw new Error(`Node ${nodeId} is not ${from}, though its run has left it so.`);
      if (why) transaction.log(transitionOf(node, from, change.state ?? from, why.event, why));
    }
  });
}

function transitionOf(
  node: MovedNode,
  fromState: NodeState,
  toState: NodeState,
  event: NodeEvent,
  why: Omit<MoveContext, "runIds"> & { readonly runId: string | null },
): NewTransition {
  return {
    nodeId: node.id,
    nodeName: node.name,
    project: node.project,
    fromState,
    toState,
    event,
    sequence: node.transitionCount,
    nodeRevision: node.revision,
    target: why.target ?? null,
    operationId: why.operationId ?? null,
    runId: why.runId,
    step: why.step ?? null,
    actor: why.actor,
    reason: why.reason ?? null,
  };
}
