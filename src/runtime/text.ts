/** Texts from drivers and callers, made fit to be stored and shown. */

/** Replaces the characters that PostgreSQL cannot store: U+0000 and halves of surrogate pairs. */
export function storableText(text: string): string {
  return text.toWellFormed().replaceAll("\0", "\uFFFD");
}

/** Whether a text can be stored as it is. */
export function isStorableText(text: string): boolean {
  return !text.includes("\0") && text.isWellFormed();
}

/**
 * Whether a text has a control character (C0, C1) or changes the direction of text: terminals would execute it, and
 * people would read another text than is stored.
 */
export function hasControls(text: string): boolean {
  return /[\p{Cc}\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069]/u.test(text);
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
