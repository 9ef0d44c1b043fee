/** Changes of nodes that are no work: register, edit, delete, the marks of maintenance and retirement. All or none, like every request. */
import { randomUUID } from "node:crypto";
import type { Refusal } from "../../errors.ts";
import { RefusalError } from "../../errors.ts";
import { STATES_AT_REST } from "../../lifecycle/machine.ts";
import { INTERFACES, controllerOf, isInterfaceName } from "../../drivers/registry.ts";
import type { AnyDriver, Registry } from "../../drivers/registry.ts";
import { violatedConstraint } from "../../store/postgres/connection-errors.ts";
import { clustersByIds, clustersByNames } from "../../store/clusters.ts";
import {
  deleteNode,
  insertNodes,
  lockNodes,
  nodesByNames,
  putSecrets,
  secretsOf,
  updateNode as changeNode,
  updateNodes,
} from "../../store/nodes.ts";
import type { NodeRow, Secrets } from "../../store/nodes.ts";
import type { JsonObject } from "../../store/records.ts";
import { busyNodes, runsPausedByMaintenance } from "../../store/runs.ts";
import type { Queue } from "../jobs/queue.ts";
import { createRedactor, isStorable } from "../input/secret-redactor.ts";
import { differing, isSame } from "../input/edits.ts";
import { hostGroupFlaw, labelFlaws, nameFlaw } from "../input/name-rules.ts";
import { isUuid, selectNodes } from "../input/node-selector.ts";
import type { ClusterRef, NodeSelector } from "../input/node-selector.ts";
import { REASON_LENGTH_MAX, sizeFlaws } from "../input/size-limits.ts";
import type { Caller, Transact, Transaction } from "../transaction.ts";

export interface NewNode {
  readonly name: string;
  readonly driver: string;
  readonly settings?: unknown;
  readonly interfaces?: readonly BorrowedInterfaces[] | undefined;
  readonly labels?: Readonly<Record<string, string>> | undefined;
  readonly cluster?: ClusterRef | undefined;
  /** Role in its cluster. */
  readonly hostGroup?: string | undefined;
  /** Whether automatic cleaning runs; absent: as the site says. */
  readonly automaticCleaning?: boolean | undefined;
}

/** What is taken from one other driver, with that driver's settings. */
export interface BorrowedInterfaces {
  readonly kinds: readonly string[];
  readonly driver: string;
  readonly settings?: unknown;
}

/** A change of one node. An absent field stays. */
export interface NodeChange {
  readonly ifRevision?: number | undefined;
  readonly name?: string | undefined;
  readonly driver?: string | undefined;
  /** Laid over the settings of its own driver: what is left out stays, null takes a setting away. */
  readonly settings?: unknown;
  /** All of them; settings are laid over those that the node has for the driver. */
  readonly interfaces?: readonly BorrowedInterfaces[] | undefined;
  readonly labels?: Readonly<Record<string, string>> | undefined;
  readonly isProtected?: boolean | undefined;
  /** Null: none. */
  readonly hostGroup?: string | null | undefined;
  /** Null: as the site says. */
  readonly automaticCleaning?: boolean | null | undefined;
}

export type Edited = { readonly nodeIds: readonly string[]; readonly refusals: readonly Refusal[] };

export interface NodeParts {
  readonly transact: Transact;
  readonly registry: Registry;
  readonly queue: Queue;
}

const CONTROLLER_LENGTH_MAX = 253;
const REFUSALS_MAX = 100;

// ---- register

