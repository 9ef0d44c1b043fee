/** The ids of rows, to select other rows by. */
export function idsOf(rows: readonly { readonly id: string }[]): string[] {
  return rows.map(({ id }) => id);
}

/** The nodes of runs, or of a selection. */
export function nodeIdsOf(rows: readonly { readonly nodeId: string }[]): string[] {
  return rows.map(({ nodeId }) => nodeId);
}
