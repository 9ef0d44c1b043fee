/**
 * The workarounds in src/http/workarounds depend on undocumented behavior of an exact version of a library. When the
 * version changes, check what the test names, and then change the version here.
 */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

test("the workaround reused-ids.ts was checked with the installed version of graphql-ws", () => {
  const manifest = new URL("../../node_modules/graphql-ws/package.json", import.meta.url);
  const { version } = JSON.parse(readFileSync(manifest, "utf8")) as { readonly version: string };
  expect(
    version,
    "graphql-ws changed. Check whether the end of an operation still completes a later one with the same ID: run test/http/reused-ids.test.ts, and test/http/transport-ws.test.ts without withReusedIds. Remove the workaround if it has no reason left; otherwise change the version in this test.",
  ).toBe("6.4.2");
});
