/** Registering nodes: all of a request or none. */
import { randomUUID } from "node:crypto";
import { RefusalError, invalidInput, nodeRefusal, notFound } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import { pick } from "../../runtime/pick.ts";
import { isUuid } from "../../runtime/uuid.ts";
import { nameKey } from "../../store/names.ts";
import { OPERATOR_COLUMNS } from "../../store/nodes/node-fields.ts";
import type { OperatorFields } from "../../store/nodes/node-fields.ts";
import { insertIdentities, lockValues } from "../../store/nodes/node-identities.ts";
import type { Identity } from "../../store/nodes/node-identities.ts";
import { clustersByIds, clustersByNames } from "../../store/nodes/clusters.ts";
import { insertGivenMacs } from "../../store/nodes/node-macs.ts";
import { insertNodes, nodesByNames } from "../../store/nodes/nodes.ts";
import type { NodeRow, Secrets } from "../../store/nodes/nodes.ts";
import { putSecrets, SECRETS } from "../../store/secrets/secrets.ts";
import type { VariablesParts } from "../../store/secrets/secrets.ts";
import type { EngineContext } from "../context.ts";
import { inOrderOfList, requireNone } from "../input/edits.ts";
import { sortedMacs } from "../input/mac-addresses.ts";
import { labelRecord, repeatedNames } from "../input/name-rules.ts";
import type { ClusterRef } from "../input/node-selector.ts";
import { isStorable } from "../../runtime/json-values.ts";
import { idsOf } from "../input/ids.ts";
import { transitionOf } from "../transaction.ts";
import type { Caller, Cause, Transaction } from "../transaction.ts";
import { clusterLockRefusals } from "./cluster-lock.ts";
import { controllerRefusals, findConflicts } from "./controller-conflicts.ts";
import type { Edited } from "./change-nodes.ts";
import { takenMacs } from "./node-macs.ts";
import { borrowedOf, fallbacksOf, prepareSettings } from "./node-settings.ts";
import type { NewNode, PreparedSettings } from "./node-settings.ts";
import { variablesOverlay } from "./stored-variables.ts";

const REFUSALS_MAX = 100;

export async function registerNodes(
  context: EngineContext,
  caller: Caller,
  given: readonly NewNode[],
): Promise<Edited> {
  if (given.length === 0)
    throw new RefusalError([
      invalidInput("An empty list registers nothing; name at least one node.", ["input", "nodes"]),
    ]);
  const prepared = await Promise.all(
    given.map((node, index) => prepareSettings(context.registry, node, ["input", "nodes", String(index)])),
  );
  const flaws = [...prepared.flatMap((one) => one.refusals), ...repeatedNames(given, ["input", "nodes"])];
  return context.transact(async (transaction) => {
    const macs = given.flatMap((node) => sortedMacs(node.macs ?? []).map((value) => ({ kind: "MAC" as const, value })));
    await lockValues(transaction.tx, [...prepared.flatMap(({ controllers }) => controllers), ...macs]);
    const clusters = await clustersOf(transaction, given);
    const givenMacs = given.map(({ name: nodeName, macs: all }, index) => {
      return { nodeId: null, nodeName, macs: all, path: ["input", "nodes", String(index), "macs"] };
    });
    const conflicts = [
      ...clusters.refusals,
      ...(await takenNames(transaction, given)),
      ...(await takenMacs(transaction.tx, givenMacs)),
      ...(await controllersTaken(transaction, given, prepared)),
    ];
    requireNone(inOrderOfList([...flaws, ...conflicts]).slice(0, REFUSALS_MAX));
    const nodes = given.map((node, index) => newNode(caller, node, clusters.idOf(node.cluster), prepared[index]));
    transaction.audit(caller, { targets: given.map(({ name }) => name) });
    return { nodeIds: await enrollNodes(transaction, context, nodes, caller), refusals: [], results: [] };
  });
}

function newNode(
  { project }: Caller,
  node: NewNode,
  clusterId: string | null,
  prepared: PreparedSettings | undefined,
): EnrolledNode {
  const { name, driver, interfaces, labels, macs } = node;
  return {
    ...pick(node, OPERATOR_COLUMNS),
    name,
    project,
    driver,
    borrowed: borrowedOf(interfaces),
    fallbacks: fallbacksOf(interfaces),
    settings: prepared?.settings ?? {},
    secrets: prepared?.secrets ?? {},
    controller: prepared?.controller ?? null,
    identities: (prepared?.controllers ?? []).map((one) => ({ ...one, isShared: node.sharedController === true })),
    labels: labelRecord(labels),
    macs: sortedMacs(macs ?? []),
    clusterId,
    variables: node.variables,
  };
}

