/**
 * The outlook of a mutation, or its answer, in one shape for all of them, and the nodes that its plan accepted: the
 * request names exactly these.
 */
import type { Answers } from "../../requests.ts";
import type { Variables } from "../data/request.ts";
import { abortSentence, restartSentence, stopSentence, wavesSentence } from "../words/forecasts.ts";
import type { RefusedGroup } from "../words/forecasts.ts";
import { markSentence } from "../words/marks.ts";
import { plural } from "../words/numbers.ts";
import { hostGroupTexts, losingCount, planGroupText, planSentence, reasonTexts } from "../words/plans.ts";
import type { VerbPlan } from "../words/plans.ts";
import { WORK } from "../words/verbs.ts";
import type { InterruptMutation, MarkMutation, StartMutation, WavesMutation, WorkMutation } from "../words/verbs.ts";

export interface Proposal {
  readonly mutation: WorkMutation;
  /** The whole input, but for what the dialog adds. */
  readonly input: Variables;
  /** The object of the title, as in `Commission turin`. */
  readonly object: string;
  /** Global IDs of the nodes, in place of a selection in `input`: a list that no filter changes any more. */
  readonly ids?: readonly string[];
}

export interface Outlook {
  readonly sentence: string;
  /** Further sentences: groups of equal plans, and what a failure means, for example. */
  readonly more: readonly string[];
  /** Number of nodes for which something changes. */
  readonly acceptedCount: number;
  /** The request can be sent: it is not refused as a whole. */
  readonly isPossible: boolean;
  readonly refusals: readonly RefusedGroup[];
  /** Reasons for which the whole request is refused. */
  readonly errors: readonly { readonly code: string; readonly message: string }[];
  /** Number of nodes that lose data or power: it is typed before several of them do. */
  readonly typedCount: number | null;
  readonly planHash: string | null;
  /** Of a verb, to compare it with the next one. */
  readonly plan: VerbPlan | null;
  /** The nodes that the request names; null if `input` selects them. */
  readonly ids: readonly string[] | null;
  /** UUIDs of operations: those that began, or that the request changed. */
  readonly operations: readonly string[];
}

type Started = Answers["deployNodes"]["answer"] & { readonly operations?: readonly { readonly uuid: string }[] };
type Interrupted = Answers["stop"]["answer"];
type Waved = Answers["haltWaves"]["answer"];
type Marked = Answers["deleteNodes"]["answer"];

/** The member of the input that selects nodes, or their work. */
export function selectionOf(mutation: WorkMutation, selector: Variables): Variables {
  if (mutation === "addMembers") return { add: selector };
  if (mutation === "removeMembers") return { remove: selector };
  return mutation === "restart" || WORK[mutation].answers === "INTERRUPT" ? { work: selector } : { nodes: selector };
}

interface NodeNow {
  readonly id: string;
  readonly state: string;
  readonly cluster: { readonly name: string } | null;
}

/** The states of the nodes that an interrupt names, by their IDs or their cluster, as a text that changes with them. */
export function statesOf({ ids, input }: Proposal, nodes: Iterable<NodeNow>): string {
  const named = ids && new Set(ids);
  const { cluster: wanted } = (input["work"] ?? {}) as { readonly cluster?: { readonly name: string } };
  const isNamed = ({ id, cluster }: NodeNow) =>
    named?.has(id) ?? (wanted !== undefined && cluster?.name === wanted.name);
  return [...nodes].flatMap((node) => (isNamed(node) ? [node.state] : [])).join(" ");
}

/** `ids`: the nodes that the input names. */
export function outlookOf(
  mutation: WorkMutation,
  answer: unknown,
  ids: readonly string[] | null,
  input: Variables,
): Outlook {
  switch (WORK[mutation].answers) {
    case "START":
      return ofStart(mutation as StartMutation, answer as Started, ids, input);
    case "INTERRUPT":
      return ofInterrupt(mutation as InterruptMutation, answer as Interrupted, ids);
    case "WAVES":
      return ofWaves(mutation as WavesMutation, answer as Waved);
    case "MARK":
      return { ...EMPTY, errors: (answer as Marked).errors, acceptedCount: (answer as Marked).count, ids };
  }
}

