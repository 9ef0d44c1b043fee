/** Text from machines and people, made harmless to read: what is not visible cannot hide or reverse what is. */

/** Colors and other commands to terminals: CSI, OSC, and single characters. */
const [ALERT, ESCAPE] = ["\u0007", "\u001b"];
const TERMINAL = new RegExp(
  String.raw`${ESCAPE}(?:\[[0-?]*[ -/]*[@-~]|\][^${ALERT}${ESCAPE}]*(?:${ALERT}|${ESCAPE}\\)?|[@-Z\\-_])`,
  "g",
);
/** Other controls but tab and line break, separators of lines, and marks that change the direction of text. */
const HIDDEN = /(?![\t\n])[\p{Cc}\p{Bidi_Control}\u2028\u2029\ufeff]/gu;

/** Without commands to terminals, and with `·` in place of each character that is not visible. */
export function plainText(text: string): string {
  return text.replaceAll("\r\n", "\n").replaceAll(TERMINAL, "").replaceAll(HIDDEN, "·");
}

/** The beginning of a long text, and the number of characters that are left out. */
export function cut(text: string, lengthMax: number): { readonly text: string; readonly left: number } {
  return text.length <= lengthMax
    ? { text, left: 0 }
    : { text: text.slice(0, lengthMax), left: text.length - lengthMax };
}
