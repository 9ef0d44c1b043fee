/** The audit: a row for each mutation, in the transaction of its effect, and for each denial. */
import {
  getNamedType,
  isEnumType,
  isInputObjectType,
  isListType,
  isNonNullType,
  isRequiredInputField,
  isScalarType,
} from "graphql";
import type { GraphQLInputField, GraphQLInputType, GraphQLNamedType } from "graphql";
import * as z from "zod";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { buildSchema } from "../../src/graphql/schema/schema.ts";
import createFake from "../../plugins/fake/index.ts";
import { verbOf, NODE_VERBS } from "../../src/lifecycle/verbs.ts";
import { documentIdOf } from "../../src/runtime/document-id.ts";
import { administratorOf, as } from "../support/accounts.ts";
import { aDriver } from "../support/driver.ts";
import { eventually } from "../support/eventually.ts";
import { inputTypeOf } from "../support/input-type.ts";
import { AUDIT, serviceUnderTest, takeUntil } from "../support/service.ts";
import type { Variables } from "../support/service.ts";

const TOKEN = "a-token-of-some-length";
const CANARY = "canary-of-the-audit";
const joining = () =>
  aDriver("joining", { variables: z.object({ join_token: z.string().optional().meta({ writeOnly: true }) }) });
const ostler = await serviceUnderTest({ token: TOKEN, started: false, drivers: [joining()] });
const { sql } = ostler.test;
afterAll(() => ostler[Symbol.asyncDispose]());

interface Entry {
  readonly cursor: string;
  readonly subject: string;
  readonly credential: string | null;
  readonly address: string | null;
  readonly transport: string;
  readonly requestId: string | null;
  readonly action: string;
  readonly targets: readonly string[];
  readonly targetCount: number;
  readonly operation: { readonly uuid: string } | null;
  readonly outcome: string;
  readonly errorCode: string | null;
  readonly reason: string | null;
  readonly edits: readonly { readonly target: string; readonly before: unknown; readonly after: unknown }[];
  readonly editsComplete: boolean;
}

const ENTRY = `cursor subject credential address transport requestId action targets targetCount operation { uuid }
  outcome errorCode reason edits { target before after } editsComplete`;

async function entries(filter: Variables = {}): Promise<readonly Entry[]> {
  const data = await ostler.query<{ audit: { nodes: Entry[] } }>(
    `query ($filter: AuditFilter) { audit(last: 500, filter: $filter) { nodes { ${ENTRY} } } }`,
    { filter },
  );
  return data.audit.nodes;
}

const newest = async (filter?: Variables) => (await entries(filter)).at(-1);

interface Edited {
  readonly errors: readonly { readonly code: string; readonly message: string }[];
  readonly secret?: string;
  readonly token?: { readonly tokenId: string };
  readonly operation?: { readonly uuid: string } | null;
}

async function mutate(mutation: string, input: Variables, headers: Record<string, string> = {}) {
  const verb = NODE_VERBS.some((kind) => verbOf(kind).mutation === mutation);
  const own = mutation === "createToken" ? "secret token { tokenId }" : verb ? "operation { uuid }" : "";
  const answer = await ostler.ask<Record<string, Edited>>(
    `mutation ($input: ${inputTypeOf(mutation)}!) { ${mutation}(input: $input) { ${own} errors { code message } } }`,
    { input },
    headers,
  );
  return { ...answer, payload: answer.data?.[mutation] };
}

async function accepted(mutation: string, input: Variables): Promise<Edited> {
  const { payload, errors } = await mutate(mutation, input);
  expect([errors, payload?.errors], mutation).toEqual([[], []]);
  return payload as Edited;
}

const administrator = administratorOf(ostler);

