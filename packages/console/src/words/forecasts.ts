/**
 * The effect of a stop, an abort or a restart, as sentences before and after it. The numbers are those of the service
 * (`forecast` of an interrupt, `summary` of a restart), so that they are true for these nodes.
 */
import { durationText, numberText, plural } from "./numbers.ts";
import { sentenceCase } from "./states.ts";

export interface Effect {
  readonly effect: string;
  readonly count: number;
  readonly endsAs: string | null;
  readonly nodeState: string | null;
  readonly step: string | null;
  readonly cutsStep: boolean;
  /** Null: the power is not known afterwards. */
  readonly powersOff: boolean | null;
  readonly changedParts: readonly string[];
  readonly conditionKnown: boolean;
  readonly expectedSeconds: number | null;
  readonly timeoutCount: number;
}

export interface RefusedGroup {
  readonly code: string;
  readonly nodeCount: number;
  readonly message: string;
  readonly examples: readonly { readonly ref: string; readonly node?: { readonly name: string } | null }[];
}

export interface Forecast {
  readonly effects: readonly Effect[];
  readonly refusals: readonly RefusedGroup[];
}

const sum = (groups: readonly { readonly count: number }[]) => groups.reduce((total, { count }) => total + count, 0);
const withEffect = ({ effects }: Forecast, effect: string) => effects.filter((one) => one.effect === effect);
const nodes = (count: number) => plural(count, "node");

/** `, the longest in about 4 min`; empty if none has a step that takes time. */
function longest(groups: readonly Effect[]): string {
  if (groups.some(({ expectedSeconds }) => expectedSeconds === null)) return ", in a time that is not known";
  const seconds = Math.max(0, ...groups.map(({ expectedSeconds }) => expectedSeconds ?? 0));
  return seconds === 0 ? "" : `, ${sum(groups) === 1 ? "" : "the longest "}in about ${durationText(seconds)}`;
}

function listed(parts: readonly (string | null)[]): string {
  const present = parts.filter((part) => part !== null);
  return present.length === 0 ? "" : `${present.join("; ")}.`;
}

const some = (count: number, text: (count: number) => string) => (count === 0 ? null : text(count));

/** `2 cannot (Not interruptible)`. */
function refusedText({ refusals }: Forecast, verb: string): string | null {
  return some(
    refusals.reduce((total, { nodeCount }) => total + nodeCount, 0),
    (count) =>
      `${numberText(count)} ${verb} (${refusals.map(({ code }) => sentenceCase(code).toLowerCase()).join(", ")})`,
  );
}

export function stopSentence(forecast: Forecast, timeoutSeconds = 600): string {
  const pending = withEffect(forecast, "PENDING");
  const ending = pending.filter(({ endsAs }) => endsAs === "SUCCEEDED");
  const stopping = pending.filter((one) => !ending.includes(one));
  const timeouts = pending.reduce((total, { timeoutCount }) => total + timeoutCount, 0);
  const main = listed([
    some(
      sum(stopping),
      (count) => `${nodes(count)} finish${count === 1 ? "es its" : " their"} step first${longest(stopping)}`,
    ),
    some(
      sum(ending),
      (count) => `${nodes(count)} at the last step reach${count === 1 ? "es" : ""} the target as if nothing was asked`,
    ),
    some(sum(withEffect(forecast, "NOW")), (count) => `${nodes(count)} stop${count === 1 ? "s" : ""} now`),
    some(
      sum(withEffect(forecast, "BEFORE_START")),
      (count) =>
        `${nodes(count)} ${count === 1 ? "has" : "have"} not begun and stay${count === 1 ? "s" : ""} as ${count === 1 ? "it is" : "they are"}`,
    ),
    some(sum(withEffect(forecast, "CONTINUES")), (count) => `${nodes(count)} continue${count === 1 ? "s" : ""}`),
    refusedText(forecast, "cannot"),
  ]);
  if (main === "") return "No node has work that a stop would change.";
  const late =
    timeouts === 0
      ? "Nothing is undone."
      : `${nodes(timeouts)} ${timeouts === 1 ? "is" : "are"} expected to need more than ${durationText(timeoutSeconds)}, and then fail${timeouts === 1 ? "s" : ""}.`;
  return `${main} ${late}`;
}

