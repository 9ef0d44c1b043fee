/** A thousand revocations, with two replicas in processes of their own. */
import { afterAll, expect, test } from "vitest";
import { administratorOf } from "../support/accounts.ts";
import { testDatabase } from "../support/database.ts";
import { ask, register, scratch, startReplica } from "../replicas/lab.ts";
import { markingAt, raceRevocations } from "./revocation-races.ts";

const parts = new AsyncDisposableStack();
afterAll(() => parts.disposeAsync());

test("of 1,000 revocations none is followed by an accepted mutation that starts after its answer [R-976]", async () => {
  const database = parts.use(await testDatabase());
  const { folder } = parts.use(scratch());
  const start = async () =>
    parts.use(
      await startReplica(folder, {
        databaseUrl: database.url,
        environment: { OSTLER_ROLE: "api", OSTLER_LOG: "warn", OSTLER_DB_POOL: "6" },
      }),
    );
  const [one, other] = await Promise.all([start(), start()]);
  await register(one.url, ["raced"]);
  // Without a configured token a caller without one is an administrator.
  const administrator = administratorOf({ query: (text, variables) => ask(one.url, text, variables) });
  const replicas = [one, other].map(({ url }) => markingAt(url, "raced"));
  const { acceptedBefore, startedAfter, acceptedAfter } = await raceRevocations({
    administrator,
    replicas,
    tries: 1_000,
  });
  expect([startedAfter, acceptedAfter]).toEqual([4_000, 0]);
  expect(acceptedBefore).toBeGreaterThan(1_000);
}, 900_000);
