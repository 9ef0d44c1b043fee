/** The demonstration fleet of `npm run demo`: simulated nodes in two clusters, slow enough to watch. */
import { countNodes } from "../store/nodes/nodes.ts";
import type { Reader } from "../store/postgres/database.ts";
import type { Engine } from "../engine/engine.ts";
import type { NewNode } from "../engine/inventory/node-settings.ts";
import type { Log } from "../log.ts";

const CALLER = { actor: "demonstration", project: "default", scope: "ADMIN" as const };
/** Nodes per cluster in the host group `service-master`; the others are workers. */
const MASTERS = 3;
const SETTINGS = { delayMs: 1_200, waitSeconds: 3 };

function fleet(cluster: string, count: number, room: string): NewNode[] {
  return Array.from({ length: count }, (_, index) => ({
    name: `${cluster}-${String(index + 1).padStart(2, "0")}`,
    driver: "fake",
    settings: { ...SETTINGS, delayMs: SETTINGS.delayMs + 150 * index },
    labels: { room },
    hostGroup: index < MASTERS ? "service-master" : "service-worker",
    cluster: { name: cluster },
  }));
}

/** Registers the fleet if the service has no nodes. */
export async function registerDemonstrationFleet(engine: Engine, reader: Reader, log: Log): Promise<void> {
  if ((await countNodes(reader, undefined)) > 0) return;
  await engine.createCluster(CALLER, { name: "berlin", variables: { ntp: "10.0.0.1", image: "debian-12" } });
  await engine.createCluster(CALLER, { name: "oslo", variables: { image: "debian-12" } });
  const nodes = [...fleet("berlin", 12, "1"), ...fleet("oslo", 8, "2")];
  const { refusals } = await engine.registerNodes(CALLER, nodes);
  if (refusals.length > 0)
    throw new Error(`The demonstration fleet needs the fake driver: ${refusals[0]?.message ?? ""}`);
  log.info({ nodes: nodes.length, clusters: ["berlin", "oslo"] }, "demonstration fleet registered");
}
