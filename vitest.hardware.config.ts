/** `npm run tool -- hardware-tests`: tests that need programs or machines which a plain checkout does not have. */
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/hardware/**/*.test.ts"],
    pool: "forks",
    fileParallelism: false,
    testTimeout: 120_000,
    hookTimeout: 60_000,
    experimental: { viteModuleRunner: false },
  },
});
