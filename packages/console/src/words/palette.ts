/** The entries of the palette for a text: verbs on the selection, screens, nodes, clusters, operations. */

export interface PaletteEntry {
  readonly kind: "Verb" | "Screen" | "Node" | "Cluster" | "Operation";
  readonly label: string;
  /** Path of a screen, or action of a verb. */
  readonly target: string;
}

/** Of each kind. */
const OFFERED = 8;

/** Entries that begin with the text, then entries that contain all its words, each in their order. */
export function paletteMatches(text: string, entries: Iterable<PaletteEntry>): readonly PaletteEntry[] {
  const wanted = text.trim().toLowerCase();
  const words = wanted.split(/\s+/);
  const begin: PaletteEntry[] = [];
  const contain: PaletteEntry[] = [];
  for (const entry of entries) {
    const label = entry.label.toLowerCase();
    if (label.startsWith(wanted)) begin.push(entry);
    else if (words.every((word) => label.includes(word))) contain.push(entry);
  }
  const counts = new Map<string, number>();
  return [...begin, ...contain].filter(({ kind }) => {
    const count = (counts.get(kind) ?? 0) + 1;
    counts.set(kind, count);
    return count <= OFFERED;
  });
}
