/** The order of responses on a connection, and the end of connections that do not move. */
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";

/** Maximum number of pipelined requests on one connection. */
const LINE_MAX = 100;

/** Number of unanswered requests on a connection, and the end of the last response. */
const lines = new WeakMap<Socket, { length: number; last: Promise<void> }>();

/**
 * Answers the requests of one connection one after another. For pipelined requests, Node would start all of them at
 * once and buffer all their responses.
 */
export async function inOrder(
  { socket }: IncomingMessage,
  response: ServerResponse,
  serve: () => Promise<void>,
): Promise<void> {
  const line = lines.get(socket) ?? { length: 0, last: Promise.resolve() };
  lines.set(socket, line);
  line.length += 1;
  if (line.length > LINE_MAX) return void socket.destroy();
  const before = line.length > 1 ? line.last : null;
  line.last = new Promise((done) =>
    response.once("close", () => {
      line.length -= 1;
      done();
    }),
  );
  if (before) await before;
  await serve();
}

/**
 * Closes a connection that is idle, or whose client has read nothing of its response, for `ms`. Streams have their own
 * check.
 */
export function cutIfStuck(server: Server, ms: number): void {
  server.setTimeout(ms, (socket) => {
    const isIdle = (lines.get(socket)?.length ?? 0) === 0;
    if (isIdle || socket.writableLength > 0) socket.destroy();
    // The response is still being made. Node restarts the timeout only when data moves.
    else socket.setTimeout(ms);
  });
}
