/**
 * Classifies failed ipmitool calls. ipmitool ends with exit code 1 (or even 0) and a line of text for every failure,
 * and prints "Unable to establish IPMI v2 / RMCP+ session" both for a wrong password and for a dead BMC. With `-v` it
 * adds the reason, which decides if there is one. Without a reason the class depends on whether the BMC is present at
 * all.
 */
import type { DriverError, DriverErrorKind } from "../../src/drivers/driver.ts";

/** Thrown by functions of this driver. The engine recognizes it by its name, as the contract requires. */
export class IpmiError extends Error implements DriverError {
  override readonly name = "DriverError";
  readonly kind: DriverErrorKind;
  readonly retryable: boolean;
  readonly withoutEffect: boolean;
  readonly away: boolean;

  constructor(failure: Failure, options?: ErrorOptions) {
    super(failure.message, options);
    this.kind = failure.kind;
    this.retryable = failure.retryable;
    this.withoutEffect = failure.withoutEffect === true;
    this.away = failure.away === true;
  }
}

/** The same failure, of a request that only reads and that precedes every change. */
export function beforeChange({ kind, retryable, message, away, cause }: IpmiError): IpmiError {
  return new IpmiError({ kind, retryable, message, away, withoutEffect: true }, { cause });
}

export interface Failure {
  readonly kind: DriverErrorKind;
  readonly retryable: boolean;
  /** For operators. */
  readonly message: string;
  /** True if nothing has been sent that changes the machine. */
  readonly withoutEffect?: boolean;
  /** True if the BMC may be restarting. */
  readonly away?: boolean;
}

/** Known from the text, or dependent on whether the BMC answers a request that needs no login. */
export type Classification = { readonly failure: Failure } | { readonly present: Failure; readonly silent: Failure };

/** The end of an ipmitool process. */
export interface FailedCall {
  /** The BMC, "address:port". */
  readonly bmc: string;
  /** The request, as the end of "the BMC was asked to …". */
  readonly task: string;
  readonly username: string;
  readonly cipherSuite: number;
  readonly privilege: string;
  /** Standard output and standard error. */
  readonly text: string;
  /** Set if it was killed after its time limit. */
  readonly killedAfterSeconds?: number;
}

/** Pure. The first matching rule decides. */
export function classifyFailure(call: FailedCall): Classification {
  // Before the time limit: ipmitool starts a login four times, which can take longer than the call.
  if (/no response from RAKP/.test(call.text)) return loginOrSilence(call);
  if (call.killedAfterSeconds !== undefined) {
    const message = `BMC ${call.bmc} answers, but did not ${call.task} within ${call.killedAfterSeconds} s; try again, or restart the BMC.`;
    const present = { kind: "TIMEOUT", retryable: true, message } as const;
    // After the login the BMC may have received the request, even if it does not answer any more.
    return LOGGED_IN.test(call.text) ? { failure: present } : { silent: silentBmc(call), present };
  }
  for (const { pattern, classify } of RULES) {
    const match = pattern.exec(call.text);
    if (match) return classify(call, match);
  }
  return unknownFailure(call);
}

interface FailureRule {
  readonly pattern: RegExp;
  readonly classify: (call: FailedCall, match: RegExpExecArray) => Classification;
}

