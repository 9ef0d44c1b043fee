/**
 * Waves: an operation takes its nodes on in groups, and holds the rest when too many fail. Pure: how many nodes are in each
 * wave, and what the end of a run means for the next one.
 */

/** A number of nodes, or a share of them. */
export type Share = { readonly count: number } | { readonly percent: number };

/** Waves as they are asked for. */
export interface WaveOptions {
  /** Size of each wave; the last one is repeated until every node has its wave. */
  readonly sizes: readonly Share[];
  /** Between the end of a wave and the next one. */
  readonly pauseSeconds?: number | undefined;
  /** The next wave waits until somebody says so. */
  readonly manual?: boolean | undefined;
  /** So many nodes may fail; with one more the rest is held. */
  readonly maxFailures?: Share | undefined;
}

/** What is to be done when a run of the newest wave has ended. */
export type WaveVerdict = "HALT" | "NOTHING" | "AWAIT" | "PAUSE" | "OPEN";

export const WAVE_STATES = {
  RUNNING: "The newest wave is running.",
  PAUSED: "The newest wave has ended; the next one starts after the pause.",
  AWAITING: "The newest wave has ended; the next one waits for advanceWaves.",
  HALTED: "No further node starts, because too many failed or haltWaves was called. Active runs continue.",
  ENDED: "The operation has ended.",
} as const;
/** Where an unfinished operation stands. */
export type WaveState = Exclude<keyof typeof WAVE_STATES, "ENDED">;

/** How many nodes a share of `total` is. Percent are rounded up in `UP`, so that a wave has at least one node; down otherwise. */
export function countOf(share: Share, total: number, round: "UP" | "DOWN"): number {
  if ("count" in share) return share.count;
  const exact = (share.percent * total) / 100;
  return round === "UP" ? Math.max(1, Math.ceil(exact)) : Math.floor(exact);
}

/** Sizes of the waves that `total` nodes are taken on in. */
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

/** The wave of the node at each place of the request. */
export function waveOfEach(sizes: readonly number[]): readonly number[] {
  return sizes.flatMap((size, wave) => Array.from({ length: size }, () => wave));
}

export interface WaveFacts {
  readonly state: WaveState;
  readonly wave: number;
  readonly waves: number;
  /** Failures that nobody has looked at and gone on after. */
  readonly failures: number;
  readonly maxFailures: number | null;
  /** A run of the open waves has not ended. */
  readonly unfinished: boolean;
  /** A node has not begun: there is something to hold, and somebody to have the next turn. */
  readonly queued: boolean;
  readonly manual: boolean;
  readonly pauseSeconds: number;
}

/** Too many failures hold the rest at once; otherwise the next wave has its turn when the open ones have ended. */
export function judgeWaves(facts: WaveFacts): WaveVerdict {
  if (facts.state === "HALTED") return "NOTHING";
  if (!facts.queued) return "NOTHING";
  if (facts.maxFailures !== null && facts.failures > facts.maxFailures) return "HALT";
  if (facts.state !== "RUNNING" || facts.unfinished || facts.wave + 1 >= facts.waves) return "NOTHING";
  if (facts.manual) return "AWAIT";
  return facts.pauseSeconds > 0 ? "PAUSE" : "OPEN";
}
