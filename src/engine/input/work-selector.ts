/** Selects the work that abort, stop, restart, withdraw-abort and unhold are requested for. */
import { notFound } from "../../errors.ts";
import type { Refusal, Refused } from "../../errors.ts";
import { operationsByIds } from "../../store/operations/operations.ts";
import type { OperationRow } from "../../store/operations/operations.ts";
import type { Reader } from "../../store/postgres/database.ts";
import { runsOfOperation } from "../../store/runs/runs.ts";
import type { RunRow } from "../../store/runs/runs.ts";
import { refusedNode } from "./answers.ts";
import type { NodeAnswer } from "./answers.ts";
import { selectKnownNodes } from "./node-selector.ts";
import { unknownNodes } from "./unknown-nodes.ts";
import { isUuid } from "../../runtime/uuid.ts";
import type { KnownNode, NodeSelector, PickSelector } from "./node-selector.ts";

const PATH: readonly string[] = ["input", "work"];

/** Exactly one member: an operation, or nodes, which stand for the work that runs or ran last on them. */
export type WorkSelector = { readonly operationId: string } | Exclude<NodeSelector, PickSelector>;

export interface SelectedWork {
  readonly nodes: readonly KnownNode[];
  /** Refusal of the names and ids that do not exist; null if all exist. */
  readonly unknown: Refusal | null;
  /** The operation that the request named; null if it named nodes. */
  readonly operationId: string | null;
}

/** The nodes of work that has not ended. Names that do not exist are in `unknown`. */
export async function selectUnfinishedWork(reader: Reader, selector: WorkSelector): Promise<SelectedWork | Refused> {
  const found = await operationOrNodes(reader, selector);
  if (!("operation" in found)) return found;
  const { id, state, kind, finishedAt } = found.operation;
  if (finishedAt) return { refusals: operationEnded(id, state) };
  if (kind === "DISCOVER")
    return refused({
      code: "NOTHING_RUNNING",
      message: `Operation ${id} is a discovery: it runs on addresses, not on nodes. Abort or stop it instead.`,
      operationId: id,
    });
  const runs = (await runsOfOperation(reader, id)).filter((run) => run.finishedAt === null);
  // The operation may have ended since it was read.
  return runs.length === 0 ? { refusals: operationEnded(id) } : selected(id, runs);
}

/** The nodes of work that has ended, for a restart. Names that do not exist are in `unknown`. */
export async function selectEndedWork(reader: Reader, selector: WorkSelector): Promise<SelectedWork | Refused> {
  const found = await operationOrNodes(reader, selector);
  if (!("operation" in found)) return found;
  const { id, state, kind, finishedAt } = found.operation;
  if (!finishedAt)
    return refused({
      code: "BUSY",
      message: `Operation ${id} has not ended (${state}). Stop it, or wait for its end, before you restart it.`,
      operationId: id,
    });
  if (kind === "DISCOVER")
    return refused({
      code: "NOTHING_TO_RESTART",
      message: `Operation ${id} is a discovery; its login was deleted when it ended. Send its \`failedAddresses\` again with discoverNodes.`,
      operationId: id,
    });
  return selected(id, await runsOfOperation(reader, id, "WORK"));
}

/** One answer for each name or id, those that do not exist included, in the order of the request. */
export function answersInOrder<Answer extends NodeAnswer>(
  work: WorkSelector,
  known: readonly Answer[],
  unknown: Refusal | null,
): readonly (Answer | NodeAnswer)[] {
  const { missing = [], path = [] } = unknown ?? {};
  const answers = [...known, ...missing.map((ref) => refusedNode(ref, null, null, unknownNodes([ref], path)))];
  const refs = "names" in work ? work.names : "ids" in work ? work.ids : null;
  if (refs === null) return answers;
  const placeOf = new Map([...new Set(refs)].map((ref, place) => [ref, place]));
  return answers.toSorted((a, b) => (placeOf.get(a.ref) ?? 0) - (placeOf.get(b.ref) ?? 0));
}

async function operationOrNodes(
  reader: Reader,
  selector: WorkSelector,
): Promise<{ readonly operation: OperationRow } | SelectedWork | Refused> {
  if (!("operationId" in selector)) {
    const found = await selectKnownNodes(reader, selector, PATH);
    return "refusals" in found ? found : { nodes: found.nodes, unknown: found.unknown, operationId: null };
  }
  const [operation] = isUuid(selector.operationId) ? await operationsByIds(reader, [selector.operationId]) : [];
  return operation ? { operation } : { refusals: unknownOperation(selector.operationId) };
}

function selected(operationId: string, runs: readonly RunRow[]): SelectedWork {
  return {
    nodes: runs.map(({ nodeName, nodeId }) => ({ ref: nodeName, nodeId, name: nodeName })),
    unknown: null,
    operationId,
  };
}

function refused(refusal: Refusal): Refused {
  return { refusals: [{ ...refusal, path: ["input", "work", "operationId"] }] };
}

/** The refusal of an interrupt for an operation that has ended. */
export function operationEnded(operationId: string, state?: string): readonly Refusal[] {
  return refused({
    code: "NOTHING_RUNNING",
    message: `Operation ${operationId} has ended${state === undefined ? "" : ` (${state})`}; nothing of it is running.`,
    operationId,
  }).refusals;
}

export function unknownOperation(id: string): readonly Refusal[] {
  return [notFound(`There is no operation ${id}.`, [id], ["input", "work", "operationId"])];
}
