/** Processes of the replicas: P19 (shutdown) and the memory of P9. */
import { Findings } from "./findings.ts";
import { answerOf } from "./history.ts";
import type { Exchange, History, Lifetime } from "./history.ts";
import { joined, overlap, percentile, touches } from "./intervals.ts";

const SHUTDOWN_MS = 10_000;
/** Time that the signal, and the report of the end, may take in addition, in milliseconds. */
const SIGNAL_MS = 500;

/**
 * P9 for the replicas: resident memory never exceeds a limit, and that of a process grows by at most `GROWTH_BYTES`
 * between the beginning and the end of a stall of readers.
 */
export function checkMemory(history: History): Findings {
  const findings = new Findings("P9", "slow clients use bounded memory and do not delay others");
  const stalls = history.faults.filter(({ what }) => what === "stall");
  const samples = history.samples.filter(({ what }) => what === "memory");
  const stalled = joined(stalls);
  for (const sample of samples) {
    if (touches(stalled, sample.t, sample.t)) findings.fact("samples of memory while readers stalled");
    if (sample.value > history.options.memoryBytes)
      findings.violation(
        "other",
        `${sample.replica} (${sample.pid}) used ${megabytes(sample.value)} MiB of memory.`,
        sample,
      );
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
      findings.fact("processes measured before and after a stall");
      // A new process is still growing to its normal size.
      const started = history.lifetimes.find((lifetime) => lifetime.pid === pid)?.started ?? 0;
      if (before.t - started > WARM_UP_MS && last.value - before.value > GROWTH_BYTES)
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
const WARM_UP_MS = 60_000;

function megabytes(bytes: number): number {
  return Math.round(bytes / 2 ** 20);
}

/**
 * P19. A process that receives SIGTERM ends within 10 s with code 0, unless it was killed or frozen in the meantime, or
 * had no database during all of that time. Its requests in progress get an answer or a clean refusal. These requests
 * cannot be seen from outside: a request sent well before the signal was in progress; one sent at about the same time
 * may have met a closed socket, which counts as a refusal. Requests over an impaired connection do not count, nor do
 * those whose client timed out before the end of the process.
 */
export function checkShutdown(history: History): Findings {
  const findings = new Findings("P19", "SIGTERM ends a process within 10 s, with its requests answered");
  const durations: number[] = [];
  for (const lifetime of history.lifetimes) {
    if (
      lifetime.terminated === null ||
      (lifetime.killed !== null && lifetime.killed < lifetime.terminated + SHUTDOWN_MS)
    )
      continue;
    if (isExcused(history, lifetime)) continue;
    findings.fact("processes sent SIGTERM");
    const took = (lifetime.ended ?? history.over) - lifetime.terminated;
    if (lifetime.ended !== null) durations.push(took);
    const record = { t: lifetime.terminated, k: "replica", name: lifetime.name, pid: lifetime.pid, what: "terminated" };
    if (took > SHUTDOWN_MS + SIGNAL_MS)
      findings.violation(
        "stuck",
        `${lifetime.name} (${lifetime.pid}) received SIGTERM and ${lifetime.ended === null ? "was still running" : "ended"} after ${Math.round(took)} ms.`,
        record,
        lifetime.end,
      );
    else if (lifetime.end && lifetime.end.code !== 0)
      findings.violation(
        "other",
        `${lifetime.name} (${lifetime.pid}) received SIGTERM and ended with code ${lifetime.end.code} and signal ${lifetime.end.signal}.`,
        record,
        lifetime.end,
      );
    for (const exchange of history.exchange) checkAnswer(history, findings, lifetime, exchange);
  }
  findings.figure("longest shutdown, ms", percentile(durations, 1));
  return findings;
}

function isExcused(history: History, { name, terminated: t }: Lifetime): boolean {
  const until = (t ?? 0) + SHUTDOWN_MS;
  const cut = history.faults.filter(({ what, target }) => what !== "delay" && target === `${name}/database`);
  if (overlap(joined([...history.databaseDown, ...cut]), t ?? 0, until) > SHUTDOWN_MS - SIGNAL_MS) return true;
  return history.faults.some(
    ({ what, target, from, to }) => what === "freeze" && target === name && from <= until && to >= (t ?? 0),
  );
}

/**
 * A request sent this long before the signal is in progress, in milliseconds: its connection no longer waits to be
 * accepted.
 */
const RECEIVED_MS = 1_000;
const CLEAN = new Set([200, 429, 503]);

function checkAnswer(history: History, findings: Findings, lifetime: Lifetime, exchange: Exchange): void {
  const { request, answer } = exchange;
  const at = lifetime.terminated ?? 0;
  const wasInProgress =
    lifetime.started <= request.t &&
    request.replica === lifetime.name &&
    request.t < at - RECEIVED_MS &&
    (answer?.t ?? Infinity) > at;
  if (
    !wasInProgress ||
    touches(
      joined(history.faults.filter(({ target }) => target === `${lifetime.name}/clients`)),
      request.t - RECEIVED_MS,
      (answer?.t ?? at) + RECEIVED_MS,
    )
  )
    return;
  findings.fact("requests in progress at SIGTERM");
  if (answerOf(exchange)) return;
  if (answer?.ok === false && /timeout/i.test(answer.error) && answer.t <= (lifetime.ended ?? Infinity)) return;
  const isClean =
    answer?.ok === false && (answer.denied !== undefined || (answer.status !== null && CLEAN.has(answer.status)));
  if (!isClean)
    findings.violation(
      "lost",
      `${request.verb} (${request.id}) was in progress on ${lifetime.name} when it received SIGTERM, and ended with: ${answer?.ok === false ? answer.error : "no answer"}.`,
      request,
      answer,
      { t: at, k: "replica", name: lifetime.name, pid: lifetime.pid, what: "terminated" },
    );
}
