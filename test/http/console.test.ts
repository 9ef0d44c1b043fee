/** The web console as the service serves it: its files, their policy, and the answer without a build. */
import { request } from "node:http";
import type { IncomingHttpHeaders } from "node:http";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { serviceUnderTest } from "../support/service.ts";

const folder = mkdtempSync(join(tmpdir(), "ostler-console-"));
const PAGE = "<!doctype html><title>Ostler</title>";
const ostler = await serviceUnderTest({ started: false, consoleFolder: folder, token: "correct-horse-battery" });
afterAll(async () => {
  await ostler[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
});

beforeEach(() => {
  rmSync(join(folder, "dist"), { recursive: true, force: true });
  rmSync(join(folder, "build-error.txt"), { force: true });
  mkdirSync(join(folder, "dist/assets"), { recursive: true });
  writeFileSync(join(folder, "dist/index.html"), PAGE);
  writeFileSync(join(folder, "dist/assets/a-1.js"), "whole");
  writeFileSync(join(folder, "dist/assets/a-1.js.br"), "as brotli");
  writeFileSync(join(folder, "dist/assets/a-1.js.gz"), "as gzip");
  writeFileSync(join(folder, "dist/sources.txt"), "hash");
});

const HTML = { accept: "text/html,*/*" };
const get = (path: string, headers: Readonly<Record<string, string>> = {}, method = "GET") =>
  fetch(ostler.url + path, { headers, method, redirect: "manual" });

/** With the path as it is: `fetch` would resolve `..`. */
async function getRaw(path: string, headers: Readonly<Record<string, string>> = {}) {
  const { promise, resolve, reject } = Promise.withResolvers<{
    status: number;
    headers: IncomingHttpHeaders;
    body: string;
  }>();
  const sent = request(ostler.url, { path, headers }, (answer) => {
    text(answer).then((body) => resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body }), reject);
  });
  sent.on("error", reject).end();
  return promise;
}

describe("the web console", () => {
  test.each(["/console/", "/console/nodes/rack3.u12", "/console/any/thing", "/console/%00", "/console/nodes?filter=a"])(
    "%s is the page, without a token, with a policy that allows nothing of another host [R-1170]",
    async (path) => {
      const answer = await get(path);
      expect(answer.status).toBe(200);
      expect(await answer.text()).toBe(PAGE);
      expect(answer.headers.get("content-type")).toBe("text/html; charset=utf-8");
      const policy = answer.headers.get("content-security-policy") ?? "";
      expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self'");
      expect(policy).toContain("connect-src 'self'");
      expect(policy).toContain("require-trusted-types-for 'script'");
      expect(policy).not.toMatch(/unsafe|https?:|\*/);
    },
  );

  test("the page is revalidated, and a new build is served at once", async () => {
    const first = await get("/console/");
    const tag = first.headers.get("etag") ?? "";
    expect(first.headers.get("cache-control")).toBe("no-cache");
    // The client of Node answers from no cache.
    expect((await get("/console/", { "if-none-match": tag })).status).toBe(304);
    writeFileSync(join(folder, "dist/index.html"), `${PAGE}2`);
    const second = await get("/console/", { "if-none-match": tag });
    expect([second.status, await second.text()]).toEqual([200, `${PAGE}2`]);
  });

  test.each([
    ["br", "br", "as brotli"],
    ["gzip, deflate", "gzip", "as gzip"],
    ["identity", null, "whole"],
  ])("a file is sent as %s, and never asked for again", async (accepted, encoding, content) => {
    const answer = await getRaw("/console/assets/a-1.js", { "accept-encoding": accepted });
    expect(answer.status).toBe(200);
    expect(answer.headers["content-encoding"] ?? null).toBe(encoding);
    expect(answer.body).toBe(content);
    expect(answer.headers["cache-control"]).toBe("public, max-age=31536000, immutable");
    expect(answer.headers["vary"]).toBe("accept-encoding");
  });

  test.each([
    "b.js",
    "../index.html",
    "..%2Findex.html",
    "../../build-error.txt",
    "%00",
    "",
    ".",
    "a-1.js.br",
    "a-1.js/",
  ])("the path %j below the files leads to no file [R-1170]", async (name) => {
    const answer = await getRaw(`/console/assets/${name}`);
    expect(answer.status).toBe(404);
    expect(answer.body).toContain("not part of the console");
  });

  test.each(["missing.js", "favicon.ico"])("the unknown file %s is 404, and no page", async (name) => {
    expect((await getRaw(`/console/${name}`)).status).toBe(404);
  });

  test("HEAD has the headers alone, and other methods do not exist", async () => {
    const head = await get("/console/", {}, "HEAD");
    expect([head.status, await head.text(), head.headers.get("content-length")]).toEqual([200, "", `${PAGE.length}`]);
    expect((await get("/console/", {}, "POST")).status).toBe(404);
  });

  test("/ leads browsers to the console, and programs to the API [R-1171]", async () => {
    expect((await get("/", HTML)).headers.get("location")).toBe("/console/");
    expect((await get("/")).headers.get("location")).toBe("/graphql");
    expect((await get("/console")).headers.get("location")).toBe("/console/");
  });

  test("without a build the answer names the command and what was wrong with the last build [R-1172]", async () => {
    rmSync(join(folder, "dist"), { recursive: true });
    const none = await get("/console/");
    expect(none.status).toBe(503);
    expect(await none.text()).toContain("npm run console:build");
    writeFileSync(join(folder, "build-error.txt"), "packages/console/src/app.tsx:3: Unexpected token\n");
    expect(await (await get("/console/nodes")).text()).toContain("app.tsx:3: Unexpected token");
  });
});

test("with OSTLER_CONSOLE=off nothing is served, and / leads to the API [R-1171]", async () => {
  await using without = await serviceUnderTest({ started: false });
  expect((await fetch(`${without.url}/console/`)).status).toBe(404);
  const root = await fetch(without.url, { headers: HTML, redirect: "manual" });
  expect(root.headers.get("location")).toBe("/graphql");
});