test("accounts, a token, a deployment, a refused force and a revocation read as a complete record [R-980]", async () => {
  await ostler.register(["recorded"]);
  const since = (await newest())?.cursor;
  const { token, tokenId: id } = await administrator.accountWith({ name: "ci", roles: ["operator"] });
  const go = await mutate("manageNodes", { nodes: { names: ["recorded"] }, reason: "Rack 7" }, as(token));
  const uuid = go.payload?.operation?.uuid;
  await mutate("manageNodes", { nodes: { names: ["recorded"] }, force: true }, as(token));
  await mutate("createCluster", { name: "stolen" }, as(token));
  await accepted("revokeTokens", { tokens: { ids: [id] } });
  const { audit } = await ostler.query<{ audit: { nodes: Entry[] } }>(
    `query ($after: String) { audit(first: 50, after: $after) { nodes { ${ENTRY} } } }`,
    { after: since },
  );
  const byAdmin = { subject: "token", credential: "token", outcome: "ACCEPTED", transport: "HTTP", errorCode: null };
  const byCi = { subject: "account:ci", credential: id, address: "127.0.0.1", transport: "HTTP" };
  const grants = {
    target: "account:ci",
    before: { roles: [] },
    after: { roles: [{ role: "operator", expiresAt: null }] },
  };
  expect(audit.nodes).toMatchObject([
    { ...byAdmin, action: "createAccount", targets: ["ci"] },
    { ...byAdmin, action: "setRoles", targets: ["account:ci"], edits: [grants] },
    { ...byAdmin, action: "createToken", targets: ["ci", id], edits: [{ target: id, before: null }] },
    {
      ...byCi,
      action: "manageNodes",
      outcome: "ACCEPTED",
      targets: ["recorded"],
      reason: "Rack 7",
      operation: { uuid },
    },
    {
      ...byCi,
      action: "manageNodes",
      outcome: "FORBIDDEN",
      errorCode: "FORBIDDEN",
      targets: ["recorded"],
      operation: null,
    },
    {
      ...byCi,
      action: "createCluster",
      outcome: "FORBIDDEN",
      targets: ["stolen"],
      reason: expect.stringContaining("operator"),
    },
    { ...byAdmin, action: "revokeTokens", targets: [id] },
  ]);
  expect(audit.nodes[3]?.requestId).toBe(go.headers.get("x-request-id"));
});

test("requests that share a transaction each have their row [R-980]", async () => {
  const names = await ostler.register(12);
  const answers = await Promise.all(names.map((name) => mutate("manageNodes", { nodes: { names: [name] } })));
  const expected = names.map((name, index) => [
    name,
    answers[index]?.headers.get("x-request-id"),
    answers[index]?.payload?.operation?.uuid,
  ]);
  const rows = (await entries({ actions: ["manageNodes"] })).slice(-12);
  const found = rows.map(({ targets, requestId, operation }) => [targets[0], requestId, operation?.uuid]);
  expect(new Set(found)).toEqual(new Set(expected));
});

test("a refused and a repeated request have rows; a dry run and a query have none [R-981]", async () => {
  await ostler.register(["once"]);
  const input = { nodes: { names: ["once"] }, idempotencyKey: "night" };
  const { operation } = await accepted("manageNodes", input);
  await accepted("manageNodes", input);
  await mutate("manageNodes", { nodes: { names: ["once"] } });
  await mutate("manageNodes", { nodes: { names: ["once"] }, dryRun: true });
  await mutate("createAccount", { name: "a\0b" });
  await ostler.query("{ nodes(first: 1) { totalCount } }");
  expect((await entries()).slice(-4)).toMatchObject([
    { outcome: "ACCEPTED", targets: ["once"], operation },
    { outcome: "REPLAYED", targets: ["once"], operation },
    {
      outcome: "REFUSED",
      errorCode: "BUSY",
      targets: ["once"],
      operation: null,
      reason: expect.stringContaining("once"),
    },
    { outcome: "REFUSED", errorCode: "BAD_USER_INPUT", action: "createAccount", targets: ["a\uFFFDb"] },
  ]);
});

