/**
 * Lanes: what a call to a driver is made for decides whose places it takes. Steps have theirs, readings of the power, readings
 * of nodes that gave no answer the last time, and probes have others, so none of them waits for another kind. Two
 * kinds of calls wait for no place at all: one that a step makes itself, since its step would hold one meanwhile, and one by
 * which an abort is carried out, since drivers that hang may hold them all. The engine has only so many of both.
 */

/** In the order of precedence. */
export const LANES = ["NESTED", "ENDING", "STEP", "READING", "TROUBLED", "PROBE"] as const;
export type Lane = (typeof LANES)[number];

/** Calls that a time of their own begins for when they have a place: what is slow before is not the machine. */
export const TIMED_BY_PLACE: ReadonlySet<Lane> = new Set(["READING", "TROUBLED", "PROBE"]);
