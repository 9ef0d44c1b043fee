/** Accounts, tokens, roles and grants, as administrators and the callers themselves meet them. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { administratorOf, as } from "../support/accounts.ts";
import type { EditPayload } from "../support/accounts.ts";
import { serviceUnderTest } from "../support/service.ts";
import type { Variables } from "../support/service.ts";

const TOKEN = "a-token-of-some-length";
const ostler = await serviceUnderTest({ token: TOKEN });
afterAll(() => ostler[Symbol.asyncDispose]());

const administrator = administratorOf(ostler);

const codeOf = (answer: Awaited<ReturnType<typeof ostler.ask>>) => answer.errors[0]?.extensions?.["code"];
const NODES = "{ nodes(first: 1) { totalCount } }";

describe("token of an account", () => {
  test("a token acts as its account, with its roles, and says so [R-960]", async () => {
    const { name: account, token: secret } = await administrator.account("operator");
    const { data } = await ostler.ask("{ viewer { subject roles scope groups } }", {}, as(secret));
    expect(data).toEqual({
      viewer: { subject: `account:${account}`, roles: ["operator"], scope: "OPERATE", groups: [] },
    });
  });

  test("the lower of account and ceiling counts at any time [R-961]", async () => {
    const { name: account, token: secret } = await administrator.accountWith({
      roles: ["operator"],
      token: { role: "manager" },
    });
    const scope = async () => (await ostler.ask("{ viewer { scope } }", {}, as(secret))).data;
    expect(await scope()).toEqual({ viewer: { scope: "OPERATE" } });
    await administrator.request("setRoles", { principal: `account:${account}`, roles: [{ role: "admin" }] });
    expect(await scope()).toEqual({ viewer: { scope: "MANAGE" } });
  });

  test("a caller without a role is refused with its principals, and only viewer and service answer [R-962]", async () => {
    const { name: account, token: secret } = await administrator.account();
    const refused = await ostler.ask(NODES, {}, as(secret));
    expect(codeOf(refused)).toBe("FORBIDDEN");
    expect(refused.errors[0]?.message).toContain(`account:${account}`);
    expect((await ostler.ask("{ viewer { scope } service { version } }", {}, as(secret))).data).toMatchObject({
      viewer: { scope: null },
    });
  });

  const damaged = {
    "one changed letter": (secret: string) =>
      `${secret.slice(0, 20)}${secret[20] === "a" ? "b" : "a"}${secret.slice(21)}`,
    "a missing end": (secret: string) => secret.slice(0, -3),
    "a line more": (secret: string) => `${secret}x`,
  };
  test.each(Object.entries(damaged))(
    "a token with %s is refused, and nothing says that it was close",
    async (_what, damage) => {
      const { token: secret } = await administrator.account("viewer");
      const answer = await ostler.ask(NODES, {}, as(damage(secret)));
      expect([answer.status, codeOf(answer)]).toEqual([401, "UNAUTHENTICATED"]);
      expect(answer.errors[0]?.message).toMatch(/^Invalid token\./);
    },
  );

  test("a revoked token and one of a disabled account are refused, with the reason [R-963]", async () => {
    const one = await administrator.account("viewer");
    await administrator.edit("revokeTokens", { tokens: { ids: [one.tokenId] } });
    expect((await ostler.ask(NODES, {}, as(one.token))).errors[0]?.message).toMatch(/^The token was revoked at /);
    const other = await administrator.account("viewer");
    await administrator.request("updateAccount", { account: other.name, disabled: true });
    expect((await ostler.ask(NODES, {}, as(other.token))).errors[0]?.message).toContain("is disabled");
    await administrator.request("updateAccount", { account: other.name, disabled: false });
    expect((await ostler.ask(NODES, {}, as(other.token))).status).toBe(200);
  });

  test("an update without a change is accepted, and the account stays as it is", async () => {
    const { name: account, token: secret } = await administrator.account("viewer");
    await administrator.edit("updateAccount", { account });
    expect((await ostler.ask(NODES, {}, as(secret))).status).toBe(200);
  });

  test("an expired token is refused with the time of its expiry", async () => {
    const { token: secret, tokenId: id } = await administrator.account("viewer");
    await ostler.test
      .sql`update tokens set expires_at = now() - interval '1 minute', version = version + 1 where id = ${id}`;
    await ostler.test.sql`update access_version set version = version + 1`;
    await administrator.request("putRole", { name: "any", scope: "READ" });
    expect((await ostler.ask(NODES, {}, as(secret))).errors[0]?.message).toMatch(/^The token expired at /);
  });

  test("a token in the URL is ignored", async () => {
    const { token: secret } = await administrator.account("admin");
    const response = await fetch(`${ostler.url}/graphql?token=${secret}&query=${encodeURIComponent(NODES)}`);
    expect(response.status).toBe(401);
  });

  test("a token is stored only as a hash", async () => {
    const { token: secret } = await administrator.account("viewer");
    expect(await ostler.dump()).not.toContain(secret.slice(14, 40));
  });

  test("two headers Authorization are refused", async () => {
    const { token: secret } = await administrator.account("viewer");
    const headers: [string, string][] = [
      ["authorization", `Bearer ${secret}`],
      ["authorization", `Bearer ${TOKEN}`],
      ["content-type", "application/json"],
    ];
    const { request } = await import("node:http");
    const status = await new Promise((done, fail) => {
      const sent = request(`${ostler.url}/graphql`, { method: "POST", headers: headers.flat() }, (response) => {
        response.resume();
        done(response.statusCode);
      });
      sent.on("error", fail);
      sent.end(JSON.stringify({ query: NODES }));
    });
    expect(status).toBe(400);
  });
});

describe("scope of a request", () => {
  let operator = "";
  let viewer = "";
  beforeAll(async () => {
    operator = (await administrator.account("operator")).token;
    viewer = (await administrator.account("viewer")).token;
    await ostler.register(["scoped"]);
  });

  test("nothing of a request is executed if its caller may not send one of its mutations [R-958]", async () => {
    const mark = 'setMaintenance(input: { nodes: { names: ["scoped"] }, reason: "check" }) { errors { code } }';
    const remove = 'deleteNodes(input: { nodes: { names: ["scoped"] } }) { errors { code } }';
    const isMarked = async () =>
      (
        await ostler.query<{ node: { maintenance: unknown } }>(
          '{ node(by: { name: "scoped" }) { maintenance { reason } } }',
        )
      ).node.maintenance !== null;
    const document = `mutation Both($all: Boolean!) { ${mark} ... @include(if: $all) { ...More } } fragment More on Mutation { ${remove} }`;
    const denied = await ostler.ask(document, { all: true }, as(operator));
    expect([codeOf(denied), await isMarked()]).toEqual(["FORBIDDEN", false]);
    expect(denied.errors[0]?.message).toContain("Mutation.deleteNodes requires the scope MANAGE");
    expect((await ostler.ask(document, { all: false }, as(operator))).errors).toEqual([]);
    expect(await isMarked()).toBe(true);
    await ostler.ask('mutation { clearMaintenance(input: { nodes: { names: ["scoped"] } }) { errors { code } } }');
  });

  test("the sentence of a refusal names the role and the scope [R-964]", async () => {
    const answer = await ostler.ask(
      'mutation { deployNodes(input: { nodes: { names: ["scoped"] } }) { errors { code } } }',
      {},
      as(viewer),
    );
    expect(codeOf(answer)).toBe("FORBIDDEN");
    expect(answer.errors[0]?.message).toMatch(/Mutation\.deployNodes requires the scope OPERATE\. .*viewer/);
  });

  test.each([
    ["force", 'manageNodes(input: { nodes: { names: ["scoped"] }, force: true, dryRun: true })'],
    [
      "a list of steps",
      'cleanNodes(input: { nodes: { names: ["scoped"] }, steps: [{ name: "erase_disks" }], dryRun: true })',
    ],
  ])("%s needs MANAGE, in a dry run too [R-965]", async (_what, request) => {
    const { data } = await ostler.ask<Record<string, EditPayload>>(
      `mutation { it: ${request} { errors { code message } } }`,
      {},
      as(operator),
    );
    const message = expect.stringContaining(
      "requires the scope MANAGE. The credential of the role operator has OPERATE",
    ) as string;
    expect(data?.["it"]?.errors).toMatchObject([{ code: "FORBIDDEN", message }]);
  });

  test("verbs and actions of a node are forbidden for those who may not ask for them [R-966]", async () => {
    const { data } = await ostler.ask<{
      node: { verbs: { code: string }[]; actions: { code: string | null }[] };
    }>(
      '{ node(by: { name: "scoped" }) { verbs { code } actions(only: [MANAGE, DELETE, SET_MAINTENANCE]) { code } } }',
      {},
      as(viewer),
    );
    expect(new Set(data?.node.verbs.map(({ code }) => code))).toEqual(new Set(["FORBIDDEN"]));
    expect(data?.node.actions.map(({ code }) => code)).toEqual(["FORBIDDEN", "FORBIDDEN", "FORBIDDEN"]);
    const { data: more } = await ostler.ask<{ node: { actions: { code: string | null }[] } }>(
      '{ node(by: { name: "scoped" }) { actions(only: [MANAGE, DELETE, SET_MAINTENANCE]) { code } } }',
      {},
      as(operator),
    );
    expect(more?.node.actions.map(({ code }) => code)).toEqual([null, "FORBIDDEN", null]);
  });
});

describe("bad input", () => {
  test.each<[string, string, Variables, string]>([
    ["an unknown account", "createToken", { account: "nothing" }, "NOT_FOUND"],
    ["an expiry after 0 days", "createToken", { account: "someone", expiresInDays: 0 }, "INVALID_INPUT"],
    ["an expiry after 367 days", "createToken", { account: "someone", expiresInDays: 367 }, "INVALID_INPUT"],
    ["an unknown role", "createToken", { account: "someone", role: "none" }, "NOT_FOUND"],
    [
      "an unknown role of a grant",
      "setRoles",
      { principal: "account:someone", roles: [{ role: "none" }] },
      "NOT_FOUND",
    ],
    ["an unknown account of a grant", "setRoles", { principal: "account:none", roles: [] }, "NOT_FOUND"],
    ["a principal without a kind", "setRoles", { principal: "someone", roles: [] }, "INVALID_INPUT"],
    ["an unknown issuer", "setRoles", { principal: "group:corp:ops", roles: [] }, "NOT_FOUND"],
    [
      "a grant that has expired",
      "setRoles",
      { principal: "account:someone", roles: [{ role: "viewer", expiresAt: "2020-01-01T00:00:00Z" }] },
      "INVALID_INPUT",
    ],
    ["a built-in role", "putRole", { name: "viewer", scope: "ADMIN" }, "INVALID_INPUT"],
    ["the deletion of a built-in role", "deleteRole", { name: "viewer" }, "INVALID_INPUT"],
    ["an account that exists", "createAccount", { name: "Someone" }, "INVALID_INPUT"],
    ["an unknown token", "revokeTokens", { tokens: { ids: ["0000000000"] } }, "NOT_FOUND"],
  ])("%s is refused", async (_what, mutation, input, code) => {
    await administrator.request("createAccount", { name: "someone" });
    expect((await administrator.request(mutation, input)).errors).toMatchObject([{ code }]);
  });

  test("a role in use is not deleted; an unused one is [R-967]", async () => {
    await administrator.edit("putRole", { name: "night", scope: "OPERATE" });
    const { name: account } = await administrator.account("night");
    expect((await administrator.request("deleteRole", { name: "night" })).errors).toMatchObject([{ code: "IN_USE" }]);
    await administrator.request("setRoles", { principal: `account:${account}`, roles: [] });
    await administrator.edit("deleteRole", { name: "night" });
  });

  test("the last administrator is neither removed, limited nor disabled [R-968]", async () => {
    await using other = await serviceUnderTest({ token: TOKEN });
    const change = async (request: string) =>
      (await other.query<{ it: EditPayload }>(`mutation { it: ${request} { errors { code message } } }`)).it.errors.map(
        ({ code }) => code,
      );
    expect(await change('createAccount(input: { name: "root" })')).toEqual([]);
    expect(await change('setRoles(input: { principal: "account:root", roles: [{ role: "admin" }] })')).toEqual([]);
    expect(await change('setRoles(input: { principal: "account:root", roles: [] })')).toEqual(["PROTECTED"]);
    expect(
      await change(
        'setRoles(input: { principal: "account:root", roles: [{ role: "admin", expiresAt: "2999-01-01T00:00:00Z" }] })',
      ),
    ).toEqual(["PROTECTED"]);
    expect(await change('updateAccount(input: { account: "root", disabled: true })')).toEqual(["PROTECTED"]);
  });
});

test("a flood of wrong tokens is refused with 429, and good tokens of the same address are served [R-969]", async () => {
  const { token: secret } = await administrator.account("viewer");
  const statuses = await Promise.all(
    Array.from({ length: 200 }, async () => (await ostler.ask(NODES, {}, as("wrong"))).status),
  );
  expect(statuses.filter((status) => status === 429).length).toBeGreaterThan(100);
  expect((await ostler.ask(NODES, {}, as(secret))).status).toBe(200);
  expect((await ostler.ask(NODES)).status).toBe(200);
});