describe("denials", () => {
  const VIEWER = "viewer-of-denials";
  let secret = "";
  beforeAll(async () => {
    ({ token: secret } = await administrator.accountWith({ name: VIEWER, roles: ["viewer"] }));
  });

  test("a denied query, mutation, dry run and plan have rows [R-982]", async () => {
    await ostler.ask("{ accounts { name } again: accounts { name } }", {}, as(secret));
    await mutate("manageNodes", { nodes: { names: ["any"] } }, as(secret));
    await mutate("manageNodes", { nodes: { names: ["any"] }, dryRun: true }, as(secret));
    const forced = "manageNodes: { nodes: { all: true }, force: true }";
    await ostler.ask(`{ plan(input: { ${forced} }) { errors { code } } }`, {}, as(secret));
    const denied = { outcome: "FORBIDDEN", errorCode: "FORBIDDEN", subject: `account:${VIEWER}` };
    // No answer waits for the row of a query, so that it may come after the next one.
    const rows = (await entries()).slice(-4).toSorted((a, b) => a.action.localeCompare(b.action));
    expect(rows).toMatchObject([
      { ...denied, action: "accounts" },
      { ...denied, action: "manageNodes", targets: ["any"] },
      { ...denied, action: "manageNodes" },
      { ...denied, action: "plan" },
    ]);
  });

  test("a denied stream has a row with its transport [R-982]", async () => {
    const query = "subscription { auditEntries { __typename } }";
    await fetch(`${ostler.url}/graphql`, {
      method: "POST",
      headers: { accept: "text/event-stream", "content-type": "application/json", ...as(secret) },
      body: JSON.stringify({ query }),
    }).then((response) => response.text());
    expect(await newest()).toMatchObject({ action: "auditEntries", transport: "SSE", outcome: "FORBIDDEN" });
  });

  test("a caller that is denied in a loop has ten rows a minute [R-1150]", async () => {
    const { name, token } = await administrator.accountWith({ roles: ["viewer"] });
    for (let count = 0; count < 8; count += 1) {
      await ostler.ask("{ accounts { name } }", {}, as(token));
      // Bad input of a caller that has the scope is REFUSED, which has no limit.
      await mutate("manageNodes", { nodes: { names: ["\u0000"] } }, as(token));
    }
    const found = await entries({ subjects: [`account:${name}`] });
    expect(found.map(({ action }) => action)).toEqual(
      Array.from({ length: 10 }, (_, index) => (index % 2 === 0 ? "accounts" : "manageNodes")),
    );
  });

  test("wrong tokens have rows, ten a minute and address; an ended one names its account [R-983]", async () => {
    const gone = await administrator.accountWith({ name: "gone", roles: ["viewer"] });
    await accepted("revokeTokens", { tokens: { account: "gone" } });
    for (const token of [gone.token, ...Array.from({ length: 14 }, () => "wrong")])
      await ostler.ask("{ viewer { subject } }", {}, as(token));
    const found = await eventually("ten rows", async () => {
      const failed = await entries({ actions: ["LOGIN_FAILED"] });
      return failed.length >= 10 && failed;
    });
    expect(found).toHaveLength(10);
    expect(found[0]).toMatchObject({ subject: "account:gone", credential: gone.tokenId, errorCode: "UNAUTHENTICATED" });
    expect(found[1]).toMatchObject({ subject: "unknown", address: "127.0.0.1", outcome: "FORBIDDEN" });
  });
});

/** Strings of documents may be secrets, and so may values that a token fixes. */
const DOCUMENT = `mutation ($text: String) {
  updateNodes(input: { nodes: { names: ["a"] }, description: $text, settings: { fake: { password: "a\\"${CANARY}" } } }) { errors { code } }
  updateCluster(input: { cluster: { name: "a" }, variables: { join_token: """${CANARY} "b" """ } }) { errors { code } }
}`;