export async function registerNodes(parts: NodeParts, caller: Caller, given: readonly NewNode[]): Promise<Edited> {
  if (given.length === 0)
    return refused([
      {
        code: "INVALID_INPUT",
        message: "An empty list registers nothing; name at least one node.",
        path: ["input", "nodes"],
      },
    ]);
  const prepared = await Promise.all(
    given.map((node, index) => prepare(parts.registry, node, ["input", "nodes", String(index)])),
  );
  const flaws = [...prepared.flatMap((one) => one.refusals), ...twice(given)];
  try {
    return await parts.transact(async (transaction) => {
      const clusterIds = await clustersOf(transaction, given);
      const taken = await nodesByNames(transaction.tx, given.map(({ name }) => name).filter(isStorable));
      const conflicts = [
        ...clusterIds.refusals,
        ...taken.map(({ name, id }): Refusal => ({
          code: "INVALID_INPUT",
          message: `A node ${name} exists already.`,
          nodeId: id,
          path: ["input", "nodes", String(given.findIndex((node) => node.name === name)), "name"],
        })),
      ];
      const refusals = [...flaws, ...conflicts].toSorted((a, b) => placeOf(a) - placeOf(b));
      if (refusals.length > 0) throw new RefusalError(refusals.slice(0, REFUSALS_MAX));
      const rows = given.map((node, index) => ({
        id: randomUUID(),
        name: node.name,
        project: caller.project,
        state: "ENROLLED" as const,
        driver: node.driver,
        borrowed: borrowedOf(node.interfaces),
        settings: prepared[index]?.settings ?? {},
        controller: prepared[index]?.controller ?? null,
        labels: node.labels ?? {},
        hostGroup: node.hostGroup ?? null,
        automaticCleaning: node.automaticCleaning ?? null,
        clusterId: clusterIds.of(node.cluster),
        transitionCount: 1,
      }));
      await insertNodes(transaction.tx, rows);
      await putSecrets(
        transaction.tx,
        rows
          .map(({ id }, index) => ({ nodeId: id, secrets: prepared[index]?.secrets ?? {} }))
          .filter(({ secrets }) => Object.keys(secrets).length > 0),
      );
      for (const row of rows) {
        transaction.log({
          ...blank(caller),
          nodeId: row.id,
          nodeName: row.name,
          project: row.project,
          fromState: null,
          toState: row.state,
          event: "register",
          sequence: 1,
          nodeRevision: 1,
        });
      }
      return { nodeIds: rows.map(({ id }) => id), refusals: [] };
    });
  } catch (error) {
    if (error instanceof RefusalError) return refused(error.refusals);
    // Somebody registered one of the names between our look and our insert.
    if (violatedConstraint(error)?.startsWith("nodes_name")) return registerNodes(parts, caller, given);
    throw error;
  }
}

/** Place in the list of the node that a refusal is about. */
function placeOf({ path }: Refusal): number {
  return Number(path?.[2] ?? 0);
}

function blank(caller: Caller) {
  return { target: null, operationId: null, runId: null, step: null, actor: caller.actor, reason: null };
}

function twice(given: readonly NewNode[]): Refusal[] {
  const seen = new Set<string>();
  return given.flatMap(({ name }, index) => {
    if (!seen.has(name)) {
      seen.add(name);
      return [];
    }
    return [
      {
        code: "INVALID_INPUT",
        message: `The name ${name} is given twice.`,
        path: ["input", "nodes", String(index), "name"],
      } satisfies Refusal,
    ];
  });
}

interface Prepared {
  readonly settings: Readonly<Record<string, JsonObject>>;
  readonly secrets: Secrets;
  /** What the management controller is reached by; null: the driver does not say, so it is the node's own. */
  readonly controller: string | null;
  readonly refusals: readonly Refusal[];
}

/** Settings that a node has already, secrets included: driver name → settings. */
type Kept = Readonly<Record<string, JsonObject>>;

