/** Changing one node: its name, drivers, settings, labels and flags. */
import { RefusalError } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import { isSameJson } from "../../runtime/canonical-json.ts";
import { pick } from "../../runtime/pick.ts";
import { OPERATOR_COLUMNS } from "../../store/node-fields.ts";
import type { OperatorColumn, OperatorFields } from "../../store/node-fields.ts";
import { lockAllIdentities } from "../../store/node-identities.ts";
import { replaceMacs } from "../../store/node-macs.ts";
import { lockNodes, nodesByNames, putSecrets, secretsOf, updateNode as changeNode } from "../../store/nodes.ts";
import type { NodeRow, Secrets } from "../../store/nodes.ts";
import { busyNodes } from "../../store/runs.ts";
import { violatedConstraint } from "../../store/postgres/connection-errors.ts";
import type { EngineContext } from "../context.ts";
import { changedFields } from "../input/changed-fields.ts";
import type { Change } from "../input/changed-fields.ts";
import { macFlaws, sortedMacs } from "../input/mac-addresses.ts";
import { labelFlaws, nameFlaw } from "../input/name-rules.ts";
import { unknownNodes } from "../input/unknown-nodes.ts";
import { isUuid } from "../../runtime/uuid.ts";
import type { Caller, Transaction } from "../transaction.ts";
import { controllerRefusals, joiningNodes, storeControllers } from "./controller-conflicts.ts";
import { refuseEdit } from "./edit-nodes.ts";
import type { Edited } from "./edit-nodes.ts";
import { takenMacs } from "./node-macs.ts";
import { borrowedOf, fallbacksOf, prepareSettings } from "./node-settings.ts";
import type { BorrowedInterfaces, NewNode, PreparedSettings, StoredSettings } from "./node-settings.ts";
import { operatorFieldFlaws } from "./operator-fields.ts";

/** A change of one node. An absent field stays. */
export interface NodeChange extends OperatorFields {
  readonly ifRevision?: number | undefined;
  readonly name?: string | undefined;
  readonly driver?: string | undefined;
  /** Laid over the settings of its own driver: an absent setting stays, null removes one. */
  readonly settings?: unknown;
  /** Replaces all of them; their settings are laid over those that the node has for the driver. */
  readonly interfaces?: readonly BorrowedInterfaces[] | undefined;
  readonly labels?: Readonly<Record<string, string>> | undefined;
  readonly isProtected?: boolean | undefined;
  /** Replaces all of them; null removes them. */
  readonly macs?: readonly string[] | null | undefined;
}

/** Path of the reference to the node. */
const NODE: readonly string[] = ["input", "node"];

export interface UpdateNodeRequest {
  readonly nodeId: string;
  readonly change: NodeChange;
}

export async function updateNode(context: EngineContext, caller: Caller, request: UpdateNodeRequest): Promise<Edited> {
  const { nodeId } = request;
  if (!isUuid(nodeId)) return refuseEdit([unknownNodes([nodeId], NODE)]);
  try {
    await context.transact((transaction) => applyChange(transaction, context, request));
    return { nodeIds: [nodeId], refusals: [], results: [] };
  } catch (error) {
    if (error instanceof RefusalError) return refuseEdit(error.refusals);
    // Another request took the name or a MAC between the check and the update.
    const taken = violatedConstraint(error) ?? "";
    if (taken.startsWith("nodes_name") || taken.startsWith("node_macs")) return updateNode(context, caller, request);
    throw error;
  }
}

async function applyChange(
  transaction: Transaction,
  context: EngineContext,
  { nodeId, change }: UpdateNodeRequest,
): Promise<void> {
  const { tx } = transaction;
  const changesDrivers =
    change.driver !== undefined || change.settings !== undefined || change.interfaces !== undefined;
  const { name, macs, sharedController } = change;
  const changesIdentity = changesDrivers || [name, macs, sharedController].some((one) => one !== undefined);
  if (changesIdentity) await lockAllIdentities(tx);
  const [node] = await lockNodes(tx, [nodeId]);
  if (!node) throw new RefusalError([unknownNodes([nodeId], NODE)]);
  if (change.ifRevision !== undefined && change.ifRevision !== node.revision)
    throw new RefusalError([staleRevision(node, change.ifRevision)]);
  const secrets = changesDrivers ? await secretsOf(tx, nodeId) : {};
  const next = merged(node, change);
  const prepared = changesDrivers
    ? await prepareSettings(context.registry, next, ["input"], storedSettings(node, secrets))
    : null;
  const identity = { node, controllers: prepared?.controllers ?? null, sharedController };
  const flaws = [
    ...(prepared?.refusals ?? fieldFlaws(change)),
    ...(await nameTaken(transaction, node, change)),
    ...(await groupTaken(transaction, node, change)),
    ...(await takenMacs(tx, [{ nodeId, nodeName: next.name, macs: change.macs, path: ["input", "macs"] }])),
    ...(changesIdentity ? await controllerRefusals(tx, await joiningNodes(tx, [identity])) : []).flat(),
  ];
  if (flaws.length > 0) throw new RefusalError(flaws);
  const changed = changedFields<NodeRow>(node, rowChange(change, next, prepared));
  const newSecrets = prepared && !isSameJson(prepared.secrets, secrets) ? prepared.secrets : null;
  if (changed || newSecrets) await changeNode(tx, nodeId, changed ?? {});
  if (changed?.macs) await replaceMacs(tx, nodeId, changed.macs);
  if (newSecrets) await putSecrets(tx, [{ nodeId, secrets: newSecrets }]);
  if (changesIdentity) await storeControllers(tx, [identity]);
}

