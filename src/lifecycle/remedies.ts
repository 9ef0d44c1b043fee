/** Remedies of refusals and failures by their code: a sentence for people, without the names of objects. */
import type { ErrorCode } from "../errors.ts";

export const REMEDIES: Readonly<Record<ErrorCode, string>> = {
  INVALID_INPUT: "Correct the input that the message names, then send the request again.",
  UNSUPPORTED_BY_DRIVER: "Give the node a driver with this ability, or load the driver that it names.",
  FORBIDDEN: "Use a token with the scope that the message names.",
  NOT_INTERRUPTIBLE: "Abort with mode: AFTER_STEP, wait for the end of the step, or abort with mode: FORCE.",
  PROTECTED: "Remove the protection with updateNode, or end the retirement with clearRetired.",
  NOT_FOUND: "Check the name or the ID.",
  NOTHING_RUNNING: "Nothing has to be done: no work is running.",
  NOTHING_TO_RESTART: "Start a verb instead.",
  BUSY: "Wait for the end of the work, stop it, or abort it.",
  INVALID_STATE: "Bring the node into one of the states that the message names.",
  IN_MAINTENANCE: "End the maintenance with clearMaintenance.",
  MAC_TAKEN: "Remove the MAC address from the other node.",
  CLUSTER_LOCKED: "Wait for the end of the operation on the cluster, stop it, or abort it.",
  STALE_REVISION: "Read the object or the plan again, and repeat the request.",
  IDEMPOTENCY_MISMATCH: "Use another idempotency key.",
  IN_USE: "Wait until nothing uses the object.",
  IMAGE_UNFIT: "Choose an image that fits the machine, or correct the settings that the message names.",
  INTERRUPTED: "Find out on the machine how far the step came, then restart the work.",
  ABORTED: "Restart the work if it is still wanted.",
  CAPACITY: "Try again when something is free.",
  BACKEND_FAILED: "Mend the cause that the message names, then restart the work.",
  AGENT_UNAVAILABLE: "Set up what the message names, then restart the work.",
  TIMEOUT: "Check whether the machine answers, then restart the work.",
  STOP_TIMEOUT: "Check the machine, then restart the work.",
};
