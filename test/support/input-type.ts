/** The types of inputs, as schema.graphql has them, for requests whose field is chosen by the test. */
import { readFileSync } from "node:fs";

const SCHEMA = readFileSync(new URL("../../schema.graphql", import.meta.url), "utf8");

/** The type of the argument `input` of a root field, such as `CleanNodesInput` of `cleanNodes`. */
export function inputTypeOf(field: string): string {
  const type = new RegExp(`^ {2}${field}\\((?:\\s|"""[^]*?""")*input: (\\w+)!`, "m").exec(SCHEMA)?.[1];
  if (type === undefined) throw new Error(`schema.graphql has no field ${field} with an input.`);
  return type;
}
