/** The columns of the list of nodes: their names, texts, and how they are sorted. */
import { marksOf } from "./nodes.ts";
import type { NodeFacts } from "./nodes.ts";
import { FAMILIES, familyOf, sentenceCase } from "./states.ts";

export interface ListedNode extends NodeFacts {
  readonly name: string;
  readonly powerState: string;
  readonly model: string | null;
  readonly hostGroup: string | null;
  readonly updatedAt: string;
  readonly cluster: { readonly name: string } | null;
}

interface NodeColumn {
  readonly name: string;
  /** A track of a grid. */
  readonly width: string;
  readonly text: (node: ListedNode) => string;
  /** The key by which it is sorted, if not by its text. */
  readonly key?: (node: ListedNode) => string;
}

export const NODE_COLUMNS = {
  name: { name: "Name", width: "minmax(140px, 1.2fr)", text: ({ name }) => name },
  state: {
    name: "State",
    width: "150px",
    text: ({ state }) => sentenceCase(state),
    // Failed ones first.
    key: ({ state }) => `${FAMILIES.indexOf(familyOf(state))} ${state}`,
  },
  cluster: { name: "Cluster", width: "minmax(90px, 0.7fr)", text: ({ cluster }) => cluster?.name ?? "" },
  power: { name: "Power", width: "90px", text: ({ powerState }) => sentenceCase(powerState) },
  group: { name: "Host group", width: "minmax(90px, 0.7fr)", text: ({ hostGroup }) => hostGroup ?? "" },
  model: { name: "Model", width: "minmax(110px, 1fr)", text: ({ model }) => model ?? "" },
  marks: { name: "Marks", width: "minmax(130px, 1.2fr)", text: (node) => marksOf(node).join(" · ") },
  error: { name: "Error", width: "minmax(150px, 2fr)", text: ({ lastError }) => lastError?.message ?? "" },
  updated: { name: "Changed", width: "130px", text: ({ updatedAt }) => updatedAt },
} as const satisfies Readonly<Record<string, NodeColumn>>;

export type NodeColumnName = keyof typeof NODE_COLUMNS;
export const NODE_COLUMN_NAMES = Object.keys(NODE_COLUMNS) as NodeColumnName[];
export const nodeColumn = (name: NodeColumnName): NodeColumn => NODE_COLUMNS[name];
const DEFAULT: readonly NodeColumnName[] = ["name", "state", "cluster", "power", "model", "marks", "error"];

const isName = (text: string): text is NodeColumnName => Object.hasOwn(NODE_COLUMNS, text);

/** The columns of an address, the name always; and the words that are none. */
export function readColumns(text: string | undefined): {
  readonly columns: readonly NodeColumnName[];
  readonly unknown: readonly string[];
} {
  if (text === undefined) return { columns: DEFAULT, unknown: [] };
  const words = text.split(",").filter((word) => word !== "");
  const chosen = words.filter(isName);
  return {
    columns: NODE_COLUMN_NAMES.filter((name) => name === "name" || chosen.includes(name)),
    unknown: words.filter((word) => !isName(word)),
  };
}

/** Null for the columns that are shown without a choice. */
export function writeColumns(columns: readonly NodeColumnName[]): string | null {
  const text = NODE_COLUMN_NAMES.filter((name) => columns.includes(name)).join(",");
  return text === DEFAULT.join(",") ? null : text;
}

export interface Sort {
  readonly by: NodeColumnName;
  readonly isDescending: boolean;
}

/** `-state`: by the state, the last first. Null if there is no such column. */
export function readSort(text: string | undefined): Sort | null {
  const by = (text ?? "name").replace(/^-/, "");
  return isName(by) ? { by, isDescending: text?.startsWith("-") ?? false } : null;
}

/** The next sort after a click on the head of a column. */
export function sortAfter({ by, isDescending }: Sort, column: NodeColumnName): string | null {
  const text = by === column && !isDescending ? `-${column}` : column;
  return text === "name" ? null : text;
}

/** Those without a value come last, and equal ones by name. */
export function compareNodes({ by, isDescending }: Sort): (a: ListedNode, b: ListedNode) => number {
  const column = nodeColumn(by);
  const keyOf = column.key ?? column.text;
  return (a, b) => {
    const [one, other] = [keyOf(a), keyOf(b)];
    if (one !== other) {
      if (one === "" || other === "") return one === "" ? 1 : -1;
      return one < other === isDescending ? 1 : -1;
    }
    return a.name < b.name ? -1 : a.name > b.name ? 1 : 0;
  };
}
