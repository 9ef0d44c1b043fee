/**
 * Sockets to the database that detect a silent connection.
 *
 * A firewall that dropped a connection, or a server that disappeared, answers nothing, and the kernel retransmits for a
 * quarter of an hour; postgres.js 3.4.9 has no timeout for this (issue 1089). So a socket is destroyed if something was
 * written and nothing was received for a time. An idle socket is left alone: keep-alive probes, which the kernel sends
 * while nothing else is under way, find it dead within half a minute. When one socket falls silent, idle ones that have
 * received nothing since are destroyed with it: they most likely took the same way, and each would cost another
 * statement the same wait.
 *
 * postgres.js would itself put TLS on a given socket, where it cannot be watched, so TLS is set up here.
 */
import { Socket, isIP } from "node:net";
import { connect as connectTls } from "node:tls";
import type { ConnectionOptions } from "node:tls";

/** Where a socket leads, as postgres.js parsed it from the address and its environment variables. */
export interface Target {
  readonly host: readonly string[];
  readonly port: readonly number[];
  /** A Unix socket. */
  readonly path: string | false;
  readonly ssl: "require" | "allow" | "prefer" | "verify-full" | boolean | ConnectionOptions;
  readonly sslnegotiation: string | null;
}

/** Timeout of a connection with TLS. postgres.js has its own for others. */
const CONNECT_MS = 10_000;
const SSL_REQUEST = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]);
const TLS_ACCEPTED = "S".codePointAt(0);

/** Makes sockets to the target. `silentMs`: time after a write without an answer at which a socket is destroyed. */
export function createWatchdogSocket(target: Target, silentMs: number): () => Socket | Promise<Socket> {
  const pool: Pool = { silentMs, sockets: new Map() };
  return async () => watched(flushed(target.ssl ? await secured(target) : dialed(target)), pool);
}

function dialed({ host: [host = "localhost"], port: [port = 5432], path }: Target): Socket {
  const socket = new Socket();
  return path ? socket.connect(path) : Object.assign(socket.connect(port, host), { host, port });
}

/** Its code is that of a lost connection. */
function silenceError(ms: number): Error {
  return Object.assign(new Error(`The database has not answered for ${ms / 1_000} s; the connection is closed.`), {
    code: "ETIMEDOUT",
  });
}

/**
 * Lets postgres.js 3.4.9 reconnect after a socket closed while data waited to be written.
 *
 * It buffers writes until a turn of the event loop is over. If a socket closes before, the timer of the buffer is
 * cleared but not reset, and later sockets of that connection are given nothing until a kilobyte has been collected:
 * each fails a statement at its timeout (the endless CONNECT_TIMEOUT described at pull requests 1168 and 1215; no issue
 * of its own is known). So a socket that is given nothing at once, or anything but the start of a connection, is
 * destroyed. postgres.js then makes the next one with the same statement, a dozen at most.
 *
 * It also forgets what it is given between the error of a socket and its close, unless the close does not report an
 * error.
 */
function flushed(socket: Socket): Socket {
  const write = socket.write.bind(socket) as (...given: unknown[]) => boolean;
  const emit = socket.emit.bind(socket) as (name: string | symbol, ...given: unknown[]) => boolean;
  let hasStarted = false;
  setImmediate(setImmediate, () => {
    if (!hasStarted) socket.destroy();
  });
  return Object.assign(socket, {
    write(first: Buffer, ...rest: unknown[]) {
      // The first message of a connection has no type before its length.
      const isIntact = hasStarted || first.readInt32BE() === first.length;
      hasStarted = true;
      if (isIntact) return write(first, ...rest);
      socket.destroy();
      return true;
    },
    emit: (name: string | symbol, ...given: unknown[]) => (name === "close" ? emit(name, false) : emit(name, ...given)),
  });
}

interface Pool {
  readonly silentMs: number;
  readonly sockets: Map<Socket, Activity>;
}

interface Activity {
  /** When something was last received. */
  receivedAt: number;
  /** Undefined while no answer is expected. */
  timeout: NodeJS.Timeout | undefined;
}

function watched(socket: Socket, { silentMs, sockets }: Pool): Socket {
  const activity: Activity = { receivedAt: performance.now(), timeout: undefined };
  const receive = () => {
    clearTimeout(activity.timeout);
    activity.timeout = undefined;
    activity.receivedAt = performance.now();
  };
  const expire = (timeout: NodeJS.Timeout | undefined, since: number) => {
    if (activity.timeout !== timeout) return;
    for (const [other, { receivedAt, timeout: pending }] of sockets)
      if (other === socket || (pending === undefined && receivedAt <= since))
        drop(other, other === socket ? silenceError(silentMs) : null);
  };
  const write = socket.write.bind(socket) as (...given: unknown[]) => boolean;
  const watching = (...given: unknown[]) => {
    const since = performance.now();
    // After a suspension of the process, what arrived meanwhile is read first.
    activity.timeout ??= setTimeout(() => setImmediate(expire, activity.timeout, since), silentMs).unref();
    return write(...given);
  };
  sockets.set(socket, activity);
  socket.on("data", receive).on("close", () => {
    receive();
    sockets.delete(socket);
  });
  return Object.assign(socket, { write: watching });
}

/**
 * Reports the end to postgres.js before it happens: between the error and the close of its socket, a connection would
 * be given the next statement.
 */
function drop(socket: Socket, error: Error | null): void {
  if (error) socket.emit("error", error);
  socket.emit("close");
  socket.on("error", () => {}).destroy();
}

/**
 * Never rejects: postgres.js would count a connection without a socket as used forever. The socket reports the error.
 */
function secured(target: Target): Promise<Socket> {
  return new Promise((resolve) => {
    let socket = dialed(target);
    const fail = (error: Error) => {
      cleanUp();
      socket.destroy();
      resolve(failing(error));
    };
    const close = () => fail(closedError());
    const timeout = setTimeout(() => fail(silenceError(CONNECT_MS)), CONNECT_MS);
    const cleanUp = () => {
      clearTimeout(timeout);
      socket.off("error", fail).off("close", close);
    };
    const succeed = () => {
      cleanUp();
      resolve(socket);
    };
    const secure = () => {
      const raw = socket.off("error", fail).off("close", close);
      socket = connectTls({ socket: raw, ...tlsOptions(target) }, succeed)
        .on("error", fail)
        .on("close", close);
    };
    socket.on("error", fail).on("close", close);
    if (target.sslnegotiation === "direct") return void socket.once("connect", secure);
    socket.write(SSL_REQUEST);
    socket.once("data", ([answer]) => {
      if (answer === TLS_ACCEPTED) secure();
      else if (target.ssl === "prefer") succeed();
      else
        fail(
          new Error(
            "The database does not accept TLS, and its address requires it. Enable TLS on the server, or change sslmode.",
          ),
        );
    });
  });
}

function tlsOptions({ host: [host = ""], ssl, sslnegotiation }: Target): ConnectionOptions {
  return {
    ...(!isIP(host) && { servername: host }),
    ...(sslnegotiation === "direct" && { ALPNProtocols: ["postgresql"] }),
    ...(ssl === "require" || ssl === "allow" || ssl === "prefer"
      ? { rejectUnauthorized: false }
      : typeof ssl === "object" && ssl),
  };
}

function closedError(): Error {
  return Object.assign(new Error("The connection was closed during its TLS handshake."), { code: "ECONNRESET" });
}

function failing(error: Error): Socket {
  const socket = new Socket();
  setImmediate(() => socket.destroy(error));
  return socket;
}
