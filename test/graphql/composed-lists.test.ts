/**
 * Fields that the service composes in lists that the database writes: the same as the resolved list, byte for byte, for
 * nodes in any condition.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { COMPOSED_FIELDS } from "../../src/store/nodes/composed-fields.ts";
import { runs } from "../../src/store/tables.ts";
import { expectSame } from "../support/list-ways.ts";
import { serviceUnderTest } from "../support/service.ts";

const statements: string[] = [];
const ostler = await serviceUnderTest({ started: false, onStatement: (text) => void statements.push(text) });
afterAll(() => ostler[Symbol.asyncDispose]());
const service = { ostler, statements };

const NODES = 180;
const PAGE = 90;

beforeAll(async () => {
  await ostler.test.sql.begin(async (tx) => {
    await tx`set local session_replication_role = replica`;
    // The counts have no common divisor, so that conditions occur in many combinations.
    await tx`
    insert into nodes (id, name, project, state, stage, power_state, presence, maintenance_reason, maintenance_since, maintenance_by, is_protected, retired_reason,
      driver, borrowed, fallbacks, settings, labels, fault_kind, fault_since, fault_message, identity_conflict, transition_count, revision)
    select gen_random_uuid(), (array['a', 'Ä', '😀', '"', E'\\\\', E'\\n\\t\\u0001', '</script>', E'\\u2028', '$&', '$1'])[1 + n % 10] || n, 'default',
      (array['ENROLLED', 'MANAGEABLE', 'AVAILABLE', 'ACTIVE', 'CLEAN_FAILED', 'DEPLOY_FAILED', 'DEPLOYING'])[1 + n % 7], (array['NONE', 'PROVISIONED', 'DEPLOYED'])[1 + n % 3], 'ON',
      (array['DISCOVERED', 'DISCOVERED', 'UNSEEN', 'DISAPPEARED'])[1 + n % 4], 'fan', case when n % 11 = 0 then now() end, 'me', n % 5 = 0, case when n % 13 = 0 then 'old' end,
      case when n % 17 = 0 then 'absent "driver"' else 'fake' end,
      case n % 19 when 0 then '{"clean":"fake"}'::jsonb when 1 then '{"deploy":"gone"}'::jsonb when 2 then '{"odd":"fake"}'::jsonb else '{}'::jsonb end,
      case n % 23 when 0 then '{"power":["gone"]}'::jsonb when 1 then '{"clean":["fake"]}'::jsonb else '{}'::jsonb end,
      '{}', '{}', case n % 8 when 0 then 'BMC_UNREACHABLE' when 1 then 'CLEAN_UP_FAILED' end,
      case when n % 8 < 2 then '2026-01-31T09:30:00.1239Z'::timestamptz + n * interval '1 ms' end, case when n % 8 < 2 then E'no "answer"\\n' end,
      case when n % 9 = 0 then jsonb_build_object('kind', 'SERIAL_NUMBER', 'value', E'"S"\\n', 'nodeId', gen_random_uuid(), 'nodeName', 'twin', 'since', now()) end, 1, n + 1
    from generate_series(0, ${NODES - 1}) n`;
    await tx`
    insert into operations (id, kind, state, project, actor, options, on_failure, variables, total_count)
    select gen_random_uuid(), kind, 'RUNNING', 'default', 'test', '{}', 'CONTINUE', '{}', 1 from unnest(array['CLEAN', 'DEPLOY', 'POWER']) kind`;
    // Unfinished runs: some are being ended, some have lost their operation.
    await tx`
    insert into runs (id, operation_id, node_id, node_name, ordinal, purpose, state, plan_hash, variables, target, moves_state, attempt, ${tx(runs.interrupt.name)}, ${tx(runs.interruptFailure.name)})
    select gen_random_uuid(), case when revision % 9 = 0 then gen_random_uuid() else (array(select id from operations order by kind))[1 + revision % 3] end, id, name, 0, 'WORK', 'HOLDING', 'none', '{}', 'AVAILABLE', true, 1,
      case revision % 5 when 0 then 'ABORT' when 1 then 'STOP' end, case when revision % 7 = 0 then '{}'::jsonb end
    from nodes where revision % 3 = 0`;
  });
});

const SELECTIONS: Readonly<Record<string, string>> = {
  "all members": `drivers { __typename ${Object.keys(COMPOSED_FIELDS.drivers.fields).join(" ")} } verbs { __typename ${Object.keys(COMPOSED_FIELDS.verbs.fields).join(" ")} }`,
  "aliases and repetitions":
    "a: drivers { n: name } verbs { v: verb verb } b: drivers { name name } verbs { allowed } state",
  fragments: "...F verbs { ... on VerbVerdict { reason } } ... { drivers { name } }",
  "a directive": "drivers @skip(if: true) { name } verbs { verb @include(if: false) code }",
};

/** Calls with the pages of all nodes, in both forms of items. */
async function eachPage(selection: string): Promise<number> {
  let nodes = 0;
  let after: string | null = null;
  do {
    const text: string = await expectSame(
      service,
      `query Page($after: String) { nodes(first: ${PAGE}, after: $after) { edges { node { ${selection} } } pageInfo { endCursor hasNextPage } } } ${selection.includes("...F") ? "fragment F on Node { drivers { fallbackFor } name }" : ""}`,
      { variables: { after } },
    );
    const { edges, pageInfo } = JSON.parse(text).data.nodes;
    nodes += edges.length;
    after = pageInfo.hasNextPage ? pageInfo.endCursor : null;
  } while (after !== null);
  return nodes;
}

