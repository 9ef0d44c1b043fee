/**
 * With which rights the page asks: those of a token that was entered here, or else those of the browser's session
 * (docs/sign-in.md), which the browser sends with each request. A token is kept for this tab only.
 */
import { createSignal } from "./signal.ts";

const TOKEN = "ostler-token";

let token: string | null = sessionStorage.getItem(TOKEN);

/** The reason why the service accepts no request of this page; null while it may. */
export const signedOut = createSignal<string | null>(null);

export const currentToken = () => token;

export function authorization(): Readonly<Record<string, string>> {
  return token === null ? {} : { authorization: `Bearer ${token}` };
}

/** The streams begin with the new rights when the page loads again; its address stays. */
export function signIn(value: string): void {
  sessionStorage.setItem(TOKEN, value);
  location.reload();
}

/** Leaves nothing of the fleet on the screen. */
export async function signOut(): Promise<void> {
  token = null;
  sessionStorage.clear();
  await fetch("/auth/logout", { method: "POST", redirect: "manual" }).catch(() => {});
  location.reload();
}