/** Mutations with an effect, in an order in which each finds what it needs. `waves`: of an operation with three. */
function effects(waves: string): readonly (readonly [mutation: string, input: Variables])[] {
  const image = {
    name: "debian",
    url: "https://images.example/debian.raw",
    format: "RAW",
    sizeBytes: 1_000_000,
    checksum: { algorithm: "SHA256", value: "a".repeat(64) },
    architecture: "X64",
    userData: CANARY,
  };
  const hidden = { join_token: CANARY };
  const node = (name: string) => ({ nodes: { names: [name] } });
  return [
    [
      "registerNodes",
      { nodes: ["e1", "e2", "e3", "e4"].map((name) => ({ name, driver: { fake: { password: CANARY } } })) },
    ],
    ["updateNodes", { ...node("e1"), variables: hidden, settings: { fake: { password: `${CANARY}-2` } } }],
    ["reportPresence", { event: "DISAPPEARED", nodes: [{ name: "e1" }] }],
    ["setMaintenance", { ...node("e2"), reason: "Fans" }],
    ["clearMaintenance", node("e2")],
    ["setRetired", { ...node("e2"), reason: "Old" }],
    ["clearRetired", node("e2")],
    ["deleteNodes", node("e2")],
    [
      "createCluster",
      { name: "audited", variables: { ...hidden, ntp: "a" }, hostGroups: [{ name: "g", variables: hidden }] },
    ],
    ["updateCluster", { cluster: { name: "audited" }, variables: { join_token: `${CANARY}-2`, ntp: "b" } }],
    ["deleteCluster", { cluster: { name: "audited" } }],
    ["createRunbook", { name: "night", steps: [{ name: "erase_disks" }] }],
    ["updateRunbook", { runbook: { name: "night" }, description: "Every night" }],
    ["deleteRunbook", { runbook: { name: "night" } }],
    ["registerImages", { images: [image] }],
    ["updateImage", { image: { name: "debian" }, userData: `${CANARY}-2` }],
    ["deleteImages", { images: [{ name: "debian" }] }],
    ["updateSite", { controllerLimit: 7, variables: hidden }],
    ["createAccount", { name: "effect" }],
    ["updateAccount", { account: "effect", displayName: "Effect" }],
    ["putRole", { name: "effective", scope: "READ" }],
    ["setRoles", { principal: "account:effect", roles: [{ role: "viewer" }] }],
    ["registerDocuments", { documents: [{ text: DOCUMENT }] }],
    ["createToken", { account: "effect", documents: [{ id: documentIdOf(DOCUMENT), variables: { text: CANARY } }] }],
    ["revokeTokens", { tokens: { account: "effect" } }],
    ["deleteRole", { name: "effective" }],
    ["manageNodes", { ...node("e3"), variables: { join_token: CANARY } }],
    ["stop", { work: { names: ["e3"] } }],
    ["restart", { work: { names: ["e3"] } }],
    ["abort", { work: { names: ["e3"] } }],
    ["haltWaves", { operationId: waves }],
    ["resumeWaves", { operationId: waves }],
    ["advanceWaves", { operationId: waves }],
    ["createCluster", { name: "applied", ...node("e4") }],
    ["applyCluster", { cluster: { name: "applied" } }],
    ["discoverNodes", { addresses: ["192.0.2.1"], driver: { fake: { password: CANARY } } }],
  ];
}

/** They have no effect in the database, or share the frame of `abort` and need a running step. */
const WITHOUT = ["readPower", "readNodes", "probeNodes", "withdrawAbort", "releaseHolds"];

/** `tokens` has the time of their last use. */
const UNCOMPARED = [...AUDIT, "tokens"];

describe("a row that cannot be written", () => {
  test("each mutation then changes nothing and says so, and else is recorded with its effect [R-984]", async () => {
    await ostler.register(["w1", "w2", "w3"]);
    const sizes = [{ count: 1 }, { count: 1 }, { count: 1 }];
    const waves = await ostler.begin("manageNodes", ["w1", "w2", "w3"], { waves: { sizes } });
    await sql.unsafe(
      `create function refuse_audit() returns trigger language plpgsql as $$ begin raise 'No space left on device' using errcode = '53100'; end $$`,
    );
    for (const [mutation, input] of effects(waves)) {
      await sql.unsafe(
        "create trigger full_disk before insert on audit for each statement execute function refuse_audit()",
      );
      const before = await ostler.dump(UNCOMPARED);
      expect((await mutate(mutation, input)).errors[0]?.extensions?.["code"], mutation).toBe("DATABASE_UNAVAILABLE");
      expect(await ostler.dump(UNCOMPARED), mutation).toBe(before);
      await sql`drop trigger full_disk on audit`;
      await accepted(mutation, input);
      expect(await newest(), mutation).toMatchObject({ action: mutation, outcome: "ACCEPTED", errorCode: null });
    }
    const tried = [...effects(waves).map(([mutation]) => mutation), ...WITHOUT];
    const verbs = NODE_VERBS.map((kind) => verbOf(kind).mutation);
    expect(Object.keys(mutations()).filter((name) => !tried.includes(name) && !verbs.includes(name))).toEqual([]);
  }, 120_000);

  test("a mutation waits while the audit is locked, and changes nothing if it is canceled then [R-984]", async () => {
    await sql.begin(async (holder) => {
      await holder`lock table audit in exclusive mode`;
      const answer = mutate("createCluster", { name: "waiting" });
      const pid = await eventually("the mutation waits for the lock", async () => {
        const [waiting] = await holder`select pid from pg_locks where relation = 'audit'::regclass and not granted`;
        return waiting?.["pid"] as number | undefined;
      });
      await holder`select pg_cancel_backend(${pid})`;
      expect((await answer).errors).toHaveLength(1);
    });
    const { cluster } = await ostler.query<{ cluster: null }>('{ cluster(by: { name: "waiting" }) { name } }');
    expect(cluster).toBeNull();
  });
});

