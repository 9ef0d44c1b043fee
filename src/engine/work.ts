/** Whose work: what abort, stop, restart and the lifting of holds are asked for. */
import type { Refusal } from "../errors.ts";
import type { Reader } from "../store/database.ts";
import { operationsByIds } from "../store/operations.ts";
import { runsOfOperation } from "../store/runs.ts";
import { isUuid, selectNodes } from "./select.ts";
import type { NodeSelector } from "./select.ts";
import { refusedWhole } from "./submit.ts";
import type { SubmitAnswer } from "./submit.ts";

/** Whose work. Exactly one member: an operation, or whatever runs (or ran last) on nodes. */
export type WorkSelector = { readonly operationId: string } | NodeSelector;

export interface SelectedWork {
  readonly nodes: readonly { readonly ref: string; readonly nodeId: string }[];
  /** The operation that was named. */
  readonly operationId: string | null;
}

/** The nodes concerned. `finished`: of work that has ended, for a restart; otherwise of work that has not. */
export async function selectWork(reader: Reader, selector: WorkSelector, finished: boolean): Promise<SelectedWork | { readonly refusals: readonly Refusal[] }> {
  if (!("operationId" in selector)) {
    const found = await selectNodes(reader, selector, ["input", "work"]);
    return "refusals" in found ? found : { nodes: found.nodes, operationId: null };
  }
  const [operation] = isUuid(selector.operationId) ? await operationsByIds(reader, [selector.operationId]) : [];
  if (!operation) return { refusals: unknownOperation(selector.operationId).refusals };
  if (!finished && operation.finishedAt) return nothingRunning(operation.id, ` (${operation.state})`);
  if (finished && !operation.finishedAt) {
    return { refusals: [{ code: "BUSY", message: `Operation ${operation.id} has not ended (${operation.state}); stop it, or wait for its end, before you restart it.`, path: ["input", "work", "operationId"], operationId: operation.id }] };
  }
  if (operation.kind === "DISCOVER") return { refusals: [{ ...refusalOfDiscovery(operation.id, finished), path: ["input", "work", "operationId"], operationId: operation.id }] };
  const runs = await runsOfOperation(reader, operation.id);
  const live = finished ? runs.filter(({ purpose }) => purpose === "WORK") : runs.filter(({ finishedAt }) => finishedAt === null);
  // It may have ended since it was read.
  if (!finished && live.length === 0) return nothingRunning(operation.id, "");
  return { nodes: live.map(({ nodeName, nodeId }) => ({ ref: nodeName, nodeId })), operationId: operation.id };
}

function nothingRunning(operationId: string, state: string): { readonly refusals: readonly Refusal[] } {
  return { refusals: [{ code: "NOTHING_RUNNING", message: `Operation ${operationId} has ended${state}; nothing of it is running.`, path: ["input", "work", "operationId"], operationId }] };
}

/** A discovery has no runs: it is aborted and stopped as a whole (discover.ts), and is nothing to all else. */
function refusalOfDiscovery(id: string, finished: boolean): Refusal {
  if (!finished) return { code: "NOTHING_RUNNING", message: `Operation ${id} is a discovery, which runs on addresses and on no node; it can be aborted or stopped.` };
  return { code: "NOTHING_TO_RESTART", message: `Operation ${id} is a discovery: what it logged in with is forgotten with its end. Post its \`failedAddresses\` again with discoverNodes.` };
}

export function unknownOperation(id: string): SubmitAnswer {
  return refusedWhole([{ code: "NOT_FOUND", message: `There is no operation ${id}.`, path: ["input", "work", "operationId"], missing: [id] }]);
}
