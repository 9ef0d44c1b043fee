/** Example tabs of GraphiQL: the main workflow on the demonstration fleet, one tab per step, to run in this order. */
import { readFileSync } from "node:fs";

const TEXT = readFileSync(new URL("examples.graphql", import.meta.url), "utf8");

/** Each begins with a comment, after an empty line. */
export const EXAMPLES: readonly { readonly query: string }[] = TEXT.split(/\n(?=\n#)/).map((text) => ({
  query: `${text.trim()}\n`,
}));
