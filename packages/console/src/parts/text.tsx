/** Text of machines and people: never markup, and isolated from the direction of the text around it. */
import { plainText } from "../words/plain-text.ts";

export function Text({ children }: { readonly children: string | null | undefined }) {
  return children == null ? null : <bdi>{plainText(children)}</bdi>;
}

/** The size of text that a person has chosen in the browser, as a multiple of the usual one. */
export const TEXT_SCALE = parseFloat(getComputedStyle(document.documentElement).fontSize) / 14;
