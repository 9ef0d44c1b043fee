/**
 * Lanes: the purpose of a driver call decides which slots it uses, so that no kind of call waits for another kind. Two
 * lanes are unlimited: calls that a step makes while it holds a slot itself (NESTED), and calls that carry out an abort
 * (ENDING), since calls that hang may hold all slots. The engine limits the number of both.
 */

/** In order of precedence. TROUBLED: power readings of nodes whose last reading failed. */
export const LANES = ["NESTED", "ENDING", "STEP", "READING", "TROUBLED", "PROBE"] as const;
export type Lane = (typeof LANES)[number];

/** Lanes whose calls' deadlines stand still until the function is called: waiting says nothing about the machine. */
export const TIMED_BY_CALL: ReadonlySet<Lane> = new Set(["STEP", "READING", "TROUBLED", "PROBE"]);
