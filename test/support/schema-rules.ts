/**
 * Our rules for the schema, each a function from a schema to its offences: where, and what is wrong there. None of them
 * knows our schema but for the exceptions that it names, so each can be shown able to fail on a small broken one.
 */
import {
  DEFAULT_DEPRECATION_REASON,
  GraphQLBoolean,
  GraphQLID,
  GraphQLInt,
  GraphQLString,
  getNamedType,
  isEnumType,
  isInputObjectType,
  isInterfaceType,
  isListType,
  isNonNullType,
  isNullableType,
  isObjectType,
  isScalarType,
  isSpecifiedDirective,
  isSpecifiedScalarType,
  isUnionType,
  validateSchema,
} from "graphql";
import type {
  GraphQLField,
  GraphQLInterfaceType,
  GraphQLNamedType,
  GraphQLObjectType,
  GraphQLSchema,
  GraphQLType,
} from "graphql";

export type SchemaRule = (schema: GraphQLSchema) => string[];

/** Inputs that select, filter or order are named for what they do. */
const INPUT_NAME = /(Input|Filter|Selector|Ref|Order)$/;
/** Lists for which null says something that an empty one does not. */
const NULLABLE_LISTS = new Set([
  "UserError.path",
  "ConflictError.path",
  "NotFoundError.path",
  "NotInterruptibleError.path",
  "CapacityError.path",
  "SimpleError.path",
  "ImageUnfitError.path",
  "ConflictError.allowedStates",
  "WorkResult.steps",
  // Not requested, or not read.
  "NodeReading.firmware",
  "NodeReading.bios",
  // The node is new to the reader.
  "NodeUpserted.changed",
  "OperationUpserted.changed",
  "RunUpserted.changed",
  "ClusterUpserted.changed",
]);
/** Judges as the mutations do, and answers as they would. */
const ANSWERS_LIKE_A_MUTATION = new Set(["PlanPayload"]);
/**
 * Not fetched by its ID, which is there to recognize it by. The `operation` of a transition may be null where that of a
 * run may not.
 */
const IDENTIFIED_ONLY = new Set(["Transition", "NodeLeft", "OperationLeft", "ClusterLeft"]);

/** Below these is what drivers declare: there null is what was not given, and a row may be older than its plugin. */
const SETTINGS = [
  "DriverSettings",
  "DriverSettingsInput",
  "DriverSettingsChangeInput",
  "DiscoverySettings",
  "DiscoverySettingsInput",
];

interface Part {
  readonly where: string;
  readonly kind: "type" | "field" | "argument" | "input field" | "value" | "directive";
  readonly name: string;
  readonly description: string | null | undefined;
  readonly deprecationReason?: string | null | undefined;
  /** Of what holds a value. */
  readonly type?: GraphQLType;
  readonly hasDefault?: boolean;
}

/** Everything of ours that has a name. */
export function partsOf(schema: GraphQLSchema): Part[] {
  const directives = schema.getDirectives().filter((directive) => !isSpecifiedDirective(directive));
  return [
    ...ownTypes(schema).flatMap(partsOfType),
    ...directives.flatMap(({ name, description, args }): Part[] => [
      { where: `@${name}`, kind: "directive", name, description },
      ...args.map((arg) => argument(`@${name}`, arg)),
    ]),
  ];
}

/** The same, without the settings of drivers. */
function ownPartsOf(schema: GraphQLSchema): Part[] {
  const settings = reachedFrom(
    schema,
    SETTINGS.map((name) => schema.getType(name)),
  );
  return partsOf(schema).filter(({ where }) => !settings.has(where.split(".")[0] ?? ""));
}

function partsOfType(type: GraphQLNamedType): Part[] {
  const itself: Part = { where: type.name, kind: "type", name: type.name, description: type.description };
  const at = (name: string) => `${type.name}.${name}`;
  if (isEnumType(type))
    return [
      itself,
      ...type.getValues().map(({ name, description, deprecationReason }): Part => ({
        where: at(name),
        kind: "value",
        name,
        description,
        deprecationReason,
      })),
    ];
  if (isInputObjectType(type))
    return [
      itself,
      ...Object.values(type.getFields()).map((field): Part => ({
        ...argument("", field),
        where: at(field.name),
        kind: "input field",
      })),
    ];
  if (!isObjectType(type) && !isInterfaceType(type)) return [itself];
  return [
    itself,
    ...Object.values(type.getFields()).flatMap((field): Part[] => [
      {
        where: at(field.name),
        kind: "field",
        name: field.name,
        description: field.description,
        deprecationReason: field.deprecationReason,
        type: field.type,
      },
      ...field.args.map((arg) => argument(at(field.name), arg)),
    ]),
  ];
}

