/**
 * The outlook of a mutation, by its own dry run, and its answer, in one shape for all of them. The request has the hash
 * of the plan that was shown, so that the service does that or refuses; and a key, so that it begins work once.
 */
import type { Answers } from "../../requests.ts";
import { request } from "../data/request.ts";
import type { Variables } from "../data/request.ts";
import { abortSentence, restartSentence, stopSentence, wavesSentence } from "../words/forecasts.ts";
import type { RefusedGroup } from "../words/forecasts.ts";
import { plural } from "../words/numbers.ts";
import { WORK } from "../words/verbs.ts";
import type { InterruptMutation, StartMutation, WavesMutation, WorkMutation } from "../words/verbs.ts";

export interface Proposal {
  readonly mutation: WorkMutation;
  /** The whole input, but for what the dialog adds. */
  readonly input: Variables;
  /** The object of the title, as in `Commission turin`. */
  readonly object: string;
}

export interface Outlook {
  readonly sentence: string;
  /** Further sentences: what a failure means, for example. */
  readonly more: readonly string[];
  /** Number of nodes for which something changes. */
  readonly acceptedCount: number;
  readonly refusals: readonly RefusedGroup[];
  /** Reasons for which the whole request is refused. */
  readonly errors: readonly { readonly code: string; readonly message: string }[];
  /** Number of nodes that lose data or power: it is typed before several of them do. */
  readonly typedCount: number | null;
  readonly planHash: string | null;
  /** UUIDs of operations: those that began, or that the request changed. */
  readonly operations: readonly string[];
}

type Started = Answers["deployNodes"]["answer"] & { readonly operations?: readonly { readonly uuid: string }[] };
type Interrupted = Answers["stop"]["answer"];
type Waved = Answers["haltWaves"]["answer"];

export async function foresee({ mutation, input }: Proposal, signal?: AbortSignal): Promise<Outlook> {
  return outlookOf(mutation, (await request(mutation, { input: { ...input, dryRun: true } }, signal)).answer);
}

/** `key`: idempotency key of the dialog. */
export async function carryOut(
  { mutation, input }: Proposal,
  { planHash }: Pick<Outlook, "planHash">,
  { key, reason }: { readonly key: string; readonly reason: string },
): Promise<Outlook> {
  const isStart = WORK[mutation].answers === "START";
  const sent = {
    ...input,
    ...(reason !== "" && { reason }),
    ...(isStart && { idempotencyKey: key, ...(planHash !== null && { planHash }) }),
  };
  return outlookOf(mutation, (await request(mutation, { input: sent })).answer);
}

function outlookOf(mutation: WorkMutation, answer: unknown): Outlook {
  switch (WORK[mutation].answers) {
    case "START":
      return ofStart(mutation as StartMutation, answer as Started);
    case "INTERRUPT":
      return ofInterrupt(mutation as InterruptMutation, answer as Interrupted);
    case "WAVES":
      return ofWaves(mutation as WavesMutation, answer as Waved);
  }
}

/** Above this number of nodes, what cannot be taken back is confirmed with the number. */
const SEVERAL = 2;
const typed = (count: number) => (count >= SEVERAL ? count : null);
const countOf = (groups: readonly { readonly count: number }[]) =>
  groups.reduce((total, { count }) => total + count, 0);
const uuidsOf = (one: { readonly uuid: string } | null, all: readonly { readonly uuid: string }[] = []) =>
  (all.length > 0 ? all : one ? [one] : []).map(({ uuid }) => uuid);

function ofStart(mutation: StartMutation, answer: Started): Outlook {
  const { summary, errors, planHash, operation, operations, acceptedCount } = answer;
  const sentence =
    summary === null
      ? ""
      : mutation === "restart"
        ? restartSentence(summary)
        : `${plural(summary.plannedCount, "node")} accept${summary.plannedCount === 1 ? "s" : ""} it. ${
            summary.erasesDataCount === 0 ? "No data is lost." : `${plural(summary.erasesDataCount, "node")} lose data.`
          }`;
  return {
    sentence,
    more: summary?.failureConsequence ? [summary.failureConsequence] : [],
    acceptedCount,
    refusals: summary?.refusals ?? [],
    errors,
    typedCount: typed(summary?.erasesDataCount ?? 0),
    planHash,
    operations: uuidsOf(operation, operations),
  };
}

function ofInterrupt(mutation: InterruptMutation, answer: Interrupted): Outlook {
  const { forecast, errors, operation, operations } = answer;
  const effects = forecast?.effects ?? [];
  const off = effects.filter(({ powersOff }) => powersOff === true);
  // The service accepts work that has ended too, and changes nothing of it.
  const acceptedCount = countOf(effects.filter(({ effect }) => effect !== "NONE"));
  return {
    sentence:
      forecast === null
        ? ""
        : mutation === "abort"
          ? abortSentence(forecast)
          : mutation === "stop"
            ? stopSentence(forecast)
            : `${plural(acceptedCount, "node")} continue${acceptedCount === 1 ? "s" : ""}.`,
    more: [],
    acceptedCount,
    refusals: forecast?.refusals ?? [],
    errors,
    typedCount: typed(countOf(off)),
    planHash: null,
    operations: uuidsOf(operation, operations),
  };
}

const WAVES = { haltWaves: "halt", resumeWaves: "resume", advanceWaves: "advance" } as const;

function ofWaves(mutation: WavesMutation, { forecast, errors, operation }: Waved): Outlook {
  return {
    sentence: forecast === null ? "" : wavesSentence(WAVES[mutation], forecast),
    more: [],
    acceptedCount: errors.length === 0 ? 1 : 0,
    refusals: [],
    errors,
    typedCount: null,
    planHash: null,
    operations: uuidsOf(operation),
  };
}