describe("composed fields", () => {
  test.each(Object.keys(SELECTIONS))(
    "a JSON list with composed fields equals the resolved list, for nodes in many conditions: %s",
    async (what) => {
      expect(await eachPage(SELECTIONS[what] ?? "")).toBe(NODES);
    },
  );

  test("the conditions of the nodes lead to every kind of verdict that a list can have", async () => {
    const { text } = await ostler.ask(`{ nodes(first: ${PAGE}) { nodes { verbs { code reason } drivers { name } } } }`);
    const codes = JSON.parse(text).data.nodes.nodes.flatMap(({ verbs }: { verbs: { code: string | null }[] }) =>
      verbs.map(({ code }) => code),
    );
    expect(new Set(codes)).toEqual(
      new Set([
        "BUSY",
        "IDENTITY_CONFLICT",
        "INVALID_STATE",
        "IN_MAINTENANCE",
        "PROTECTED",
        "UNSUPPORTED_BY_DRIVER",
        null,
      ]),
    );
  });

  test("a JSON list with composed fields in edges and in nodes has both", async () => {
    await expectSame(
      service,
      "{ nodes(first: 9) { edges { cursor node { verbs { verb } } } nodes { drivers { name } name } n: nodes { verbs { reason } } } }",
    );
  });

  test.each(["settings { __typename }", "secretsSet", "circuit { state }"])(
    "a list with %s of drivers is resolved",
    async (field) => {
      await expectSame(service, `{ nodes(first: 9) { nodes { drivers { name ${field} } } } }`, { byDatabase: false });
    },
  );

  test("many composed fields in one list are resolved, so that no statement grows with them", async () => {
    const many = Array.from({ length: 40 }, (_, at) => `a${at}: verbs { verb }`).join(" ");
    await expectSame(service, `{ nodes(first: 1) { nodes { ${many} } } }`, { byDatabase: false });
  });

  test("a JSON list with composed fields reads nodes, runs and operations in one statement", async () => {
    statements.length = 0;
    await ostler.ask("{ nodes(first: 50) { nodes { name verbs { verb allowed } drivers { name } } } }");
    expect(statements).toHaveLength(1);
  });
});
