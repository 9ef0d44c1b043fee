/**
 * Every root field for every role over every transport, against a table written by hand. A field that the table lacks
 * fails, and so does one whose scope is not the one that the table gives.
 */
import { GraphQLInputObjectType, isEnumType, isListType, isNonNullType, isScalarType } from "graphql";
import type { GraphQLField, GraphQLInputType, GraphQLObjectType } from "graphql";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createClient } from "graphql-ws";
import { WebSocket } from "ws";
import { describeDrivers } from "../../src/drivers/load.ts";
import { buildSchema } from "../../src/graphql/schema/schema.ts";
import { administratorOf } from "../support/accounts.ts";
import { serviceUnderTest } from "../support/service.ts";

/** The least role that may send a field; `none`: a caller without any. */
const LEAST = ["none", "viewer", "operator", "manager", "admin"] as const;
type Role = (typeof LEAST)[number];

/** Fields by the least role that may send them. */
const TABLE: Readonly<Record<Role, string>> = {
  none: "service viewer",
  viewer: `
    attention capacity cluster clusters cursorAt drivers effectiveVariables fetch__Cluster fetch__Driver fetch__Image fetch__Inventory
    fetch__Node fetch__Operation fetch__Run fetch__Runbook image images labelKeys node nodeCounts nodes nodesAt
    operation operations plan reservedSteps run runbook runbooks site stepAttempts transitions
    attentionChanges clusterChanges nodeChanges nodeCountChanges nodeTransitions operationChanges runChanges runLog`,
  operator: `
    abort advanceWaves applyCluster cleanNodes clearMaintenance clearRetired commissionNodes decommissionNodes deployNodes haltWaves
    inspectNodes manageNodes provideNodes readNodes readPower redeployNodes releaseHolds reportPresence restart
    resumeWaves setBootDevice setMaintenance setPower setRetired stop undeployNodes withdrawAbort`,
  manager: `
    createCluster createRunbook deleteCluster deleteImages deleteNodes deleteRunbook discoverNodes probeNodes
    registerImages registerNodes updateCluster updateImage updateNodes updateRunbook`,
  admin: `
    accounts audit auditEntries grants roles trustedDocuments createAccount createToken deleteRole putRole registerDocuments revokeTokens
    setRoles updateAccount updateSite`,
};

/** Arguments that need more than the scope of their field. */
const ARGUMENTS: readonly { readonly what: string; readonly least: Role; readonly request: string }[] = [
  {
    what: "force",
    least: "manager",
    request: `manageNodes(input: { nodes: { names: ["crawled"] }, force: true, dryRun: true })`,
  },
  {
    what: "chosen steps of a cleaning",
    least: "manager",
    request: `cleanNodes(input: { nodes: { names: ["crawled"] }, steps: [{ name: "burn_in" }], dryRun: true })`,
  },
  {
    what: "chosen steps of a deployment",
    least: "manager",
    request: `deployNodes(input: { nodes: { names: ["crawled"] }, steps: [{ name: "write_image" }], dryRun: true })`,
  },
  {
    what: "a step of which the site demands ADMIN, in a runbook",
    least: "admin",
    request: `cleanNodes(input: { nodes: { names: ["crawled"] }, runbook: "strict", dryRun: true })`,
  },
  {
    what: "a runbook with such a step",
    least: "admin",
    request: `createRunbook(input: { name: "another", steps: [{ name: "erase_disks" }] })`,
  },
  {
    what: "a runbook without such a step",
    least: "operator",
    request: `cleanNodes(input: { nodes: { names: ["crawled"] }, runbook: "plain", dryRun: true })`,
  },
];

const schema = buildSchema(await describeDrivers(["fake"]));
const ostler = await serviceUnderTest({ token: "a-token-of-some-length" });
afterAll(() => ostler[Symbol.asyncDispose]());

const secrets = new Map<Role, string>();
beforeAll(async () => {
  const administrator = administratorOf(ostler);
  for (const role of LEAST) secrets.set(role, (await administrator.account(...(role === "none" ? [] : [role]))).token);
  await ostler.register(["crawled"]);
  await ostler.query(
    `mutation {
      createRunbook(input: { name: "strict", steps: [{ name: "erase_disks" }] }) { errors { message } }
      other: createRunbook(input: { name: "plain", steps: [{ name: "burn_in" }] }) { errors { message } }
      updateSite(input: { stepScopes: [{ step: "clean.erase_disks", scope: ADMIN }] }) { errors { message } }
    }`,
  );
});

/** A value that the type accepts. */
function valueOf(type: GraphQLInputType): string {
  if (isNonNullType(type)) return valueOf(type.ofType);
  if (isListType(type)) return `[${valueOf(type.ofType)}]`;
  if (isEnumType(type)) return type.getValues()[0]?.name ?? "";
  if (type instanceof GraphQLInputObjectType) {
    const fields = Object.values(type.getFields());
    const given = type.isOneOf
      ? [fields.find(({ name }) => /^names?$/.test(name)) ?? fields[0]].flatMap((field) => field ?? [])
      : fields.filter((field) => isNonNullType(field.type) && field.defaultValue === undefined);
    return `{ ${given.map((field) => `${field.name}: ${valueOf(field.type)}`).join(", ")} }`;
  }
  if (!isScalarType(type)) throw new Error(`There is no value of ${String(type)}.`);
  const values: Readonly<Record<string, string>> = {
    Int: "1",
    Float: "1",
    Boolean: "true",
    ByteCount: "1",
    JSON: "{}",
    DateTime: `"2026-01-31T09:30:00.000Z"`,
    UUID: `"00000000-0000-4000-8000-000000000000"`,
  };
  return values[type.name] ?? `"crawl"`;
}

