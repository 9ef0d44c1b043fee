/**
 * Reports of monitoring: nodes that it has seen, or no longer sees. A report starts no work and disturbs none. Each
 * node has an answer of its own, and a refused node does not affect the others. A repeated report writes nothing.
 */
import { RefusalError, invalidInput, notFound } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import { lockNodes, nodesByNames, changePresence } from "../../store/nodes/nodes.ts";
import type { EngineContext } from "../context.ts";
import type { Caller, Transaction } from "../transaction.ts";
import { lockValues } from "../../store/nodes/node-identities.ts";
import { nameKey } from "../../store/names.ts";
import { idsOf } from "../input/ids.ts";
import { controllerRefusals } from "./controller-conflicts.ts";
import type { GivenController } from "./controller-conflicts.ts";
import { prepareSettings } from "./node-settings.ts";
import { enrollNodes } from "./register-nodes.ts";
import type { EnrolledNode } from "./register-nodes.ts";
import { labelRecord } from "../input/name-rules.ts";
import type { GivenLabels } from "../input/name-rules.ts";

export const PRESENCE_EVENTS = {
  DISCOVERED: "The nodes are seen. An unknown node is registered as ENROLLED if a driver is given.",
  DISAPPEARED: "The nodes are no longer seen.",
} as const;
export type PresenceEvent = keyof typeof PRESENCE_EVENTS;

/** The effect of a report on a node. */
export const PRESENCE_CHANGES = {
  UPDATED: "The presence of the node changed.",
  UNCHANGED: "The node already had this presence; nothing was written.",
  REGISTERED: "The node was unknown and is registered now.",
} as const;
export type PresenceChange = keyof typeof PRESENCE_CHANGES;

/** A node as monitoring reports it. The members after the name are for nodes that are not registered yet. */
interface ReportedNode {
  readonly name: string;
  readonly driver?: string | undefined;
  readonly settings?: unknown;
  readonly labels?: GivenLabels | undefined;
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
  /** Reasons why the report as a whole was refused. */
  readonly refusals: readonly Refusal[];
}

interface PresenceReport {
  readonly event: PresenceEvent;
  readonly nodes: readonly ReportedNode[];
}

export async function reportPresence(
  context: EngineContext,
  caller: Caller,
  event: PresenceEvent,
  nodes: readonly ReportedNode[],
): Promise<PresenceReported> {
  if (nodes.length === 0)
    throw new RefusalError([
      invalidInput("An empty list reports nothing; name at least one node.", ["input", "nodes"]),
    ]);
  const results = await context.transact((transaction) => takeReport(transaction, context, caller, { event, nodes }));
  return { results, refusals: [] };
}

async function takeReport(
  transaction: Transaction,
  context: EngineContext,
  caller: Caller,
  { event, nodes: reported }: PresenceReport,
): Promise<PresenceAnswer[]> {
  const { idOf, changed } = await updatePresence(transaction, event, reported);
  const entering = new Map<string, FirstSeen>();
  const flaws = new Map<ReportedNode, Refusal>();
  for (const [index, node] of reported.entries()) {
    const key = nameKey(node.name);
    if (idOf.has(key) || entering.has(key)) continue;
    const seen = await firstSeen(context, caller, { event, node }, ["input", "nodes", String(index)]);
    if ("refusal" in seen) flaws.set(node, seen.refusal);
    else entering.set(key, seen);
  }
  const refused = await refusedForControllers(transaction, entering);
  const registered = new Set<string>();
  // In the order of names, so that two reports of the same nodes cannot deadlock.
  for (const [name, { node }] of [...entering].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    if (refused.has(name)) continue;
    const [id] = await enrollNodes(transaction, context, [node], caller);
    if (id !== undefined) idOf.set(name, id);
    registered.add(name);
  }
  const answers = reported.map((node): PresenceAnswer => {
    const [ref, key] = [node.name, nameKey(node.name)];
    const refusal = flaws.get(node) ?? refused.get(key) ?? null;
    if (refusal) return { ref, nodeId: null, change: null, refusal };
    const nodeId = idOf.get(key) ?? null;
    // If a node is named twice, only its first answer reports the change.
    const isUpdated = nodeId !== null && changed.delete(nodeId);
    const change = registered.delete(key) ? "REGISTERED" : isUpdated ? "UPDATED" : "UNCHANGED";
    return { ref, nodeId, change, refusal: null };
  });
  const taken = answers.flatMap(({ ref, refusal }) => (refusal ? [] : [ref]));
  if (taken.length > 0) transaction.audit(caller, { targets: taken });
  return answers;
}

/** Locks the controllers of new nodes, and returns why nodes are refused for them, by name. */
async function refusedForControllers({ tx }: Transaction, entering: ReadonlyMap<string, FirstSeen>) {
  const joining = [...entering.values()].map(({ node, controllers }) => ({
    nodeId: null,
    name: node.name,
    isShared: false,
    controllers,
  }));
  await lockValues(
    tx,
    joining.flatMap(({ controllers }) => controllers),
  );
  const refusals = await controllerRefusals(tx, joining);
  return new Map(
    joining.flatMap(({ name }, index) => (refusals[index] ?? []).map((refusal) => [nameKey(name), refusal] as const)),
  );
}

/** Updates the presence of registered nodes. Returns the ids of all of them by name, and of those that changed. */
async function updatePresence({ tx }: Transaction, event: PresenceEvent, reported: readonly ReportedNode[]) {
  const known = await nodesByNames(
    tx,
    reported.map(({ name }) => name),
  );
  const differing = known.filter(({ presence }) => presence !== event);
  const locked = await lockNodes(tx, idsOf(differing));
  const changed = idsOf(locked.filter(({ presence }) => presence !== event));
  await changePresence(tx, changed, event);
  // A node that was deleted between the read and the lock is not registered any more.
  const present = [...known.filter(({ presence }) => presence === event), ...locked];
  return { idOf: new Map(present.map(({ name, id }) => [nameKey(name), id])), changed: new Set(changed) };
}

/** A node to register, and its controllers as the report gives them. */
interface FirstSeen {
  readonly node: EnrolledNode;
  readonly controllers: readonly GivenController[];
}

/** The node to register for a name that is not registered; or why it is refused. */
async function firstSeen(
  { registry }: EngineContext,
  caller: Caller,
  { event, node }: { readonly event: PresenceEvent; readonly node: ReportedNode },
  path: readonly string[],
): Promise<FirstSeen | { readonly refusal: Refusal }> {
  const { name, driver, settings, labels } = node;
  if (event === "DISAPPEARED") {
    const message = `Node ${name} does not exist, so it cannot have disappeared.`;
    return { refusal: notFound(message, [name], [...path, "name"]) };
  }
  if (driver === undefined) {
    const message = `Node ${name} is not registered. Name its driver to register it with this report, or use registerNodes.`;
    return { refusal: invalidInput(message, [...path, "driver"]) };
  }
  const prepared = await prepareSettings(registry, { name, driver, settings, labels }, path);
  const [flaw] = prepared.refusals;
  if (flaw) return { refusal: { ...flaw, message: prepared.refusals.map(({ message }) => message).join(" ") } };
  const enrolled: EnrolledNode = {
    name,
    project: caller.project,
    driver,
    settings: prepared.settings,
    secrets: prepared.secrets,
    labels: labelRecord(labels),
    clusterId: null,
    controller: prepared.controller,
    identities: prepared.controllers,
    presence: event,
  };
  return { node: enrolled, controllers: prepared.controllers };
}