const schema = () => buildSchema([createFake({ log: () => {} }), joining()]);
const mutations = () => schema().getMutationType()?.getFields() ?? {};

/** The required members of an input, and those that lead to a text for which `chosen` has a value. */
function inputWith(
  chosen: (field: GraphQLInputField) => string | null,
): (type: GraphQLInputType, depth?: number) => unknown {
  const leads = (type: GraphQLNamedType, depth: number): boolean =>
    isInputObjectType(type) &&
    depth < 5 &&
    Object.values(type.getFields()).some((one) => chosen(one) !== null || leads(getNamedType(one.type), depth + 1));
  const valueOf = (type: GraphQLInputType, depth = 0): unknown => {
    if (isNonNullType(type)) return valueOf(type.ofType, depth);
    if (isListType(type)) return [valueOf(type.ofType, depth)];
    if (isEnumType(type)) return type.getValues()[0]?.name;
    if (isScalarType(type))
      return (
        { Int: 1, Boolean: false, Float: 1, ByteCount: 1, JSON: {}, DateTime: "2999-01-01T00:00:00Z" }[type.name] ?? "x"
      );
    const fields = Object.values(type.getFields());
    const kept = type.isOneOf
      ? [
          fields.find((one) => leads(getNamedType(one.type), depth)) ??
            fields.find(({ name }) => name === "names") ??
            fields[0],
        ]
      : fields.filter(
          (one) => isRequiredInputField(one) || chosen(one) !== null || leads(getNamedType(one.type), depth),
        );
    return Object.fromEntries(
      kept.flatMap((one) => {
        if (!one) return [];
        const text = chosen(one);
        const isJson = getNamedType(one.type).name === "JSON";
        const given = isJson ? { join_token: text } : isListType(one.type) ? [text] : text;
        return [[one.name, text === null ? valueOf(one.type, depth + 1) : given]];
      }),
    );
  };
  return valueOf;
}

async function everyMutationWith(chosen: (field: GraphQLInputField) => string | null): Promise<void> {
  for (const [mutation, { args }] of Object.entries(mutations()))
    for (const { type } of args) await mutate(mutation, inputWith(chosen)(type) as Variables);
}

async function storedRows(): Promise<string> {
  const [row] = await sql`select string_agg(a::text, ' ') as rows from audit a`;
  return String(row?.["rows"]);
}

describe("texts of requests", () => {
  test("no row contains a secret, wherever a mutation takes one [R-985]", async () => {
    const isSecret = ({ name }: GraphQLInputField) => /password|userData|variables/i.test(name);
    await everyMutationWith((field) => (isSecret(field) ? CANARY : null));
    const { secret = "" } = await accepted("createToken", { account: "ci" });
    await mutate("revokeTokens", { tokens: { ids: [secret] } });
    const rows = await storedRows();
    expect(rows).toContain("***");
    expect(rows).not.toContain(CANARY);
    expect(rows).not.toContain(secret.slice(14, 40));
  }, 60_000);

  test.each([
    ["an address with a login", `https://admin:${CANARY}@192.0.2.7`, "https://***@192.0.2.7"],
    ["a long text with a login at its end", `${"a".repeat(280)}://admin:${CANARY}@192.0.2.7`, "://***"],
    ["a JWT", `eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhIn0.${CANARY}`, "***"],
  ])("no row contains the secret of %s [R-985]", async (_what, address, shown) => {
    await mutate("probeNodes", { addresses: [address] });
    expect(String((await newest({ actions: ["probeNodes"] }))?.targets)).toContain(shown);
    expect((await storedRows()).includes(CANARY.slice(0, 8))).toBe(false);
  });

  test.each(["a\u001B[31mb\u2028c", "a\0b"])(
    "no row contains control characters, wherever a mutation takes a text [R-985]",
    async (text) => {
      await everyMutationWith(({ type }) => (["String", "ID"].includes(getNamedType(type).name) ? text : null));
      const rows = await sql`select * from audit`;
      const texts: string[] = [];
      JSON.stringify(rows, (_name, value: unknown) => (typeof value === "string" && texts.push(value), value));
      expect(texts.filter((one) => /(?!\n)[\p{Cc}\u2028]/u.test(one))).toEqual([]);
      expect(texts).toContain("withdrawAbort");
    },
    60_000,
  );
});