function argument(
  of: string,
  arg:
    | GraphQLField<unknown, unknown>["args"][number]
    | {
        readonly name: string;
        readonly type: GraphQLType;
        readonly description?: string | null | undefined;
        readonly deprecationReason?: string | null | undefined;
        readonly default?: unknown;
      },
): Part {
  return {
    where: `${of}(${arg.name}:)`,
    kind: "argument",
    name: arg.name,
    description: arg.description,
    deprecationReason: arg.deprecationReason,
    type: arg.type,
    hasDefault: arg.default !== undefined,
  };
}

function ownTypes(schema: GraphQLSchema): GraphQLNamedType[] {
  return Object.values(schema.getTypeMap()).filter(
    (type) => !type.name.startsWith("__") && !isSpecifiedScalarType(type),
  );
}

function objectsOf(schema: GraphQLSchema): GraphQLObjectType[] {
  return ownTypes(schema).filter((type) => isObjectType(type));
}

function rootsOf(schema: GraphQLSchema): GraphQLObjectType[] {
  return [schema.getQueryType(), schema.getMutationType(), schema.getSubscriptionType()].filter((type) => type != null);
}

function fieldsOf(type: GraphQLObjectType | GraphQLInterfaceType | null | undefined): GraphQLField<unknown, unknown>[] {
  return Object.values(type?.getFields() ?? {});
}

const wheres = (parts: readonly { readonly where: string }[]) => parts.map(({ where }) => where);

/** A name as the words it is made of, without endings of plurals. */
function wordsOf(text: string): string[] {
  const words =
    text
      .replaceAll(/([a-z0-9])([A-Z])/g, "$1 $2")
      .toLowerCase()
      .match(/[a-z0-9]+/g) ?? [];
  return words.map((word) => word.replace(/s$/, ""));
}

const FILLERS = new Set(["a", "an", "the", "it", "thi", "of", "for", "to", "in", "and", "or", "one", "whether", "i"]);

