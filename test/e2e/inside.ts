/** The end-to-end test itself, started by e2e.ts within namespaces of its own. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startLab } from "./lab/lab.ts";
import { switchOff } from "./lab/nodes.ts";
import { createReport, keepReporting } from "./lab/report.ts";
import { interruption } from "./namespace.ts";
import type { Artifacts } from "./prepare.ts";
import { SCENARIOS, registerAll } from "./scenarios.ts";

interface Order {
  readonly names: readonly string[];
  readonly keep: boolean;
  readonly artifacts: Artifacts;
}

const order = JSON.parse(process.argv[2] ?? "{}") as Order;
const report = createReport();
const parts = new AsyncDisposableStack();
const folder = mkdtempSync(join(tmpdir(), "ostler-e2e-"));

async function main(): Promise<void> {
  const chosen = SCENARIOS.filter(({ name }) => order.names.includes(name));
  const withService = chosen.some(({ name }) => name !== "machines");
  const starting = keepReporting("starting the machines");
  const withPlays = chosen.some(({ name }) => name === "plays");
  const lab = await startLab({ folder, artifacts: order.artifacts, report, withService, withPlays }, parts);
  if (withService) await registerAll(lab);
  starting[Symbol.dispose]();
  for (const { name, about, run } of chosen) {
    using _ = keepReporting(name);
    await report.scenario(`${name}: ${about}`, () => run(lab));
    if (withService) await switchOff(lab.api, lab.machines).catch((error: unknown) => report.note(String(error)));
  }
}

try {
  await Promise.race([main(), interruption()]);
} catch (error) {
  report.check(error instanceof Error ? error.message : String(error), false);
}
await parts.disposeAsync().catch((error: unknown) => report.check(`everything is ended: ${String(error)}`, false));
if (order.keep) console.log(`\nFiles are in ${folder}`);
else rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
const { passed, failed } = report.counts();
console.log(`\n${report.summary()}\n\n${passed} passed, ${failed} failed`);
// Exit explicitly: after an interruption, promises can still be pending.
process.exit(failed === 0 && passed > 0 ? 0 : 1);
