/** The replicas as processes: P19 (leaving in order) and the memory of P9. */
import { Findings } from "./verdict.ts";
import { answerOf } from "./history.ts";
import type { Asked, History, Life } from "./history.ts";
import { joined, overlap, percentile, touches } from "./intervals.ts";

const LEAVE_MS = 10_000;
/** What the signal's way to the process, and the news of its end, may take besides, in ms. */
const NEWS_MS = 500;

/**
 * P9, for the replicas themselves: resident memory never exceeds a bound, and that of a process does not grow out of hand while
 * readers stall: at most by `GROWTH_BYTES` between the beginning and the end of a stall.
 */
export function checkMemory(history: History): Findings {
  const findings = new Findings("P9", "slow clients cost bounded memory and hurt no caller");
  const stalls = history.blows.filter(({ what }) => what === "stall");
  const samples = history.samples.filter(({ what }) => what === "memory");
  const stalled = joined(stalls);
  for (const sample of samples) {
    if (touches(stalled, sample.t, sample.t)) findings.fact("samples of memory while readers stalled");
    if (sample.value > history.options.memoryBytes)
      findings.violation("other", `${sample.replica} (${sample.pid}) held ${megabytes(sample.value)} MiB.`, sample);
  }
  findings.figure(
    "resident memory p50, MiB",
    megabytes(
      percentile(
        samples.map(({ value }) => value),
        0.5,
      ) ?? 0,
    ),
  );
  findings.figure(
    "resident memory maximum, MiB",
    megabytes(
      percentile(
        samples.map(({ value }) => value),
        1,
      ) ?? 0,
    ),
  );
  const handles = history.samples.filter(({ what }) => what === "handles").map(({ value }) => value);
  findings.figure("open handles maximum", percentile(handles, 1));
  for (const stall of stalls) {
    for (const [pid, own] of Map.groupBy(samples, (one) => one.pid)) {
      const before = own.findLast(({ t }) => t <= stall.from);
      const last = own.findLast(({ t }) => t <= stall.to);
      if (!before || !last || before === last) continue;
      findings.fact("processes weighed before and after a stall");
      // A young one is still growing to its size.
      const started = history.lives.find((life) => life.pid === pid)?.started ?? 0;
      if (before.t - started > YOUNG_MS && last.value - before.value > GROWTH_BYTES)
        findings.violation(
          "other",
          `${last.replica} (${pid}) grew by ${megabytes(last.value - before.value)} MiB while readers stalled.`,
          before,
          last,
          stall.begin,
        );
    }
  }
  return findings;
}

const GROWTH_BYTES = 400 * 2 ** 20;
const YOUNG_MS = 60_000;

function megabytes(bytes: number): number {
  return Math.round(bytes / 2 ** 20);
}

/**
 * P19. A process that gets SIGTERM by SIGTERM is gone within 10 s, with code 0, unless it was killed or frozen meanwhile, or had
 * no database all the while: then it could not. Requests that it had in progress when it was told get an answer or a clean refusal. What it had in progress cannot be seen
 * from outside: a request sent well before the signal was there; one sent at about the same time may have come to a closed door,
 * which is a refusal too. Requests whose wire was bad tell nothing, nor do those whose client lost its patience before the process was gone.
 */
export function checkLeaving(history: History): Findings {
  const findings = new Findings("P19", "SIGTERM ends within 10 s with answers given");
  const toldAt: number[] = [];
  for (const life of history.lives) {
    if (life.told === null || (life.killed !== null && life.killed < life.told + LEAVE_MS)) continue;
    if (isHindered(history, life)) continue;
    findings.fact("processes told to go");
    const took = (life.ended ?? history.over) - life.told;
    if (life.ended !== null) toldAt.push(took);
    const record = { t: life.told, k: "replica", name: life.name, pid: life.pid, what: "terminated" };
    if (took > LEAVE_MS + NEWS_MS)
      findings.violation(
        "stuck",
        `${life.name} (${life.pid}) got SIGTERM and ${life.ended === null ? "was still there" : "went"} after ${Math.round(took)} ms.`,
        record,
        life.end,
      );
    else if (life.end && life.end.code !== 0)
      findings.violation(
        "other",
        `${life.name} (${life.pid}) got SIGTERM and ended with code ${life.end.code} and signal ${life.end.signal}.`,
        record,
        life.end,
      );
    for (const asked of history.asked) judgeAnswer(history, findings, life, asked);
  }
  findings.figure("longest leaving, ms", percentile(toldAt, 1));
  return findings;
}

function isHindered(history: History, { name, told: t }: Life): boolean {
  const until = (t ?? 0) + LEAVE_MS;
  const cut = history.blows.filter(({ what, target }) => what !== "delay" && target === `${name}/database`);
  if (overlap(joined([...history.away, ...cut]), t ?? 0, until) > LEAVE_MS - NEWS_MS) return true;
  return history.blows.some(
    ({ what, target, from, to }) => what === "freeze" && target === name && from <= until && to >= (t ?? 0),
  );
}

/** Before the signal by so much a request is there, in ms: by then its connection does not wait to be accepted any more. */
const THERE_MS = 1_000;
const CLEAN = new Set([200, 429, 503]);

function judgeAnswer(history: History, findings: Findings, life: Life, asked: Asked): void {
  const { request, answer } = asked;
  const at = life.told ?? 0;
  const lasted =
    life.started <= request.t &&
    request.replica === life.name &&
    request.t < at - THERE_MS &&
    (answer?.t ?? Infinity) > at;
  if (
    !lasted ||
    touches(
      joined(history.blows.filter(({ target }) => target === `${life.name}/clients`)),
      request.t - THERE_MS,
      (answer?.t ?? at) + THERE_MS,
    )
  )
    return;
  findings.fact("requests in progress of a process that got SIGTERM");
  if (answerOf(asked)) return;
  if (answer?.ok === false && /timeout/i.test(answer.error) && answer.t <= (life.ended ?? Infinity)) return;
  const isClean = answer?.ok === false && answer.status !== null && CLEAN.has(answer.status);
  if (!isClean)
    findings.violation(
      "lost",
      `${request.verb} (${request.id}) was in the hands of ${life.name} when that got SIGTERM, and came to: ${answer?.ok === false ? answer.error : "no answer"}.`,
      request,
      answer,
      { t: at, k: "replica", name: life.name, pid: life.pid, what: "terminated" },
    );
}
