/** The schema as a whole: fresh, described, consistent, named by its conventions. */
import { readFileSync } from "node:fs";
import {
  GraphQLBoolean,
  getNamedType,
  isEnumType,
  isInputObjectType,
  isInterfaceType,
  isListType,
  isNonNullType,
  isNullableType,
  isObjectType,
  isSpecifiedDirective,
  isSpecifiedScalarType,
  isUnionType,
} from "graphql";
import type { GraphQLInputObjectType, GraphQLNamedType, GraphQLObjectType } from "graphql";
import { describe, expect, test } from "vitest";
import { SCOPES } from "../../src/access/access.ts";
import { builder } from "../../src/graphql/builder.ts";
import { buildSchema, schemaText } from "../../src/graphql/schema.ts";

const schema = buildSchema();
const types = Object.values(schema.getTypeMap()).filter((type) => !type.name.startsWith("__") && !isSpecifiedScalarType(type));
const objects = types.filter((type) => isObjectType(type));
const roots = [schema.getQueryType(), schema.getMutationType(), schema.getSubscriptionType()].filter((type) => type !== null && type !== undefined);

interface Named {
  readonly where: string;
  readonly description?: string | null | undefined;
}

/** Everything of a type that has a name: itself, its fields with their arguments, its values. */
function partsOf(type: GraphQLNamedType): Named[] {
  const itself: Named = { where: type.name, description: type.description };
  if (isEnumType(type)) return [itself, ...type.getValues().map(({ name, description }) => ({ where: `${type.name}.${name}`, description }))];
  if (isInputObjectType(type)) return [itself, ...Object.values(type.getFields()).map(({ name, description }) => ({ where: `${type.name}.${name}`, description }))];
  if (!isObjectType(type) && !isInterfaceType(type)) return [itself];
  const fields = Object.values(type.getFields());
  return [
    itself,
    ...fields.map(({ name, description }) => ({ where: `${type.name}.${name}`, description })),
    ...fields.flatMap((field) => field.args.map(({ name, description }) => ({ where: `${type.name}.${field.name}(${name}:)`, description }))),
  ];
}

describe("schema.graphql", () => {
  test("is what the code prints", () => {
    expect(readFileSync(new URL("../../schema.graphql", import.meta.url), "utf8")).toBe(schemaText(schema));
  });
});