describe("revokeTokens", () => {
  test.each([
    [{ ids: [] }, "INVALID_INPUT", "ids"],
    [{ ids: ["ghost"] }, "NOT_FOUND", "ids"],
    [{ account: "ghost" }, "NOT_FOUND", "account"],
  ])("revokeTokens of %j is refused, with the path of the member", async (tokens, code, member) => {
    const answer = await ostler.query(
      "mutation R($tokens: TokenSelector!) { revokeTokens(input: { tokens: $tokens }) { errors { code path } } }",
      { tokens },
    );
    expect(answer).toEqual({ revokeTokens: { errors: [{ code, path: ["input", "tokens", member] }] } });
  });
});

describe("edits", () => {
  test("an edit records texts without the credentials in them [R-985]", async () => {
    const proxy = `http://ci:${CANARY}@proxy.example:3128`;
    await accepted("createCluster", { name: "proxied", variables: { proxy, mirrors: [`${proxy}/debian`] } });
    const shown = "http://***@proxy.example:3128";
    expect((await newest())?.edits).toMatchObject([
      { after: { variables: { proxy: shown, mirrors: [`${shown}/debian`] } } },
    ]);
  });

  test("an edit records the values that differ, before and after, and secrets as *** [R-986]", async () => {
    await ostler.register(["edited"], { password: "one" });
    await accepted("updateNodes", {
      nodes: { names: ["edited"] },
      setLabels: [{ key: "rack", value: "b7" }],
      settings: { fake: { password: "two" } },
    });
    expect((await newest())?.edits).toEqual([
      { target: "edited", before: { labels: {} }, after: { labels: { rack: "b7" }, secrets: "***" } },
    ]);
    await accepted("createCluster", { name: "edited", variables: { ntp: "a", join_token: "one" } });
    await accepted("updateCluster", { cluster: { name: "edited" }, variables: { ntp: "b", join_token: "two" } });
    const hidden = { join_token: "***" };
    expect((await newest())?.edits).toEqual([
      {
        target: "edited",
        before: { variables: { ntp: "a", ...hidden } },
        after: { variables: { ntp: "b", ...hidden } },
      },
    ]);
    await accepted("updateSite", { controllerLimit: 3 });
    expect((await newest())?.edits).toMatchObject([{ target: "site", after: { controllerLimit: 3 } }]);
  });

  test("an edit adds and removes variables and labels named as members that every object inherits [R-986]", async () => {
    const name = "inherited";
    await accepted("createCluster", { name });
    await accepted("updateCluster", { cluster: { name }, variables: { constructor: "a" } });
    await accepted("updateCluster", {
      cluster: { name },
      variables: JSON.parse('{ "constructor": null, "toString": "b", "__proto__": { "c": 1 } }') as object,
    });
    const { edits = [] } = (await newest()) ?? {};
    expect(JSON.stringify(edits)).toBe(
      '[{"target":"inherited","before":{"variables":{"constructor":"a"}},"after":{"variables":{"toString":"b","__proto__":{"c":1}}}}]',
    );
    await ostler.register([name]);
    const valueOf = { nodes: { names: [name] }, setLabels: [{ key: "valueOf", value: "x" }] };
    await accepted("updateNodes", valueOf);
    expect((await newest())?.edits).toMatchObject([{ before: { labels: {} }, after: { labels: { valueOf: "x" } } }]);
  });

  test("a mutation on more than 100 nodes has the names of 100, their number, and 100 edits [R-987]", async () => {
    await ostler.register(Array.from({ length: 120 }, (_, index) => `many-${String(index).padStart(3, "0")}`));
    expect(await newest()).toMatchObject({ action: "registerNodes", targetCount: 120 });
    const nodes = { filter: { name: { startsWith: "many-" } } };
    await accepted("updateNodes", { nodes, setLabels: [{ key: "row", value: "4" }] });
    const entry = await newest();
    expect([entry?.targets.length, entry?.targetCount, entry?.editsComplete]).toEqual([100, 120, false]);
    expect(entry?.edits.length).toBe(100);
    const long = "x".repeat(200);
    await accepted("updateNodes", { nodes, setLabels: [{ key: "row", value: long }] });
    const [stored] = await sql`select length(change::text) as size from audit order by id desc limit 1`;
    expect(stored?.["size"]).toBeLessThan(18_000);
  });
});

