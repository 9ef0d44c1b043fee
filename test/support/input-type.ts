/** The types of inputs, for requests whose field is chosen by the test. */

/** The type of the argument `input` of a mutation, such as `CleanNodesInput` of `cleanNodes`. */
export function inputTypeOf(field: string): string {
  return `${field.slice(0, 1).toUpperCase()}${field.slice(1)}Input`;
}
