/**
 * Tests run in three tiers; the name of a file decides its tier.
 *
 * - `fast`: `*.test.ts`. Everything that a change needs. `npm test` runs it, as three projects: `fast-shared` runs the
 *   files of the engine, the store and the feed in processes that they share, `fast-served` those of the API and the
 *   drivers, which saves loading and optimizing the modules for each file: 1.5 s of CPU time. `fast` runs every other
 *   file in a process of its own.
 * - `long`: `*.long.test.ts`. Real replicas that are killed, chaos, random models, code generators of clients.
 *   `npm run test:all` runs it, beside programs that have no test runner.
 * - `tcp`: the files of `fast` that depend on the database connection, over TCP, as an external server is reached. The
 *   others reach a throw-away embedded PostgreSQL on its Unix socket. `npm run test:all` runs it.
 *
 * `npm test -- test/engine/abort.test.ts` runs one file. TEST_DATABASE_URL names another server.
 * Tests that need real or simulated hardware have a configuration of their own: vitest.hardware.config.ts.
 *
 * Node runs the modules, as it does in the service; Vite does not transform them.
 */
import { fileURLToPath } from "node:url";
import { configDefaults, defineConfig } from "vitest/config";
import { LongestFirst } from "./test/support/longest-first.ts";

const LONG = "test/**/*.long.test.ts";
const HARDWARE = "test/hardware/**";
/** These leave nothing behind in their process: no global, no schema, no environment. */
const SHARED = "test/{access,engine,feed,lifecycle,runtime,store}/**/*.test.ts";
/** The same, with a service or a driver. Files that replace a module, the clock or the directory are left out. */
const SERVED = [
  "test/graphql/!(resource|schema|shared-events).test.ts",
  "test/http/!(event-budget|joined-writes|stalled).test.ts",
  "test/drivers/!(isolation|memory|plugin-module).test.ts",
  "test/plugins/**/!(ipmi-presence).test.ts",
  "test/client/!(silent-server).test.ts",
  "test/{clients,commands,packages,provisioning,telemetry}/**/*.test.ts",
];
/** These start servers of their own, or do not depend on the connection. */
const SOCKET_ONLY = ["test/store/embedded.test.ts", "test/store/plans.test.ts"];

// Inherited by the processes of the tests, and by those that they start.
process.env["NODE_COMPILE_CACHE"] ??= fileURLToPath(new URL("node_modules/.cache/ostler-tests", import.meta.url));

export default defineConfig({
  test: {
    globalSetup: ["test/support/global-setup.ts"],
    setupFiles: ["test/support/compile-cache.ts"],
    pool: "forks",
    // More than two cores can run: the tests of the engine wait for timers half of their time.
    maxWorkers: 5,
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        extends: true,
        test: {
          name: "fast",
          include: ["test/**/*.test.ts"],
          exclude: [...configDefaults.exclude, HARDWARE, LONG, SHARED, ...SERVED],
          provide: { reachedBy: "socket" },
        },
      },
      {
        extends: true,
        test: {
          name: "fast-shared",
          include: [SHARED],
          exclude: [...configDefaults.exclude, LONG],
          isolate: false,
          provide: { reachedBy: "socket" },
        },
      },
      {
        extends: true,
        test: {
          name: "fast-served",
          include: SERVED,
          exclude: [...configDefaults.exclude, LONG],
          isolate: false,
          provide: { reachedBy: "socket" },
        },
      },
      {
        extends: true,
        test: {
          name: "long",
          include: [LONG],
          exclude: [...configDefaults.exclude, HARDWARE],
          provide: { reachedBy: "socket" },
        },
      },
      {
        extends: true,
        test: {
          name: "tcp",
          include: ["test/{store,engine,feed}/**/*.test.ts"],
          exclude: [...configDefaults.exclude, LONG, ...SOCKET_ONLY],
          provide: { reachedBy: "tcp" },
        },
      },
    ],
    testTimeout: 40_000,
    hookTimeout: 30_000,
    teardownTimeout: 20_000,
    // A test that passes only on its second attempt has failed.
    retry: 0,
    experimental: { viteModuleRunner: false },
  },
});
