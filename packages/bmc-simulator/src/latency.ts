/**
 * How long real BMCs take for a GET, in seconds. Measured by DMTF redfish-mockup-creator while it read whole machines
 * one request at a time (github.com/NVIDIA/libredfish, tests/mockups, commit c094c9e6). Most runs went through a
 * tunnel, so the figures are upper values.
 */
export interface LatencyFigures {
  readonly mean: number;
  readonly min: number;
  readonly max: number;
  /** End of the path that took `max`. */
  readonly slowest: string;
}

export const LATENCIES = {
  "idrac-9": { mean: 0.1897, min: 0.0957, max: 18.022, slowest: "/LogServices/Sel/Entries" },
  "ilo-5": { mean: 0.3052, min: 0.1831, max: 3.41, slowest: "/LogServices/IEL/Entries" },
  xcc: { mean: 0.3821, min: 0.171, max: 8.259, slowest: "/MetricReports/PowerMetrics" },
  supermicro: { mean: 0.2525, min: 0.1365, max: 5.784, slowest: "/Managers/1" },
  openbmc: { mean: 0.155, min: 0.0908, max: 5.31, slowest: "/LogServices/EventLog/Entries" },
} as const satisfies Record<string, LatencyFigures>;

export type LatencyName = keyof typeof LATENCIES;

/** `measured`: as the BMC of the preset. A number: milliseconds for every request. */
export type Latency = "none" | "measured" | number;

/** Milliseconds for one request: the minimum, and an exponential rest that gives the measured mean. */
export function latencyOf(latency: Latency, name: LatencyName, path: string, random = Math.random): number {
  if (latency === "none") return 0;
  if (typeof latency === "number") return latency;
  const { mean, min, max, slowest }: LatencyFigures = LATENCIES[name];
  if (path.endsWith(slowest) || (slowest.includes("LogServices") && /\/LogServices\/[^/]+\/Entries$/.test(path)))
    return max * 1000;
  return Math.min(max, min - (mean - min) * Math.log(1 - random())) * 1000;
}
