/** Errors of this driver, and what the texts of SSH and of Ansible mean. */
import type { DriverError, DriverErrorKind, StepResult } from "../../src/drivers/driver.ts";

/** Thrown by functions of this driver. The engine recognizes it by its name, as the contract requires. */
export class AnsibleError extends Error implements DriverError {
  override readonly name = "DriverError";
  readonly kind: DriverErrorKind;
  readonly retryable: boolean;

  constructor(kind: DriverErrorKind, message: string, { retryable = false } = {}) {
    super(message);
    this.kind = kind;
    this.retryable = retryable;
  }
}

interface Rule {
  readonly pattern: RegExp;
  readonly kind: DriverErrorKind;
  readonly retryable?: true;
  /** For operators; the end of a sentence whose subject is the host. */
  readonly says: string;
}

/** In order: what SSH and sshpass print if a login fails. */
const RULES: readonly Rule[] = [
  {
    pattern: /REMOTE HOST IDENTIFICATION HAS CHANGED|host key for .* has changed/i,
    kind: "REFUSED",
    says: "shows another host key than before; if its system was installed again, give the new key as hostKeys in the node's settings, or in known_hosts on the service's machine",
  },
  {
    pattern: /Host key verification failed|no .* host key is known|host key is not known/i,
    kind: "REFUSED",
    says: "shows a host key that is not known; give it as hostKeys in the node's settings or in known_hosts on the service's machine, or accept it with hostKey: FIRST_USE",
  },
  {
    pattern: /Permission denied|Too many authentication failures|Invalid\/incorrect password|Authentication failed/i,
    kind: "AUTHENTICATION",
    says: "refuses the login; check username, privateKey and password in the node's settings",
  },
  {
    pattern: /No user exists for uid/,
    kind: "OTHER",
    says: "was not reached, because SSH needs a user with a name; set OSTLER_DRIVER_USER to a user of the service's machine",
  },
  {
    pattern: /sshpass: (command )?not found|you must install the sshpass program/i,
    kind: "OTHER",
    says: "was not reached, because a login by password needs the program sshpass; install it (Debian: apt-get install sshpass), or use a privateKey",
  },
  {
    pattern: /Could not resolve hostname|Connection refused|timed out|No route to host|Network is unreachable/i,
    kind: "UNREACHABLE",
    retryable: true,
    says: "does not answer; check that it runs, its network, and address and port in the node's settings",
  },
  {
    pattern: /Connection (closed|reset)|Broken pipe|kex_exchange_identification|banner exchange/i,
    kind: "UNREACHABLE",
    retryable: true,
    says: "has ended the connection; check its SSH server",
  },
];

/** The failure of a login, by what SSH has printed. */
export function loginFailure(host: string, text: string): AnsibleError {
  const rule = RULES.find(({ pattern }) => pattern.test(text));
  if (rule) return new AnsibleError(rule.kind, `Host ${host} ${rule.says}.`, { retryable: rule.retryable ?? false });
  const line = lastLine(text);
  return new AnsibleError("UNREACHABLE", `Host ${host} was not reached${line && `: "${line}"`}.`, { retryable: true });
}

/** The last line of a text that says something. */
export function lastLine(text: string): string {
  const line = text
    .split("\n")
    .map((one) => one.trim())
    .filter((one) => one !== "")
    .at(-1);
  return line?.slice(0, 500) ?? "";
}

/** The result of a step whose work has thrown. Throws errors that are not of this driver. */
export function failed(error: unknown): StepResult {
  if (!(error instanceof AnsibleError)) throw error;
  return { kind: "failed", reason: error.message, retryable: error.retryable, errorKind: error.kind };
}
