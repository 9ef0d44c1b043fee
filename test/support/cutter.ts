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
  /** Holds all data of present and later connections until the returned function is called. */
  stall(): () => void;
}

/** `onOpen`: called at each connection, with how many there have been. */
export async function cutter(target: string, onOpen: (count: number) => void = () => {}): Promise<Cutter> {
  const { hostname, port } = new URL(target);
  const open = new Set<Socket>();
  let count = 0;
  let isStalled = false;
  /** Ends the passing of what is on its way, both ways. */
  const passing = new Map<Socket, () => void>();
  const sockets = new Set<Socket>();
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
      sockets.add(one);
      one
        .on("error", () => {})
        .on("close", () => {
          sockets.delete(one);
          open.delete(near);
          passing.delete(near);
          other.destroy();
        });
      one.pipe(other);
      if (isStalled) one.pause();
    }
    onOpen((count += 1));
  });
  await new Promise<void>((listening) => void server.listen(0, "127.0.0.1", listening));
  const cut = () => {
    const present = [...open];
    for (const socket of present) socket.resetAndDestroy();
    return present.length;
  };
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    cut,
    forget() {
      for (const end of passing.values()) end();
      return passing.size;
    },
    stall() {
      isStalled = true;
      for (const socket of sockets) socket.pause();
      return () => {
        isStalled = false;
        for (const socket of sockets) socket.resume();
      };
    },
    async [Symbol.asyncDispose]() {
      const closed = new Promise<void>((done) => void server.close(() => done()));
      cut();
      await closed;
    },
  };
}
