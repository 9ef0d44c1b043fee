/** The filters of lists of operations and of transitions, from the parameters of their addresses. */

export const OPERATION_KINDS = [
  "APPLY",
  "COMMISSION",
  "DEPLOY",
  "REDEPLOY",
  "UNDEPLOY",
  "DECOMMISSION",
  "MANAGE",
  "INSPECT",
  "CLEAN",
  "PROVIDE",
  "POWER",
  "BOOT_DEVICE",
  "DISCOVER",
] as const;
export const OPERATION_STATES = [
  "RUNNING",
  "QUEUED",
  "STOPPING",
  "ABORTING",
  "FAILED",
  "PARTIALLY_SUCCEEDED",
  "STOPPED",
  "ABORTED",
  "SUCCEEDED",
  "SUCCEEDED_WITH_ERRORS",
] as const;
/** Seconds of each word. */
const PERIODS = { hour: 3_600, day: 86_400, week: 604_800, month: 2_592_000 } as const;
export const PERIOD_NAMES = Object.keys(PERIODS) as (keyof typeof PERIODS)[];

export interface ChosenFilter {
  readonly kind?: string;
  readonly state?: string;
  readonly by?: string;
  readonly period?: string;
  readonly text?: string;
}

function sinceOf(period: string | undefined, now: Date): string | null {
  const seconds = PERIODS[period as keyof typeof PERIODS] as number | undefined;
  return seconds === undefined ? null : new Date(now.getTime() - seconds * 1_000).toISOString();
}

const listOf = (text: string | undefined) => (text === undefined || text.trim() === "" ? null : [text.trim()]);
const without = (filter: Readonly<Record<string, unknown>>) =>
  Object.fromEntries(Object.entries(filter).filter(([, value]) => value != null && value !== ""));

/** `OperationFilter`. */
export function operationFilter({ kind, state, by, period, text }: ChosenFilter, now: Date): object {
  const since = sinceOf(period, now);
  return without({ kinds: listOf(kind), states: listOf(state), requestedBy: listOf(by), createdSince: since, text });
}

/** `TransitionFilter`. */
export function transitionFilter({ kind, by, period, text }: ChosenFilter, now: Date): object {
  return without({ kinds: listOf(kind), actors: listOf(by), since: sinceOf(period, now), text });
}
