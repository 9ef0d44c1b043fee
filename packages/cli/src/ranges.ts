/** Ranges of names: `rack[1-4]-u[01-20,30]`. Brackets multiply, and leading zeros are kept. */
import { usageError } from "./exit.ts";
import { safe } from "./text.ts";

export const NAMES_MAX = 10_000;

interface Span {
  readonly from: number;
  readonly to: number;
  readonly width: number;
}

/** The names of a range. They are counted before the first is made. */
export function expandRange(pattern: string): string[] {
  const parts = partsOf(pattern);
  let names = [""];
  for (const part of parts) {
    const texts = typeof part === "string" ? [part] : part.flatMap(textsOf);
    names = names.flatMap((name) => texts.map((text) => name + text));
  }
  return names;
}

function textsOf({ from, to, width }: Span): string[] {
  return Array.from({ length: to - from + 1 }, (_, index) => String(from + index).padStart(width, "0"));
}

function partsOf(pattern: string): (string | readonly Span[])[] {
  const flaw = (position: number, what: string) =>
    usageError(`Range ${safe(pattern)}, position ${position + 1}: ${what}. Example: rack[1-4]-u[01-20,30].`);
  if (pattern === "") throw flaw(0, "a name is missing");
  const parts: (string | Span[])[] = [];
  let count = 1;
  for (let at = 0; at < pattern.length;) {
    if (pattern[at] === "]") throw flaw(at, "`]` without `[`");
    if (pattern[at] !== "[") {
      const [text = ""] = /^[^[\]]+/.exec(pattern.slice(at)) ?? [];
      const star = text.indexOf("*");
      if (star >= 0) throw flaw(at + star, "`*` does not stand for other characters; use --filter 'name^rack1-'");
      parts.push(text);
      at += text.length;
      continue;
    }
    const end = pattern.indexOf("]", at);
    const nested = pattern.indexOf("[", at + 1);
    if (nested >= 0 && (nested < end || end < 0)) throw flaw(nested, "brackets within brackets");
    if (end < 0) throw flaw(at, "`[` is not closed");
    const spans: Span[] = [];
    let position = at + 1;
    for (const item of pattern.slice(at + 1, end).split(",")) {
      const span = spanOf(item);
      if (typeof span === "string") throw flaw(position, span);
      spans.push(span);
      position += item.length + 1;
    }
    count *= spans.reduce((sum, { from, to }) => sum + to - from + 1, 0);
    if (count > NAMES_MAX) throw flaw(at, `more than ${NAMES_MAX} names; use --filter or --cluster`);
    parts.push(spans);
    at = end + 1;
  }
  return parts;
}

/** A number or two numbers with a dash; a text is a flaw. */
function spanOf(item: string): Span | string {
  if (item === "") return "a number is missing";
  const [, first, dash, last] = /^(\d*)(-?)(\d*)$/.exec(item) ?? [];
  if (first === undefined || last === undefined) return `${safe(item)} is not a number or two numbers with a dash`;
  if (first === "" || (dash === "-" && last === "")) return "the range is open; give both ends";
  if (first.length > 15 || last.length > 15) return "the number has more than 15 digits";
  const [from, to] = [Number(first), Number(dash === "-" ? last : first)];
  if (to < from) return `the range is reversed; write ${last}-${first}`;
  return { from, to, width: first.startsWith("0") ? first.length : 0 };
}
