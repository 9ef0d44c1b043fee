/**
 * The service never returns secrets: a driver repeats its password in every value that a driver can return. The tests
 * then search every response, log line and table for it, except for the table of secrets.
 */
import { getNamedType, isInterfaceType, isLeafType, isObjectType, isRequiredArgument, isUnionType } from "graphql";
import type { GraphQLField, GraphQLNamedType } from "graphql";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { passGate } from "../../plugins/fake/gates.ts";
import createFake from "../../plugins/fake/index.ts";
import { LIMITS } from "../../src/graphql/base/request-limits.ts";
import { buildSchema } from "../../src/graphql/schema/schema.ts";
import { aGate } from "../support/builders.ts";
import { eventually } from "../support/eventually.ts";
import type { AnyCall, AnySettings } from "../support/driver.ts";
import { aDriver, aStep } from "../support/driver.ts";
import { serviceUnderTest, takeUntil } from "../support/service.ts";
import type { Driver } from "../../src/drivers/driver.ts";

const PASSWORD = "Xyzzy-plugh-7#!";
const NEWER = "Frotz-ozmoo-9?$";

/** Holds a step until its progress has been received. */
const halfWay = aGate();

const passwordOf = ({ settings }: Pick<AnyCall, "settings">) => String(settings["password"]);

const offering = (...steps: ReturnType<typeof aStep>[]) => ({ supportsAbort: true, steps });

/** A driver that repeats the password in every text. */
function aLeakyDriver(): Driver<never> {
  const driver = aDriver("leaky", {
    secret: true,
    clean: offering(
      aStep(
        "leak",
        "clean",
        async (call) => {
          call.log(`logging in with ${passwordOf(call)}`);
          call.progress(50, `half way with ${passwordOf(call)}`);
          await passGate(halfWay.name, call.node.name, call.signal);
          return {
            kind: "done",
            output: {
              url: `https://root:${passwordOf(call)}@bmc/`,
              list: [passwordOf(call)],
              [`key`]: passwordOf(call),
            },
          };
        },
        { priority: 30 },
      ),
      aStep(
        "refuse",
        "clean",
        async (call) => ({ kind: "failed", reason: `login root/${passwordOf(call)} was refused`, retryable: false }),
        { priority: 0 },
      ),
    ),
    inspect: {
      ...offering(
        aStep("look", "inspect", async (call) => ({
          kind: "done",
          output: { account: { password: passwordOf(call) } },
        })),
      ),
      withoutReboot: true,
    },
    deploy: offering(
      aStep("install", "deploy", async (call) => {
        throw new Error(`curl -u root:${passwordOf(call)} failed`, { cause: new Error(passwordOf(call)) });
      }),
      aStep("remove", "undeploy", async () => ({ kind: "done" }), {
        abort: async (call) => {
          throw new Error(`cannot log out ${passwordOf(call)}`);
        },
      }),
    ),
  }) as unknown as Driver<AnySettings>;
  const { read } = driver.power;
  return {
    ...driver,
    power: {
      ...driver.power,
      async read(call: AnyCall) {
        if (call.node.name !== "leaky-locked") return read(call);
        throw Object.assign(new Error(`${passwordOf(call)} is wrong`), {
          name: "DriverError",
          kind: "AUTHENTICATION",
          retryable: false,
        });
      },
    },
  } as unknown as Driver<never>;
}

const ostler = await serviceUnderTest({ drivers: [aLeakyDriver()] });
afterAll(() => ostler[Symbol.asyncDispose]());

/** All responses of the service so far. */
const answers: string[] = [];
const ask = async (text: string, variables: Record<string, unknown> = {}) => {
  const answer = await ostler.ask(text, variables);
  answers.push(answer.text);
  expect(answer.errors).toEqual([]);
  return answer.data ?? {};
};

/**
 * Selections that together have every field of every type reachable from a type, each by the shortest path. A single
 * selection with all of them would exceed the limits of a request.
 */
