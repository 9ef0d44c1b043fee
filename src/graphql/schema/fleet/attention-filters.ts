/** Filters that select the nodes of a group of `attention` in a mutation, for groups of more nodes than are named. */
import { kindOf } from "../../../lifecycle/machine.ts";
import type { AttentionGroup } from "../../../store/nodes/attention.ts";
import type { JsonObject } from "../../../store/records.ts";
import { globalId } from "../../base/ids.ts";
import type { NodeFilterShape } from "../selectors.ts";

/** JSON of an input. */
export type Input = JsonObject;

/**
 * The input of a suggestion for all nodes of the group. Null if no filter selects them: it would reach nodes that the
 * group leaves out.
 */
export function inputForAll(input: Input, group: AttentionGroup, chosen: NodeFilterShape | undefined): Input | null {
  if (group.kind === "ON_HOLD" && group.operationId !== null && chosen === undefined)
    return { ...input, work: { operationId: globalId("Operation", group.operationId) } };
  const outer = given(chosen);
  if (group.clusterId !== undefined) {
    const { nodes: _some, ...ofCluster } = input;
    return { ...ofCluster, ...(outer && { nodes: { filter: outer } }) };
  }
  const own = filterOf(group);
  const subject = "work" in input ? "work" : "nodes";
  if (own === null || !(subject in input)) return null;
  const filter = { ...own, maintenance: false, ...(outer && { or: [outer] }) };
  return { ...input, [subject]: { filter } };
}

function filterOf({ kind, state, code, driver, detail, operationId }: AttentionGroup): JsonObject | null {
  const ofDriver = driver === null ? {} : { driver };
  switch (kind) {
    case "FAILED":
      return state !== null && code !== null ? { states: [state], errorCodes: [code], ...ofDriver } : null;
    case "STOPPED":
      return { states: ["STOPPED"], ...ofDriver };
    case "DISAPPEARED":
      return { presences: ["DISAPPEARED"], ...ofDriver };
    case "POWER_DRIFT":
      return detail === "ON" || detail === "OFF"
        ? { powerDrift: true, powerStates: [detail === "ON" ? "OFF" : "ON"], ...ofDriver }
        : null;
    case "FAULT":
      return { faulty: true, ...ofDriver };
    case "ON_HOLD":
      return state !== null && kindOf(state) === "hold" && operationId !== null
        ? { states: [state], operationId: globalId("Operation", operationId) }
        : null;
    case "IDENTITY_CONFLICT":
    case "STUCK":
    case "WAITING":
    case "WAVES_HALTED":
    case "MAINTENANCE":
    case "PENDING_CHANGES":
      return null;
  }
}

/** The filter of the request without members that are null: a mutation refuses those. */
function given(filter: NodeFilterShape | undefined): Input | undefined {
  const text = JSON.stringify(filter ?? {}, (_name, value: unknown) => value ?? undefined);
  const found = JSON.parse(text) as Input;
  return Object.keys(found).length > 0 ? found : undefined;
}
