/**
 * What monitoring says of nodes: seen, or not any more. It starts no work and disturbs none. Each node of a report has an
 * answer of its own, and one that cannot be taken keeps no other from being taken. A report that says nothing new writes
 * nothing, so it may be repeated as often as monitoring likes.
 */
import type { Refusal } from "../errors.ts";
import { controllerOf } from "../drivers/registry.ts";
import type { Registry } from "../drivers/registry.ts";
import { violatedConstraint } from "../store/database.ts";
import { lockNodes, nodesByNames, updateNodes } from "../store/nodes.ts";
import { enroll } from "./enroll.ts";
import { prepare } from "./nodes.ts";
import type { Caller } from "./submit.ts";
import type { Transact, Work } from "./transition.ts";

export const PRESENCE_EVENTS = {
  DISCOVERED: "Seen. A node that is not registered yet is registered, ENROLLED, when its driver is named.",
  DISAPPEARED: "Not seen any more.",
} as const;
export type PresenceEvent = keyof typeof PRESENCE_EVENTS;

/** What a report did to a node. */
export const PRESENCE_CHANGES = {
  UPDATED: "Its presence changed.",
  UNCHANGED: "Its presence was this already; nothing was written.",
  REGISTERED: "It was not known, and is registered now.",
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

export async function reportPresence(parts: PresenceParts, caller: Caller, event: PresenceEvent, reported: readonly ReportedNode[]): Promise<PresenceReported> {
  if (reported.length === 0) return { results: [], refusals: [{ code: "INVALID_INPUT", message: "An empty list reports nothing; name at least one node.", path: ["input", "nodes"] }] };
  try {
    return await parts.transact(async (work) => ({ results: await take(work, parts.registry, caller, event, reported), refusals: [] }));
  } catch (error) {
    // Somebody registered one of the names between our look and our insert.
    if (violatedConstraint(error)?.startsWith("nodes_name")) return reportPresence(parts, caller, event, reported);
    throw error;
  }
}

async function take(work: Work, registry: Registry, caller: Caller, event: PresenceEvent, reported: readonly ReportedNode[]): Promise<PresenceAnswer[]> {
  const known = await nodesByNames(work.tx, [...new Set(reported.map(({ name }) => name))]);
  const locked = await lockNodes(work.tx, known.filter(({ presence }) => presence !== event).map(({ id }) => id));
  const changed = locked.filter(({ presence }) => presence !== event);
  await updateNodes(work.tx, changed.map(({ id }) => id), { presence: event });
  const gone = new Set(known.filter((node) => node.presence !== event && !locked.some(({ id }) => id === node.id)).map(({ id }) => id));
  const idOf = new Map(known.filter(({ id }) => !gone.has(id)).map(({ name, id }) => [name, id]));
  const fresh = new Set(changed.map(({ id }) => id));
  const results: PresenceAnswer[] = [];
  for (const [index, node] of reported.entries()) {
    const nodeId = idOf.get(node.name);
    if (nodeId !== undefined) {
      // Of a node that is named twice only the first answer tells of a change.
      results.push({ ref: node.name, nodeId, change: fresh.delete(nodeId) ? "UPDATED" : "UNCHANGED", refusal: null });
      continue;
    }
    const made = await registerSeen(work, registry, caller, event, node, ["input", "nodes", String(index)]);
    if ("refusal" in made) results.push({ ref: node.name, nodeId: null, change: null, refusal: made.refusal });
    else {
      idOf.set(node.name, made.nodeId);
      results.push({ ref: node.name, nodeId: made.nodeId, change: "REGISTERED", refusal: null });
    }
  }
  return results;
}

async function registerSeen(
  work: Work,
  registry: Registry,
  caller: Caller,
  event: PresenceEvent,
  { name, driver, settings, labels }: ReportedNode,
  path: readonly string[],
): Promise<{ readonly nodeId: string } | { readonly refusal: Refusal }> {
  if (event === "DISAPPEARED") return { refusal: { code: "NOT_FOUND", message: `There is no node ${name}, so it cannot have disappeared.`, missing: [name], path: [...path, "name"] } };
  if (driver === undefined) return { refusal: { code: "INVALID_INPUT", message: `Node ${name} is not registered; name its driver to have it registered, or register it with registerNodes.`, path: [...path, "driver"] } };
  const prepared = await prepare(registry, { name, driver, settings, labels }, path);
  const [flaw, ...further] = prepared.refusals;
  if (flaw) return { refusal: { ...flaw, message: [flaw, ...further].map(({ message }) => message).join(" ") } };
  const own = registry.get(driver);
  const controller = own ? controllerOf(own, { ...prepared.settings[driver], ...prepared.secrets[driver] }) : null;
  const enrolment = { name, project: caller.project, driver, settings: prepared.settings, secrets: prepared.secrets, labels: labels ?? {}, clusterId: null, controller, presence: event };
  return { nodeId: await enroll(work, enrolment, caller) };
}
