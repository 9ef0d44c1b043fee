/**
 * `node test/chaos/checker/summary.ts <folder>`: prints a section of Markdown about a checked run for
 * test/chaos/README.md: size of the run, faults, take-over times, and the result of each promise.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { argv } from "node:process";
import type { Report } from "./check.ts";

const WORDS = { HELD: "held", VIOLATED: "**violated**", "NOT EXERCISED": "not exercised" } as const;

export function summaryOf({ seed, results, harms, figures, nemeses }: Report): string {
  const number = (value: number) => value.toLocaleString("en");
  const takeOver = results.find(({ id }) => id === "P11")?.figures ?? {};
  const seconds = (which: string) =>
    takeOver[`take-over ${which}, ms`] === undefined
      ? "–"
      : `${((takeOver[`take-over ${which}, ms`] ?? 0) / 1000).toFixed(1)} s`;
  const cell = (text: string) => text.replaceAll("|", "\\|");
  return [
    `## Seed ${seed}: ${number(figures["minutes"] ?? 0)} minutes, ${number(figures["kills"] ?? 0)} kills, ${number(figures["restarts of the database"] ?? 0)} restarts of the database`,
    "",
    `**${number(harms.lost)} lost, ${number(harms.doubled)} doubled, ${number(harms.illegal)} illegal, ${number(harms.stuck)} stuck**${harms.other > 0 ? `, ${number(harms.other)} other violations` : ""}. Take-over p50 ${seconds("p50")}, p99 ${seconds("p99")}, maximum ${seconds("maximum")}.`,
    "",
    "| figure | |",
    "| --- | ---: |",
    ...Object.entries(figures).map(([what, value]) => `| ${what} | ${number(value)} |`),
    "",
    "| nemesis | times |",
    "| --- | ---: |",
    ...Object.entries(nemeses).map(([what, count]) => `| ${what} | ${number(count)} |`),
    "",
    "| promise | result | title | facts |",
    "| --- | --- | --- | --- |",
    ...results.map(
      ({ id, title, result, facts, violations }) =>
        `| ${id} | ${WORDS[result]}${violations > 0 ? ` (${number(violations)})` : ""} | ${title} | ${cell(
          Object.entries(facts)
            .map(([what, count]) => `${number(count)} ${what}`)
            .join("; ") || "none",
        )} |`,
    ),
    "",
  ].join("\n");
}

if (import.meta.main) {
  const [folder] = argv.slice(2);
  if (folder === undefined)
    throw new Error("No folder given: node test/chaos/checker/summary.ts <folder>, after check.ts");
  console.log(summaryOf(JSON.parse(readFileSync(join(folder, "results.json"), "utf8")) as Report));
}