export const SCHEMA_RULES = {
  "is valid by graphql-js": (schema) => validateSchema(schema).map(({ message }) => message),

  "everything has a description": (schema) => wheres(partsOf(schema).filter(({ description }) => !description?.trim())),

  "a description begins with a capital or code and ends like a sentence": (schema) =>
    partsOf(schema).flatMap(({ where, description }) =>
      !description?.trim() || /^[A-Z`0-9][\s\S]*[.!?]$/.test(description) ? [] : [`${where}: ${description}`],
    ),

  "a description says more than the name": (schema) =>
    partsOf(schema).flatMap(({ where, name, description }) => {
      const known = new Set([...wordsOf(name), ...FILLERS]);
      return description?.trim() && wordsOf(description).every((word) => known.has(word))
        ? [`${where}: ${description}`]
        : [];
    }),

  "the values of an enum have descriptions of their own": (schema) =>
    ownTypes(schema).flatMap((type) => {
      if (!isEnumType(type)) return [];
      const same = Map.groupBy(type.getValues(), ({ description }) => description);
      return [...same.values()]
        .filter(({ length }) => length > 1)
        .map((values) => `${type.name}: ${values.map(({ name }) => name).join(", ")}`);
    }),

  "types are PascalCase": (schema) =>
    ownTypes(schema).flatMap(({ name }) => (/^[A-Z][A-Za-z0-9]*$/.test(name) ? [] : [name])),

  "fields and arguments are camelCase, but for Relay's fetch__": (schema) =>
    wheres(
      partsOf(schema).filter(
        ({ kind, name, where }) =>
          (kind === "field" || kind === "input field" || (kind === "argument" && !where.startsWith("@"))) &&
          !/^([a-z][A-Za-z0-9]*|fetch__[A-Z]\w*)$/.test(name),
      ),
    ),

  "enum values are UPPER_CASE, those of the lifecycle too": (schema) =>
    wheres(partsOf(schema).filter(({ kind, name }) => kind === "value" && !/^[A-Z][A-Z0-9]*(_[A-Z0-9]+)*$/.test(name))),

  "inputs end in Input, but for what selects, filters or orders; nothing else ends so": (schema) =>
    ownTypes(schema).flatMap((type) => (isInputObjectType(type) === INPUT_NAME.test(type.name) ? [] : [type.name])),

  "payloads are what mutations answer, and nothing else is": (schema) => {
    const answers = new Set(fieldsOf(schema.getMutationType()).map((field) => getNamedType(field.type).name));
    return ownTypes(schema).flatMap((type) =>
      answers.has(type.name) === type.name.endsWith("Payload") ||
      ANSWERS_LIKE_A_MUTATION.has(type.name) ||
      isInterfaceType(type)
        ? []
        : [type.name],
    );
  },

  "errors are what implements UserError, and nothing else is": (schema) =>
    objectsOf(schema).flatMap((type) =>
      type.getInterfaces().some(({ name }) => name === "UserError") === type.name.endsWith("Error") ? [] : [type.name],
    ),

  "yes-or-no fields do not begin with is": (schema) =>
    wheres(
      partsOf(schema).filter(
        ({ kind, name, type }) =>
          kind === "field" && type && getNamedType(type) === GraphQLBoolean && /^is[A-Z]/.test(name),
      ),
    ),

  "lists hold no nulls": (schema) => wheres(partsOf(schema).filter(({ type }) => type && holdsNulls(type))),

  "lists of an answer are never null, unless null says something": (schema) =>
    wheres(
      ownPartsOf(schema).filter(
        ({ kind, where, type }) => kind === "field" && isListType(type) && !NULLABLE_LISTS.has(where),
      ),
    ),

  "what has a default refuses null": (schema) =>
    wheres(ownPartsOf(schema).filter(({ hasDefault, type }) => hasDefault && isNullableType(type))),

  "a mutation takes one input, and answers one payload, that no other has": (schema) =>
    fieldsOf(schema.getMutationType()).flatMap(({ name, args, type }) => {
      const own = `${name.slice(0, 1).toUpperCase()}${name.slice(1)}`;
      const signature = `${args.map((arg) => `${arg.name}: ${String(arg.type)}`).join(", ")} → ${getNamedType(type).name}`;
      return signature === `input: ${own}Input! → ${own}Payload` ? [] : [`Mutation.${name}`];
    }),

  "a mutation answers a payload, never null, with errors and the root query": (schema) =>
    fieldsOf(schema.getMutationType()).flatMap(({ name, type }) => {
      const payload = getNamedType(type);
      const fields = isObjectType(payload) ? payload.getFields() : {};
      const sound =
        !isNullableType(type) &&
        String(fields["errors"]?.type) === "[UserError!]!" &&
        String(fields["query"]?.type) === "Query!";
      return sound ? [] : [`Mutation.${name}`];
    }),

  "connections are Relay's": (schema) => [
    ...ownTypes(schema).flatMap((type) =>
      type.name.endsWith("Connection") ? connectionFlaws(type) : type.name === "PageInfo" ? pageInfoFlaws(type) : [],
    ),
    ...objectsOf(schema).flatMap((type) =>
      fieldsOf(type).flatMap((field) =>
        getNamedType(field.type).name.endsWith("Connection")
          ? pageArgumentFlaws(`${type.name}.${field.name}`, field)
          : [],
      ),
    ),
  ],

  "a root field says which scope it needs": (schema) =>
    rootsOf(schema).flatMap((root) =>
      fieldsOf(root).flatMap((field) =>
        field.extensions["scope"] !== undefined ? [] : [`${root.name}.${field.name}`],
      ),
    ),

  "queries and subscriptions only read, mutations never only read": (schema) =>
    rootsOf(schema).flatMap((root) =>
      fieldsOf(root).flatMap((field) => {
        const scope = field.extensions["scope"] as string | null;
        const reads = scope === null || scope === "READ" || scope === "ADMIN";
        const isRight = root === schema.getMutationType() ? scope !== null && scope !== "READ" : reads;
        return isRight ? [] : [`${root.name}.${field.name}`];
      }),
    ),

  "members of a union agree on the whole type of fields with the same name": (schema) =>
    ownTypes(schema).flatMap((type) => (isUnionType(type) ? disagreements(schema.getPossibleTypes(type), String) : [])),

  "members of an interface agree on the nullability of fields with the same name": (schema) =>
    ownTypes(schema).flatMap((type) =>
      isInterfaceType(type)
        ? disagreements(schema.getPossibleTypes(type), (field) => String(field).replaceAll(/\w+/g, "x"))
        : [],
    ),

  "every item of a stream has a cursor": (schema) =>
    fieldsOf(schema.getSubscriptionType()).flatMap((field) => {
      const item = getNamedType(field.type);
      const members =
        isUnionType(item) || isInterfaceType(item) ? schema.getPossibleTypes(item) : isObjectType(item) ? [item] : [];
      return members.flatMap((member) =>
        String(member.getFields()["cursor"]?.type) === "String!" ? [] : [`Subscription.${field.name}: ${member.name}`],
      );
    }),

  "what has a global ID is fetched by it": (schema) =>
    objectsOf(schema).flatMap((type) =>
      isIdentified(type) === Boolean(schema.getQueryType()?.getFields()[`fetch__${type.name}`]) ||
      IDENTIFIED_ONLY.has(type.name)
        ? []
        : [type.name],
    ),

  "what is deprecated says what to use": (schema) =>
    partsOf(schema).flatMap(({ where, deprecationReason }) =>
      deprecationReason == null ||
      (deprecationReason !== DEFAULT_DEPRECATION_REASON && /^[A-Z`][\s\S]*\.$/.test(deprecationReason))
        ? []
        : [where],
    ),

  "every type is reached from the root": (schema) => {
    const reached = reachedFrom(schema, [
      ...rootsOf(schema),
      ...schema.getDirectives().flatMap(({ args }) => args.map(({ type }) => getNamedType(type))),
    ]);
    return ownTypes(schema).flatMap(({ name }) => (reached.has(name) ? [] : [name]));
  },

  "own scalars say where they are specified": (schema) =>
    ownTypes(schema).flatMap((type) => (isScalarType(type) && !type.specifiedByURL ? [type.name] : [])),
} as const satisfies Readonly<Record<string, SchemaRule>>;

