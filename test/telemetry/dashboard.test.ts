/** Dashboard, alerts and docs/operations.md use existing metrics in valid PromQL; the page documents all of them. */
import { readFileSync } from "node:fs";
import { parser } from "@prometheus-io/lezer-promql";
import { describe, expect, test } from "vitest";
import { Circuits } from "../../src/drivers/circuits.ts";
import { createLog } from "../../src/log.ts";
import type { Reader } from "../../src/store/postgres/database.ts";
import { createTelemetry } from "../../src/telemetry/telemetry.ts";

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");

interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly targets?: readonly { readonly expr: string }[];
}
interface Dashboard {
  readonly schemaVersion: number;
  readonly panels: readonly Panel[];
  readonly templating: {
    readonly list: readonly { readonly name: string; readonly type: string; readonly definition?: string }[];
  };
}

const dashboard = JSON.parse(read("docs/grafana/ostler.json")) as Dashboard;
const page = read("docs/operations.md");
const alerts = read("docs/prometheus/alerts.yml");

/** Expressions of the rules, on one line or folded. */
const ALERTS = [...alerts.matchAll(/^ {6}- alert: (\w+)\n(?:\s+#.*\n)*\s+expr: (?:>-\n((?: {10}.*\n)+)|(.*)\n)/gm)].map(
  ([, name = "", folded, plain]) => ({ name, expr: (folded ?? plain ?? "").trim() }),
);
const PANELS = dashboard.panels.flatMap(({ title, targets = [] }) =>
  targets.map(({ expr }) => ({ name: title, expr })),
);

/** Names of all metrics and of the series that their types create. */
async function exportedMetrics(): Promise<{ readonly names: Set<string>; readonly ours: Set<string> }> {
  const telemetry = await createTelemetry({ log: createLog("silent"), version: "0" });
  const rows = [
    { state: "RUNNING", reason: null, count: 1 },
    { state: null, reason: null, count: 1, oldest: 1, position: "1" },
  ];
  const { text } = await telemetry.scrapeOf(
    { execute: () => Promise.resolve(rows) } as unknown as Reader,
    new Circuits(),
  )();
  const announced = [...text.matchAll(/^# TYPE (\S+) (\S+)/gm)].map(([, name = "", type = ""]) => ({ name, type }));
  const names = announced.flatMap(({ name, type }) =>
    type === "histogram" ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [name],
  );
  return {
    names: new Set([...names, "up"]),
    ours: new Set(announced.map(({ name }) => name).filter((name) => name.startsWith("ostler_"))),
  };
}

/** Metric names in an expression; throws if it does not parse. */
function metricsIn(expr: string): string[] {
  const text = expr.replaceAll("$__rate_interval", "1m");
  const names: string[] = [];
  parser.parse(text).iterate({
    enter({ type, from, to }) {
      if (type.isError) throw new Error(`At ${from}: ${text}`);
      if (type.name === "VectorSelector") names.push(/^[\w:]+/.exec(text.slice(from, to))?.[0] ?? "");
    },
  });
  return names;
}

test("the PromQL parser rejects an invalid expression", () => {
  expect(() => metricsIn("sum(rate(a[5m])")).toThrow("At ");
  expect(metricsIn('sum by (x) (rate(a_total{b=~"$c"}[5m])) / max(d)')).toEqual(["a_total", "d"]);
});

describe.each([
  ["dashboard", PANELS],
  ["alerts", ALERTS],
])("%s", (_what, expressions) => {
  test("the file has at least ten expressions", () => expect(expressions.length).toBeGreaterThan(9));

  test.each(expressions)("the expression of $name uses existing metrics", async ({ expr }) => {
    const { names } = await exportedMetrics();
    const used = metricsIn(expr);
    expect(used.length).toBeGreaterThan(0);
    expect(used.filter((name) => !names.has(name))).toEqual([]);
  });
});

describe("dashboard", () => {
  test("the dashboard shows every metric of the service", async () => {
    const shown = new Set(
      PANELS.flatMap(({ expr }) => metricsIn(expr)).map((name) => name.replace(/_(?:bucket|sum|count)$/, "")),
    );
    expect([...(await exportedMetrics()).ours].filter((name) => !shown.has(name))).toEqual([]);
  });

  test("the dashboard's panels do not overlap, and its variables are defined", () => {
    const ids = dashboard.panels.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    const cells = dashboard.panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, index) => `${x + (index % w)},${y + Math.floor(index / w)}`),
    );
    expect(new Set(cells).size).toBe(cells.length);
    expect(dashboard.panels.every(({ gridPos: { x, w } }) => x + w <= 24)).toBe(true);
    const variables = dashboard.templating.list.map(({ name }) => name);
    expect(variables).toEqual(expect.arrayContaining(["datasource", "job", "instance"]));
    const references = PANELS.flatMap(({ expr }) => [...expr.matchAll(/\$(\w+)/g)].map(([, name = ""]) => name));
    expect([...new Set(references)].filter((name) => !variables.includes(name) && !name.startsWith("__"))).toEqual([]);
    expect(dashboard.schemaVersion).toBeGreaterThanOrEqual(39);
  });
});

describe("docs/operations.md", () => {
  test("docs/operations.md documents every metric", async () => {
    expect([...(await exportedMetrics()).ours].filter((name) => !page.includes(`\`${name}\``))).toEqual([]);
  });

  test("docs/operations.md names no unknown metric", async () => {
    const { names, ours } = await exportedMetrics();
    const named = [...page.matchAll(/\b(?:ostler|nodejs|process)_[a-z0-9_]+/g)].map(([name]) => name);
    expect([...new Set(named)].filter((name) => !names.has(name) && !ours.has(name))).toEqual([]);
  });

  test("docs/operations.md has instructions for every alert", () => {
    expect(ALERTS.map(({ name }) => name).filter((name) => !page.includes(name))).toEqual([]);
  });

  test("every alert links to the section of docs/operations.md that names it", () => {
    for (const { name } of ALERTS) {
      const rule = alerts.slice(alerts.indexOf(`alert: ${name}\n`));
      const anchor = /runbook_url: \S+\/operations\.md#(\S+)/.exec(rule)?.[1];
      const section = page.split(/^### /m).find(
        (text) =>
          text
            .slice(0, text.indexOf("\n"))
            .toLowerCase()
            .replaceAll(/[^a-z ]/g, "")
            .replaceAll(" ", "-") === anchor,
      );
      expect(section, `${name}: ${anchor}`).toContain(`\`${name}\``);
    }
  });
});
