/**
 * The rules for the schema (test/support/schema-rules.ts): each holds for ours, and finds its offence in a broken one.
 */
import { buildASTSchema, buildSchema as parsedSchema, parse } from "graphql";
import { describe, expect, test } from "vitest";
import { describeDrivers } from "../../src/drivers/load.ts";
import { buildSchema } from "../../src/graphql/schema/schema.ts";
import { SCOPES } from "../../src/lifecycle/scopes.ts";
import { SCHEMA_RULES, partsOf } from "../support/schema-rules.ts";

type RuleName = keyof typeof SCHEMA_RULES;

const schema = buildSchema(await describeDrivers());

/** For each rule, schemas that break it and nothing that it lets pass, and what it has to say of them. */
const BROKEN: Readonly<Record<RuleName, readonly { readonly sdl: string; readonly offences: readonly string[] }[]>> = {
  "is valid by graphql-js": [
    { sdl: "type Query { a: Int } type Empty", offences: ["Type Empty must define one or more fields."] },
  ],
  "everything has a description": [
    {
      sdl: `
        directive @bare(with: Int) on OBJECT
        "Good." type Query { bare(with: Int, "Good." good: In): Colour }
        "Good." enum Colour { BARE }
        "Good." input In { bare: Int, "Good." good: Int }
        scalar Bare
        "  " union Blank = Query`,
      offences: ["Query.bare", "Query.bare(with:)", "Colour.BARE", "In.bare", "Bare", "Blank", "@bare", "@bare(with:)"],
    },
  ],
  "a description begins with a capital or code and ends like a sentence": [
    {
      sdl: '"ends well but begins small." type Query { "No end" a: Int "`code`, and an end." b: Int "3 of them!" c: Int }',
      offences: ["Query: ends well but begins small.", "Query.a: No end"],
    },
  ],
  "a description says more than the name": [
    {
      sdl: '"The query." type Query { "The host groups." hostGroup: Int "Its role in the cluster." role: Int "A." b: Int }',
      offences: ["Query: The query.", "Query.hostGroup: The host groups.", "Query.b: A."],
    },
  ],
  "the values of an enum have descriptions of their own": [
    {
      sdl: 'type Query { a: Boot b: Colour } enum Boot { "Value of `boot`." AUTO "Value of `boot`." PXE } enum Colour { "Like fire." RED "Like grass." GREEN }',
      offences: ["Boot: AUTO, PXE"],
    },
  ],
  "types are PascalCase": [
    {
      sdl: "type Query { a: Snake_Case b: camel c: UUID } type Snake_Case { a: Int } type camel { a: Int } scalar UUID",
      offences: ["Snake_Case", "camel"],
    },
  ],
  "fields and arguments are camelCase, but for Relay's fetch__": [
    {
      sdl: "directive @fetchable(field_name: String) on OBJECT type Query { snake_case(Pascal: Int, in: In): Int fetch__Node: Int fetch__node: Int } input In { UPPER: Int }",
      offences: ["Query.snake_case", "Query.snake_case(Pascal:)", "Query.fetch__node", "In.UPPER"],
    },
  ],
  "enum values are UPPER_CASE, those of the lifecycle too": [
    {
      sdl: "type Query { a: Colour b: Phase } enum Colour { RED DARK_RED_2 red Dark RED_ } enum Phase { clean CLEAN }",
      offences: ["Colour.red", "Colour.Dark", "Colour.RED_", "Phase.clean"],
    },
  ],
  "inputs end in Input, but for what selects, filters or orders; nothing else ends so": [
    {
      sdl: "type Query { a(in: In, filter: NodeFilter, by: NodeRef): NodeInput } input In { a: Int } input NodeFilter { a: Int } input NodeRef { a: Int } type NodeInput { a: Int }",
      offences: ["In", "NodeInput"],
    },
  ],
  "payloads are what mutations answer, and nothing else is": [
    {
      sdl: "type Query { a: StrayPayload } type StrayPayload { a: Int } type Mutation { b: Answer c: GoodPayload } type Answer { a: Int } type GoodPayload { a: Int } interface WorkPayload { a: Int }",
      offences: ["StrayPayload", "Answer"],
    },
  ],
  "errors are what implements UserError, and nothing else is": [
    {
      sdl: "interface UserError { code: Int } type Query { a: UserError b: StrayError } type StrayError { code: Int } type Refusal implements UserError { code: Int } type GoodError implements UserError { code: Int }",
      offences: ["StrayError", "Refusal"],
    },
  ],
  "yes-or-no fields do not begin with is": [
    {
      sdl: "type Query { isReady: Boolean! issue: Boolean isolation: Int isA: Int ready: Boolean }",
      offences: ["Query.isReady"],
    },
  ],
  "lists hold no nulls": [
    {
      sdl: "type Query { a(in: [Int], good: [Int!]): [Int]! b(in: In): [[Int]!]! good: [[Int!]!]! } input In { a: [Int]! }",
      offences: ["Query.a", "Query.a(in:)", "Query.b", "In.a"],
    },
  ],
  "lists of an answer are never null, unless null says something": [
    {
      sdl: "type Query { a(in: [Int!]): [Int!] good: [Int!]! result: WorkResult settings: DriverSettings } type WorkResult { steps: [Int!] others: [Int!] } type DriverSettings { fake: Fake } type Fake { a: [Int!] }",
      offences: ["Query.a", "WorkResult.others"],
    },
  ],
  "what has a default refuses null": [
    {
      sdl: "type Query { a(bad: Int = 1, good: Int! = 1, in: In, settings: DriverSettingsInput): Int } input DriverSettingsInput @oneOf { fake: Fake } input Fake { a: Int = 1 } input In { bad: Boolean = false, good: Boolean! = false }",
      offences: ["Query.a(bad:)", "In.bad"],
    },
  ],
  "a mutation takes one input, and answers one payload, that no other has": [
    {
      sdl: `
        type Query { a: Int } input TwoInput { a: Int } input LooseInput { a: Int } input NamedInput { a: Int } input GoodInput { a: Int }
        type NonePayload { a: Int } type TwoPayload { a: Int } type LoosePayload { a: Int } type NamedPayload { a: Int } type GoodPayload { a: Int }
        type Mutation { none: NonePayload two(input: TwoInput!, more: Int): TwoPayload loose(input: LooseInput): LoosePayload named(it: NamedInput!): NamedPayload shared(input: GoodInput!): GoodPayload good(input: GoodInput!): GoodPayload }`,
      offences: ["Mutation.none", "Mutation.two", "Mutation.loose", "Mutation.named", "Mutation.shared"],
    },
  ],
  "a mutation answers a payload, never null, with errors and the root query": [
    {
      sdl: `
        type Query { a: Int } interface UserError { code: Int }
        type GoodPayload { errors: [UserError!]! query: Query! } type LoosePayload { errors: [UserError!] query: Query! } type LonelyPayload { errors: [UserError!]! }
        type Mutation { nullable: GoodPayload loose: LoosePayload! lonely: LonelyPayload! scalar: Int! good: GoodPayload! }`,
      offences: ["Mutation.nullable", "Mutation.loose", "Mutation.lonely", "Mutation.scalar"],
    },
  ],
  "connections are Relay's": [
    {
      sdl: `
        type Query { good(first: Int, after: String, last: Int, before: String): GoodConnection! bad(first: Int!, after: ID, last: Int): BadConnection }
        type PageInfo { hasNextPage: Boolean! hasPreviousPage: Boolean startCursor: String endCursor: String }
        type GoodConnection { edges: [GoodEdge!]! pageInfo: PageInfo! } type GoodEdge { cursor: String! node: Int! }
        type BadConnection { edges: [BadItem!]! pageInfo: PageInfo } type BadItem { cursor: Int! node: [Int!]! }`,
      offences: [
        "PageInfo.hasPreviousPage",
        "BadConnection.edges",
        "BadConnection.pageInfo",
        "BadConnection.edges.cursor",
        "BadConnection.edges.node",
        "Query.bad(first:)",
        "Query.bad(after:)",
        "Query.bad(before:)",
        "Query.bad",
      ].toSorted(),
    },
  ],
  "a root field says which scope it needs": [
    {
      sdl: "type Query { a: Thing } type Thing { b: Int } type Subscription { c: Int }",
      offences: ["Query.a", "Subscription.c"],
    },
  ],
  "queries and subscriptions only read, mutations never only read": [
    { sdl: "type Query { a: Int } type Mutation { b: Int }", offences: ["Query.a"] },
  ],
  "members of a union agree on the whole type of fields with the same name": [
    {
      sdl: "type Query { a: U } union U = A | B type A { same: Int! is: Int! other: String } type B { same: Int! is: Int other: Int }",
      offences: ["A.is: Int! and B.is: Int", "A.other: String and B.other: Int"],
    },
  ],
  "members of an interface agree on the nullability of fields with the same name": [
    {
      sdl: "interface I { a: Int } type Query { a: I } type A implements I { a: Int is: [Int!]! kind: A } type B implements I { a: Int is: [Int]! kind: B }",
      offences: ["A.is: [Int!]! and B.is: [Int]!"],
    },
  ],
  "every item of a stream has a cursor": [
    {
      sdl: "type Query { a: Int } type Subscription { one: A several: U good: C } type A { cursor: String } union U = A | C type C { cursor: String! }",
      offences: ["Subscription.one: A", "Subscription.several: A"],
    },
  ],
  "what has a global ID is fetched by it": [
    {
      sdl: "type Query { a: A b: B c: C d: D fetch__C(id: ID!): C } type A { id: ID! } type B { id: Int! } type C { id: ID! } type D { id: ID }",
      offences: ["A"],
    },
  ],
  "what is deprecated says what to use": [
    {
      sdl: 'type Query { a: Int @deprecated b: Int @deprecated(reason: "old") c(in: Int @deprecated): Colour @deprecated(reason: "Use `d`.") d: Int } enum Colour { RED @deprecated }',
      offences: ["Query.a", "Query.b", "Query.c(in:)", "Colour.RED"],
    },
  ],
  "every type is reached from the root": [
    {
      sdl: "type Query { a(in: AInput): I } input AInput { a: Colour } enum Colour { RED } interface I { a: Int } type Implementing implements I { a: Int } type Lost { found: AlsoLost } enum AlsoLost { A }",
      offences: ["Lost", "AlsoLost"],
    },
  ],
  "own scalars say where they are specified": [
    {
      sdl: 'scalar A scalar B @specifiedBy(url: "https://example.org/b") type Query { a: A b: B c: ID }',
      offences: ["A"],
    },
  ],
};