/** Checks a node's drivers and settings, and splits secrets from the rest. `kept`: what stays of its settings unless given anew. */
export async function prepare(
  registry: Registry,
  node: NewNode,
  path: readonly string[],
  kept: Kept = {},
): Promise<Prepared> {
  const refusals: Refusal[] = [
    ...nameFlaw(node.name, [...path, "name"]),
    ...labelFlaws(node.labels, path),
    ...hostGroupFlaw(node.hostGroup, path),
    ...driverFlaws(registry, node, path),
  ];
  const settings: Record<string, JsonObject> = {};
  const secrets: Record<string, Readonly<Record<string, string>>> = {};
  for (const driver of driversOf(registry, node)) {
    const source = settingsFor(node, driver, path);
    const given = source.value ?? {};
    const isObject = typeof given === "object" && !Array.isArray(given);
    const verdict = await registry.checkSettings(driver, isObject ? { ...kept[driver.name], ...given } : given);
    if (!verdict.ok) {
      for (const issue of verdict.issues.slice(0, 10)) {
        refusals.push({
          code: "INVALID_INPUT",
          message: `Node ${node.name}, settings of driver ${driver.name}${issue.path.length > 0 ? ` (${issue.path.join(".")})` : ""}: ${issue.message}.`,
          path: [...source.path, ...issue.path],
        });
      }
      continue;
    }
    refusals.push(
      ...sizeFlaws(
        `Node ${node.name}: its settings for driver ${driver.name}`,
        { ...verdict.settings, ...verdict.secrets },
        source.path,
        kept[driver.name],
      ),
    );
    settings[driver.name] = verdict.settings;
    if (Object.keys(verdict.secrets).length > 0) secrets[driver.name] = verdict.secrets;
  }
  if (refusals.length > 0) return { settings, secrets, refusals, controller: null };
  try {
    return { settings, secrets, refusals, controller: controllerFor(registry, node, settings, secrets) };
  } catch {
    // What it threw may hold a secret.
    return {
      settings,
      secrets,
      controller: null,
      refusals: [
        {
          code: "UNSUPPORTED_BY_DRIVER",
          message: `Node ${node.name}: its driver fails to tell the management controller from these settings; report that to whoever wrote the driver.`,
          path: [...path, "driver"],
        },
      ],
    };
  }
}

/** Everything that is wrong with the drivers that a node names, each where it names it. */
function driverFlaws(registry: Registry, node: NewNode, path: readonly string[]): Refusal[] {
  const flaws: Refusal[] = [];
  const invalid = (what: string, ...at: readonly string[]) =>
    flaws.push({ code: "INVALID_INPUT", message: `Node ${node.name}: ${what}`, path: [...path, ...at] });
  const own = registry.compose({ driver: node.driver, borrowed: {} });
  if ("problem" in own) invalid(own.problem, "driver");
  const given = node.interfaces ?? [];
  const all = given.flatMap(({ kinds }) => kinds);
  for (const [index, { kinds, driver }] of given.entries()) {
    const at = ["interfaces", String(index)];
    if (driver === node.driver)
      invalid(
        `${driver} is its own driver, and gives every interface that is taken from no other; leave it out.`,
        ...at,
        "driver",
        driver,
      );
    if (given.findIndex((one) => one.driver === driver) !== index)
      invalid(
        `the driver ${driver} is named twice; name it once, with everything that is taken from it.`,
        ...at,
        "driver",
        driver,
      );
    if (kinds.length === 0)
      invalid(`nothing is taken from the driver ${driver}; name an interface, or leave it out.`, ...at, "kinds");
    for (const [place, kind] of kinds.entries()) {
      const where = [...at, "kinds", String(place)];
      const before = given.slice(0, index).reduce((sum, one) => sum + one.kinds.length, place);
      if (all.indexOf(kind) !== before) invalid(`its interface ${kind} is given twice.`, ...where);
      if (!isInterfaceName(kind)) {
        invalid(`there is no interface "${kind}" (there are ${INTERFACES.join(", ")}).`, ...where);
        continue;
      }
      const giver = registry.compose({ driver, borrowed: { [kind]: driver } });
      if ("problem" in giver) invalid(giver.problem, ...(registry.get(driver) ? where : [...at, "driver"]));
    }
  }
  return flaws;
}

