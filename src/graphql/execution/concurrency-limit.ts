/**
 * How many requests are executed at a time. Each holds what it has read until it is answered, and takes its share of the
 * connections to the database; so beyond a number they wait for a place, in the order in which they came, and beyond
 * another, or for too long, they are told to come again. Queries and mutations have places of their own: however many
 * read, an abort goes through. Streams have bounds of their own, and do not count.
 */
import { GraphQLError, OperationTypeNode, getOperationAST } from "graphql";
import type { ExecutionArgs } from "graphql";
import type { Plugin } from "graphql-yoga";
import { withStatus } from "../base/error-masking.ts";

/** Queries, and as many mutations, where the configuration says nothing else. */
export const REQUESTS_MAX = 64;
/** Requests of a kind that wait for a place. */
const WAITING_MAX = 1_000;
/** How long one waits at most, in milliseconds. */
const WAIT_MS = 5_000;
const RETRY_SECONDS = 1;
const UNAVAILABLE = 503;

export interface AtATimeOptions {
  readonly requestsMax?: number | undefined;
  readonly waitingMax?: number | undefined;
  readonly waitMs?: number | undefined;
}

/** The plugin for Yoga. Comes last, so that waiting takes nothing of the time that a query has. */
export function atATime({
  requestsMax = REQUESTS_MAX,
  waitingMax = WAITING_MAX,
  waitMs = WAIT_MS,
}: AtATimeOptions = {}): Plugin {
  const queries = createPlaces(requestsMax, waitingMax, waitMs);
  const mutations = createPlaces(requestsMax, waitingMax, waitMs);
  return {
    onExecute({ args, executeFn, setExecuteFn }) {
      const places =
        getOperationAST(args.document, args.operationName)?.operation === OperationTypeNode.MUTATION
          ? mutations
          : queries;
      setExecuteFn((given: ExecutionArgs) => {
        const { request } = args.contextValue as { readonly request?: Request };
        const place = places.take(request?.signal);
        return place instanceof Promise
          ? place.then((got) => executed(executeFn, given, got))
          : executed(executeFn, given, place);
      });
    },
  };
}

/** Gives its place back. Absent: none was to be had. */
type Place = (() => void) | null;

function executed(executeFn: (given: ExecutionArgs) => unknown, given: ExecutionArgs, leave: Place): unknown {
  if (!leave) return { errors: [full()] };
  let result: unknown;
  try {
    result = executeFn(given);
  } finally {
    if (!(result instanceof Promise)) leave();
  }
  return result instanceof Promise ? result.finally(leave) : result;
}

function full(): GraphQLError {
  const error = new GraphQLError(
    `The service has as many requests as it takes at a time. Nothing of this one was done; send it again in ${RETRY_SECONDS} s.`,
    { extensions: { code: "CAPACITY" } },
  );
  return withStatus(error, { status: UNAVAILABLE, headers: { "retry-after": String(RETRY_SECONDS) } });
}

function createPlaces(count: number, waitingMax: number, waitMs: number) {
  let free = count;
  /** In the order in which they came. */
  const waiting = new Set<(place: Place) => void>();

  const leave = (): void => {
    const [next] = waiting;
    if (next) next(placeOf());
    else free += 1;
  };
  /** A place that can be given back once. */
  const placeOf = (): Place => {
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      leave();
    };
  };

  return {
    /** A place, at once if one is free; null where too many wait, for too long, or the client has left. */
    take(signal: AbortSignal | undefined): Place | Promise<Place> {
      if (free > 0) {
        free -= 1;
        return placeOf();
      }
      if (waiting.size >= waitingMax || signal?.aborted === true) return null;
      return new Promise((resolve) => {
        const end = (place: Place): void => {
          clearTimeout(timer);
          signal?.removeEventListener("abort", give);
          waiting.delete(end);
          resolve(place);
        };
        const give = () => end(null);
        const timer = setTimeout(give, waitMs);
        signal?.addEventListener("abort", give, { once: true });
        waiting.add(end);
      });
    },
  };
}
