/**
 * JSON from outside, in which numbers that JavaScript would change are marked, so that they are refused and not stored
 * as other numbers, or kept as texts.
 */

/** Only a number of this length, or with an exponent, can change. */
const MAY_CHANGE = /[\d.]{16}|\d[eE]/;

/** As `JSON.parse`, but a number that is not kept becomes `Infinity`, which JSON cannot contain otherwise. */
export function parseExactly(text: string): unknown {
  return JSON.parse(text, MAY_CHANGE.test(text) ? markInexact : undefined);
}

/** As `JSON.parse`, but a number that is not kept becomes its text: a machine would not send its report again. */
export function parseReport(text: string): unknown {
  return JSON.parse(text, MAY_CHANGE.test(text) ? keepAsText : undefined);
}

function keepAsText(_key: string, value: unknown, { source }: { readonly source?: string } = {}): unknown {
  return typeof value !== "number" || source === undefined || isExact(source) ? value : source;
}

/** A reviver for `JSON.parse`: see `parseExactly`. */
export function markInexact(_key: string, value: unknown, context?: { readonly source?: string }): unknown {
  return typeof value !== "number" || isExact(context?.source ?? String(value)) ? value : Infinity;
}

/** Significant digits with which programs print a number so that it is read again as the same one. */
const DIGITS_OF_DOUBLE = 17;

/**
 * Whether JavaScript keeps the number with this text: `1.0`, `1e3` and `0.10000000000000001` (0.1 in 17 digits) are
 * kept, `9007199254740993` is not.
 */
export function isExact(text: string): boolean {
  const number = Number(text);
  const asked = decimal(text);
  if (String(number) === text || decimal(String(number)) === asked) return true;
  const digits = asked.indexOf("e");
  return /[.eE]/.test(text) && digits <= DIGITS_OF_DOUBLE && decimal(number.toPrecision(Math.max(digits, 1))) === asked;
}

/** Significant digits and exponent of the text of a number, without its sign; empty for zero. */
function decimal(text: string): string {
  const [mantissa = "", exponent = "0"] = text.replace("-", "").toLowerCase().split("e");
  const [whole = "", fraction = ""] = mantissa.split(".");
  const digits = (whole + fraction).replace(/^0+/, "");
  const significant = digits.replace(/(?<!0)0+$/, "");
  return significant && `${significant}e${Number(exponent) - fraction.length + digits.length - significant.length}`;
}
