/** `npm run tool -- example-fleet --serve`: the page on a service with 10,000 simulated nodes, to try it by hand. */
import { once } from "node:events";
import { startFront } from "./front.ts";
import { startService } from "../../../test/console/browser/service.ts";

export async function serve(folder: string, nodes: number): Promise<void> {
  await using service = await startService();
  await service.register(nodes);
  await using front = await startFront(folder, service.url, Number(process.env["PORT"] ?? 0));
  console.log(`${nodes} nodes at ${front.url}; the API at ${service.url}/graphql. Ctrl+C ends both.`);
  await once(process, "SIGINT");
}