function selectionsFrom(type: GraphQLNamedType): string[] {
  const selections: string[] = [];
  const seen = new Set([type.name, "Query"]);
  const next: { readonly type: GraphQLNamedType; readonly within: (inner: string) => string }[] = [
    { type, within: (inner) => inner },
  ];
  for (const path of next) {
    const members = isUnionType(path.type) || isInterfaceType(path.type) ? schema.getPossibleTypes(path.type) : [];
    for (const member of members) {
      if (!seen.has(member.name))
        next.push({ type: member, within: (inner) => path.within(`{ __typename ... on ${member.name} ${inner} }`) });
      seen.add(member.name);
    }
    if (!isObjectType(path.type)) continue;
    const fields = Object.values(path.type.getFields()).filter(({ args }) => !args.some(isRequiredArgument));
    const leaves = fields.filter((field) => isLeafType(getNamedType(field.type))).map(({ name }) => name);
    const selection = path.within(`{ ${leaves.join(" ")} }`);
    // Deeper fields exceed the depth limit on this path.
    if (leaves.length > 0 && 1 + fieldDepth(selection) <= LIMITS.depth) selections.push(selection);
    for (const field of fields) {
      const below = getNamedType(field.type);
      if (seen.has(below.name) || isLeafType(below)) continue;
      seen.add(below.name);
      next.push({
        type: below,
        within: (inner) => path.within(`{ ${field.name}${isPaged(field) ? "(first: 5)" : ""} ${inner} }`),
      });
    }
  }
  return selections;
}

/** Depth of nested fields, without inline fragments. */
function fieldDepth(selection: string): number {
  return selection.split("{").length - 1 - (selection.match(/\.\.\. on/g)?.length ?? 0);
}

/** One selection for streams: the fields of a type and of the types up to `further` levels below. */
function near(type: GraphQLNamedType, further: number): string {
  if (isUnionType(type) || isInterfaceType(type))
    return `{ __typename ${schema
      .getPossibleTypes(type)
      .map((member) => `... on ${member.name} ${near(member, further)}`)
      .join(" ")} }`;
  if (!isObjectType(type)) return "";
  const fields = Object.values(type.getFields()).filter(
    (field) => !field.args.some(isRequiredArgument) && getNamedType(field.type).name !== "Query",
  );
  const shown = fields.filter(
    (field) =>
      isLeafType(getNamedType(field.type)) ||
      (further > 0 && isObjectType(getNamedType(field.type)) && !isPaged(field)),
  );
  return `{ ${shown.map((field) => `${field.name} ${near(getNamedType(field.type), further - 1)}`).join(" ")} }`;
}

function isPaged({ args }: GraphQLField<unknown, unknown>): boolean {
  return args.some(({ name }) => name === "first");
}

const schema = buildSchema([createFake({ log: () => {} }), aLeakyDriver()]);
const typeOf = (name: string) => schema.getType(name) as GraphQLNamedType;
/** Selects every field reachable from a root field. */
const askAll = async (root: string, type: string) => {
  for (const selection of selectionsFrom(typeOf(type))) await ask(`{ ${root} ${selection} }`);
};

