/** Rows of the audit that no request writes: of commands, of what no answer waits for; and their end, by retention. */
import { afterAll, describe, expect, test, vi } from "vitest";
import { secretsCommand } from "../../src/commands/secrets.ts";
import { readConfig } from "../../src/config/config.ts";
import { auditRow } from "../../src/engine/audit/audit-row.ts";
import type { AuditedRequest } from "../../src/engine/audit/audit-row.ts";
import { DeniedRows } from "../../src/engine/audit/denied-rows.ts";
import { NotedRows } from "../../src/engine/audit/noted-rows.ts";
import { startRetention } from "../../src/engine/inventory/retention.ts";
import { createLog } from "../../src/log.ts";
import { auditAfter, insertAuditRows, numberAudit } from "../../src/store/log/audit.ts";
import type { NewAuditRow } from "../../src/store/log/audit.ts";
import type { AuditOutcome } from "../../src/store/log/audit-records.ts";
import { engineUnderTest } from "../support/builders.ts";
import { eventually } from "../support/eventually.ts";
import { TEST_KEYS } from "../support/keyring.ts";

const ostler = await engineUnderTest({ started: false });
afterAll(() => ostler[Symbol.asyncDispose]());

const log = createLog("silent");
const aRow = (reason: string) => auditRow({ subject: "service", action: "TEST" }, { outcome: "ACCEPTED", reason });

async function rows() {
  const { reader } = ostler.database;
  await numberAudit(reader, 1_000);
  return auditAfter(reader, { after: 0, limit: 1_000 });
}

describe("rows that no answer waits for", () => {
  test("rows are kept in their order while the database refuses them", async () => {
    const written: string[] = [];
    let refuses = true;
    const noted = new NotedRows(async (given: readonly NewAuditRow[]) => {
      if (refuses) throw new Error("the disk is full");
      written.push(...given.map(({ reason }) => reason ?? ""));
    }, log);
    noted.add(aRow("one"));
    noted.add(aRow("two"));
    refuses = false;
    noted.add(aRow("three"));
    await noted.close();
    expect(written).toEqual(["one", "two", "three"]);
  });
});

describe("rows of denials", () => {
  const login = (address: string, subject = "unknown") => ({ action: "LOGIN_FAILED", subject, address });
  const denial = (subject: string, action = "nodes") => ({ action, subject, address: "192.0.2.7" });

  /** The rows of what `ask` asks for: those that are written at once, and those of a minute that is over. */
  function written(
    ask: (admits: (request: AuditedRequest, outcome?: AuditOutcome) => void, later: () => void) => void,
  ) {
    vi.useFakeTimers();
    try {
      const made: [AuditedRequest, string | undefined][] = [];
      using denied = new DeniedRows(
        (request, { reason }) => void made.push([request, reason]),
        () => Date.now(),
      );
      ask(
        (request, outcome = "FORBIDDEN") => {
          if (denied.admits(request, { outcome, reason: "No." })) made.push([request, "No."]);
        },
        () => vi.advanceTimersByTime(65_000),
      );
      return made;
    } finally {
      vi.useRealTimers();
    }
  }

  test.each([
    ["failed logins of an address", login("192.0.2.7"), login("192.0.2.7", "account:gone"), login("192.0.2.8")],
    ["denials of a caller", denial("account:ci"), denial("account:ci", "setPower"), denial("account:other")],
  ])("a flood of %s has ten rows a minute, then the last one with their number [R-983, R-1150]", (_what, ...some) => {
    const [one, last, another] = some;
    const found = written((admits, later) => {
      for (let count = 0; count < 1_009; count += 1) admits(one);
      admits(last);
      admits(another);
      admits(one, "REFUSED");
      later();
      admits(one);
      later();
    });
    const first = Array.from({ length: 10 }, () => [one, "No."]);
    expect(found.slice(0, 12)).toEqual([...first, [another, "No."], [one, "No."]]);
    const reason = "The last of 1,000 more within a minute, which have no rows. No.";
    expect(found.slice(12)).toEqual([
      [last, reason],
      [one, "No."],
    ]);
  });

  test("the number of a minute that is not over is written when the service stops [R-1150]", () => {
    const found = written((admits) => {
      for (let count = 0; count < 12; count += 1) admits(denial("account:ci"));
    });
    expect(found.at(-1)?.[1]).toMatch(/^The last of 2 more/);
  });

  test("callers beyond those that are counted share ten rows [R-1150]", () => {
    const found = written((admits) => {
      for (let count = 0; count < 10_050; count += 1) admits(denial(`account:${count}`));
    });
    expect(found).toHaveLength(10_011);
  });
});

test("each `ostler secrets` command has a row [R-980]", async () => {
  const { connection } = ostler.test;
  const url = "url" in connection ? connection.url : ostler.test.url;
  const config = readConfig({ DATABASE_URL: url, OSTLER_SECRET_KEYS: TEST_KEYS }, []);
  const { lines } = await secretsCommand("rotate", config, createLog("silent"));
  expect(lines.join()).toContain("data key");
  expect((await rows()).at(-1)).toMatchObject({
    subject: "shell",
    transport: "NONE",
    action: "ostler secrets rotate",
    outcome: "ACCEPTED",
  });
});

test("retention deletes old rows of the audit, the oldest first [R-988]", async () => {
  const { database, test: base } = ostler;
  await database.transaction((tx) => insertAuditRows(tx, [aRow("old"), aRow("older"), aRow("new")]));
  const before = await rows();
  await base.sql`alter table audit disable trigger audit_kept`;
  await base.sql`update audit set at = at - interval '401 days' where reason is distinct from 'new'`;
  await base.sql`alter table audit enable trigger audit_kept`;
  const retention = startRetention({ database, log, days: 0, auditDays: 400 });
  await eventually("the old rows are deleted", async () => (await rows())[0]?.reason === "new");
  await retention.close();
  expect(await rows()).toEqual(before.slice(-1));
});