/** The drivers that a node names, each once, as far as they are loaded. */
function driversOf(registry: Registry, node: NewNode): AnyDriver[] {
  return [...new Set([node.driver, ...(node.interfaces ?? []).map(({ driver }) => driver)])].flatMap(
    (name) => registry.get(name) ?? [],
  );
}

/** What its management controller is reached by, as the driver tells that gives its power. */
function controllerFor(
  registry: Registry,
  node: NewNode,
  settings: Prepared["settings"],
  secrets: Secrets,
): string | null {
  const composed = registry.compose({ driver: node.driver, borrowed: borrowedOf(node.interfaces) });
  const giver = "composition" in composed ? composed.composition.giver("power") : null;
  const told = giver && controllerOf(giver, { ...settings[giver.name], ...secrets[giver.name] });
  return (
    told &&
    createRedactor(Object.values(secrets).flatMap((fields) => Object.values(fields)))
      .text(told)
      .slice(0, CONTROLLER_LENGTH_MAX)
  );
}

function settingsFor(
  node: NewNode,
  driver: AnyDriver,
  path: readonly string[],
): { readonly value: unknown; readonly path: readonly string[] } {
  if (driver.name === node.driver) return { value: node.settings, path: [...path, "driver", driver.name] };
  const index = (node.interfaces ?? []).findIndex((one) => one.driver === driver.name);
  return {
    value: node.interfaces?.[index]?.settings,
    path: [...path, "interfaces", String(index), "driver", driver.name],
  };
}

function borrowedOf(interfaces: readonly BorrowedInterfaces[] | undefined): Record<string, string> {
  return Object.fromEntries((interfaces ?? []).flatMap(({ kinds, driver }) => kinds.map((kind) => [kind, driver])));
}

async function clustersOf(transaction: Transaction, given: readonly NewNode[]) {
  const refs = given.flatMap(({ cluster }) => (cluster ? [cluster] : []));
  const byId = await clustersByIds(transaction.tx, [
    ...new Set(refs.flatMap((ref) => ("id" in ref && isUuid(ref.id) ? [ref.id] : []))),
  ]);
  const byName = await clustersByNames(transaction.tx, [
    ...new Set(refs.flatMap((ref) => ("name" in ref ? [ref.name] : []))),
  ]);
  const known = new Map<string, string>([
    ...byId.map(({ id }) => [id, id] as const),
    ...byName.map(({ id, name }) => [name, id] as const),
  ]);
  const key = (ref: ClusterRef) => ("id" in ref ? ref.id : ref.name);
  return {
    of: (ref: ClusterRef | undefined) => (ref ? (known.get(key(ref)) ?? null) : null),
    refusals: given.flatMap(({ name, cluster }, index): Refusal[] => {
      if (!cluster || known.has(key(cluster))) return [];
      return [
        {
          code: "NOT_FOUND",
          message: `Node ${name}: there is no cluster ${key(cluster)}.`,
          missing: [key(cluster)],
          path: ["input", "nodes", String(index), "cluster"],
        },
      ];
    }),
  };
}

// ---- edit

