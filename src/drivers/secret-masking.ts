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

/** A text as it is, and encoded for JSON, a URL, a form, in base64 and in hexadecimal. */
function formsOf(text: string): readonly string[] {
  return [
    text,
    JSON.stringify(text).slice(1, -1),
    encodeURIComponent(text.toWellFormed()),
    new URLSearchParams({ "": text }).toString().slice(1),
    ...encodedForms(Buffer.from(text)),
  ];
}

/** Shorter encodings would mask unrelated text. */
const ENCODED_LENGTH_MIN = 6;

/**
 * Base64 at the three offsets at which a secret may stand in a longer text such as `user:secret`, without the characters
 * that depend on its neighbours; and hexadecimal.
 */
function encodedForms(bytes: Buffer): readonly string[] {
  const base64 = [0, 1, 2].flatMap((offset) => {
    const text = Buffer.concat([Buffer.alloc(offset), bytes]).toString("base64");
    const whole = text.slice(Math.ceil((offset * 8) / 6), Math.floor(((offset + bytes.length) * 8) / 6));
    return offset === 0 ? [text, whole] : [whole];
  });
  const forms = base64.flatMap((text) => [text, text.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "")]);
  const hex = bytes.toString("hex");
  return [...forms, hex, hex.toUpperCase()].filter(({ length }) => length >= ENCODED_LENGTH_MIN);
}

/** Length of the longest prefix of `secret` that ends `text`; 0 if shorter than `SECRET_LENGTH_MIN`. */
function beginningAt(text: string, secret: string): number {
  for (let length = Math.min(secret.length, text.length); length >= SECRET_LENGTH_MIN; length -= 1)
    if (text.endsWith(secret.slice(0, length))) return length;
  return 0;
}
