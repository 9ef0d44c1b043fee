/**
 * What monitoring says of nodes: seen, or not any more. It starts no work and disturbs none. Each node of a report has an
 * answer of its own, and one that cannot be taken keeps no other from being taken. A report that says nothing new writes
 * nothing, so it may be repeated as often as monitoring likes.
 */
import type { Refusal } from "../../errors.ts";
import type { Registry } from "../../drivers/registry.ts";
import { violatedConstraint } from "../../store/postgres/connection-errors.ts";
import { lockNodes, nodesByNames, updateNodes } from "../../store/nodes.ts";
import { enroll } from "./enroll.ts";
import type { Enrolment } from "./enroll.ts";
import { prepare } from "./register-nodes.ts";
import type { Caller, Transact, Transaction } from "../transaction.ts";

export const PRESENCE_EVENTS = {
  DISCOVERED: "The nodes are seen. An unknown node is registered as ENROLLED if a driver is given.",
  DISAPPEARED: "The nodes are no longer seen.",
} as const;
export type PresenceEvent = keyof typeof PRESENCE_EVENTS;

/** What a report did to a node. */
export const PRESENCE_CHANGES = {
  UPDATED: "The presence of the node changed.",
  UNCHANGED: "The node already had this presence; nothing was written.",
  REGISTERED: "The node was unknown and is registered now.",
} as const;
export type PresenceChange = keyof typeof PRESENCE_CHANGES;

/** A node as monitoring reports it. What follows the name is for nodes that are not registered yet. */
export interface ReportedNode {
  readonly name: string;
  readonly driver?: string | undefined;
  readonly settings?: unknown;
  readonly labels?: Readonly<Record<string, string>> | undefined;
}

/** The answer to one node of a report, in the order asked. */
export interface PresenceAnswer {
  readonly ref: string;
  readonly nodeId: string | null;
  readonly change: PresenceChange | null;
  readonly refusal: Refusal | null;
}

export interface PresenceReported {
  readonly results: readonly PresenceAnswer[];
  /** Why the report as a whole was refused. */
  readonly refusals: readonly Refusal[];
}

export interface PresenceParts {
  readonly transact: Transact;
  readonly registry: Registry;
}

export async function reportPresence(
  parts: PresenceParts,
  caller: Caller,
  event: PresenceEvent,
  reported: readonly ReportedNode[],
): Promise<PresenceReported> {
  if (reported.length === 0)
    return {
      results: [],
      refusals: [
        {
          code: "INVALID_INPUT",
          message: "An empty list reports nothing; name at least one node.",
          path: ["input", "nodes"],
        },
      ],
    };
  try {
    return await parts.transact(async (transaction) => ({
      results: await take(transaction, parts.registry, caller, event, reported),
      refusals: [],
    }));
  } catch (error) {
    // Somebody registered one of the names between our look and our insert.
    if (violatedConstraint(error)?.startsWith("nodes_name")) return reportPresence(parts, caller, event, reported);
    throw error;
  }
}

async function take(
  transaction: Transaction,
  registry: Registry,
  caller: Caller,
  event: PresenceEvent,
  reported: readonly ReportedNode[],
): Promise<PresenceAnswer[]> {
  const known = await nodesByNames(transaction.tx, [...new Set(reported.map(({ name }) => name))]);
  const differing = known.filter(({ presence }) => presence !== event);
  const locked = await lockNodes(
    transaction.tx,
    differing.map(({ id }) => id),
  );
  const changed = locked.filter(({ presence }) => presence !== event).map(({ id }) => id);
  await updateNodes(transaction.tx, changed, { presence: event });
  // What was deleted between our look and our lock is not known any more.
  const idOf = new Map(
    [...known.filter(({ presence }) => presence === event), ...locked].map(({ name, id }) => [name, id]),
  );
  const untold = new Set(changed);
  const entering = new Map<string, Enrolment>();
  const drafts: Omit<PresenceAnswer, "nodeId">[] = [];
  for (const [index, node] of reported.entries()) {
    const { name: ref } = node;
    const nodeId = idOf.get(ref);
    // Of a node that is named twice the first answer alone tells of the change.
    if (nodeId !== undefined)
      drafts.push({ ref, change: untold.delete(nodeId) ? "UPDATED" : "UNCHANGED", refusal: null });
    else if (entering.has(ref)) drafts.push({ ref, change: "UNCHANGED", refusal: null });
    else {
      const seen = await firstSeen(registry, caller, event, node, ["input", "nodes", String(index)]);
      if ("refusal" in seen) drafts.push({ ref, change: null, refusal: seen.refusal });
      else {
        entering.set(ref, seen);
        drafts.push({ ref, change: "REGISTERED", refusal: null });
      }
    }
  }
  // In the order of names, so that two reports of the same nodes do not wait for each other.
  for (const name of [...entering.keys()].toSorted()) {
    const enrolment = entering.get(name);
    if (enrolment) idOf.set(name, await enroll(transaction, enrolment, caller));
  }
  return drafts.map((draft) => ({ ...draft, nodeId: draft.refusal ? null : (idOf.get(draft.ref) ?? null) }));
}

/** A node that is not registered, as it would be; or why it will not. */
async function firstSeen(
  registry: Registry,
  caller: Caller,
  event: PresenceEvent,
  { name, driver, settings, labels }: ReportedNode,
  path: readonly string[],
): Promise<Enrolment | { readonly refusal: Refusal }> {
  if (event === "DISAPPEARED")
    return {
      refusal: {
        code: "NOT_FOUND",
        message: `There is no node ${name}, so it cannot have disappeared.`,
        missing: [name],
        path: [...path, "name"],
      },
    };
  if (driver === undefined)
    return {
      refusal: {
        code: "INVALID_INPUT",
        message: `Node ${name} is not registered; name its driver to have it registered, or register it with registerNodes.`,
        path: [...path, "driver"],
      },
    };
  const prepared = await prepare(registry, { name, driver, settings, labels }, path);
  const [flaw] = prepared.refusals;
  if (flaw) return { refusal: { ...flaw, message: prepared.refusals.map(({ message }) => message).join(" ") } };
  return {
    name,
    project: caller.project,
    driver,
    settings: prepared.settings,
    secrets: prepared.secrets,
    labels: labels ?? {},
    clusterId: null,
    controller: prepared.controller,
    presence: event,
  };
}
