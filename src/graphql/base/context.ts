/** The context of resolvers: the caller, the services, and the data loaders of one request or subscription. */
import type { Actor } from "../../access/access.ts";
import type { Registry } from "../../drivers/registry.ts";
import type { Engine } from "../../engine/engine.ts";
import type { Caller } from "../../engine/transaction.ts";
import type { Tail } from "../../feed/tail.ts";
import type { Database, Reader } from "../../store/postgres/database.ts";
import { createLoaders, loadersOfSubscription } from "./loaders.ts";
import type { Loaders } from "./loaders.ts";
import { lazily } from "./batching.ts";

/** The parts of the service that resolvers use; the same for all requests. */
export interface Services {
  readonly database: Database;
  readonly registry: Registry;
  readonly engine: Engine;
  readonly tail: Tail;
  readonly version: string;
  readonly schemaHash: string;
}

export interface Context {
  readonly services: Services;
  readonly actor: Actor;
  readonly requestId: string;
  /** Whether the caller wants the cost of the request in the response. */
  readonly showsCost: boolean;
  readonly load: Loaders;
}

export interface RequestFacts {
  readonly actor: Actor;
  readonly requestId: string;
  readonly showsCost: boolean;
}

export function createContext(services: Services, request: RequestFacts): Context {
  return { services, ...request, load: lazily(() => createLoaders(services.database)) };
}

/** The context of a query whose reads see one moment of the database. */
export function ofSnapshot<Given extends Context>(context: Given, reader: Reader): Given {
  const database = { ...context.services.database, reader };
  return { ...context, services: { ...context.services, database }, load: lazily(() => createLoaders(database)) };
}

/**
 * The context of one subscription's events. Each event is executed alone, so there is little to batch within one; rows
 * that events refer to are batched across all subscriptions instead.
 */
export function ofSubscription<Given extends Context>(context: Given): Given {
  return { ...context, load: lazily(() => loadersOfSubscription(context.services.database)) };
}

export function callerOf({ actor }: Context): Caller {
  return { actor: actor.subject, project: actor.project };
}
