/** Shutdown of a replica: results of steps that end in time are stored, other runs are released at once. */
import { afterAll, expect, test } from "vitest";
import { startProxy } from "../chaos/proxy.ts";
import { testDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { wholeLog } from "../support/transition-log.ts";
import { ask, commission, entered, operationOf, register, scratch, startReplica } from "./lab.ts";
import type { Replica } from "./lab.ts";

const parts = new AsyncDisposableStack();
afterAll(() => parts.disposeAsync());

/** P19. */
const END_MS = 10_000;
const STEP = "deploy.write_image";

test("shutdown stores the results of steps that end in time and releases the others, which another replica enters without waiting for a lease [R-138]", async () => {
  const database = parts.use(await testDatabase());
  const { folder } = parts.use(scratch());
  const start = async () =>
    parts.use(
      await startReplica(folder, {
        databaseUrl: database.url,
        environment: { OSTLER_LOG: "info", OSTLER_DB_POOL: "6" },
      }),
    );
  const leaving = await start();
  await register(leaving.url, ["quick-1", "quick-2"], { steps: { [STEP]: { delayMs: 2_500 } } });
  await register(leaving.url, ["slow-1", "slow-2"], { steps: { [STEP]: { delayMs: 600_000 } } });
  const operation = await commission(leaving.url, ["quick-1", "quick-2", "slow-1", "slow-2"]);
  const inside = (replica: Replica) =>
    entered(replica.journal())
      .filter(({ step }) => step === STEP)
      .map(({ node }) => node)
      .toSorted((a, b) => a.localeCompare(b));
  await eventually("all are inside the step", () => inside(leaving).length === 4, 60_000);
  const other = await start();
  const { code, ms } = await leaving.end();
  expect(code).toBe(0);
  expect(ms).toBeLessThan(END_MS);
  await eventually("the other is inside the steps that were given back", () => inside(other).length === 2);
  const becameActive = async () =>
    (await wholeLog(other.url)).filter(({ to }) => to === "ACTIVE").map(({ nodeName }) => nodeName);
  await eventually("the others have continued", async () => (await becameActive()).length === 2, 60_000);
  expect(await becameActive()).toEqual(expect.arrayContaining(["quick-1", "quick-2"]));
  expect(inside(other)).toEqual(["slow-1", "slow-2"]);
  expect(
    (await wholeLog(other.url))
      .filter(({ event }) => event === "RECOVER")
      .map(({ nodeName }) => nodeName)
      .toSorted((a, b) => a.localeCompare(b)),
  ).toEqual(["slow-1", "slow-2"]);
  await ask(other.url, "mutation ($id: ID!) { abort(input: { work: { operationId: $id } }) { errors { message } } }", {
    id: operation,
  });
  await eventually("the rest is aborted", async () => (await operationOf(other.url, operation)).finishedAt !== null);
  expect((await other.end()).code).toBe(0);
}, 150_000);

test("a replica whose database connection stalls at shutdown exits with 0, and another replica takes over its steps", async () => {
  const database = parts.use(await testDatabase());
  const { folder } = parts.use(scratch());
  const url = new URL(database.url);
  const wire = parts.use(await startProxy(0, Number(url.port)));
  url.port = String(wire.port);
  const start = async (databaseUrl: string) =>
    parts.use(
      await startReplica(folder, { databaseUrl, environment: { OSTLER_DB_POOL: "6", OSTLER_POWER_SECONDS: "1" } }),
    );
  const leaving = await start(url.href);
  await register(leaving.url, ["long"], { steps: { [STEP]: { delayMs: 600_000 } } });
  const operation = await commission(leaving.url, ["long"]);
  await eventually("it is inside the step", () => entered(leaving.journal()).some(({ step }) => step === STEP), 60_000);
  const other = await start(database.url);
  wire.set({ dead: ["up", "down"] });
  expect(await leaving.end()).toMatchObject({ code: 0 });
  await eventually(
    "another is inside the step",
    () => entered(other.journal()).some(({ step }) => step === STEP),
    60_000,
  );
  await ask(other.url, "mutation ($id: ID!) { abort(input: { work: { operationId: $id } }) { errors { message } } }", {
    id: operation,
  });
  await eventually("it is aborted", async () => (await operationOf(other.url, operation)).finishedAt !== null);
}, 150_000);
