/** Callers of a service without accounts: those with the configured token, or all. */
import { Authenticator } from "../../src/access/authenticator.ts";
import type { Directory } from "../../src/access/directory.ts";
import { createLogins } from "../../src/http/port/logins.ts";
import type { Logins } from "../../src/http/port/logins.ts";

export function authenticatorWith(token: string | null): Authenticator {
  const directory: Partial<Directory> = {
    rules: { scopeOf: new Map(), grantsOf: new Map(), admins: new Set() },
    token: () => undefined,
    onChange: () => () => {},
    lookUp: () => Promise.resolve(undefined),
  };
  return new Authenticator({ directory: directory as Directory, token });
}

export function loginsWith(token: string | null): Logins {
  return createLogins(authenticatorWith(token), { addressOf: () => "192.0.2.1", isSecure: () => false }, () => {});
}
