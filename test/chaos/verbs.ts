/** The requests of the clients of a chaos run. */
import { inputTypeOf } from "../support/input-type.ts";

const ERROR = "{ code message }";
const RESULT = `ref accepted run { id } error ${ERROR}`;
const WORK = `operation { uuid } replayed results { ${RESULT} } errors ${ERROR}`;
const INTERRUPT = `operation { uuid } results { ${RESULT} } errors ${ERROR}`;
const CHANGE = `errors ${ERROR}`;

/** For each mutation the fields of its answer. */
const VERBS = {
  registerNodes: CHANGE,
  createCluster: CHANGE,
  commissionNodes: WORK,
  deployNodes: WORK,
  undeployNodes: WORK,
  decommissionNodes: WORK,
  cleanNodes: WORK,
  provideNodes: WORK,
  inspectNodes: WORK,
  manageNodes: WORK,
  setPower: WORK,
  setBootDevice: WORK,
  abort: `operation { uuid } results { ${RESULT} abortEffect } errors ${ERROR}`,
  withdrawAbort: INTERRUPT,
  stop: INTERRUPT,
  restart: WORK,
  setMaintenance: CHANGE,
  clearMaintenance: CHANGE,
  reportPresence: CHANGE,
  updateCluster: CHANGE,
} as const;
export type Verb = keyof typeof VERBS;
export const VERB_NAMES = Object.keys(VERBS) as readonly Verb[];

/** Requests about unfinished work have no idempotency key, so they are never replayed. */
export function isInterrupt(verb: Verb): boolean {
  return ["abort", "withdrawAbort", "stop"].includes(verb);
}

export function documentOf(verb: Verb): string {
  return `mutation ($input: ${inputTypeOf(verb)}!) { ${verb}(input: $input) { ${VERBS[verb]} } }`;
}
