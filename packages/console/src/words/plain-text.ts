/** Text from machines and people, made harmless to read: what is not visible cannot hide or reverse what is. */

/** Colors and other commands to terminals: CSI, OSC, and single characters. */
const [ALERT, ESCAPE] = ["\u0007", "\u001b"];
const TERMINAL = new RegExp(
  String.raw`${ESCAPE}(?:\[[0-?]*[ -/]*[@-~]|\][^${ALERT}${ESCAPE}]*(?:${ALERT}|${ESCAPE}\\)?|[@-Z\\-_])`,
  "g",
);
/** Other controls but tab and line break, separators of lines, marks that change the direction of text, and nothing. */
const HIDDEN = /(?![\t\n])[\p{Cc}\p{Bidi_Control}\u200b\u2028\u2029\u2060\ufeff]/gu;

/** Without commands to terminals, and with `·` in place of each character that is not visible. */
export function plainText(text: string): string {
  return text.replaceAll("\r\n", "\n").replaceAll(TERMINAL, "").replaceAll(HIDDEN, "·");
}

/** `U+202E in line 3` for each character of a text that is typed, and not shown. */
export function hiddenIn(text: string): readonly string[] {
  return [...text.matchAll(HIDDEN)].map(({ 0: character, index }) => {
    const code = (character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");
    return `U+${code} in line ${text.slice(0, index).split("\n").length}`;
  });
}

/** The beginning of a long text, and the number of characters that are left out. */
export function cut(text: string, lengthMax: number): { readonly text: string; readonly left: number } {
  return text.length <= lengthMax
    ? { text, left: 0 }
    : { text: text.slice(0, lengthMax), left: text.length - lengthMax };
}
