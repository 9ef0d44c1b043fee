/**
 * Waves: an operation starts its nodes in groups, and halts when too many fail. Pure: the size of each wave, and the
 * effect of the end of a run on the next wave.
 */

/** A number or a percentage of nodes. */
export type Share = { readonly count: number } | { readonly percent: number };

/** Waves as requested. */
export interface WaveOptions {
  /** Size of each wave; the last one is repeated until every node has a wave. */
  readonly sizes: readonly Share[];
  /** Pause between the end of a wave and the next one. */
  readonly pauseSeconds?: number | undefined;
  /** Each wave after the first waits for advanceWaves. */
  readonly manual?: boolean | undefined;
  /** Number of nodes that may fail; one more failure halts the operation. */
  readonly maxFailures?: Share | undefined;
}

/** Action at the end of a run of the newest wave. */
export type WaveVerdict = "HALT" | "NOTHING" | "AWAIT" | "PAUSE" | "OPEN";

export const WAVE_STATES = {
  RUNNING: "The newest wave is running.",
  PAUSED: "The newest wave has ended; the next one starts after the pause.",
  AWAITING: "The newest wave has ended; the next one waits for advanceWaves.",
  HALTED: "No further node starts, because too many failed or haltWaves was called. Active runs continue.",
  ENDED: "The operation has ended.",
} as const;
/** State of the waves of an unfinished operation. */
export type WaveState = Exclude<keyof typeof WAVE_STATES, "ENDED">;

/** Whether a share is a whole number of at least `least`, or a percentage, which is above 0 if `least` is 1. */
export function isShare(share: Share, least: 0 | 1): boolean {
  if ("count" in share) return Number.isInteger(share.count) && share.count >= least;
  return share.percent >= 0 && share.percent <= 100 && (least === 0 || share.percent > 0);
}

/** The number of nodes in a share of `total`. `UP` rounds percentages up to at least one node; `DOWN` rounds down. */
export function countOf(share: Share, total: number, round: "UP" | "DOWN"): number {
  if ("count" in share) return share.count;
  const exact = (share.percent * total) / 100;
  return round === "UP" ? Math.max(1, Math.ceil(exact)) : Math.floor(exact);
}

/** Sizes of the waves of `total` nodes. */
export function waveSizes(sizes: readonly Share[], total: number): readonly number[] {
  const waves: number[] = [];
  for (let left = total, index = 0; left > 0; index += 1) {
    const share = sizes[Math.min(index, sizes.length - 1)] ?? { count: total };
    const size = Math.min(left, countOf(share, total, "UP"));
    waves.push(size);
    left -= size;
  }
  return waves;
}

/** The wave of the node at each position in the request. */
export function waveOfEach(sizes: readonly number[]): readonly number[] {
  return sizes.flatMap((size, wave) => Array.from({ length: size }, () => wave));
}

export interface WaveFacts {
  readonly state: WaveState;
  readonly wave: number;
  readonly waves: number;
  /** Failures since the last resumeWaves. */
  readonly failures: number;
  readonly maxFailures: number | null;
  /** Whether a run of the started waves is unfinished. */
  readonly unfinished: boolean;
  /** Whether a node has not started: otherwise there is nothing to halt or to start. */
  readonly queued: boolean;
  readonly manual: boolean;
  readonly pauseSeconds: number;
}

/** Too many failures halt the operation at once; otherwise the next wave starts when the started ones have ended. */
export function judgeWaves(facts: WaveFacts): WaveVerdict {
  if (facts.state === "HALTED") return "NOTHING";
  if (!facts.queued) return "NOTHING";
  if (facts.maxFailures !== null && facts.failures > facts.maxFailures) return "HALT";
  if (facts.state !== "RUNNING" || facts.unfinished || facts.wave + 1 >= facts.waves) return "NOTHING";
  if (facts.manual) return "AWAIT";
  return facts.pauseSeconds > 0 ? "PAUSE" : "OPEN";
}