export async function updateNode(parts: NodeParts, nodeId: string, change: NodeChange): Promise<Edited> {
  if (!isUuid(nodeId)) return refused([unknownNode(nodeId)]);
  try {
    return await parts.transact(async (transaction) => {
      const [node] = await lockNodes(transaction.tx, [nodeId]);
      if (!node) throw new RefusalError([unknownNode(nodeId)]);
      if (change.ifRevision !== undefined && change.ifRevision !== node.revision) {
        throw new RefusalError([
          {
            code: "STALE_REVISION",
            message: `Node ${node.name} is at revision ${node.revision}, not ${change.ifRevision}; read it again and repeat the change.`,
            nodeId,
            path: ["input", "ifRevision"],
          },
        ]);
      }
      const redrives = change.driver !== undefined || change.settings !== undefined || change.interfaces !== undefined;
      const secrets = redrives ? await secretsOf(transaction.tx, nodeId) : {};
      const drivers = redrives
        ? await prepare(parts.registry, merged(node, change), ["input"], keptOf(node, secrets))
        : null;
      const flaws = [
        ...(drivers?.refusals ?? [
          ...(change.name === undefined ? [] : nameFlaw(change.name, ["input", "name"])),
          ...labelFlaws(change.labels, ["input"]),
          ...hostGroupFlaw(change.hostGroup, ["input"]),
        ]),
        ...(await nameTaken(transaction, node, change)),
      ];
      if (flaws.length > 0) throw new RefusalError(flaws);
      const next = merged(node, change);
      const changed = differing<NodeRow>(node, {
        ...(change.name !== undefined && { name: change.name }),
        ...(change.labels !== undefined && { labels: change.labels }),
        ...(change.isProtected !== undefined && { isProtected: change.isProtected }),
        ...(change.hostGroup !== undefined && { hostGroup: change.hostGroup }),
        ...(change.automaticCleaning !== undefined && { automaticCleaning: change.automaticCleaning }),
        ...(drivers && {
          driver: next.driver,
          borrowed: borrowedOf(next.interfaces),
          settings: drivers.settings,
          controller: drivers.controller,
        }),
      });
      const given = drivers && !isSame(drivers.secrets, secrets) ? drivers.secrets : null;
      if (changed || given) await changeNode(transaction.tx, nodeId, changed ?? {});
      if (given) await putSecrets(transaction.tx, [{ nodeId, secrets: given }]);
      return { nodeIds: [nodeId], refusals: [] };
    });
  } catch (error) {
    if (error instanceof RefusalError) return refused(error.refusals);
    if (violatedConstraint(error)?.startsWith("nodes_name")) return updateNode(parts, nodeId, change);
    throw error;
  }
}

/** The node as a registration, with the change laid over it. */
function merged(node: NodeRow, change: NodeChange): NewNode {
  const driver = change.driver ?? node.driver;
  return {
    name: change.name ?? node.name,
    driver,
    settings: change.settings,
    interfaces: change.interfaces ?? borrowedBy(node).filter((one) => one.driver !== driver),
    labels: change.labels ?? node.labels,
    hostGroup: change.hostGroup ?? undefined,
  };
}

function borrowedBy({ borrowed }: NodeRow): BorrowedInterfaces[] {
  return [...new Set(Object.values(borrowed))].map((driver) => ({
    driver,
    kinds: Object.keys(borrowed).filter((kind) => borrowed[kind] === driver),
  }));
}

function keptOf({ settings }: NodeRow, secrets: Secrets): Kept {
  return Object.fromEntries(
    Object.entries(settings).map(([driver, open]) => [driver, { ...open, ...secrets[driver] }]),
  );
}

async function nameTaken(transaction: Transaction, node: NodeRow, change: NodeChange): Promise<Refusal[]> {
  if (change.name === undefined || change.name === node.name) return [];
  const [other] = await nodesByNames(transaction.tx, [change.name]);
  return other
    ? [
        {
          code: "INVALID_INPUT",
          message: `A node ${change.name} exists already.`,
          nodeId: other.id,
          path: ["input", "name"],
        },
      ]
    : [];
}

// ---- delete

