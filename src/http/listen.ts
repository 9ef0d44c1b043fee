/** Listening on a port, with a clear error if that fails. */
import { createServer } from "node:net";
import type { AddressInfo, Server } from "node:net";

/** Fails if the port cannot be listened on, before a start makes or migrates a database. */
export async function checkPort(port: number, host: string): Promise<void> {
  if (port === 0) return;
  const server = createServer();
  await listen(server, port, host);
  await new Promise((done) => server.close(done));
}

/** Resolves with the port: the one that the system chose if `port` is 0. */
export function listen(server: Server, port: number, host: string): Promise<number> {
  return new Promise((done, failed) => {
    server.once("error", (error: NodeJS.ErrnoException) => {
      // Without `cause`: start-up takes some error codes for an unreachable database.
      failed(
        new Error(
          error.code === "EADDRINUSE"
            ? `Port ${port} on ${host} is in use; choose another one with OSTLER_PORT or --port.`
            : `Cannot listen on port ${port} of ${host}: ${error.message}. Check OSTLER_HOST and OSTLER_PORT.`,
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
