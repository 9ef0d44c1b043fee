/** Text of machines and people: never markup, and isolated from the direction of the text around it. */
import { plainText } from "../words/plain-text.ts";

export function Text({ children }: { readonly children: string | null | undefined }) {
  return children == null ? null : <bdi>{plainText(children)}</bdi>;
}
