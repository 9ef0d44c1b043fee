/** The proof by kills, without a kill: that what it asks for, and what it checks, still fits the service. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";

const KILLS = fileURLToPath(new URL("kills.ts", import.meta.url));

test("all checks of `npm run tool -- kills` pass when the service is not killed", async () => {
  const child = spawn(process.execPath, [KILLS, "--nodes", "5", "--kills", "0"], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  onTestFinished(() => void child.kill("SIGTERM"));
  const [output, [code]] = await Promise.all([text(child.stdout), once(child, "exit")]);
  expect(output).toMatch(/\n9 passed, 0 failed\n$/);
  expect(code).toBe(0);
}, 120_000);
