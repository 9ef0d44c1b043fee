/** The filter of a list of nodes, as text in its address. The service evaluates it; there is no second evaluator. */
import { completeFilter, parseFilter, toNodeFilter } from "ostler-client/filter";
import type { FilterFlaw } from "ostler-client/filter";

/** A longer one is refused before it is read. */
const LENGTH_MAX = 4_000;

export interface ReadFilter {
  /** Null: every node. */
  readonly filter: object | null;
  readonly flaw: FilterFlaw | null;
  /** The service follows it; else it can only be read. */
  readonly isLive: boolean;
}

export function readFilter(text: string, now: Date): ReadFilter {
  if (text.length > LENGTH_MAX) {
    const message = `The filter has ${text.length.toLocaleString("en")} characters; use at most ${LENGTH_MAX.toLocaleString("en")}.`;
    return { filter: null, flaw: { message, position: LENGTH_MAX, nearest: null }, isLive: true };
  }
  const parsed = parseFilter(text);
  if ("flaw" in parsed) return { filter: null, flaw: parsed.flaw, isLive: true };
  const isLive = "terms" in parseFilter(text, { stream: true });
  return { filter: parsed.terms.length === 0 ? null : toNodeFilter(parsed.terms, now), flaw: null, isLive };
}

export interface Completion {
  /** The whole text after the choice. */
  readonly text: string;
  /** The word that is added. */
  readonly option: string;
}

const OFFERED = 12;

/** The words that can stand at the end of the text. A field goes on with its value, a value ends with a space. */
export function completionsOf(text: string, known: Readonly<Record<string, readonly string[]>>): readonly Completion[] {
  const { from, options } = completeFilter(text, text.length, known);
  return options
    .filter((option) => option !== text.slice(from))
    .slice(0, OFFERED)
    .map((option) => ({ option, text: `${text.slice(0, from)}${option}${/:$|^label\./.test(option) ? "" : " "}` }));
}
