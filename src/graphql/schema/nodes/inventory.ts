/** Inventories: the result of each inspection of a node, and the differences between two of them. */
import { inventoriesPages } from "../../../store/nodes/nodes.ts";
import type { InventoryRow, NodeRow } from "../../../store/nodes/nodes.ts";
import type { PageRequest } from "../../../store/postgres/pagination.ts";
import type { StoredJson } from "../../../store/records.ts";
import { builder } from "../../base/builder.ts";
import { badInput, connectionType, EMPTY_PAGE } from "../../base/connection.ts";
import type { Context } from "../../base/context.ts";
import { InventoryChangeKindEnum } from "../../base/enums.ts";
import { globalId, keyOf } from "../../base/ids.ts";
import { isUuid } from "../../../runtime/uuid.ts";

export const InventoryRef = builder.objectRef<InventoryRow>("Inventory");
InventoryRef.implement({
  description: "Result of one inspection. Kept when later inspections find something else.",
  fields: (t) => ({
    id: t.id({ description: "Global ID: opaque and stable.", resolve: ({ id }) => globalId("Inventory", id) }),
    takenAt: t.expose("takenAt", { type: "DateTime", description: "End time of the inspection." }),
    driver: t.exposeString("driver", {
      nullable: true,
      description:
        "Driver that inspected; null in an inventory of an earlier release. One inspection by two drivers has two inventories.",
    }),
    data: t.expose("data", {
      type: "JSON",
      description:
        "Outputs of the inspect steps, merged in the order of the steps: those of the driver, after those of the driver that inspected before it, if any.",
    }),
  }),
});

export const InventoryConnection = connectionType("Inventory", InventoryRef);

/** A difference between two inventories; `undefined` on the side where the path does not exist. */
interface InventoryChange {
  readonly path: readonly string[];
  readonly before: StoredJson | undefined;
  readonly after: StoredJson | undefined;
}

export const InventoryChangeRef = builder.objectRef<InventoryChange>("InventoryChange").implement({
  description: "Difference between two inventories of a node at one path.",
  fields: (t) => ({
    path: t.exposeStringList("path", {
      description:
        "Path of the difference, from the root. List items are identified by their `name` if all items have unique names, otherwise by index from 0.",
    }),
    kind: t.field({
      type: InventoryChangeKindEnum,
      description: "Kind of the difference.",
      resolve: ({ before, after }) => (before === undefined ? "ADDED" : after === undefined ? "REMOVED" : "CHANGED"),
    }),
    before: t.expose("before", { type: "JSON", nullable: true, description: "Earlier value; null if it was added." }),
    after: t.expose("after", { type: "JSON", nullable: true, description: "Later value; null if it was removed." }),
  }),
});

/** Inventories among which the one before another is looked for: two drivers may have inspected in turn. */
const COMPARED = 4;

/**
 * Differences between two inventories of a node, by default the newest and the one before by the same driver; empty if
 * there are fewer than two.
 */
export async function inventoryDiff(
  node: NodeRow,
  asked: { readonly from?: string | null | undefined; readonly to?: string | null | undefined },
  context: Context,
): Promise<InventoryChange[]> {
  const newest = async (request: Omit<PageRequest, "limit"> = {}) =>
    (await context.load.below(inventoriesPages, node.id, { ...request, limit: COMPARED }, EMPTY_PAGE)).rows;
  const given = asked.to == null ? null : await snapshot(node, asked.to, context);
  // By default one query reads both, so that a list of nodes is read in one statement.
  const [to, ...earlier] = given
    ? [given, ...(await newest({ after: { key: given.takenAt.toISOString(), id: given.id } }))]
    : await newest();
  if (!to) return [];
  const from =
    asked.from == null ? earlier.find(({ driver }) => driver === to.driver) : await snapshot(node, asked.from, context);
  return from ? changesBetween(from.data, to.data, []) : [];
}

async function snapshot(node: NodeRow, id: string, { load }: Context): Promise<InventoryRow> {
  const key = keyOf("Inventory", id);
  const found = isUuid(key) ? await load.inventoryById.load(key) : null;
  if (found?.nodeId !== node.id)
    throw badInput(`Node ${node.name} has no inventory ${JSON.stringify(id)}. Use an ID from \`Node.inventories\`.`);
  return found;
}

function changesBetween(
  before: StoredJson | undefined,
  after: StoredJson | undefined,
  path: readonly string[],
): InventoryChange[] {
  const [was, is] = [membersOf(before), membersOf(after)];
  if (!was || !is || Array.isArray(before) !== Array.isArray(after))
    return before === after ? [] : [{ path, before, after }];
  return [...new Set([...was.keys(), ...is.keys()])].flatMap((key) =>
    changesBetween(was.get(key), is.get(key), [...path, key]),
  );
}

/** The members of an object or a list by key; null for any other value. */
function membersOf(value: StoredJson | undefined): Map<string, StoredJson> | null {
  if (typeof value !== "object" || value === null) return null;
  if (!isList(value)) return new Map(Object.entries(value));
  const names = value.map(nameOf);
  const isNamed = names.every((name) => name !== undefined) && new Set(names).size === names.length;
  return new Map(value.map((entry, index) => [isNamed ? (names[index] ?? "") : String(index), entry]));
}

function nameOf(entry: StoredJson): string | undefined {
  const name = typeof entry === "object" && entry !== null && !isList(entry) ? entry["name"] : undefined;
  return typeof name === "string" ? name : undefined;
}

function isList(value: StoredJson): value is readonly StoredJson[] {
  return Array.isArray(value);
}
