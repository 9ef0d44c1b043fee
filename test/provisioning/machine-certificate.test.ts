/** The port of the listener for machines that speaks TLS, and the certificate that the service makes for it. */
import { randomInt } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "node:tls";
import { once } from "node:events";
import { fetch } from "undici";
import { expect, test } from "vitest";
import { startService } from "../../src/app.ts";
import { readConfig } from "../../src/config/config.ts";
import { createLog } from "../../src/log.ts";
import { fingerprintOf, makeMachineCertificate } from "../../src/provisioning/machine-certificate.ts";
import { sharedCertificate } from "../../src/store/machine-certificate.ts";
import { openDatabase } from "../../src/store/postgres/database.ts";
import { machineCertificate } from "../../src/store/tables.ts";
import { testDatabase } from "../support/database.ts";
import { testKeyring } from "../support/keyring.ts";
import { AGENT, BEARER, REPORT, SESSION, startLab } from "./lab.ts";

test("agents are answered over TLS, by the certificate in the log, and HTTP in clear is refused there [R-899]", async () => {
  const reports: unknown[] = [];
  await using lab = await startLab({
    poll: async (_bearer, report) => {
      reports.push(report);
      return { do: "wait", seconds: 1 };
    },
    isOpen: async ({ session }) => session === SESSION,
  });
  const poll = { method: "POST", headers: BEARER, body: JSON.stringify(REPORT) };
  const answer = await fetch(`${lab.tlsUrl}/agent/v1/poll`, { ...poll, dispatcher: AGENT });
  expect([answer.status, await answer.json()]).toEqual([200, { do: "wait", seconds: 1 }]);
  expect(reports).toMatchObject([{ instance: REPORT.instance }]);
  const image = await fetch(`${lab.tlsUrl}/images/1b671a64-40d5-491e-99b0-da01ff1f3340`, { dispatcher: AGENT });
  expect(image.status).toBe(401);
  await expect(fetch(`${lab.tlsUrl}/agent/v1/poll`, poll)).rejects.toThrow("fetch failed");
  const clear = await fetch(`${lab.tlsUrl.replace("https", "http")}/agent/v1/poll`, poll);
  expect(clear.status).toBe(400);
});

test("replicas that make the certificate for machines at the same time share the first [R-900]", async () => {
  await using made = await testDatabase();
  await using database = await openDatabase({ connection: made.connection, connectionsMax: 4 });
  const both = Promise.withResolvers<void>();
  let making = 0;
  const make = async () => {
    making += 1;
    if (making === 2) both.resolve();
    await both.promise;
    return makeMachineCertificate();
  };
  const keyring = await testKeyring(database);
  const shared = () => sharedCertificate(database, keyring, make);
  const [one, other] = await Promise.all([shared(), shared()]);
  expect(making).toBe(2);
  expect(one).toEqual(other);
  expect(await shared()).toEqual(one);
  expect(making).toBe(2);
  const [row] = await database.reader.select().from(machineCertificate);
  expect(row?.key).toMatch(/^v1\./);
});

test("the certificate for machines stays the same when the service starts again [R-900]", async () => {
  const folder = mkdtempSync(join(tmpdir(), "ostler-machine-certificate-"));
  await using database = await testDatabase();
  const host = `127.${randomInt(1, 255)}.${randomInt(1, 255)}.${randomInt(1, 255)}`;
  const flags = { data: folder, port: "0", "database-url": database.url, "provision-host": host };
  const config = readConfig(
    { OSTLER_SECRET_KEYS: "off" },
    Object.entries(flags).map(([flag, value]) => `--${flag}=${value}`),
  );
  const lines: string[] = [];
  const log = createLog("info", { write: (line: string) => void lines.push(line) });
  const shown = async () => {
    await using service = await startService(config, log);
    expect(service.url).toMatch(/^http:/);
    const socket = connect({ host, port: 4012, rejectUnauthorized: false });
    await once(socket, "secureConnect");
    const { fingerprint256, valid_to: end } = socket.getPeerCertificate();
    socket.destroy();
    return { fingerprint: fingerprint256.replaceAll(":", "").toLowerCase(), end };
  };
  const first = await shown();
  const [row] = await database.sql`select certificate from machine_certificate`;
  expect(first).toEqual({
    fingerprint: fingerprintOf({ cert: String(row?.["certificate"]) }),
    end: "Dec 31 23:59:59 9999 GMT",
  });
  expect(await shown()).toEqual(first);
  const agents = `"agents":{"url":"https://${host}:4012","fingerprint":"${first.fingerprint}"}`;
  expect(lines.filter((line) => line.includes(agents))).toHaveLength(2);
  rmSync(folder, { recursive: true, force: true });
}, 60_000);
