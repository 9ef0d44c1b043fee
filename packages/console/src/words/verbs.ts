/** The mutations that the dialog of work sends: their names, and the answer that each gives. */

export const WORK = {
  manageNodes: { name: "Manage", answers: "START" },
  inspectNodes: { name: "Inspect", answers: "START" },
  provideNodes: { name: "Provide", answers: "START" },
  cleanNodes: { name: "Clean", answers: "START" },
  commissionNodes: { name: "Commission", answers: "START" },
  deployNodes: { name: "Deploy", answers: "START" },
  redeployNodes: { name: "Redeploy", answers: "START" },
  undeployNodes: { name: "Undeploy", answers: "START" },
  decommissionNodes: { name: "Decommission", answers: "START" },
  setPower: { name: "Change the power of", answers: "START" },
  setBootDevice: { name: "Set the boot device of", answers: "START" },
  restart: { name: "Restart", answers: "START" },
  stop: { name: "Stop", answers: "INTERRUPT" },
  abort: { name: "Abort", answers: "INTERRUPT" },
  withdrawAbort: { name: "Withdraw the abort of", answers: "INTERRUPT" },
  releaseHolds: { name: "Release", answers: "INTERRUPT" },
  haltWaves: { name: "Halt the waves", answers: "WAVES" },
  resumeWaves: { name: "Resume the waves", answers: "WAVES" },
  advanceWaves: { name: "Start the next wave", answers: "WAVES" },
} as const satisfies Readonly<
  Record<string, { readonly name: string; readonly answers: "START" | "INTERRUPT" | "WAVES" }>
>;

export type WorkMutation = keyof typeof WORK;
type Answering<Kind> = {
  [Name in WorkMutation]: (typeof WORK)[Name]["answers"] extends Kind ? Name : never;
}[WorkMutation];
export type StartMutation = Answering<"START">;
export type InterruptMutation = Answering<"INTERRUPT">;
export type WavesMutation = Answering<"WAVES">;

/** A service of another version may suggest others. */
export function isWork(mutation: string): mutation is WorkMutation {
  return Object.hasOwn(WORK, mutation);
}
