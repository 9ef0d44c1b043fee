/** What the tests want of every client, however its users set it up, and what they ask it: operations.graphql. */
import { readFileSync } from "node:fs";
import { Kind, parse, print } from "graphql";

/** The driver of a node that is registered: machines that are not there. */
export const FAKE = { fake: {} };

export type OperationName = "NodesPage" | "Anything" | "Register" | "Commission" | "Follow";
export type Variables = Record<string, unknown>;

export interface ClientUnderTest {
  query<Data>(operation: OperationName, variables?: Variables): Promise<Data>;
  mutate<Data>(operation: OperationName, variables?: Variables): Promise<Data>;
  /** The items of a subscription; null: the client knows none. `return()` leaves it. */
  follow: (<Data>(operation: OperationName, variables?: Variables) => AsyncIterator<Data>) | null;
  close(): Promise<void>;
}

export interface Reached {
  /** Where the API is, over HTTP. */
  readonly url: string;
  /** The same over WebSocket. */
  readonly socketUrl: string;
  /** What its users send to be known; nothing without a token. */
  readonly headers: Readonly<Record<string, string>>;
}

/** How clients reach a service. */
export function reachedAt(url: string, token?: string): Reached {
  return {
    url: `${url}/graphql`,
    socketUrl: `${url.replace("http", "ws")}/graphql`,
    headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
  };
}

const definitions = parse(readFileSync(new URL("operations.graphql", import.meta.url), "utf8")).definitions;

/** The text of one operation, with the fragments of the file that it needs, as somebody would write it. */
export function textOf(operation: OperationName): string {
  const wanted = new Map<string, string>();
  const want = (name: string) => {
    const definition = definitions.find(
      (one) =>
        (one.kind === Kind.OPERATION_DEFINITION || one.kind === Kind.FRAGMENT_DEFINITION) && one.name?.value === name,
    );
    if (!definition) throw new Error(`operations.graphql has no ${name}.`);
    const text = print(definition);
    wanted.set(name, text);
    for (const [, spread = ""] of text.matchAll(/\.\.\.(\w+)/g))
      if (spread !== "on" && !wanted.has(spread)) want(spread);
  };
  want(operation);
  return [...wanted.values()].join("\n\n");
}

interface Observer<Item> {
  next(item: Item): void;
  error(error: unknown): void;
  complete(): void;
}

/** What is pushed, to be pulled; leaving it ends the subscription. */
export function pulled<Item>(subscribe: (observer: Observer<Item>) => () => void): AsyncIterator<Item> {
  const arrived: Item[] = [];
  let ending: { readonly error?: unknown } | null = null;
  let wake: () => void = () => {};
  const leave = subscribe({
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
      leave();
      ending ??= {};
      wake();
      return Promise.resolve({ done: true, value: undefined });
    },
  };
}
