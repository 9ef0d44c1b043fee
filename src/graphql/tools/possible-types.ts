/** Which types stand behind each interface and union: what a client with a normalised cache must know beforehand. */
import { isAbstractType } from "graphql";
import type { GraphQLSchema } from "graphql";

/** As text of possibleTypes.json, in the shape that Apollo's cache takes; the order does not depend on the order of files. */
export function possibleTypesText(schema: GraphQLSchema): string {
  const abstract = Object.values(schema.getTypeMap()).filter((type) => isAbstractType(type));
  const entries = abstract.map((type): [string, string[]] => [
    type.name,
    schema
      .getPossibleTypes(type)
      .map(({ name }) => name)
      .toSorted(),
  ]);
  return `${JSON.stringify(Object.fromEntries(entries.toSorted(([one], [other]) => (one < other ? -1 : 1))), null, 2)}\n`;
}
