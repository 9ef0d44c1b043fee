/** Subject `admission`: one mutation that commissions a whole fleet, over HTTP, from the request to the response. */
import { startService } from "../src/app.ts";
import { readConfig } from "../src/config.ts";
import { createLog } from "../src/log.ts";
import { median, printTable, shown } from "./figures.ts";
import { PLUGIN, registerFleet } from "./fleet.ts";
import type { Testbed } from "./testbed.ts";

const MUTATION =
  "mutation { commissionNodes(input: { nodes: { all: true } }) { operation { uuid totalCount } errors { code message } } }";

export async function measureAdmission(
  testbed: Testbed,
  { nodes, rounds }: { readonly nodes: readonly number[]; readonly rounds: number },
): Promise<void> {
  const rows: string[][] = [];
  for (const count of nodes) {
    const all: number[] = [];
    for (let round = 1; round <= rounds; round += 1) all.push(await admissionMs(testbed, count));
    rows.push([
      String(count),
      shown(median(all), 0),
      shown((median(all) / count) * 1000, 0),
      all.map((one) => one.toFixed(0)).join(" "),
    ]);
  }
  console.log(`  one commissionNodes on all nodes, over HTTP; medians of ${rounds}`);
  printTable(["nodes", "ms", "µs/node", "ms per round"], rows);
}

async function admissionMs(testbed: Testbed, count: number): Promise<number> {
  await using made = await testbed.database("served");
  if (!("url" in made.connection)) throw new Error("A served database has a URL.");
  const config = readConfig(
    { DATABASE_URL: made.connection.url, OSTLER_PLUGINS: PLUGIN, OSTLER_PORT: "0", OSTLER_CONCURRENCY: "1" },
    [],
  );
  await using service = await startService(config, createLog("error"));
  await registerFleet(service.engine, count);
  const post = async (query: string) => {
    const response = await fetch(`${service.url}/graphql`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ query }),
    });
    return (await response.json()) as { data: { commissionNodes?: { operation: { totalCount: number } | null } } };
  };
  await post("{ __typename }");
  const start = performance.now();
  const { data } = await post(MUTATION);
  const milliseconds = performance.now() - start;
  if (data.commissionNodes?.operation?.totalCount !== count)
    throw new Error(`Fewer than ${count} nodes were admitted: ${JSON.stringify(data)}`);
  return milliseconds;
}