describe("rows of the audit", () => {
  const SENTENCE = /rows of audit are never changed/;

  test("no statement changes, deletes or truncates rows, also as the role of the service [R-988]", async () => {
    await accepted("createAccount", { name: "kept" });
    await entries();
    await expect(sql`update audit set subject = 'account:other'`).rejects.toThrow(SENTENCE);
    await expect(sql`update audit set position = position + 1000`).rejects.toThrow(SENTENCE);
    await expect(sql`delete from audit`).rejects.toThrow(SENTENCE);
    await expect(sql`truncate audit`).rejects.toThrow(SENTENCE);
  });

  interface Item {
    readonly auditEntries: { readonly __typename: string; readonly cursor: string; readonly caughtUp?: boolean };
  }
  const STREAM = `subscription ($after: String, $filter: AuditFilter) { auditEntries(after: $after, filter: $filter) {
    __typename ... on AuditEntry { cursor action targets } ... on StreamBookmark { cursor caughtUp } ... on StreamReset { code cursor } } }`;
  const positionOf = (cursor: string) => Number(/^a(\d+)/.exec(cursor)?.[1]);

  test("the stream has every row once, in order, and continues after any cursor [R-989]", async () => {
    const after = (await newest())?.cursor;
    const items = ostler.overSocket<Item>(STREAM, { after });
    await Promise.all(
      Array.from({ length: 40 }, (_, index) => accepted("createAccount", { name: `streamed-${index}` })),
    );
    const all: string[] = [];
    for await (const { auditEntries: item } of items) {
      if (item.__typename === "AuditEntry") all.push(item.cursor);
      if (all.length === 40) break;
    }
    const first = positionOf(after ?? "");
    expect(all.map(positionOf)).toEqual(Array.from({ length: 40 }, (_, index) => first + index + 1));
    const rest = await takeUntil(
      ostler.overEvents<Item>(STREAM, { after: all[24] }),
      ({ auditEntries }) => auditEntries.cursor === all[39],
    );
    const again = rest.flatMap(({ auditEntries: item }) => (item.__typename === "AuditEntry" ? [item.cursor] : []));
    expect(again).toEqual(all.slice(25));
    const filter = { target: "streamed-7" };
    const [only] = await takeUntil(ostler.overSocket<Item>(STREAM, { after, filter }), () => true);
    expect(only?.auditEntries).toMatchObject({ action: "createAccount", targets: ["streamed-7"] });
  });

  test("a cursor of another log is refused, and one of another database ends the stream [R-989]", async () => {
    const { errors } = await ostler.ask('{ audit(first: 1, after: "c17") { totalCount } }');
    expect(errors[0]?.extensions?.["code"]).toBe("BAD_USER_INPUT");
    const [item] = await takeUntil(ostler.overSocket<Item>(STREAM, { after: "a999999" }), () => true);
    expect(item?.auditEntries).toMatchObject({ __typename: "StreamReset", code: "CURSOR_EXPIRED" });
  });

  test("the list is filtered by who, what, where, when and how it ended", async () => {
    await accepted("createAccount", { name: "found" });
    const [row] = await entries({ target: "found" });
    const { requestId } = row ?? {};
    const matching = { subjects: ["token"], actions: ["createAccount"], outcomes: ["ACCEPTED"], address: "127.0.0.1" };
    expect(await entries({ ...matching, requestId, since: "2000-01-01T00:00:00Z" })).toEqual([row]);
    expect(await entries({ requestId, until: "2000-01-01T00:00:00Z" })).toEqual([]);
    expect(await entries({ requestId, outcomes: ["REFUSED"] })).toEqual([]);
    expect(await entries({ requestId, subjects: [] })).toEqual([]);
  });
});
