/**
 * The check that no other node is the same system of the same management controller, and the storing of the controllers
 * of nodes.
 */
import type { Refusal } from "../../errors.ts";
import { conflictRemedy } from "../../lifecycle/identity.ts";
import { holdersOf, identitiesOf, refreshConflicts, replaceIdentities } from "../../store/nodes/node-identities.ts";
import type { Identity } from "../../store/nodes/node-identities.ts";
import type { NodeRow } from "../../store/nodes/nodes.ts";
import type { Reader, Tx } from "../../store/postgres/database.ts";
import { readSite } from "../../store/site.ts";
import { sharedValues } from "../input/machine-identities.ts";
import { isSameJson } from "../../runtime/canonical-json.ts";

/** A controller, and the place in the request that names it. */
export type GivenController = Identity & { readonly path: readonly string[] };

/** A node that gets controllers. */
interface JoiningNode {
  /** Null: the node is new. */
  readonly nodeId: string | null;
  readonly name: string;
  /** Other nodes may have the same controllers. */
  readonly isShared: boolean;
  readonly controllers: readonly GivenController[];
  /** The controllers that it has and keeps. */
  readonly kept?: readonly Identity[];
}

/** The refusals of each node, in their order: a controller and system that another node has, or an earlier one gets. */
export async function controllerRefusals(reader: Reader, joining: readonly JoiningNode[]): Promise<Refusal[][]> {
  const asked = joining.flatMap(({ isShared, controllers }) => (isShared ? [] : controllers));
  const without = joining.flatMap(({ nodeId }) => nodeId ?? []);
  /** Controller → system → node. */
  const taken = new Map<string, Map<string, Pick<JoiningNode, "nodeId" | "name">>>();
  const take = ({ value, system }: Pick<Identity, "value" | "system">, by: Pick<JoiningNode, "nodeId" | "name">) => {
    const systems = taken.get(value) ?? new Map<string, typeof by>();
    taken.set(value, systems);
    if (!systems.has(system)) systems.set(system, by);
  };
  for (const one of await holdersOf(reader, asked, without)) take(one, { nodeId: one.nodeId, name: one.nodeName });
  for (const node of joining) for (const one of node.kept ?? []) take(one, node);
  return joining.map((node) => {
    const { name, isShared, controllers } = node;
    const refusals = controllers.flatMap(({ value, system, text, path }): Refusal[] => {
      const systems = isShared ? undefined : taken.get(value);
      const other = system === "" ? [...(systems?.values() ?? [])][0] : (systems?.get(system) ?? systems?.get(""));
      if (!other) return [];
      const which = system === "" ? text : `${text}, system ${system}`;
      const message = `Node ${name} would be the same machine as node ${other.name}, which has the management controller ${which}. ${conflictRemedy({ kind: "CONTROLLER" })}`;
      return [{ code: "IDENTITY_CONFLICT", message, path, ...(other.nodeId !== null && { nodeId: other.nodeId }) }];
    });
    for (const one of controllers) take(one, node);
    return refusals;
  });
}

/** A change of what identifies a locked node. */
export interface IdentityChange {
  readonly node: NodeRow;
  /** Its new controllers; null: they stay. */
  readonly controllers: readonly GivenController[] | null;
  readonly sharedController: boolean | null | undefined;
}

/** The controllers that changes give to nodes that did not have them, or not alone: what has to be checked. */
export async function joiningNodes(reader: Reader, changes: readonly IdentityChange[]): Promise<JoiningNode[]> {
  const stored = await identitiesOf(reader, nodesOf(changes), ["CONTROLLER"]);
  return changes.map(({ node, controllers, sharedController }) => {
    const isShared = sharedController === undefined ? node.sharedController === true : sharedController === true;
    const before = stored.get(node.id) ?? [];
    const path = ["input", "sharedController"];
    const after = controllers ?? before.map((one) => ({ ...one, path }));
    const had = new Set(node.sharedController === true && !isShared ? [] : before.map(placeOf));
    const [kept, joined] = [true, false].map((isKept) => after.filter((one) => had.has(placeOf(one)) === isKept));
    return { nodeId: node.id, name: node.name, isShared, controllers: joined ?? [], kept: kept ?? [] };
  });
}

function placeOf({ value, system }: Identity): string {
  return JSON.stringify([value, system]);
}

function nodesOf(changes: readonly IdentityChange[]): string[] {
  return changes.map(({ node }) => node.id);
}

/** Stores the controllers of changed nodes. What an inspection has found stays until the next one. */
export async function storeControllers(tx: Tx, changes: readonly IdentityChange[]): Promise<void> {
  const stored = await identitiesOf(tx, nodesOf(changes), ["CONTROLLER"]);
  for (const { node, sharedController, ...change } of changes) {
    const before = stored.get(node.id) ?? [];
    const controllers = change.controllers ?? before;
    const [had, has] = [before, controllers].map((all) => [...new Set(all.map(placeOf))].toSorted());
    const isMoved = !isSameJson(had, has);
    if (!isMoved && sharedController === undefined) continue;
    const isShared = (sharedController === undefined ? node.sharedController : sharedController) === true;
    const shared = controllers.map((one) => ({ ...one, isShared }));
    await replaceIdentities(tx, node.id, ["CONTROLLER"], shared);
  }
  await findConflicts(tx, nodesOf(changes));
}

/** Finds the conflicts of nodes again, after a change of what identifies them. */
export async function findConflicts(tx: Tx, nodeIds: readonly string[]): Promise<void> {
  if (nodeIds.length > 0) await refreshConflicts(tx, nodeIds, sharedValues((await readSite(tx)).policy));
}
