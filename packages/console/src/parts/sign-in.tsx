/** Signing in: with a token for this tab, or at an issuer with a session of the browser (docs/sign-in.md). */
import { useEffect, useState, useSyncExternalStore } from "react";
import { awaitRights } from "../data/await-rights.ts";
import { checkToken } from "../data/request.ts";
import type { RequestError } from "../data/request.ts";
import { shownSession, signIn, signedOut } from "../data/session.ts";
import { Problem } from "./notices.tsx";
import { Text } from "./text.tsx";
import { signInReason } from "../words/sign-in.ts";

/** Null: there is none, or it is not known. */
function useIssuer(): string | null {
  const [issuer, setIssuer] = useState<string | null>(null);
  useEffect(() => {
    shownSession().then(
      (shown) => setIssuer(shown.issuer),
      () => {},
    );
  }, []);
  return issuer;
}

export function SignInScreen({ reason }: { readonly reason: string }) {
  // Empty: the person has not signed in yet.
  useEffect(() => (reason === "" ? undefined : awaitRights()), [reason === ""]);
  const why = signInReason(reason);
  return (
    <main className="screen sign-in" id="main">
      <h1>Sign in to Ostler</h1>
      {why !== null && (
        <p>
          <Text>{why}</Text>
        </p>
      )}
      <SignInForm />
    </main>
  );
}

/** Above the screen or in the dialog of a page that was signed in, which stays. */
export function SignInBanner() {
  const reason = useSyncExternalStore(signedOut.subscribe, signedOut.get);
  const [isOpen, setOpen] = useState(false);
  if (reason === null) return null;
  return (
    <section aria-label="Sign in" className="problem sign-in">
      <p role="alert">
        <Text>{signInReason(reason) ?? "The service asks who you are."}</Text>
      </p>
      {isOpen ? (
        <SignInForm target="_blank" />
      ) : (
        <button type="button" onClick={() => setOpen(true)}>
          Sign in
        </button>
      )}
    </section>
  );
}

/** `target`: where the page of the issuer opens. */
function SignInForm({ target }: { readonly target?: "_blank" }) {
  const [error, setError] = useState<Error | null>(null);
  const [isSending, setSending] = useState(false);
  const issuer = useIssuer();
  const here = location.pathname + location.search;

  async function send(token: string): Promise<void> {
    setSending(true);
    setError(null);
    try {
      await checkToken(token);
      signIn(token);
    } catch (cause) {
      const refusal = cause as RequestError;
      setError(
        refusal.code === "UNAUTHENTICATED" ? new Error(signInReason(refusal.message) ?? refusal.message) : refusal,
      );
      setSending(false);
    }
  }

  return (
    <>
      {issuer !== null && (
        <p>
          <a className="button primary" href={`/auth/login?return=${encodeURIComponent(here)}`} target={target}>
            Sign in with <Text>{issuer}</Text>
          </a>
        </p>
      )}
      <form
        onSubmit={(event) => {
          event.preventDefault();
          const token = new FormData(event.currentTarget).get("token");
          if (typeof token === "string") void send(token.trim());
        }}
      >
        {/* Password managers keep a token under a name. */}
        <input type="text" autoComplete="username" value="ostler" readOnly hidden />
        <label className="field">
          Token
          <input name="token" type="password" autoComplete="current-password" required />
        </label>
        <p className="quiet">It is kept for this tab only, until you close it or sign out.</p>
        {error && <Problem error={error} />}
        <button type="submit" className="primary" disabled={isSending}>
          Sign in
        </button>
      </form>
    </>
  );
}
