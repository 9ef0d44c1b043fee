/** A server's port: taken, or a sentence that says why not. */
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";

/** Answers the port, which is another than asked for where that was 0. */
export function listen(server: Server, port: number, host: string): Promise<number> {
  return new Promise((done, failed) => {
    server.once("error", (error: NodeJS.ErrnoException) => {
      failed(error.code === "EADDRINUSE" ? new Error(`Port ${port} of ${host} is taken; choose another with OSTLER_PORT or --port.`, { cause: error }) : error);
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
