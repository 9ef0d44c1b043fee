/** Whose work: what abort, stop, restart and the lifting of holds are asked for. */
import type { Refusal } from "../../errors.ts";
import type { Reader } from "../../store/postgres/database.ts";
import { operationsByIds } from "../../store/operations.ts";
import type { OperationRow } from "../../store/operations.ts";
import { runsOfOperation } from "../../store/runs.ts";
import type { RunRow } from "../../store/runs.ts";
import { isUuid, selectNodes } from "./node-selector.ts";
import type { NodeSelector } from "./node-selector.ts";
import { refusedWhole } from "../admission/admit.ts";
import type { SubmitAnswer } from "../admission/admit.ts";

/** Whose work. Exactly one member: an operation, or whatever runs (or ran last) on nodes. */
export type WorkSelector = { readonly operationId: string } | NodeSelector;

interface Refused {
  readonly refusals: readonly Refusal[];
}

export interface SelectedWork {
  readonly nodes: readonly { readonly ref: string; readonly nodeId: string }[];
  /** The operation that was named. */
  readonly operationId: string | null;
}

/** The nodes on which work goes on, for whoever wants something of it. */
export async function selectUnfinishedWork(reader: Reader, selector: WorkSelector): Promise<SelectedWork | Refused> {
  const found = await operationOrNodes(reader, selector);
  if (!("operation" in found)) return found;
  const { id, state, kind, finishedAt } = found.operation;
  if (finishedAt) return nothingRunning(id, ` (${state})`);
  if (kind === "DISCOVER")
    return refused({
      code: "NOTHING_RUNNING",
      message: `Operation ${id} is a discovery, which runs on addresses and on no node; it can be aborted or stopped.`,
      operationId: id,
    });
  const runs = (await runsOfOperation(reader, id)).filter((run) => run.finishedAt === null);
  // It may have ended since it was read.
  return runs.length === 0 ? nothingRunning(id, "") : selected(id, runs);
}

/** The nodes on which work has ended, for a restart. */
export async function selectEndedWork(reader: Reader, selector: WorkSelector): Promise<SelectedWork | Refused> {
  const found = await operationOrNodes(reader, selector);
  if (!("operation" in found)) return found;
  const { id, state, kind, finishedAt } = found.operation;
  if (!finishedAt)
    return refused({
      code: "BUSY",
      message: `Operation ${id} has not ended (${state}); stop it, or wait for its end, before you restart it.`,
      operationId: id,
    });
  if (kind === "DISCOVER")
    return refused({
      code: "NOTHING_TO_RESTART",
      message: `Operation ${id} is a discovery: what it logged in with is forgotten with its end. Post its \`failedAddresses\` again with discoverNodes.`,
      operationId: id,
    });
  return selected(id, await runsOfOperation(reader, id, "WORK"));
}

async function operationOrNodes(
  reader: Reader,
  selector: WorkSelector,
): Promise<{ readonly operation: OperationRow } | SelectedWork | Refused> {
  if (!("operationId" in selector)) {
    const found = await selectNodes(reader, selector, ["input", "work"]);
    return "refusals" in found ? found : { nodes: found.nodes, operationId: null };
  }
  const [operation] = isUuid(selector.operationId) ? await operationsByIds(reader, [selector.operationId]) : [];
  return operation ? { operation } : { refusals: unknownOperation(selector.operationId).refusals };
}

function selected(operationId: string, runs: readonly RunRow[]): SelectedWork {
  return { nodes: runs.map(({ nodeName, nodeId }) => ({ ref: nodeName, nodeId })), operationId };
}

function refused(refusal: Refusal): Refused {
  return { refusals: [{ ...refusal, path: ["input", "work", "operationId"] }] };
}

function nothingRunning(operationId: string, state: string): Refused {
  return refused({
    code: "NOTHING_RUNNING",
    message: `Operation ${operationId} has ended${state}; nothing of it is running.`,
    operationId,
  });
}

export function unknownOperation(id: string): SubmitAnswer {
  return refusedWhole([
    {
      code: "NOT_FOUND",
      message: `There is no operation ${id}.`,
      path: ["input", "work", "operationId"],
      missing: [id],
    },
  ]);
}
