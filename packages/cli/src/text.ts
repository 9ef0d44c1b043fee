/** Texts for terminals: without control characters, in columns, with times and durations for people. */

/** C0 and C1 controls, line separators, and marks that change the direction of text. */
const CONTROLS = /[\p{Cc}\p{Bidi_Control}\u2028\u2029]/gu;

function escaped(character: string): string {
  const code = character.charCodeAt(0);
  return code < 256 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
}

/** The text on one line, with control characters as `\x1b`. */
export function safe(text: string): string {
  return text.replaceAll(CONTROLS, escaped);
}

/** JSON in which every control character is escaped. */
export function safeJson(value: unknown, indent?: number): string {
  const text = JSON.stringify(value, null, indent) ?? "null";
  return text.replaceAll(CONTROLS, (character) =>
    // Line breaks here are those of the indentation.
    character === "\n" ? character : `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

export type Color = "red" | "green" | "yellow";
const CODES: Readonly<Record<Color, number>> = { red: 31, green: 32, yellow: 33 };

export function paint(text: string, color: Color | null): string {
  return color === null ? text : `\u001b[${CODES[color]}m${text}\u001b[0m`;
}

export function stateColor(state: string): Color | null {
  if (/FAILED|ERROR|ABORT/.test(state)) return "red";
  if (/^(ACTIVE|SUCCEEDED|OPERATIONAL)$/.test(state)) return "green";
  return /ING$|_WAIT$|_HOLD$|^STOPPED$|QUEUED/.test(state) ? "yellow" : null;
}

export interface TableStyle {
  /** Columns of the terminal; infinite elsewhere. */
  readonly width: number;
  readonly hasColor: boolean;
  readonly hasHeader: boolean;
}

/** Rows in columns, cut at the width. */
export function table(head: readonly string[], rows: readonly (readonly string[])[], style: TableStyle): string {
  const all = [...(style.hasHeader ? [head] : []), ...rows].map((row) => row.map(safe));
  const widths = head.map((_, column) => Math.max(...all.map((row) => lengthOf(row[column] ?? "")), 0));
  const lines = all.map((row, index) => {
    let left = style.width;
    const cells = row.map((cell, column) => {
      const padded = column === row.length - 1 ? cell : cell + " ".repeat((widths[column] ?? 0) - lengthOf(cell) + 2);
      const shown = cut(padded, left);
      left -= lengthOf(shown);
      const isState = style.hasColor && head[column] === "STATE" && !(style.hasHeader && index === 0);
      return isState ? paint(shown, stateColor(cell)) : shown;
    });
    return cells.join("").trimEnd();
  });
  return lines.map((line) => `${line}\n`).join("");
}

export function lengthOf(text: string): number {
  return Array.from(text).length;
}

export function cut(text: string, width: number): string {
  if (lengthOf(text) <= width) return text;
  return width <= 1
    ? ""
    : `${Array.from(text)
        .slice(0, width - 1)
        .join("")}…`;
}

export function durationText(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 90) return `${whole} s`;
  if (whole < 5400) return `${Math.round(whole / 60)} min`;
  return whole < 172_800 ? `${Math.round(whole / 3600)} h` : `${Math.round(whole / 86_400)} d`;
}

/** A time for people, relative to now; RFC 3339 for programs. */
export function timeText(time: string | null | undefined, isTerminal: boolean): string {
  if (time == null) return "";
  return isTerminal ? `${durationText((Date.now() - Date.parse(time)) / 1000)} ago` : time;
}

export function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
