/** An operation as the view beside the table shows it, and as the database has it. */
import type { Page } from "playwright-core";
import type postgres from "postgres";
import { sentenceCase } from "../src/fleet/states.ts";
import { linesThatDiffer, untilNone } from "./lab.ts";
import type { Lab } from "./lab.ts";

/** One line for the operation, one for each count of runs, one for each run. */
type OperationLines = readonly string[];

async function readOperation(page: Page): Promise<OperationLines> {
  const view = page.getByRole("complementary", { name: "Operation" });
  const [state, counts, names, states] = await Promise.all([
    view.getByTestId("operation-state").textContent(),
    view.locator(".run-counts li").allTextContents(),
    view.locator(".runs li b").allTextContents(),
    view.locator(".runs li .state").allTextContents(),
  ]);
  return [`operation ${state}`, ...counts, ...names.map((name, index) => `${name} ${states[index]}`)];
}

/** `id`: global ID of the operation. */
async function storedOperation(sql: postgres.Sql, id: string): Promise<OperationLines> {
  const uuid = Buffer.from(id, "base64url").toString().split(":")[1] ?? "";
  const [operation] = await sql<{ state: string }[]>`select state from operations where id = ${uuid}`;
  const runs = await sql<{ name: string; state: string }[]>`
    select node_name as name, state from runs where operation_id = ${uuid}`;
  const counts = Map.groupBy(runs, ({ state }) => state);
  return [
    `operation ${sentenceCase(operation?.state ?? "missing")}`,
    ...[...counts].map(([state, { length }]) => `${sentenceCase(state)} ${length}`),
    ...runs.map(({ name, state }) => `${name} ${sentenceCase(state)}`),
  ];
}

/** `id`: global ID of the operation that the page shows. */
export async function operationEquals(page: Page, { service, check }: Lab, id: string, title: string): Promise<void> {
  const stored = await storedOperation(service.sql, id);
  const differing = await untilNone(async () => linesThatDiffer(await readOperation(page), stored));
  check(title, differing.length === 0, differing.slice(0, 3).join("\n     ") || `${stored.length} lines`);
}
