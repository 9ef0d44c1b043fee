/**
 * Composed fields of lists that the database writes as JSON text: the service puts them in the places of their facts.
 * What is made of equal facts is made once for a list, so the cost does not grow with the number of nodes.
 */
import { randomBytes } from "node:crypto";
import { COMPOSED_MARK } from "../../store/json-text.ts";
import type { SelectedField } from "../../store/json-text.ts";
import type { ComposedSelection } from "./json-list-plan.ts";

/**
 * Makes the objects of a composed field, with the values that the response has. `nodeName` stands for the name of each
 * node with these facts, which replaces it later. So it may only be put into texts unchanged.
 */
export type Composer = (facts: string, nodeName: string) => readonly Readonly<Record<string, unknown>>[];

/** Stands for a node's name. It is random, so it occurs in no other text, and has no characters that JSON escapes. */
const NAME_MARK = randomBytes(16).toString("hex");

/** Texts of items with their composed fields. */
export function composeTexts(
  texts: readonly string[],
  composed: readonly ComposedSelection[],
  composerOf: (field: string) => Composer,
): readonly string[] {
  if (composed.length === 0) return texts;
  const writers = composed.map(({ field, selection }) => writerOf(composerOf(field), selection));
  return texts.map((text) => {
    const pieces = text.split(COMPOSED_MARK);
    let result = pieces[0] ?? "";
    for (let at = 1; at < pieces.length; at += 4) {
      const [index, facts = "", nodeName = "", after = ""] = pieces.slice(at, at + 4);
      result += (writers[Number(index)]?.(facts, nodeName) ?? "[]") + after;
    }
    return result;
  });
}

/** Returns the JSON text for facts and the JSON text of a name. */
function writerOf(compose: Composer, selection: readonly SelectedField[]): (facts: string, nodeName: string) => string {
  /** Texts around the node's name, by facts. */
  const made = new Map<string, readonly string[]>();
  return (facts, nodeName) => {
    let around = made.get(facts);
    if (!around) {
      const objects = compose(facts, NAME_MARK).map((object) => objectText(object, selection));
      around = `[${objects.join(",")}]`.split(NAME_MARK);
      made.set(facts, around);
    }
    // Without its quotes.
    return around.length === 1 ? (around[0] ?? "") : around.join(nodeName.slice(1, -1));
  };
}

function objectText(object: Readonly<Record<string, unknown>>, selection: readonly SelectedField[]): string {
  const members = selection.map(
    (member) =>
      `${JSON.stringify(member.key)}:${"text" in member ? member.text : JSON.stringify(object[member.field] ?? null)}`,
  );
  return `{${members.join(",")}}`;
}
