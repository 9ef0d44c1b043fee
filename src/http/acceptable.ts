/**
 * What a client says it can read. A request whose answer it could not read is refused before it is executed; a stream
 * that is asked for in a form that holds one answer is refused as soon as it is known to be one. Yoga says 406 to both,
 * without a word, and leaves the stream open.
 */
import type { IncomingMessage } from "node:http";
import type { Plugin } from "graphql-yoga";
import { graphqlError } from "./respond.ts";

const READABLE = ["application/graphql-response+json", "application/json", "text/event-stream", "multipart/mixed"];

export const UNREADABLE =
  "Accept application/json or application/graphql-response+json, and text/event-stream for a subscription.";
const NO_STREAM =
  "A subscription is answered as a stream: send `Accept: text/event-stream`, or ask over WebSocket (graphql-transport-ws).";

/** Whether a client reads any form that answers have. */
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

/** A Yoga plugin. Comes after Yoga's own processors, which are asked before any plugin. */
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

/** Nobody will ask it for an item. */
function endUnread(stream: AsyncIterable<unknown>): void {
  stream[Symbol.asyncIterator]()
    .return?.()
    .catch(() => {});
}
