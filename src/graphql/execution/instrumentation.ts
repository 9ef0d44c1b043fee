/**
 * A Yoga plugin that reports requests with their outcome and duration, and open streams, to the observer. It comes
 * before the guards, so that it sees refused requests too.
 */
import { getOperationAST } from "graphql";
import type { ExecutionArgs, GraphQLError } from "graphql";
import { isAsyncIterable } from "graphql-yoga";
import type { Plugin } from "graphql-yoga";
import { isForCaller } from "../base/error-masking.ts";
import type { Observer, RequestAbout, RequestOutcome, RequestWatch } from "../../observer.ts";

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
      const watch = begin(observer, args);
      setExecuteFn((given: ExecutionArgs) => watch.within(() => executeFn(given) as unknown));
      return {
        onExecuteDone({ result }) {
          watch.end(isAsyncIterable(result) ? "ok" : outcomeOf(result.errors));
        },
      };
    },
    onSubscribe({ args }) {
      const watch = begin(observer, args);
      const { transport } = aboutOf(args);
      return {
        onSubscribeResult({ result, setResult }) {
          if (!isAsyncIterable(result))
            return watch.end(outcomeOf((result as { readonly errors?: readonly GraphQLError[] }).errors));
          watch.end("ok");
          observer.streamOpened(transport);
          setResult(untilEnd(result[Symbol.asyncIterator](), () => observer.streamEnded(transport)));
        },
      };
    },
  };
}

function begin(observer: Observer, args: ExecutionArgs): RequestWatch {
  return observer.request(aboutOf(args));
}

function aboutOf({ document, operationName, contextValue }: ExecutionArgs): RequestAbout {
  const operation = getOperationAST(document, operationName);
  const { requestId, request } = contextValue as Given;
  return {
    type: operation?.operation ?? "query",
    transport: request ? "http" : "websocket",
    name: operation?.name?.value ?? null,
    requestId,
    traceparent: request?.headers.get("traceparent") ?? null,
  };
}

/** `error` if one of the errors is unexpected. */
function outcomeOf(errors: readonly GraphQLError[] | undefined): RequestOutcome {
  if (!errors || errors.length === 0) return "ok";
  return errors.every(isForCaller) ? "refused" : "error";
}

/** The stream, with a call when it ends, whether the source or the reader ends it. */
function untilEnd<Item>(stream: AsyncIterator<Item>, onEnd: () => void): AsyncIterableIterator<Item> {
  let isEnded = false;
  const end = () => {
    if (isEnded) return;
    isEnded = true;
    onEnd();
  };
  return {
    async next() {
      try {
        const item = await stream.next();
        if (item.done) end();
        return item;
      } catch (error) {
        end();
        throw error;
      }
    },
    async return() {
      end();
      await stream.return?.();
      return { done: true, value: undefined };
    },
    async throw(error: unknown) {
      end();
      if (stream.throw) return stream.throw(error);
      throw error;
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}
