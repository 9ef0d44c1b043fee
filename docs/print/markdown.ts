/** Markdown and mermaid builders for the printed pages. */

/** A page printed from code: a pure function of the tables it prints. */
export interface Page {
  /** Path from `docs/`. */
  readonly file: string;
  /** The files to edit in order to change the page. */
  readonly source: string;
  text(): string;
}

export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell) => cell.replaceAll("|", "\\|").replaceAll("\n", " ")).join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n");
}

export const code = (text: string) => `\`${text}\``;
export const codes = (texts: readonly string[]) => texts.map(code).join(", ");
export const paragraphs = (...parts: readonly string[]) => `${parts.join("\n\n")}\n`;
export const fence = (language: string, text: string) => `\`\`\`${language}\n${text.trimEnd()}\n\`\`\``;

/** A table of names and their meanings. */
export function meanings(what: string, given: Readonly<Record<string, string>>): string {
  return table(
    [what, "meaning"],
    Object.entries(given).map(([name, meaning]) => [code(name), meaning]),
  );
}

export function stateDiagram(lines: readonly string[]): string {
  return fence("mermaid", ["stateDiagram-v2", ...lines.map((line) => `    ${line}`)].join("\n"));
}

/** Groups items by key; keys and items keep the order of their first occurrence. */
export function grouped<T>(items: readonly T[], keyOf: (item: T) => string): readonly (readonly [T, ...T[]])[] {
  const groups = new Map<string, [T, ...T[]]>();
  for (const item of items) {
    const group = groups.get(keyOf(item));
    if (group) group.push(item);
    else groups.set(keyOf(item), [item]);
  }
  return [...groups.values()];
}

/** Arrows between the same two boxes are merged into one with all labels. */
export function arrows(
  edges: readonly { readonly from: string; readonly event: string; readonly to: string }[],
): readonly string[] {
  return grouped(edges, ({ from, to }) => `${from} ${to}`).map(
    (group) => `${group[0].from} --> ${group[0].to} : ${[...new Set(group.map(({ event }) => event))].join(", ")}`,
  );
}
