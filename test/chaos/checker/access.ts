/**
 * Rights of accounts: P21 about requests, P22 about streams. The audit has the changes of roles and tokens in commit
 * order. A change took effect between the beginning of its transaction and its answer, or the answer to a later one.
 */
import { readRecords } from "../records.ts";
import type { End, Item, Mark, Open } from "../records.ts";
import { Findings } from "./findings.ts";
import { TOLERANCE_MS, answerOf } from "./history.ts";
import type { Exchange, History } from "./history.ts";
import { overlap, percentile } from "./intervals.ts";
import { waitedForCpu } from "./starvation.ts";
import { createUnavailable } from "./streams.ts";

/** The rights of roles: each includes those before it. Without a role, an account may do nothing. */
const RANKS = { NOTHING: 0, VIEWER: 1, OPERATOR: 2, MANAGER: 3 } as const;
const RANK_OF: Readonly<Record<string, number>> = {
  viewer: RANKS.VIEWER,
  operator: RANKS.OPERATOR,
  manager: RANKS.MANAGER,
};
const MANAGERS_VERBS = new Set(["registerNodes", "createCluster", "updateCluster"]);

/** A change of the rights of an account or a token. It took effect between the two moments. */
interface Change {
  /** The account, or the ID of the token. */
  readonly of: string;
  /** The rights of the account from then on; a token that was revoked has none. */
  readonly rank: number;
  readonly from: number;
  readonly to: number;
}

/** The changes in commit order, by account or token. */
function changesOf({ audit, access }: History): ReadonlyMap<string, readonly Change[]> {
  const changes: Change[] = [];
  let to = Infinity;
  for (const { t, action, requestId, targets, outcome, roles } of audit.toReversed()) {
    to = Math.min(to, access.get(requestId ?? "") ?? Infinity);
    if (outcome !== "ACCEPTED") continue;
    const times = { from: t - TOLERANCE_MS, to };
    if (action === "revokeTokens") changes.push(...targets.map((of) => ({ of, rank: RANKS.NOTHING, ...times })));
    if (action !== "setRoles" || roles === null) continue;
    const rank = Math.max(RANKS.NOTHING, ...roles.map((role) => RANK_OF[role] ?? RANKS.NOTHING));
    changes.push({ of: targets[0]?.replace(/^account:/, "") ?? "", rank, ...times });
  }
  return Map.groupBy(changes.toReversed(), ({ of }) => of);
}

/** The ranks that the account may have had at some moment of an interval. */
function ranksOf(changes: readonly Change[], from: number, to: number): readonly number[] {
  const last = changes.findLastIndex((one) => one.to <= from);
  const later = changes.slice(last + 1).filter((one) => one.from <= to);
  return [changes[last]?.rank ?? RANKS.NOTHING, ...later.map(({ rank }) => rank)];
}

/**
 * P21. Nothing is carried out for an account that lacked the role at every moment between request and answer, or with a
 * token whose revocation had been answered before the request. Conversely, no account is denied that had the role, and
 * a token that is not revoked, all of that time. Each request that was answered with data has a row in the audit, which
 * names its caller.
 */
export function checkRights(history: History): Findings {
  const findings = new Findings("P21", "nothing is done beyond the rights at its time");
  const changes = changesOf(history);
  const subjects = new Map(history.audit.map(({ requestId, subject }) => [requestId, subject]));
  for (const exchange of history.exchange) {
    const { request, answer } = exchange;
    const { account = null, tokenId = null } = request;
    if (answer && answerOf(exchange) && !isDenied(exchange)) {
      findings.fact("rows of the audit");
      const subject = subjects.get(request.id);
      if (subject !== (account === null ? "token" : `account:${account}`))
        findings.violation(
          "lost",
          `${request.verb} (${request.id}) was answered; by its row in the audit its caller is ${subject ?? "missing"}.`,
          request,
          answer,
        );
    }
    if (account === null || !answer) continue;
    const ranks = ranksOf(changes.get(account) ?? [], request.t, answer.t);
    const [revocation] = changes.get(tokenId ?? "") ?? [];
    if (ranks.length > 1) findings.fact("requests while the roles of their account changed");
    if (isDenied(exchange)) {
      findings.fact("denials");
      const isRevoked = revocation !== undefined && revocation.from <= answer.t;
      if (!isRevoked && Math.min(...ranks) >= needOf(exchange).most)
        findings.violation(
          "lost",
          `${request.verb} (${request.id}) of ${account} was denied, although it had the role all the time.`,
          request,
          answer,
        );
    } else if (answerOf(exchange)) {
      findings.fact("requests of accounts that were answered");
      if ((revocation?.to ?? Infinity) <= request.t || Math.max(...ranks) < needOf(exchange).least)
        findings.violation(
          "illegal",
          `${request.verb} (${request.id}) of ${account} was carried out, although it had neither role nor token at that time.`,
          request,
          answer,
          revocation,
        );
    }
  }
  return findings;
}

