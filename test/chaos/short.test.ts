/**
 * The short chaos run, as it is by hand: replicas of their own, PostgreSQL of their own, everything that can happen to them for
 * two minutes, then the checker. The seed makes the plan; how far each thing comes depends on the machine.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";

const CHAOS = fileURLToPath(new URL("chaos.ts", import.meta.url));
const SEED = 20_261_121;
/** The storm, the quiet after it, in which what hangs has to meet its deadline, and the check. */
const MOST_MS = 900_000;

test(
  `two minutes of chaos keep every promise (seed ${SEED})`,
  async () => {
    const child = spawn(process.execPath, [CHAOS, "--seed", String(SEED), "--minutes", "2", "--nodes", "150", "--streams", "10"], { stdio: ["ignore", "pipe", "pipe"] });
    onTestFinished(() => void child.kill("SIGTERM"));
    const [said, complained, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "exit") as Promise<[number | null]>]);
    console.log(said);
    expect({ code, complained }, said).toEqual({ code: 0, complained: "" });
  },
  MOST_MS,
);
