/** The command `ostler` on the host of a service, with its settings, as root has them. */
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import { serviceUnderTest } from "../support/service.ts";
import { aCertificate, tlsFiles } from "../support/tls-files.ts";
import { HOME } from "./run-cli.ts";

const MAIN = fileURLToPath(new URL("../../src/main.ts", import.meta.url));
const DOCUMENT = join(HOME, "viewer.graphql");
writeFileSync(DOCUMENT, "{ viewer { subject } }");
const TOKEN = "a-token-of-some-length";
// As of an operator: it has the name of the site, and no address.
const files = tlsFiles(aCertificate({ hosts: ["ostler.example"] }));
const ostler = await serviceUnderTest({ tls: files, token: TOKEN, started: false });
afterAll(async () => {
  await ostler[Symbol.asyncDispose]();
  files[Symbol.dispose]();
});

const { port } = new URL(ostler.url);
const settings = { OSTLER_PORT: port, OSTLER_TLS_CERT: files.cert, OSTLER_TLS_KEY: files.key, OSTLER_TOKEN: TOKEN };

const command = (...args: readonly string[]) =>
  promisify(execFile)(process.execPath, [MAIN, ...args], { env: { PATH: process.env["PATH"], HOME, ...settings } });

test("with the settings of a service each command finds it, and trusts its certificate [R-1362]", async () => {
  const { stdout } = await command("query", DOCUMENT);
  expect(stdout).toContain('"subject": "token"');
});

test("completion finds it too", async () => {
  await command("clusters", "create", "own-cluster");
  // A completion waits for the service for a moment only, and then offers nothing.
  const offered = await eventually("a word is offered", async () => {
    const { stdout } = await command("__complete", "clusters", "apply", "own");
    return stdout !== "" && stdout;
  });
  expect(offered).toBe("own-cluster\n");
});

test("at another address the certificate is not trusted", async () => {
  const elsewhere = command("query", DOCUMENT, "--server", `https://localhost:${port}`);
  await expect(elsewhere).rejects.toThrow(/certificate/);
});

/** A folder of settings whose current context is a server. */
function contextOf(server: string): string {
  const folder = mkdtempSync(join(HOME, "config-"));
  mkdirSync(join(folder, "ostler"));
  const contexts = { current: "only", contexts: [{ name: "only", server }] };
  writeFileSync(join(folder, "ostler", "contexts.json"), JSON.stringify(contexts), { mode: 0o600 });
  return folder;
}

test("the token of the service on this host goes to no other server", async () => {
  const received: (string | undefined)[] = [];
  const other = createServer((request, response) => {
    received.push(request.headers.authorization);
    response.writeHead(404).end();
  });
  await new Promise<void>((listening) => void other.listen(0, "127.0.0.1", listening));
  onTestFinished(() => void other.close());
  const file = join(HOME, "own-token");
  writeFileSync(file, `${TOKEN}\n`, { mode: 0o600 });
  const env = { PATH: process.env["PATH"], HOME, OSTLER_DATA: HOME };
  const address = `http://127.0.0.1:${(other.address() as AddressInfo).port}`;
  const ask = async (more: Readonly<Record<string, string>>, ...args: readonly string[]) => {
    const asked = promisify(execFile)(process.execPath, [MAIN, "query", DOCUMENT, ...args], {
      env: { ...env, ...more },
    });
    await expect(asked).rejects.toThrow(/not Ostler/);
  };
  const own = { OSTLER_PORT: new URL(address).port };
  for (const token of [{ OSTLER_TOKEN: TOKEN }, { OSTLER_TOKEN_FILE: file }]) {
    await ask(token, "--server", address);
    await ask({ ...token, OSTLER_URL: address });
    await ask({ ...token, ...own });
    await ask({ ...token, ...own, XDG_CONFIG_HOME: contextOf(address) });
    await ask({ ...token, XDG_CONFIG_HOME: contextOf(address) });
  }
  const sent = `Bearer ${TOKEN}`;
  expect(received).toEqual([undefined, sent, sent, sent, undefined, undefined, sent, sent, sent, undefined]);
});
