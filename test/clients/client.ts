/** The interface that the tests use for every client. The operations are in operations.graphql. */
import { readFileSync } from "node:fs";
import { Kind, parse, print } from "graphql";

/** Driver settings of a registered node: simulated machines. */
export const FAKE = { fake: {} };

export type OperationName = "NodesPage" | "Again" | "Register" | "Commission" | "Follow";
export type Variables = Record<string, unknown>;

export interface ClientUnderTest {
  query<Data>(operation: OperationName, variables?: Variables): Promise<Data>;
  mutate<Data>(operation: OperationName, variables?: Variables): Promise<Data>;
  /** Items of a subscription; null if the client has no subscriptions. `return()` ends it. */
  follow: (<Data>(operation: OperationName, variables?: Variables) => AsyncIterator<Data>) | null;
  close(): Promise<void>;
}

export interface Endpoint {
  /** URL of the API over HTTP. */
  readonly url: string;
  /** URL of the API over WebSocket. */
  readonly socketUrl: string;
  /** Headers that authenticate its users; empty without a token. */
  readonly headers: Readonly<Record<string, string>>;
}

export function endpointOf(url: string, token?: string): Endpoint {
  return {
    url: `${url}/graphql`,
    socketUrl: `${url.replace("http", "ws")}/graphql`,
    headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
  };
}

const definitions = parse(readFileSync(new URL("operations.graphql", import.meta.url), "utf8")).definitions;

/** Text of one operation with the fragments that it needs, as a user would write it. */
export function textOf(operation: OperationName): string {
  const wanted = new Map<string, string>();
  const add = (name: string) => {
    const definition = definitions.find(
      (one) =>
        (one.kind === Kind.OPERATION_DEFINITION || one.kind === Kind.FRAGMENT_DEFINITION) && one.name?.value === name,
    );
    if (!definition) throw new Error(`operations.graphql has no ${name}.`);
    const text = print(definition);
    wanted.set(name, text);
    for (const [, spread = ""] of text.matchAll(/\.\.\.(\w+)/g))
      if (spread !== "on" && !wanted.has(spread)) add(spread);
  };
  add(operation);
  return [...wanted.values()].join("\n\n");
}

interface Observer<Item> {
  next(item: Item): void;
  error(error: unknown): void;
  complete(): void;
}

/** Iterator over the items of a subscription. `return()` ends the subscription. */
export function pullIterator<Item>(subscribe: (observer: Observer<Item>) => () => void): AsyncIterator<Item> {
  const arrived: Item[] = [];
  let ending: { readonly error?: unknown } | null = null;
  let wake: () => void = () => {};
  const unsubscribe = subscribe({
    next(item) {
      arrived.push(item);
      wake();
    },
    error(error) {
      ending ??= { error };
      wake();
    },
    complete() {
      ending ??= {};
      wake();
    },
  });
  return {
    async next() {
      for (;;) {
        const item = arrived.shift();
        if (item !== undefined) return { done: false, value: item };
        if (ending?.error !== undefined) throw ending.error;
        if (ending) return { done: true, value: undefined };
        await new Promise<void>((arrives) => {
          wake = arrives;
        });
      }
    },
    return() {
      unsubscribe();
      ending ??= {};
      wake();
      return Promise.resolve({ done: true, value: undefined });
    },
  };
}
