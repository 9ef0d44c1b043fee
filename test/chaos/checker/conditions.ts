/**
 * Conditions of nodes that refuse verbs whatever their state: presence, faults, maintenance, protection, retirement.
 * The log of changes has the conditions before each change, and the row of the node those at the end; so the conditions
 * at every moment are known. Between the moment of a change and `SEEN_MS` later, others may see either value: a refusal
 * is right if a condition that requires it may have been seen, and an acceptance is wrong if one was certainly seen.
 */
import { deploysWithoutCleaning, phasesOf, rulesOf, touchesMachine } from "../../durability/expectations.ts";
import type { Kind, Options } from "../../durability/expectations.ts";
import { AT_REST } from "../../durability/rules.ts";
import type { Refusal } from "../records.ts";
import { TOLERANCE_MS } from "./history.ts";
import type { Conditions, History } from "./history.ts";

/** Longest delay until others see a change or the end of a run, in milliseconds: duration of a slow transaction. */
export const SEEN_MS = 10_000;

/** The time between a request and its answer. */
export interface Moment {
  readonly from: number;
  readonly to: number;
}

/** States and conditions that a node may have had at some moment between a request and its answer. */
export interface Seen {
  readonly states: readonly string[];
  readonly conditions: readonly Conditions[];
  /** Whether a step of a deployment had succeeded by then, so that a system may be installed. */
  readonly mayHaveSystem: boolean;
}

/** A request for work. The kind of a restart is that of the work that it continues; null if it is not known. */
export interface Asked {
  readonly kind: Kind | null;
  readonly options: Options;
}

/** The conditions that others may have seen at a moment of the interval. At least one, if the node exists. */
export function conditionsDuring(history: History, node: string, { from, to }: Moment): readonly Conditions[] {
  const changes = history.conditionsAt.get(node) ?? [];
  const last = history.nodesByName.get(node)?.conditions;
  const periods = [
    ...changes.map(({ t, before }, index) => ({ since: changes[index - 1]?.t ?? -Infinity, until: t, is: before })),
    ...(last ? [{ since: changes.at(-1)?.t ?? -Infinity, until: Infinity, is: last }] : []),
  ];
  return periods
    .filter(({ since, until }) => since <= to + TOLERANCE_MS && until + SEEN_MS >= from)
    .map(({ is }) => is);
}

/** A reason for INVALID_STATE: the sentence that names it, and whether it may have been the case. */
interface Reason {
  readonly says: RegExp;
  readonly holds: boolean;
}

function reasonsFor({ kind, options }: Asked, { states, conditions, mayHaveSystem }: Seen): readonly Reason[] {
  const some = (holds: (one: Conditions) => boolean) => options.force !== true && conditions.some(holds);
  return [
    {
      says: / is [A-Z_]+[ .]/,
      holds: kind === null || states.some((state) => !AT_REST.has(state) || phasesOf(kind, state, options) === null),
    },
    // A commission that would erase a system that an earlier deployment had installed.
    {
      says: /with an installed system/,
      holds: (kind === null || kind === "COMMISSION") && options.from !== "BEGINNING" && mayHaveSystem,
    },
    { says: /as disappeared/, holds: some(({ presence }) => presence === "DISAPPEARED") },
    {
      says: /the fault BMC_UNREACHABLE/,
      holds: kind !== "MANAGE" && some(({ fault }) => fault === "BMC_UNREACHABLE"),
    },
    {
      says: /the fault MACHINE_BUSY/,
      // After some ends a restart is accepted all the same; which is not known here.
      holds:
        some(({ fault }) => fault === "MACHINE_BUSY") &&
        (kind === null || states.some((state) => touchesMachine(kind, state, options))),
    },
    {
      says: /the fault CLEAN_UP_FAILED/,
      // A restart continues the work that was cleaned up, whatever the result.
      holds:
        kind !== null &&
        some(({ fault }) => fault === "CLEAN_UP_FAILED") &&
        states.some((state) => deploysWithoutCleaning(kind, state, options)),
    },
  ];
}

/**
 * Whether a refusal may be right: a reason that its message names may have been the case. A message that names none may
 * have any. Codes without a rule here are taken as right.
 */
export function mayBeRefused({ code, message }: Refusal, asked: Asked, seen: Seen): boolean {
  switch (code) {
    case "INVALID_STATE": {
      const reasons = reasonsFor(asked, seen);
      const named = reasons.filter(({ says }) => says.test(message));
      return (named.length > 0 ? named : reasons).some(({ holds }) => holds);
    }
    case "IN_MAINTENANCE":
      return (
        (asked.kind === null || !rulesOf(asked.kind).inMaintenance) &&
        seen.conditions.some(({ inMaintenance }) => inMaintenance)
      );
    case "PROTECTED":
      return seen.conditions.some(({ isProtected, isRetired }) => isProtected || isRetired);
    default:
      return true;
  }
}

/**
 * A condition that others certainly saw during all of the interval, and that refuses the work; null if there is none.
 * Whether a failed clean-up, protection and retirement refuse work depends on more than is known here.
 */
export function certainlyRefused({ kind, options }: Asked, conditions: readonly Conditions[]): string | null {
  if (conditions.length === 0) return null;
  const every = (holds: (one: Conditions) => boolean) => conditions.every(holds);
  if (kind !== null && !rulesOf(kind).inMaintenance && every(({ inMaintenance }) => inMaintenance))
    return "in maintenance";
  if (options.force === true) return null;
  if (every(({ presence }) => presence === "DISAPPEARED")) return "disappeared";
  if (kind !== "MANAGE" && every(({ fault }) => fault === "BMC_UNREACHABLE")) return "without a reachable BMC";
  return null;
}
