/** The terms of a request for work: the part that every verb, a restart and a discovery share. */
import { flawIf } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import type { PowerOnFailure } from "../../lifecycle/interrupts.ts";
import type { FailurePolicy } from "../../lifecycle/operation-states.ts";
import type { OperationKind } from "../../lifecycle/verbs.ts";
import type { WaveOptions } from "../../lifecycle/waves.ts";
import type { ImageRef } from "../../store/images.ts";
import type { SitePolicy, VerbOptions } from "../../store/records.ts";
import type { Acceptance } from "../input/answers.ts";
import type { NodeSelector } from "../input/node-selector.ts";
import { reasonFlaws } from "../input/size-limits.ts";
import { levelFlaws } from "../input/output-references.ts";
import type { UnknownVariables } from "../input/unknown-variables.ts";
import { waveFlaws } from "../scheduling/waves.ts";

export interface RequestTerms {
  readonly acceptance?: Acceptance | undefined;
  readonly idempotencyKey?: string | undefined;
  readonly maxParallel?: number | undefined;
  readonly waves?: WaveOptions | undefined;
  /** The request is refused unless its plan has this hash. */
  readonly planHash?: string | undefined;
  readonly onFailure?: FailurePolicy | undefined;
  readonly powerOnFailure?: PowerOnFailure | undefined;
  readonly variables?: unknown;
  /** Default: REFUSE_SIMILAR. */
  readonly unknownVariables?: UnknownVariables | undefined;
  readonly reason?: string | undefined;
  readonly dryRun?: boolean | undefined;
}

/** How the nodes of an operation start, and what a failure means for the others. A restart carries it over. */
export type Rollout = Pick<RequestTerms, "onFailure" | "waves" | "maxParallel">;

export interface VerbRequest extends RequestTerms {
  readonly kind: OperationKind;
  readonly nodes: NodeSelector;
  readonly options?: VerbOptions | undefined;
  /** For the verbs that deploy. */
  readonly image?: ImageRef | undefined;
  /** In place of that of the image; null for none. A secret. */
  readonly userData?: string | null | undefined;
}

const KEY_LENGTH_MAX = 200;

export function termsFlaws(terms: RequestTerms): Refusal[] {
  const { maxParallel, idempotencyKey, waves } = terms;
  const parallel = "Invalid maxParallel: use a whole number of nodes, 1 or more, or leave it out for no limit.";
  const key = `Invalid idempotencyKey: use 1–${KEY_LENGTH_MAX} characters.`;
  const isKey = idempotencyKey === undefined || (idempotencyKey !== "" && idempotencyKey.length <= KEY_LENGTH_MAX);
  return [
    ...flawIf(!(Number.isInteger(maxParallel ?? 1) && (maxParallel ?? 1) >= 1), parallel, ["input", "maxParallel"]),
    ...flawIf(!isKey, key, ["input", "idempotencyKey"]),
    ...reasonFlaws(terms.reason),
    ...(waves ? waveFlaws(waves) : []),
    ...levelFlaws(terms.variables, ["input", "variables"]),
  ];
}

/** The flaws of a rollout as a whole; that of a restart has parts of the earlier request. */
export function rolloutFlaws({ waves, onFailure }: Rollout): Refusal[] {
  const message =
    "CLEAN_UP_ALL ends the operation with the first failure. With a limit of failures for the waves use CLEAN_UP_FAILED or LEAVE.";
  return flawIf(waves?.maxFailures !== undefined && onFailure === "CLEAN_UP_ALL", message, ["input", "onFailure"]);
}

/**
 * As the request says, and for a commission else as the site says. With `waves.maxFailures`, one failed node does not
 * undo the others unless the request asks for it.
 */
export function failurePolicyOf({ onFailure, waves }: Rollout, kind: OperationKind, site: SitePolicy): FailurePolicy {
  const usual = kind === "COMMISSION" ? (site.commissionOnFailure ?? "CLEAN_UP_ALL") : "LEAVE";
  return onFailure ?? (waves?.maxFailures !== undefined && usual === "CLEAN_UP_ALL" ? "CLEAN_UP_FAILED" : usual);
}

/** The power after a failed cleaning or deployment: as the request, the one that it restarts, or the site says. */
export function powerOnFailureOf(
  terms: Pick<RequestTerms, "powerOnFailure">,
  options: Pick<VerbOptions, "powerOnFailure">,
  policy: Pick<SitePolicy, "powerOnFailure">,
): PowerOnFailure {
  return terms.powerOnFailure ?? options.powerOnFailure ?? policy.powerOnFailure ?? "OFF";
}