function isDenied(exchange: Exchange): boolean {
  const { answer } = exchange;
  if (answer?.ok === false) return answer.denied !== undefined;
  return [...(answer?.refusals ?? []), ...(answer?.results ?? []).map(({ refusal }) => refusal)].some(
    (refusal) => refusal?.code === "FORBIDDEN",
  );
}

/** The least rank with which the request may be carried out, and the most that it may need. */
function needOf(exchange: Exchange): { readonly least: number; readonly most: number } {
  const { verb, input } = exchange.request;
  const { force, steps } = (input ?? {}) as { readonly force?: boolean; readonly steps?: unknown };
  if (MANAGERS_VERBS.has(verb)) return { least: RANKS.MANAGER, most: RANKS.MANAGER };
  const isChosen = force === true || steps !== undefined;
  // A repetition begins nothing, and neither does what is refused for another reason.
  const begins = answerOf(exchange)?.results.some(({ accepted }) => accepted) && !answerOf(exchange)?.replayed;
  return {
    least: isChosen && begins ? RANKS.MANAGER : RANKS.OPERATOR,
    // A restart needs what the work needed that it continues.
    most: isChosen || verb === "restart" ? RANKS.MANAGER : RANKS.OPERATOR,
  };
}

/** Time within which the streams of an access that has changed end. */
const END_MS = 2_000;
const ON_THE_WAY = ["postgres", "proxies", "watchers"];
/** A stream that opens may be judged by rules of this time ago. */
const OPENED_MS = 30_000;

/**
 * P22. A stream of an account receives nothing 2 s after a change of its role or the revocation of its token, whatever
 * the new role. The time in which its replica, the database or the connections had a fault, or a process on the way
 * waited for a CPU, does not count, and stalling readers are excluded. A stream ends for a change of access, or is
 * denied, only if there was one.
 */
export async function checkEndsOfAccess(history: History): Promise<Findings> {
  const unavailable = createUnavailable(history);
  const findings = new Findings("P22", "streams end within 2 s when rights change");
  const changes = changesOf(history);
  const streams = new Map<string, { readonly open: Open; first: number | null; last: number }>();
  const times: number[] = [];
  const changesIn = ({ account, tokenId }: Open, from: number, to: number) =>
    [...(changes.get(account ?? "") ?? []), ...(changes.get(tokenId ?? "") ?? [])].filter(
      (one) => one.from <= to && one.to >= from,
    );
  for await (const one of readRecords(history.folder, "streams")) {
    if (one.k === "open") {
      if (one.account != null) streams.set(one.stream, { open: one, first: null, last: one.t });
      continue;
    }
    const stream = streams.get(one.stream);
    if (!stream) continue;
    const { open } = stream;
    if (one.k === "end") {
      streams.delete(one.stream);
      checkReason(
        findings,
        stream,
        one,
        () => changesIn(open, open.t - OPENED_MS, one.t).length > 0 || isWithout(open),
      );
      continue;
    }
    stream.last = one.t;
    stream.first ??= one.t;
    if (!open.stalls) checkLate(stream.first, open, one);
  }
  findings.figure("p99 from a change to the last item of a stream, ms", percentile(times, 0.99));
  return findings;

  function isWithout({ account, t }: Open): boolean {
    return Math.min(...ranksOf(changes.get(account ?? "") ?? [], t, t)) < RANKS.VIEWER;
  }

  /** Something that a stream received, long after a change that began once the stream had. */
  function checkLate(first: number, open: Open, item: Item | Mark): void {
    const change = changesIn(open, first, item.t).find(({ from, to }) => from > first && to < item.t);
    if (!change) return;
    const late = item.t - change.to - overlap(unavailable(open.replica), change.to, item.t);
    times.push(late);
    findings.fact("items and bookmarks after a change");
    const waited = () => waitedForCpu(history, [open.replica, ...ON_THE_WAY], change.to, item.t);
    if (late > END_MS && late > END_MS + waited())
      findings.violation(
        "illegal",
        `Stream ${item.stream} of ${open.account} received something ${Math.round(late)} ms after its access changed.`,
        open,
        change,
        item,
      );
  }
}

function checkReason(
  findings: Findings,
  { open, first }: { readonly open: Open; readonly first: number | null },
  end: End,
  isRight: () => boolean,
): void {
  if (end.code !== "ACCESS_CHANGED" && end.code !== "DENIED") return;
  findings.fact(end.code === "DENIED" ? "streams denied" : "streams ended for a change");
  if (end.code === "DENIED" && first !== null)
    findings.violation("other", `Stream ${end.stream} was denied after it had begun, without a reset.`, open, end);
  if (!isRight())
    findings.violation(
      "lost",
      `Stream ${end.stream} of ${open.account} ended with ${end.code}, but its access had not changed.`,
      open,
      end,
    );
}
