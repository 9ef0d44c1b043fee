/**
 * The engine's transactions, and within them the ONE function that changes a node's state. A move updates the node and
 * notes its transition; the transitions are appended as the transaction's last statement, because positions are drawn
 * under a lock that lasts until the commit. After the commit the doorbell is rung.
 */
import { next } from "../lifecycle/machine.ts";
import type { NodeEvent, NodeState } from "../lifecycle/node-states.ts";
import type { Bell } from "../store/bell.ts";
import type { Database, Tx } from "../store/database.ts";
import { moveNodes } from "../store/nodes.ts";
import type { NodeMove } from "../store/nodes.ts";
import { appendTransitions } from "../store/transitions.ts";
import type { NewTransition } from "../store/transitions.ts";

/** Who asks, and for which project. */
export interface Caller {
  readonly actor: string;
  readonly project: string;
}

/** One transaction of the engine. */
export interface Work {
  readonly tx: Tx;
  /** Notes a transition, to be appended at the end. */
  log(transition: NewTransition): void;
  /** Runs after the commit, and not at all without one. */
  afterCommit(effect: () => void): void;
}

export type Transact = <T>(work: (work: Work) => Promise<T>) => Promise<T>;

export function createTransact(database: Database, bell: Bell): Transact {
  return async (body) => {
    let effects: (() => void)[] = [];
    const result = await database.transaction(async (tx) => {
      const transitions: NewTransition[] = [];
      effects = [];
      const answer = await body({ tx, log: (transition) => transitions.push(transition), afterCommit: (effect) => effects.push(effect) });
      if (transitions.length > 0) await appendTransitions(tx, transitions);
      return answer;
    });
    bell.ring();
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

/**
 * Moves nodes that are in one state along one edge. Throws when the table has no such edge, or when one of the nodes is
 * not in that state: the caller holds them locked, so that would be a fault of ours.
 */
export async function move(work: Work, nodeIds: readonly string[], from: NodeState, event: NodeEvent, context: MoveContext, change: NodeMove = {}): Promise<NodeState> {
  const to = next(from, event);
  const moved = new Map((await moveNodes(work.tx, nodeIds, from, to, change)).map((node) => [node.id, node]));
  for (const nodeId of nodeIds) {
    const node = moved.get(nodeId);
    if (!node) throw new Error(`Node ${nodeId} is not ${from}, though it was when it was locked.`);
    work.log({
      nodeId,
      nodeName: node.name,
      project: node.project,
      fromState: from,
      toState: to,
      event,
      sequence: node.transitionCount,
      nodeRevision: node.revision,
      target: context.target ?? null,
      operationId: context.operationId ?? null,
      runId: context.runIds?.get(nodeId) ?? null,
      step: context.step ?? null,
      actor: context.actor,
      reason: context.reason ?? null,
    });
  }
  return to;
}
