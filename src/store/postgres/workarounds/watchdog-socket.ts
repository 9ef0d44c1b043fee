/**
 * Sockets to the database that give up. A firewall that has forgotten a connection, or a server that is gone without a word,
 * answers nothing of what is written, and the kernel goes on sending for a quarter of an hour. So a socket on which something
 * was written, and nothing has come since, is destroyed after a time. One at rest is left alone: keep-alive, which the
 * kernel sends while nothing else is on its way, finds it dead within half a minute. Where one has fallen silent, those at rest
 * that have said nothing since are given up with it: they have gone the same way, and each would cost somebody the same wait.
 *
 * postgres.js takes a socket as it is given, and would itself put TLS on it, where nobody could watch: so TLS is made here.
 */
import { Socket, isIP } from "node:net";
import { connect as connectTls } from "node:tls";
import type { ConnectionOptions } from "node:tls";

/** Where a socket leads to, as postgres.js has read it from an address and its own variables. */
export interface Target {
  readonly host: readonly string[];
  readonly port: readonly number[];
  /** A Unix socket. */
  readonly path: string | false;
  readonly ssl: "require" | "allow" | "prefer" | "verify-full" | boolean | ConnectionOptions;
  readonly sslnegotiation: string | null;
}

/** How long it may take to come to a connection with TLS. Others are seen to by postgres.js. */
const CONNECT_MS = 10_000;
const SSL_REQUEST = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]);
const YES = "S".codePointAt(0);

/** Makes sockets to the target. `silentMs`: how long something that was written may be without an answer. */
export function createWatchdogSocket(target: Target, silentMs: number): () => Socket | Promise<Socket> {
  const pool: Pool = { silentMs, sockets: new Map() };
  return async () => watched(begun(target.ssl ? await secured(target) : dialled(target)), pool);
}

function dialled({ host: [host = "localhost"], port: [port = 5432], path }: Target): Socket {
  const socket = new Socket();
  return path ? socket.connect(path) : Object.assign(socket.connect(port, host), { host, port });
}

/** Nothing has come for so long: a connection that is lost, as its code says. */
function silence(ms: number): Error {
  return Object.assign(new Error(`The database has not answered for ${ms / 1_000} s; the connection is given up.`), {
    code: "ETIMEDOUT",
  });
}

/**
 * Sees that postgres.js 3.4.9 goes on after the end of a socket. It collects what it writes until a turn of the event loop is
 * over. Where a socket is closed before, it waits for that turn for ever: the sockets that it makes after that are given
 * nothing, until a kilobyte has come together, and each fails a statement when its time is over. So one that is given
 * nothing at once, or anything but a beginning, is destroyed. It then makes the next, with the same statement: a dozen at most.
 *
 * And what it is given between an error and the end of a socket it would forget; not so, where the end is not said to be an error's.
 */
function begun(socket: Socket): Socket {
  const write = socket.write.bind(socket) as (...given: unknown[]) => boolean;
  const emit = socket.emit.bind(socket) as (name: string | symbol, ...given: unknown[]) => boolean;
  let hasBegun = false;
  setImmediate(setImmediate, () => {
    if (!hasBegun) socket.destroy();
  });
  return Object.assign(socket, {
    write(first: Buffer, ...rest: unknown[]) {
      // The first message of a connection has no type before its length.
      const isSound = hasBegun || first.readInt32BE() === first.length;
      hasBegun = true;
      if (isSound) return write(first, ...rest);
      socket.destroy();
      return true;
    },
    emit: (name: string | symbol, ...given: unknown[]) => (name === "close" ? emit(name, false) : emit(name, ...given)),
  });
}

interface Pool {
  readonly silentMs: number;
  readonly sockets: Map<Socket, Heard>;
}

interface Heard {
  /** When something last came. */
  at: number;
  /** Absent: nothing is waited for. */
  late: NodeJS.Timeout | undefined;
}

function watched(socket: Socket, { silentMs, sockets }: Pool): Socket {
  const heard: Heard = { at: performance.now(), late: undefined };
  const hear = () => {
    clearTimeout(heard.late);
    heard.late = undefined;
    heard.at = performance.now();
  };
  const give = (late: NodeJS.Timeout | undefined, since: number) => {
    if (heard.late !== late) return;
    for (const [other, { at, late: waits }] of sockets)
      if (other === socket || (waits === undefined && at <= since))
        giveUp(other, other === socket ? silence(silentMs) : null);
  };
  const write = socket.write.bind(socket) as (...given: unknown[]) => boolean;
  const watching = (...given: unknown[]) => {
    const since = performance.now();
    // Of a process that was suspended: what came meanwhile is read first.
    heard.late ??= setTimeout(() => setImmediate(give, heard.late, since), silentMs).unref();
    return write(...given);
  };
  sockets.set(socket, heard);
  socket.on("data", hear).on("close", () => {
    hear();
    sockets.delete(socket);
  });
  return Object.assign(socket, { write: watching });
}

/** Tells postgres.js of the end before it comes: between an error and the end of its socket, a connection would be given what comes next. */
function giveUp(socket: Socket, error: Error | null): void {
  if (error) socket.emit("error", error);
  socket.emit("close");
  socket.on("error", () => {}).destroy();
}

/** Never rejects: postgres.js would count a connection for good that came to no socket. What is wrong, the socket tells. */
function secured(target: Target): Promise<Socket> {
  return new Promise((resolve) => {
    let trying = dialled(target);
    const fail = (error: Error) => {
      leave();
      trying.destroy();
      resolve(failing(error));
    };
    const close = () => fail(closed());
    const late = setTimeout(() => fail(silence(CONNECT_MS)), CONNECT_MS);
    const leave = () => {
      clearTimeout(late);
      trying.off("error", fail).off("close", close);
    };
    const give = () => {
      leave();
      resolve(trying);
    };
    const secure = () => {
      const raw = trying.off("error", fail).off("close", close);
      trying = connectTls({ socket: raw, ...wayOf(target) }, give)
        .on("error", fail)
        .on("close", close);
    };
    trying.on("error", fail).on("close", close);
    if (target.sslnegotiation === "direct") return void trying.once("connect", secure);
    trying.write(SSL_REQUEST);
    trying.once("data", ([answer]) => {
      if (answer === YES) secure();
      else if (target.ssl === "prefer") give();
      else fail(new Error("The database takes no TLS, and its address asks for it."));
    });
  });
}

function wayOf({ host: [host = ""], ssl, sslnegotiation }: Target): ConnectionOptions {
  return {
    ...(!isIP(host) && { servername: host }),
    ...(sslnegotiation === "direct" && { ALPNProtocols: ["postgresql"] }),
    ...(ssl === "require" || ssl === "allow" || ssl === "prefer"
      ? { rejectUnauthorized: false }
      : typeof ssl === "object" && ssl),
  };
}

function closed(): Error {
  return Object.assign(new Error("The connection was closed before it was secure."), { code: "ECONNRESET" });
}

function failing(error: Error): Socket {
  const socket = new Socket();
  setImmediate(() => socket.destroy(error));
  return socket;
}
