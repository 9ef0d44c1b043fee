/**
 * `vitest run`: every test, against a throw-away embedded PostgreSQL on its socket (project `embedded`); those that
 * touch a database once more through TCP, as a served one is reached (project `served`). TEST_DATABASE_URL takes
 * another server. Tests that need real or simulated hardware have a configuration of their own.
 *
 * Modules are run by Node itself, as the service is, not by Vite.
 */
import { configDefaults, defineConfig } from "vitest/config";

const HARDWARE = "test/hardware/**";
/** Starts servers of its own, or takes long and asks nothing that depends on how the server is reached. */
const EMBEDDED_ALONE = ["test/store/embedded.test.ts", "test/store/plans.test.ts", "test/engine/{races,model}.test.ts"];

export default defineConfig({
  test: {
    globalSetup: ["test/support/global-setup.ts"],
    pool: "forks",
    maxWorkers: 2,
    projects: [
      {
        extends: true,
        test: {
          name: "embedded",
          include: ["test/**/*.test.ts"],
          exclude: [...configDefaults.exclude, HARDWARE],
          provide: { reachedBy: "socket" },
        },
      },
      {
        extends: true,
        test: {
          name: "served",
          include: ["test/{store,engine,feed}/**/*.test.ts"],
          exclude: [...configDefaults.exclude, ...EMBEDDED_ALONE],
          provide: { reachedBy: "tcp" },
        },
      },
    ],
    testTimeout: 40_000,
    hookTimeout: 30_000,
    teardownTimeout: 20_000,
    // A test that is green only at the second try is red.
    retry: 0,
    experimental: { viteModuleRunner: false },
  },
});
