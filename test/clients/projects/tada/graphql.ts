/** gql.tada, told our schema and what our scalars are in TypeScript. */
import { initGraphQLTada } from "gql.tada";
import type { introspection } from "./introspection.d.ts";

export const graphql = initGraphQLTada<{ introspection: introspection; scalars: { ID: string; DateTime: string; UUID: string; JSON: unknown } }>();
