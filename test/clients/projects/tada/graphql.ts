/** gql.tada with the schema and the TypeScript types of its scalars. */
import { initGraphQLTada } from "gql.tada";
import type { introspection } from "./introspection.d.ts";

export const graphql = initGraphQLTada<{ introspection: introspection; scalars: { ID: string; DateTime: string; UUID: string; JSON: unknown; ByteCount: number } }>();