const NAMES = Object.keys(SCHEMA_RULES) as RuleName[];

describe("the schema", () => {
  test.each(NAMES)("%s", (name) => {
    expect(SCHEMA_RULES[name](schema)).toEqual([]);
  });

  test("is looked at as a whole", () => {
    const parts = partsOf(schema);
    expect(parts.length).toBeGreaterThan(1_000);
    for (const kind of ["type", "field", "argument", "input field", "value"] as const)
      expect(parts.filter((part) => part.kind === kind).length, kind).toBeGreaterThan(50);
  });

  test("writes abbreviations as they are, also after `Each:`", () => {
    expect(
      partsOf(schema).flatMap(({ description }) => /\b[a-z][A-Z]{2,}\b/.exec(description ?? "")?.[0] ?? []),
    ).toEqual([]);
  });

  test("asks only for scopes that there are", () => {
    const scopes = [schema.getQueryType(), schema.getMutationType(), schema.getSubscriptionType()].flatMap((root) =>
      Object.values(root?.getFields() ?? {}).map(({ extensions }) => extensions["scope"]),
    );
    expect(scopes.filter((scope) => scope !== null && !(SCOPES as readonly unknown[]).includes(scope))).toEqual([]);
  });
});

describe("the rule finds its offence", () => {
  test.each(NAMES.flatMap((name) => BROKEN[name].map((broken) => ({ name, ...broken }))))(
    "$name",
    ({ name, sdl, offences }) => {
      // What graphql-js would refuse itself has to be built for the rule that asks it.
      const broken =
        name === "is valid by graphql-js" ? buildASTSchema(parse(sdl), { assumeValidSDL: true }) : parsedSchema(sdl);
      expect(SCHEMA_RULES[name](broken).toSorted()).toEqual(offences.toSorted());
    },
  );
});
