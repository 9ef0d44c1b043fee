/**
 * A Yoga plugin that reports requests with their outcome and duration to the observer; shared-events.ts reports open
 * streams. It comes before the guards, so that it sees refused requests too.
 */
import { getOperationAST } from "graphql";
import type { ExecutionArgs, GraphQLError } from "graphql";
import { isAsyncIterable } from "graphql-yoga";
import type { Plugin } from "graphql-yoga";
import { isForCaller } from "../base/error-masking.ts";
import type { Observer, RequestAbout, RequestOutcome } from "../../observer.ts";

/** The part of the context used here. Yoga adds the request; over WebSocket there is none. */
interface Given {
  readonly requestId: string;
  readonly request?: Request;
}

export function watched(observer: Observer): Plugin {
  return {
    onParse:
      () =>
      ({ result }) => {
        if (result instanceof Error) observer.requestRefused();
      },
    onValidate:
      () =>
      ({ valid }) => {
        if (!valid) observer.requestRefused();
      },
    onExecute({ args, executeFn, setExecuteFn }) {
      const watch = observer.request(aboutOf(args));
      setExecuteFn((given: ExecutionArgs) => watch.within(() => executeFn(given) as unknown));
      return {
        onExecuteDone({ result }) {
          watch.end(isAsyncIterable(result) ? "ok" : outcomeOf(result.errors));
        },
      };
    },
    onSubscribe({ args }) {
      const watch = observer.request(aboutOf(args));
      return {
        onSubscribeResult({ result }) {
          watch.end(isAsyncIterable(result) ? "ok" : outcomeOf(result.errors));
        },
      };
    },
  };
}

function aboutOf({ document, operationName, contextValue }: ExecutionArgs): RequestAbout {
  const operation = getOperationAST(document, operationName);
  const { requestId, request } = contextValue as Given;
  return {
    type: operation?.operation ?? "query",
    transport: transportOf(contextValue),
    name: operation?.name?.value ?? null,
    requestId,
    traceparent: request?.headers.get("traceparent") ?? null,
  };
}

/** How a caller is connected. */
export function transportOf(contextValue: unknown): RequestAbout["transport"] {
  return (contextValue as Given).request ? "http" : "websocket";
}

/** `error` if one of the errors is unexpected. */
function outcomeOf(errors: readonly GraphQLError[] | undefined): RequestOutcome {
  if (!errors || errors.length === 0) return "ok";
  return errors.every(isForCaller) ? "refused" : "error";
}
