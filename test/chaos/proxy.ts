/**
 * A proxy to a server on this machine that can be impaired while it is in use: cut, slow, or open without passing data,
 * in one direction or both. Data held by a dead direction is not lost: as with TCP, it continues where it stopped.
 */
import { connect, createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";

/** `up`: towards the server. `down`: back to the client. */
export interface Condition {
  /** New connections are reset. */
  readonly refuses?: true;
  /** Delay of everything that passes, in milliseconds. */
  readonly delayMs?: number;
  /** Directions in which nothing is forwarded. */
  readonly dead?: readonly ("up" | "down")[];
}

export interface Proxy extends AsyncDisposable {
  readonly port: number;
  set(condition: Condition): void;
  /** Resets every connection. Returns their number. */
  cut(): number;
}

interface Lane {
  apply(condition: Condition): void;
}

export async function startProxy(port: number, serverPort: number): Promise<Proxy> {
  let condition: Condition = {};
  const pairs = new Map<Socket, { readonly far: Socket; readonly lanes: readonly Lane[] }>();
  const server = createServer({ noDelay: true }, (near) => {
    near.on("error", () => {});
    if (condition.refuses) return void near.resetAndDestroy();
    const far = connect({ host: "127.0.0.1", port: serverPort, noDelay: true });
    far.on("error", () => near.resetAndDestroy());
    const lanes = [lane("up", near, far), lane("down", far, near)];
    for (const one of lanes) one.apply(condition);
    pairs.set(near, { far, lanes });
    near.on("close", () => {
      pairs.delete(near);
      far.destroy();
    });
    far.on("close", () => near.destroy());
  });
  await new Promise<void>(
    (listening, reject) => void server.once("error", reject).listen(port, "127.0.0.1", listening),
  );
  const cut = () => {
    const open = [...pairs];
    for (const [near, { far }] of open) {
      near.resetAndDestroy();
      far.resetAndDestroy();
    }
    return open.length;
  };
  return {
    port: (server.address() as AddressInfo).port,
    set(next) {
      condition = next;
      for (const { lanes } of pairs.values()) for (const one of lanes) one.apply(next);
    },
    cut,
    async [Symbol.asyncDispose]() {
      const closed = new Promise<void>((done) => void server.close(() => done()));
      cut();
      await closed;
    },
  };
}

/** Forwards data from `from` to `to`, in order and no faster than `to` accepts it. */
function lane(direction: "up" | "down", from: Socket, to: Socket): Lane {
  /** Delayed chunks, oldest first; null: the end. */
  const queue: { readonly at: number; readonly chunk: Buffer | null }[] = [];
  let condition: Condition = {};
  let isFull = false;
  let timer: NodeJS.Timeout | undefined;
  const isDead = () => condition.dead?.includes(direction) === true;

  function flow(): void {
    clearTimeout(timer);
    while (!isDead() && !isFull && queue[0] && queue[0].at <= performance.now()) {
      const { chunk } = queue.shift() ?? { chunk: null };
      if (chunk === null) to.end();
      else if (to.writable) isFull = !to.write(chunk);
    }
    if (isDead() || isFull) return void from.pause();
    from.resume();
    if (queue[0]) timer = setTimeout(flow, Math.max(1, queue[0].at - performance.now()));
  }

  const add = (chunk: Buffer | null) => {
    queue.push({ at: Math.max(queue.at(-1)?.at ?? 0, performance.now() + (condition.delayMs ?? 0)), chunk });
    flow();
  };
  to.on("drain", () => {
    isFull = false;
    flow();
  });
  from
    .on("data", add)
    .on("end", () => add(null))
    .on("close", () => clearTimeout(timer));
  return {
    apply(next) {
      condition = next;
      flow();
    },
  };
}
