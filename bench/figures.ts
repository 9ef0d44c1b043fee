/** Medians, percentiles, trends, and tables and curves of them for a terminal. */

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length / 2;
  return sorted.length % 2 === 1
    ? (sorted[Math.floor(middle)] ?? Number.NaN)
    : ((sorted[middle - 1] ?? Number.NaN) + (sorted[middle] ?? Number.NaN)) / 2;
}

/** The value that `share` (0 to 1) of the values do not exceed. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.max(0, Math.ceil(share * sorted.length) - 1))] ?? Number.NaN;
}

/** A number with a fixed number of decimals; a dash for null or NaN. */
export function shown(value: number | null, decimals = 1): string {
  return value === null || Number.isNaN(value) ? "–" : value.toFixed(decimals);
}

/** Prints rows under a header. The first column is aligned left, the others right. */
export function printTable(head: readonly string[], rows: readonly (readonly string[])[]): void {
  const widths = head.map((_, column) => Math.max(...[head, ...rows].map((row) => (row[column] ?? "").length)));
  for (const row of [head, ...rows]) {
    console.log(
      `  ${row.map((cell, column) => (column === 0 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0))).join("  ")}`,
    );
  }
}

/** Linear regression: the rise per unit of x, its standard error, and the mean of y. */
export function trend(points: readonly (readonly [x: number, y: number])[]): {
  readonly rise: number;
  readonly error: number;
  readonly mean: number;
} {
  const count = points.length;
  const meanX = points.reduce((sum, [x]) => sum + x, 0) / count;
  const mean = points.reduce((sum, [, y]) => sum + y, 0) / count;
  const spread = points.reduce((sum, [x]) => sum + (x - meanX) ** 2, 0);
  const rise = points.reduce((sum, [x, y]) => sum + (x - meanX) * (y - mean), 0) / spread;
  const residual = points.reduce((sum, [x, y]) => sum + (y - mean - rise * (x - meanX)) ** 2, 0);
  return { rise, error: Math.sqrt(residual / Math.max(1, count - 2) / spread), mean };
}

const HEIGHTS = "▁▂▃▄▅▆▇█";
const WIDTH = 60;

/** Values as a curve in one line of text, scaled from the smallest to the largest. */
export function curve(values: readonly number[]): string {
  const columns = Math.min(WIDTH, values.length);
  const means = Array.from({ length: columns }, (_, column) => {
    const part = values.slice(
      Math.floor((column * values.length) / columns),
      Math.floor(((column + 1) * values.length) / columns),
    );
    return part.reduce((sum, value) => sum + value, 0) / part.length;
  });
  const least = Math.min(...means);
  const range = Math.max(...means) - least || 1;
  return means.map((value) => HEIGHTS[Math.round(((value - least) / range) * (HEIGHTS.length - 1))]).join("");
}
