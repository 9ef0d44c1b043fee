/**
 * Masks secrets in texts from drivers: each secret as a whole, and each line of a multi-line secret such as a key,
 * because texts are processed line by line. Also as drivers, their programs and BMCs spell them: escaped for JSON,
 * URLs, forms, HTML and source code, up to three times over, in Base64, and in hexadecimal with and without separators.
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
  /** The texts as bytes, to be found in texts with escapes. */
  readonly bytes: readonly string[];
  /** Hexadecimal digits in lower case. */
  readonly digits: readonly string[];
}

/** A text in another spelling, and where in the text each of its characters begins and ends. */
interface Spelling {
  readonly characters: string;
  readonly starts: readonly number[];
  readonly ends: readonly number[];
}

export function createMask(secrets: Iterable<string>): Mask {
  let found: Parts | undefined;
  // Lazy: a mask is created for each call, and most calls mask nothing.
  const parts = () => (found ??= partsOf(secrets));
  const cutEnd = (text: string) => {
    if (!text.endsWith(CUT)) return text;
    const body = text.slice(0, -CUT.length);
    const { texts, bytes, digits } = parts();
    const halves = [
      ...texts.map((part) => overlap(body, part, SECRET_LENGTH_MIN)),
      ...unescaped(body.replace(HALF_ESCAPE, "")).map((one) => spelledEnd(body, one, bytes, SECRET_LENGTH_MIN)),
      ...(DIGIT.test(body.trimEnd().slice(-1)) ? [spelledEnd(body, digitsOf(body), digits, ENCODED_LENGTH_MIN)] : []),
    ];
    const half = Math.max(0, ...halves);
    return half === 0 ? text : `${body.slice(0, -half)}${MASK}${CUT}`;
  };
  return {
    cutEnd,
    all(text) {
      const { texts, bytes, digits } = parts();
      const plain = texts.reduce((shown, part) => shown.replaceAll(part, MASK), text);
      const shown = masked(plain, unescaped(plain), bytes);
      return cutEnd(digits.length > 0 && THREE_BYTES.test(shown) ? masked(shown, [digitsOf(shown)], digits) : shown);
    },
  };
}

function partsOf(secrets: Iterable<string>): Parts {
  const lines = [...secrets].flatMap((secret) => [secret, ...secret.split(/[\r\n]+/).map((line) => line.trim())]);
  const sorted = (parts: readonly string[], lengthMin: number) =>
    [...new Set(parts)].filter(({ length }) => length >= lengthMin).toSorted((a, b) => b.length - a.length);
  const texts = sorted(lines.flatMap(formsOf), SECRET_LENGTH_MIN);
  return {
    texts,
    bytes: texts.map(bytesOf),
    digits: sorted(
      lines.map((line) => Buffer.from(line).toString("hex")),
      ENCODED_LENGTH_MIN,
    ),
  };
}