function documentOf(root: "query" | "mutation" | "subscription", field: GraphQLField<unknown, unknown>): string {
  const required = field.args.filter(({ type, defaultValue }) => isNonNullType(type) && defaultValue === undefined);
  const args = required.map(({ name, type }) => `${name}: ${valueOf(type)}`).join(", ");
  const isLeaf = isScalarType(schema.getType(String(field.type).replaceAll(/[[\]!]/g, "")));
  return `${root} { ${field.name}${args === "" ? "" : `(${args})`}${isLeaf ? "" : " { __typename }"} }`;
}

type Send = (secret: string, document: string) => Promise<string>;

/** The code of the first error of the first answer; "" if there is none. */
function codeOf(text: string): string {
  return /"code":\s*"([A-Z_]+)"/.exec(text)?.[1] ?? "";
}

const TRANSPORTS: Readonly<Record<string, Send>> = {
  HTTP: async (secret, document) =>
    codeOf((await ostler.ask(document, {}, { authorization: `Bearer ${secret}` })).text),
  async SSE(secret, document) {
    const leave = new AbortController();
    const response = await fetch(`${ostler.url}/graphql`, {
      method: "POST",
      headers: { "content-type": "application/json", accept: "text/event-stream", authorization: `Bearer ${secret}` },
      body: JSON.stringify({ query: document }),
      signal: leave.signal,
    });
    let text = "";
    for await (const part of response.body ?? []) {
      text += Buffer.from(part).toString();
      if (text.includes("data: {")) break;
    }
    leave.abort();
    return codeOf(text);
  },
  async WebSocket(secret, document) {
    const client = createClient({
      url: `${ostler.url.replace("http", "ws")}/graphql`,
      webSocketImpl: WebSocket,
      retryAttempts: 0,
      connectionParams: { authorization: `Bearer ${secret}` },
    });
    try {
      for await (const answer of client.iterate({ query: document })) return codeOf(JSON.stringify(answer));
      return "";
    } catch (error) {
      return codeOf(JSON.stringify(error));
    } finally {
      await client.dispose();
    }
  },
};

const ROOTS: readonly (readonly ["query" | "mutation" | "subscription", GraphQLObjectType | null | undefined])[] = [
  ["query", schema.getQueryType()],
  ["mutation", schema.getMutationType()],
  ["subscription", schema.getSubscriptionType()],
];

const leastOf = new Map<string, Role>(
  LEAST.flatMap((role) =>
    TABLE[role]
      .trim()
      .split(/\s+/)
      .map((field) => [field, role] as const),
  ),
);

function isAllowed(role: Role, least: Role): boolean {
  return LEAST.indexOf(role) >= LEAST.indexOf(least);
}

test("the table has every root field, and no other", () => {
  const fields = ROOTS.flatMap(([, type]) => Object.keys(type?.getFields() ?? {}));
  expect([...leastOf.keys()].toSorted()).toEqual(fields.toSorted());
});

describe.each(Object.entries(TRANSPORTS))("crawl over %s", (transport, send) => {
  test.each(LEAST.map((role) => ({ role })))(
    `a caller with the role $role gets what the table says over ${transport} [R-956]`,
    async ({ role }) => {
      const wrong: string[] = [];
      for (const [root, type] of ROOTS)
        for (const field of Object.values(type?.getFields() ?? {})) {
          // Below, because a stream goes on.
          const least = leastOf.get(field.name) ?? "none";
          if (root === "subscription" && isAllowed(role, least)) continue;
          const code = await send(secrets.get(role) ?? "", documentOf(root, field));
          if ((code === "FORBIDDEN") === isAllowed(role, least)) wrong.push(`${field.name}: ${code}`);
          if (/VALIDATION|PARSE|UNAUTHENTICATED|BAD_REQUEST/.test(code)) wrong.push(`${field.name}: ${code}`);
        }
      expect(wrong).toEqual([]);
    },
  );
});

describe("crawl of arguments", () => {
  test.each(ARGUMENTS)("$what needs the role $least [R-957]", async ({ least, request }) => {
    for (const role of LEAST) {
      const code = await TRANSPORTS["HTTP"]?.(
        secrets.get(role) ?? "",
        `mutation { ${request} { errors { code message } } }`,
      );
      expect([role, code === "FORBIDDEN"]).toEqual([role, !isAllowed(role, least)]);
    }
  });
});

test.each(
  Object.values(schema.getSubscriptionType()?.getFields() ?? {}).filter(({ name }) => leastOf.get(name) === "viewer"),
)("the stream $name begins for a viewer", async (field) => {
  const code = await TRANSPORTS["WebSocket"]?.(secrets.get("viewer") ?? "", documentOf("subscription", field));
  // An item, or the answer that the run of the argument does not exist.
  expect(["", "NOT_FOUND", "BAD_USER_INPUT"]).toContain(code);
});
