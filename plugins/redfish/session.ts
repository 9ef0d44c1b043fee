/**
 * Logins. A session is kept in the driver's memory, so that later calls continue it in whatever process they run. A BMC
 * without free sessions, or without a session service, is sent the password with each request (basic authentication).
 *
 * While the settings have a `nextPassword`, either password may be the right one: rotate_password changes it on the
 * BMC, and a crash can come before or after the change.
 */
import { createHash } from "node:crypto";
import type { DriverMemory, Json } from "../../src/drivers/driver.ts";
import { isAway } from "./connection.ts";
import type { Connection, HttpAnswer, RedfishCall } from "./connection.ts";
import { RedfishError } from "./error.ts";
import { messageKeys, resourceOf } from "./messages.ts";
import { bmcName } from "../bmc-settings.ts";
import type { Login } from "./settings.ts";

/** The headers that authenticate a request. */
export type Credentials = Readonly<Record<string, string>>;

export interface Authenticator {
  /** Credentials for the next request. */
  current(): Promise<Credentials>;
  /** Credentials after the BMC has answered 401 to those; throws if it accepts none. */
  renew(refused: Credentials): Promise<Credentials>;
  /** Closes a session that no later call can continue, because there is no memory. */
  close(): Promise<void>;
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
  /** Why the BMC opened no session, if it did not refuse the login. */
  let unavailable: string | undefined;
  let login: Promise<Credentials> | undefined;

  const use = (value: Remembered): Credentials => {
    known = value;
    return headersOf(settings, value);
  };
  const remember = async (value: Remembered): Promise<Credentials> => {
    const stored = "basic" in value ? { ...value, until: Date.now() + MINUTES_WITHOUT_SESSIONS * 60_000 } : value;
    await memory?.set(key, stored);
    return use(value);
  };

  const logIn = async (refused: Remembered | undefined): Promise<Credentials> => {
    const sessions = await findSessions();
    for (const which of ["password", "nextPassword"] as const) {
      const password = settings[which];
      if (password === undefined) continue;
      if (sessions === undefined) return remember({ basic: which });
      const opened = await openSession(call, connection, sessions, password);
      if (opened.kind === "REFUSED") continue;
      if (opened.kind === "UNAVAILABLE") {
        unavailable = opened.reason;
        return remember({ basic: which });
      }
      return keepOne(opened.session, refused);
    }
    throw loginRefused(settings);
  };

  /** Another process may have opened a session meanwhile: one is enough, as BMCs have few. */
  const keepOne = async (opened: Session, refused: Remembered | undefined): Promise<Credentials> => {
    const other = recall(await memory?.get(key));
    if (!other || !("token" in other) || other.token === tokenOf(refused)) return remember(opened);
    await closeSession(connection, opened);
    return use(other);
  };

  /** Requests of one call that run at the same time share a login. */
  const once = (work: () => Promise<Credentials>): Promise<Credentials> => {
    login ??= work().finally(() => {
      login = undefined;
    });
    return login;
  };

  const replace = async (refused: Credentials): Promise<Credentials> => {
    const latest = recall(await memory?.get(key));
    if (latest && !sameHeaders(headersOf(settings, latest), refused)) return use(latest);
    const before = known;
    known = undefined;
    if (before && "basic" in before) {
      if (before.basic === "password" && settings.nextPassword !== undefined)
        return remember({ basic: "nextPassword" });
      await memory?.set(key, undefined);
      throw unavailable === undefined ? loginRefused(settings) : noSession(settings, unavailable);
    }
    return logIn(before);
  };

  return {
    async current() {
      known ??= recall(await memory?.get(key));
      return known ? headersOf(settings, known) : once(() => logIn(undefined));
    },
    async renew(refused) {
      if (known && !sameHeaders(headersOf(settings, known), refused)) return headersOf(settings, known);
      return once(() => replace(refused));
    },
    async close() {
      if (memory === undefined && known && "token" in known) await closeSession(connection, known);
    },
  };
}

interface Session {
  readonly token: string;
  readonly location: string;
}

type Opened =
  | { readonly kind: "OPENED"; readonly session: Session }
  | { readonly kind: "REFUSED" }
  | { readonly kind: "UNAVAILABLE"; readonly reason: string | undefined };

async function openSession(
  call: RedfishCall,
  connection: Connection,
  sessions: string,
  password: string,
): Promise<Opened> {
  const answer = await connection.send({
    method: "POST",
    path: sessions,
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ UserName: call.settings.username, Password: password }),
    task: "open a session",
    isLogin: true,
  });
  const token = answer.header("x-auth-token");
  if (answer.status < 300 && token !== undefined)
    return { kind: "OPENED", session: { token, location: locationOf(answer) } };
  if (answer.status === 401) return { kind: "REFUSED" };
  if (isAway(answer) && !namesLimit(answer)) throw notNow(call.settings, connection, answer);
  // 400 and 403 are the answers of some BMCs to a wrong password, and of others at their limit of sessions. Basic
  // authentication separates the two; 429 and 5xx say nothing about the password.
  const isLimit = answer.status === 429 || answer.status >= 500;
  return { kind: "UNAVAILABLE", reason: isLimit ? `HTTP ${answer.status}` : undefined };
}

/** Vendors have messages of their own for a BMC without free sessions. */
function namesLimit({ status, body }: HttpAnswer): boolean {
  const keys = messageKeys(resourceOf(body) ?? {});
  return status === 503 && keys.length > 0 && !keys.includes("ServiceTemporarilyUnavailable");
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
  const headers = { "x-auth-token": token };
  const request = { method: "DELETE", path: location, headers, task: "close a session", seconds: 10 } as const;
  // A session that cannot be closed expires.
  await connection.send({ ...request, isLogin: true }).catch(() => undefined);
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

function notNow(settings: Login, { hasActed }: Connection, { status }: HttpAnswer): RedfishError {
  const message = `BMC ${bmcName(settings)} opens no session now (HTTP ${status}), as while it restarts; try again, or restart the BMC.`;
  return new RedfishError({ kind: "REFUSED", status, message, retryable: true, away: !hasActed });
}

/** The BMC gives no session and takes no basic authentication, so the password is not known to be wrong. */
function noSession(settings: Login, reason: string): RedfishError {
  return new RedfishError({
    kind: "REFUSED",
    retryable: true,
    message: `BMC ${bmcName(settings)} opens no further session (${reason}) and does not accept basic authentication; close sessions that are not needed, or wait until they expire.`,
  });
}