/** A text as it is, as a form has its spaces, and in Base64. */
function formsOf(text: string): readonly string[] {
  return [
    text,
    text.replaceAll(" ", "+"),
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

/** Masks parts that other spellings of a text have, from their first to their last character in the text. */
function masked(text: string, spellings: readonly Spelling[], parts: readonly string[]): string {
  const ranges: { readonly from: number; readonly to: number }[] = [];
  for (const { characters, starts, ends } of spellings)
    for (const part of parts)
      for (let at = characters.indexOf(part); at >= 0; at = characters.indexOf(part, at + part.length))
        ranges.push({ from: starts[at] ?? 0, to: ends[at + part.length - 1] ?? text.length });
  let shown = "";
  let end = 0;
  for (const { from, to } of ranges.toSorted((a, b) => a.from - b.from)) {
    if (from >= end) shown += `${text.slice(end, from)}${MASK}`;
    end = Math.max(end, to);
  }
  return shown + text.slice(end);
}

/** Length of the end of a text that is the beginning of a part in another spelling; 0 if there is none. */
function spelledEnd(
  text: string,
  { characters, starts }: Spelling,
  parts: readonly string[],
  lengthMin: number,
): number {
  const half = Math.max(0, ...parts.map((part) => overlap(characters, part, lengthMin)));
  return half === 0 ? 0 : text.length - (starts[characters.length - half] ?? text.length);
}

/** Length of the longest prefix of `part` that ends `text`; 0 if shorter than `lengthMin`. */
function overlap(text: string, part: string, lengthMin: number): number {
  for (let length = Math.min(part.length, text.length); length >= lengthMin; length -= 1)
    if (text.endsWith(part.slice(0, length))) return length;
  return 0;
}

// ---- escapes

const ESCAPE =
  /%([\da-f]{2})|\\x([\da-f]{2})|(\\ud[89ab][\da-f]{2}\\ud[c-f][\da-f]{2}|\\u[\da-f]{4}|\\["\\/bfnrt])|&#x([\da-f]{1,6});|&#(\d{1,7});|&(amp|lt|gt|quot|apos);|\\(')/gi;
/** The beginning of an escape at the end of a shortened text. */
const HALF_ESCAPE = /(?:%[\da-f]?|\\(?:x[\da-f]?|u[\da-f]{0,3})?|&#?\w{0,7})$/i;
const ENTITIES: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" };
const CODE_POINT_MAX = 0x10_ff_ff;
/** Escapes within escapes that are followed. */
const LEVELS_MAX = 3;

/** The bytes of a text in UTF-8, as one character each. */
function bytesOf(text: string): string {
  return Buffer.from(text).toString("latin1");
}

/** A text without its escapes, once and again as long as it has some; empty if it has none. */
function unescaped(text: string): readonly Spelling[] {
  if (text.search(ESCAPE) < 0) return [];
  const levels: Spelling[] = [];
  let level = spelled(Array.from(text, (character) => [bytesOf(character), character.length]));
  while (levels.length < LEVELS_MAX && level.characters.search(ESCAPE) >= 0) {
    level = withoutEscapes(level);
    levels.push(level);
  }
  return levels;
}

function withoutEscapes({ characters, starts, ends }: Spelling): Spelling {
  const pieces: Piece[] = [];
  let end = 0;
  const copyTo = (at: number) => {
    for (const character of characters.slice(end, at)) pieces.push([character, 1]);
  };
  for (const escape of characters.matchAll(ESCAPE)) {
    copyTo(escape.index);
    pieces.push([bytesOfEscape(escape), escape[0].length]);
    end = escape.index + escape[0].length;
  }
  copyTo(characters.length);
  const plain = spelled(pieces);
  return {
    characters: plain.characters,
    starts: plain.starts.map((at) => starts[at] ?? 0),
    ends: plain.ends.map((at) => ends[at - 1] ?? 0),
  };
}

/** Bytes, and the number of characters that stand for them. */
type Piece = readonly [bytes: string, length: number];

function spelled(pieces: readonly Piece[]): Spelling {
  let at = 0;
  const starts: number[] = [];
  const ends: number[] = [];
  for (const [bytes, length] of pieces) {
    for (let count = 0; count < bytes.length; count += 1) {
      starts.push(at);
      ends.push(at + length);
    }
    at += length;
  }
  return { characters: pieces.map(([bytes]) => bytes).join(""), starts, ends };
}

function bytesOfEscape([all, percent, byte, json, hex, decimal, entity, quote]: RegExpExecArray): string {
  const given = percent ?? byte;
  if (given !== undefined) return String.fromCodePoint(Number.parseInt(given, 16));
  if (json !== undefined) return bytesOf((JSON.parse(`"${json.replace("U", "u")}"`) as string).toWellFormed());
  if (entity !== undefined) return ENTITIES[entity.toLowerCase()] ?? all;
  const point = hex === undefined ? Number(decimal) : Number.parseInt(hex, 16);
  return quote ?? (point <= CODE_POINT_MAX ? bytesOf(String.fromCodePoint(point).toWellFormed()) : all);
}

// ---- hexadecimal

const DIGIT = /[0-9a-f]/i;
/** Characters between bytes in dumps, certificates and source code. A digit 0 before an x is a prefix. */
const SEPARATOR = /[\s:,-]/;
/** A text without three bytes in hexadecimal need not be searched. */
const THREE_BYTES = /(?:[0-9a-f]{2}[\s:,-]*(?:0x)?){3}/i;

/** The hexadecimal digits of a text in lower case, without separators; any other text is one `|`. */
function digitsOf(text: string): Spelling {
  let characters = "";
  const starts: number[] = [];
  for (let at = 0; at < text.length; at += 1) {
    const character = text.charAt(at);
    const isPrefix = character === "0" && /x/i.test(text.charAt(at + 1));
    if (isPrefix) at += 1;
    if (isPrefix || SEPARATOR.test(character)) continue;
    if (!DIGIT.test(character) && characters.endsWith("|")) continue;
    characters += DIGIT.test(character) ? character.toLowerCase() : "|";
    starts.push(at);
  }
  return { characters, starts, ends: starts.map((at) => at + 1) };
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