/** Deletes nodes at rest. Their transitions, runs and operations stay. */
export async function deleteNodes(parts: NodeParts, caller: Caller, selector: NodeSelector): Promise<Edited> {
  return edit(parts, selector, async (transaction, nodes) => {
    const busy = new Map(
      (
        await busyNodes(
          transaction.tx,
          nodes.map(({ id }) => id),
        )
      ).map((run) => [run.nodeId, run]),
    );
    const refusals = nodes.flatMap((node): Refusal[] => {
      const run = busy.get(node.id);
      if (run)
        return [
          {
            code: "BUSY",
            message: `Node ${node.name} is busy with ${run.kind} operation ${run.operationId}; abort it or wait before you delete the node.`,
            nodeId: node.id,
            operationId: run.operationId,
          },
        ];
      if (node.isProtected)
        return [
          {
            code: "PROTECTED",
            message: `Node ${node.name} is protected; lift the protection with updateNode first.`,
            nodeId: node.id,
          },
        ];
      if (node.state === "ACTIVE")
        return [
          {
            code: "INVALID_STATE",
            message: `Node ${node.name} is ACTIVE; undeploy or decommission it before you delete it.`,
            nodeId: node.id,
            allowedStates: STATES_AT_REST.filter((state) => state !== "ACTIVE"),
          },
        ];
      return [];
    });
    if (refusals.length > 0) throw new RefusalError(refusals.slice(0, REFUSALS_MAX));
    for (const node of nodes) {
      await deleteNode(transaction.tx, node.id);
      transaction.log({
        ...blank(caller),
        nodeId: node.id,
        nodeName: node.name,
        project: node.project,
        fromState: node.state,
        toState: null,
        event: "delete",
        sequence: node.transitionCount + 1,
        nodeRevision: node.revision + 1,
      });
    }
  });
}

// ---- marks

/** Sets the mark with a reason, or clears it with null. Starts no work, and stops none. */
export async function setMaintenance(
  parts: NodeParts,
  caller: Caller,
  selector: NodeSelector,
  reason: string | null,
): Promise<Edited> {
  const flaw = reasonFlaw("A maintenance", reason);
  if (flaw) return refused([flaw]);
  return edit(parts, selector, async (transaction, nodes) => {
    const mark =
      reason === null
        ? { maintenanceReason: null, maintenanceSince: null, maintenanceBy: null }
        : { maintenanceReason: reason, maintenanceSince: new Date(), maintenanceBy: caller.actor };
    const ids = nodes.map(({ id }) => id);
    await updateNodes(transaction.tx, ids, mark);
    // A run that is about to be paused looks under the node's lock, so it either sees the mark gone or is found here.
    if (reason === null)
      await parts.queue.wakeMany(transaction, await runsPausedByMaintenance(transaction.tx, ids), "woken");
  });
}

/** Marks nodes as being on their way out, with a reason, or takes the mark away with null. What runs goes on. */
export async function setRetired(parts: NodeParts, selector: NodeSelector, reason: string | null): Promise<Edited> {
  const flaw = reasonFlaw("A retirement", reason);
  if (flaw) return refused([flaw]);
  return edit(parts, selector, (transaction, nodes) =>
    updateNodes(
      transaction.tx,
      nodes.map(({ id }) => id),
      { retiredReason: reason },
    ),
  );
}

function reasonFlaw(what: string, reason: string | null): Refusal | null {
  if (reason === null || (reason.trim() !== "" && reason.length <= REASON_LENGTH_MAX)) return null;
  return {
    code: "INVALID_INPUT",
    message: `${what} needs a reason of 1 to ${REASON_LENGTH_MAX} characters; null ends it.`,
    path: ["input", "reason"],
  };
}

async function edit(
  parts: NodeParts,
  selector: NodeSelector,
  change: (transaction: Transaction, nodes: readonly NodeRow[]) => Promise<void>,
): Promise<Edited> {
  try {
    return await parts.transact(async (transaction) => {
      const found = await selectNodes(transaction.tx, selector);
      if ("refusals" in found) throw new RefusalError(found.refusals);
      const nodes = await lockNodes(
        transaction.tx,
        found.nodes.map(({ nodeId }) => nodeId),
      );
      await change(transaction, nodes);
      return { nodeIds: found.nodes.map(({ nodeId }) => nodeId), refusals: [] };
    });
  } catch (error) {
    if (error instanceof RefusalError) return refused(error.refusals);
    throw error;
  }
}

function unknownNode(id: string): Refusal {
  return { code: "NOT_FOUND", message: `There is no node ${id}.`, missing: [id], path: ["input", "id"] };
}

function refused(refusals: readonly Refusal[]): Edited {
  return { nodeIds: [], refusals: refusals.slice(0, REFUSALS_MAX) };
}
