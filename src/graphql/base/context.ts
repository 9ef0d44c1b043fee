/** The context of resolvers: the caller, the services, and the data loaders of one request or subscription. */
import type { GraphQLSchema } from "graphql";
import type { Actor } from "../../access/access.ts";
import type { Authenticator } from "../../access/authenticator.ts";
import type { Registry } from "../../drivers/registry.ts";
import type { Engine } from "../../engine/engine.ts";
import type { AuditRecord } from "../../engine/audit/audit-row.ts";
import type { Caller } from "../../engine/transaction.ts";
import type { Tail } from "../../feed/log/tail.ts";
import type { Awaitable } from "../../runtime/awaitable.ts";
import type { AuditTransport } from "../../store/log/audit-records.ts";
import type { Database } from "../../store/postgres/database.ts";
import { createLoaders } from "./loaders.ts";
import type { BroughtRows, Loaders } from "./loaders.ts";
import { lazily } from "./batching.ts";

/** The parts of the service that resolvers use; the same for all requests. */
export interface Services {
  readonly database: Database;
  readonly registry: Registry;
  readonly engine: Engine;
  readonly tail: Tail;
  readonly access: Pick<Authenticator, "confirm" | "present" | "document" | "watch" | "refresh">;
  readonly schema: GraphQLSchema;
  readonly version: string;
  readonly schemaHash: string;
}

/** A row that an event of a subscription has brought, as of the moment of its execution. */
export type BroughtRow = <Kind extends keyof BroughtRows>(
  kind: Kind,
  row: BroughtRows[Kind],
) => Awaitable<BroughtRows[Kind]>;

export interface Context extends RequestFacts {
  readonly services: Services;
  readonly load: Loaders;
  readonly brought: BroughtRow;
  /** Absent: the payloads of a mutation are not read at one moment. */
  readonly payloads?: PayloadMoments;
  /** The row of a mutation in the audit. */
  readonly record?: AuditRecord;
}

/** Moments of the payloads of a mutation, whose root fields are executed one after another. */
interface PayloadMoments {
  /** Reads are unbound from here on: the work of a root field begins. */
  beginWork(): void;
  /** Reads see one moment from here on, that of the first one. */
  endWork(): void;
}

export interface RequestFacts {
  readonly actor: Actor;
  readonly requestId: string;
  /** Whether the caller wants the cost of the request in the response. */
  readonly showsCost: boolean;
  /** Address of the sender. */
  readonly address: string;
  readonly transport: AuditTransport;
  /** Hash of the document, if it is a registered one. */
  readonly document?: string;
}

export function createContext(services: Services, request: RequestFacts): Context {
  return {
    services,
    ...request,
    brought: (_kind, row) => row,
    load: lazily(() => createLoaders(services.database)),
  };
}

export function callerOf({ actor, record }: Context): Caller {
  return {
    actor: actor.subject,
    project: actor.project,
    scope: actor.scope,
    roles: actor.roles,
    ...(record && { record }),
  };
}