beforeAll(async () => {
  const stream = ostler.overSocket(`subscription { nodeTransitions ${near(typeOf("NodeStreamItem"), 2)} }`);
  answers.push(JSON.stringify(await stream.next()));
  const following = (async () =>
    answers.push(
      ...(await takeUntil(stream, (item) => JSON.stringify(item).includes('"the end"'))).map((item) =>
        JSON.stringify(item),
      ),
    ))();

  await ask(
    "mutation Register($nodes: [RegisterNodeInput!]!) { registerNodes(input: { nodes: $nodes }) { nodes { id } errors { message path } } }",
    {
      nodes: ["leaky-1", "leaky-2", "leaky-locked"].map((name) => ({
        name,
        driver: { leaky: { password: PASSWORD } },
      })),
    },
  );
  await ask(
    "mutation Register($nodes: [RegisterNodeInput!]!) { registerNodes(input: { nodes: $nodes }) { nodes { id } errors { message path } } }",
    {
      nodes: [
        { name: "refused-1", driver: { fake: { password: PASSWORD, delayMs: -1, steps: { [PASSWORD.length]: 1 } } } },
        { name: "refused-2", driver: { leaky: { password: [PASSWORD] } } },
        { name: "refused-3", driver: { fake: { password: PASSWORD.repeat(20) } } },
      ],
    },
  );
  for (const [verb, names, more] of [
    ["manageNodes", ["leaky-1", "leaky-2", "leaky-locked"]],
    ["inspectNodes", ["leaky-1"]],
    ["cleanNodes", ["leaky-1"], { steps: [{ name: "refuse" }] }],
    ["commissionNodes", ["leaky-2"], { onFailure: "LEAVE" }],
    ["decommissionNodes", ["leaky-1"]],
    ["setPower", ["leaky-locked"], { action: "ON" }],
  ] as const) {
    const uuid = await ostler.begin(verb, names, more);
    if (verb === "commissionNodes") {
      await eventually("the progress is returned", async () =>
        JSON.stringify(
          await ask(`{ node(by: { name: "leaky-2" }) { currentRun { currentStep { progressMessage } } } }`),
        ).includes("half way"),
      );
      halfWay.open();
    }
    await ostler.operationEnds(uuid);
    for (const [field, item] of [
      [`operationChanges(filter: { ids: ["${uuid}"] }, snapshot: true)`, "OperationChange"],
      [`runChanges(operation: "${uuid}", snapshot: true)`, "RunChange"],
    ] as const) {
      const items = ostler.overEvents(`subscription { ${field} ${near(typeOf(item), 2)} }`);
      answers.push(JSON.stringify(await takeUntil(items, (one) => JSON.stringify(one).includes('"caughtUp":true'))));
      await items.return?.();
    }
  }
  await askAll('node(by: { name: "leaky-1" })', "Node");
  const { node } = (await ask(`{ node(by: { name: "leaky-1" }) { id } }`)) as { node: { id: string } };
  await ask(
    "mutation Change($id: ID!, $settings: JSON!) { updateNodes(input: { nodes: { ids: [$id] }, driver: { leaky: $settings } }) { nodes { drivers { settings { leaky } secretsSet } } errors { message } } }",
    { id: node.id, settings: { password: NEWER, note: "open" } },
  );
  await askAll("nodes(first: 5)", "NodeConnection");
  await askAll("operations(first: 4)", "OperationConnection");
  await askAll("transitions(first: 5)", "TransitionConnection");
  await askAll("drivers", "Driver");
  await ask(
    `mutation { setMaintenance(input: { nodes: { names: ["leaky-1"] }, reason: "over" }) { errors { message } } }`,
  );
  const last = await ostler.register(["the end"].map((name) => name.replace(" ", "-")));
  await ask(
    `mutation { manageNodes(input: { nodes: { names: ["${last[0]}"] }, reason: "the end" }) { errors { message } } }`,
  );
  await following;
}, 60_000);

describe("password that the driver repeats everywhere", () => {
  test("a password that the driver repeats is masked in failures, outputs, progress and logs", () => {
    const all = answers.join("\n");
    const masked = [
      "login root/*** was refused",
      "curl -u root:*** failed",
      "*** is wrong",
      "https://root:***@bmc/",
      "half way with ***",
      '"secretsSet":["password"]',
    ];
    expect(masked.filter((text) => !all.includes(text))).toEqual([]);
    expect(ostler.logLines.some((line) => line.includes("logging in with ***"))).toBe(true);
  });

  test.each([PASSWORD, NEWER])("the password %j is in no response and no stream item", (password) => {
    expect(answers.length).toBeGreaterThan(150);
    expect(answers.filter((answer) => answer.includes(password)).map((answer) => answer.slice(0, 200))).toEqual([]);
  });

  test.each([PASSWORD, NEWER])("the password %j is in no log line", (password) => {
    expect(ostler.logLines.length).toBeGreaterThan(0);
    expect(ostler.logLines.filter((line) => line.includes(password))).toEqual([]);
  });

  test("a password is stored in no table in clear", async () => {
    const rest = await ostler.dump();
    for (const password of [PASSWORD, NEWER])
      expect(
        rest
          .split("\n")
          .filter((table) => table.includes(password))
          .map((table) => table.split(" ")[0]),
      ).toEqual([]);
  });
});

describe("password that cannot be stored", () => {
  test.each(["nul\u0000byte", "half\ud800pair"])(
    "a password that cannot be stored is refused without being repeated (%j)",
    async (password) => {
      const answer = await ostler.ask(
        "mutation Register($nodes: [RegisterNodeInput!]!) { registerNodes(input: { nodes: $nodes }) { errors { message } } }",
        { nodes: [{ name: "odd", driver: { fake: { password: `secret-${password}` } } }] },
      );
      expect(answer.errors).toMatchObject([
        {
          message: expect.stringContaining(
            "input.nodes.0.driver.fake.password contains a character that cannot be stored",
          ) as string,
          extensions: { code: "BAD_USER_INPUT" },
        },
      ]);
      expect(answer.text + ostler.logLines.join("")).not.toContain("secret-");
    },
  );
});