/** A checked node that is about to be stored. */
export interface EnrolledNode
  extends
    Pick<NodeRow, "name" | "project" | "driver" | "settings" | "labels" | "clusterId" | "controller">,
    Partial<Pick<NodeRow, "borrowed" | "fallbacks" | "macs" | "presence">>,
    OperatorFields {
  /** Driver name → secret field → value. */
  readonly secrets: Secrets;
  /** The identities of its machine. */
  readonly identities: readonly Identity[];
  /** As they were given, checked. */
  readonly variables?: unknown;
}

type NewRow = Omit<EnrolledNode, "secrets" | "identities" | "variables"> & Pick<NodeRow, "variables">;

/**
 * Stores nodes as ENROLLED, with their secrets apart and their first transition. Returns their ids, in order. Violates
 * the constraint `nodes_name` if a name was taken meanwhile.
 */
export async function enrollNodes(
  transaction: Transaction,
  parts: VariablesParts,
  nodes: readonly EnrolledNode[],
  cause: Cause,
): Promise<string[]> {
  const enrolled: { id: string; node: NewRow; secrets: Secrets; identities: readonly Identity[] }[] = [];
  for (const { secrets, identities, variables: given, ...node } of nodes) {
    const id = randomUUID();
    const variables = (await variablesOverlay(transaction.tx, parts, SECRETS.nodeVariables, given))(id, {}) ?? {};
    enrolled.push({ id, node: { ...node, variables }, secrets, identities });
  }
  const rows = enrolled.map(({ id, node }) => ({
    borrowed: {},
    fallbacks: {},
    ...node,
    id,
    state: "ENROLLED" as const,
    transitionCount: 1,
  }));
  await insertNodes(transaction.tx, rows);
  await insertGivenMacs(
    transaction.tx,
    rows.flatMap(({ id, macs = [] }) => macs.map((mac) => ({ nodeId: id, mac }))),
  );
  await insertIdentities(
    transaction.tx,
    enrolled.flatMap(({ id, identities }) => identities.map((identity) => ({ ...identity, nodeId: id }))),
  );
  await findConflicts(
    transaction.tx,
    rows.flatMap(({ id, macs = [] }) => (macs.length > 0 ? [id] : [])),
  );
  const withSecrets = enrolled.filter(({ secrets }) => Object.keys(secrets).length > 0);
  const secrets = withSecrets.map((one) => [one.id, one.secrets] as const);
  await putSecrets(transaction.tx, parts.keyring, SECRETS.ofNodes, secrets);
  for (const row of rows) {
    const registered = { from: null, to: row.state, event: "register" } as const;
    transaction.log(transitionOf({ ...row, revision: 1 }, registered, cause));
  }
  return idsOf(rows);
}

async function controllersTaken(
  { tx }: Transaction,
  given: readonly NewNode[],
  prepared: readonly PreparedSettings[],
): Promise<Refusal[]> {
  const joining = given.map(({ name, sharedController }, index) => ({
    nodeId: null,
    name,
    isShared: sharedController === true,
    controllers: prepared[index]?.controllers ?? [],
  }));
  return (await controllerRefusals(tx, joining)).flat();
}

async function takenNames(transaction: Transaction, given: readonly NewNode[]): Promise<Refusal[]> {
  const taken = await nodesByNames(transaction.tx, given.map(({ name }) => name).filter(isStorable));
  return taken.map(({ name, id }) => {
    const index = given.findIndex((node) => nameKey(node.name) === nameKey(name));
    const path = ["input", "nodes", String(index), "name"];
    return nodeRefusal("INVALID_INPUT", id, `A node ${name} exists already.`, { path });
  });
}

/** The clusters that the nodes of a request name, and a refusal for each that does not exist. */
async function clustersOf(transaction: Transaction, given: readonly NewNode[]) {
  const pathOf = (index: number) => ["input", "nodes", String(index), "cluster"];
  const keyOf = (ref: ClusterRef) => ("id" in ref ? ref.id : nameKey(ref.name));
  const refs = given.flatMap(({ cluster }) => cluster ?? []);
  const ids = new Set(refs.flatMap((ref) => ("id" in ref && isUuid(ref.id) ? ref.id : [])));
  const names = new Set(refs.flatMap((ref) => ("name" in ref ? ref.name : [])));
  const known = new Map<string, string>();
  for (const { id } of await clustersByIds(transaction.tx, [...ids])) known.set(id, id);
  for (const { id, name } of await clustersByNames(transaction.tx, [...names])) known.set(nameKey(name), id);
  const idOf = (ref: ClusterRef | undefined) => (ref ? (known.get(keyOf(ref)) ?? null) : null);
  const locked = await clusterLockRefusals(transaction.tx, [...new Set(known.values())], (clusterId) =>
    pathOf(given.findIndex(({ cluster }) => idOf(cluster) === clusterId)),
  );
  const unknown = given.flatMap(({ name, cluster }, index): Refusal[] => {
    const asked = cluster && keyOf(cluster);
    if (!asked || known.has(asked)) return [];
    return [notFound(`Node ${name}: there is no cluster ${asked}.`, [asked], pathOf(index))];
  });
  return { idOf, refusals: [...unknown, ...locked] };
}
