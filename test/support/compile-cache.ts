/**
 * Runs in the process of each test file. vitest.config.ts names a folder for compiled modules in NODE_COMPILE_CACHE,
 * which halves the CPU time to load the service, here and in the processes that tests start. Node writes to it when a
 * process exits; the runner ends its processes by a signal.
 */
import { flushCompileCache } from "node:module";
import { afterAll } from "vitest";

afterAll(() => flushCompileCache());