/** In order: the reason of a failed login precedes the general line, which every failed login has. */
const RULES: readonly FailureRule[] = [
  {
    pattern: /Address lookup for .* failed|Could not open socket/,
    classify: ({ bmc }) =>
      known(
        "UNREACHABLE",
        true,
        `BMC ${bmc} cannot be reached: its address does not resolve or has no route; check the address in the node's settings.`,
      ),
  },
  {
    pattern: /invalid role|unauthorized role/i,
    classify: ({ bmc, username, privilege }) =>
      known(
        "AUTHENTICATION",
        false,
        `BMC ${bmc} accepts the login of user "${username}", but not as ${privilege}; give the user that privilege on the BMC, or lower \`privilege\` in the node's settings.`,
      ),
  },
  {
    pattern: /RAKP 2 HMAC is invalid|unauthorized name|RAKP 4 message/i,
    classify: ({ bmc, username }) =>
      known(
        "AUTHENTICATION",
        false,
        `BMC ${bmc} refuses the login of user "${username}"; check user name and password in the node's settings, and that the user may log in over LAN.`,
      ),
  },
  {
    pattern: /insufficient resources for session/i,
    classify: ({ bmc }) =>
      known("REFUSED", true, `BMC ${bmc} has no free session; end other sessions on it, or try again later.`),
  },
  {
    pattern: /(?:Error in open session response message|RAKP 2 message indicates an error) : (.+)/,
    classify: (call, [, reason = ""]) => refusedCipherSuite(call, reason.trim()),
  },
  { pattern: /Unsupported cipher suite/i, classify: (call) => refusedCipherSuite(call, "unsupported") },
  {
    pattern: /does not support IPMI v2/,
    classify: ({ bmc }) =>
      known(
        "REFUSED",
        false,
        `BMC ${bmc} does not support IPMI 2.0, and the driver does not support IPMI 1.5; update the firmware of the BMC, or use another driver.`,
      ),
  },
  { pattern: /Get Auth Capabilities error(?!:)/, classify: (call) => ({ failure: silentBmc(call) }) },
  {
    pattern: /failed: Insufficient privilege level/,
    classify: ({ bmc, task, username, privilege }) =>
      known(
        "REFUSED",
        false,
        `BMC ${bmc} does not let user "${username}" ${task} as ${privilege}; give the user more privilege on the BMC, or raise \`privilege\` in the node's settings.`,
      ),
  },
  {
    pattern: /(?:failed: |Device not present \()([^)\n]+)/,
    classify({ bmc, task }, [, reason = ""]) {
      const refusal = reason.trim();
      if (UNKNOWN_REQUEST.test(refusal)) return known("UNSUPPORTED", false, `BMC ${bmc} cannot ${task}: "${refusal}".`);
      return known("REFUSED", TEMPORARY.test(refusal), `BMC ${bmc} refused to ${task}: "${refusal}".`);
    },
  },
  { pattern: /Unable to establish/, classify: loginOrSilence },
  {
    // A session without a refusal that could not be closed: the BMC stopped answering.
    pattern: /Close Session command failed|^Unable to (get|set) /m,
    classify: ({ bmc, task }) =>
      known(
        "TIMEOUT",
        true,
        `BMC ${bmc} accepted the login, but did not answer the request to ${task}; if it is always slow, raise \`replySeconds\` in the node's settings.`,
      ),
  },
];

/** Lines that `-v` prints once a session is open. */
const LOGGED_IN = /^(Running Get |Discovered IPMB)/m;

/**
 * Refusals of a request that the BMC, or the machine behind it, does not know. The driver sends none that is malformed.
 */
const UNKNOWN_REQUEST = /^(Invalid command|Invalid data field in request|Parameter not supported|Unknown \(0x80\))/i;

/** Refusals that end without a change of settings: the BMC is busy, starting, or between two states. */
const TEMPORARY =
  /busy|timeout|out of space|initiali[sz]ation|update mode|present state|could not be provided|unspecified/i;

function known(kind: DriverErrorKind, retryable: boolean, message: string): Classification {
  return { failure: { kind, retryable, message } };
}

function silentBmc({ bmc }: FailedCall): Failure {
  return {
    kind: "UNREACHABLE",
    retryable: true,
    away: true,
    message: `BMC ${bmc} does not answer; check its power, its network and the address and port in the node's settings.`,
  };
}

/** A login that did not complete: a login problem if the BMC is present, a network problem if not. */
function loginOrSilence(call: FailedCall): Classification {
  const message = `BMC ${call.bmc} answers, but does not complete the login of user "${call.username}"; check user name and password in the node's settings, and that the user is not locked on the BMC.`;
  return { silent: silentBmc(call), present: { kind: "AUTHENTICATION", retryable: true, message } };
}

function refusedCipherSuite({ bmc, cipherSuite }: FailedCall, reason: string): Classification {
  return known(
    "REFUSED",
    false,
    `BMC ${bmc} does not accept cipher suite ${cipherSuite} (${reason}); set \`cipherSuite\` to ${cipherSuite === 17 ? 3 : 17} in the node's settings.`,
  );
}

/** Lines that `-v` also prints in successful calls. */
const CHATTER =
  /^(Loading IANA|Running Get |Invalid completion code received|Discovered |Get HPM\.x |No PICMG|Error Response 0x\w+ from Get PICMG|Close Session command failed)/;

function unknownFailure({ bmc, task, text }: FailedCall): Classification {
  const reason = text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "" && !CHATTER.test(line))
    .at(-1);
  const quoted = reason === undefined ? "it gave no reason" : `"${reason.slice(0, 200)}"`;
  return known("OTHER", true, `ipmitool could not ${task} at BMC ${bmc}: ${quoted}.`);
}
