/** The service with a listener for machines: two ports that serve nothing of each other, by role, with clear errors. */
import { randomInt } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { startService } from "../../src/app.ts";
import { readConfig } from "../../src/config/config.ts";
import { createLog } from "../../src/log.ts";
import { testDatabase } from "../support/database.ts";

const folder = mkdtempSync(join(tmpdir(), "ostler-provisioning-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const POLL = { method: "POST", headers: { authorization: "Bearer x" }, body: "{}" };

/** A loopback address that no other test uses: the port of the listener is fixed. */
function freeHost(): string {
  return `127.${randomInt(1, 255)}.${randomInt(1, 255)}.${randomInt(1, 255)}`;
}

async function start(host: string, databaseUrl: string, role = "all") {
  const flags = { data: folder, port: "0", "database-url": databaseUrl, role, "provision-host": host };
  const config = readConfig(
    { OSTLER_SECRET_KEYS: "off" },
    Object.entries(flags).map(([flag, value]) => `--${flag}=${value}`),
  );
  return startService(config, createLog("silent"));
}

test("machines and the API have a port each, and neither serves anything of the other [R-470]", async () => {
  await using database = await testDatabase();
  const host = freeHost();
  const machines = `http://${host}:4010`;
  {
    await using service = await start(host, database.url);
    expect((await fetch(`${machines}/agent/v1/poll`, POLL)).status).toBe(401);
    expect(await (await fetch(`${machines}/boot/ipxe`)).text()).toContain(`set ostler-url ${machines}/boot/ipxe`);
    for (const path of ["/graphql", "/metrics", "/readyz", "/schema.graphql"])
      expect((await fetch(`${machines}${path}`)).status, path).toBe(404);
    expect((await fetch(`${service.url}/agent/v1/poll`, POLL)).status).toBe(404);
    expect((await fetch(`${service.url}/boot/ipxe`)).status).toBe(404);
  }
  await expect(fetch(`${machines}/boot/ipxe`)).rejects.toThrow("fetch failed");
});

test("the metrics of the service have the requests of machines and the refused agents [R-682]", async () => {
  await using database = await testDatabase();
  const host = freeHost();
  await using service = await start(host, database.url);
  await fetch(`http://${host}:4010/agent/v1/poll`, POLL);
  const metrics = await (await fetch(`${service.url}/metrics`)).text();
  expect(metrics).toContain('ostler_provisioning_requests_total{request="agent_poll",status="401"} 1\n');
  expect(metrics).toContain('ostler_agents_refused_total{reason="unknown"} 1\n');
  expect(metrics).toContain('ostler_provisioning_sent_bytes_total{file="image"} 0\n');
  expect(metrics).toContain('ostler_agent_sessions{state="BOOTING"} 0\n');
});

test.each([
  ["api", true],
  ["engine", false],
])("a replica with the role %s has a listener for machines: %s", async (role, listens) => {
  await using database = await testDatabase();
  const host = freeHost();
  await using service = await start(host, database.url, role);
  expect(service.url).toMatch(/^http:/);
  const answered = await fetch(`http://${host}:4010/boot/ipxe`).then(
    ({ ok }) => ok,
    () => false,
  );
  expect(answered).toBe(listens);
});

test("an address that no interface has, or a port in use, is reported before the database is opened", async () => {
  const nowhere = "postgres://ostler@127.0.0.1:1/none";
  await expect(start("192.0.2.1", nowhere)).rejects.toThrow(
    /OSTLER_PROVISION_HOST is 192\.0\.2\.1, but no network interface .* 127\.0\.0\.1/,
  );
  const host = freeHost();
  const server = createServer().listen(4010, host);
  await once(server, "listening");
  await expect(start(host, nowhere)).rejects.toThrow(/Port 4010 on .* OSTLER_PROVISION_PORT or --provision-port/);
  server.close();
});
