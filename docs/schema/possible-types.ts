/** The object types of each interface and union. Clients with a normalized cache need them in advance. */
import { isAbstractType } from "graphql";
import type { GraphQLSchema } from "graphql";

/**
 * The text of possibleTypes.json in the format of Apollo's cache, sorted so that it does not depend on the order of
 * files.
 */
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
