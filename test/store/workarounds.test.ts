/**
 * The workarounds in src/store/postgres depend on undocumented behavior of exact versions of libraries.
 * When a version changes, check what the test names, run the tests that it names, and then change the version here.
 */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

const installed = (name: string): string => {
  const manifest = new URL(`../../node_modules/${name}/package.json`, import.meta.url);
  return (JSON.parse(readFileSync(manifest, "utf8")) as { readonly version: string }).version;
};

const CHECKED = [
  {
    name: "postgres",
    version: "3.4.9",
    workaround: "statement-queue.ts",
    check:
      "a query still has handler, resolve, reject and canceller, and statements are still sent to busy connections (issues 747, 1036); run test/store/statement-queue.test.ts",
  },
  {
    name: "postgres",
    version: "3.4.9",
    workaround: "watchdog-socket.ts",
    check:
      "a silent connection still has no timeout (issue 1089), a closed one still keeps its write timer (pull requests 1168, 1215), and the options still parse host, port, path, ssl and sslnegotiation; run test/store/watchdog-socket.test.ts",
  },
  {
    name: "postgres",
    version: "3.4.9",
    workaround: "transaction-loss.ts",
    check:
      "COMMIT and ROLLBACK are still written after a loss (issues 1133, 1204, 1208, 1216; pull request 1215); run test/store/connection-loss.test.ts",
  },
  {
    name: "postgres",
    version: "3.4.9",
    workaround: "prepared-statements.ts",
    check:
      "a prepared statement still cannot be dropped, and a connection still lives an hour at most; run test/store/prepared-statements.test.ts",
  },
  {
    name: "postgres",
    version: "3.4.9",
    workaround: "newest-connection.ts",
    check:
      "idle connections are still used in turn, BEGIN still has the option onexecute, and a connection still has queue and idleTimer; run test/store/pools.test.ts",
  },
  {
    name: "postgres",
    version: "3.4.9",
    workaround: "max_pipeline in connect.ts",
    check:
      "a BEGIN that fills a pipeline is still not reserved (issues 823, 1189, 1210; pull requests 1211, 1218); run test/store/pipeline.test.ts without the option",
  },
  {
    name: "postgres",
    version: "3.4.9",
    workaround: "array-types.ts and fetch_types in connect.ts",
    check:
      "a new connection still reads the types of the server, and its loss meanwhile still rejects a promise without a receiver; run test/store/database.test.ts without the option",
  },
  {
    name: "postgres",
    version: "3.4.9",
    workaround: "lazy-snapshot.ts",
    check:
      "a statement of a transaction that waits behind another is still never settled if the connection is lost; run test/store/statement-queue.test.ts without the race in lazy-snapshot.ts",
  },
  {
    name: "drizzle-orm",
    version: "1.0.0-rc.5",
    workaround: "statements.ts and prepared-statements.ts",
    check:
      "queries are still sent unprepared (issue 6096), and session.client and dialect.sqlToQuery still exist; run test/store/prepared-statements.test.ts",
  },
] as const;

test.each(CHECKED)(
  "the workaround $workaround was checked with the installed version of $name",
  ({ name, version, workaround, check }) => {
    expect(
      installed(name),
      `${name} changed. For the workaround ${workaround}, check whether ${check}. Remove the workaround if it has no reason left; otherwise change the version in this test.`,
    ).toBe(version);
  },
);
