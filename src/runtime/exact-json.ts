/**
 * JSON of callers, in which numbers that JavaScript would change are marked, so that they are refused and not stored
 * as other numbers.
 */

/** Only a number of this length, or with an exponent, can change. */
const MAY_CHANGE = /[\d.]{16}|\d[eE]/;

/** As `JSON.parse`, but a number that is not kept becomes `Infinity`, which JSON cannot contain otherwise. */
export function parseExactly(text: string): unknown {
  return JSON.parse(text, MAY_CHANGE.test(text) ? markInexact : undefined);
}

/** A reviver for `JSON.parse`: see `parseExactly`. */
export function markInexact(_key: string, value: unknown, context?: { readonly source?: string }): unknown {
  return typeof value !== "number" || isExact(context?.source ?? String(value)) ? value : Infinity;
}

/** Whether JavaScript keeps the number with this text: `1.0` and `1e3` are kept, `9007199254740993` is not. */
export function isExact(text: string): boolean {
  const kept = String(Number(text));
  return kept === text || decimal(kept) === decimal(text);
}

/** Significant digits and exponent of the text of a number, without its sign; empty for zero. */
function decimal(text: string): string {
  const [mantissa = "", exponent = "0"] = text.replace("-", "").toLowerCase().split("e");
  const [whole = "", fraction = ""] = mantissa.split(".");
  const digits = (whole + fraction).replace(/^0+/, "");
  const significant = digits.replace(/(?<!0)0+$/, "");
  return significant && `${significant}e${Number(exponent) - fraction.length + digits.length - significant.length}`;
}
