/** Every value of `NodeState` in the schema of this version. */
export const NODE_STATES = [
  "ENROLLED",
  "MANAGEABLE",
  "AVAILABLE",
  "ACTIVE",
  "STOPPED",
  "DECOMMISSIONED",
  "VERIFYING",
  "INSPECTING",
  "INSPECT_WAIT",
  "INSPECT_FAILED",
  "CLEANING",
  "CLEAN_WAIT",
  "CLEAN_HOLD",
  "CLEAN_FAILED",
  "DEPLOYING",
  "DEPLOY_WAIT",
  "DEPLOY_HOLD",
  "DEPLOY_FAILED",
  "UNDEPLOYING",
  "UNDEPLOY_WAIT",
  "UNDEPLOY_FAILED",
] as const;

/**
 * `NodeState` of the schema. A later version of the service may have more states. They are passed on unchanged, so a
 * `switch` over a state needs a default branch.
 */
export type NodeState = (typeof NODE_STATES)[number];
