/**
 * Plans work by the dry run of its mutation, and begins it. The request has the nodes that the plan accepted, the same
 * terms, and the hash of the plan that was shown, so that the service does that or refuses; and a key, so that it
 * begins work once.
 */
import { request } from "../data/request.ts";
import type { Variables } from "../data/request.ts";
import { fleet } from "../data/streams.ts";
import { plural } from "../words/numbers.ts";
import { WORK } from "../words/verbs.ts";
import { NONE_LEFT, markOutlook, outlookOf, selectionOf } from "./outlook.ts";
import type { Outlook, Proposal } from "./outlook.ts";

/** `terms`: what the person added to the input. */
export async function foresee(proposal: Proposal, terms: Variables, signal?: AbortSignal): Promise<Outlook> {
  const { mutation } = proposal;
  const ids = existing(proposal.ids);
  if (ids?.length === 0) return NONE_LEFT;
  const goneCount = (proposal.ids?.length ?? 0) - (ids?.length ?? 0);
  const gone =
    goneCount === 0 ? [] : [`${plural(goneCount, "selected node")} no longer exist${goneCount === 1 ? "s" : ""}.`];
  if (WORK[mutation].answers === "MARK") return { ...markOutlook(proposal, ids ?? []), more: gone };
  const input = {
    ...proposal.input,
    ...terms,
    ...(ids && selectionOf(mutation, { ids })),
    // It is refused without one, and a dry run stores none.
    ...(terms["mode"] === "FORCE" && { reason: "a dry run" }),
    dryRun: true,
  };
  const outlook = outlookOf(mutation, (await request(mutation, { input }, signal)).answer, ids, input);
  return { ...outlook, more: [...gone, ...outlook.more] };
}

interface Sent {
  readonly terms: Variables;
  /** Idempotency key of the dialog. */
  readonly key: string;
  readonly reason: string;
}

export async function carryOut(
  { mutation, input }: Proposal,
  { planHash, ids }: Pick<Outlook, "planHash" | "ids">,
  { terms, key, reason }: Sent,
): Promise<Outlook> {
  const sent = {
    ...input,
    ...terms,
    ...(ids && selectionOf(mutation, { ids })),
    ...(reason !== "" && { reason }),
    ...(WORK[mutation].answers === "START" && { idempotencyKey: key, ...(planHash !== null && { planHash }) }),
  };
  return outlookOf(mutation, (await request(mutation, { input: sent })).answer, ids, sent);
}

/** Without the nodes that have been deleted: the service refuses a request that names one. */
function existing(ids: readonly string[] | undefined): readonly string[] | null {
  const { items, isWhole } = fleet.getSnapshot();
  return ids === undefined ? null : isWhole ? ids.filter((id) => items.has(id)) : ids;
}
