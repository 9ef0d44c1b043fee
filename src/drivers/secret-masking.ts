/**
 * Masks secrets in texts from drivers: each secret as a whole, and each line of a multi-line secret such as a key, because
 * texts are processed line by line. Also in the encodings of JSON, URLs and forms, which drivers often print.
 */
const MASK = "***";
/** Shorter secrets would mask unrelated text. */
const SECRET_LENGTH_MIN = 3;
/** Marks the end of a shortened text. */
const CUT = "…";

export interface Mask {
  all(text: string): string;
  /** Masks only a partial secret at the end of a shortened text, which a later pass cannot recognize. */
  cutEnd(text: string): string;
}

export function createMask(secrets: Iterable<string>): Mask {
  let found: readonly string[] | undefined;
  // Lazy: a mask is created for each call, and most calls mask nothing.
  const parts = () => (found ??= partsOf(secrets));
  const cutEnd = (text: string) => {
    if (!text.endsWith(CUT)) return text;
    const body = text.slice(0, -CUT.length);
    const half = Math.max(0, ...parts().map((part) => beginningAt(body, part)));
    return half === 0 ? text : `${body.slice(0, -half)}${MASK}${CUT}`;
  };
  return { cutEnd, all: (text) => cutEnd(parts().reduce((shown, part) => shown.replaceAll(part, MASK), text)) };
}

/** The texts to mask, longest first. */
function partsOf(secrets: Iterable<string>): readonly string[] {
  const lines = [...secrets].flatMap((secret) => [secret, ...secret.split(/[\r\n]+/).map((line) => line.trim())]);
  return [...new Set(lines.flatMap(formsOf))]
    .filter(({ length }) => length >= SECRET_LENGTH_MIN)
    .toSorted((a, b) => b.length - a.length);
}

/** A text as it is, and encoded for JSON, a URL and a form. */
function formsOf(text: string): readonly string[] {
  return [
    text,
    JSON.stringify(text).slice(1, -1),
    encodeURIComponent(text.toWellFormed()),
    new URLSearchParams({ "": text }).toString().slice(1),
  ];
}

/** Length of the longest prefix of `secret` that ends `text`; 0 if shorter than `SECRET_LENGTH_MIN`. */
function beginningAt(text: string, secret: string): number {
  for (let length = Math.min(secret.length, text.length); length >= SECRET_LENGTH_MIN; length -= 1)
    if (text.endsWith(secret.slice(0, length))) return length;
  return 0;
}
