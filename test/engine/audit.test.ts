/** Rows of the audit that no request writes: of commands, of what no answer waits for; and their end, by retention. */
import type { IncomingMessage } from "node:http";
import { afterAll, describe, expect, test, vi } from "vitest";
import { secretsCommand } from "../../src/commands/secrets.ts";
import { readConfig } from "../../src/config/config.ts";
import { auditRow } from "../../src/engine/audit/audit-row.ts";
import { NotedRows } from "../../src/engine/audit/noted-rows.ts";
import { startRetention } from "../../src/engine/inventory/retention.ts";
import { createFailedLogins } from "../../src/http/port/failed-logins.ts";
import { createLog } from "../../src/log.ts";
import { auditAfter, insertAuditRows, numberAudit } from "../../src/store/log/audit.ts";
import type { NewAuditRow } from "../../src/store/log/audit.ts";
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

  test("a flood of failed logins has ten rows a minute, then their number [R-983]", () => {
    vi.useFakeTimers();
    try {
      const reasons: (string | undefined)[] = [];
      using logins = createFailedLogins({
        senders: { addressOf: () => "192.0.2.7" },
        log,
        noteAudit: (_request, { reason }) => void reasons.push(reason),
        now: () => Date.now(),
      });
      const request = { headers: {} } as IncomingMessage;
      const note = () => logins.note(request, "Bearer wrong", { code: "UNAUTHENTICATED", message: "Invalid token." });
      for (let count = 0; count < 1_010; count += 1) note();
      expect(reasons).toHaveLength(10);
      vi.advanceTimersByTime(65_000);
      expect(reasons.slice(10)).toEqual(["1,000 more failed logins of this address within a minute."]);
      note();
      expect(reasons).toHaveLength(12);
    } finally {
      vi.useRealTimers();
    }
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
