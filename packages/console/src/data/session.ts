/**
 * With which rights the page asks: those of a token that was entered here, or else those of the browser's session
 * (docs/sign-in.md), which the browser sends with each request. A token is kept for this tab only.
 */
import { noteTime } from "./clock.ts";
import { createSignal } from "./signal.ts";

const TOKEN = "ostler-token";
const SESSION_MS = 3_000;

let token: string | null = sessionStorage.getItem(TOKEN) || null;

/** The reason why the service accepts no request of this page, empty if it was not asked yet; null while it may. */
export const signedOut = createSignal<string | null>(null);

export const currentToken = () => token;

export function authorization(): Readonly<Record<string, string>> {
  return token === null ? {} : { authorization: `Bearer ${token}` };
}

interface ShownSession {
  readonly session: object | null;
  readonly issuer: string | null;
  /** Missing in an answer of an older replica. */
  readonly isOpen?: boolean;
}

/** Throws if the service does not answer. */
export async function shownSession(): Promise<ShownSession> {
  const signal = AbortSignal.timeout(SESSION_MS);
  const response = await fetch("/auth/session", { headers: { accept: "application/json" }, signal });
  noteTime(response);
  return (await response.json()) as ShownSession;
}

/** How often the page was let in. What had been refused begins again then, where it was. */
export const entries = createSignal(0);

export function letIn(): void {
  signedOut.set(null);
  entries.set(entries.get() + 1);
}

/** Whether a request may succeed: one without rights would be a failed login in the audit. Sets the clock. */
export async function mayAsk(): Promise<boolean> {
  // The screens show that the service is away.
  const shown = await shownSession().catch(() => null);
  // A token that was refused would hide the session of a person who has signed in elsewhere.
  if (signedOut.get() !== null && shown?.session) keepToken(null);
  return token !== null || shown?.session !== null || shown.isOpen !== false;
}

/** Asked for as soon as this module is there. */
export const rightsAreKnown = mayAsk().then((may) => may || signedOut.set(""));

/** The page stays as it is, and is read again with these rights. */
export function signIn(value: string): void {
  keepToken(value);
  letIn();
}

function keepToken(value: string | null): void {
  token = value;
  sessionStorage.setItem(TOKEN, value ?? "");
}

/** Leaves nothing of the fleet on the screen. */
export async function signOut(): Promise<void> {
  token = null;
  sessionStorage.clear();
  await fetch("/auth/logout", { method: "POST", redirect: "manual" }).catch(() => {});
  location.reload();
}
