/** Texts from drivers and callers, made fit to be stored and shown. */

/** Replaces the characters that PostgreSQL cannot store: U+0000 and halves of surrogate pairs. */
export function storableText(text: string): string {
  return text.toWellFormed().replaceAll("\0", "\uFFFD");
}

/** Whether a text can be stored as it is. */
export function isStorableText(text: string): boolean {
  return !text.includes("\0") && text.isWellFormed();
}

/** Scripts whose spelling needs the joiners U+200C and U+200D, which change how the letters around them look. */
const JOINED = ["Arab", "Syrc", "Mong", "Deva", "Beng", "Guru", "Gujr", "Orya", "Taml", "Telu", "Knda", "Mlym", "Sinh"]
  .concat("Khmr", "Mymr", "Tibt")
  .map((script) => String.raw`\p{Script_Extensions=${script}}`)
  .join("");
/** A joiner after a letter or mark of these scripts, or between emoji. */
const JOINER = String.raw`(?<=[${JOINED}])[\u200C\u200D]|(?<=[\p{Extended_Pictographic}\p{Emoji_Modifier}\uFE0F])\u200D(?=\p{Extended_Pictographic})`;
/**
 * Control characters (C0, C1), and invisible ones that join text or change its direction: terminals would execute them,
 * and people would read another text than is stored.
 */
const CONTROL = String.raw`(?!${JOINER})[\p{Cc}\p{Cf}\u2028\u2029]`;
const HAS_CONTROLS = new RegExp(CONTROL, "u");
const CONTROLS_BUT_LINES = new RegExp(String.raw`(?![\n\t]|\r\n)${CONTROL}`, "gu");
/** Sequences that terminals execute: those of ECMA-48, and the texts that some begin. */
const TERMINAL_SEQUENCES =
  // oxlint-disable-next-line no-control-regex -- these are what it looks for
  /(?:\u001B\[|\u009B)[0-?]*[ -/]*[@-~]|(?:\u001B[\]PX^_]|[\u0090\u0098\u009D-\u009F])[^\u0007\u001B\u009C]*(?:\u0007|\u001B\\|\u009C)?|\u001B[ -/]*[0-~]/g;

export function hasControls(text: string): boolean {
  return HAS_CONTROLS.test(text);
}

/** A text from outside as people may see it: storable, on lines, without anything that a terminal executes. */
export function plainText(text: string): string {
  return storableText(text).replaceAll(TERMINAL_SEQUENCES, "").replaceAll(CONTROLS_BUT_LINES, "");
}

/** The beginning of a text, without half of a surrogate pair at its end. */
export function cutTo(text: string, length: number): string {
  return text.slice(0, length).toWellFormed();
}

/** The text with a full stop, unless it ends like a sentence. */
export function sentence(text: string): string {
  return /[.!?…]$/.test(text) ? text : `${text}.`;
}

/** A number of bytes for people. */
export function bytesText(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(1, bytes)) / 10));
  return `${(bytes / 1024 ** power).toFixed(power === 0 ? 0 : 1)} ${units[power]}`;
}
