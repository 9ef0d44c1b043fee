/** `ostler token` against a running service. */
import { afterAll, expect, test } from "vitest";
import { tokenCommand } from "../../src/commands/token.ts";
import { serviceUnderTest } from "../support/service.ts";

const TOKEN = "a-token-of-some-length";
const ostler = await serviceUnderTest({ token: TOKEN, started: false });
afterAll(() => ostler[Symbol.asyncDispose]());

const create = (...flags: string[]) => tokenCommand({ OSTLER_TOKEN: TOKEN }, ["create", "--url", ostler.url, ...flags]);
const viewer = async (secret: string) =>
  (await ostler.ask("{ viewer { subject roles scope } }", {}, { authorization: `Bearer ${secret.trim()}` })).data;

test("ostler token create makes the account with its role, and prints the token alone [R-955]", async () => {
  const secret = await create("--account", "robot", "--role", "operator");
  expect(secret).toMatch(/^ost_[0-9A-Za-z]{59}\n$/);
  expect(await viewer(secret)).toEqual({
    viewer: { subject: "account:robot", roles: ["operator"], scope: "OPERATE" },
  });
  // A lower role is a ceiling; a higher one is added.
  expect(await viewer(await create("--account", "robot", "--role", "viewer"))).toMatchObject({
    viewer: { roles: ["operator"], scope: "READ" },
  });
  expect(await viewer(await create("--account", "robot", "--role", "manager", "--days", "1"))).toMatchObject({
    viewer: { roles: ["manager", "operator"], scope: "MANAGE" },
  });
});

test("ostler token create takes the address of the service from OSTLER_URL, as clients do", async () => {
  const environment = { OSTLER_TOKEN: TOKEN, OSTLER_URL: `${ostler.url}/graphql` };
  const secret = await tokenCommand(environment, ["create", "--account", "by-address", "--role", "viewer"]);
  expect(await viewer(secret)).toMatchObject({ viewer: { subject: "account:by-address" } });
});

test.each([
  ["without an account", ["--role", "viewer"], "needs --account and --role"],
  ["with an unknown role", ["--account", "robot", "--role", "boss"], "Use one of admin, manager, operator, viewer."],
  ["with days that are not a number", ["--account", "robot", "--role", "viewer", "--days", "x"], "--days is"],
  ["for longer than a year", ["--account", "robot", "--role", "viewer", "--days", "367"], "1 to 366"],
  ["with an invalid name", ["--account", "a b", "--role", "viewer"], "Invalid name"],
])("ostler token create %s is refused with one sentence", async (_what, flags, message) => {
  await expect(create(...flags)).rejects.toThrow(message);
});
