/** The context of resolvers: the caller, the services, and the data loaders of one request or subscription. */
import DataLoader from "dataloader";
import type { Actor } from "../../access/access.ts";
import type { Registry } from "../../drivers/registry.ts";
import type { Engine } from "../../engine/engine.ts";
import type { Caller } from "../../engine/transaction.ts";
import type { Tail } from "../../feed/tail.ts";
import type { Database, Reader } from "../../store/postgres/database.ts";
import type { ClusterRow } from "../../store/clusters.ts";
import type { NodeRow } from "../../store/nodes.ts";
import type { OperationRow } from "../../store/operations.ts";
import type { RunRow } from "../../store/runs.ts";
import { createLoaders } from "./loaders.ts";
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

/** Rows that an event of a subscription has brought, as of the moment of its execution. */
export interface BroughtRows {
  node(row: NodeRow): Promise<NodeRow> | NodeRow;
  operation(row: OperationRow): Promise<OperationRow> | OperationRow;
  run(row: RunRow): Promise<RunRow> | RunRow;
  cluster(row: ClusterRow): Promise<ClusterRow> | ClusterRow;
}

export interface Context {
  readonly services: Services;
  readonly actor: Actor;
  readonly requestId: string;
  /** Whether the caller wants the cost of the request in the response. */
  readonly showsCost: boolean;
  readonly load: Loaders;
  readonly brought: BroughtRows;
  /** Absent: the payloads of a mutation are not read at one moment. */
  readonly payloads?: PayloadMoments;
}

/** Moments of the payloads of a mutation, whose root fields are executed one after another. */
export interface PayloadMoments {
  /** Reads are unbound from here on: the work of a root field begins. */
  beginWork(): void;
  /** Reads see one moment from here on, that of the first one. `readsOnce`: there is one read at most. */
  endWork(readsOnce: boolean): void;
}

const AS_BROUGHT: BroughtRows = {
  node: (row) => row,
  operation: (row) => row,
  run: (row) => row,
  cluster: (row) => row,
};

export interface RequestFacts {
  readonly actor: Actor;
  readonly requestId: string;
  readonly showsCost: boolean;
}

export function createContext(services: Services, request: RequestFacts): Context {
  return { services, ...request, brought: AS_BROUGHT, load: lazily(() => createLoaders(services.database)) };
}

/** The context of a query whose reads see one moment of the database. */
export function ofSnapshot<Given extends Context>(context: Given, reader: Reader): Given {
  const database = { ...context.services.database, reader };
  return { ...context, services: { ...context.services, database }, load: lazily(() => createLoaders(database)) };
}

/** The context of a request without a snapshot: its lists have this cursor. */
export function withListCursor<Given extends Context>(context: Given, cursor: string): Given {
  const asOf = new DataLoader<"now", string>(async (asked) => asked.map(() => cursor), { cache: false });
  const load = new Proxy(context.load, {
    get: (loaders, name) => (name === "asOf" ? asOf : (Reflect.get(loaders, name) as unknown)),
  });
  return { ...context, load };
}

/** The context of a mutation, whose reads go to `readerNow()` at any time. */
export function ofReaders<Given extends Context>(context: Given, readerNow: () => Reader): Given {
  const loaders = new WeakMap<Reader, Loaders>();
  const database: Database = {
    ...context.services.database,
    get reader() {
      return readerNow();
    },
  };
  const loadersNow = (): Loaders => {
    const reader = readerNow();
    const made = loaders.get(reader) ?? createLoaders({ reader });
    loaders.set(reader, made);
    return made;
  };
  const load = new Proxy({} as Loaders, { get: (_none, name) => Reflect.get(loadersNow(), name) as unknown });
  return { ...context, services: { ...context.services, database }, load };
}

export function callerOf({ actor }: Context): Caller {
  return { actor: actor.subject, project: actor.project };
}
