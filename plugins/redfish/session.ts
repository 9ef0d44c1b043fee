/**
 * Logins. A session is kept in the driver's memory, so that later calls continue it in whatever process they run. A BMC
 * without free sessions, or without a session service, is sent the password with each request (basic authentication).
 *
 * While the settings have a `nextPassword`, either password may be the right one: rotate_password changes it on the BMC,
 * and a crash can come before or after the change.
 */
import { createHash } from "node:crypto";
import type { DriverMemory, Json } from "../../src/drivers/driver.ts";
import type { Connection, HttpAnswer, RedfishCall } from "./connection.ts";
import { RedfishError } from "./error.ts";
import { bmcName } from "./settings.ts";
import type { Login } from "./settings.ts";

/** The headers that authenticate a request. */
export type Credentials = Readonly<Record<string, string>>;

export interface Authenticator {
  /** Credentials for the next request. */
  current(): Promise<Credentials>;
  /** Credentials after the BMC has answered 401 to those; throws AUTHENTICATION if it accepts none. */
  renew(refused: Credentials): Promise<Credentials>;
}

/** A session, or the password that basic authentication sends, as the driver's memory keeps it. */
type Remembered =
  | { readonly token: string; readonly location: string }
  | { readonly basic: "password" | "nextPassword" };

const MINUTES_WITHOUT_SESSIONS = 10;

export function authenticate(
  call: RedfishCall,
  connection: Connection,
  /** Where sessions are created; undefined if the BMC has no session service. */
  findSessions: () => Promise<string | undefined>,
  memory: DriverMemory | undefined,
): Authenticator {
  const { settings } = call;
  const key = memoryKey(connection.origin, settings);
  let known: Remembered | undefined;
  const remember = async (value: Remembered): Promise<Credentials> => {
    known = value;
    await memory?.set(
      key,
      "basic" in value ? { ...value, until: Date.now() + MINUTES_WITHOUT_SESSIONS * 60_000 } : value,
    );
    return headersOf(settings, value);
  };

  const logIn = async (): Promise<Credentials> => {
    const sessions = await findSessions();
    for (const which of ["password", "nextPassword"] as const) {
      const password = settings[which];
      if (password === undefined) continue;
      const opened = sessions === undefined ? "UNAVAILABLE" : await openSession(call, connection, sessions, password);
      if (opened === "REFUSED") continue;
      if (opened === "UNAVAILABLE") return remember({ basic: which });
      return keepOne(opened);
    }
    throw loginRefused(settings);
  };

  /** Another process may have opened a session meanwhile: one is enough, as BMCs have few. */
  const keepOne = async (opened: Session): Promise<Credentials> => {
    const other = recall(await memory?.get(key));
    if (other && "token" in other && other.token !== tokenOf(known)) {
      await closeSession(connection, opened).catch(() => undefined);
      known = other;
      return headersOf(settings, other);
    }
    return remember(opened);
  };

  return {
    async current() {
      known ??= recall(await memory?.get(key));
      return known ? headersOf(settings, known) : logIn();
    },
    async renew(refused) {
      const latest = recall(await memory?.get(key));
      if (latest && !sameHeaders(headersOf(settings, latest), refused)) {
        known = latest;
        return headersOf(settings, latest);
      }
      if (known && "basic" in known) {
        const next = known.basic === "password" && settings.nextPassword !== undefined;
        if (!next) {
          await memory?.set(key, undefined);
          throw loginRefused(settings);
        }
        return remember({ basic: "nextPassword" });
      }
      await memory?.set(key, undefined);
      return logIn();
    },
  };
}

interface Session {
  readonly token: string;
  readonly location: string;
}

async function openSession(
  call: RedfishCall,
  connection: Connection,
  sessions: string,
  password: string,
): Promise<Session | "REFUSED" | "UNAVAILABLE"> {
  const answer = await connection.send({
    method: "POST",
    path: sessions,
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ UserName: call.settings.username, Password: password }),
    task: "open a session",
  });
  const token = answer.header("x-auth-token");
  if (answer.status < 300 && token !== undefined) return { token, location: locationOf(answer) };
  // 400 is the answer of some BMCs to a wrong password, and of others at their limit of sessions: basic
  // authentication tells them apart.
  return answer.status === 401 ? "REFUSED" : "UNAVAILABLE";
}

function locationOf(answer: HttpAnswer): string {
  const location = answer.header("location");
  if (location !== undefined) return location;
  try {
    const body: unknown = JSON.parse(answer.body);
    return typeof body === "object" && body !== null && "@odata.id" in body ? String(body["@odata.id"]) : "";
  } catch {
    return "";
  }
}

async function closeSession(connection: Connection, { token, location }: Session): Promise<void> {
  if (location === "") return;
  await connection.send({
    method: "DELETE",
    path: location,
    headers: { "x-auth-token": token },
    task: "close a session",
    seconds: 10,
  });
}

function headersOf(settings: Login, value: Remembered): Credentials {
  if ("token" in value) return { "x-auth-token": value.token };
  const password = settings[value.basic] ?? settings.password;
  return { authorization: `Basic ${Buffer.from(`${settings.username}:${password}`).toString("base64")}` };
}

function recall(stored: Json | undefined): Remembered | undefined {
  if (typeof stored !== "object" || stored === null || Array.isArray(stored)) return undefined;
  const { token, location, basic, until } = stored as Readonly<Record<string, Json>>;
  if (typeof token === "string" && typeof location === "string") return { token, location };
  const isFresh = typeof until === "number" && until > Date.now();
  return isFresh && (basic === "password" || basic === "nextPassword") ? { basic } : undefined;
}

function tokenOf(value: Remembered | undefined): string | undefined {
  return value && "token" in value ? value.token : undefined;
}

function sameHeaders(one: Credentials, other: Credentials): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

/** Another login has another key. The hash does not reveal the passwords. */
function memoryKey(origin: string, { username, password, nextPassword }: Login): string {
  const text = JSON.stringify([origin, username, password, nextPassword ?? null]);
  return `login ${createHash("sha256").update(text).digest("base64url")}`;
}

function loginRefused(settings: Login): RedfishError {
  return new RedfishError({
    kind: "AUTHENTICATION",
    message: `BMC ${bmcName(settings)} refuses the login of user ${JSON.stringify(settings.username)}; check username and password in the node's settings.`,
  });
}
