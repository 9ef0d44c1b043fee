/** The page of the sign-in. It works without JavaScript, and loads nothing. */
import type { ServerResponse } from "node:http";

const POLICY =
  "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const STYLE = `
  :root { color-scheme: light dark; }
  body { font: 16px/1.5 system-ui, sans-serif; margin: 0; display: grid; min-height: 100vh; place-items: center; }
  main { width: min(26rem, 100% - 2rem); }
  h1 { font-size: 1.5rem; }
  label, input, button { display: block; width: 100%; box-sizing: border-box; font: inherit; }
  input, button { padding: 0.5rem; margin: 0.25rem 0 1rem; }
  [role="alert"] { border-left: 4px solid #c62828; padding-left: 0.75rem; }
`;

export interface SignInPage {
  readonly status: number;
  /** Why there is no session; shown as an alert. */
  readonly message?: string;
  /** A sentence that is not about a failure. */
  readonly notice?: string;
  /** The local path to which the sign-in leads. */
  readonly returnTo: string;
  /** Shows a link to the sign-in at this issuer; null: there is none. */
  readonly issuer: string | null;
}

export function sendPage(response: ServerResponse, { status, message, notice, returnTo, issuer }: SignInPage): void {
  const link =
    issuer === null
      ? ""
      : `<p><a href="/auth/login?return=${encodeURIComponent(returnTo)}">Sign in with ${escaped(issuer)}</a></p>`;
  const alert = message === undefined ? "" : `<p role="alert" id="message">${escaped(message)}</p>`;
  const invalid = message === undefined ? "" : ` aria-describedby="message"`;
  response.writeHead(status, {
    "content-type": "text/html; charset=utf-8",
    "content-security-policy": POLICY,
    "cache-control": "no-store",
    "referrer-policy": "same-origin",
  }).end(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sign in – Ostler</title>
<style>${STYLE}</style>
</head>
<body>
<main>
<h1>Ostler</h1>
${notice === undefined ? "" : `<p>${escaped(notice)}</p>`}${alert}${link}
<form method="post" action="/auth/session">
<input type="hidden" name="return" value="${escaped(returnTo)}">
<label for="token">Token</label>
<input id="token" name="token" type="password" autocomplete="current-password" required${invalid}${issuer === null ? " autofocus" : ""}>
<button>Sign in with a token</button>
</form>
</main>
</body>
</html>
`);
}

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