function rowChange(change: NodeChange, next: NewNode, prepared: PreparedSettings | null): Change<NodeRow> {
  return {
    ...pick(change, ["name", "labels", "isProtected", ...OPERATOR_COLUMNS]),
    macs: change.macs === undefined ? undefined : sortedMacs(change.macs ?? []),
    ...(prepared && {
      driver: next.driver,
      borrowed: borrowedOf(next.interfaces),
      fallbacks: fallbacksOf(next.interfaces),
      settings: prepared.settings,
      controller: prepared.controller,
    }),
  };
}

function fieldFlaws(change: NodeChange): Refusal[] {
  const { name, labels, macs } = change;
  return [
    ...(name === undefined ? [] : nameFlaw(name, ["input", "name"])),
    ...labelFlaws(labels, ["input"]),
    ...operatorFieldFlaws(change, ["input"]),
    ...macFlaws(macs, ["input"]),
  ];
}

/**
 * Names every member, so that the compiler reports a new field of `NewNode` that is missing in `merged`, and thus not
 * checked.
 */
type EveryField = OperatorFields & {
  readonly [Field in Exclude<keyof Required<NewNode>, OperatorColumn>]: NewNode[Field];
};

/** The node as a registration, with the change applied. */
function merged(node: NodeRow, change: NodeChange): EveryField {
  const driver = change.driver ?? node.driver;
  return {
    ...pick(change, OPERATOR_COLUMNS),
    name: change.name ?? node.name,
    driver,
    settings: change.settings,
    interfaces: change.interfaces ?? borrowedBy(node).filter((one) => one.driver !== driver),
    labels: change.labels ?? node.labels,
    macs: change.macs ?? undefined,
    cluster: undefined,
  };
}

/** The interfaces that a node takes from other drivers, as a request would name them. */
export function borrowedBy({ borrowed, fallbacks }: Pick<NodeRow, "borrowed" | "fallbacks">): BorrowedInterfaces[] {
  return [...new Set([...inOrder(fallbacks), ...Object.values(borrowed)])].map((driver) => ({
    driver,
    kinds: Object.keys(borrowed).filter((kind) => borrowed[kind] === driver),
    fallbackFor: Object.keys(fallbacks).filter((kind) => fallbacks[kind]?.includes(driver)),
  }));
}

/** The drivers of fallbacks, in an order that agrees with each list: all lists come from one. */
function inOrder(fallbacks: NodeRow["fallbacks"]): readonly string[] {
  const lists = Object.values(fallbacks);
  const precedes = (a: string, b: string) =>
    lists.some((list) => list.includes(a) && list.includes(b) && list.indexOf(a) < list.indexOf(b));
  const left = new Set(lists.flat());
  const found: string[] = [];
  while (left.size > 0) {
    const next = [...left].find((one) => ![...left].some((other) => precedes(other, one))) ?? [...left][0] ?? "";
    left.delete(next);
    found.push(next);
  }
  return found;
}

/** The settings of a node, secrets included. */
export function storedSettings({ settings }: Pick<NodeRow, "settings">, secrets: Secrets): StoredSettings {
  return Object.fromEntries(
    Object.entries(settings).map(([driver, open]) => [driver, { ...open, ...secrets[driver] }]),
  );
}

async function groupTaken({ tx }: Transaction, node: NodeRow, { hostGroup }: NodeChange): Promise<Refusal[]> {
  if (hostGroup === undefined) return [];
  const [run] = await busyNodes(tx, [node.id]);
  return groupFlaws(node, hostGroup, run);
}

/** A run that deploys the node for another host group would undo the change at its end. */
export function groupFlaws(
  node: Pick<NodeRow, "id" | "name">,
  hostGroup: string | null | undefined,
  run: { readonly hostGroup: string | null; readonly operationId: string } | undefined,
): Refusal[] {
  if (hostGroup === undefined || run?.hostGroup == null || run.hostGroup === hostGroup) return [];
  return [
    {
      code: "BUSY",
      message: `Node ${node.name} is being deployed for host group ${run.hostGroup} by operation ${run.operationId}. Wait for it, stop it, or abort it.`,
      nodeId: node.id,
      operationId: run.operationId,
      path: ["input", "hostGroup"],
    },
  ];
}

async function nameTaken(transaction: Transaction, node: NodeRow, change: NodeChange): Promise<Refusal[]> {
  if (change.name === undefined || change.name === node.name) return [];
  const [other] = await nodesByNames(transaction.tx, [change.name]);
  if (!other) return [];
  const message = `A node ${change.name} exists already.`;
  return [{ code: "INVALID_INPUT", message, nodeId: other.id, path: ["input", "name"] }];
}

export function staleRevision(
  { id, name, revision }: Pick<NodeRow, "id" | "name" | "revision">,
  ifRevision: number,
  path: readonly string[] = ["input", "ifRevision"],
): Refusal {
  return {
    code: "STALE_REVISION",
    message: `Node ${name} is at revision ${revision}, not ${ifRevision}. Read it again and repeat the change.`,
    nodeId: id,
    path,
  };
}
