/** The table as the page shows it, read row by row from the document, and as the database has it. */
import type { Page } from "playwright-core";
import type postgres from "postgres";
import { sentenceCase } from "../src/fleet/states.ts";

/** Name of the node → its cells, joined. */
export type Cells = ReadonlyMap<string, string>;

/** Scrolls through the whole table, as a reader does: only rows in view are in the document. */
export async function readTable(page: Page): Promise<Cells> {
  const rows = await page.evaluate(async () => {
    const table = document.querySelector(".table");
    if (!table) throw new Error("There is no table.");
    const found: [string, string][] = [];
    const painted = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    for (let top = 0; ; top += table.clientHeight - 60) {
      table.scrollTop = top;
      await painted();
      for (const row of table.querySelectorAll("[data-id]")) {
        const cells = [...row.querySelectorAll('[role="cell"]')].slice(1).map(({ textContent }) => textContent.trim());
        found.push([cells[0] ?? "", cells.join(" | ")]);
      }
      if (top + table.clientHeight >= table.scrollHeight) break;
    }
    table.scrollTop = 0;
    return found;
  });
  return new Map(rows);
}

interface StoredNode {
  readonly name: string;
  readonly state: string;
  readonly cluster: string | null;
  readonly power: string;
  readonly wanted: string | null;
  readonly model: string | null;
  readonly maintenance: string | null;
  readonly fault: string | null;
  readonly presence: string;
  readonly protected: boolean;
  readonly retired: string | null;
  readonly error: { readonly message: string } | null;
}

/** While nothing runs: the notes of a run that waits are not stored as the table shows them. */
export async function storedTable(sql: postgres.Sql): Promise<Cells> {
  const nodes = await sql<StoredNode[]>`
    select n.name, n.state, c.name as cluster, n.power_state as power, n.wanted_power as wanted, n.model,
      n.maintenance_reason as maintenance, n.fault_message as fault, n.presence, n.is_protected as protected,
      n.retired_reason as retired, n.last_error as error
    from nodes n left join clusters c on c.id = n.cluster_id`;
  return new Map(nodes.map((node) => [node.name, cellsOf(node).join(" | ")]));
}

function cellsOf(node: StoredNode): readonly string[] {
  const hasDrift = node.wanted !== null && node.power !== "UNKNOWN" && node.power !== node.wanted;
  const notes = [
    node.maintenance !== null && `Maintenance: ${node.maintenance}`,
    node.fault !== null && `Fault: ${node.fault}`,
    node.presence === "DISAPPEARED" && "Disappeared",
    node.protected && "Protected",
    node.retired !== null && "Retired",
    node.error?.message,
  ].filter((note) => typeof note === "string");
  return [
    node.name,
    sentenceCase(node.state),
    node.cluster ?? "",
    `${sentenceCase(node.power)}${hasDrift ? " ≠" : ""}`,
    node.model ?? "",
    notes.join(" · "),
  ];
}

/** One line for each row that differs. */
export function differences(shown: Cells, stored: Cells): readonly string[] {
  return [...new Set([...shown.keys(), ...stored.keys()])].flatMap((name) =>
    shown.get(name) === stored.get(name)
      ? []
      : [`shown: ${shown.get(name) ?? "–"}; stored: ${stored.get(name) ?? "–"}`],
  );
}
