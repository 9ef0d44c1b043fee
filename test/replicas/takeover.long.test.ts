/**
 * A replica dies or is paused for longer than its leases: other replicas take over its steps, and it does nothing
 * harmful after it resumes.
 */
import { readFileSync, readdirSync } from "node:fs";
import { afterEach, beforeEach, expect, test } from "vitest";
import { testDatabase } from "../support/database.ts";
import type { TestDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { logFlaws, wholeLog } from "../support/transition-log.ts";
import { commission, entered, operationOf, register, scratch, startReplica } from "./lab.ts";
import type { Entry, Replica } from "./lab.ts";

/** P11. */
const TAKEN_OVER_MS = 45_000;

let owned: AsyncDisposableStack;
let database: TestDatabase;
let folder: string;
beforeEach(async () => {
  owned = new AsyncDisposableStack();
  database = owned.use(await testDatabase());
  ({ folder } = owned.use(scratch()));
});
afterEach(() => owned.disposeAsync());

const startOne = async (concurrency: number) =>
  owned.use(
    await startReplica(folder, {
      databaseUrl: database.url,
      environment: { OSTLER_CONCURRENCY: String(concurrency), OSTLER_LOG: "info", OSTLER_DB_POOL: "6" },
    }),
  );
const named = (count: number) => Array.from({ length: count }, (_, index) => `node-${index}`);
const insideOf = (replica: Replica, step: string) => entered(replica.journal()).filter((entry) => entry.step === step);
const attempts = (entries: readonly Entry[]) =>
  entries.map(({ attempt = "" }) => attempt).toSorted((a, b) => a.localeCompare(b));

async function succeeds(replica: Replica, operation: string): Promise<void> {
  await eventually(
    "the operation has ended",
    async () => (await operationOf(replica.url, operation)).finishedAt !== null,
    90_000,
  );
  expect((await operationOf(replica.url, operation)).state).toBe("SUCCEEDED");
}

test("after a kill of one of three replicas inside many steps, the others enter exactly these steps again [R-132]", async () => {
  const replicas = await Promise.all([startOne(4), startOne(4), startOne(4)]);
  const names = named(8);
  const [first] = replicas;
  await register(first?.url ?? "", names, { steps: { "deploy.write_image": { delayMs: 4_000 } } });
  const operation = await commission(first?.url ?? "", names);
  const victim = await eventually(
    "one is inside steps of four nodes",
    () => replicas.find((replica) => insideOf(replica, "deploy.write_image").length === 4),
    60_000,
  );
  const survivors = replicas.filter((replica) => replica !== victim);
  const at = Date.now();
  await victim.kill();
  const lost = insideOf(victim, "deploy.write_image");
  const again = () =>
    survivors
      .flatMap((replica) => insideOf(replica, "deploy.write_image"))
      .filter(({ attempt }) => lost.some((entry) => entry.attempt === attempt));
  await eventually("the others are inside them", () => again().length === 4, TAKEN_OVER_MS);
  expect(attempts(again())).toEqual(attempts(lost));
  expect(Math.max(...again().map((entry) => entry.at)) - at).toBeLessThan(TAKEN_OVER_MS);
  const [survivor] = survivors;
  if (!survivor) throw new Error("No replica is left.");
  await succeeds(survivor, operation);
  // Every other step was entered once, by any replica.
  const all = attempts(replicas.flatMap((replica) => entered(replica.journal())));
  expect(all.filter((attempt, index) => all[index - 1] === attempt)).toEqual(attempts(lost));
  const log = await wholeLog(survivor.url);
  expect(logFlaws(log)).toEqual([]);
  expect(
    log
      .filter(({ event }) => event === "RECOVER")
      .map(({ nodeName }) => nodeName)
      .toSorted((a, b) => a.localeCompare(b)),
  ).toEqual(lost.map(({ node }) => node).toSorted((a, b) => a.localeCompare(b)));
}, 180_000);

test("a replica that was paused for longer than its leases writes nothing and sends no command when it resumes [R-137]", async () => {
  const sleeper = await startOne(3);
  const names = named(3);
  // After the delay the step would set the power, a call that the replica no longer owns.
  await register(sleeper.url, names, { steps: { "deploy.boot_system": { delayMs: 8_000 } } });
  const operation = await commission(sleeper.url, names);
  await eventually(
    "all are inside the step",
    () => insideOf(sleeper, "deploy.boot_system").length === names.length,
    60_000,
  );
  sleeper.pause();
  const before = sleeper.journal();
  const other = await startOne(3);
  await eventually(
    "the other is inside the steps",
    () => insideOf(other, "deploy.boot_system").length === names.length,
    TAKEN_OVER_MS,
  );
  sleeper.wake();
  await succeeds(other, operation);
  const log = await wholeLog(other.url);
  // The replica answers again, so it had time for any wrong action.
  expect((await wholeLog(sleeper.url)).length).toBe(log.length);
  await eventually(
    "it has noticed, for each of the runs",
    () => sleeper.log().split("another replica has taken over the run").length > names.length,
  );
  expect(sleeper.journal().slice(before.length)).toEqual([]);
  expect(logFlaws(await wholeLog(other.url))).toEqual([]);
  expect(await wholeLog(other.url)).toEqual(log);
}, 180_000);

test("a replica that was paused for longer than the timeout of its driver processes fails no step when it resumes", async () => {
  const sleeper = await startOne(3);
  const names = named(3);
  await register(sleeper.url, names, { steps: { "deploy.boot_system": { delayMs: 14_000 } } });
  const operation = await commission(sleeper.url, names);
  await eventually(
    "all are inside the step",
    () => insideOf(sleeper, "deploy.boot_system").length === names.length,
    60_000,
  );
  const before = aliveBelow(sleeper.pid).length;
  sleeper.pause();
  await eventually(
    "the processes that have a call have ended",
    () => aliveBelow(sleeper.pid).length <= before - names.length,
    30_000,
  );
  sleeper.wake();
  await succeeds(sleeper, operation);
  const entries = insideOf(sleeper, "deploy.boot_system");
  expect(entries.length).toBe(2 * names.length);
  // The attempts are the same, so none of them failed.
  expect(new Set(attempts(entries)).size).toBe(names.length);
  expect(logFlaws(await wholeLog(sleeper.url))).toEqual([]);
}, 180_000);

/** Child processes of this process that have not ended or have not been waited for. */
function aliveBelow(pid: number): string[] {
  return readdirSync("/proc").filter((name) => {
    if (!/^\d+$/.test(name)) return false;
    try {
      const [state, parent] = readFileSync(`/proc/${name}/stat`, "utf8")
        .replace(/^.*\) /, "")
        .split(" ");
      return state !== "Z" && Number(parent) === pid;
    } catch {
      // The process has ended since.
      return false;
    }
  });
}
