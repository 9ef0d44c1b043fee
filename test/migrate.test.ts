/**
 * After `ostler migrate`, a role that may not change tables can run the service with the privileges that the
 * documentation lists.
 */
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import postgres from "postgres";
import { afterAll, expect, inject, test } from "vitest";
import { startService } from "../src/app.ts";
import { readConfig } from "../src/config/config.ts";
import { createLog } from "../src/log.ts";
import { migrateDatabaseOnly } from "../src/commands/migrate.ts";
import { ask, scratch, startReplica } from "./replicas/lab.ts";
import { TEST_KEYS } from "./support/keyring.ts";
import { testDatabase } from "./support/database.ts";
import { eventually } from "./support/eventually.ts";

const place = scratch();
afterAll(() => place[Symbol.dispose]());
const log = createLog("silent");
/** The privileges that docs/replicas.md lists, for a role. */
const rightsOf = (role: string) =>
  (
    /```sql\n([^`]+)```/.exec(readFileSync(new URL("../docs/replicas.md", import.meta.url), "utf8"))?.[1] ?? ""
  ).replaceAll(/ostler;/g, `${role};`);

/** An empty database, a role that owns it, and a role that owns nothing; all are dropped at the end. */
async function twoRoles() {
  await using parts = new AsyncDisposableStack();
  const [owner, guest] = ["owner", "guest"].map((what) => `ostler_${what}_${randomUUID().slice(0, 8)}`) as [
    string,
    string,
  ];
  const admin = postgres(inject("server").url, { max: 1, onnotice: () => {} });
  parts.defer(() => admin.end());
  for (const role of [owner, guest]) {
    await admin`create role ${admin(role)} login password 's3cret'`;
    parts.defer(async () => void (await admin`drop role ${admin(role)}`));
  }
  const database = parts.use(await testDatabase({ empty: true }));
  const url = (role: string) => Object.assign(new URL(database.url), { username: role, password: "s3cret" }).href;
  await admin`alter database ${admin(new URL(database.url).pathname.slice(1))} owner to ${admin(owner)}`;
  const all = parts.move();
  return {
    sql: database.sql,
    owner,
    guest,
    ownerUrl: url(owner),
    guestUrl: url(guest),
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

test("after ostler migrate a role without the right to create tables can run the service", async () => {
  await using given = await twoRoles();
  await migrateDatabaseOnly(readConfig({ DATABASE_URL: given.ownerUrl }, []), log);
  const grants = rightsOf(given.guest);
  expect(grants).toMatch(/^GRANT .*;\n$/s);
  await given.sql.unsafe(`set role ${given.owner};\n${grants}reset role;`);
  await migrateDatabaseOnly(readConfig({ DATABASE_URL: given.guestUrl }, []), log);
  await using replica = await startReplica(place.folder, { databaseUrl: given.guestUrl });
  await ask(
    replica.url,
    `mutation { registerNodes(input: { nodes: [{ name: "first", driver: { fake: {} } }] }) { errors { message } } }`,
  );
  await ask(replica.url, `mutation { commissionNodes(input: { nodes: { names: ["first"] } }) { errors { message } } }`);
  await eventually(
    "the operation ends",
    async () =>
      JSON.stringify(await ask(replica.url, "{ operations { edges { node { state } } } }")).includes("SUCCEEDED"),
    30_000,
  );
  expect((await replica.end()).code).toBe(0);
  expect(
    await given.sql`select tablename from pg_tables where schemaname in ('public', 'drizzle') and tableowner <> ${given.owner}`,
  ).toEqual([]);
}, 90_000);

test("a role that lacks a privilege gets an error that names the privilege and the remedy", async () => {
  await using given = await twoRoles();
  const config = readConfig(
    { DATABASE_URL: given.guestUrl, OSTLER_SECRET_KEYS: TEST_KEYS, OSTLER_PORT: "0", OSTLER_DRIVER_WORKERS: "0" },
    [],
  );
  const says = new RegExp(
    `^The database postgres://${given.guest}:\\*\\*\\*@.* denies this role a required privilege: permission denied for database ostler_test_\\S+\\. Make the role the owner .* listed in docs/replicas\\.md\\.$`,
  );
  await expect(migrateDatabaseOnly(config, log)).rejects.toThrow(says);
  await expect(startService(config, log)).rejects.toThrow(says);
  expect(await given.sql`select nspname from pg_namespace where nspname = 'drizzle'`).toEqual([]);
});
