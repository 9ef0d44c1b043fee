/**
 * The order in which files start: within each project, those that take long come first. Otherwise a long file that
 * starts last runs alone at the end, while the other processes have nothing to do. Vitest orders by size if it has no
 * times of an earlier run, which a fresh clone does not have.
 */
import { relative } from "node:path";
import { BaseSequencer } from "vitest/node";
import type { TestSpecification } from "vitest/node";

/** Files that take seven seconds or more, the longest first. A file that is missing here costs time, nothing else. */
export const LONG_FILES = [
  "test/engine/recoveries.test.ts",
  "test/drivers/isolation.test.ts",
  "test/main.test.ts",
  "test/packages/agent.test.ts",
  "test/engine/sweep.test.ts",
  "test/engine/abort.test.ts",
  "test/plugins/redfish-cuts.test.ts",
  "test/plugins/redfish-file-servers.test.ts",
  "test/plugins/redfish.test.ts",
  "test/plugins/redfish-clean.test.ts",
  "test/engine/timeouts.test.ts",
  "test/engine/machine-busy.test.ts",
  "test/engine/clock.test.ts",
  "test/engine/waves.test.ts",
  "test/engine/stop-restart.test.ts",
  "test/engine/group-commit.test.ts",
  "test/engine/capacity-limits.test.ts",
  "test/engine/abort-clean-up.test.ts",
  "test/engine/discovery.test.ts",
  "test/store/statement-queue.test.ts",
  "test/plugins/redfish-transport.test.ts",
  "test/store/watchdog-socket.test.ts",
  "test/engine/takeover.test.ts",
  "test/telemetry/service.test.ts",
  "test/store/embedded.test.ts",
  "test/graphql/statements.test.ts",
  "test/engine/identity.test.ts",
  "test/store/migrations.test.ts",
  "test/engine/steps.test.ts",
  "test/engine/large-admission.test.ts",
  "test/http/guards.test.ts",
  "test/engine/agent-driver.test.ts",
  "test/graphql/runs.test.ts",
  "test/engine/replicas.test.ts",
  "test/graphql/streams.test.ts",
  "test/feed/operation-changes.test.ts",
  "test/graphql/examples.test.ts",
  "test/plugins/redfish-conformance.test.ts",
  "test/http/shutdown.test.ts",
  "test/engine/troubled-slots.test.ts",
  "test/graphql/verbs.test.ts",
  "test/engine/step-log.test.ts",
  "test/clients/every-client.test.ts",
  "test/graphql/lists.test.ts",
  "test/engine/power.test.ts",
  "test/docs.test.ts",
  "test/http/server.test.ts",
  "test/engine/withdraw-abort.test.ts",
  "test/http/cuts.test.ts",
  "test/engine/forecasts.test.ts",
  "test/feed/node-stream.test.ts",
  "test/engine/maintenance.test.ts",
  "test/graphql/node-actions.test.ts",
  "test/migrate.test.ts",
  "test/feed/node-changes.test.ts",
  "test/provisioning/boot-files.test.ts",
  "test/graphql/step-log.test.ts",
  "test/engine/hold-step.test.ts",
  "test/engine/driver-fallback.test.ts",
  "test/graphql/long-lists.test.ts",
  "test/store/positions.test.ts",
  "test/graphql/plan.test.ts",
  "test/store/connection-loss.test.ts",
  "test/chaos/checker.test.ts",
  "test/engine/wait-step.test.ts",
] as const;

const PLACES = new Map<string, number>(LONG_FILES.map((file, index) => [file, index]));

export class LongestFirst extends BaseSequencer {
  /** The files of a project stand together, as vitest runs projects one after the other. */
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ moduleId }: TestSpecification) =>
      PLACES.get(relative(this.ctx.config.root, moduleId)) ?? LONG_FILES.length;
    const ofProjects = Map.groupBy(files, ({ project }) => project.name);
    return [...ofProjects.values()].flatMap((of) => of.toSorted((a, b) => place(a) - place(b)));
  }
}
