/** The schema, whole: every file of the room registers its share when it is loaded, and here it is built and held to our rules. */
import { createHash } from "node:crypto";
import { GraphQLError, lexicographicSortSchema, printSchema } from "graphql";
import type { GraphQLObjectType, GraphQLSchema } from "graphql";
import { hasScope } from "../access/access.ts";
import type { Scope } from "../access/access.ts";
import { builder } from "./builder.ts";
import type { Context } from "./context.ts";
import "./cluster.ts";
import "./driver.ts";
import "./node.ts";
import "./operation.ts";
import "./run.ts";
import "./service.ts";
import "./streams.ts";
import "./transition.ts";
import "./verbs.ts";

/** Builds the schema. Throws when a root field does not say which scope it needs. */
export function buildSchema(): GraphQLSchema {
  const schema = builder.toSchema({});
  for (const type of [schema.getQueryType(), schema.getMutationType(), schema.getSubscriptionType()]) if (type) guard(type);
  return schema;
}

/** Puts the check of the caller's scope before each root field. */
function guard(type: GraphQLObjectType): void {
  for (const field of Object.values(type.getFields())) {
    const scope = field.extensions["scope"] as Scope | undefined;
    if (!scope) throw new Error(`${type.name}.${field.name} does not say which scope it needs.`);
    const first = field.subscribe ? "subscribe" : "resolve";
    const inner = field[first];
    if (!inner) continue;
    field[first] = (source, args, context: Context, info) => {
      if (!hasScope(context.actor, scope)) {
        throw new GraphQLError(`${type.name}.${field.name} needs the scope ${scope}.`, { extensions: { code: "FORBIDDEN" } });
      }
      return inner(source, args, context, info);
    };
  }
}

/** The schema as text, in an order that does not depend on the order of files. */
export function schemaText(schema: GraphQLSchema): string {
  return `${printSchema(lexicographicSortSchema(schema))}\n`;
}

export function hashOfSchema(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 16);
}