export function abortSentence(forecast: Forecast): string {
  const now = withEffect(forecast, "NOW");
  const pending = withEffect(forecast, "PENDING");
  const ended = [...now, ...pending];
  const off = sum(ended.filter(({ powersOff }) => powersOff === true));
  const cutOff = sum(now.filter(({ cutsStep }) => cutsStep));
  const main = listed([
    some(
      sum(now),
      (count) =>
        `${nodes(count)} end${count === 1 ? "s" : ""} now${cutOff === 0 ? "" : cutOff === count ? ", in the middle of a step" : `, ${numberText(cutOff)} of them in the middle of a step`}`,
    ),
    some(sum(pending), (count) => `${nodes(count)} after ${count === 1 ? "its" : "their"} step${longest(pending)}`),
    some(
      sum(withEffect(forecast, "BEFORE_START")),
      (count) =>
        `${nodes(count)} ${count === 1 ? "has" : "have"} not begun and stay${count === 1 ? "s" : ""} as ${count === 1 ? "it is" : "they are"}`,
    ),
    some(sum(withEffect(forecast, "CONTINUES")), (count) => `${nodes(count)} continue${count === 1 ? "s" : ""}`),
    refusedText(forecast, "cannot"),
  ]);
  if (main === "") return "No node has work that an abort would change.";
  const changed = (part: string) =>
    sum(ended.filter(({ changedParts, conditionKnown }) => conditionKnown && changedParts.includes(part)));
  const condition = [
    some(off, (count) => `${numberText(count)} ${count === 1 ? "is" : "are"} powered off.`),
    some(changed("DISKS"), (count) => `${numberText(count)} ${count === 1 ? "has" : "have"} changed disks.`),
    some(changed("FIRMWARE"), (count) => `${numberText(count)} ${count === 1 ? "has" : "have"} changed firmware.`),
    some(
      sum(ended.filter(({ conditionKnown }) => !conditionKnown)),
      (count) => `The condition of ${nodes(count)} is unknown afterwards.`,
    ),
  ];
  return [main, ...condition].filter((part) => part !== null).join(" ");
}

export interface PlanSummary {
  readonly nodeCount: number;
  readonly plannedCount: number;
  readonly erasesDataCount: number;
  readonly failureConsequence: string | null;
  readonly refusals: readonly RefusedGroup[];
  readonly duration: { readonly expectedSeconds: number | null } | null;
  readonly groups: readonly {
    readonly nodeCount: number;
    readonly steps: readonly { readonly name: string; readonly interface: string; readonly state: string }[];
  }[];
}

export function restartSentence(plan: PlanSummary): string {
  const { plannedCount, erasesDataCount, duration, groups, refusals } = plan;
  if (plannedCount === 0) return "No node has work that a restart would continue.";
  const keeping = groups.filter(({ steps }) => steps.some(({ state }) => state === "KEPT"));
  const kept = keeping.reduce((total, { nodeCount }) => total + nodeCount, 0);
  const grouped = groups.reduce((total, { nodeCount }) => total + nodeCount, 0);
  const share = (count: number, one: string, several: string) =>
    some(count, () => {
      const who = count < plannedCount ? numberText(count) : count === 1 ? "it" : "all";
      return `${who} ${count === 1 ? one : several}`;
    });
  // With more groups than were read, the rest is not known, and nothing is stated about it.
  const how =
    grouped !== plannedCount
      ? null
      : listed([
          share(kept, "repeats its unfinished stage", "repeat their unfinished stage"),
          share(plannedCount - kept, "begins again", "begin again"),
        ]);
  const took = duration?.expectedSeconds == null ? "" : `, in about ${durationText(duration.expectedSeconds)}`;
  return [
    `${nodes(plannedCount)} continue${plannedCount === 1 ? "s" : ""}${took}${how === null || how === "" ? "." : `; ${how}`}`,
    erasesDataCount === 0
      ? "No data is lost."
      : `${nodes(erasesDataCount)} lose${erasesDataCount === 1 ? "s" : ""} data.`,
    some(
      refusals.reduce((total, { nodeCount }) => total + nodeCount, 0),
      (count) => `${nodes(count)} cannot (${refusals.map(({ code }) => sentenceCase(code).toLowerCase()).join(", ")}).`,
    ),
  ]
    .filter((part) => part !== null)
    .join(" ");
}

export interface WavesForecast {
  readonly activeCount: number;
  readonly startingCount: number;
  readonly waitingCount: number;
  readonly wave: number;
}

export function wavesSentence(action: "halt" | "resume" | "advance", forecast: WavesForecast): string {
  const { activeCount, startingCount, waitingCount, wave } = forecast;
  const begun = some(
    activeCount,
    (count) => `${nodes(count)} ${count === 1 ? "has" : "have"} begun and continue${count === 1 ? "s" : ""}`,
  );
  if (action === "halt") return listed([begun, `${numberText(waitingCount)} wait until the waves are resumed`]);
  return listed([
    begun,
    `${numberText(startingCount)} start now, in wave ${wave}`,
    some(waitingCount, (count) => `${numberText(count)} wait for a later wave`),
  ]);
}

/** The progress since a stop or an abort, from the runs by state. */
export function progressSentence(counts: readonly { readonly state: string; readonly count: number }[]): string {
  const unfinished = new Set(["QUEUED", "RUNNING", "WAITING", "HOLDING"]);
  const total = sum(counts);
  const open = sum(counts.filter(({ state }) => unfinished.has(state)));
  const ended = counts
    .filter(({ state, count }) => count > 0 && !unfinished.has(state))
    .map(({ state, count }) => `${numberText(count)} ${sentenceCase(state).toLowerCase()}`);
  const rest =
    open === 0 ? "None is left." : `${nodes(open)} of ${numberText(total)} still ${open === 1 ? "has" : "have"} work.`;
  return ended.length === 0 ? rest : `So far: ${ended.join(", ")}. ${rest}`;
}
