/**
 * Masks secrets in texts from drivers: each secret as a whole, and each line of a multi-line secret such as a key,
 * because texts are processed line by line. Also in the encodings of JSON, URLs and forms, in Base64, and in
 * hexadecimal with and without separators, as drivers and their programs print them.
 */
const MASK = "***";
/** Shorter secrets would mask unrelated text. */
const SECRET_LENGTH_MIN = 3;
/** Shorter encodings would mask unrelated text. */
const ENCODED_LENGTH_MIN = 6;
/** Marks the end of a shortened text. */
const CUT = "…";

export interface Mask {
  all(text: string): string;
  /** Masks only a partial secret at the end of a shortened text, which a later pass cannot recognize. */
  cutEnd(text: string): string;
}

/** Secrets in the forms in which they are looked for, longest first. */
interface Parts {
  readonly texts: readonly string[];
  /** Hexadecimal digits in lower case. */
  readonly digits: readonly string[];
}

export function createMask(secrets: Iterable<string>): Mask {
  let found: Parts | undefined;
  // Lazy: a mask is created for each call, and most calls mask nothing.
  const parts = () => (found ??= partsOf(secrets));
  const cutEnd = (text: string) => {
    if (!text.endsWith(CUT)) return text;
    const body = text.slice(0, -CUT.length);
    const { texts, digits } = parts();
    const half = Math.max(0, ...texts.map((part) => overlap(body, part, SECRET_LENGTH_MIN)), digitsAtEnd(body, digits));
    return half === 0 ? text : `${body.slice(0, -half)}${MASK}${CUT}`;
  };
  return {
    cutEnd,
    all(text) {
      const { texts, digits } = parts();
      return cutEnd(
        maskDigits(
          texts.reduce((shown, part) => shown.replaceAll(part, MASK), text),
          digits,
        ),
      );
    },
  };
}

function partsOf(secrets: Iterable<string>): Parts {
  const lines = [...secrets].flatMap((secret) => [secret, ...secret.split(/[\r\n]+/).map((line) => line.trim())]);
  const sorted = (parts: readonly string[], lengthMin: number) =>
    [...new Set(parts)].filter(({ length }) => length >= lengthMin).toSorted((a, b) => b.length - a.length);
  return {
    texts: sorted(lines.flatMap(formsOf), SECRET_LENGTH_MIN),
    digits: sorted(
      lines.map((line) => Buffer.from(line).toString("hex")),
      ENCODED_LENGTH_MIN,
    ),
  };
}

/** A text as it is, and encoded for JSON, a URL, a form, and in Base64. */
function formsOf(text: string): readonly string[] {
  return [
    text,
    JSON.stringify(text).slice(1, -1),
    encodeURIComponent(text.toWellFormed()),
    new URLSearchParams({ "": text }).toString().slice(1),
    ...base64Forms(Buffer.from(text)).filter(({ length }) => length >= ENCODED_LENGTH_MIN),
  ];
}

/**
 * Base64 at the three offsets at which a secret may stand in a longer text such as `user:secret`, without the
 * characters that depend on its neighbours.
 */
function base64Forms(bytes: Buffer): readonly string[] {
  const forms = [0, 1, 2].flatMap((offset) => {
    const text = Buffer.concat([Buffer.alloc(offset), bytes]).toString("base64");
    const whole = text.slice(Math.ceil((offset * 8) / 6), Math.floor(((offset + bytes.length) * 8) / 6));
    return offset === 0 ? [text, whole] : [whole];
  });
  return forms.flatMap((text) => [text, text.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "")]);
}

/** Length of the longest prefix of `part` that ends `text`; 0 if shorter than `lengthMin`. */
function overlap(text: string, part: string, lengthMin: number): number {
  for (let length = Math.min(part.length, text.length); length >= lengthMin; length -= 1)
    if (text.endsWith(part.slice(0, length))) return length;
  return 0;
}

// ---- hexadecimal

/** The hexadecimal digits of a text in lower case, without separators; any other text is one `|`. */
interface Digits {
  readonly digits: string;
  /** Index in the text of each character of `digits`. */
  readonly places: readonly number[];
}

const DIGIT = /[0-9a-f]/i;
/** Characters between bytes in dumps, certificates and source code. A digit 0 before an x is a prefix. */
const SEPARATOR = /[\s:,-]/;
/** A text without three bytes in hexadecimal need not be searched. */
const THREE_BYTES = /(?:[0-9a-f]{2}[\s:,-]*(?:0x)?){3}/i;

function digitsOf(text: string): Digits {
  let digits = "";
  const places: number[] = [];
  for (let at = 0; at < text.length; at += 1) {
    const character = text.charAt(at);
    const isPrefix = character === "0" && /x/i.test(text.charAt(at + 1));
    if (isPrefix) at += 1;
    if (isPrefix || SEPARATOR.test(character)) continue;
    if (!DIGIT.test(character) && digits.endsWith("|")) continue;
    digits += DIGIT.test(character) ? character.toLowerCase() : "|";
    places.push(at);
  }
  return { digits, places };
}

/** Masks secrets in hexadecimal, from the first to the last digit. Secrets that overlap become one mask. */
function maskDigits(text: string, parts: readonly string[]): string {
  if (parts.length === 0 || !THREE_BYTES.test(text)) return text;
  const { digits, places } = digitsOf(text);
  const ranges: { readonly from: number; readonly to: number }[] = [];
  for (const part of parts)
    for (let at = digits.indexOf(part); at >= 0; at = digits.indexOf(part, at + part.length))
      ranges.push({ from: places[at] ?? 0, to: (places[at + part.length - 1] ?? 0) + 1 });
  let shown = "";
  let end = 0;
  for (const { from, to } of ranges.toSorted((a, b) => a.from - b.from)) {
    if (from >= end) shown += `${text.slice(end, from)}${MASK}`;
    end = Math.max(end, to);
  }
  return shown + text.slice(end);
}

/** Length of the end of a text that is the beginning of a secret in hexadecimal; 0 if there is none. */
function digitsAtEnd(text: string, parts: readonly string[]): number {
  if (!DIGIT.test(text.trimEnd().slice(-1))) return 0;
  const { digits, places } = digitsOf(text);
  const half = Math.max(0, ...parts.map((part) => overlap(digits, part, ENCODED_LENGTH_MIN)));
  return half === 0 ? 0 : text.length - (places[digits.length - half] ?? text.length);
}

// ---- user data

/** Shorter lines of user data are common words. */
const USER_DATA_LENGTH_MIN = 8;
const SECRET_KEY = /pass|secret|token|key|credential/i;

/** Whether a key names a secret. */
export function isSecretKey(key: string): boolean {
  return SECRET_KEY.test(key);
}

/** The parts of cloud-init user data to mask: its lines, and the values of keys that name a secret. */
export function userDataSecrets(userData: string | null): readonly string[] {
  if (userData === null) return [];
  return userData.split(/[\r\n]+/).flatMap((given) => {
    const line = given.trim();
    if (line.length < USER_DATA_LENGTH_MIN) return [];
    const [, key = "", value = ""] = /^(.*?)[:=]\s*(.*)$/.exec(line) ?? [];
    const plain = value.replaceAll(/^["']|["']$/g, "");
    return isSecretKey(key) && plain.length >= SECRET_LENGTH_MIN ? [line, plain] : [line];
  });
}
