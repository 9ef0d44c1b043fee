/**
 * Makes a pool use the connection that was used last, so that connections which a burst of work has opened stay idle
 * afterwards and are closed.
 *
 * postgres.js 3.4.9 uses idle connections in turn (no upstream issue is known). After one burst every connection of the
 * pool would be used again and again, none would become idle for long, and each would hold its prepared statements and
 * caches in PostgreSQL, some 8 MB. Its queue of idle connections has no name outside of postgres.js: it is the queue
 * that a connection is in when its idle timer starts. BEGIN is given the connection, and so is a statement with the
 * same option, if it has no values or is prepared.
 */
import type { Sql } from "postgres";

/** Members of a connection and of a queue of postgres.js that its types do not show. */
interface PooledConnection {
  readonly queue: ConnectionQueue;
  readonly idleTimer: { start: () => void };
}

interface ConnectionQueue {
  readonly length: number;
  push(connection: PooledConnection): PooledConnection;
  shift(): PooledConnection | undefined;
  remove(connection: PooledConnection): PooledConnection | null;
}

/** The result of `onexecute` is whether the connection can be sent further statements now. */
interface StatementOptions {
  onexecute?: (connection: PooledConnection) => unknown;
}

export function useNewestConnection(sql: Sql): Sql {
  const unsafe = sql.unsafe.bind(sql);
  let isFound = false;
  const find = (connection: PooledConnection) => {
    isFound = true;
    const { idleTimer } = connection;
    const { start } = idleTimer;
    idleTimer.start = () => {
      idleTimer.start = start;
      becomeStack(connection.queue);
      start();
    };
  };
  const finding: Sql["unsafe"] = (text, values, options) => {
    if (isFound) return unsafe(text, values, options);
    const { onexecute } = (options ?? {}) as StatementOptions;
    const both: StatementOptions = {
      onexecute(connection) {
        if (!isFound) find(connection);
        return onexecute ? onexecute(connection) : true;
      },
    };
    return unsafe(text, values, { ...options, ...both });
  };
  return Object.assign(sql, { unsafe: finding });
}

function becomeStack(queue: ConnectionQueue): void {
  const stack: PooledConnection[] = [];
  for (let next = queue.shift(); next !== undefined; next = queue.shift()) stack.push(next);
  Object.defineProperties(queue, {
    length: { get: () => stack.length },
    push: {
      value(connection: PooledConnection) {
        stack.push(connection);
        return connection;
      },
    },
    shift: { value: () => stack.pop() },
    remove: {
      value(connection: PooledConnection) {
        const index = stack.lastIndexOf(connection);
        return index === -1 ? null : (stack.splice(index, 1)[0] ?? null);
      },
    },
  });
}
