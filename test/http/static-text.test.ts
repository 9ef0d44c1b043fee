/** Texts that are made when they are first asked for. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { createStaticText } from "../../src/http/graphql/static-text.ts";

test("static text that could not be made is made at the next request, and then once only", async () => {
  let calls = 0;
  const page = createStaticText("text/plain; charset=utf-8", async () => {
    calls += 1;
    if (calls === 1) throw new Error("The module could not be loaded.");
    return `made ${calls} times`;
  });
  const server = createServer((request, response) => {
    page.serve(request, response).catch(() => response.writeHead(500).end());
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const get = async () => {
    const answer = await fetch(`http://127.0.0.1:${port}/`);
    return [answer.status, await answer.text()];
  };
  expect((await get())[0]).toBe(500);
  expect([await get(), await get()]).toEqual([
    [200, "made 2 times"],
    [200, "made 2 times"],
  ]);
  server.close();
  server.closeAllConnections();
});