function holdsNulls(type: GraphQLType): boolean {
  if (isNonNullType(type)) return holdsNulls(type.ofType);
  return isListType(type) && (!isNonNullType(type.ofType) || holdsNulls(type.ofType));
}

function isIdentified(type: GraphQLObjectType): boolean {
  const id = type.getFields()["id"]?.type;
  return id !== undefined && isNonNullType(id) && id.ofType === GraphQLID;
}

function connectionFlaws(type: GraphQLNamedType): string[] {
  const fields = isObjectType(type) ? type.getFields() : {};
  const edge = fields["edges"] && getNamedType(fields["edges"].type);
  const parts = isObjectType(edge) ? edge.getFields() : {};
  return [
    ...(edge?.name === type.name.replace(/Connection$/, "Edge") && String(fields["edges"]?.type) === `[${edge.name}!]!`
      ? []
      : [`${type.name}.edges`]),
    ...(String(fields["pageInfo"]?.type) === "PageInfo!" ? [] : [`${type.name}.pageInfo`]),
    ...(String(parts["cursor"]?.type) === "String!" ? [] : [`${type.name}.edges.cursor`]),
    ...(parts["node"] &&
    !isListType(parts["node"].type) &&
    !(isNonNullType(parts["node"].type) && isListType(parts["node"].type.ofType))
      ? []
      : [`${type.name}.edges.node`]),
  ];
}

function pageInfoFlaws(type: GraphQLNamedType): string[] {
  const fields = isObjectType(type) ? type.getFields() : {};
  const wanted = { hasNextPage: "Boolean!", hasPreviousPage: "Boolean!", startCursor: "String", endCursor: "String" };
  return Object.entries(wanted).flatMap(([name, wantedType]) =>
    String(fields[name]?.type) === wantedType ? [] : [`PageInfo.${name}`],
  );
}

function pageArgumentFlaws(where: string, { type, args }: GraphQLField<unknown, unknown>): string[] {
  const wanted = { first: GraphQLInt, after: GraphQLString, last: GraphQLInt, before: GraphQLString };
  const wrong = Object.entries(wanted).flatMap(([name, wantedType]) =>
    args.find((arg) => arg.name === name)?.type === wantedType ? [] : [`${where}(${name}:)`],
  );
  return isNonNullType(type) ? wrong : [...wrong, where];
}

/** Fields of the same name whose types differ, seen through `look`. */
function disagreements(members: readonly GraphQLObjectType[], look: (type: GraphQLType) => string): string[] {
  const fields = members.flatMap((member) =>
    fieldsOf(member).map((field) => ({
      where: `${member.name}.${field.name}: ${String(field.type)}`,
      name: field.name,
      seen: look(field.type),
    })),
  );
  return [...Map.groupBy(fields, ({ name }) => name).values()]
    .filter((same) => new Set(same.map(({ seen }) => seen)).size > 1)
    .map((same) => wheres(same).join(" and "));
}

function reachedFrom(schema: GraphQLSchema, beginnings: readonly (GraphQLNamedType | undefined)[]): Set<string> {
  const reached = new Set<string>();
  const visit = (type: GraphQLNamedType | null | undefined): void => {
    if (!type || reached.has(type.name)) return;
    reached.add(type.name);
    if (isUnionType(type) || isInterfaceType(type)) for (const member of schema.getPossibleTypes(type)) visit(member);
    if (isInputObjectType(type)) for (const field of Object.values(type.getFields())) visit(getNamedType(field.type));
    if (!isObjectType(type) && !isInterfaceType(type)) return;
    for (const one of type.getInterfaces()) visit(one);
    for (const field of fieldsOf(type))
      for (const next of [field.type, ...field.args.map((arg) => arg.type)]) visit(getNamedType(next));
  };
  beginnings.forEach(visit);
  return reached;
}
