/** Questions that the API asks about what the engine would do. They change nothing. */
export type { Circuit } from "../drivers/circuits.ts";
export { RESTART_FROM, judgeRestart, refusalOfRestart } from "./admission/earlier-work.ts";
export { variablesOfNode } from "./admission/effective-variables.ts";
export { factsOf, factsWith } from "./admission/node-facts.ts";
export {
  plannedChanges,
  plannedFailure,
  plannedHostGroups,
  plannedRollouts,
  reasonGroups,
  refusalGroups,
  stateCounts,
  summarizePlans,
} from "./admission/plan-summary.ts";
export { PROBED_ADDRESSES_MAX, PROBING_DRIVERS_MAX } from "./discovery/node-probes.ts";
export { isCallbackToken } from "./execution/boundary/callback.ts";
export type { CallbackAnswer } from "./execution/boundary/callback.ts";
export { circuitOf } from "./execution/call/patience.ts";
export { ACCEPTANCES } from "./input/answers.ts";
export { findCluster } from "./input/node-selector.ts";
export { UNKNOWN_VARIABLES } from "./input/unknown-variables.ts";
export type { VariableWarning } from "./input/unknown-variables.ts";
export { VARIABLE_SOURCES } from "./input/variables.ts";
export { decideAbort } from "./interruption/abort.ts";
export { stepUnderWay } from "./interruption/step-under-way.ts";
export { decideStop } from "./interruption/stop.ts";
export { refusalOfRelease } from "./interruption/unhold.ts";
export { refusalOfWithdrawal } from "./interruption/withdraw-abort.ts";
export { EDIT_OUTCOMES, editGroups } from "./inventory/update-nodes.ts";
export { clusterLocks } from "./inventory/cluster-lock.ts";
export { refusalOfDeletion } from "./inventory/delete-nodes.ts";
export { PRESENCE_CHANGES, PRESENCE_EVENTS } from "./inventory/presence.ts";
export { OFF_REASONS, catalogueOf } from "./plans/catalogue.ts";
export { scopeFlaws } from "./plans/step-scopes.ts";
export {
  DRIVER_BOOT_DEVICE,
  RESERVED_STEPS,
  isHold,
  isReservedWait,
  reservedArgsSchema,
} from "./plans/reserved-steps.ts";
export { MACHINE_FACTS } from "./power/machine-reader.ts";
export { limitsOf } from "./scheduling/capacity-limits.ts";
export { budgetOf, budgetText, neighbour, rulesIn, spareFor, unmetFor } from "./scheduling/group-gates.ts";
