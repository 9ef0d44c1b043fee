/**
 * The whole schema: each imported file registers its part; here it is built, and checks of scopes and arguments are
 * added.
 */
import { createHash } from "node:crypto";
import {
  GraphQLError,
  GraphQLOneOfDirective,
  isObjectType,
  lexicographicSortSchema,
  printDirective,
  printSchema,
  specifiedDirectives,
} from "graphql";
import type { GraphQLObjectType, GraphQLResolveInfo, GraphQLSchema } from "graphql";
import { isRejection, lackOf } from "../../access/access.ts";
import type { Actor } from "../../access/access.ts";
import type { Scope } from "../../lifecycle/scopes.ts";
import type { AnyDriver } from "../../drivers/interfaces.ts";
import { builder } from "../base/builder.ts";
import { badInput } from "../base/connection.ts";
import type { Context } from "../base/context.ts";
import { audited, denied } from "../execution/audited.ts";
import { withDriverSettings } from "./fleet/driver-settings.ts";
import { separatePayloads } from "../execution/query-snapshot.ts";
import { rootFieldsOf } from "../execution/root-fields.ts";
import { limitResults } from "./work/results-limit.ts";
import { fetchable, withFetchable } from "./resource.ts";
import { unstorable } from "../base/storable.ts";
import "./access/accounts.ts";
import "./access/audit.ts";
import "./access/documents.ts";
import "./access/roles.ts";
import "./fleet/attention.ts";
import "./work/attempt-history.ts";
import "./plans/catalogue.ts";
import "./fleet/capacity.ts";
import "./fleet/cluster.ts";
import "./fleet/pending-changes.ts";
import "./fleet/discovery.ts";
import "./fleet/driver.ts";
import "./work/step-log.ts";
import "./plans/forecast.ts";
import "./images/image.ts";
import "./images/image-mutations.ts";
import "./work/interrupt.ts";
import "./nodes/machine-facts.ts";
import "./nodes/node.ts";
import "./nodes/node-actions.ts";
import "./streams/node-changes.ts";
import "./streams/operation-changes.ts";
import "./streams/run-changes.ts";
import "./streams/cluster-changes.ts";
import "./nodes/node-counts.ts";
import "./nodes/node-list.ts";
import "./nodes/nodes-at.ts";
import "./nodes/update-nodes.ts";
import "./nodes/node-mutations.ts";
import "./nodes/node-verbs.ts";
import "./work/operation.ts";
import "./work/operation-failures.ts";
import "./nodes/power.ts";
import "./nodes/probe.ts";
import "./plans/plan.ts";
import "./plans/plan-summary.ts";
import "./work/progress.ts";
import "./work/run.ts";
import "./work/step.ts";
import "./fleet/runbook.ts";
import "./fleet/service.ts";
import "./fleet/site.ts";
import "./streams/streams.ts";
import "./work/transition.ts";
import "./work/apply-cluster.ts";
import "./work/verbs.ts";
import "./work/work.ts";
import "./work/waves.ts";
import "./work/waiting.ts";

/** Builds the schema for these drivers. Throws if a root field declares no scope, or if types of settings conflict. */
export function buildSchema(drivers: readonly AnyDriver[]): GraphQLSchema {
  const schema = withDriverSettings(builder.toSchema({ directives: [...specifiedDirectives, fetchable] }), drivers);
  for (const type of [schema.getQueryType(), schema.getMutationType()]) if (type) limitResults(type);
  for (const type of Object.values(schema.getTypeMap()))
    if (isObjectType(type) && !type.name.startsWith("__")) checkArguments(type);
  for (const type of [schema.getQueryType(), schema.getMutationType(), schema.getSubscriptionType()])
    if (type) guard(type, type === schema.getMutationType());
  const mutation = schema.getMutationType();
  if (mutation) separatePayloads(mutation);
  return schema;
}

/** Adds a check to each field that the database can store its arguments. */
function checkArguments(type: GraphQLObjectType): void {
  for (const field of Object.values(type.getFields())) {
    const first = field.subscribe ? "subscribe" : "resolve";
    const inner = field[first];
    if (!inner || field.args.length === 0) continue;
    field[first] = (source, args: Record<string, unknown>, context: Context, info) => {
      const flaw = unstorable(args);
      if (flaw !== null) throw badInput(flaw);
      return inner(source, args, context, info);
    };
  }
}

/**
 * Adds a check of the caller's scope to each root field. A mutation asks for the present rules first: one that begins
 * after a revocation was answered is refused. The first one checks all of the request, so that none is executed if the
 * caller may not send another.
 */
function guard(type: GraphQLObjectType, isMutation: boolean): void {
  const denialOf = (name: string, actor: Actor) => {
    const scope = type.getFields()[name]?.extensions["scope"] as Scope | null | undefined;
    const lack = scope ? lackOf(`${type.name}.${name}`, scope, actor) : null;
    return lack === null ? null : new GraphQLError(lack, { extensions: { code: "FORBIDDEN" } });
  };
  for (const field of Object.values(type.getFields())) {
    const scope = field.extensions["scope"] as Scope | null | undefined;
    if (scope === undefined) throw new Error(`${type.name}.${field.name} declares no scope; add needs(…).`);
    const first = field.subscribe ? "subscribe" : "resolve";
    const inner = field[first];
    if (!inner) continue;
    const mutate = async (
      source: unknown,
      args: object,
      context: Context,
      info: GraphQLResolveInfo,
    ): Promise<unknown> => {
      const actor = await context.services.access.confirm(context.actor);
      if (isRejection(actor)) throw new GraphQLError(actor.message, { extensions: { code: "UNAUTHENTICATED" } });
      for (const name of rootFieldsOf(info)) {
        const denial = denialOf(name, actor);
        if (denial) throw denial;
      }
      return inner(source, args, { ...context, actor }, info);
    };
    field[first] = isMutation
      ? (source, args: Readonly<Record<string, unknown>>, context: Context, info) =>
          audited(context, args, info, (own) => mutate(source, args, own, info))
      : (source, args, context: Context, info) => {
          const denial = denialOf(field.name, context.actor);
          return denial ? denied(context, info.fieldName, denial) : inner(source, args, context, info);
        };
  }
}

/**
 * The schema as text, sorted, so that it does not depend on the order of files. It declares `@oneOf` for code
 * generators that do not know the directive.
 */
export function schemaText(schema: GraphQLSchema): string {
  return `${printDirective(GraphQLOneOfDirective)}\n\n${withFetchable(printSchema(lexicographicSortSchema(schema)), schema)}\n`;
}

export function hashOfSchema(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 16);
}
