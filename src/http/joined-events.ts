/**
 * A Yoga plugin that sends the server-sent events of one turn of the event loop in one write to the connection. Writing
 * stops at the limit of the response's buffer, so a client that does not read holds no more than before.
 */
import type { ServerResponse } from "node:http";
import type { Plugin } from "graphql-yoga";
import { Cork } from "./corked.ts";

export function joinEvents(): Plugin {
  return {
    onResultProcess({ result, serverContext }) {
      const { res } = serverContext as { readonly res?: ServerResponse };
      if (!res?.socket || !(Symbol.asyncIterator in result)) return;
      // Not the response: when it is uncorked, it writes each of its parts alone.
      const cork = new Cork(res.socket);
      const write = res.write.bind(res) as (...given: unknown[]) => boolean;
      res.write = (...given: unknown[]) => {
        cork.hold();
        return write(...given);
      };
    },
  };
}
