/**
 * What of a driver's words is a secret: each secret as a whole, and each line of one that has several, such as a key, since
 * texts are taken line by line. All of them also as JSON, addresses and forms hold them, which drivers like to tell.
 */
const MASK = "***";
/** Shorter ones would mask half of every text; drivers should not have such secrets. */
const SECRET_LENGTH_MIN = 3;
/** The end of a text that was shortened. */
const CUT = "…";

/** Makes texts fit to be seen. */
export interface Mask {
  all(text: string): string;
  /** Only what is left of a secret at the end of a text that was shortened, where nothing else would know it. */
  cutEnd(text: string): string;
}

export function createMask(secrets: Iterable<string>): Mask {
  let found: readonly string[] | undefined;
  // Made when they are needed: a mask is made for each call, and most calls show it no text.
  const parts = () => (found ??= partsOf(secrets));
  const cutEnd = (text: string) => {
    if (!text.endsWith(CUT)) return text;
    const body = text.slice(0, -CUT.length);
    const half = Math.max(0, ...parts().map((part) => beginningAt(body, part)));
    return half === 0 ? text : `${body.slice(0, -half)}${MASK}${CUT}`;
  };
  return { cutEnd, all: (text) => cutEnd(parts().reduce((shown, part) => shown.replaceAll(part, MASK), text)) };
}

/** What is masked, the longest first. */
function partsOf(secrets: Iterable<string>): readonly string[] {
  const lines = [...secrets].flatMap((secret) => [secret, ...secret.split(/[\r\n]+/).map((line) => line.trim())]);
  return [...new Set(lines.flatMap(formsOf))]
    .filter(({ length }) => length >= SECRET_LENGTH_MIN)
    .toSorted((a, b) => b.length - a.length);
}

/** A text as it is, and inside a string of JSON, an address and a form. */
function formsOf(text: string): readonly string[] {
  return [
    text,
    JSON.stringify(text).slice(1, -1),
    encodeURIComponent(text.toWellFormed()),
    new URLSearchParams({ "": text }).toString().slice(1),
  ];
}

/** How much of the beginning of a secret a text ends with; 0: less than a secret may have. */
function beginningAt(text: string, secret: string): number {
  for (let length = Math.min(secret.length, text.length); length >= SECRET_LENGTH_MIN; length -= 1)
    if (text.endsWith(secret.slice(0, length))) return length;
  return 0;
}
