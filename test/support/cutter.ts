/** A way to a server that can be cut: TCP connections go through it until somebody breaks them. */
import { connect, createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";

export interface Cutter extends AsyncDisposable {
  /** The server's address, by this way. */
  readonly url: string;
  /** Breaks every connection, as a cable does. Answers how many there were. */
  cut(): number;
}

export async function cutter(target: string): Promise<Cutter> {
  const { hostname, port } = new URL(target);
  const open = new Set<Socket>();
  const server = createServer((near) => {
    const far = connect({ host: hostname, port: Number(port) });
    open.add(near);
    for (const [one, other] of [[near, far], [far, near]] as const) {
      one.on("error", () => {}).on("close", () => {
        open.delete(near);
        other.destroy();
      });
      one.pipe(other);
    }
  });
  await new Promise<void>((listening) => void server.listen(0, "127.0.0.1", listening));
  const cut = () => {
    const sockets = [...open];
    for (const socket of sockets) socket.resetAndDestroy();
    return sockets.length;
  };
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    cut,
    async [Symbol.asyncDispose]() {
      const closed = new Promise<void>((done) => void server.close(() => done()));
      cut();
      await closed;
    },
  };
}
