/**
 * Content negotiation. A request whose response the client does not accept is refused before its execution; a
 * subscription in a format for single responses is refused as soon as it is known to be one. Yoga would answer both
 * with an empty 406, and leave the stream open.
 */
import type { IncomingMessage } from "node:http";
import type { Plugin } from "graphql-yoga";
import { graphqlError } from "./respond.ts";

const READABLE = ["application/graphql-response+json", "application/json", "text/event-stream"];

export const UNREADABLE =
  "Accept application/json or application/graphql-response+json, and text/event-stream for a subscription.";
const NO_STREAM =
  "A subscription returns a stream: send `Accept: text/event-stream`, or use WebSocket (graphql-transport-ws).";

/** Whether the client accepts a format of responses. */
export function readsAnswers({ headers: { accept = "*/*" } }: IncomingMessage): boolean {
  const types = accept
    .toLowerCase()
    .split(",")
    .map((part) => part.split(";")[0]?.trim() ?? "");
  return types.some(
    (type) =>
      type === "*/*" ||
      READABLE.some((one) => one === type || (type.endsWith("/*") && one.startsWith(type.slice(0, -1)))),
  );
}

/** A Yoga plugin that runs if none of Yoga's result processors fits. */
export function refuseUnreadable(): Plugin {
  return {
    onResultProcess({ result, resultProcessor, setResultProcessor }) {
      if (resultProcessor) return;
      if (Symbol.asyncIterator in result) endUnread(result);
      const body = JSON.stringify(graphqlError(Symbol.asyncIterator in result ? NO_STREAM : UNREADABLE, "BAD_REQUEST"));
      setResultProcessor(
        (_result, { Response }) =>
          new Response(body, { status: 406, headers: { "content-type": "application/json; charset=utf-8" } }),
        "application/json",
      );
    },
  };
}

/** Closes a stream that will not be read. */
function endUnread(stream: AsyncIterable<unknown>): void {
  stream[Symbol.asyncIterator]()
    .return?.()
    .catch(() => {});
}
