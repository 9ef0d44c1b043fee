/** A server's port: taken, or a sentence that says why not. */
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";

/** Answers the port, which is another than asked for where that was 0. */
export function listen(server: Server, port: number, host: string): Promise<number> {
  return new Promise((done, failed) => {
    server.once("error", (error: NodeJS.ErrnoException) => {
      // Without its cause, whose code may be one that a database has that is away.
      failed(
        new Error(
          error.code === "EADDRINUSE"
            ? `Port ${port} of ${host} is taken; choose another with OSTLER_PORT or --port.`
            : `Nothing can listen on port ${port} of ${host}: ${error.message}. See OSTLER_HOST and OSTLER_PORT.`,
        ),
      );
    });
    server.listen(port, host, () => {
      server.removeAllListeners("error");
      done((server.address() as AddressInfo).port);
    });
  });
}

export function shownUrl(host: string, port: number): string {
  return `http://${host.includes(":") ? `[${host}]` : host}:${port}`;
}