describe("a description", () => {
  test("stands with every type, field, argument, input field, enum value and directive of ours", () => {
    const directives = schema.getDirectives().filter((directive) => !isSpecifiedDirective(directive));
    const parts = [...types.flatMap(partsOf), ...directives.flatMap(({ name, description, args }) => [{ where: `@${name}`, description }, ...args.map((arg) => ({ where: `@${name}(${arg.name}:)`, description: arg.description }))])];
    expect(parts.length).toBeGreaterThan(500);
    expect(parts.filter(({ description }) => !description?.trim()).map(({ where }) => where)).toEqual([]);
  });

  test("begins with a capital or code and ends like a sentence", () => {
    const odd = types.flatMap(partsOf).filter(({ description }) => !/^[A-Z`0-9][\s\S]*[.!?]$/.test(description ?? ""));
    expect(odd.map(({ where, description }) => `${where}: ${description}`)).toEqual([]);
  });
});

describe("members of a union or an interface", () => {
  const families = types.flatMap((type) => (isUnionType(type) || isInterfaceType(type) ? [{ name: type.name, members: schema.getPossibleTypes(type), isUnion: isUnionType(type) }] : []));

  test.each(families)("of $name agree on the nullability of fields with the same name", ({ members }) => {
    expect(disagreements(members, (text) => text.replaceAll(/\w+/g, "x"))).toEqual([]);
  });

  test.each(families.filter(({ isUnion }) => isUnion))("of $name, a union, agree on the whole type, so that one query can select them all", ({ members }) => {
    expect(disagreements(members, (text) => text)).toEqual([]);
  });

  /** Fields of the same name whose types differ, seen through `look`. */
  function disagreements(members: readonly GraphQLObjectType[], look: (type: string) => string): string[] {
    const byName = Map.groupBy(
      members.flatMap((member) => Object.values(member.getFields()).map((field) => ({ where: `${member.name}.${field.name}: ${String(field.type)}`, name: field.name, type: look(String(field.type)) }))),
      ({ name }) => name,
    );
    return [...byName.values()].filter((fields) => new Set(fields.map(({ type }) => type)).size > 1).map((fields) => fields.map(({ where }) => where).join(" and "));
  }
});

describe("a root field", () => {
  const fields = roots.flatMap((root) => Object.values(root.getFields()).map((field) => ({ where: `${root.name}.${field.name}`, scope: field.extensions["scope"] })));

  test("says which scope its caller needs", () => {
    expect(fields.length).toBeGreaterThan(25);
    expect(fields.filter(({ scope }) => !(SCOPES as readonly unknown[]).includes(scope)).map(({ where }) => where)).toEqual([]);
  });

  test("of a query or a subscription only reads, and of a mutation never only reads", () => {
    for (const { where, scope } of fields) expect(scope === "READ", where).toBe(!where.startsWith("Mutation."));
  });

  test("without a scope would stop the start", () => {
    builder.queryField("unguarded", (t) => t.boolean({ description: "None.", resolve: () => true }));
    expect(() => buildSchema()).toThrow("Query.unguarded does not say which scope it needs.");
  });
});

describe("a mutation", () => {
  const mutations = Object.values(schema.getMutationType()?.getFields() ?? {});

  test.each(mutations.map((mutation) => ({ name: mutation.name, mutation })))("$name takes one input and returns a nullable payload with errors", ({ mutation }) => {
    expect(mutation.args.map(({ name, type }) => `${name}: ${String(type)}`)).toEqual([expect.stringMatching(/^input: \w+Input!$/)]);
    expect(isNullableType(mutation.type)).toBe(true);
    const payload = getNamedType(mutation.type) as GraphQLObjectType;
    expect(payload.name).toMatch(/Payload$/);
    expect(String(payload.getFields()["errors"]?.type)).toBe("[UserError!]!");
    expect(String(payload.getFields()["query"]?.type)).toBe("Query!");
  });
});

describe("names", () => {
  test("of types are PascalCase", () => {
    expect(types.filter(({ name }) => !/^[A-Z][A-Za-z0-9]*$/.test(name) && name !== "UUID" && name !== "JSON")).toEqual([]);
  });

  test("of fields, arguments and input fields are camelCase, but for Relay's fetch__", () => {
    const names = types.flatMap((type) => {
      if (isInputObjectType(type)) return Object.keys(type.getFields());
      if (!isObjectType(type) && !isInterfaceType(type)) return [];
      return Object.values(type.getFields()).flatMap((field) => [field.name, ...field.args.map(({ name }) => name)]);
    });
    expect(names.filter((name) => !/^([a-z][A-Za-z0-9]*|fetch__[A-Z]\w*)$/.test(name))).toEqual([]);
  });

  test("of enum values are upper case, but for phases and events, which are words of the lifecycle", () => {
    const values = types.filter((type) => isEnumType(type)).flatMap((type) => type.getValues().map(({ name }) => ({ type: type.name, name })));
    const isFitting = ({ type, name }: { type: string; name: string }) => (type === "Phase" || type === "NodeEvent" ? /^[a-z]+(_[a-z]+)*$/ : /^[A-Z]+(_[A-Z]+)*$/).test(name);
    expect(values.filter((value) => !isFitting(value))).toEqual([]);
  });

  test("of inputs end in Input, but for what selects, filters or orders", () => {
    const odd = types.filter((type) => isInputObjectType(type) && !/(Input|Filter|Selector|Ref|Order)$/.test(type.name));
    expect(odd).toEqual([]);
  });

  test("of yes-or-no fields do not begin with is", () => {
    const booleans = objects.flatMap((type) => Object.values(type.getFields()).flatMap((field) => (getNamedType(field.type) === GraphQLBoolean ? [field.name] : [])));
    expect(booleans.filter((name) => /^is[A-Z]/.test(name))).toEqual([]);
  });
});

describe("types", () => {
  test("are all reached from the root", () => {
    const reached = new Set<string>();
    const visit = (type: GraphQLNamedType | null | undefined): void => {
      if (!type || reached.has(type.name)) return;
      reached.add(type.name);
      if (isUnionType(type) || isInterfaceType(type)) for (const member of schema.getPossibleTypes(type)) visit(member);
      if (isInputObjectType(type)) for (const field of Object.values(type.getFields())) visit(getNamedType(field.type));
      if (!isObjectType(type) && !isInterfaceType(type)) return;
      for (const one of type.getInterfaces()) visit(one);
      for (const field of Object.values(type.getFields())) for (const next of [field.type, ...field.args.map((arg) => arg.type)]) visit(getNamedType(next));
    };
    for (const root of roots) visit(root);
    expect(types.filter(({ name }) => !reached.has(name)).map(({ name }) => name)).toEqual([]);
  });

  test("that are lists hold no nulls and are never null, unless null says something", () => {
    const lists = objects.flatMap((type) => Object.values(type.getFields()).filter((field) => /\[/.test(String(field.type))).map((field) => ({ where: `${type.name}.${field.name}`, type: field.type })));
    const loose = lists.filter(({ type }) => !(isNonNullType(type) && isListType(type.ofType) && isNonNullType(type.ofType.ofType))).map(({ where }) => where);
    expect(loose.toSorted()).toEqual(["ConflictError.allowedStates", "ConflictError.path", "NodeResult.steps", "NotFoundError.path", "NotInterruptibleError.path", "SimpleError.path"]);
  });

  test("that are choices have only nullable members", () => {
    const choices = types.filter((type): type is GraphQLInputObjectType => isInputObjectType(type) && type.isOneOf);
    expect(choices.map(({ name }) => name).toSorted()).toEqual(["ClusterRef", "NodeRef", "NodeSelector", "ShareInput", "WorkSelector"]);
    for (const choice of choices) for (const field of Object.values(choice.getFields())) expect(isNullableType(field.type)).toBe(true);
  });
});

