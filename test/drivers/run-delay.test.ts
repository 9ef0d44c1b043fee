/** For how long a process waited for a processor. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { availableParallelism } from "node:os";
import { expect, onTestFinished, test } from "vitest";
import { RunDelay } from "../../src/drivers/isolation/run-delay.ts";
import { eventually } from "../support/eventually.ts";

function busyLoop() {
  const child = spawn(process.execPath, ["--eval", "for (;;);"], { stdio: "ignore" });
  onTestFinished(() => void child.kill("SIGKILL"));
  return child;
}

test("run delay of a process grows while more processes compute than there are processors", async () => {
  const [watched] = Array.from({ length: availableParallelism() + 1 }, busyLoop);
  const delay = new RunDelay(watched?.pid);
  const before = delay.ms;
  await eventually("it has waited", () => delay.ms > before);
  watched?.kill("SIGKILL");
  if (watched) await once(watched, "exit");
  expect(delay.ms).toBeGreaterThan(before);
  delay.close();
});

test("run delay of a process that could not be started is 0", () => {
  expect(new RunDelay(undefined).ms).toBe(0);
});
