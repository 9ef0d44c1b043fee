/** Sessions of one BMC: created by a login, ended by a logout or by idle time, limited in number. */
import { randomBytes } from "node:crypto";

export interface Session {
  readonly id: string;
  readonly token: string;
  readonly userName: string;
  usedAt: number;
}

export interface SessionStore {
  /** Null if the limit is reached. */
  create(userName: string): Session | null;
  /** The session of a token, which counts as used now. */
  use(token: string): Session | null;
  end(id: string): boolean;
  endAll(exceptId?: string | null): void;
  list(): readonly Session[];
}

export interface SessionLimits {
  readonly sessionsMax: number;
  readonly timeoutSeconds: number;
}

export function createSessions({ sessionsMax, timeoutSeconds }: SessionLimits, now = Date.now): SessionStore {
  let sessions: readonly Session[] = [];
  const live = () => {
    const since = now() - timeoutSeconds * 1000;
    sessions = sessions.filter(({ usedAt }) => usedAt > since);
    return sessions;
  };
  return {
    create(userName) {
      if (live().length >= sessionsMax) return null;
      const id = randomBytes(4).toString("hex");
      const session = { id, token: randomBytes(16).toString("hex"), userName, usedAt: now() };
      sessions = [...sessions, session];
      return session;
    },
    use(token) {
      const session = live().find((one) => one.token === token);
      if (session === undefined) return null;
      session.usedAt = now();
      return session;
    },
    end(id) {
      const before = live().length;
      sessions = sessions.filter((one) => one.id !== id);
      return sessions.length < before;
    },
    endAll(exceptId = null) {
      sessions = sessions.filter((one) => one.id === exceptId);
    },
    list: live,
  };
}
