/** A TCP proxy whose connections a test can cut, or drop silently as a firewall does. */
import { connect, createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";

export interface Cutter extends AsyncDisposable {
  /** The server's address, by this way. */
  readonly url: string;
  /** Breaks every connection, as a cable does. Answers how many there were. */
  cut(): number;
  /** Drops all data of the present connections without closing them. New ones work. */
  forget(): number;
}

/** `onOpen`: called at each connection, with how many there have been. */
export async function cutter(target: string, onOpen: (count: number) => void = () => {}): Promise<Cutter> {
  const { hostname, port } = new URL(target);
  const open = new Set<Socket>();
  let count = 0;
  /** Ends the passing of what is on its way, both ways. */
  const passing = new Map<Socket, () => void>();
  const server = createServer((near) => {
    const far = connect({ host: hostname, port: Number(port) });
    open.add(near);
    passing.set(near, () => {
      near.unpipe(far).resume();
      far.unpipe(near).resume();
    });
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      one
        .on("error", () => {})
        .on("close", () => {
          open.delete(near);
          passing.delete(near);
          other.destroy();
        });
      one.pipe(other);
    }
    onOpen((count += 1));
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
    forget() {
      for (const end of passing.values()) end();
      return passing.size;
    },
    async [Symbol.asyncDispose]() {
      const closed = new Promise<void>((done) => void server.close(() => done()));
      cut();
      await closed;
    },
  };
}
