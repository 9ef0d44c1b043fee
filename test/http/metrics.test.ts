/**
 * /metrics for Prometheus: who may read it, which replicas serve it, and its content while the database is unavailable.
 */
import { afterEach, describe, expect, test } from "vitest";
import { Circuits } from "../../src/drivers/circuits.ts";
import { startHealthServer } from "../../src/http/health.ts";
import { createLog } from "../../src/log.ts";
import type { Reader } from "../../src/store/postgres/database.ts";
import { createGauges } from "../../src/telemetry/gauges.ts";
import { createMetrics } from "../../src/telemetry/metrics.ts";
import { createTelemetry } from "../../src/telemetry/telemetry.ts";
import { authenticatorWith } from "../support/callers.ts";
import { samplesOf, scraped } from "../support/metrics.ts";
import { statusOf } from "../support/raw-request.ts";
import { serviceUnderTest } from "../support/service.ts";

const owned: AsyncDisposable[] = [];
afterEach(async () => {
  for (const one of owned.splice(0)) await one[Symbol.asyncDispose]();
});

const TOKEN = "a-token-of-some-length";

describe("/metrics with a token", () => {
  test("/metrics with a token refuses requests without it", async () => {
    await using ostler = await serviceUnderTest({ watched: true, token: TOKEN });
    const refused = await fetch(`${ostler.url}/metrics`);
    expect(refused.status).toBe(401);
    expect(refused.headers.get("www-authenticate")).toBe("Bearer");
    expect(await refused.text()).not.toContain("ostler_");
    expect((await scraped(ostler.url, { authorization: `Bearer ${TOKEN}` })).get("ostler_database_up")).toBe(1);
  });

  test("/metrics with a token is also served by a replica that only runs work, and failed logins there are audited [R-1153]", async () => {
    const lines: string[] = [];
    const noted: unknown[] = [];
    const telemetry = await createTelemetry({ log: createLog("silent"), version: "0" });
    const server = await startHealthServer({
      noteAudit: (request, end) => void noted.push({ ...request, ...end }),
      host: "127.0.0.1",
      port: 0,
      database: { reader: aReader(() => []), refusesWrites: () => false },
      metrics: {
        authenticator: authenticatorWith(TOKEN),
        scrape: telemetry.scrapeOf(
          aReader(() => []),
          new Circuits(),
        ),
      },
      log: createLog("info", { write: (line: string) => void lines.push(line) }),
      observer: telemetry.observer,
    });
    owned.push(server);
    const refused = await fetch(`${server.url}/metrics`);
    expect(refused.status).toBe(401);
    expect(noted).toMatchObject([
      { action: "LOGIN_FAILED", outcome: "FORBIDDEN", requestId: refused.headers.get("x-request-id") },
    ]);
    expect(lines.filter((line) => line.includes("had no valid token"))).toHaveLength(1);
    expect(await statusOf(server.url, "GET /metrics HTTP/1.1", "host: localhost", "host: evil.example")).toBe(400);
    // It was not answered, and kept the replica from its end.
    const upgrade = ["upgrade: websocket", "connection: upgrade"];
    expect(await statusOf(server.url, "GET /graphql HTTP/1.1", "host: localhost", ...upgrade)).toBe(421);
    expect((await scraped(server.url, { authorization: `Bearer ${TOKEN}` })).has("process_resident_memory_bytes")).toBe(
      true,
    );
  });
});

test("/metrics has the text format of Prometheus, includes the metrics of the process, and must not be cached", async () => {
  await using ostler = await serviceUnderTest({ watched: true });
  const response = await fetch(`${ostler.url}/metrics`);
  expect(response.headers.get("content-type")).toContain("text/plain; version=0.0.4");
  expect(response.headers.get("cache-control")).toBe("no-store");
  const text = await response.text();
  expect(samplesOf(text).has("nodejs_eventloop_lag_p99_seconds")).toBe(true);
  // Every sample has a name that was announced once.
  const announced = [...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name = ""]) => name);
  expect(new Set(announced).size).toBe(announced.length);
  const names = [...samplesOf(text).keys()].map(
    (sample) => sample.split("{")[0]?.replace(/_(?:bucket|sum|count)$/, "") ?? "",
  );
  expect(
    names.filter((name) => !announced.some((one) => one === name || one === `${name}_count` || one === `${name}_sum`)),
  ).toEqual([]);
});

describe("scrape of /metrics", () => {
  test("scrape of /metrics queries the database once for simultaneous requests, and not again for some seconds", async () => {
    // Runs and open sessions are read every five seconds, nodes less often: one statement each.
    let asked = 0;
    let now = 0;
    const reader = aReader(() => {
      asked += 1;
      return [];
    });
    const { registry } = createMetrics({ version: "0" });
    const gauges = createGauges(registry, reader, () => now);
    await Promise.all([gauges.refresh(), gauges.refresh(), gauges.refresh()]);
    expect(asked).toBe(3);
    now = 4_000;
    await gauges.refresh();
    expect(asked).toBe(3);
    now = 6_000;
    await gauges.refresh();
    expect(asked).toBe(5);
  });

  test("scrape of /metrics answers while the database is unavailable, without stale values", async () => {
    let away = false;
    let now = 0;
    const reader = aReader(() => {
      if (away) throw new Error("connect ECONNREFUSED");
      return [
        { state: "RUNNING", reason: null, count: 4 },
        { state: null, reason: null, count: 4, oldest: 7, position: "12" },
      ];
    });
    const { registry, observer } = createMetrics({ version: "0" });
    const gauges = createGauges(registry, reader, () => now);
    observer.appended(5);
    await gauges.refresh();
    const before = samplesOf(await registry.metrics());
    expect(before.get('ostler_runs_unfinished{state="RUNNING",reason=""}')).toBe(4);
    expect(before.get("ostler_runs_oldest_waiting_seconds")).toBe(7);
    away = true;
    now = 60_000;
    await gauges.refresh();
    const during = samplesOf(await registry.metrics());
    expect(during.get("ostler_database_up")).toBe(0);
    expect(during.get("ostler_transitions_appended_total")).toBe(5);
    expect(
      [...during.keys()].filter((name) => /^ostler_(?:runs_unfinished|runs_oldest|log_position|nodes)/.test(name)),
    ).toEqual([]);
    away = false;
    await gauges.refresh();
    expect(samplesOf(await registry.metrics()).get("ostler_database_up")).toBe(1);
  });
});

test("labels of /metrics that drivers choose are bounded", async () => {
  const { registry, observer } = createMetrics({ version: "0" });
  for (let index = 0; index < 300; index += 1)
    await observer.call({ driver: "wild", name: `call ${index}`, node: `node-${index}` }, () => Promise.resolve());
  const calls = [...samplesOf(await registry.metrics())].filter(([name]) =>
    name.startsWith("ostler_driver_call_duration_seconds_count"),
  );
  expect(calls.length).toBe(101);
  expect(calls.find(([name]) => name.includes('call="other"'))?.[1]).toBe(200);
});

/** A database that answers each statement with these rows, or throws. */
function aReader(rows: () => unknown[]): Reader {
  return { execute: () => new Promise((give) => give(rows())) } as unknown as Reader;
}
