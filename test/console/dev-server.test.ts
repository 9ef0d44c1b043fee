/** `npm run console:dev`: the service accepts the requests of its pages, and refuses those of others as before. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { stripVTControlCharacters } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const VITE = fileURLToPath(new URL("../../node_modules/vite/bin/vite.js", import.meta.url));

const owned = new AsyncDisposableStack();
afterAll(() => owned.disposeAsync());

/** Answers with the origin that it was sent. */
const service = createServer(({ headers }, response) => void response.end(headers.origin));
let serviceOrigin: string;
let ownOrigin: string;

beforeAll(async () => {
  service.on("upgrade", ({ headers }, socket) =>
    socket.end(
      `HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\nx-origin: ${headers.origin}\r\n\r\n`,
    ),
  );
  await once(service.listen(0, "127.0.0.1"), "listening");
  owned.defer(() => void service.close());
  serviceOrigin = `http://127.0.0.1:${(service.address() as AddressInfo).port}`;
  const dev = spawn(process.execPath, [VITE, "packages/console", "--host", "127.0.0.1"], {
    cwd: ROOT,
    env: { PATH: process.env["PATH"], OSTLER_URL: serviceOrigin },
    stdio: ["ignore", "pipe", "inherit"],
  });
  owned.defer(() => void dev.kill());
  ownOrigin = await new Promise<string>((found, fail) => {
    let printed = "";
    dev.stdout.on("data", (text: Buffer) => {
      printed += stripVTControlCharacters(text.toString());
      const [origin] = /http:\/\/127\.0\.0\.1:\d+/.exec(printed) ?? [];
      if (origin !== undefined) found(origin);
    });
    dev.once("exit", () => fail(new Error(`The development server ended: ${printed}`)));
  });
}, 120_000);

/** The origin that the service sees. */
async function passedOn(path: string, origin: string): Promise<string> {
  const response = await fetch(ownOrigin + path, { method: "POST", headers: { origin } });
  return response.text();
}

async function upgraded(origin: string): Promise<unknown> {
  const sent = request(`${ownOrigin}/graphql`, { headers: { origin, connection: "upgrade", upgrade: "websocket" } });
  sent.end();
  const [response] = (await once(sent, "upgrade")) as [{ readonly headers: Readonly<Record<string, unknown>> }];
  sent.destroy();
  return response.headers["x-origin"];
}

test("a page of the development server has the origin of the service [R-1335]", async () => {
  expect(await passedOn("/auth/session", ownOrigin)).toBe(serviceOrigin);
  expect(await passedOn("/graphql", ownOrigin)).toBe(serviceOrigin);
  expect(await upgraded(ownOrigin)).toBe(serviceOrigin);
});

test("a page of another origin keeps its own [R-1335]", async () => {
  expect(await passedOn("/auth/session", "http://other.example")).toBe("http://other.example");
  expect(await upgraded("http://other.example")).toBe("http://other.example");
});
