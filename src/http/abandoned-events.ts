/**
 * A Yoga plugin that ends a stream whose client disconnected before its first event. Yoga ends a stream when its
 * response closes, and does not notice that it was closed while the stream began.
 */
import type { ServerResponse } from "node:http";
import type { Plugin } from "graphql-yoga";

export function endAbandonedEvents(): Plugin {
  return {
    onResultProcess({ result, serverContext }) {
      const { res } = serverContext as { readonly res?: ServerResponse };
      if (res?.destroyed && Symbol.asyncIterator in result) void result[Symbol.asyncIterator]().return?.();
    },
  };
}
