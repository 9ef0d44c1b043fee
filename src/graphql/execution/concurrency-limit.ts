/**
 * Limits the number of requests that execute at the same time: each uses memory for what it reads, and connections to
 * the database. Further requests wait in the order of their arrival; if too many wait, or one waits too long, it is
 * refused with 503. Queries and mutations have separate limits, so an abort succeeds however many queries are running.
 * Streams have limits of their own and do not count.
 */
import { GraphQLError, OperationTypeNode, getOperationAST } from "graphql";
import type { ExecutionArgs } from "graphql";
import type { Plugin } from "graphql-yoga";
import { createSlots } from "../../runtime/concurrency.ts";
import type { Slot } from "../../runtime/concurrency.ts";
import { withStatus } from "../base/error-masking.ts";

/** Default of the maximum number of concurrent queries, and of concurrent mutations. */
export const REQUESTS_MAX = 64;
/** Maximum number of waiting requests of a kind. */
const WAITING_MAX = 1_000;
/** Maximum wait, in milliseconds. */
const WAIT_MS = 5_000;
const RETRY_SECONDS = 1;
const UNAVAILABLE = 503;

interface AtATimeOptions {
  readonly requestsMax?: number | undefined;
  readonly waitingMax?: number | undefined;
  readonly waitMs?: number | undefined;
}

/** A Yoga plugin. Comes last, so that a wait does not count toward the time limit of a query. */
export function atATime({
  requestsMax = REQUESTS_MAX,
  waitingMax = WAITING_MAX,
  waitMs = WAIT_MS,
}: AtATimeOptions = {}): Plugin {
  const queries = createSlots(requestsMax, waitingMax, waitMs);
  const mutations = createSlots(requestsMax, waitingMax, waitMs);
  return {
    onExecute({ args, executeFn, setExecuteFn }) {
      const slots =
        getOperationAST(args.document, args.operationName)?.operation === OperationTypeNode.MUTATION
          ? mutations
          : queries;
      setExecuteFn((given: ExecutionArgs) => {
        const { request } = args.contextValue as { readonly request?: Request };
        const slot = slots.take(request?.signal);
        return slot instanceof Promise
          ? slot.then((got) => executed(executeFn, given, got))
          : executed(executeFn, given, slot);
      });
    },
  };
}

function executed(executeFn: (given: ExecutionArgs) => unknown, given: ExecutionArgs, release: Slot): unknown {
  if (!release) return { errors: [full()] };
  let result: unknown;
  try {
    result = executeFn(given);
  } finally {
    if (!(result instanceof Promise)) release();
  }
  return result instanceof Promise ? result.finally(release) : result;
}

function full(): GraphQLError {
  const error = new GraphQLError(
    `The service has reached its limit of concurrent requests. Nothing was done; send the request again in ${RETRY_SECONDS} s.`,
    { extensions: { code: "CAPACITY" } },
  );
  return withStatus(error, { status: UNAVAILABLE, headers: { "retry-after": String(RETRY_SECONDS) } });
}