/** Above this number of nodes, what cannot be taken back is confirmed with the number. */
const SEVERAL = 2;
const typed = (count: number) => (count >= SEVERAL ? count : null);
const uuidsOf = (one: { readonly uuid: string } | null, all: readonly { readonly uuid: string }[] = []) =>
  (all.length > 0 ? all : one ? [one] : []).map(({ uuid }) => uuid);

const EMPTY: Outlook = {
  sentence: "",
  more: [],
  acceptedCount: 0,
  isPossible: false,
  refusals: [],
  errors: [],
  typedCount: null,
  planHash: null,
  plan: null,
  ids: null,
  operations: [],
};
export const NONE_LEFT: Outlook = { ...EMPTY, sentence: "None of the selected nodes exists any longer." };

function ofStart(
  mutation: StartMutation,
  answer: Started,
  ids: readonly string[] | null,
  { action, acceptance }: Variables,
): Outlook {
  const { summary, errors, planHash, operation, operations, acceptedCount, results } = answer;
  const isAll = acceptance === "ALL_OR_NOTHING" || results.length !== ids?.length;
  const sentence =
    summary === null
      ? ""
      : mutation === "restart"
        ? restartSentence(summary)
        : planSentence(WORK[mutation].name.split(" ")[0] ?? "", summary);
  const losing = summary === null ? 0 : losingCount(summary);
  const off = mutation === "setPower" && action !== "ON" ? acceptedCount : 0;
  return {
    ...EMPTY,
    sentence,
    more: [
      ...(summary ? reasonTexts(summary) : []),
      ...(summary?.groups.map(planGroupText) ?? []),
      ...(summary ? hostGroupTexts(summary) : []),
      ...(summary?.failureConsequence ? [summary.failureConsequence] : []),
    ],
    acceptedCount,
    isPossible: planHash !== null && acceptedCount > 0,
    refusals: summary?.refusals ?? [],
    errors,
    typedCount: typed(Math.max(losing, off)),
    planHash,
    plan: summary,
    ids: ids && (isAll ? ids : ids.filter((_, index) => results[index]?.accepted)),
    operations: uuidsOf(operation, operations),
  };
}

/** These do nothing to a run that continues. */
const ENDING: readonly InterruptMutation[] = ["stop", "abort"];

function ofInterrupt(mutation: InterruptMutation, answer: Interrupted, ids: readonly string[] | null): Outlook {
  const { forecast, errors, operation, operations, results } = answer;
  const acceptedCount = (forecast?.effects ?? [])
    .filter(({ effect }) => effect !== "NONE" && (effect !== "CONTINUES" || !ENDING.includes(mutation)))
    .reduce((total, { count }) => total + count, 0);
  const off = (forecast?.effects ?? []).filter(({ powersOff }) => powersOff === true);
  return {
    ...EMPTY,
    sentence:
      forecast === null
        ? ""
        : mutation === "abort"
          ? abortSentence(forecast)
          : mutation === "stop"
            ? stopSentence(forecast)
            : `${plural(acceptedCount, "node")} continue${acceptedCount === 1 ? "s" : ""}.`,
    acceptedCount,
    isPossible: acceptedCount > 0,
    refusals: forecast?.refusals ?? [],
    errors,
    typedCount: typed(off.reduce((total, { count }) => total + count, 0)),
    // Nodes that begin to work meanwhile were not announced.
    ids: ids && (results.length === ids.length ? ids.filter((_, index) => results[index]?.accepted) : ids),
    operations: uuidsOf(operation, operations),
  };
}

const WAVES = { haltWaves: "halt", resumeWaves: "resume", advanceWaves: "advance" } as const;

function ofWaves(mutation: WavesMutation, { forecast, errors, operation }: Waved): Outlook {
  return {
    ...EMPTY,
    sentence: forecast === null ? "" : wavesSentence(WAVES[mutation], forecast),
    acceptedCount: errors.length === 0 ? 1 : 0,
    isPossible: errors.length === 0,
    errors,
    operations: uuidsOf(operation),
  };
}

/** Without a request: marks have no dry run. */
export function markOutlook({ mutation, input }: Proposal, ids: readonly string[]): Outlook {
  return {
    ...EMPTY,
    sentence: markSentence(mutation as MarkMutation, input, ids.length),
    acceptedCount: ids.length,
    isPossible: true,
    typedCount: mutation === "deleteNodes" ? typed(ids.length) : null,
    ids,
  };
}
